//! Takes out of an answer what differs between any two runs: uids, times, revisions, random names,
//! addresses and ports. Each becomes a number in the order of its first appearance, so that "the same
//! uid as before" and "the revision has not moved" are still compared.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

#[derive(Clone, Default)]
pub(super) struct Normaliser {
    /// What was seen, by its text.
    seen: BTreeMap<String, String>,
    counts: BTreeMap<&'static str, usize>,
    /// The addresses and ports that each object was seen with. Another object may draw one that was released.
    drawn: BTreeMap<(String, &'static str), Vec<String>>,
    /// The uid of the object that is being walked through.
    object: String,
    /// The revisions seen of each uid, and the uids seen of each name.
    versions: BTreeMap<String, Vec<String>>,
}

impl Normaliser {
    pub(super) fn normalise(&mut self, answer: &mut Value) {
        self.walk("", answer, false);
        self.texts(answer);
        if let Some(body) = answer.get_mut("body") {
            causes(body);
        }
    }

    /// Replaces whole values by what their field says they are.
    fn walk(&mut self, key: &str, value: &mut Value, in_list: bool) {
        match value {
            Value::Object(map) => {
                let generated = map.get("generateName").and_then(Value::as_str);
                let name = map.get("name").and_then(Value::as_str);
                if let (Some(prefix), Some(name)) = (generated, name)
                    && name.len() == prefix.len() + 5
                {
                    let name = name.to_owned();
                    self.number(&name, "name");
                }
                let uid = map
                    .get("metadata")
                    .and_then(|metadata| metadata["uid"].as_str());
                if let Some(uid) = uid {
                    self.object = uid.to_owned();
                }
                self.versions(map);
                let kind = map.get("kind").and_then(Value::as_str).unwrap_or_default();
                // The revision of a list, table or bookmark is that of the whole server, which others move.
                let of_list = kind.ends_with("List")
                    || kind == "Table"
                    || map.get("type").is_some_and(|kind| kind == "BOOKMARK");
                for (key, value) in map.iter_mut() {
                    let inside = of_list && (key == "metadata" || key == "object")
                        || in_list && key == "metadata";
                    self.walk(key, value, inside);
                    if key == "resourceVersion" && in_list {
                        *value = "(some revision)".into();
                    }
                }
            }
            Value::Array(items) => {
                for item in items.iter_mut() {
                    self.walk(key, item, false);
                }
                if key == "managedFields" {
                    // They are sorted by their times, which depends on when a second ended.
                    items.sort_by_cached_key(Value::to_string);
                }
            }
            Value::String(text) => {
                if let Some(kind) = changing(key, text)
                    && !in_list
                {
                    *text = match kind {
                        "address" => self.draw(text, kind),
                        _ => self.number(text, kind),
                    };
                } else if key == "cells" && is_age(text) {
                    *text = "(an age)".to_owned();
                } else if is_time(text) {
                    *text = "(a time)".to_owned();
                }
            }
            Value::Number(number) if matches!(key, "nodePort" | "healthCheckNodePort") => {
                let text = number.to_string();
                *value = self.draw(&text, "port").into();
            }
            _ => {}
        }
    }

    /// Says of a revision whether its object has moved, and of a uid the how manieth it is of its
    /// name: one too many then shows where it was made and nowhere else.
    fn versions(&mut self, metadata: &mut Map<String, Value>) {
        let text = |field: &str| {
            metadata
                .get(field)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let (name, uid, revision) = (text("name"), text("uid"), text("resourceVersion"));
        let Some(uid) = uid.filter(|uid| !uid.is_empty()) else {
            return;
        };
        if let Some(revision) = revision {
            let seen = self.versions.entry(uid.clone()).or_default();
            let shown = match seen.iter().position(|known| *known == revision) {
                None if seen.is_empty() => "(its first revision)",
                None => "(a new revision)",
                Some(place) if place + 1 == seen.len() => "(the same revision)",
                Some(_) => "(an old revision)",
            };
            if shown == "(a new revision)" || seen.is_empty() {
                seen.push(revision);
            }
            metadata.insert("resourceVersion".to_owned(), shown.into());
        }
        if let Some(name) = name {
            let seen = self.versions.entry(name.clone()).or_default();
            let place = seen.iter().position(|known| *known == uid);
            let place = place.unwrap_or_else(|| {
                seen.push(uid.clone());
                seen.len() - 1
            });
            let shown = format!("(uid {} of {name})", place + 1);
            self.seen.insert(uid, shown.clone());
            metadata.insert("uid".to_owned(), shown.into());
        }
    }

    fn number(&mut self, text: &str, kind: &'static str) -> String {
        if let Some(known) = self.seen.get(text) {
            return known.clone();
        }
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        let name = format!("({kind} {count})");
        self.seen.insert(text.to_owned(), name.clone());
        name
    }

    /// Numbers what an object drew by chance by the order in which it had them.
    fn draw(&mut self, text: &str, kind: &'static str) -> String {
        let drawn = self.drawn.entry((self.object.clone(), kind)).or_default();
        let place = drawn.iter().position(|known| known == text);
        let place = place.unwrap_or_else(|| {
            drawn.push(text.to_owned());
            drawn.len() - 1
        });
        let name = format!("({kind} {})", place + 1);
        self.seen.insert(text.to_owned(), name.clone());
        name
    }

    /// Replaces what was seen where it stands within longer texts, and the random part of volumes.
    fn texts(&self, value: &mut Value) {
        match value {
            Value::Object(map) => map.values_mut().for_each(|value| self.texts(value)),
            Value::Array(items) => items.iter_mut().for_each(|item| self.texts(item)),
            Value::String(text) => {
                for (seen, name) in &self.seen {
                    // Short ones, such as a revision, occur by chance in anything.
                    if seen.len() > 5 && text.contains(seen.as_str()) {
                        *text = text.replace(seen.as_str(), name);
                    }
                }
                without_structs(text);
                without_chance(text);
                const VOLUME: &str = "kube-api-access-";
                let mut from = 0;
                while let Some(found) = text[from..].find(VOLUME) {
                    from += found + VOLUME.len();
                    let end = (from + 5).min(text.len());
                    text.replace_range(from..end, "");
                }
            }
            _ => {}
        }
    }
}

/// Takes times and uids out of messages that quote whole objects or requests.
fn without_chance(text: &mut String) {
    const SHAPES: [(&str, &str); 2] = [
        ("0000-00-00T00:00:00Z", "(a time)"),
        ("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", "(a uid)"),
    ];
    for (shape, shown) in SHAPES {
        let mut from = 0;
        while let Some(part) = text.get(from..).filter(|rest| rest.len() >= shape.len()) {
            let at = part
                .as_bytes()
                .windows(shape.len())
                .position(|window| window.iter().zip(shape.bytes()).all(has_shape));
            let Some(at) = at else { break };
            text.replace_range(from + at..from + at + shape.len(), shown);
            from += at + shown.len();
        }
    }
}

fn has_shape((byte, shape): (&u8, u8)) -> bool {
    match shape {
        b'0' => byte.is_ascii_digit(),
        b'x' => byte.is_ascii_hexdigit(),
        other => *byte == other,
    }
}

/// Takes revisions out of messages, and Go. Upstream shows some invalid values as Go structs with a difference of them, which is of no use to
/// anyone: just what comes before them and the last words are compared.
fn without_structs(text: &mut String) {
    for words in [", current: ", "in record (", r#"\"resourceVersion\":\""#] {
        if let Some(start) = text.find(words).map(|start| start + words.len()) {
            let digits = text[start..].bytes().take_while(u8::is_ascii_digit).count();
            text.replace_range(start..start + digits, "(a revision)");
        }
    }
    if let Some(start) = text.find("\n@@") {
        let in_list = text.ends_with(']');
        text.truncate(start);
        text.push_str(if in_list { "]" } else { "" });
    }
    const START: &str = " value: {";
    if let Some(start) = text.find(START)
        && let Some(end) = text.rfind("}: ")
        && start < end
    {
        text.replace_range(start + START.len()..end, "(an object)");
    }
}

/// Which kind of changing thing a field holds.
fn changing(key: &str, text: &str) -> Option<&'static str> {
    match key {
        "uid" if text.len() == 36 => Some("uid"),
        "resourceVersion" if !text.is_empty() && !text.starts_with('(') => Some("revision"),
        "clusterIP" | "clusterIPs" if text != "None" && !text.is_empty() => Some("address"),
        "authentication.kubernetes.io/credential-id" => Some("certificate"),
        "serverAddress" => Some("server"),
        "continue" if !text.is_empty() => Some("token"),
        _ => None,
    }
}

/// What is wrong is a set: upstream says some things twice, in an order that it does not always keep.
/// The message of an invalid object says the same once more.
fn causes(body: &mut Value) {
    let Some(Value::Array(causes)) = body.pointer_mut("/details/causes") else {
        return;
    };
    causes.sort_by_cached_key(Value::to_string);
    causes.dedup();
    if let Some(Value::String(message)) = body.get_mut("message")
        && let Some(end) = message.find(" is invalid: ")
    {
        message.truncate(end);
    }
}

/// A few seconds, as a table shows them.
fn is_age(text: &str) -> bool {
    let number = text.strip_suffix('s').unwrap_or_default();
    (1..3).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// RFC 3339, with or without a fraction.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    (20..=30).contains(&bytes.len())
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            4 | 7 => *byte == b'-',
            10 => *byte == b'T',
            13 | 16 => *byte == b':',
            0..=18 => byte.is_ascii_digit(),
            _ => b".0123456789Z+-:".contains(byte),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn same_things_get_the_same_number() {
        let uid = "00000000-0000-0000-0000-00000000000";
        let mut answer = json!([
            {"metadata": {"name": "a", "uid": format!("{uid}1"), "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z"}},
            {"metadata": {"uid": format!("{uid}2"), "resourceVersion": "7"}},
            {"message": format!("uid {uid}1 is old")},
            {"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"uid": format!("{uid}1"), "resourceVersion": "8"}}]},
        ]);
        Normaliser::default().normalise(&mut answer);
        assert_eq!(
            answer,
            json!([
                {"metadata": {"name": "a", "uid": "(uid 1 of a)", "resourceVersion": "(its first revision)", "creationTimestamp": "(a time)"}},
                {"metadata": {"uid": "(uid 1)", "resourceVersion": "(its first revision)"}},
                {"message": "uid (uid 1 of a) is old"},
                {"kind": "PodList", "metadata": {"resourceVersion": "(some revision)"}, "items": [{"metadata": {"uid": "(uid 1 of a)", "resourceVersion": "(a new revision)"}}]},
            ])
        );
    }

    #[test]
    fn an_address_that_was_released_may_be_drawn_again() {
        let service = |uid: &str, address: &str| json!({"metadata": {"uid": uid}, "spec": {"clusterIP": address, "clusterIPs": [address]}});
        let mut normaliser = Normaliser::default();
        let mut shown = |uid: &str, address: &str| {
            let mut answer = service(uid, address);
            normaliser.normalise(&mut answer);
            answer["spec"]["clusterIPs"][0].as_str().unwrap().to_owned()
        };
        assert_eq!(shown("one", "10.0.0.7"), "(address 1)");
        assert_eq!(shown("two", "10.0.0.7"), "(address 1)");
        assert_eq!(shown("two", "10.0.0.8"), "(address 2)");
        assert_eq!(shown("one", "10.0.0.7"), "(address 1)");
    }

    #[test]
    fn times_and_uids_that_a_message_quotes_are_not_compared() {
        let mut text = "é {\"a\":\"2026-11-19T05:59:08Z\"} of c39ea62b-78ef-4c1c-9bd4-9793ca4ca8bb, 2026-11-19".to_owned();
        without_chance(&mut text);
        assert_eq!(text, "é {\"a\":\"(a time)\"} of (a uid), 2026-11-19");
    }
}
