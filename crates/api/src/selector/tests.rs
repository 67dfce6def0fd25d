use std::borrow::Cow;

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

fn labels(text: &str) -> LabelSet {
    text.split(',')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap())
        .collect()
}

fn parse(text: &str) -> Selector {
    Selector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn spec(json: &str) -> LabelSelector {
    serde_json::from_str(json).unwrap()
}

/// Prints what each line parses to.
fn check_parse(lines: &[&str], expected: Expect) {
    let printed: Vec<String> = lines
        .iter()
        .map(|line| match Selector::parse(line) {
            Ok(selector) => format!("{line} -> {selector}\n"),
            Err(error) => format!("{line} -> ERROR {error}\n"),
        })
        .collect();
    expected.assert_eq(&printed.concat());
}

// TestSelectorParse, TestRequirementSelectorMatching
#[test]
fn reads_every_operator() {
    check_parse(
        &[
            "",
            "x=a",
            "x==a",
            "x!=a",
            "x",
            "!x",
            "x=",
            "x= ",
            "x=,z= ",
            "x in (b,a)",
            "x notin (a,,b)",
            "x in ()",
            "x in (,)",
            "x in (a,)",
            "x>1",
            "x<7",
            " b = c , a ",
            "in in (in,notin)",
            "notin",
            "a.b/c=d",
            "z=1,a=2,m",
            "x in\n(a)\t",
            "x=a,x!=b",
        ],
        expect![[r#"
             -> 
            x=a -> x=a
            x==a -> x==a
            x!=a -> x!=a
            x -> x
            !x -> !x
            x= -> x=
            x=  -> x=
            x=,z=  -> x=,z=
            x in (b,a) -> x in (a,b)
            x notin (a,,b) -> x notin (,a,b)
            x in () -> x in ()
            x in (,) -> x in ()
            x in (a,) -> x in (,a)
            x>1 -> x>1
            x<7 -> x<7
             b = c , a  -> a,b=c
            in in (in,notin) -> in in (in,notin)
            notin -> notin
            a.b/c=d -> a.b/c=d
            z=1,a=2,m -> a=2,m,z=1
            x in
            (a)	 -> x in (a)
            x=a,x!=b -> x=a,x!=b
        "#]],
    );
}

#[test]
fn refuses_what_it_can_not_read_in_upstreams_words() {
    check_parse(
        &[
            "x=a||y=b",
            "x==a==b",
            "!x=a",
            "x<a",
            "x=a,",
            ",",
            "x,,y",
            "x y",
            "x in",
            "x in a",
            "x in (a",
            "x in (a b)",
            "x in (a,",
            "x in (=)",
            "x in (a=)",
            "!",
            "!=a",
            "=a",
            "x>",
            "(",
            "x_/y",
            "x=-",
            "a.b/c/d",
            "x in (-,a)",
            "x!a",
        ],
        expect![[r#"
            x=a||y=b -> ERROR unable to parse requirement: values[0][x]: Invalid value: "a||y": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
            x==a==b -> ERROR found '==', expected: ',' or 'end of string'
            !x=a -> ERROR found '=', expected: ',' or 'end of string'
            x<a -> ERROR unable to parse requirement: values[0]: Invalid value: "a": for 'Gt', 'Lt' operators, the value must be an integer
            x=a, -> ERROR found '', expected: identifier after ','
            , -> ERROR found ',', expected: !, identifier, or 'end of string'
            x,,y -> ERROR found ',', expected: identifier after ','
            x y -> ERROR unable to parse requirement: found 'y', expected: in, notin, =, ==, !=, gt, lt
            x in -> ERROR unable to parse requirement: found '' expected: '('
            x in a -> ERROR unable to parse requirement: found 'a' expected: '('
            x in (a -> ERROR unable to parse requirement: found '', expected: ',' or ')'
            x in (a b) -> ERROR unable to parse requirement: found 'b', expected: ',' or ')'
            x in (a, -> ERROR unable to parse requirement: found '', expected: ',', or identifier
            x in (=) -> ERROR unable to parse requirement: found '=', expected: ',', ')' or identifier
            x in (a=) -> ERROR unable to parse requirement: found '=', expected: ',' or ')'
            ! -> ERROR unable to parse requirement: found '', expected: identifier
            !=a -> ERROR found '!=', expected: !, identifier, or 'end of string'
            =a -> ERROR found '=', expected: !, identifier, or 'end of string'
            x> -> ERROR unable to parse requirement: values[0]: Invalid value: "": for 'Gt', 'Lt' operators, the value must be an integer
            ( -> ERROR found '(', expected: !, identifier, or 'end of string'
            x_/y -> ERROR unable to parse requirement: <nil>: Invalid value: "x_/y": prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            x=- -> ERROR unable to parse requirement: values[0][x]: Invalid value: "-": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
            a.b/c/d -> ERROR unable to parse requirement: <nil>: Invalid value: "a.b/c/d": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')
            x in (-,a) -> ERROR unable to parse requirement: values[0][x]: Invalid value: "-": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
            x!a -> ERROR unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt
        "#]],
    );
}

// TestSelectorMatches
#[test]
fn matches_as_each_operator_says() {
    let check = |selector: &str, yes: &[&str], no: &[&str]| {
        for text in yes {
            assert!(
                parse(selector).matches(&labels(text)),
                "{selector} matches {text}"
            );
        }
        for text in no {
            assert!(
                !parse(selector).matches(&labels(text)),
                "{selector} does not match {text}"
            );
        }
    };
    check("", &["", "x=y"], &[]);
    check("x=y", &["x=y", "x=y,z=w"], &["", "x=z", "y=x"]);
    check("x=y,z=w", &["x=y,z=w"], &["x=y", "z=w", "x=w,z=w"]);
    check("x!=y,z!=w", &["", "x=z,z=a", "a=b"], &["x=y", "x=z,z=w"]);
    check("x", &["x=", "x=1"], &["", "y=x"]);
    check("!x", &["", "y=x"], &["x="]);
    check("x in (a,b)", &["x=a", "x=b"], &["x=c", ""]);
    check("x notin (a,b)", &["x=c", "", "y=a"], &["x=a", "x=b"]);
    check("x=", &["x="], &["", "x=a"]);
    check(
        "x>5",
        &["x=6", "x=100"],
        &["x=5", "x=4", "x=a", "", "x=1.5"],
    );
    check("x<5", &["x=4", "x=0"], &["x=5", "x=a", ""]);
}

#[test]
fn everything_and_nothing() {
    let (all, none) = (Selector::everything(), Selector::nothing());
    assert!(all.matches(&labels("")) && all.matches(&labels("a=b")));
    assert!(!none.matches(&labels("")) && !none.matches(&labels("a=b")));
    assert!(all.is_empty() && !none.is_empty());
    assert!(none.is_nothing() && !all.is_nothing());
    assert_eq!(
        (all.to_string(), none.to_string()),
        (String::new(), String::new())
    );
    let more = Requirement::new("a", Operator::Exists, []).unwrap();
    assert_eq!(none.and([more.clone()]), none);
    assert_eq!(parse("b=c").and([more]).to_string(), "a,b=c");
}

#[test]
fn from_labels_requires_each_and_validates_none() {
    let selector = Selector::from_labels(&labels("b=-bad-,a=1"));
    assert_eq!(selector.to_string(), "a=1,b=-bad-");
    assert!(selector.matches(&labels("a=1,b=-bad-,c=2")));
    assert!(!selector.matches(&labels("a=1")));
    assert!(Selector::from_labels(&LabelSet::default()).is_empty());
}

// TestRequiresExactMatch
#[test]
fn required_values() {
    let value = |selector: &str| parse(selector).required_value("x").map(str::to_owned);
    assert_eq!(value("x=a"), Some("a".into()));
    assert_eq!(value("x in (a)"), Some("a".into()));
    assert_eq!(value("x==a,y=b"), Some("a".into()));
    for other in [
        "",
        "x in (a,b)",
        "x",
        "!x",
        "x notin (a)",
        "x!=a",
        "y=a",
        "x>1",
    ] {
        assert_eq!(value(other), None, "{other}");
    }
}

// TestNewRequirement
#[test]
fn requirements_obey_their_operators() {
    let new = |operator, values: &[&str]| {
        let values: Vec<Istr> = values.iter().copied().map(Istr::from).collect();
        Requirement::new("x", operator, values).map_err(|error| error.to_string())
    };
    use Operator::*;
    for (operator, values) in [
        (Exists, &[][..]),
        (DoesNotExist, &[]),
        (Equals, &["a"]),
        (NotEquals, &[""]),
        (In, &["a", "b"]),
        (NotIn, &["a"]),
        (GreaterThan, &["1"]),
        (LessThan, &["0"]),
    ] {
        assert!(new(operator, values).is_ok(), "{operator:?} {values:?}");
    }
    expect![[r#"
        values: Invalid value: ["a"]: values set must be empty for exists and does not exist
        values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty
        values: Invalid value: ["a","b"]: exact-match compatibility requires one single value
        [values: Invalid value: ["1","b"]: for 'Gt', 'Lt' operators, exactly one value is required, values[1]: Invalid value: "b": for 'Gt', 'Lt' operators, the value must be an integer]
    "#]]
    .assert_eq(
        &[
            new(Exists, &["a"]),
            new(In, &[]),
            new(Equals, &["a", "b"]),
            new(LessThan, &["1", "b"]),
        ]
        .map(|result| result.unwrap_err() + "\n")
        .concat(),
    );
}

// TestLabelSelectorAsSelector
#[test]
fn struct_form_compiles() {
    let compile = |json: &str| match spec(json).compile() {
        Ok(selector) => selector.to_string(),
        Err(error) => format!("ERROR {error}"),
    };
    assert_eq!(compile(r#"{"matchLabels":{"foo":"bar"}}"#), "foo=bar");
    assert_eq!(
        compile(
            r#"{"matchLabels":{"foo":"bar"},"matchExpressions":[{"key":"baz","operator":"In","values":["qux","norf"]}]}"#
        ),
        "baz in (norf,qux),foo=bar"
    );
    assert_eq!(
        compile(
            r#"{"matchExpressions":[{"key":"a","operator":"NotIn","values":["b"]},{"key":"b","operator":"Exists"},{"key":"c","operator":"DoesNotExist","values":null}]}"#
        ),
        "a notin (b),b,!c"
    );
    assert_eq!(
        compile(r#"{"matchExpressions":[{"key":"baz","operator":"In","values":[]}]}"#),
        "ERROR values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
    );
    assert_eq!(
        compile(r#"{"matchExpressions":[{"key":"baz","operator":"Gt","values":["1"]}]}"#),
        "ERROR \"Gt\" is not a valid label selector operator"
    );
    assert!(
        compile(r#"{"matchLabels":{"a b":"c"}}"#)
            .starts_with("ERROR key: Invalid value: \"a b\": name part must")
    );
}

#[test]
fn absent_selects_nothing_and_empty_selects_everything() {
    assert!(LabelSelector::compile_optional(None).unwrap().is_nothing());
    for json in [
        "{}",
        r#"{"matchLabels":null,"matchExpressions":null}"#,
        r#"{"unknown":1}"#,
    ] {
        let empty = spec(json);
        assert!(
            empty.is_empty()
                && LabelSelector::compile_optional(Some(&empty))
                    .unwrap()
                    .is_empty()
        );
    }
}

#[test]
fn struct_form_matches_and_survives_a_round_trip() {
    let json = r#"{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"c","operator":"In","values":["z","d"]},{"key":"e","operator":"Odd"}]}"#;
    assert_eq!(serde_json::to_string(&spec(json)).unwrap(), json);
    assert!(!spec(json).matches(&labels("a=b,c=d")));
    assert!(LabelSelector::from(labels("a=b")).matches(&labels("a=b,c=d")));
    assert_eq!(serde_json::to_string(&spec("{}")).unwrap(), "{}");
}

fn check_fields(lines: &[&str], expected: Expect) {
    let printed: Vec<String> = lines
        .iter()
        .map(|line| match FieldSelector::parse(line) {
            Ok(selector) => format!("{line} -> {selector}\n"),
            Err(error) => format!("{line} -> ERROR {error}\n"),
        })
        .collect();
    expected.assert_eq(&printed.concat());
}

// TestSelectorParse, TestSplitTerms, TestEscapeValue of fields
#[test]
fn field_selectors_read_and_escape() {
    check_fields(
        &[
            "",
            "x=a",
            "x==a",
            "x!=a",
            "z=1,a=2",
            ",,x=a,,",
            "x=a=b",
            r"x=a\=b",
            r"x=a\,b,y=c",
            r"x=a\\",
            r"x=a\",
            r"x=\z",
            "x",
            "x=,y=",
            "=",
            "=a",
            "metadata.name!=ä",
        ],
        expect![[r#"
             -> 
            x=a -> x=a
            x==a -> x=a
            x!=a -> x!=a
            z=1,a=2 -> a=2,z=1
            ,,x=a,, -> x=a
            x=a=b -> ERROR invalid field selector: unescaped character in value: 61
            x=a\=b -> x=a\=b
            x=a\,b,y=c -> x=a\,b,y=c
            x=a\\ -> x=a\\
            x=a\ -> ERROR invalid field selector: invalid escape sequence: \
            x=\z -> ERROR invalid field selector: invalid escape sequence: \z
            x -> ERROR invalid selector: 'x'; can't understand 'x'
            x=,y= -> x=,y=
            = -> 
            =a -> =a
            metadata.name!=ä -> metadata.name!=ä
        "#]],
    );
}

#[test]
fn field_selectors_match() {
    let get = |field: &str| match field {
        "metadata.name" => Some(Cow::from("web")),
        "spec.nodeName" => Some(Cow::from("")),
        _ => None,
    };
    let matches = |text: &str| FieldSelector::parse(text).unwrap().matches(get);
    assert!(matches("") && matches("metadata.name=web") && matches("spec.nodeName="));
    assert!(
        matches("metadata.name=web,spec.nodeName!=a") && matches("other=") && matches("other!=x")
    );
    assert!(!matches("metadata.name!=web") && !matches("metadata.name=web,spec.nodeName=a"));
    let selector = FieldSelector::parse("a!=1,b=2").unwrap();
    assert_eq!(
        (selector.required_value("a"), selector.required_value("b")),
        (None, Some("2"))
    );
    assert_eq!(FieldSelector::equals("a", "b,c").to_string(), r"a=b\,c");
}

fn arbitrary_requirement() -> impl Strategy<Value = Requirement> {
    let key = prop::sample::select(vec!["a", "b.c/d", "in", "notin", "x-y_z"]);
    let value = || prop::sample::select(vec!["", "a", "in", "notin", "1", "b-c"]);
    let values = prop::collection::btree_set(value(), 1..4);
    let operator = prop::sample::select(vec![
        Operator::Exists,
        Operator::DoesNotExist,
        Operator::Equals,
        Operator::DoubleEquals,
        Operator::NotEquals,
        Operator::In,
        Operator::NotIn,
        Operator::GreaterThan,
    ]);
    (key, operator, values, value(), any::<u16>()).prop_map(|(key, operator, many, one, number)| {
        let values: Vec<Istr> = match operator {
            Operator::Exists | Operator::DoesNotExist => vec![],
            Operator::In | Operator::NotIn => many.into_iter().map(Istr::from).collect(),
            Operator::GreaterThan | Operator::LessThan => {
                vec![Istr::from(number.to_string().as_str())]
            }
            _ => vec![Istr::from(one)],
        };
        Requirement::new(key, operator, values).unwrap()
    })
}

proptest! {
    #[test]
    fn printing_and_reading_again_changes_nothing(all in prop::collection::vec(arbitrary_requirement(), 0..5)) {
        let selector = Selector::from_requirements(all);
        prop_assert_eq!(Selector::parse(&selector.to_string()), Ok(selector));
    }

    #[test]
    fn field_values_survive_escaping(value in "[a=,\\\\!ä]{0,8}") {
        let selector = FieldSelector::equals("f", &value);
        prop_assert_eq!(FieldSelector::parse(&selector.to_string()), Ok(selector));
    }

    #[test]
    fn no_text_panics(text in "[-a-z=!<>(), \\t\\\\ä]{0,30}") {
        let _ = Selector::parse(&text);
        let _ = FieldSelector::parse(&text);
    }
}
