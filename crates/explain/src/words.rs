//! Small pieces of sentences.

/// The part of a reason that fits a headline: what stands in brackets or in a second sentence is said below it.
pub(crate) fn short(reason: &str) -> String {
    if !reason.contains("violates PodSecurity") {
        let first = reason.split(". ").next().unwrap_or(reason);
        return first.split(" (").next().unwrap_or(first).to_owned();
    }
    // Each violation is followed by what it means in brackets, and all of them count.
    let mut kept = String::new();
    let mut depth = 0;
    for letter in reason.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            letter if depth == 0 => kept.push(letter),
            _ => {}
        }
    }
    kept.replace(" ,", ",").trim_end().to_owned()
}
