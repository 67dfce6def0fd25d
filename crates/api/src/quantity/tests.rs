use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

fn quantity(text: &str) -> Quantity {
    Quantity::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Prints each text's canonical form, one pair a line.
fn check_print(texts: &str, expected: Expect) {
    let printed: Vec<String> = texts
        .split_whitespace()
        .map(|text| match Quantity::parse(text) {
            Ok(quantity) => format!("{text} -> {quantity}"),
            Err(error) => format!("{text} -> {error:?}"),
        })
        .collect();
    expected.assert_eq(&printed.join("\n"));
}

#[test]
fn decimal_suffixes_print_canonically() {
    check_print(
        "0 0n 0.0 -0 1 -1 10 100 1000 12000 1500m 1.5 0.5 .5 100m 0.001k 1000000u 1n 20u 1k 1M 1G 1T 1P 1E",
        expect![[r#"
            0 -> 0
            0n -> 0
            0.0 -> 0
            -0 -> 0
            1 -> 1
            -1 -> -1
            10 -> 10
            100 -> 100
            1000 -> 1k
            12000 -> 12k
            1500m -> 1500m
            1.5 -> 1500m
            0.5 -> 500m
            .5 -> 500m
            100m -> 100m
            0.001k -> 1
            1000000u -> 1
            1n -> 1n
            20u -> 20u
            1k -> 1k
            1M -> 1M
            1G -> 1G
            1T -> 1T
            1P -> 1P
            1E -> 1E"#]],
    );
}

#[test]
fn binary_suffixes_print_canonically() {
    check_print(
        "1Ki 512Ki 1024Ki 1.5Gi 0.5Mi 1000Ki 1024 0.1Ki 1023Ki 3Gi 2048Mi -1.5Gi 0.0001Ki 1Ei 8Ei 16Ei -9Ei 1.1Ki",
        expect![[r#"
            1Ki -> 1Ki
            512Ki -> 512Ki
            1024Ki -> 1Mi
            1.5Gi -> 1536Mi
            0.5Mi -> 512Ki
            1000Ki -> 1000Ki
            1024 -> 1024
            0.1Ki -> 102400m
            1023Ki -> 1023Ki
            3Gi -> 3Gi
            2048Mi -> 2Gi
            -1.5Gi -> -1536Mi
            0.0001Ki -> 102400u
            1Ei -> 1Ei
            8Ei -> 9223372036854775807
            16Ei -> 9223372036854775807
            -9Ei -> -9223372036854775807
            1.1Ki -> 1126400m"#]],
    );
}

#[test]
fn exponents_print_canonically() {
    check_print(
        "1e3 12e6 1e-3 1E6 100e1 1e0 5e-10 1.2e4 1e21 2000e18 1e1 1e2",
        expect![[r#"
            1e3 -> 1e3
            12e6 -> 12e6
            1e-3 -> 1e-3
            1E6 -> 1E6
            100e1 -> 1e3
            1e0 -> 1e0
            5e-10 -> 1e-9
            1.2e4 -> 1.2e4
            1e21 -> 1e21
            2000e18 -> 2e21
            1e1 -> 10
            1e2 -> 100"#]],
    );
}

#[test]
fn finer_than_a_billionth_rounds_away_from_zero() {
    check_print(
        "0.1n 1.1n -0.1n 0.0000000001 1.00000000001 0.0000000001Ki",
        expect![[r#"
            0.1n -> 1n
            1.1n -> 2n
            -0.1n -> -1n
            0.0000000001 -> 1n
            1.00000000001 -> 1000000001n
            0.0000000001Ki -> 103n"#]],
    );
}

#[test]
fn texts_that_upstream_echoes_keep_their_spelling() {
    check_print(
        "1.500 12.345 +1 +1Ki 1.500k 1.0 1.000 0.500 1E3",
        expect![[r#"
            1.500 -> 1.500
            12.345 -> 12.345
            +1 -> +1
            +1Ki -> +1Ki
            1.500k -> 1.500k
            1.0 -> 1
            1.000 -> 1
            0.500 -> 500m
            1E3 -> 1E3"#]],
    );
}

#[test]
fn lenient_zeros() {
    check_print(
        "+ - . Ki 00000 0Ki 0e5",
        expect![[r#"
            + -> 0
            - -> 0
            . -> 0
            Ki -> 0
            00000 -> 0
            0Ki -> 0
            0e5 -> 0"#]],
    );
}

#[test]
fn the_largest_binary_suffixes_need_a_digit() {
    check_print(
        "Ti Pi Ei .Pi +Ei 0Ei 0.Ei",
        expect![[r#"
            Ti -> 0
            Pi -> Numeric
            Ei -> Numeric
            .Pi -> Numeric
            +Ei -> Numeric
            0Ei -> 0
            0.Ei -> 0"#]],
    );
}

#[test]
fn malformed_texts_are_refused() {
    check_print(
        "1.1.M 1+1.0M 0.1mi 0.1am aoeu .5i 1i -3.01i -3.01e- 1e 10KiB 1K 1ki 1e5e5 --1 1mm ё 1e99999999999",
        expect![[r#"
            1.1.M -> Format
            1+1.0M -> Format
            0.1mi -> Suffix
            0.1am -> Format
            aoeu -> Format
            .5i -> Suffix
            1i -> Suffix
            -3.01i -> Suffix
            -3.01e- -> Suffix
            1e -> Suffix
            10KiB -> Format
            1K -> Suffix
            1ki -> Suffix
            1e5e5 -> Format
            --1 -> Suffix
            1mm -> Suffix
            ё -> Format
            1e99999999999 -> Suffix"#]],
    );
    assert_eq!(Quantity::parse(""), Err(QuantityError::Format));
    assert_eq!(Quantity::parse(" 1"), Err(QuantityError::Format));
}

#[test]
fn numbers_beyond_int64_stay_exact() {
    check_print(
        "9223372036854775808 123456789012345678901234567890 1000E 99999999999999999999999999999999999999999",
        expect![[r#"
            9223372036854775808 -> 9223372036854775808
            123456789012345678901234567890 -> 123456789012345678901234567890
            1000E -> 1000E
            99999999999999999999999999999999999999999 -> 100000000000000000000000E"#]],
    );
}

#[test]
fn values_round_away_from_zero_and_saturate() {
    let value = |text: &str| quantity(text).value();
    assert_eq!(value("1.1"), 2);
    assert_eq!(value("-1.1"), -2);
    assert_eq!(value("1n"), 1);
    assert_eq!(value("2Gi"), 2 << 30);
    assert_eq!(value("1e30"), i64::MAX);
    assert_eq!(value("-1e30"), i64::MIN);
    assert_eq!(value("1e2000000000"), i64::MAX);
    assert_eq!(quantity("1500m").milli_value(), 1500);
    assert_eq!(quantity("1u").milli_value(), 1);
    assert_eq!(quantity("2k").milli_value(), 2_000_000);
    assert_eq!(quantity("10E").milli_value(), i64::MAX);
    assert_eq!(quantity("1500m").as_i64(), None);
    assert_eq!(quantity("2k").as_i64(), Some(2000));
    assert_eq!(quantity("1.5").to_f64(), 1.5);
}

#[test]
fn arithmetic_keeps_the_first_format() {
    let add = |a: &str, b: &str| {
        let mut sum = quantity(a);
        sum += &quantity(b);
        sum.to_string()
    };
    let sub = |a: &str, b: &str| {
        let mut difference = quantity(a);
        difference -= &quantity(b);
        difference.to_string()
    };
    assert_eq!(add("1Ki", "1"), "1025");
    assert_eq!(add("1Gi", "1Gi"), "2Gi");
    assert_eq!(add("0", "1Gi"), "1Gi");
    assert_eq!(add("1", "1Gi"), "1073741825");
    assert_eq!(add("100m", "900m"), "1");
    assert_eq!(add("1.500", "0"), "1500m");
    assert_eq!(sub("1", "100m"), "900m");
    assert_eq!(sub("0", "1Mi"), "-1Mi");
    assert_eq!(sub("1Gi", "1Gi"), "0");
    assert_eq!(add("9223372036854775807", "1"), "9223372036854775808");
    assert_eq!((-quantity("3Ki")).to_string(), "-3Ki");
}

#[test]
fn extreme_sums_do_not_overflow() {
    let most = Quantity::from_parts(i128::MAX, 0, Format::DecimalSi);
    let mut sum = most.clone();
    sum += &most;
    assert!(sum > most);
    let mut distant = quantity("1e2000000000");
    distant += &quantity("1n");
    assert!(distant >= quantity("1e2000000000"));
    let mut product = most.clone();
    product.multiply(i64::MAX);
    assert!(product > most);
}

#[test]
fn multiplies_and_rounds() {
    let mut q = quantity("100m");
    q.multiply(25);
    assert_eq!(q.to_string(), "2500m");
    assert!(!q.round_up(0));
    assert_eq!(q.to_string(), "3");
    assert!(q.round_up(0));
    assert!(!q.round_up(3));
    assert_eq!(q.to_string(), "1k");
}

#[test]
fn compares_by_number() {
    assert_eq!(quantity("1Ki"), quantity("1024"));
    assert_eq!(quantity("0.1"), quantity("100m"));
    assert_eq!(quantity("-0"), quantity("0Ki"));
    let ascending = [
        "-1e40", "-2", "-1.5", "-1n", "0", "1n", "999m", "1", "1Ki", "1Mi", "1e6000", "1e6001",
    ];
    for pair in ascending.windows(2) {
        assert!(quantity(pair[0]) < quantity(pair[1]), "{pair:?}");
        assert!(quantity(pair[1]) > quantity(pair[0]), "{pair:?}");
    }
}

#[test]
fn reads_strings_numbers_and_null_and_writes_strings() {
    let through = |json: &str| {
        let read: Quantity = serde_json::from_str(json).unwrap();
        serde_json::to_string(&read).unwrap()
    };
    assert_eq!(through("\"1.5Gi\""), "\"1536Mi\"");
    assert_eq!(through("\" 1 \""), "\"1\"");
    assert_eq!(through("5"), "\"5\"");
    assert_eq!(through("-5"), "\"-5\"");
    assert_eq!(through("0.5"), "\"500m\"");
    assert_eq!(through("null"), "\"0\"");
    let error = serde_json::from_str::<Quantity>("\"1x\"").unwrap_err();
    assert!(
        error.to_string().contains("quantities must match"),
        "{error}"
    );
}

fn arbitrary_text() -> impl Strategy<Value = String> {
    let suffix = prop::sample::select(vec![
        "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "e3", "E-2",
        "e7",
    ]);
    ("[+-]?[0-9]{1,9}(\\.[0-9]{0,6})?", suffix).prop_map(|(number, suffix)| number + suffix)
}

proptest! {
    #[test]
    fn printing_and_reading_again_changes_nothing(text in arbitrary_text()) {
        let first = quantity(&text);
        let again = quantity(&first.to_string());
        prop_assert_eq!(&first, &again);
        prop_assert_eq!(first.to_string(), again.to_string());
    }

    #[test]
    fn subtraction_undoes_addition(a in arbitrary_text(), b in arbitrary_text()) {
        let (a, b) = (quantity(&a), quantity(&b));
        let mut there_and_back = a.clone();
        there_and_back += &b;
        there_and_back -= &b;
        prop_assert_eq!(there_and_back, a);
    }

    #[test]
    fn comparison_agrees_with_subtraction(a in arbitrary_text(), b in arbitrary_text()) {
        let (a, b) = (quantity(&a), quantity(&b));
        let mut difference = a.clone();
        difference -= &b;
        prop_assert_eq!(difference.sign(), a.cmp(&b) as i32);
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,40}") {
        let _ = Quantity::parse(&text).map(|quantity| quantity.to_string());
    }
}

proptest! {
    #[test]
    fn what_is_read_quickly_reads_the_same(text in "[0-9]{0,16}(|n|u|m|k|M|G|T|Ki|Mi|Gi|Ti|K|i|e3)") {
        let Some(quick) = text::plain(&text) else { return Ok(()) };
        let slow = text::parse(&text).expect("it was read quickly");
        prop_assert_eq!((quick.mantissa, quick.exponent, quick.format), (slow.mantissa, slow.exponent, slow.format));
        prop_assert_eq!(&slow.spelling, &None);
        prop_assert_eq!(slow.to_string(), text);
    }
}

#[test]
fn amounts_that_nobody_means_are_cut_down() {
    let capped = |text: &str| {
        let mut quantity = quantity(text);
        quantity.cap();
        quantity.to_string()
    };
    for text in ["0", "1e99", "-1e99", "1.500", "7Ei", "1e21", "100m"] {
        assert_eq!(capped(text), text);
    }
    for (text, expected) in [
        ("1e100", "1e99"),
        ("1e999999999", "1e99"),
        ("-1e2147483647", "-1e99"),
        (&"9".repeat(200), "1e99"),
    ] {
        let capped = capped(text);
        assert_eq!(quantity(&capped), quantity(expected), "{text} {capped}");
    }
}
