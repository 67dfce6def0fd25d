//! `/healthz`, `/livez` and `/readyz`, and what they have seen, for `/metrics/slis`.

use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::fmt::Write;

use http::StatusCode;
use tracing::info;

use super::router::{Reply, Request, text};

/// The health endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Endpoint {
    Healthz,
    Livez,
    Readyz,
}

impl Endpoint {
    pub const ALL: [Endpoint; 3] = [Endpoint::Healthz, Endpoint::Livez, Endpoint::Readyz];

    pub fn name(self) -> &'static str {
        match self {
            Endpoint::Healthz => "healthz",
            Endpoint::Livez => "livez",
            Endpoint::Readyz => "readyz",
        }
    }
}

/// The checks, which parts of the process add as they start.
#[derive(Default)]
pub struct Health {
    checks: RwLock<Vec<Check>>,
    seen: Mutex<BTreeMap<(String, Endpoint), Seen>>,
}

struct Check {
    name: String,
    endpoints: Vec<Endpoint>,
    run: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    successes: u64,
    errors: u64,
    healthy: bool,
}

impl Health {
    /// Adds a check, or replaces the one with this name. Its error is for the log, never for the caller.
    pub fn add(
        &self,
        name: &str,
        endpoints: &[Endpoint],
        run: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        let mut checks = self.checks.write();
        checks.retain(|check| check.name != name);
        checks.push(Check {
            name: name.to_owned(),
            endpoints: endpoints.to_vec(),
            run: Box::new(run),
        });
    }

    pub fn remove(&self, name: &str) {
        let mut checks = self.checks.write();
        checks.retain(|check| check.name != name);
    }

    /// Answers an endpoint; `?verbose` lists the checks and `?exclude=` leaves some out.
    pub fn answer(&self, endpoint: Endpoint, request: &Request) -> Reply {
        let excluded: Vec<&str> = request
            .query
            .iter()
            .filter(|(name, _)| name == "exclude")
            .map(|(_, value)| value.as_str())
            .collect();
        let mut lines = String::new();
        let mut failed = Vec::new();
        let mut unknown = excluded.clone();
        let checks = self.checks.read();
        // Writing to a String cannot fail, here and below.
        for check in checks
            .iter()
            .filter(|check| check.endpoints.contains(&endpoint))
        {
            let name = check.name.as_str();
            if excluded.contains(&name) {
                unknown.retain(|excluded| *excluded != name);
                let _ = writeln!(lines, "[+]{name} excluded: ok");
                continue;
            }
            let result = (check.run)();
            self.observe(name, endpoint, result.is_ok());
            match result {
                Ok(()) => {
                    let _ = writeln!(lines, "[+]{name} ok");
                }
                Err(reason) => {
                    // The endpoint is open to all, so the reason stays in the log.
                    let _ = writeln!(lines, "[-]{name} failed: reason withheld");
                    info!(
                        v = 2,
                        check = name,
                        endpoint = endpoint.name(),
                        reason,
                        "Health check failed"
                    );
                    failed.push(name);
                }
            }
        }
        if !unknown.is_empty() {
            let names: Vec<String> = unknown.iter().map(|name| format!("{name:?}")).collect();
            let _ = writeln!(
                lines,
                "warn: some health checks cannot be excluded: no matches for {}",
                names.join(",")
            );
        }
        let name = endpoint.name();
        match (failed.is_empty(), request.has("verbose")) {
            (false, _) => text(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("{lines}{name} check failed\n"),
            ),
            (true, false) => text(StatusCode::OK, "ok"),
            (true, true) => text(StatusCode::OK, format!("{lines}{name} check passed\n")),
        }
    }

    fn observe(&self, name: &str, endpoint: Endpoint, healthy: bool) {
        let mut seen = self.seen.lock();
        let entry = seen.entry((name.to_owned(), endpoint)).or_default();
        entry.healthy = healthy;
        match healthy {
            true => entry.successes += 1,
            false => entry.errors += 1,
        }
    }

    /// `/metrics/slis`: what the checks have answered, as a service level indicator.
    pub fn indicators(&self) -> String {
        let seen = self.seen.lock();
        let mut text = String::new();
        let label = |name: &str| {
            name.replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n")
        };
        if !seen.is_empty() {
            text.push_str("# HELP kubernetes_healthcheck [STABLE] Whether a health check passed when it was last asked.\n");
            text.push_str("# TYPE kubernetes_healthcheck gauge\n");
            for ((name, endpoint), seen) in seen.iter() {
                let (name, kind) = (label(name), endpoint.name());
                let _ = writeln!(
                    text,
                    "kubernetes_healthcheck{{name=\"{name}\",type=\"{kind}\"}} {}",
                    u8::from(seen.healthy)
                );
            }
            text.push_str(
                "# HELP kubernetes_healthchecks_total [STABLE] Answers of health checks.\n",
            );
            text.push_str("# TYPE kubernetes_healthchecks_total counter\n");
            for ((name, endpoint), seen) in seen.iter() {
                let (name, kind) = (label(name), endpoint.name());
                for (status, count) in [("error", seen.errors), ("success", seen.successes)] {
                    if count > 0 {
                        let _ = writeln!(
                            text,
                            "kubernetes_healthchecks_total{{name=\"{name}\",status=\"{status}\",type=\"{kind}\"}} {count}"
                        );
                    }
                }
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(target: &str, broken: &'static str, expected: Expect) {
        let health = health(broken);
        let reply = health.answer(Endpoint::Healthz, &Request::get(target));
        let body = String::from_utf8(reply.body().to_vec()).unwrap();
        expected.assert_eq(&format!("{}\n{body}", reply.status().as_u16()));
    }

    fn health(broken: &'static str) -> Health {
        let health = Health::default();
        for name in ["leaderElection", "job-controller"] {
            health.add(name, &Endpoint::ALL, move || match name == broken {
                true => Err("secret reason".into()),
                false => Ok(()),
            });
        }
        health.add("informer-sync", &[Endpoint::Readyz], || {
            Err("not yet".into())
        });
        health
    }

    #[test]
    fn healthy() {
        check("/healthz", "", expect![["200\nok"]]);
        check(
            "/healthz?verbose",
            "",
            expect![[r#"
                200
                [+]leaderElection ok
                [+]job-controller ok
                healthz check passed
            "#]],
        );
    }

    #[test]
    fn a_failure_is_always_verbose_and_never_says_why() {
        check(
            "/healthz",
            "leaderElection",
            expect![[r#"
                500
                [-]leaderElection failed: reason withheld
                [+]job-controller ok
                healthz check failed
            "#]],
        );
    }

    #[test]
    fn checks_can_be_left_out() {
        check(
            "/healthz?exclude=leaderElection&exclude=nope&verbose=1",
            "leaderElection",
            expect![[r#"
                200
                [+]leaderElection excluded: ok
                [+]job-controller ok
                warn: some health checks cannot be excluded: no matches for "nope"
                healthz check passed
            "#]],
        );
    }

    #[test]
    fn endpoints_have_their_own_checks() {
        let health = health("");
        assert_eq!(
            health
                .answer(Endpoint::Livez, &Request::get("/livez"))
                .status(),
            200
        );
        assert_eq!(
            health
                .answer(Endpoint::Readyz, &Request::get("/readyz"))
                .status(),
            500
        );
        health.add("informer-sync", &[Endpoint::Readyz], || Ok(()));
        assert_eq!(
            health
                .answer(Endpoint::Readyz, &Request::get("/readyz"))
                .status(),
            200
        );
    }

    #[test]
    fn indicators_count_answers() {
        let health = health("leaderElection");
        assert_eq!(health.indicators(), "");
        for _ in 0..2 {
            health.answer(Endpoint::Healthz, &Request::get("/healthz"));
        }
        expect![[r#"
            # HELP kubernetes_healthcheck [STABLE] Whether a health check passed when it was last asked.
            # TYPE kubernetes_healthcheck gauge
            kubernetes_healthcheck{name="job-controller",type="healthz"} 1
            kubernetes_healthcheck{name="leaderElection",type="healthz"} 0
            # HELP kubernetes_healthchecks_total [STABLE] Answers of health checks.
            # TYPE kubernetes_healthchecks_total counter
            kubernetes_healthchecks_total{name="job-controller",status="success",type="healthz"} 2
            kubernetes_healthchecks_total{name="leaderElection",status="error",type="healthz"} 2
        "#]]
        .assert_eq(&health.indicators());
    }
}
