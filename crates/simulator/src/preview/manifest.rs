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
    #[error("{file}: line {line}: this is no Kubernetes object: it has no {missing}")]
    NoObject {
        file: String,
        line: usize,
        missing: &'static str,
    },
}

impl Manifest {
    /// Reads all objects of a file; `file` is how messages call it.
    pub fn parse(file: &str, text: &str) -> Result<Vec<Manifest>, ManifestError> {
        let mut found = Vec::new();
        for (line, document) in documents(text) {
            let value = parse_document(file, line, &document)?;
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
        match self.text("/metadata/name") {
            "" => format!("{kind}/{}", self.text("/metadata/generateName")),
            name => format!("{kind}/{name}"),
        }
    }
}

/// The documents of a stream, each with its first line. Whatever stands at the beginning of a line after
/// three dashes is part of the document.
fn documents(text: &str) -> Vec<(usize, String)> {
    let mut found = vec![(1, String::new())];
    for (index, line) in text.lines().enumerate() {
        let separates = line == "---" || line.starts_with("--- ");
        if separates {
            found.push((index + 2, String::new()));
        } else if let Some((_, document)) = found.last_mut() {
            document.push_str(line);
            document.push('\n');
        }
    }
    found
}

fn parse_document(file: &str, first: usize, text: &str) -> Result<Value, ManifestError> {
    // The detour over the library's own values finds keys that are given twice.
    let value = serde_yaml_ng::from_str(text).and_then(|value: serde_yaml_ng::Value| {
        serde_json::to_value(value).map_err(serde::ser::Error::custom)
    });
    value.map_err(|error| {
        let at = error.location().map_or(1, |location| location.line());
        let mut problem = error.to_string();
        // The library's own idea of the place counts from the document, not from the file.
        if let Some(cut) = problem.find(" at line ") {
            problem.truncate(cut);
        }
        ManifestError::Syntax {
            file: file.to_owned(),
            line: first + at - 1,
            problem,
        }
    })
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
        let told = match Manifest::parse("x.yaml", text) {
            Ok(found) => found
                .iter()
                .map(|manifest| format!("{}:{}", manifest.line, manifest.name()))
                .collect::<Vec<_>>()
                .join(" "),
            Err(error) => error.to_string(),
        };
        assert_eq!(told, expected);
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
            "x.yaml: line 2: this is no Kubernetes object: it has no apiVersion",
        );
        check(
            "apiVersion: v1\n",
            "x.yaml: line 1: this is no Kubernetes object: it has no kind",
        );
        check(
            "just words\n",
            "x.yaml: line 1: this is no Kubernetes object: it has no apiVersion",
        );
        check(
            "a: 1\na: 2\n",
            "x.yaml: line 1: duplicate entry with key \"a\"",
        );
    }
}
