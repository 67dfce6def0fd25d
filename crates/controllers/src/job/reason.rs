//! Why a job's pods are created, deleted or left alone, in words that an operator would use.

use api::Time;
use api::conditions::Condition;
use api::decision::{Line, counted, reasons};

use crate::workload::lines;

#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    Ends {
        how: Condition,
        deleting: usize,
    },
    AwaitingConsistency,
    BeingDeleted,
    Suspended {
        deleting: usize,
    },
    TooMany {
        have: usize,
        want: usize,
        deleting: usize,
    },
    TooFew {
        have: usize,
        want: usize,
        creating: usize,
    },
    BacksOff {
        failures: u32,
        until: Time,
    },
    Enough {
        have: usize,
        /// Pods that are being deleted and are not replaced before they are gone.
        awaited: usize,
        succeeded: i32,
        completions: Option<i32>,
    },
}

impl From<&Reason> for Line {
    fn from(reason: &Reason) -> Line {
        match reason {
            Reason::Ends { how, deleting } => {
                let what = match deleting {
                    0 => format!("ends ({})", how.reason),
                    _ => {
                        let pods = counted(*deleting, "active pod");
                        format!("ends ({}) and deletes {pods}", how.reason)
                    }
                };
                Line::acts(reasons::ENDS, what).because(how.message.to_string())
            }
            Reason::AwaitingConsistency => lines::awaiting_consistency(),
            Reason::BeingDeleted => lines::being_deleted(),
            Reason::Suspended { deleting: 0 } => Line::waits(reasons::SUSPENDED, "is suspended")
                .hint("set spec.suspend to false to resume it"),
            Reason::Suspended { deleting } => {
                let what = format!("deletes {}", counted(*deleting, "pod"));
                Line::acts(reasons::SUSPENDED, what).because("it is suspended")
            }
            Reason::TooMany {
                have,
                want,
                deleting,
            } => Line::acts("TooMany", format!("deletes {}", counted(*deleting, "pod")))
                .because(format!("it has {have} and wants {want}")),
            Reason::TooFew { creating: 0, .. } => {
                Line::states(reasons::TOO_FEW, "creates no more pods")
                    .because("each index that is left has a pod or has failed")
            }
            Reason::TooFew {
                have,
                want,
                creating,
            } => lines::too_few(*have, want, *creating),
            Reason::BacksOff { failures, until } => {
                let why = format!(
                    "{} failed since the last success",
                    counted(*failures, "pod")
                );
                Line::waits("BacksOff", "replaces failed pods")
                    .because(why)
                    .until(*until)
            }
            Reason::Enough {
                have,
                awaited,
                succeeded,
                completions,
            } => {
                let line = match awaited {
                    0 => lines::has_wanted("Enough", *have),
                    _ => {
                        let pods = counted(*awaited, "terminating pod");
                        Line::waits("Enough", format!("waits for {pods} to end"))
                    }
                };
                line.because(progress(*awaited, *succeeded, *completions))
            }
        }
    }
}

/// `2 of 4 succeeded`
fn progress(awaited: usize, succeeded: i32, completions: Option<i32>) -> String {
    let replaced = match awaited {
        0 => "",
        _ => "podReplacementPolicy replaces pods only when they have ended; ",
    };
    match completions {
        Some(completions) => format!("{replaced}{succeeded} of {completions} succeeded"),
        None => format!("{replaced}{succeeded} succeeded"),
    }
}
