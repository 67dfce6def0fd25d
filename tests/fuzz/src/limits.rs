//! What one input may cost.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

pub const LONGEST: Duration = Duration::from_secs(1);
pub const LARGEST_BYTES: u64 = 200 * 1024 * 1024;

/// What an input came to.
#[derive(Debug)]
pub struct Cost {
    /// What was answered, so that answers that differ in names and numbers only are the same.
    pub answer: String,
    pub took: Duration,
    pub grew_bytes: u64,
}

/// Runs one input; the error is in words. Time is that of the processor: others may be at work on the machine.
pub fn run(longest: Duration, target: impl FnOnce() -> String) -> Result<Cost, String> {
    let before = reset_peak();
    let begin = processor();
    let answer = catch_unwind(AssertUnwindSafe(target)).map_err(|_| "it panicked".to_owned())?;
    let cost = Cost {
        answer: shape(&answer),
        took: processor().saturating_sub(begin),
        grew_bytes: memory("VmHWM").saturating_sub(before),
    };
    if cost.took > longest {
        return Err(format!("it took {:?}", cost.took));
    }
    if cost.grew_bytes > LARGEST_BYTES {
        return Err(format!("it took {} MB", cost.grew_bytes / 1_000_000));
    }
    Ok(cost)
}

/// How long this thread has been at work.
pub fn processor() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split_whitespace().next();
    Duration::from_nanos(nanoseconds.and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// The memory in use now; from here on the largest is measured.
fn reset_peak() -> u64 {
    // Where it may not be reset, growth is measured from the largest so far: that finds less, and nothing wrong.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    memory("VmHWM")
}

/// A line of /proc/self/status, in bytes.
fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.trim_start_matches(':').split_whitespace().next());
    number
        .and_then(|number| number.parse::<u64>().ok())
        .unwrap_or(0)
        * 1024
}

/// An answer without what is quoted, and without numbers.
fn shape(answer: &str) -> String {
    let mut out = String::new();
    for (index, part) in answer.split('"').enumerate() {
        match index % 2 {
            0 => out.extend(part.chars().filter(|c| !c.is_ascii_digit())),
            _ => out.push('"'),
        }
        if out.len() > 300 {
            break;
        }
    }
    out.chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_waits_and_growth_are_found() {
        assert!(run(LONGEST, || "fine".to_owned()).is_ok());
        assert!(run(LONGEST, || panic!("on purpose")).is_err());
        let slow = run(Duration::from_millis(10), || {
            let begin = processor();
            while processor() - begin < Duration::from_millis(50) {}
            String::new()
        });
        assert!(slow.is_err());
        let large = run(Duration::from_secs(60), || {
            let taken = vec![1_u8; 300 * 1024 * 1024];
            format!("{}", taken.iter().map(|byte| u64::from(*byte)).sum::<u64>())
        });
        assert!(large.is_err(), "{large:?}");
    }

    #[test]
    fn names_and_numbers_do_not_make_an_answer_new() {
        assert_eq!(shape("400 pod \"a\" is 7"), shape("401 pod \"b\" is 12"));
        assert_ne!(shape("pod is wrong"), shape("node is wrong"));
    }
}
