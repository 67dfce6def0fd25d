use super::*;

fn check(text: &str, expected: &str) {
    let told = match documents(text) {
        Ok(found) => found
            .iter()
            .map(|document| format!("{}: {}", document.line, document.json))
            .collect::<Vec<_>>()
            .join("; "),
        Err(error) => error.to_string(),
    };
    let begin: String = text.chars().take(60).collect();
    assert_eq!(told, expected, "{begin}");
}

fn check_word(word: &str, expected: &str) {
    check(&format!("a: {word}"), &format!(r#"1: {{"a":{expected}}}"#));
}

#[test]
fn words_stand_for_what_they_do_in_yaml_1_1() {
    for (word, expected) in [
        ("yes", "true"),
        ("Off", "false"),
        ("y", "true"),
        ("n", "false"),
        ("True", "true"),
        ("tRue", r#""tRue""#),
        ("~", "null"),
        ("", "null"),
        ("null", "null"),
        ("nothing", r#""nothing""#),
        ("'yes'", r#""yes""#),
        ("\"0755\"", r#""0755""#),
        ("!!str yes", r#""yes""#),
        ("!!int 0x10", "16"),
        ("!!float 3", "3"),
        ("!other 7", r#""7""#),
    ] {
        check_word(word, expected);
    }
    check("a: !!int x", "line 1: cannot decode `x` as a !!int");
    check("a: .inf", "line 1: .inf is no value in JSON");
}

#[test]
fn numbers_are_those_of_go() {
    for (word, expected) in [
        ("0", "0"),
        ("-7", "-7"),
        ("+7", "7"),
        ("0755", "493"),
        ("0o17", "15"),
        ("0x1F", "31"),
        ("-0b11", "-3"),
        ("1_000", "1000"),
        ("089", "89"),
        ("18446744073709551615", "18446744073709551615"),
        ("18446744073709551616", "18446744073709551616"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("1.0", "1"),
        ("1.5", "1.5"),
        (".5", "0.5"),
        ("1.", "1"),
        ("1e3", "1000"),
        ("-1.5E-1", "-0.15"),
        ("1e400", r#""1e400""#),
        ("1.2.3", r#""1.2.3""#),
        ("100m", r#""100m""#),
        ("0x", r#""0x""#),
        ("0x-1", r#""0x-1""#),
        ("1-2", r#""1-2""#),
        ("2024-01-01", r#""2024-01-01""#),
        ("12:30", r#""12:30""#),
        ("10.0.0.1", r#""10.0.0.1""#),
    ] {
        check_word(word, expected);
    }
}

#[test]
fn names_are_text() {
    check(
        "1: a\nyes: b\n1.5: c\n\"2\": d\n",
        r#"1: {"1":"a","true":"b","1.5":"c","2":"d"}"#,
    );
    check("~: a", "line 1: null cannot be a name");
    check("? [a]\n: b\n", "line 1: a name must not be a list or a map");
    check("a: 1\na: 2\n", r#"1: {"a":1,"a":2}"#);
}

#[test]
fn documents_begin_where_they_do() {
    check("", "");
    check("# nothing\n", "");
    check("---\n---\na: 1\n", r#"2: null; 3: {"a":1}"#);
    check(
        "\u{feff}a: 1\n---\n# b\n\nb: [x, {w: z}]\n...\n",
        r#"1: {"a":1}; 5: {"b":["x",{"w":"z"}]}"#,
    );
    check("text: |\n  a\n  b\n", r#"1: {"text":"a\nb\n"}"#);
}

#[test]
fn aliases_and_merges() {
    check("a: &x [1]\nb: *x\n", r#"1: {"a":[1],"b":[1]}"#);
    check(
        "base: &b {x: 1, w: 2}\nz:\n  <<: *b\n  w: 3\n",
        r#"1: {"base":{"x":1,"w":2},"z":{"x":1,"w":3}}"#,
    );
    check(
        "a: &a {x: 1}\nb: &b {x: 2, w: 2}\nz:\n  <<: [*a, *b]\n",
        r#"1: {"a":{"x":1},"b":{"x":2,"w":2},"z":{"x":1,"w":2}}"#,
    );
    check("a: 1\n\"<<\": {b: 2}\n", r#"1: {"a":1,"<<":{"b":2}}"#);
    check(
        "<<: 7\n",
        "line 1: map merge requires map or sequence of maps as the value",
    );
    check("a: &x [*x]\n", "line 1: an anchor's value contains itself");
}

#[test]
fn hostile_text_is_refused() {
    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..9 {
        let below = format!("*a{},", level - 1).repeat(10);
        bomb.push_str(&format!("a{level}: &a{level} [{below}]\n"));
    }
    check(&bomb, "line 6: document contains excessive aliasing");
    let big = "x".repeat(100_000);
    let aliases = "*a,".repeat(2_000);
    check(
        &format!("a: &a {big}\nb: [{aliases}]\n"),
        "line 2: document contains excessive aliasing",
    );
    check(&"[".repeat(100_000), "line 1: recursion limit exceeded");
    check(&"- ".repeat(200), "line 1: nested too deeply");
}

#[test]
fn aliases_count_for_the_depth_of_what_they_stand_for() {
    let nested = |inside: &str, levels: usize| {
        format!("{}{inside}{}", "[".repeat(levels), "]".repeat(levels))
    };
    let text = format!("a: &a {}\nb: {}\n", nested("1", 63), nested("*a", 63));
    assert_eq!(documents(&text).unwrap().len(), 1);
    let text = format!("a: &a {}\nb: {}\n", nested("1", 63), nested("*a", 64));
    check(&text, "line 2: nested too deeply");
    // Each one is as deep as all before it, and some more.
    let mut chain = format!("a0: &a0 {}\n", nested("1", 100));
    for level in 1..200 {
        let inside = nested(&format!("*a{}", level - 1), 100);
        chain.push_str(&format!("a{level}: &a{level} {inside}\n"));
    }
    check(&chain, "line 2: nested too deeply");
}

#[test]
fn the_first_document_is_read_and_no_other() {
    let first = first_document("a: 1\n---\nb: [\n").unwrap().unwrap();
    assert_eq!(first.json, r#"{"a":1}"#);
    assert_eq!(first_document("").unwrap(), None);
}

proptest::proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "[\\[\\]{}:,\"'a0-9.e\\\\ \\-\n&*<!|>?#%@~\u{feff}]{0,80}") {
        for document in documents(&text).unwrap_or_default() {
            proptest::prop_assert!(serde_json::from_str::<serde_json::Value>(&document.json).is_ok());
        }
    }

    #[test]
    fn json_reads_as_json(value in "[a-z ]{0,5}", number in proptest::prelude::any::<i64>()) {
        let text = serde_json::json!({"a": [value, number, true, null], "b": {}}).to_string();
        proptest::prop_assert_eq!(&documents(&text).unwrap()[0].json, &text);
    }
}

#[test]
fn all_names_that_stand_twice_are_known_with_their_lines() {
    let text = "a: 1\nb:\n  c: 1\n  c:\n    d: 1\nb: {x: 1, x: 2}\na: 2\n";
    let document = first_document(text).unwrap().unwrap();
    let expected = "yaml: unmarshal errors:\n  line 5: key \"c\" already set in map\n  line 6: key \"x\" already set in map\n  line 6: key \"b\" already set in map\n  line 7: key \"a\" already set in map";
    assert_eq!(document.repetitions().as_deref(), Some(expected));
    assert_eq!(first_document("a: 1").unwrap().unwrap().repetitions(), None);
}
