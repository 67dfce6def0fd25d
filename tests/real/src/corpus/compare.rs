//! Judges two servers by what each answered to the same scenario, and knows what may differ.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

use super::Observed;

/// A difference that is meant to be or not worth its cost, with the reason for whoever meets it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// The scenario; none means all of them.
    scenario: Option<String>,
    /// A part of the title of the request; none means all of them.
    request: Option<String>,
    /// The beginning of the place of the difference, such as `/body/message`; `*` is any one step.
    place: String,
    /// It depends on the time, so the entry may explain nothing.
    #[serde(default)]
    pub sometimes: bool,
    #[expect(dead_code, reason = "for whoever reads the file")]
    why: String,
}

#[derive(Clone, Debug)]
pub struct Difference {
    pub scenario: String,
    pub title: String,
    pub place: String,
    pub theirs: String,
    pub ours: String,
}

pub fn known(path: &Path) -> Result<Vec<Known>> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(serde_yaml_ng::from_str(&text)?)
}

/// All differences between the answers of two servers to one scenario.
pub fn differences(scenario: &str, theirs: &[Observed], ours: &[Observed]) -> Vec<Difference> {
    let mut found = Vec::new();
    for (theirs, ours) in theirs.iter().zip(ours) {
        let mut places = Vec::new();
        compare("", Some(&theirs.answer), Some(&ours.answer), &mut places);
        if theirs.answer["code"] != ours.answer["code"] {
            // A refusal has nothing in common with an object: its message says what is to be said.
            places.retain(|(place, ..)| {
                [
                    "/code",
                    "/body/message",
                    "/body/details",
                    "/body/details/causes",
                ]
                .contains(&place.as_str())
            });
        }
        found.extend(
            places
                .into_iter()
                .map(|(place, theirs_at, ours_at)| Difference {
                    scenario: scenario.to_owned(),
                    title: theirs.title.clone(),
                    place,
                    theirs: theirs_at,
                    ours: ours_at,
                }),
        );
    }
    found
}

/// Takes the known ones out; returns the others and the indexes of the entries that explained any.
pub fn unexplained(found: Vec<Difference>, known: &[Known]) -> (Vec<Difference>, BTreeSet<usize>) {
    let mut used = BTreeSet::new();
    let explains = |entry: &Known, difference: &Difference| {
        let same = |wanted: &Option<String>, text: &str, whole: bool| match wanted {
            None => true,
            Some(wanted) if whole => wanted == text,
            Some(wanted) => text.contains(wanted.as_str()),
        };
        same(&entry.scenario, &difference.scenario, true)
            && same(&entry.request, &difference.title, false)
            && lies_in(&difference.place, &entry.place)
    };
    let mut rest = Vec::new();
    for difference in found {
        match known.iter().position(|entry| explains(entry, &difference)) {
            Some(index) => {
                used.insert(index);
            }
            None => rest.push(difference),
        }
    }
    (rest, used)
}

impl std::fmt::Display for Difference {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Difference {
            scenario,
            title,
            place,
            theirs,
            ours,
        } = self;
        write!(
            formatter,
            "{scenario}: {title}\n  {place}\n    theirs: {theirs}\n    ours:   {ours}"
        )
    }
}

impl Known {
    /// How an entry that explains nothing is named.
    pub fn shown(&self) -> String {
        let part = |text: &Option<String>| text.clone().unwrap_or_else(|| "*".to_owned());
        format!(
            "{}: {} {}",
            part(&self.scenario),
            part(&self.request),
            self.place
        )
    }
}

fn lies_in(place: &str, pattern: &str) -> bool {
    let mut steps = place.split('/');
    pattern.split('/').all(|wanted| {
        steps
            .next()
            .is_some_and(|step| wanted == "*" || wanted == step)
    })
}

fn compare(
    place: &str,
    theirs: Option<&Value>,
    ours: Option<&Value>,
    found: &mut Vec<(String, String, String)>,
) {
    match (theirs, ours) {
        (Some(Value::Object(theirs)), Some(Value::Object(ours))) => {
            let keys: BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
            for key in keys {
                compare(
                    &format!("{place}/{key}"),
                    theirs.get(key),
                    ours.get(key),
                    found,
                );
            }
        }
        (Some(Value::Array(theirs)), Some(Value::Array(ours))) if theirs.len() == ours.len() => {
            for (index, (theirs, ours)) in theirs.iter().zip(ours).enumerate() {
                compare(&format!("{place}/{index}"), Some(theirs), Some(ours), found);
            }
        }
        (Some(Value::Array(theirs)), Some(Value::Array(ours))) if by_name(theirs).is_some() => {
            let (theirs, ours) = (by_name(theirs), by_name(ours));
            compare(place, theirs.as_ref(), ours.as_ref(), found);
        }
        (theirs, ours) if theirs != ours => {
            let shown =
                |value: Option<&Value>| value.map_or("(absent)".to_owned(), Value::to_string);
            found.push((place.to_owned(), shown(theirs), shown(ours)));
        }
        _ => {}
    }
}

/// A list of things with names as a map, to say which of them differ if they are not equally many.
fn by_name(items: &[Value]) -> Option<Value> {
    let named = items.iter().map(|item| {
        let name = item.get("name").or_else(|| item.get("resource"))?;
        Some((name.as_str()?.replace('/', "."), item.clone()))
    });
    Some(Value::Object(named.collect::<Option<_>>()?)).filter(|_| !items.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn observed(answer: Value) -> Vec<Observed> {
        vec![Observed {
            title: "GET v1:pods".to_owned(),
            answer,
        }]
    }

    #[test]
    fn a_known_difference_is_taken_out_and_marks_its_entry() {
        let theirs = observed(json!({"code": 200, "body": {"a": 1, "b": [1]}}));
        let ours = observed(json!({"code": 200, "body": {"a": 2, "b": [1, 2]}}));
        let found = differences("s", &theirs, &ours);
        let places: Vec<&str> = found.iter().map(|found| found.place.as_str()).collect();
        assert_eq!(places, ["/body/a", "/body/b"]);
        let known: Vec<Known> = serde_json::from_value(json!([
            {"scenario": "other", "place": "/body", "why": ""},
            {"request": "pods", "place": "/body/a", "why": ""},
        ]))
        .unwrap();
        let (rest, used) = unexplained(found, &known);
        assert_eq!(rest.len(), 1);
        assert_eq!(used, BTreeSet::from([1]));
    }
}
