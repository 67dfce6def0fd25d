//! Numbers and quoted text, as they are written in expressions.

use crate::ast::Literal;
use crate::lexer::Token;

/// A number; the error names the kind that it should have been.
pub fn number(token: Token, text: &str, negative: bool) -> Result<Literal, &'static str> {
    let sign = if negative { "-" } else { "" };
    match token {
        Token::Float => {
            let value: f64 = format!("{sign}{text}").parse().map_err(|_| "double")?;
            if value.is_infinite() {
                return Err("double");
            }
            Ok(Literal::Double(value))
        }
        Token::Uint => {
            let digits = &text[..text.len() - 1];
            let parsed = match digits.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16),
                None => digits.parse(),
            };
            parsed.map(Literal::Uint).map_err(|_| "uint")
        }
        _ => {
            let parsed = match text.strip_prefix("0x") {
                Some(hex) => i64::from_str_radix(&format!("{sign}{hex}"), 16),
                None => format!("{sign}{text}").parse(),
            };
            parsed.map(Literal::Int).map_err(|_| "int")
        }
    }
}

/// The text between quotes, with its escapes resolved.
pub fn unquote(text: &str, bytes: bool) -> Result<Literal, &'static str> {
    let text = if bytes { &text[1..] } else { text };
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let (raw, text) = match text.strip_prefix(['r', 'R']) {
        Some(rest) => (true, rest),
        None => (false, &*text),
    };
    let triple = text.len() >= 6 && (text.starts_with("\"\"\"") || text.starts_with("'''"));
    let quotes = if triple { 3 } else { 1 };
    let inner = text
        .get(quotes..text.len() - quotes)
        .ok_or("unable to unescape string")?;
    let mut out = Vec::with_capacity(inner.len());
    if raw || !inner.contains('\\') {
        out.extend_from_slice(inner.as_bytes());
    } else {
        unescape(inner, bytes, &mut out)?;
    }
    if bytes {
        return Ok(Literal::Bytes(out.into()));
    }
    let text = String::from_utf8(out).map_err(|_| "invalid unicode code point")?;
    Ok(Literal::String(text.into()))
}

fn unescape(text: &str, bytes: bool, out: &mut Vec<u8>) -> Result<(), &'static str> {
    const BAD: &str = "unable to unescape string";
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let mut buffer = [0; 4];
        if c != '\\' {
            out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
            continue;
        }
        let kind = chars.next().ok_or(BAD)?;
        let plain = match kind {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            '\\' | '\'' | '"' | '`' | '?' => kind as u8,
            _ => 0,
        };
        if plain != 0 {
            out.push(plain);
            continue;
        }
        let (digits, radix) = match kind {
            'x' | 'X' => (2, 16),
            'u' if !bytes => (4, 16),
            'U' if !bytes => (8, 16),
            '0'..='3' => (2, 8),
            _ => return Err(BAD),
        };
        let mut value = if radix == 8 {
            kind as u32 - '0' as u32
        } else {
            0
        };
        for _ in 0..digits {
            let digit = chars.next().and_then(|c| c.to_digit(radix)).ok_or(BAD)?;
            value = value.wrapping_mul(radix) + digit;
        }
        if bytes {
            out.push(value as u8);
        } else {
            let c = char::from_u32(value).ok_or("invalid unicode code point")?;
            out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
        }
    }
    Ok(())
}
