//! The flags of Go's manager and of ours, as each tells of them itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use real_tests::installation;

/// Section, shorthand, type and default of a flag.
#[derive(Debug, Default, PartialEq, Eq)]
struct Shown {
    section: String,
    shorthand: String,
    kind: String,
    default: String,
}

/// What ours has beside those of upstream; docs/differences.md tells of it.
const ADDED: [&str; 1] = ["statefulset-recover-stuck-rollouts"];

#[test]
fn every_flag_of_go_is_ours_in_its_section_with_its_type_and_default() {
    let Some(installation) = installation::for_test() else {
        return;
    };
    let go = shown(&help(
        &installation.command("kube-controller-manager"),
        &["--help"],
    ));
    let ours = installation::steersman_binary().unwrap();
    let mut ours = shown(&help(&ours, &["controller-manager", "--help"]));
    assert_eq!(go.len(), 148, "upstream's number");
    for name in ADDED {
        assert!(ours.remove(name).is_some(), "{name}");
    }
    for (name, flag) in &go {
        assert_eq!(ours.remove(name).as_ref(), Some(flag), "--{name}");
    }
    assert_eq!(ours, BTreeMap::new(), "flags that nobody asked for");
}

fn help(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn shown(help: &str) -> BTreeMap<String, Shown> {
    let mut flags: BTreeMap<String, Shown> = BTreeMap::new();
    let (mut section, mut last) = (String::new(), None);
    for line in help.lines() {
        let text = line.trim();
        if let Some(name) = line.strip_suffix(" flags:") {
            section = name.to_owned();
            continue;
        }
        if let Some((name, flag)) = named(line) {
            let flag = Shown {
                section: section.clone(),
                ..flag
            };
            flags.insert(name.clone(), flag);
            last = Some(name);
        }
        // Go puts the default behind its text, which may go over several lines.
        let default = text
            .strip_suffix(')')
            .and_then(|text| text.rsplit_once("(default "));
        let flag = last.as_ref().and_then(|name| flags.get_mut(name));
        if let (Some((_, default)), Some(flag)) = (default, flag) {
            // UPSTREAM: types without a notion of empty show it as a default.
            flag.default = default.strip_prefix("[]").unwrap_or(default).to_owned();
        }
    }
    flags
}

/// `  -v, --v Level   Text`, or without the shorthand or the type. Text that begins with a flag is indented further.
fn named(line: &str) -> Option<(String, Shown)> {
    let (shorthand, rest) = match line.strip_prefix("      --") {
        Some(rest) => ("", rest),
        None => line.strip_prefix("  -")?.split_once(", --")?,
    };
    let words = rest.split("  ").next()?;
    let (name, kind) = words.split_once(' ').unwrap_or((words, ""));
    let flag = Shown {
        shorthand: shorthand.to_owned(),
        kind: kind.to_owned(),
        ..Shown::default()
    };
    Some((name.to_owned(), flag))
}
