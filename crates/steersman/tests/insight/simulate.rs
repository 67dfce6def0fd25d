//! `steersman simulate`: what it prints, and how it ends.

use std::io::Read;
use std::process::{Command, Stdio};

use crate::cluster::{BINARY, steersman, text};

/// How it ends when a check is broken is a test of the command's own.
#[test]
fn the_same_seed_prints_the_same_text() {
    let arguments = ["simulate", "--seed", "3", "--timeline"];
    let (one, two) = (steersman(&arguments), steersman(&arguments));
    let told = text(&one.stdout);
    assert_eq!(one.status.code(), Some(0), "{told}");
    assert_eq!(told, text(&two.stdout));
    let last = told.lines().last().unwrap_or_default();
    assert!(last.starts_with("  hash "), "{told}");
    assert!(
        !told.contains("real seconds"),
        "no wall clock in it: {told}"
    );
}

#[test]
fn a_scenario_is_picked_by_its_name_and_many_are_summed_up() {
    let output = steersman(&["simulate", "--list"]);
    assert!(text(&output.stdout).contains("rolling-update   a Deployment of 4"));
    let output = steersman(&[
        "simulate",
        "--scenario",
        "recreate",
        "--seeds",
        "2",
        "--jobs",
        "2",
    ]);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{told}");
    for row in [
        "runs              2",
        "virtual seconds",
        "speed",
        "faults injected",
        "crashes survived",
        "checks evaluated",
        "broken            0",
    ] {
        assert!(told.contains(row), "{row}: {told}");
    }
}

#[test]
fn arguments_that_make_no_sense() {
    let check = |arguments: &[&str], code: i32, expected: &str| {
        let output = steersman(&[&["simulate"], arguments].concat());
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {told}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        assert!(told.contains(expected), "{arguments:?}: {told}");
    };
    check(
        &["--scenario", "nope"],
        1,
        "there is no scenario \"nope\"; there are rolling-update",
    );
    check(&["--seed", "1", "--steps", "900"], 1, "900");
    check(&["--seed", "1", "--faults", "gnomes"], 1, "gnomes");
    check(&["--seeds", "0"], 1, "0");
    check(&["--seed", "1", "--seeds", "2"], 1, "cannot be used with");
    check(&["--timeline"], 1, "required arguments were not provided");
    check(&["--steps", "0"], 1, "required arguments were not provided");
    check(
        &["--scenario", "recreate", "--crash-after-write", "9999"],
        1,
        "writes, so it was not crashed",
    );
}

#[test]
fn a_reader_who_has_seen_enough_is_no_trouble() {
    let mut child = Command::new(BINARY)
        .args(["simulate", "--seed", "3", "--timeline"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut out = child.stdout.take().expect("it is piped");
    out.read_exact(&mut [0; 10]).expect("it prints");
    drop(out);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(141), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_told() {
    let full = std::fs::File::options().write(true).open("/dev/full");
    let output = Command::new(BINARY)
        .args(["simulate", "--list"])
        .stdout(full.expect("Linux has it"))
        .output()
        .expect("the binary runs");
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stderr);
    assert!(
        told.starts_with("error: cannot write to standard output: No space left"),
        "{told}"
    );
}
