//! JSON for human eyes: indented for those who ask for it, and for browsers and command-line tools, as upstream does.

use super::{RequestInfo, response};
use crate::Body;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, Response};
use http_body::Body as _;
use http_body_util::BodyExt;

/// UPSTREAM: what the user agents of those start with whose answers people read.
const READ_BY_PEOPLE: [&str; 3] = ["curl", "Wget", "Mozilla/5.0"];

/// Whether the answer is to be indented: the parameter `pretty` decides, without it who asks.
pub(super) fn is_wanted(info: &RequestInfo, headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    // Documents of schemas are made once, for everyone.
    if info.path.starts_with("/openapi/") {
        return false;
    }
    let accepted = text(ACCEPT).unwrap_or_default();
    if accepted.contains(";pretty=1") || accepted.contains("; pretty=1") {
        return true;
    }
    match info.query.get("pretty") {
        "" => READ_BY_PEOPLE
            .iter()
            .any(|start| text(USER_AGENT).is_some_and(|agent| agent.starts_with(start))),
        asked => matches!(asked, "1" | "t" | "T" | "true" | "TRUE" | "True"),
    }
}

/// The same answer indented, if it is JSON in one piece.
pub(super) async fn indent(answer: Response<Body>) -> Response<Body> {
    let is_json = (answer.headers().get(CONTENT_TYPE))
        .is_some_and(|value| value.as_bytes() == b"application/json");
    let is_stream = answer.body().size_hint().exact().is_none();
    if !is_json || is_stream {
        return answer;
    }
    let (mut parts, body) = answer.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    let body = body.collect().await;
    let json = body
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    Response::from_parts(parts, response::whole(indented(&json).into()))
}

/// JSON text with two spaces for each level, as Go's `MarshalIndent` has it. Order and spelling stay.
pub(crate) fn indented(json: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let mut rest = json.iter().copied().peekable();
    let new_line = |text: &mut Vec<u8>, depth: usize| {
        text.push(b'\n');
        text.resize(text.len() + 2 * depth, b' ');
    };
    while let Some(byte) = rest.next() {
        match byte {
            b'"' => {
                text.push(byte);
                while let Some(inner) = rest.next() {
                    text.push(inner);
                    match inner {
                        b'\\' => text.extend(rest.next()),
                        b'"' => break,
                        _ => {}
                    }
                }
            }
            b'{' | b'[' => {
                text.push(byte);
                while rest.next_if(u8::is_ascii_whitespace).is_some() {}
                match rest.next_if(|next| matches!(next, b'}' | b']')) {
                    Some(end) => text.push(end),
                    None => {
                        depth += 1;
                        new_line(&mut text, depth);
                    }
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut text, depth);
                text.push(byte);
            }
            b',' => {
                text.push(byte);
                new_line(&mut text, depth);
            }
            b':' => text.extend(b": "),
            byte if byte.is_ascii_whitespace() => {}
            byte => text.push(byte),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn indents_as_go_does() {
        let json = br#"{"a":[], "b":{},"c":[1.50,{"d":"x,\"{\\"}],"e":null}"#;
        expect![[r#"
            {
              "a": [],
              "b": {},
              "c": [
                1.50,
                {
                  "d": "x,\"{\\"
                }
              ],
              "e": null
            }"#]]
        .assert_eq(std::str::from_utf8(&indented(json)).unwrap());
    }

    /// UPSTREAM: isPrettyPrint
    #[test]
    fn who_asks_decides_unless_the_request_does() {
        let wanted = |uri: &str, agent: &str, accept: &str| {
            let info = RequestInfo::parse(&http::Method::GET, &uri.parse().unwrap());
            let mut headers = HeaderMap::new();
            headers.insert(USER_AGENT, agent.parse().unwrap());
            headers.insert(ACCEPT, accept.parse().unwrap());
            is_wanted(&info, &headers)
        };
        for agent in ["curl/7.88.1", "Wget/1.21", "Mozilla/5.0 (X11)"] {
            assert!(wanted("/api/v1/nodes", agent, "*/*"), "{agent}");
            assert!(!wanted("/api/v1/nodes?pretty=false", agent, "*/*"));
            assert!(!wanted("/openapi/v2", agent, "*/*"));
        }
        let kubectl = "kubectl/v1.36.3 (linux/amd64) kubernetes/$Format";
        assert!(!wanted("/api/v1/nodes", kubectl, "application/json"));
        assert!(wanted("/api/v1/nodes?pretty=true", kubectl, "*/*"));
        assert!(wanted("/apis?pretty=1", kubectl, "*/*"));
        assert!(wanted("/apis", kubectl, "application/json;pretty=1"));
        assert!(!wanted("/apis", kubectl, "application/json;pretty=0"));
    }
}
