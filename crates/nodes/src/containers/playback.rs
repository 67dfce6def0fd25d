//! A command that somebody waits for: played as time passes.

use std::time::Duration;

use api::{Clock, MicroTime};
use futures_util::stream::{self, BoxStream, StreamExt};

use super::Output;
use crate::script::{Script, Surroundings};

/// Short enough to feel at once.
const TICK: Duration = Duration::from_millis(100);

pub(super) struct Playback {
    script: Script,
    around: Surroundings,
    clock: Clock,
    start: MicroTime,
    /// Up to here it has been played.
    played: MicroTime,
    is_over: bool,
}

impl Playback {
    pub(super) fn new(script: Script, around: Surroundings, clock: Clock) -> Playback {
        let start = clock.now();
        Playback {
            script,
            around,
            clock,
            start,
            played: start.minus(Duration::from_micros(1)),
            is_over: false,
        }
    }

    pub(super) fn outputs(self) -> BoxStream<'static, Output> {
        stream::unfold(self, |mut playback| async move {
            let outputs = playback.next().await?;
            Some((stream::iter(outputs), playback))
        })
        .flatten()
        .boxed()
    }

    /// What comes next; none after the end.
    async fn next(&mut self) -> Option<Vec<Output>> {
        while !self.is_over {
            let now = self.clock.now();
            let done = self
                .script
                .perform(&self.around, self.start, self.played, now);
            self.played = now;
            let mut outputs: Vec<Output> = done.printed.into_iter().map(Output::from).collect();
            if let Some((_, code)) = done.ended {
                self.is_over = true;
                outputs.push(Output::Exit(code));
            }
            if !outputs.is_empty() {
                return Some(outputs);
            }
            tokio::time::sleep(TICK).await;
        }
        None
    }
}
