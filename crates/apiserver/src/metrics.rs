//! `/metrics`: requests by what they asked for and how they ended, objects by resource.

pub(crate) mod admission;

use crate::server::Shared;
use parking_lot::Mutex;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Counts of requests. Labels are names of what is served, so their number is bounded.
#[derive(Default)]
pub(crate) struct Metrics {
    requests: Mutex<BTreeMap<Labels, u64>>,
    pub(crate) admission: admission::AdmissionMetrics,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Labels {
    pub(crate) code: u16,
    pub(crate) group: Cow<'static, str>,
    pub(crate) resource: Cow<'static, str>,
    pub(crate) subresource: &'static str,
    pub(crate) verb: &'static str,
    pub(crate) version: Cow<'static, str>,
}

impl Metrics {
    pub(crate) fn count(&self, labels: Labels) {
        let mut requests = self.requests.lock();
        *requests.entry(labels).or_default() += 1;
    }

    pub(crate) fn text(&self, shared: &Shared) -> String {
        let mut out = String::from(
            "# HELP apiserver_request_total [STABLE] Requests by verb, resource and code.\n# TYPE apiserver_request_total counter\n",
        );
        for (labels, count) in self.requests.lock().iter() {
            let Labels {
                code,
                group,
                resource,
                subresource,
                verb,
                version,
            } = labels;
            let verb = verb.to_uppercase();
            // Writing to a string does not fail.
            let _ = writeln!(
                out,
                "apiserver_request_total{{code=\"{code}\",group=\"{group}\",resource=\"{resource}\",subresource=\"{subresource}\",verb=\"{verb}\",version=\"{version}\"}} {count}"
            );
        }
        out.push_str("# HELP apiserver_storage_objects [STABLE] Stored objects by resource.\n# TYPE apiserver_storage_objects gauge\n");
        for ((group, plural), count) in shared.store.counts() {
            let resource = if group.is_empty() {
                plural.to_string()
            } else {
                format!("{plural}.{group}")
            };
            let _ = writeln!(
                out,
                "apiserver_storage_objects{{resource=\"{resource}\"}} {count}"
            );
        }
        out.push_str("# HELP apiserver_storage_revision The newest revision.\n# TYPE apiserver_storage_revision gauge\n");
        let _ = writeln!(
            out,
            "apiserver_storage_revision {}",
            shared.store.visible_revision()
        );
        self.admission.print(&mut out);
        out
    }
}
