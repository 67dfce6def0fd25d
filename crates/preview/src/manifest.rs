//! Manifests as people write them: YAML or JSON, several documents in a file, lists.

use serde_json::Value;

/// One object of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// `web.yaml`, or `standard input`.
    pub file: String,
    /// Where its document begins, from 1.
    pub line: usize,
    pub object: Value,
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ManifestError {
    #[error("{file}: line {line}: {problem}")]
    Syntax {
        file: String,
        line: usize,
        problem: String,
    },
    #[error("{file}: line {line}: this is not a Kubernetes object: it has no {missing}")]
    NoObject {
        file: String,
        line: usize,
        missing: &'static str,
    },
    #[error("{file}: line {line}: the items of this List are not a list")]
    NoItems { file: String, line: usize },
}

impl Manifest {
    /// Reads all objects of a file; `file` is how messages call it.
    pub fn parse(file: &str, text: &str) -> Result<Vec<Manifest>, ManifestError> {
        let mut found = Vec::new();
        for (line, value) in documents(file, text)? {
            if value.is_null() {
                continue;
            }
            add(file, line, value, &mut found)?;
        }
        Ok(found)
    }

    pub(crate) fn text(&self, pointer: &str) -> &str {
        let found = self.object.pointer(pointer).and_then(Value::as_str);
        found.unwrap_or_default()
    }

    /// `deployment/web`
    pub(crate) fn name(&self) -> String {
        let kind = self.text("/kind").to_lowercase();
        match (
            self.text("/metadata/name"),
            self.text("/metadata/generateName"),
        ) {
            ("", "") => format!("a {kind} without a name"),
            ("", prefix) => format!("{kind}/{prefix}"),
            (name, _) => format!("{kind}/{name}"),
        }
    }
}

/// The documents of a stream, each with its first line.
fn documents(file: &str, text: &str) -> Result<Vec<(usize, Value)>, ManifestError> {
    let wrong = |line, problem| ManifestError::Syntax {
        file: file.to_owned(),
        line,
        problem,
    };
    let found = match (api::yaml::documents(text), json_objects(text)) {
        (Ok(found), _) => found,
        (Err(_), Some(objects)) => return Ok(objects),
        (Err(error), None) => return Err(wrong(error.line, error.problem)),
    };
    let mut values = Vec::new();
    for document in found {
        if let Some((line, name)) = document.twice.first() {
            return Err(wrong(*line, format!("duplicate entry with key \"{name}\"")));
        }
        let value = serde_json::from_str(&document.json);
        let value = value.map_err(|error| wrong(document.line, error.to_string()))?;
        values.push((document.line, value));
    }
    Ok(values)
}

/// JSON objects one after the other, which is no YAML.
fn json_objects(text: &str) -> Option<Vec<(usize, Value)>> {
    let text = text.trim_start_matches('\u{feff}');
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let mut objects = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut found = Vec::new();
    loop {
        let rest = &text[objects.byte_offset()..];
        let begin = text.len() - rest.trim_start().len();
        let line = 1 + text[..begin].matches('\n').count();
        match objects.next() {
            Some(object) => found.push((line, object.ok()?)),
            None => return Some(found),
        }
    }
}

/// Adds the object, or those of a list.
fn add(
    file: &str,
    line: usize,
    object: Value,
    found: &mut Vec<Manifest>,
) -> Result<(), ManifestError> {
    let text = |name: &str| object[name].as_str().unwrap_or_default();
    for missing in ["apiVersion", "kind"] {
        if text(missing).is_empty() {
            let file = file.to_owned();
            return Err(ManifestError::NoObject {
                file,
                line,
                missing,
            });
        }
    }
    if text("kind").ends_with("List") && object["items"].is_array() {
        // Lists of the API leave the type out of their items.
        let item_kind = text("kind").trim_end_matches("List").to_owned();
        let version = text("apiVersion").to_owned();
        for mut item in object["items"].as_array().cloned().unwrap_or_default() {
            if !item_kind.is_empty() && item["kind"].is_null() {
                item["kind"] = Value::from(item_kind.clone());
                item["apiVersion"] = Value::from(version.clone());
            }
            add(file, line, item, found)?;
        }
        return Ok(());
    }
    if text("kind") == "List" {
        let file = file.to_owned();
        return match object["items"].is_null() {
            true => Ok(()),
            false => Err(ManifestError::NoItems { file, line }),
        };
    }
    found.push(Manifest {
        file: file.to_owned(),
        line,
        object,
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let parsed = match Manifest::parse("x.yaml", text) {
            Ok(found) => found
                .iter()
                .map(|manifest| format!("{}:{}", manifest.line, manifest.name()))
                .collect::<Vec<_>>()
                .join(" "),
            Err(error) => error.to_string(),
        };
        assert_eq!(parsed, expected);
    }

    #[test]
    fn documents_and_lists() {
        check("", "");
        check("# nothing\n---\n---\n", "");
        check(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Pod\nmetadata:\n  generateName: b-\n",
            "1:pod/a 5:pod/b-",
        );
        check(
            "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n- {apiVersion: apps/v1, kind: Deployment, metadata: {name: b}}\n",
            "1:pod/a 1:deployment/b",
        );
        check(
            "{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"a\"}}\n\n{\"apiVersion\": \"v1\", \"kind\": \"Pod\"}\n",
            "1:pod/a 3:a pod without a name",
        );
        check(
            "\u{feff}# first\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n",
            "2:pod/a",
        );
        check(
            r#"{"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "a"}}]}"#,
            "1:pod/a",
        );
    }

    #[test]
    fn mistakes_are_placed() {
        check(
            "apiVersion: v1\nkind: Pod\n---\na: b\n  c: [\n",
            "x.yaml: line 5: mapping values are not allowed in this context",
        );
        check(
            "---\nmetadata: {name: a}\n",
            "x.yaml: line 2: this is not a Kubernetes object: it has no apiVersion",
        );
        check(
            "apiVersion: v1\n",
            "x.yaml: line 1: this is not a Kubernetes object: it has no kind",
        );
        check(
            "just words\n",
            "x.yaml: line 1: this is not a Kubernetes object: it has no apiVersion",
        );
        check(
            "apiVersion: v1\nkind: List\nitems: hello\n",
            "x.yaml: line 1: the items of this List are not a list",
        );
        check("apiVersion: v1\nkind: List\n", "");
        check(
            "a: 1\na: 2\n",
            "x.yaml: line 2: duplicate entry with key \"a\"",
        );
    }
}
