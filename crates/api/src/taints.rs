//! Taints that keep pods off nodes, and the tolerations that let them stay.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::syntax::is_decimal_integer;
use crate::text_enum::text_enum;
use crate::{Istr, Time};

/// A mark on a node that repels pods which do not tolerate it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    pub key: Istr,
    #[serde(skip_serializing_if = "is_empty")]
    pub value: Istr,
    pub effect: TaintEffect,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Time>,
}

/// A pod's permission to be where taints match. What is left out matches anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    #[serde(skip_serializing_if = "is_empty")]
    pub key: Istr,
    #[serde(skip_serializing_if = "TolerationOperator::is_unset")]
    pub operator: TolerationOperator,
    #[serde(skip_serializing_if = "is_empty")]
    pub value: Istr,
    #[serde(skip_serializing_if = "TaintEffect::is_unset")]
    pub effect: TaintEffect,
    /// How long a NoExecute taint is tolerated; for ever if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

text_enum! {
    /// What a taint does to pods that do not tolerate it.
    pub enum TaintEffect {
        /// Left out: in a toleration, any effect.
        Unset = "",
        NoSchedule = "NoSchedule",
        PreferNoSchedule = "PreferNoSchedule",
        NoExecute = "NoExecute",
    }
    default ""
}

text_enum! {
    /// How a toleration's value relates to a taint's.
    pub enum TolerationOperator {
        /// Left out: means Equal.
        Unset = "",
        Equal = "Equal",
        Exists = "Exists",
        /// The taint's value is a smaller number.
        Lt = "Lt",
        /// The taint's value is a larger number.
        Gt = "Gt",
    }
    default ""
}

impl Taint {
    pub fn new(key: &str, value: &str, effect: TaintEffect) -> Self {
        Self {
            key: Istr::from(key),
            value: Istr::from(value),
            effect,
            time_added: None,
        }
    }

    /// Whether both are the same taint of a node: a node has one taint for each key and effect.
    pub fn is_same(&self, other: &Taint) -> bool {
        self.key == other.key && self.effect == other.effect
    }
}

impl Toleration {
    /// Whether both tolerate the same, perhaps for different times.
    pub fn is_same(&self, other: &Toleration) -> bool {
        self.key == other.key
            && self.effect == other.effect
            && self.operator == other.operator
            && self.value == other.value
    }
}

/// Whether a toleration covers a taint. The numeric operators count only if `comparison_operators` is on
/// (feature gate `TaintTolerationComparisonOperators`); otherwise they match nothing.
pub fn tolerates(toleration: &Toleration, taint: &Taint, comparison_operators: bool) -> bool {
    let effect_matches = toleration.effect.is_unset() || toleration.effect == taint.effect;
    let key_matches = toleration.key.is_empty() || toleration.key == taint.key;
    if !effect_matches || !key_matches {
        return false;
    }
    match toleration.operator {
        TolerationOperator::Unset | TolerationOperator::Equal => toleration.value == taint.value,
        TolerationOperator::Exists => true,
        TolerationOperator::Lt | TolerationOperator::Gt if comparison_operators => {
            let limit = number(&toleration.value);
            let (Some(value), Some(limit)) = (number(&taint.value), limit) else {
                return false;
            };
            match toleration.operator {
                TolerationOperator::Lt => value < limit,
                _ => value > limit,
            }
        }
        _ => false,
    }
}

/// The first taint among those that `filter` selects which no toleration covers.
pub fn find_untolerated<'a>(
    tolerations: &[Toleration],
    taints: &'a [Taint],
    filter: impl Fn(&Taint) -> bool,
    comparison_operators: bool,
) -> Option<&'a Taint> {
    taints.iter().filter(|taint| filter(taint)).find(|taint| {
        !tolerations
            .iter()
            .any(|toleration| tolerates(toleration, taint, comparison_operators))
    })
}

/// For each taint the first toleration that covers it, or nothing if some taint is not covered.
pub fn matching_tolerations<'a>(
    tolerations: &'a [Toleration],
    taints: &[Taint],
    comparison_operators: bool,
) -> Option<Vec<&'a Toleration>> {
    taints
        .iter()
        .map(|taint| {
            tolerations
                .iter()
                .find(|toleration| tolerates(toleration, taint, comparison_operators))
        })
        .collect()
}

/// A number as upstream compares it: no plus sign, no leading zeros, at most 64 bits.
fn number(text: &str) -> Option<i64> {
    is_decimal_integer(text)
        .then(|| text.parse().ok())
        .flatten()
}

fn is_empty(text: &Istr) -> bool {
    text.is_empty()
}

/// `key=value:effect`, without the parts that are empty.
impl fmt::Display for Taint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, value, effect) = (&self.key, &self.value, &self.effect);
        match (value.is_empty(), effect.is_unset()) {
            (true, true) => write!(formatter, "{key}"),
            (false, true) => write!(formatter, "{key}={value}:"),
            (true, false) => write!(formatter, "{key}:{effect}"),
            (false, false) => write!(formatter, "{key}={value}:{effect}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `key=value:effect`; the parts may be left out.
    fn taint(text: &str) -> Taint {
        let (rest, effect) = text.split_once(':').unwrap_or((text, ""));
        let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
        Taint::new(key, value, TaintEffect::from(effect))
    }

    /// `key operator value:effect`, with `-` for what is left out.
    fn toleration(text: &str) -> Toleration {
        let (rest, effect) = text.split_once(':').unwrap_or((text, ""));
        let mut words = rest
            .split(' ')
            .map(|word| if word == "-" { "" } else { word });
        let mut next = || words.next().unwrap_or("");
        Toleration {
            key: Istr::from(next()),
            operator: TolerationOperator::from(next()),
            value: Istr::from(next()),
            effect: TaintEffect::from(effect),
            toleration_seconds: None,
        }
    }

    fn check(tolerating: &str, tainted: &str) -> bool {
        tolerates(&toleration(tolerating), &taint(tainted), true)
    }

    // TestTolerationToleratesTaint
    #[test]
    fn tolerates_by_key_value_and_effect() {
        assert!(check("foo Exists:NoSchedule", "foo=bar:NoSchedule"));
        assert!(check("foo Equal bar:NoSchedule", "foo=bar:NoSchedule"));
        assert!(check("foo - bar:NoSchedule", "foo=bar:NoSchedule"));
        assert!(!check("foo Equal bar:NoSchedule", "foo=bar1:NoSchedule"));
        assert!(!check("foo Exists:NoSchedule", "foo:NoExecute"));
        assert!(!check("foo Exists", "bar:NoSchedule"));
        assert!(!check("foo Sometimes bar", "foo=bar:NoSchedule"));
    }

    #[test]
    fn what_is_left_out_matches_anything() {
        assert!(check("- Exists", "foo=bar:NoExecute"));
        assert!(check("foo Exists", "foo=bar:NoExecute"));
        assert!(check("- - bar", "foo=bar:NoExecute"));
        assert!(!check("- Equal", "foo=bar:NoExecute"));
        assert!(check("foo Equal", "foo:NoSchedule"));
    }

    #[test]
    fn numbers_compare_only_when_allowed() {
        assert!(check("sla Gt 950:NoSchedule", "sla=999:NoSchedule"));
        assert!(!check("sla Gt 950:NoSchedule", "sla=950:NoSchedule"));
        assert!(check("sla Lt 950", "sla=-10:NoSchedule"));
        assert!(!check("sla Lt 950", "sla=950:NoSchedule"));
        for bad in ["", "0950", "+1", "1.0", "abc", "99999999999999999999"] {
            assert!(
                !check("sla Lt 950", &format!("sla={bad}:NoSchedule")),
                "{bad}"
            );
            assert!(
                !check(&format!("sla Gt {bad}"), "sla=5:NoSchedule"),
                "{bad}"
            );
        }
        let gt = toleration("sla Gt 950");
        assert!(!tolerates(&gt, &taint("sla=999:NoSchedule"), false));
    }

    #[test]
    fn finds_the_first_untolerated_taint_that_the_filter_keeps() {
        let tolerations = [toleration("a Exists"), toleration("b Equal 1:NoExecute")];
        let taints = [
            taint("a:NoSchedule"),
            taint("b=1:NoSchedule"),
            taint("c:NoExecute"),
        ];
        let find = |filter: fn(&Taint) -> bool| {
            find_untolerated(&tolerations, &taints, filter, false).map(Taint::to_string)
        };
        assert_eq!(find(|_| true), Some("b=1:NoSchedule".into()));
        assert_eq!(
            find(|taint| taint.effect == TaintEffect::NoExecute),
            Some("c:NoExecute".into())
        );
        assert_eq!(find(|taint| *taint.key == *"a"), None);
        assert_eq!(find_untolerated(&tolerations, &[], |_| true, false), None);
    }

    #[test]
    fn matching_tolerations_cover_all_or_nothing() {
        let tolerations = [toleration("a Exists:NoExecute"), toleration("- Exists")];
        let both = [taint("a:NoExecute"), taint("z:NoExecute")];
        let found = matching_tolerations(&tolerations, &both, false).unwrap();
        assert_eq!(found, [&tolerations[0], &tolerations[1]]);
        assert_eq!(matching_tolerations(&tolerations[..1], &both, false), None);
        assert_eq!(matching_tolerations(&[], &[], false), Some(vec![]));
    }

    #[test]
    fn sameness() {
        assert!(taint("a=1:NoExecute").is_same(&taint("a=2:NoExecute")));
        assert!(!taint("a:NoExecute").is_same(&taint("a:NoSchedule")));
        let mut limited = toleration("a Exists");
        limited.toleration_seconds = Some(5);
        assert!(limited.is_same(&toleration("a Exists")));
        assert!(!limited.is_same(&toleration("a Equal")));
    }

    #[test]
    fn prints_and_round_trips() {
        for text in ["a", "a=b:", "a:NoExecute", "a=b:NoSchedule"] {
            assert_eq!(taint(text).to_string(), text);
        }
        for json in [
            r#"{"key":"a","value":"b","effect":"NoExecute","timeAdded":"2024-01-02T03:04:05Z"}"#,
            r#"{"key":"a","effect":"SomethingNew"}"#,
        ] {
            let read: Taint = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&read).unwrap(), json);
        }
        for json in [
            r#"{"operator":"Exists"}"#,
            r#"{"key":"a","operator":"Gt","value":"5","effect":"NoExecute","tolerationSeconds":300}"#,
            "{}",
        ] {
            let read: Toleration = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&read).unwrap(), json);
        }
    }
}
