//! Which pods something in a file is about.

use api::selector::{LabelSelector, LabelSelectorRequirement, Selector};
use api::{Istr, LabelSet};
use serde::Deserialize;

use crate::pod::Pod;

/// Which pods; all parts must match, and what is left out matches all.
#[derive(Clone, Debug)]
pub(crate) struct PodSelector {
    namespaces: Vec<Istr>,
    labels: Selector,
    annotations: LabelSet,
    images: Vec<String>,
    owners: Vec<Istr>,
}

impl PodSelector {
    pub(crate) fn selects(&self, pod: &Pod) -> bool {
        let meta = &pod.metadata;
        let listed =
            |list: &[Istr], value: &str| list.is_empty() || list.iter().any(|one| *one == *value);
        let owner = meta.controller().map_or("", |owner| owner.kind.as_str());
        let mut annotations = self.annotations.iter();
        let mut images = pod
            .spec
            .all_containers()
            .map(|container| container.image.as_str());
        listed(&self.namespaces, &meta.namespace)
            && listed(&self.owners, owner)
            && self.labels.matches(&meta.labels)
            && annotations.all(|(key, value)| meta.annotation(key) == Some(value))
            && (self.images.is_empty()
                || images.any(|image| self.images.iter().any(|pattern| matches(pattern, image))))
    }
}

/// `postgres:*`: a star stands for anything.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|left| {
            let mut ends = left.char_indices().map(|(end, _)| end).chain([left.len()]);
            ends.any(|end| matches(rest, &left[end..]))
        }),
    }
}

/// As people write it.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct WireSelector {
    namespaces: Vec<Istr>,
    match_labels: LabelSet,
    match_expressions: Vec<LabelSelectorRequirement>,
    match_annotations: LabelSet,
    images: Vec<String>,
    owners: Vec<Istr>,
}

impl WireSelector {
    /// What is wrong with its labels, if it does not make one.
    pub(crate) fn compile(self) -> Result<PodSelector, String> {
        let labels = LabelSelector {
            match_labels: self.match_labels,
            match_expressions: self.match_expressions.into(),
        };
        Ok(PodSelector {
            labels: labels.compile().map_err(|error| error.to_string())?,
            namespaces: self.namespaces,
            annotations: self.match_annotations,
            images: self.images,
            owners: self.owners,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_match_anything() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("a*", "abc", true),
            ("*:missing", "x/y:missing", true),
            ("a*c*e", "abcde", true),
            ("a*c", "abd", false),
            ("abc", "abc", true),
            ("*ü", "xü", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
