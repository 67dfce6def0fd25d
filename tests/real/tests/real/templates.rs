//! What our names of pod templates rest on is what Go says.

use std::path::Path;
use std::process::Command;

use real_tests::installation;

fn print(program: &Path, arguments: &[&str]) -> String {
    assert!(
        program.is_file(),
        "the program for templates is not built; run `cargo xtask real build`"
    );
    let ran = Command::new(program).args(arguments).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn structs_and_hashes_of_templates_are_those_of_go() {
    let Some(installation) = installation::for_test() else {
        return;
    };
    let program = installation.templates();
    let kept = include_str!("../../../../schema/go_structs.txt");
    let made = print(&program, &["layouts"]);
    assert!(kept == made, "run `cargo xtask schema --live`");
    let hashes = print(&program, &["hashes", "100"]);
    let hashes: Vec<&str> = hashes.lines().collect();
    for line in include_str!("../../../../crates/api/src/go_dump/hashes.txt").lines() {
        assert!(hashes.contains(&line), "{line}");
    }
}
