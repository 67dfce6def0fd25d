//! Small pieces of sentences.

/// `1 pod`, `3 pods`
pub(crate) fn pods(count: i64) -> String {
    match count {
        1 => "1 pod".to_owned(),
        count => format!("{count} pods"),
    }
}

/// The part of a reason that fits a headline: what stands in brackets is told below it.
pub(crate) fn short(reason: &str) -> &str {
    reason.split(" (").next().unwrap_or(reason)
}
