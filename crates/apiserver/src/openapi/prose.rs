//! What built-in types and their fields are for, in upstream's words: `kubectl explain` prints it.
//!
//! The table (`schema/prose.deflate`, by `cargo xtask schema --live`) is compressed and is no more than bytes of the
//! program until somebody asks; then it is unpacked for as long as the answer takes. It is text: a line for each type
//! (its OpenAPI name without `io.k8s.`), then an indented line for each field; after a tab the description, with `\n`
//! and `\\` escaped. `=12` is what line 12 says.

use api::collections::HashMap;

static TABLE: &[u8] = include_bytes!("../../../../schema/prose.deflate");

/// The unpacked table is about a megabyte; one that is ten times as large is not ours.
const UNPACKED_MAX: usize = 10 << 20;

pub(super) struct Prose {
    text: String,
    /// Where the description of a type (field "") or of its field stands in the text.
    places: HashMap<(String, String), (usize, usize)>,
}

impl Prose {
    pub(super) fn unpack() -> Prose {
        let unpacked = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(TABLE, UNPACKED_MAX);
        let unpacked = unpacked
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok());
        Prose::read(unpacked.unwrap_or_default())
    }

    fn read(text: String) -> Prose {
        let mut places = HashMap::default();
        let mut lines: Vec<(usize, usize)> = Vec::new();
        let (mut at, mut ty) = (0, String::new());
        for line in text.split_inclusive('\n') {
            let start = at;
            at += line.len();
            let line = line.trim_end_matches('\n');
            let (name, said) = line.split_once('\t').unwrap_or((line, ""));
            let own = (start + name.len() + 1, start + line.len());
            let earlier = said.strip_prefix('=').and_then(|line| line.parse().ok());
            let place = earlier.and_then(|line: usize| lines.get(line).copied());
            let place = place.unwrap_or(own);
            lines.push(place);
            let field = match name.strip_prefix(' ') {
                Some(field) => field,
                None => {
                    name.clone_into(&mut ty);
                    ""
                }
            };
            if !said.is_empty() {
                places.insert((ty.clone(), field.to_owned()), place);
            }
        }
        Prose { text, places }
    }

    /// What a field is for, or the type itself if `field` is empty.
    pub(super) fn of(&self, ty: &str, field: &str) -> Option<String> {
        let key = (ty.to_owned(), field.to_owned());
        let (start, end) = self.places.get(&key)?;
        let said = self.text.get(*start..*end)?;
        Some(unescape(said))
    }
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some(other) => out.push(other),
                None => {}
            },
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_name_types_fields_and_earlier_lines() {
        let prose = Prose::read("a.B\tone\\ntwo\n c\t=0\n d\te \\\\ f\ng.H\n c\t=2\n".to_owned());
        let said = |ty, field| prose.of(ty, field);
        assert_eq!(said("a.B", "").as_deref(), Some("one\ntwo"));
        assert_eq!(said("a.B", "c").as_deref(), Some("one\ntwo"));
        assert_eq!(said("a.B", "d").as_deref(), Some("e \\ f"));
        assert_eq!(said("g.H", "c").as_deref(), Some("e \\ f"));
        assert_eq!(said("g.H", ""), None);
    }

    #[test]
    fn the_table_explains_pods() {
        let prose = Prose::unpack();
        let said = prose.of("api.core.v1.PodSpec", "nodeName").unwrap();
        assert!(said.contains("scheduler"), "{said}");
        assert!(prose.of("api.core.v1.Pod", "").is_some());
    }
}
