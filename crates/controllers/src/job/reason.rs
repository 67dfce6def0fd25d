//! Why a job's pods are created, deleted or left alone, in words that an operator would use.

use std::fmt;

use api::Time;
use api::conditions::Condition;
use api::decision::Line;

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

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Ends { how, deleting } => {
                write!(f, "ends ({}): {}", how.reason, how.message)?;
                match deleting {
                    0 => Ok(()),
                    1 => f.write_str("; deletes the pod that still runs"),
                    many => write!(f, "; deletes the {many} pods that still run"),
                }
            }
            Reason::AwaitingConsistency => f.write_str(
                "waits until the pods it has just created or deleted show up in the cache",
            ),
            Reason::BeingDeleted => {
                f.write_str("is being deleted: its pods are left to the garbage collector")
            }
            Reason::Suspended { deleting: 0 } => f.write_str("is suspended: wants no pods"),
            Reason::Suspended { deleting } => {
                write!(f, "is suspended: deletes {}", pods(*deleting))
            }
            Reason::TooMany {
                have,
                want,
                deleting,
            } => write!(
                f,
                "has {} and wants {want}: deletes {deleting}",
                pods(*have)
            ),
            Reason::TooFew {
                have,
                want,
                creating,
            } => write!(f, "has {have} of {want} pods: creates {creating}"),
            Reason::BacksOff { failures, until } => {
                let failed = pods(usize::try_from(*failures).unwrap_or(usize::MAX));
                write!(
                    f,
                    "waits until {until} before it replaces a pod: {failed} failed since the last success"
                )
            }
            Reason::Enough {
                have,
                awaited,
                succeeded,
                completions,
            } => {
                match (have, awaited) {
                    (0, 0) => write!(f, "wants no pods; {succeeded}")?,
                    _ => write!(f, "has the {} it wants; {succeeded}", pods(*have))?,
                }
                if let Some(completions) = completions {
                    write!(f, " of {completions}")?;
                }
                f.write_str(" succeeded")?;
                match awaited {
                    0 => Ok(()),
                    1 => f.write_str(
                        "; a pod that is being deleted is replaced only when it has ended",
                    ),
                    many => write!(
                        f,
                        "; {many} pods that are being deleted are replaced only when they have ended"
                    ),
                }
            }
        }
    }
}

/// `1 pod`, `3 pods`
fn pods(count: usize) -> String {
    match count {
        1 => "1 pod".to_owned(),
        many => format!("{many} pods"),
    }
}

impl From<&Reason> for Line {
    fn from(reason: &Reason) -> Line {
        Line::states("Reason", reason.to_string())
    }
}
