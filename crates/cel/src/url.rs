//! URLs as Go's `net/url` takes them for requests: absolute, or a path from the root.

use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    pub text: String,
    pub scheme: String,
    pub host: String,
    path: String,
    query: String,
}

impl Url {
    /// Reads a URL; the error is Go's.
    pub fn parse(text: &str) -> Result<Url, String> {
        Url::read(text).map_err(|why| format!("parse {}: {why}", api::syntax::go_quote(text)))
    }

    fn read(text: &str) -> Result<Url, String> {
        if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        if text.is_empty() {
            return Err("empty url".to_owned());
        }
        let (scheme, rest) = scheme(text)?;
        let (rest, _fragment) = rest.split_once('#').unwrap_or((rest, ""));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut url = Url {
            text: text.to_owned(),
            scheme: scheme.to_ascii_lowercase(),
            host: String::new(),
            path: rest.to_owned(),
            query: query.to_owned(),
        };
        if !rest.starts_with('/') {
            if url.scheme.is_empty() {
                return Err("invalid URI for request".to_owned());
            }
            // An opaque URL, such as mailto:
            url.path = String::new();
            return Ok(url);
        }
        if !url.scheme.is_empty()
            && let Some(after) = rest.strip_prefix("//")
        {
            let end = after.find('/').unwrap_or(after.len());
            url.host = host(&after[..end])?;
            url.path = after[end..].to_owned();
        }
        unescape(&url.path, false)?;
        Ok(url)
    }

    pub fn hostname(&self) -> &str {
        if let Some(inner) = self.host.strip_prefix('[') {
            return inner.split_once(']').map_or(inner, |(address, _)| address);
        }
        self.host
            .rsplit_once(':')
            .map_or(&*self.host, |(name, port)| {
                if port.bytes().all(|byte| byte.is_ascii_digit()) {
                    name
                } else {
                    &self.host
                }
            })
    }

    pub fn port(&self) -> &str {
        let after = match self.host.rfind(']') {
            Some(at) => &self.host[at + 1..],
            None => &*self.host,
        };
        after.rsplit_once(':').map_or("", |(_, port)| port)
    }

    /// The path with everything escaped that must be.
    pub fn escaped_path(&self) -> String {
        let fine =
            |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@/[]%".contains(&byte);
        if self.path.bytes().all(fine) {
            return self.path.clone();
        }
        let plain = unescape(&self.path, false).unwrap_or_else(|_| self.path.clone());
        let mut escaped = String::new();
        for byte in plain.bytes() {
            if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte) {
                escaped.push(char::from(byte));
            } else {
                escaped.push_str(&format!("%{byte:02X}"));
            }
        }
        escaped
    }

    pub fn query(&self) -> BTreeMap<String, Vec<String>> {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty()) {
            if pair.contains(';') {
                continue;
            }
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Ok(name), Ok(value)) = (unescape(name, true), unescape(value, true)) {
                values.entry(name).or_default().push(value);
            }
        }
        values
    }
}

fn scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => return Ok(("", text)),
        }
    }
    Ok(("", text))
}

fn host(authority: &str) -> Result<String, String> {
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (user, host),
        None => ("", authority),
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    if !user.bytes().all(plain) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    let port = if let Some(inner) = host.strip_prefix('[') {
        let (_, port) = inner.split_once(']').ok_or("missing ']' in host")?;
        port
    } else {
        host.rfind(':').map_or("", |at| &host[at..])
    };
    let digits = port.strip_prefix(':').unwrap_or(port);
    let valid = port.is_empty() || port.starts_with(':');
    if !valid || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let shown = api::syntax::go_quote(port);
        return Err(format!("invalid port {shown} after host"));
    }
    if let Some(bad) = host
        .chars()
        .find(|c| c.is_ascii() && " \"<>\\^`{|}".contains(*c))
    {
        let shown = api::syntax::go_quote(&bad.to_string());
        return Err(format!("invalid character {shown} in host name"));
    }
    unescape(host, false)
}

/// Percent signs resolved, and in queries blanks.
fn unescape(text: &str, query: bool) -> Result<String, String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'%' => {
                let digit = |ahead: usize| {
                    let byte = bytes.get(at + ahead)?;
                    char::from(*byte).to_digit(16)
                };
                let (Some(high), Some(low)) = (digit(1), digit(2)) else {
                    let bad = String::from_utf8_lossy(&bytes[at..bytes.len().min(at + 3)]);
                    return Err(format!(
                        "invalid URL escape {}",
                        api::syntax::go_quote(&bad)
                    ));
                };
                out.push((high * 16 + low) as u8);
                at += 3;
                continue;
            }
            b'+' if query => out.push(b' '),
            byte => out.push(byte),
        }
        at += 1;
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}
