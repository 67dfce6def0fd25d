//! Formats of strings, as upstream's registry (`kube-openapi/pkg/validation/strfmt`) has them.

use api::GoDuration;
use regex::Regex;
use std::sync::LazyLock;

/// Every format of strings that definitions can rely on, without dashes: upstream leaves them out when it looks for one.
const KNOWN: [&str; 26] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

/// The format of a schema as far as it is enforced for its type: the name without dashes.
pub(crate) fn enforced(format: &str, kind: Option<&str>) -> Option<String> {
    let known = match kind {
        None | Some("string") => {
            let plain = format.replace('-', "");
            return KNOWN.contains(&plain.as_str()).then_some(plain);
        }
        Some("integer") => matches!(format, "int32" | "int64"),
        Some("number") => matches!(format, "float" | "double"),
        Some(_) => false,
    };
    known.then(|| format.to_owned())
}

/// Whether a text has a format, given as [`enforced`] names it.
pub(super) fn fits(format: &str, text: &str) -> bool {
    match format {
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "uri" => cel::Url::parse(text).is_ok(),
        "email" => is_address(text),
        "hostname" => is_hostname(text),
        "ipv4" => text.contains('.') && api::ip::parse(text).is_some(),
        "ipv6" => text.contains(':') && api::ip::parse(text).is_some(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some(b'3')),
        "uuid4" => is_uuid(text, Some(b'4')),
        "uuid5" => is_uuid(text, Some(b'5')),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_credit_card(text),
        "ssn" => is_social_security_number(text),
        "hexcolor" => {
            let digits = text.strip_prefix('#').unwrap_or(text);
            matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        }
        "rgbcolor" => is_rgb(text),
        "byte" => is_base64(text),
        "date" => is_date(text),
        "datetime" => is_date_time(text),
        "duration" => is_duration(text),
        "k8sshortname" => text.len() <= 63 && is_label(text),
        "k8slongname" => text.len() <= 253 && text.split('.').all(is_label),
        _ => true,
    }
}

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = text.bytes().next().is_some_and(inner) && text.bytes().last().is_some_and(inner);
    ends && text.bytes().all(|byte| byte == b'-' || inner(byte))
}

fn is_cidr(text: &str) -> bool {
    let Some((address, prefix)) = text.split_once('/') else {
        return false;
    };
    let widest = if address.contains(':') { 128 } else { 32 };
    let is_number = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
    let fits = prefix.parse::<u32>().is_ok_and(|bits| bits <= widest);
    is_number && fits && api::ip::parse(address).is_some()
}

/// 6, 8 or 20 bytes in pairs after colons or dashes, or in fours after dots.
fn is_mac(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (separator, digits) = match (bytes.get(2), bytes.get(4)) {
        (Some(separator @ (b':' | b'-')), _) => (char::from(*separator), 2),
        (_, Some(b'.')) => ('.', 4),
        _ => return false,
    };
    let groups: Vec<&str> = text.split(separator).collect();
    let is_group =
        |group: &&str| group.len() == digits && group.bytes().all(|byte| byte.is_ascii_hexdigit());
    matches!(groups.len() * digits / 2, 6 | 8 | 20) && groups.iter().all(is_group)
}

fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let mut rest = text.as_bytes();
    let mut digits = Vec::with_capacity(32);
    for (index, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix(b"-").unwrap_or(rest);
        }
        let Some((group, after)) = rest.split_at_checked(length) else {
            return false;
        };
        digits.extend_from_slice(group);
        rest = after;
    }
    let is_hex = rest.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    let is_version = version.is_none_or(|version| digits[12] == version);
    // UPSTREAM: the variant counts for versions 4 and 5.
    let is_variant = !matches!(version, Some(b'4' | b'5'))
        || matches!(digits[16], b'8' | b'9' | b'a' | b'b' | b'A' | b'B');
    is_hex && is_version && is_variant
}

/// What Go's `\s` and dashes leave.
fn without_separators(text: &str) -> String {
    let separates = |c: char| matches!(c, '-' | ' ' | '\t' | '\n' | '\u{c}' | '\r');
    text.chars().filter(|c| !separates(*c)).collect()
}

fn is_isbn10(text: &str) -> bool {
    let text = without_separators(text);
    let Some((check, digits)) = text.as_bytes().split_last() else {
        return false;
    };
    if digits.len() != 9 || !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let check = match check {
        b'X' => 10,
        digit if digit.is_ascii_digit() => u32::from(digit - b'0'),
        _ => return false,
    };
    let weighed = (1..)
        .zip(digits)
        .map(|(weight, digit)| weight * u32::from(digit - b'0'));
    (weighed.sum::<u32>() + 10 * check) % 11 == 0
}

fn is_isbn13(text: &str) -> bool {
    let text = without_separators(text);
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(10)).collect();
    if text.len() != 13 || digits.len() != 13 {
        return false;
    }
    let sum: u32 = (0..12)
        .map(|index| digits[index] * (1 + 2 * (index as u32 % 2)))
        .sum();
    digits[12] == (10 - sum % 10) % 10
}

fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_digit).collect();
    let number = String::from_utf8_lossy(&digits);
    let begins = |from: u32, to: u32, length: usize| {
        let lead = number
            .get(..length)
            .and_then(|lead| lead.parse::<u32>().ok());
        lead.is_some_and(|lead| (from..=to).contains(&lead))
    };
    let is_issued = match digits.len() {
        13 => begins(4, 4, 1),
        14 => begins(300, 305, 3) || begins(36, 36, 2) || begins(38, 38, 2),
        15 => {
            begins(34, 34, 2) || begins(37, 37, 2) || begins(2131, 2131, 4) || begins(1800, 1800, 4)
        }
        16 => {
            begins(4, 4, 1)
                || begins(51, 55, 2)
                || begins(6011, 6011, 4)
                || begins(65, 65, 2)
                || begins(35, 35, 2)
        }
        _ => false,
    };
    let luhn = digits.iter().rev().enumerate().map(|(index, digit)| {
        let value = u32::from(digit - b'0') * (1 + index as u32 % 2);
        value / 10 + value % 10
    });
    is_issued && luhn.sum::<u32>() % 10 == 0
}

fn is_social_security_number(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_separator = |byte: u8| matches!(byte, b'-' | b' ');
    bytes.len() == 11
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            3 | 6 => is_separator(*byte),
            _ => byte.is_ascii_digit(),
        })
}

fn is_rgb(text: &str) -> bool {
    let inner = text
        .strip_prefix("rgb(")
        .and_then(|rest| rest.strip_suffix(')'));
    let Some(inner) = inner else {
        return false;
    };
    let is_part = |part: &str| {
        let part = part.trim_matches([' ', '\t', '\n', '\u{c}', '\r']);
        let is_plain = part == "0" || (!part.starts_with('0') && !part.starts_with('+'));
        is_plain && part.parse::<u8>().is_ok()
    };
    inner.split(',').count() == 3 && inner.split(',').all(is_part)
}

/// UPSTREAM: nothing at all is no base64.
fn is_base64(text: &str) -> bool {
    let (body, padding) = match text.strip_suffix("==") {
        Some(body) => (body, 2),
        None => match text.strip_suffix('=') {
            Some(body) => (body, 1),
            None => (text, 0),
        },
    };
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    !body.is_empty() && (body.len() + padding) % 4 == 0 && body.bytes().all(is_digit)
}

fn is_date(text: &str) -> bool {
    let shape = text.len() == 10
        && text.bytes().enumerate().all(|(index, byte)| match index {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    let number =
        |from: usize, to: usize| text.get(from..to).and_then(|part| part.parse::<i16>().ok());
    let (Some(year), Some(month), Some(day)) = (number(0, 4), number(5, 7), number(8, 10)) else {
        return false;
    };
    let day = i8::try_from(day).unwrap_or(0);
    let month = i8::try_from(month).unwrap_or(0);
    shape && jiff::civil::Date::new(year, month, day).is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    text.len() >= 4 && is_date(date) && is_time(time)
}

/// `hh:mm:ss`, a fraction after any character, and a zone.
fn is_time(text: &str) -> bool {
    let two = |text: &str, most: &str| {
        text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit()) && text <= most
    };
    let Some((clock, rest)) = text.split_at_checked(8) else {
        return false;
    };
    let mut parts = clock.split(':');
    let mut part = |most: &str| parts.next().is_some_and(|part| two(part, most));
    if !(part("23") && part("59") && part("59")) {
        return false;
    }
    let is_zone = |zone: &str| {
        let numbers = zone
            .strip_prefix(['+', '-'])
            .and_then(|zone| zone.split_once(':'));
        zone == "z"
            || numbers.is_some_and(|(hours, minutes)| two(hours, "99") && two(minutes, "99"))
    };
    if is_zone(rest) {
        return true;
    }
    // UPSTREAM: the dot of the pattern is not escaped.
    let mut chars = rest.chars();
    let fraction = chars.next().map(|_| chars.as_str()).unwrap_or_default();
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && is_zone(&fraction[digits..])
}

/// Go's form, or numbers with units as people write them ("2 days").
fn is_duration(text: &str) -> bool {
    const UNITS: [&[&str]; 8] = [
        &["ns", "nano"],
        &["us", "µs", "micro"],
        &["ms", "milli"],
        &["s", "sec"],
        &["m", "min"],
        &["h", "hr", "hour"],
        &["d", "day"],
        &["w", "wk", "week"],
    ];
    if GoDuration::parse(text).is_ok() {
        return true;
    }
    let is_unit = |unit: &str| {
        let unit = unit.to_lowercase();
        UNITS.iter().any(|names| {
            let is_named = names.iter().any(|name| *name == unit);
            is_named || names.last().is_some_and(|name| unit.starts_with(name))
        })
    };
    let (mut rest, mut found) = (text, false);
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        rest = &rest[start..];
        let length = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, after) = rest.split_at(length);
        let after = after.trim_start_matches([' ', '\t', '\n', '\u{c}', '\r']);
        let end = after
            .find(|c: char| !c.is_ascii_alphabetic() && c != 'µ')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        rest = after;
        if unit.is_empty() {
            continue;
        }
        if digits.parse::<i64>().is_err() {
            return false;
        }
        found |= is_unit(unit);
    }
    found
}

static LETTER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{L}$").ok());
static SYMBOL: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{S}$").ok());

fn is_in(class: &Option<Regex>, c: char) -> bool {
    let mut buffer = [0; 4];
    class
        .as_ref()
        .is_some_and(|class| class.is_match(c.encode_utf8(&mut buffer)))
}

/// One name without dashes (but for a second character), or names that end in a domain of letters. Letters and symbols
/// of any script count.
fn is_hostname(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || (!c.is_ascii() && is_in(&LETTER, c));
    let is_inner = |c: char| c.is_ascii_digit() || is_letter(c) || is_in(&SYMBOL, c);
    if text.len() > 255 || text.split('.').any(|part| part.len() > 63) {
        return false;
    }
    let mut chars = text.chars();
    if !chars.next().is_some_and(is_inner) {
        return false;
    }
    let rest = chars.as_str();
    let rest = rest.strip_prefix('-').unwrap_or(rest);
    if rest.chars().count() <= 62 && rest.chars().all(is_inner) {
        return true;
    }
    let Some((names, domain)) = text.rsplit_once('.') else {
        return false;
    };
    let length = domain.chars().count();
    let is_name = |name: &str| {
        let ends =
            name.chars().next().is_some_and(is_inner) && name.chars().last().is_some_and(is_inner);
        ends && name.chars().count() <= 63 && name.chars().all(|c| c == '-' || is_inner(c))
    };
    (2..=63).contains(&length) && domain.chars().all(is_letter) && names.split('.').all(is_name)
}

/// An address as in a mail's header: `a@b`, or with a name before it: `Some One <a@b>`.
fn is_address(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    match text.strip_suffix('>') {
        Some(inner) => {
            let Some((name, address)) = inner.rsplit_once('<') else {
                return false;
            };
            is_phrase(name.trim_matches([' ', '\t'])) && is_plain_address(address)
        }
        None => is_plain_address(text),
    }
}

fn is_plain_address(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else {
        return false;
    };
    let is_literal = domain
        .strip_prefix('[')
        .and_then(|inner| inner.strip_suffix(']'))
        .is_some_and(|inner| {
            api::ip::parse(inner.strip_prefix("IPv6:").unwrap_or(inner)).is_some()
        });
    (is_quoted(local) || is_dotted(local)) && (is_dotted(domain) || is_literal)
}

fn is_phrase(text: &str) -> bool {
    text.is_empty()
        || is_quoted(text)
        || text
            .split([' ', '\t'])
            .all(|word| word.is_empty() || word.chars().all(|c| c == '.' || is_atom(c)))
}

fn is_quoted(text: &str) -> bool {
    let inner = text
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    let Some(inner) = inner else {
        return false;
    };
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        let is_fine = match c {
            '\\' => chars
                .next()
                .is_some_and(|c| c == ' ' || c == '\t' || c > ' '),
            '"' => false,
            c => c == '\t' || c >= ' ',
        };
        if !is_fine {
            return false;
        }
    }
    true
}

fn is_dotted(text: &str) -> bool {
    text.split('.')
        .all(|word| !word.is_empty() && word.chars().all(is_atom))
}

fn is_atom(c: char) -> bool {
    c.is_ascii_alphanumeric() || !c.is_ascii() || "!#$%&'*+-/=?^_`{|}~".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Go's registry says of them.
    #[test]
    fn formats_are_those_of_upstream() {
        let good = [
            ("bson-object-id", "507f1f77bcf86cd799439011"),
            ("uri", "http://foo.bar#com"),
            ("uri", "/abs/path"),
            ("email", "somebody@somewhere.com"),
            ("email", "Some One <a.b+c@d.e>"),
            ("hostname", "somewhere.com"),
            ("hostname", "a-bc"),
            ("hostname", "xn--80ak6aa92e.com"),
            ("ipv4", "192.168.254.1"),
            ("ipv4", "010.1.1.1"),
            ("ipv6", "::1"),
            ("cidr", "10.0.0.0/8"),
            ("cidr", "fe80::/10"),
            ("mac", "01:02:03:04:05:06"),
            ("mac", "0123.4567.89ab"),
            ("uuid", "a8098c1a-f86e-11da-bd1a-00112444be1e"),
            ("uuid", "A8098C1AF86E11DABD1A00112444BE1E"),
            ("uuid3", "bcd02e22-68f0-3046-a512-327cca9def8f"),
            ("uuid4", "025b0d74-00a2-4048-bf57-227c5111bb34"),
            ("uuid5", "886313e1-3b8a-5372-9b90-0c9aee199e5d"),
            ("isbn", "0321751043"),
            ("isbn10", "0321751043"),
            ("isbn13", "978-0321751041"),
            ("creditcard", "4111-1111-1111-1111"),
            ("ssn", "111-11-1111"),
            ("hexcolor", "#FFFFFF"),
            ("rgbcolor", "rgb(255, 0,1)"),
            ("byte", "YWJjZA=="),
            ("password", "anything"),
            ("date", "2024-02-29"),
            ("date-time", "2014-12-15T19:30:20.000Z"),
            ("date-time", "2014-12-15t19:30:20+05:00"),
            ("duration", "1h30m"),
            ("duration", "2 days"),
            ("duration", "3 Weeks"),
            ("k8s-short-name", "a-b-1"),
            ("k8s-long-name", "a.b-1.c"),
        ];
        let bad = [
            ("bsonobjectid", "507f"),
            ("uri", "not a uri"),
            ("email", "somebody@somewhere@com"),
            ("email", "nobody"),
            ("hostname", "somewhere.com!"),
            ("hostname", "a-b-c"),
            ("hostname", ""),
            ("ipv4", "198.168.254.2.2"),
            ("ipv4", "::1"),
            ("ipv6", "127.0.0.1"),
            ("cidr", "10.0.0.0"),
            ("cidr", "10.0.0.0/33"),
            ("mac", "01:02:03:04:05"),
            ("uuid", "not-a-uuid"),
            ("uuid4", "bcd02e22-68f0-3046-a512-327cca9def8f"),
            ("isbn", "836217463"),
            ("isbn13", "978-0321751040"),
            ("creditcard", "4111-1111-1111-1112"),
            ("ssn", "111 11 111"),
            ("hexcolor", "#fffffffz"),
            ("rgbcolor", "rgb(300,0,0)"),
            ("byte", "ZW=="[..3].trim()),
            ("byte", ""),
            ("date", "2023-02-29"),
            ("datetime", "2006-01-02 15:04:05"),
            ("date-time", "2014-12-15T24:30:20Z"),
            ("duration", "later"),
            ("k8s-short-name", "A"),
            ("k8s-short-name", "a.b"),
            ("k8s-long-name", "a..b"),
        ];
        let cases = good
            .iter()
            .map(|case| (case, true))
            .chain(bad.iter().map(|case| (case, false)));
        for ((format, text), expected) in cases {
            let known = enforced(format, Some("string")).unwrap();
            assert_eq!(fits(&known, text), expected, "{format} {text}");
        }
    }

    #[test]
    fn a_format_counts_for_its_type_alone() {
        assert_eq!(enforced("int32", Some("string")), None);
        assert_eq!(enforced("int32", Some("integer")).as_deref(), Some("int32"));
        assert_eq!(
            enforced("double", Some("number")).as_deref(),
            Some("double")
        );
        assert_eq!(enforced("date", Some("object")), None);
        assert_eq!(enforced("quantity", None), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,40}") {
            for format in KNOWN {
                fits(format, &text);
            }
        }
    }
}
