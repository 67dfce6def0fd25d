//! Every input that is kept, and some that are made of them: no panic, no second, no 200 MB.

use std::time::Duration;

use api::Rng;
use fuzz::targets::ALL;
use fuzz::{limits, mutate, run};

/// Tests are not optimised, which is ten times as slow.
const LONGEST: Duration = Duration::from_secs(10);

#[test]
fn inputs_that_are_kept_stay_harmless() {
    for target in &ALL {
        let seeds = run::seeds(target.name).unwrap();
        assert!(!seeds.is_empty(), "{} has no inputs", target.name);
        let mut session = (target.open)();
        let rng = Rng::from_seed(1);
        let changed = (0..50).map(|_| {
            let pick = || &seeds[rng.below(seeds.len())];
            mutate::mutate(&rng, pick(), pick())
        });
        for input in seeds.iter().cloned().chain(changed.collect::<Vec<_>>()) {
            if let Err(why) = limits::run(LONGEST, || session(&input)) {
                panic!("{}: {why}: {}", target.name, input.escape_ascii());
            }
        }
    }
}
