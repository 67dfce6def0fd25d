//! One run over one target.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use api::Rng;

use crate::targets::Target;
use crate::{corpus, limits, mutate};

/// Inputs that are gone on from; a new answer takes the place of a random one beyond that.
const KEPT: usize = 1000;

/// A server is replaced after so many inputs, so that what it caches on purpose does not count as growth.
const INPUTS_PER_SERVER: u64 = 5000;

/// What is kept in the repository is small.
const SMALL: usize = 1024;

/// An input that takes so long will not end.
const HANGS: Duration = Duration::from_secs(20);

#[derive(Debug, Default)]
pub struct Found {
    pub inputs: u64,
    pub answers: usize,
    pub longest: Duration,
    pub largest_bytes: u64,
}

/// Tries inputs for so many seconds of processor time: on a busy machine the clock says little. The error says where the one that fails is.
pub fn run(target: &Target, seconds: u64, seed: u64, keep: bool) -> Result<Found> {
    let rng = Rng::from_seed(seed);
    let mut inputs = seeds(target.name)?;
    let current = place(target.name)?;
    let count = watch(current.clone());
    let mut found = Found::default();
    let mut answers = BTreeSet::new();
    let mut queue = inputs.clone();
    let begin = limits::processor();
    let mut session = (target.open)();
    while limits::processor().saturating_sub(begin) < Duration::from_secs(seconds) {
        let input = match queue.pop() {
            Some(input) => input,
            None => {
                let pick = || &inputs[rng.below(inputs.len())];
                mutate::mutate(&rng, pick(), pick())
            }
        };
        // A stack that overflows takes the process along: the input must be on the disk by then.
        std::fs::write(&current, &input)?;
        let cost = match limits::run(limits::LONGEST, || session(&input)) {
            Ok(cost) => cost,
            Err(why) => bail!("{}: {why}; the input is {}", target.name, current.display()),
        };
        found.inputs += 1;
        count.store(found.inputs, Ordering::Relaxed);
        found.longest = found.longest.max(cost.took);
        found.largest_bytes = found.largest_bytes.max(cost.grew_bytes);
        if answers.insert(cost.answer) {
            if keep && input.len() <= SMALL && answers.len() <= 40 {
                let name = format!("found-{:03}", answers.len());
                std::fs::write(corpus(target.name).join(name), &input)?;
            }
            match inputs.len() < KEPT {
                true => inputs.push(input),
                false => {
                    let at = rng.below(KEPT);
                    inputs[at] = input;
                }
            }
        }
        if found.inputs % INPUTS_PER_SERVER == 0 {
            session = (target.open)();
        }
    }
    count.store(u64::MAX, Ordering::Relaxed);
    let _ = std::fs::remove_file(current);
    found.answers = answers.len();
    Ok(found)
}

/// All inputs that are kept for a target.
pub fn seeds(target: &str) -> Result<Vec<Vec<u8>>> {
    let dir = corpus(target);
    let mut paths: Vec<_> = std::fs::read_dir(&dir)
        .with_context(|| format!("{} holds no inputs to begin with", dir.display()))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    paths.sort();
    paths
        .iter()
        .map(|path| std::fs::read(path).with_context(|| path.display().to_string()))
        .collect()
}

fn place(target: &str) -> Result<PathBuf> {
    // In memory where that can be had: it is written for every input.
    let shared = Path::new("/dev/shm");
    let root = match shared.is_dir() {
        true => shared.join("steersman-fuzz"),
        false => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/fuzz"),
    };
    std::fs::create_dir_all(&root)?;
    Ok(root.join(target))
}

/// Ends the process when an input does not end. `u64::MAX` says that the run is over.
fn watch(input: PathBuf) -> Arc<AtomicU64> {
    let count = Arc::new(AtomicU64::new(0));
    let watched = count.clone();
    std::thread::spawn(move || {
        let mut last = u64::MAX;
        loop {
            std::thread::sleep(HANGS);
            let now = watched.load(Ordering::Relaxed);
            if now == u64::MAX {
                return;
            }
            if now == last {
                let _ = std::io::Write::write_all(
                    &mut std::io::stderr(),
                    format!("an input hangs; it is {}\n", input.display()).as_bytes(),
                );
                std::process::abort();
            }
            last = now;
        }
    });
    count
}
