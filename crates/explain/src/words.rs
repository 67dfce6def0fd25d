//! Small pieces of sentences.

/// The part of a reason that fits a headline: what stands in brackets is said below it.
pub(crate) fn short(reason: &str) -> &str {
    reason.split(" (").next().unwrap_or(reason)
}
