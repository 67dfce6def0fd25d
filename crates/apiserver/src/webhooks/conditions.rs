//! Match conditions: expressions that say whether a webhook is called at all.

use super::configuration::MatchCondition;

/// The compiled conditions of one webhook.
pub(super) struct Conditions;

impl Conditions {
    pub(super) fn new(_: &[MatchCondition], _: bool) -> Conditions {
        Conditions
    }
}
