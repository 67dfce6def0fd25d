//! How much is logged: `-v`, which can be turned while running, and `--vmodule`.

use std::sync::atomic::{AtomicU32, Ordering};

use tracing::Metadata;

/// The dial.
pub struct Verbosity {
    level: AtomicU32,
    modules: Vec<(String, u32)>,
}

impl Verbosity {
    pub fn new(level: u32, vmodule: &[(String, i64)]) -> Verbosity {
        let modules = vmodule
            .iter()
            .map(|(pattern, level)| (pattern.clone(), u32::try_from(*level).unwrap_or(0)))
            .collect();
        Verbosity {
            level: AtomicU32::new(level),
            modules,
        }
    }

    pub fn set(&self, level: u32) {
        self.level.store(level, Ordering::Relaxed);
        // What `tracing` remembers of who is wanted was true for the old level.
        tracing::callsite::rebuild_interest_cache();
    }

    pub fn get(&self) -> u32 {
        self.level.load(Ordering::Relaxed)
    }

    /// The verbosity in force where this event comes from. The first pattern that matches counts.
    pub(super) fn at(&self, metadata: &Metadata<'_>) -> u32 {
        let module = self
            .modules
            .iter()
            .find(|(pattern, _)| matches_place(pattern, metadata));
        module.map_or_else(|| self.get(), |(_, level)| *level)
    }

    /// Whether anything this verbose could be wanted anywhere.
    pub(super) fn could_want(&self, level: u32) -> bool {
        level <= self.get() || self.modules.iter().any(|(_, module)| level <= *module)
    }
}

/// A pattern with a slash is for the whole path; others are for the file's name without `.rs`, or for any part
/// of the module's path, because `garbagecollector*` should find all files of that controller.
fn matches_place(pattern: &str, metadata: &Metadata<'_>) -> bool {
    let file = metadata.file().unwrap_or_default();
    let file = file.strip_suffix(".rs").unwrap_or(file);
    if pattern.contains('/') {
        return glob(pattern.as_bytes(), file.as_bytes());
    }
    let name = file.rsplit('/').next().unwrap_or_default();
    let modules = metadata.target().split("::");
    std::iter::once(name)
        .chain(modules)
        .any(|part| glob(pattern.as_bytes(), part.as_bytes()))
}

/// `*` for any run of characters, `?` for any one.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut star) = ((0, 0), None);
    while at.1 < text.len() {
        match pattern.get(at.0) {
            Some(b'*') => {
                star = Some(at);
                at.0 += 1;
            }
            Some(byte) if *byte == b'?' || *byte == text[at.1] => at = (at.0 + 1, at.1 + 1),
            _ => match star {
                // Let the last star swallow one byte more and try again from there.
                Some((pattern_at, text_at)) => {
                    star = Some((pattern_at, text_at + 1));
                    at = (pattern_at + 1, text_at + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at.0..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn globs() {
        for (pattern, text, expected) in [
            ("garbage*", "garbagecollector", true),
            ("*collector", "garbagecollector", true),
            ("g?rbage*r", "garbagecollector", true),
            ("garbage", "garbagecollector", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "xxbxxa", false),
            ("", "", true),
            ("*", "", true),
        ] {
            assert_eq!(
                glob(pattern.as_bytes(), text.as_bytes()),
                expected,
                "{pattern} {text}"
            );
        }
    }
}
