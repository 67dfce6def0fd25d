//! A rule's `fieldPath`: `.spec.containers` or `.labels['a.b']`, below the place of the rule.

use serde_json::Value;

/// The path as errors print it; the error says what is wrong with it.
pub(crate) fn resolve(path: &str, schema: &Value) -> Result<String, String> {
    const NOWHERE: &str = "does not refer to a valid field";
    const END: &str = "unexpected end of JSON path";
    let mut schema = schema;
    let mut resolved = String::new();
    let mut rest = path;
    while !rest.is_empty() {
        let (name, after) = if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            if after.is_empty() {
                return Err(END.to_owned());
            }
            (after[..end].to_owned(), &after[end..])
        } else if let Some(after) = rest.strip_prefix('[') {
            quoted(after)?
        } else {
            return Err(format!("expected [ or . but got: {rest}"));
        };
        if let Some(properties) = schema["properties"].as_object() {
            schema = properties.get(&name).ok_or(NOWHERE)?;
            if !resolved.is_empty() {
                resolved.push('.');
            }
            resolved.push_str(&name);
        } else if schema["additionalProperties"].is_object() {
            schema = &schema["additionalProperties"];
            resolved.push_str(&format!("[{name}]"));
        } else {
            return Err(NOWHERE.to_owned());
        }
        rest = after;
    }
    Ok(resolved)
}

/// `'name']` with its escapes resolved, and what follows.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let inner = text
        .strip_prefix('\'')
        .ok_or_else(|| format!("expected single quoted string but got {text}"))?;
    let mut name = String::new();
    let mut chars = inner.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => {
                let rest = inner[at + 1..].strip_prefix(']');
                return Ok((name, rest.ok_or("expected ]")?));
            }
            '\\' => match chars.next().map(|(_, c)| c) {
                Some(c @ ('\'' | '\\')) => name.push(c),
                Some('n') => name.push('\n'),
                Some('t') => name.push('\t'),
                Some('r') => name.push('\r'),
                other => {
                    let shown = other.map(String::from).unwrap_or_default();
                    return Err(format!(
                        "invalid string literal: invalid escape char \\{shown}"
                    ));
                }
            },
            c => name.push(c),
        }
    }
    Err("unexpected end of JSON path".to_owned())
}

#[cfg(test)]
mod tests {
    use super::resolve;
    use serde_json::json;

    #[test]
    fn paths_lead_to_fields_of_the_schema() {
        let schema = json!({"properties": {
            "spec": {"properties": {"a.b": {"type": "string"}}},
            "labels": {"additionalProperties": {"type": "string"}},
        }});
        for (path, resolved) in [
            (".spec", Some("spec")),
            (".spec['a.b']", Some("spec.a.b")),
            (".labels['x']", Some("labels[x]")),
            (".labels.x", Some("labels[x]")),
            (".nothing", None),
            ("spec", None),
            (".", None),
            (".spec['a.b", None),
        ] {
            assert_eq!(resolve(path, &schema).ok().as_deref(), resolved, "{path}");
        }
    }
}
