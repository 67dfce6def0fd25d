use super::*;
use api::Time;
use expect_test::{Expect, expect};

fn around() -> Surroundings {
    let files = [
        ("/etc/app/key", Ok("value\n".to_owned())),
        ("/etc/app/other", Ok("x".to_owned())),
        ("/run/token", Err("Permission denied".to_owned())),
    ];
    Surroundings {
        hostname: "web-0".to_owned(),
        environment: BTreeMap::from([("NAME".to_owned(), "Ann".to_owned())]),
        files: files
            .into_iter()
            .map(|(path, text)| (path.to_owned(), text))
            .collect(),
    }
}

/// What is printed in the first `seconds`, with the second, and the end.
fn check(command: &[&str], seconds: i64, expected: Expect) {
    let shown = match Script::parse(command) {
        Err(error) => error.to_string(),
        Ok(script) => {
            let start = Time::from_unix(0).micro();
            let before = start.minus(Duration::from_micros(1));
            let end = Time::from_unix(seconds).micro();
            let played = script.perform(&around(), start, before, end);
            let lines = played.printed.iter().map(|one| {
                let mark = if one.to_stderr { "!" } else { "" };
                format!("{}{mark} {:?}", one.at.time().unix(), one.text)
            });
            let ended = played
                .ended
                .map(|(at, code)| format!("{} exit {code}", at.time().unix()));
            lines.chain(ended).collect::<Vec<String>>().join("; ")
        }
    };
    expected.assert_eq(&shown);
}

fn shell(script: &str, seconds: i64, expected: Expect) {
    check(&["/bin/sh", "-c", script], seconds, expected);
}

#[test]
fn commands_print_what_they_are_told() {
    check(
        &["echo", "hi", "there"],
        1,
        expect![[r#"0 "hi there\n"; 0 exit 0"#]],
    );
    check(
        &["cat", "/etc/app/../app/key"],
        1,
        expect![[r#"0 "value\n"; 0 exit 0"#]],
    );
    check(
        &["cat", "/nowhere"],
        1,
        expect![[r#"0! "cat: can't open '/nowhere': No such file or directory\n"; 0 exit 1"#]],
    );
    check(
        &["cat", "/run/token"],
        1,
        expect![[r#"0! "cat: can't open '/run/token': Permission denied\n"; 0 exit 1"#]],
    );
    check(
        &["ls", "-l", "/etc/app"],
        1,
        expect![[r#"0 "key\nother\n"; 0 exit 0"#]],
    );
    check(
        &["printenv", "NAME"],
        1,
        expect![[r#"0 "Ann\n"; 0 exit 0"#]],
    );
    check(&["hostname"], 1, expect![[r#"0 "web-0\n"; 0 exit 0"#]]);
    check(
        &["date"],
        1,
        expect![[r#"0 "Thu Jan  1 00:00:00 UTC 1970\n"; 0 exit 0"#]],
    );
}

#[test]
fn scripts_go_from_statement_to_statement() {
    shell(
        "echo a; sleep 5; echo b && exit 3",
        9,
        expect![[r#"0 "a\n"; 5 "b\n"; 5 exit 3"#]],
    );
    shell(
        "false || echo no && echo yes",
        1,
        expect![[r#"0 "no\n"; 0 "yes\n"; 0 exit 0"#]],
    );
    shell(
        "false && echo never; echo $NAME ${NAME}x '$NAME' \"$NAME!\"",
        1,
        expect![[r#"0 "Ann Annx $NAME Ann!\n"; 0 exit 0"#]],
    );
    shell(
        "X=1; echo $X >&2 # done",
        1,
        expect![[r#"0! "1\n"; 0 exit 0"#]],
    );
    shell(
        "echo start\nsleep infinity",
        100,
        expect![[r#"0 "start\n""#]],
    );
    shell(
        "NAME=Bob echo $NAME; echo $NAME",
        1,
        expect![[r#"0 "Ann\n"; 0 "Ann\n"; 0 exit 0"#]],
    );
    shell(
        "trap 'exit 1' TERM INT; echo up",
        1,
        expect![[r#"0 "up\n"; 0 exit 0"#]],
    );
    shell(
        "while true; do echo $(date); sleep 2; done",
        5,
        expect![[
            r#"0 "Thu Jan  1 00:00:00 UTC 1970\n"; 2 "Thu Jan  1 00:00:02 UTC 1970\n"; 4 "Thu Jan  1 00:00:04 UTC 1970\n""#
        ]],
    );
}

#[test]
fn what_is_not_understood_is_named() {
    shell(
        "nginx -g 'daemon off;'",
        1,
        expect![
            "nginx -g daemon off;: not among the commands that a simulated container understands"
        ],
    );
    shell(
        "echo a | grep a",
        1,
        expect!["|: not among the commands that a simulated container understands"],
    );
    shell(
        "echo $(curl x)",
        1,
        expect!["$(curl x): not among the commands that a simulated container understands"],
    );
    shell(
        "NAME=Bob env",
        1,
        expect!["NAME=Bob: not among the commands that a simulated container understands"],
    );
    shell(
        "trap 'echo bye' EXIT; echo up",
        1,
        expect![
            "trap echo bye EXIT: not among the commands that a simulated container understands"
        ],
    );
    shell(
        "while read x; do echo; done",
        1,
        expect!["while: not among the commands that a simulated container understands"],
    );
}

#[test]
fn a_loop_that_has_run_for_years_is_cheap() {
    let script = Script::parse(&["sh", "-c", "while true; do echo x; sleep 1; done"]).unwrap();
    let start = Time::from_unix(0).micro();
    let years = start.plus(Duration::from_secs(10 * 365 * 86_400));
    let played = script.perform(&around(), start, start, years);
    assert_eq!(played.printed.len(), 2001);
    let last_two = years.minus(Duration::from_secs(2));
    assert_eq!(
        script
            .perform(&around(), start, last_two, years)
            .printed
            .len(),
        2
    );
}

#[test]
fn outlines_say_how_a_command_ends() {
    let outline = |script: &str| Script::parse(&["sh", "-c", script]).unwrap().outline();
    let after = |seconds, code| Some((Duration::from_secs(seconds), code));
    assert_eq!(outline("echo a; sleep 5; exit 3"), after(5, 3));
    assert_eq!(outline("cat /config && sleep 1"), after(1, 0));
    assert_eq!(outline("false"), after(0, 1));
    assert_eq!(outline("sleep inf"), None);
    assert_eq!(outline("while true; do sleep 1; done"), None);
}

#[test]
fn files_that_are_written_can_be_read() {
    shell(
        "echo one > /tmp/a; echo two >>/tmp/a; cat /tmp/a; ls /tmp; > /tmp/a; cat /tmp/a",
        1,
        expect![[r#"0 "one\ntwo\n"; 0 "a\n"; 0 ""; 0 exit 0"#]],
    );
    shell(
        "echo x > /dev/stderr; echo y > /dev/null; echo z >/dev/stdout",
        1,
        expect![[r#"0! "x\n"; 0 "z\n"; 0 exit 0"#]],
    );
    shell(
        "echo x > /etc/app && echo never; date +%s > /tmp/$NAME && cat /tmp/Ann",
        1,
        expect![[r#"0! "sh: can't create /etc/app: Is a directory\n"; 0 "0\n"; 0 exit 0"#]],
    );
    shell(
        "cat /nowhere > /tmp/a; cat /tmp/a",
        1,
        expect![[
            r#"0! "cat: can't open '/nowhere': No such file or directory\n"; 0 ""; 0 exit 0"#
        ]],
    );
    for script in [
        "echo x 2> /tmp/a",
        "echo x > /tmp/a > /tmp/b",
        "echo x >",
        "exec > /tmp/a",
        "while true; do echo x; sleep 1; done > /tmp/a",
    ] {
        assert!(Script::parse(&["sh", "-c", script]).is_err(), "{script}");
    }
}

#[test]
fn a_loop_that_doubles_what_it_keeps_comes_to_an_end() {
    let script =
        "X=x; echo x > /a; while true; do X=$X$X; cat /a /a > /b; cat /b > /a; sleep 1; done";
    let script = Script::parse(&["sh", "-c", script]).unwrap();
    let start = Time::from_unix(0).micro();
    let later = start.plus(Duration::from_secs(100));
    let files = script.perform(&around(), start, later, later).files;
    let longest = files.values().flatten().map(String::len).max();
    assert_eq!(longest, Some(256 * 1024));
}

#[test]
fn many_of_the_longest_take_no_more_than_a_few_megabytes() {
    let copies: String = (0..100)
        .map(|at| format!("A{at}=$X; echo $X > /f{at}; echo $X; "))
        .collect();
    let doubled = "X=$X$X; ".repeat(18);
    let many = format!("X=x; {doubled}{copies} echo {}", "$X".repeat(100));
    let start = Time::from_unix(0).micro();
    let script = Script::parse(&["sh", "-c", &many]).unwrap();
    let before = start.minus(Duration::from_secs(1));
    let done = script.perform(&around(), start, before, start);
    let files: usize = done.files.values().flatten().map(String::len).sum();
    let printed: usize = done.printed.iter().map(|one| one.text.len()).sum();
    assert!(files <= 8 << 20, "files hold {files}");
    assert!(printed <= 8 << 20, "printed {printed}");
}
