//! Whatever comes in, the answer is a value or an error, never a panic.

use proptest::prelude::*;

use crate::flags::{parse_feature_gates, parse_named_cert_key, parse_quantity, parse_vmodule};
use crate::gates::{EffectiveVersions, FeatureGates};
use crate::leader_migration::LeaderMigrationConfiguration;
use crate::options::Options;
use crate::serving::Request;
use crate::{files, flags, selection};
use api::GoDuration;

/// Text that is often almost right.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[-+=,:.*0-9a-zA-Z%\" ]{0,24}",
        "-?[0-9]{0,20}(\\.[0-9]{0,20})?(ns|us|µs|ms|s|m|h|x)?([0-9]{0,4}(h|m|s))?",
    ]
}

/// Arguments that often name a flag.
fn argument() -> impl Strategy<Value = String> {
    let names: Vec<&'static str> = flags::table().iter().map(|flag| flag.name).collect();
    let named = (prop::sample::select(names), text());
    prop_oneof![
        3 => named.prop_map(|(name, value)| format!("--{name}={value}")),
        1 => text(),
    ]
}

proptest! {
    #[test]
    fn command_lines(arguments in prop::collection::vec(argument(), 0..6)) {
        let _ = Options::parse(arguments, "x");
    }

    #[test]
    fn values(text in text()) {
        let _ = parse_feature_gates([text.as_str()]);
        let _ = parse_named_cert_key(&text);
        let _ = parse_quantity(&text);
        let _ = parse_vmodule(&text);
        let _ = LeaderMigrationConfiguration::parse(&text);
        let _ = EffectiveVersions::from_flags(std::slice::from_ref(&text), std::slice::from_ref(&text));
        let _ = FeatureGates::new(EffectiveVersions::default(), std::slice::from_ref(&text));
        let _ = selection::canonical(std::slice::from_ref(&text));
        let _ = Request::get(&text);
    }

    #[test]
    fn files_of_anything(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = files::parse_certificates(&bytes);
        let _ = files::parse_private_key(&bytes);
        let framed = [b"-----BEGIN CERTIFICATE-----\n".as_slice(), &bytes, b"\n-----END CERTIFICATE-----\n"].concat();
        let _ = files::parse_certificates(&framed);
    }

    #[test]
    fn what_a_duration_prints_it_reads(nanos in any::<i64>()) {
        let duration = GoDuration::from_nanos(nanos);
        prop_assert_eq!(GoDuration::parse(&duration.to_string()), Ok(duration));
    }
}
