//! Waiting for a state of the world, with a deadline and the last thing seen in the failure.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How often a condition is looked at: short next to what servers take, long next to what a look costs.
const POLL: Duration = Duration::from_millis(50);

/// What a look at the world found: the awaited thing, or a sentence on what is there instead.
pub enum Seen<T> {
    Ready(T),
    NotYet(String),
}

/// Looks until `look` finds what it waits for. Errors of `look` count as "not yet", so a server that
/// restarts in between does not end the wait; the last of them is in the message if time runs out.
pub fn until<T>(
    what: &str,
    deadline: Duration,
    mut look: impl FnMut() -> Result<Seen<T>>,
) -> Result<T> {
    let started = Instant::now();
    loop {
        let last = match look() {
            Ok(Seen::Ready(found)) => return Ok(found),
            Ok(Seen::NotYet(seen)) => seen,
            Err(error) => format!("{error:#}"),
        };
        if started.elapsed() > deadline {
            bail!(
                "waited {} s for {what}; last seen: {last}",
                deadline.as_secs()
            );
        }
        std::thread::sleep(POLL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_what_was_found_after_errors_and_not_yets() {
        let mut looks = 0;
        let found = until("a number", Duration::from_secs(5), || {
            looks += 1;
            match looks {
                1 => bail!("connection refused"),
                2 => Ok(Seen::NotYet("one of two".to_owned())),
                _ => Ok(Seen::Ready(looks)),
            }
        });
        assert_eq!(found.unwrap(), 3);
    }

    #[test]
    fn failure_names_the_wait_and_the_last_thing_seen() {
        let failure = until::<()>("the pods", Duration::ZERO, || {
            std::thread::sleep(Duration::from_millis(1));
            Ok(Seen::NotYet("2 of 3 ready".to_owned()))
        });
        assert_eq!(
            failure.unwrap_err().to_string(),
            "waited 0 s for the pods; last seen: 2 of 3 ready"
        );
    }
}
