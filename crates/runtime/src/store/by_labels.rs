//! Who carries which labels, namespace by namespace: pods of one template share theirs, so a selector is asked once for
//! all of them, and the pods that it does not select are not looked at.

use std::collections::BTreeSet;

use api::collections::HashMap;
use api::{Istr, LabelSet, Meta};

#[derive(Default)]
pub(super) struct ByLabels(HashMap<Istr, HashMap<LabelSet, BTreeSet<u32>>>);

impl ByLabels {
    pub(super) fn insert(&mut self, meta: &Meta, number: u32) {
        let by_labels = self.0.entry(meta.namespace.clone()).or_default();
        let numbers = by_labels.entry(meta.labels.clone()).or_default();
        numbers.insert(number);
    }

    pub(super) fn remove(&mut self, meta: &Meta, number: u32) {
        let Some(by_labels) = self.0.get_mut(&meta.namespace) else {
            return;
        };
        let Some(numbers) = by_labels.get_mut(&meta.labels) else {
            return;
        };
        numbers.remove(&number);
        if numbers.is_empty() {
            by_labels.remove(&meta.labels);
        }
        if by_labels.is_empty() {
            self.0.remove(&meta.namespace);
        }
    }

    /// Those whose labels `selects` accepts, in order.
    pub(super) fn select(
        &self,
        namespace: &str,
        mut selects: impl FnMut(&LabelSet) -> bool,
    ) -> Vec<u32> {
        let by_labels = self.0.get(namespace).into_iter().flatten();
        let selected = by_labels.filter(|(labels, _)| selects(labels));
        let mut numbers: Vec<u32> = selected.flat_map(|(_, numbers)| numbers).copied().collect();
        numbers.sort_unstable();
        numbers
    }
}
