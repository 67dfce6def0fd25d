//! The cluster's time, which `--speed` can make run ahead of the wall's.
//!
//! Objects carry times. A cluster that ran fast and is started again at the usual speed must not find its own
//! past in the future, so how far it is ahead is kept with its data, and its time never goes back.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use api::Clock;
use runtime::pace::Speed;
use runtime::{Stop, Task, spawn};

use crate::files;

/// In the data folder: seconds ahead of the wall clock.
const FILE: &str = "clock-ahead";

/// How often it is written down how far we are ahead, in real time. What is written is good for twice as long,
/// so that a process which is killed has never been further than it says.
const NOTE_EVERY: Duration = Duration::from_secs(5);

pub(crate) struct Timekeeping {
    pub(crate) clock: Clock,
    /// None where time passes as on the wall, which nobody can change.
    pub(crate) speed: Option<Speed>,
    wall: Clock,
    file: Option<PathBuf>,
    _tasks: Vec<Task<()>>,
}

impl Timekeeping {
    /// Time at the given speed; other than 1 it takes a runtime whose time is paused.
    pub(crate) fn start(speed: f64, data_dir: Option<&Path>, stop: &Stop) -> Timekeeping {
        let file = data_dir.map(|dir| dir.join(FILE));
        let ahead = file.as_deref().map_or(Duration::ZERO, read);
        let wall = runtime::clock::wall();
        if is_usual(speed) {
            return Timekeeping {
                clock: runtime::clock::wall_ahead(ahead),
                speed: None,
                wall,
                // It stays as far ahead as it is.
                file: None,
                _tasks: Vec::new(),
            };
        }
        let clock = runtime::clock::following_tokio_from(wall.now().plus(ahead));
        let clock = clock.in_zone(wall.zone().clone());
        let speed = Speed::new(speed);
        let mut tasks = vec![spawn(runtime::pace::run(speed.clone(), stop.clone()))];
        if let Some(file) = file.clone() {
            let notes = keep_notes(clock.clone(), wall.clone(), file, speed.clone());
            tasks.push(spawn(notes));
        }
        Timekeeping {
            clock,
            speed: Some(speed),
            wall,
            file,
            _tasks: tasks,
        }
    }

    /// Writes down exactly how far ahead it is.
    pub(crate) fn finish(self) -> Result<()> {
        match &self.file {
            Some(file) => write(file, self.clock.now().since(self.wall.now())),
            None => Ok(()),
        }
    }
}

pub(crate) fn is_usual(speed: f64) -> bool {
    (speed - 1.0).abs() < f64::EPSILON
}

async fn keep_notes(clock: Clock, wall: Clock, file: PathBuf, speed: Speed) {
    loop {
        // Where it is changed before the next note, that note comes sooner by as much.
        let speed = speed.get();
        let by_then = clock.now().since(wall.now()) + (2 * NOTE_EVERY).mul_f64(speed);
        if let Err(error) = write(&file, by_then) {
            tracing::warn!(error = %format!("{error:#}"), "cannot note the cluster's time");
        }
        tokio::time::sleep(NOTE_EVERY.mul_f64(speed)).await;
    }
}

fn read(file: &Path) -> Duration {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    Duration::from_secs(text.trim().parse().unwrap_or(0))
}

/// A cluster that is behind catches up when it is started again: time may jump forward.
fn write(file: &Path, ahead: Duration) -> Result<()> {
    let seconds = ahead.as_secs() + u64::from(ahead.subsec_nanos() > 0);
    files::write_private(file, &format!("{seconds}\n"))
}
