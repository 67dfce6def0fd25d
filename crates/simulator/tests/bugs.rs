//! The patches of `cargo xtask simulate-bugs` still apply, and say what they do and which check is meant to find it.

use std::path::Path;
use std::process::Command;

#[test]
fn every_bug_still_applies() {
    let simulator = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = simulator.join("bugs");
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).expect("there are bugs") {
        let path = entry.expect("it can be listed").path();
        let text = std::fs::read_to_string(&path).expect("a patch is text");
        for start in ["Bug: ", "Found by: "] {
            assert!(
                text.lines().any(|line| line.starts_with(start)),
                "{path:?}: {start}"
            );
        }
        let changed = |line: &&str| {
            line.starts_with(['+', '-']) && !line.starts_with("+++") && !line.starts_with("---")
        };
        let lines = text.lines().filter(changed).count();
        assert!((1..=12).contains(&lines), "{path:?} changes {lines} lines");
        let checked = Command::new("git")
            .args(["apply", "--check"])
            .arg(&path)
            .current_dir(simulator.join("../.."))
            .output()
            .expect("git is there");
        let said = String::from_utf8_lossy(&checked.stderr);
        assert!(checked.status.success(), "{path:?}: {said}");
        count += 1;
    }
    assert!(count >= 36, "there are {count}");
}
