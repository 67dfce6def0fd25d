//! The field's words: a maintainer of client-go or controller-runtime must know every noun at first sight.

/// What is not said, and what is said instead. Words that have another, honest meaning are not here.
const WORDS: [(&str, &str); 34] = [
    ("begin_ro|und", "relist"),
    ("end_ro|und", "relist, replace"),
    ("ask_for_|sign", "progress probe"),
    ("loose e|nd", "pending work"),
    ("loose_e|nd", "pending_work"),
    ("LooseE|nds", "PendingWork"),
    ("own_wri|tes", "consistency"),
    ("OwnWri|tes", "Consistency"),
    ("status_win|dow", "throttle"),
    ("StatusWin|dow", "StatusThrottle"),
    ("let_|go", "finalizer removed"),
    ("re|own", "update owner references"),
    ("look_at_|all", "monitor node health"),
    ("grem|lin", "fault injector"),
    ("Grem|lin", "FaultInjector"),
    ("ters|ely", "metadata only"),
    ("made an|ew", "recreated"),
    ("keeps ho|use", "housekeeping controllers"),
    ("keep ho|use", "housekeeping controllers"),
    (" men|ded", "fixed"),
    ("fn look_|at", "sync"),
    ("struct Lo|ok ", "node health"),
    ("Silen|ced", "unknown, stopped posting status"),
    ("SilenceN|ode", "stop the kubelet"),
    ("fn settl|ed(", "what it says"),
    ("struct Char|ge ", "reserve quota"),
    ("struct To|ols", "Context"),
    ("struct Bu|ilt ", "what it is, such as Runnable"),
    ("does not get |on", "is stuck"),
    ("again and ag|ain", "keeps failing, repeatedly"),
    ("counts as st|uck", "progress deadline in 9m35s (09:43:07Z)"),
    ("it is its tu|rn", "eviction rate limit"),
    (
        "another one is given |by",
        "use -n to choose another namespace",
    ),
    ("Say nothing but er|rors", "Print errors only"),
];

pub(crate) fn check(name: &str, text: &str, findings: &mut Vec<String>) {
    for (number, line) in text.lines().enumerate() {
        for (word, instead) in WORDS {
            // Written in two parts, so that this file does not find itself.
            let word = word.replace('|', "");
            if line.contains(&word) {
                let number = number + 1;
                findings.push(format!("{name}:{number}: say `{instead}`, not `{word}`"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn a_word_of_our_own_is_found_with_the_fields() {
        let mut findings = Vec::new();
        check("a.rs", &["fn begin_ro", "und() {}"].concat(), &mut findings);
        assert_eq!(
            findings,
            [["a.rs:1: say `relist`, not `begin_ro", "und`"].concat()]
        );
        check("a.rs", "fn begin_relist() {}", &mut findings);
        assert_eq!(findings.len(), 1);
    }
}
