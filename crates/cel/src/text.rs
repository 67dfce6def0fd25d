//! Functions on strings, by code points.

use crate::value::{Evaluated, Fault, Value};

fn out_of_range<'a>(index: i64) -> Evaluated<'a> {
    Err(Fault::new(format!("index out of range: {index}")))
}

/// A method of a string; `None` if there is none of that name for these arguments.
pub(crate) fn method<'a>(name: &str, text: &str, args: &[Value<'a>]) -> Option<Evaluated<'a>> {
    Some(match (name, args) {
        ("contains", [Value::String(part)]) => Ok(Value::Bool(text.contains(&**part))),
        ("startsWith", [Value::String(part)]) => Ok(Value::Bool(text.starts_with(&**part))),
        ("endsWith", [Value::String(part)]) => Ok(Value::Bool(text.ends_with(&**part))),
        ("charAt", [Value::Int(at)]) => char_at(text, *at),
        ("indexOf", [Value::String(part)]) => index_of(text, part, 0),
        ("indexOf", [Value::String(part), Value::Int(from)]) => index_of(text, part, *from),
        ("lastIndexOf", [Value::String(part)]) => {
            let length = text.chars().count() as i64;
            if part.is_empty() {
                Ok(Value::Int(length))
            } else if text.len() < part.len() {
                Ok(Value::Int(-1))
            } else {
                last_index_of(text, part, length - 1)
            }
        }
        ("lastIndexOf", [Value::String(part), Value::Int(from)]) => {
            last_index_of(text, part, *from)
        }
        ("lowerAscii", []) => Ok(Value::text(text.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(Value::text(text.to_ascii_uppercase())),
        ("replace", [Value::String(old), Value::String(new)]) => {
            Ok(Value::text(replace(text, old, new, -1)))
        }
        ("replace", [Value::String(old), Value::String(new), Value::Int(count)]) => {
            Ok(Value::text(replace(text, old, new, *count)))
        }
        ("split", [Value::String(by)]) => Ok(Value::texts(split(text, by, -1))),
        ("split", [Value::String(by), Value::Int(count)]) => {
            Ok(Value::texts(split(text, by, *count)))
        }
        ("substring", [Value::Int(from)]) => substring(text, *from, None),
        ("substring", [Value::Int(from), Value::Int(to)]) => substring(text, *from, Some(*to)),
        ("trim", []) => Ok(Value::text(text.trim())),
        ("format", [Value::List(args)]) => crate::format::format(text, args).map(Value::text),
        _ => return None,
    })
}

fn char_at<'a>(text: &str, at: i64) -> Evaluated<'a> {
    let length = text.chars().count() as i64;
    if at < 0 || at > length {
        return out_of_range(at);
    }
    let found = text.chars().nth(at as usize).map(String::from);
    Ok(Value::text(found.unwrap_or_default()))
}

fn index_of<'a>(text: &str, part: &str, from: i64) -> Evaluated<'a> {
    if part.is_empty() {
        return Ok(Value::Int(from));
    }
    if from < 0 {
        return out_of_range(from);
    }
    let Some((begin, _)) = text.char_indices().nth(from as usize) else {
        return Ok(Value::Int(-1));
    };
    let found = text[begin..].find(part);
    let index = found.map_or(-1, |at| {
        from + text[begin..begin + at].chars().count() as i64
    });
    Ok(Value::Int(index))
}

fn last_index_of<'a>(text: &str, part: &str, from: i64) -> Evaluated<'a> {
    if part.is_empty() {
        return Ok(Value::Int(from));
    }
    if from < 0 {
        return out_of_range(from);
    }
    let length = text.chars().count() as i64;
    if from >= length {
        return Ok(Value::Int(-1));
    }
    // The last place at which the part may begin, and so where it must end.
    let end = (from + part.chars().count() as i64).min(length) as usize;
    let end = text
        .char_indices()
        .nth(end)
        .map_or(text.len(), |(at, _)| at);
    let found = text[..end].rfind(part);
    Ok(Value::Int(
        found.map_or(-1, |at| text[..at].chars().count() as i64),
    ))
}

fn substring<'a>(text: &str, from: i64, to: Option<i64>) -> Evaluated<'a> {
    let length = text.chars().count() as i64;
    let end = to.unwrap_or(length);
    if let Some(end) = to
        && from > end
    {
        return Err(Fault::new(format!(
            "invalid substring range. start: {from}, end: {end}"
        )));
    }
    for bound in [from, end] {
        if bound < 0 || bound > length {
            return out_of_range(bound);
        }
    }
    let part = text.chars().skip(from as usize).take((end - from) as usize);
    Ok(Value::text(part.collect::<String>()))
}

/// Go's `strings.Replace`: an empty text is found between all characters.
fn replace(text: &str, old: &str, new: &str, count: i64) -> String {
    if count < 0 {
        return text.replace(old, new);
    }
    text.replacen(old, new, count as usize)
}

/// Go's `strings.SplitN`.
fn split(text: &str, by: &str, count: i64) -> Vec<String> {
    if count == 0 {
        return Vec::new();
    }
    let most = if count < 0 {
        usize::MAX
    } else {
        count as usize
    };
    if by.is_empty() {
        let mut parts: Vec<String> = Vec::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            if parts.len() + 1 == most {
                parts.push(rest.to_owned());
                return parts;
            }
            parts.push(c.to_string());
            rest = &rest[c.len_utf8()..];
        }
        return parts;
    }
    text.splitn(most, by).map(str::to_owned).collect()
}

/// `strings.quote`.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
