//! How fast, and after how long, a proposal is followed. Pure, but for what it remembers of the past.

use std::time::Duration;

use api::MicroTime;
use api::kinds::{Behavior, ScalingPolicy, ScalingRules};

/// What is remembered of one autoscaler: what was proposed and done lately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    pub proposals: Vec<(i32, MicroTime)>,
    pub ups: Vec<(i32, MicroTime)>,
    pub downs: Vec<(i32, MicroTime)>,
}

/// What the past and the rules make of a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Normalized {
    pub replicas: i32,
    /// The proposal, as the windows let it through.
    pub stabilized: i32,
    /// Reasons and messages of `AbleToScale` and `ScalingLimited`, in upstream's words.
    pub able: (&'static str, &'static str),
    pub limited: (&'static str, &'static str),
    /// When the window opens, if nothing else is proposed meanwhile.
    pub opens_at: Option<MicroTime>,
    /// Is this direction turned off by its rules?
    pub is_disabled: bool,
    /// When the policies allow more, if it is they who do not allow all.
    pub next_at: Option<MicroTime>,
}

/// The bounds within which a proposal is made.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub least: i32,
    pub most: i32,
    pub current: i32,
    /// `--horizontal-pod-autoscaler-downscale-stabilization`
    pub downscale_window: Duration,
}

const READY: (&str, &str) = ("ReadyForNewScale", "recommended size matches current size");
const DOWN_STABILIZED: (&str, &str) = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);
const UP_STABILIZED: (&str, &str) = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const WITHIN: (&str, &str) = (
    "DesiredWithinRange",
    "the desired count is within the acceptable range",
);
const TOO_FEW: (&str, &str) = (
    "TooFewReplicas",
    "the desired replica count is less than the minimum replica count",
);
const TOO_MANY: (&str, &str) = (
    "TooManyReplicas",
    "the desired replica count is more than the maximum replica count",
);
const UP_LIMIT: (&str, &str) = (
    "ScaleUpLimit",
    "the desired replica count is increasing faster than the maximum scale rate",
);
const DOWN_LIMIT: (&str, &str) = (
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
);

/// Without rules nothing grows faster than this in one step. Upstream's numbers.
const UP_FACTOR: i32 = 2;
const UP_LEAST: i32 = 4;

impl Memory {
    /// What there was when the autoscaler was first seen counts as proposed.
    pub fn begin(&mut self, current: i32, now: MicroTime) {
        if self.proposals.is_empty() {
            self.proposals.push((current, now));
        }
    }

    /// Notes a change that was made, where rules may ask for it.
    pub fn note_change(&mut self, behavior: Option<&Behavior>, from: i32, to: i32, now: MicroTime) {
        let Some(behavior) = behavior else {
            return;
        };
        let (changes, rules) = match to > from {
            true => (&mut self.ups, up_rules(behavior)),
            false => (&mut self.downs, down_rules(behavior, Duration::ZERO)),
        };
        let longest = rules.policies.iter().map(|policy| policy.period_seconds);
        let since = now.minus(seconds(longest.max().unwrap_or(0)));
        changes.retain(|(_, at)| *at >= since);
        changes.push((to.abs_diff(from).try_into().unwrap_or(i32::MAX), now));
    }

    /// Follows the proposal as far as the bounds, or the rules, let it.
    pub fn normalize(
        &mut self,
        behavior: Option<&Behavior>,
        proposed: i32,
        bounds: Bounds,
        now: MicroTime,
    ) -> Normalized {
        match behavior {
            None => self.without_rules(proposed, bounds, now),
            Some(behavior) => self.with_rules(behavior, proposed, bounds, now),
        }
    }

    fn without_rules(&mut self, proposed: i32, bounds: Bounds, now: MicroTime) -> Normalized {
        let window = bounds.downscale_window;
        let since = now.minus(window);
        self.proposals.retain(|(_, at)| *at >= since);
        let higher = self.proposals.iter().filter(|(held, _)| *held > proposed);
        let opens_at = higher.clone().map(|(_, at)| at.plus(window)).max();
        let highest = higher.map(|(held, _)| *held).max();
        let stabilized = highest.unwrap_or(proposed);
        self.proposals.push((proposed, now));
        let (replicas, limited) = within(stabilized, bounds);
        Normalized {
            replicas,
            stabilized,
            able: match stabilized == proposed {
                true => READY,
                false => DOWN_STABILIZED,
            },
            limited,
            opens_at,
            is_disabled: false,
            next_at: None,
        }
    }

    fn with_rules(
        &mut self,
        behavior: &Behavior,
        proposed: i32,
        bounds: Bounds,
        now: MicroTime,
    ) -> Normalized {
        let (up, down) = (
            up_rules(behavior),
            down_rules(behavior, bounds.downscale_window),
        );
        let (stabilized, opens_at) = self.stabilize(&up, &down, proposed, bounds.current, now);
        let able = if stabilized == proposed {
            READY
        } else if proposed >= bounds.current {
            UP_STABILIZED
        } else {
            DOWN_STABILIZED
        };
        let (replicas, limited) = self.limit(&up, &down, stabilized, bounds, now);
        let rules = match proposed >= bounds.current {
            true => &up,
            false => &down,
        };
        let next_at = match limited {
            UP_LIMIT => self.after_step(&up, true, bounds.current, replicas, now),
            DOWN_LIMIT => self.after_step(&down, false, bounds.current, replicas, now),
            _ => None,
        };
        Normalized {
            replicas,
            stabilized,
            able,
            limited,
            opens_at,
            is_disabled: proposed != bounds.current && rules.select == "Disabled",
            next_at,
        }
    }

    /// When the policies of one direction let the target go on from `to`, after the step that is made now.
    fn after_step(
        &self,
        rules: &Rules<'_>,
        grows: bool,
        from: i32,
        to: i32,
        now: MicroTime,
    ) -> Option<MicroTime> {
        let mut then = self.clone();
        let by = i32::try_from(to.abs_diff(from)).unwrap_or(i32::MAX);
        match grows {
            _ if by == 0 => {}
            true => then.ups.push((by, now)),
            false => then.downs.push((by, now)),
        }
        // A limit changes when the period of a policy is over for a change that counts towards it.
        let mut ends = Vec::new();
        for policy in &rules.policies {
            let period = seconds(policy.period_seconds);
            let changes = then.ups.iter().chain(&then.downs);
            ends.extend(changes.map(|(_, at)| at.plus(period)));
        }
        ends.retain(|at| *at > now);
        ends.sort();
        ends.into_iter().find(|at| match grows {
            true => then.up_limit(rules, to, *at) > to,
            false => then.down_limit(rules, to, *at) < to,
        })
    }

    /// Between the lowest of what was proposed in the window for growth and the highest in that for shrinking.
    fn stabilize(
        &mut self,
        up: &Rules<'_>,
        down: &Rules<'_>,
        proposed: i32,
        current: i32,
        now: MicroTime,
    ) -> (i32, Option<MicroTime>) {
        let (up_since, down_since) = (now.minus(up.window), now.minus(down.window));
        let oldest = up_since.min(down_since);
        self.proposals.retain(|(_, at)| *at >= oldest);
        let (mut lowest, mut highest) = (proposed, proposed);
        let mut opens_at = None;
        for (held, at) in &self.proposals {
            if *at > up_since && *held < proposed && proposed > current {
                opens_at = opens_at.max(Some(at.plus(up.window)));
            }
            if *at > down_since && *held > proposed && proposed < current {
                opens_at = opens_at.max(Some(at.plus(down.window)));
            }
            if *at > up_since {
                lowest = lowest.min(*held);
            }
            if *at > down_since {
                highest = highest.max(*held);
            }
        }
        self.proposals.push((proposed, now));
        (current.max(lowest).min(highest), opens_at)
    }

    /// No faster than the policies say, and never out of bounds.
    fn limit(
        &self,
        up: &Rules<'_>,
        down: &Rules<'_>,
        wanted: i32,
        bounds: Bounds,
        now: MicroTime,
    ) -> (i32, (&'static str, &'static str)) {
        let Bounds {
            least,
            most,
            current,
            ..
        } = bounds;
        if wanted > current {
            let limit = self.up_limit(up, current, now).max(current);
            let (allowed, why) = match most > limit {
                true => (limit, UP_LIMIT),
                false => (most, TOO_MANY),
            };
            if wanted > allowed {
                return (allowed, why);
            }
        } else if wanted < current {
            let limit = self.down_limit(down, current, now).min(current);
            let (allowed, why) = match least < limit {
                true => (limit, DOWN_LIMIT),
                false => (least, TOO_FEW),
            };
            if wanted < allowed {
                return (allowed, why);
            }
        }
        (wanted, WITHIN)
    }

    fn up_limit(&self, rules: &Rules<'_>, current: i32, now: MicroTime) -> i32 {
        let limits = rules.policies.iter().filter_map(|policy| {
            let start = self.at_period_start(policy, current, now);
            match &*policy.r#type {
                "Pods" => Some(start.saturating_add(policy.value)),
                // Rounded up, because a small set would never grow.
                "Percent" => {
                    let factor = 1.0 + f64::from(policy.value) / 100.0;
                    Some((f64::from(start) * factor).ceil() as i32)
                }
                _ => None,
            }
        });
        match rules.select {
            "Disabled" => current,
            "Min" => limits.min().unwrap_or(i32::MAX),
            _ => limits.max().unwrap_or(i32::MIN),
        }
    }

    fn down_limit(&self, rules: &Rules<'_>, current: i32, now: MicroTime) -> i32 {
        let limits = rules.policies.iter().filter_map(|policy| {
            let start = self.at_period_start(policy, current, now);
            match &*policy.r#type {
                "Pods" => Some(start.saturating_sub(policy.value)),
                "Percent" => {
                    let factor = 1.0 - f64::from(policy.value) / 100.0;
                    Some((f64::from(start) * factor) as i32)
                }
                _ => None,
            }
        });
        match rules.select {
            "Disabled" => current,
            "Min" => limits.max().unwrap_or(i32::MIN),
            _ => limits.min().unwrap_or(i32::MAX),
        }
    }

    /// How many replicas there were when the policy's period began, as far as they were changed since.
    fn at_period_start(&self, policy: &ScalingPolicy, current: i32, now: MicroTime) -> i32 {
        let since = now.minus(seconds(policy.period_seconds));
        let changed = |changes: &[(i32, MicroTime)]| {
            let recent = changes.iter().filter(|(_, at)| *at > since);
            recent.fold(0, |sum: i32, (by, _)| sum.saturating_add(*by))
        };
        current
            .saturating_sub(changed(&self.ups))
            .saturating_add(changed(&self.downs))
    }
}

/// Rules with everything filled in.
struct Rules<'a> {
    window: Duration,
    select: &'a str,
    policies: Vec<ScalingPolicy>,
}

fn up_rules(behavior: &Behavior) -> Rules<'_> {
    // The API server's defaults, should it not have filled them in.
    let policies = || vec![policy("Pods", UP_LEAST, 15), policy("Percent", 100, 15)];
    rules(behavior.scale_up.as_ref(), Duration::ZERO, policies)
}

fn down_rules(behavior: &Behavior, window: Duration) -> Rules<'_> {
    let policies = || vec![policy("Percent", 100, 15)];
    rules(behavior.scale_down.as_ref(), window, policies)
}

fn rules(
    given: Option<&ScalingRules>,
    window: Duration,
    policies: impl Fn() -> Vec<ScalingPolicy>,
) -> Rules<'_> {
    let Some(given) = given else {
        return Rules {
            window,
            select: "Max",
            policies: policies(),
        };
    };
    Rules {
        window: given.stabilization_window_seconds.map_or(window, seconds),
        select: given.select_policy.as_deref().unwrap_or("Max"),
        policies: match given.policies.is_empty() {
            true => policies(),
            false => given.policies.clone(),
        },
    }
}

fn policy(kind: &str, value: i32, period_seconds: i32) -> ScalingPolicy {
    ScalingPolicy {
        r#type: kind.into(),
        value,
        period_seconds,
    }
}

fn seconds(seconds: i32) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

/// Without rules: within the bounds, and not more than twice as many at once.
fn within(wanted: i32, bounds: Bounds) -> (i32, (&'static str, &'static str)) {
    let limit = bounds.current.saturating_mul(UP_FACTOR).max(UP_LEAST);
    let (most, why) = match bounds.most > limit {
        true => (limit, UP_LIMIT),
        false => (bounds.most, TOO_MANY),
    };
    if wanted < bounds.least {
        (bounds.least, TOO_FEW)
    } else if wanted > most {
        (most, why)
    } else {
        (wanted, WITHIN)
    }
}
