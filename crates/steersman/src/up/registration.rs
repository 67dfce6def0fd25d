//! Waiting until the nodes are there. Those that need certificates first wait for whoever signs: a detached start, which
//! nobody watches, says so and gives up.

use std::time::Duration;

use anyhow::Result;
use api::decision::agree;
use explain::human;
use nodes::Registered;
use runtime::Stop;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// How long none may come before it is given up. Controllers answer within a second; one elsewhere may have to be
/// started first.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often it is said what is waited for.
const TELLS_EVERY: Duration = Duration::from_secs(10);

/// Who approves and signs what kubelets request.
const SIGNERS: [&str; 2] = [
    controllers::csr_approving::DESCRIPTOR.name,
    controllers::csr_signing::DESCRIPTOR.name,
];

/// Who gives the nodes their certificates.
pub(super) enum Signers {
    /// This process, but for those that are left out.
    Here {
        left_out: Vec<&'static str>,
    },
    Elsewhere,
}

impl Signers {
    pub(super) fn among(running: impl Iterator<Item = &'static str> + Clone) -> Signers {
        let is_left_out = |name: &&str| !running.clone().any(|one| one == *name);
        let left_out = SIGNERS.into_iter().filter(is_left_out).collect();
        Signers::Here { left_out }
    }
}

/// What is waited for.
pub(super) struct Waiting {
    pub(super) registration: watch::Receiver<Registered>,
    pub(super) wanted: usize,
    pub(super) signers: Signers,
}

/// The nodes did not come.
#[derive(Debug)]
pub(super) struct GaveUp(String);

impl std::error::Error for GaveUp {}

impl std::fmt::Display for GaveUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Waiting {
    /// How many nodes there are once all are; none when it was told to stop. Where somebody is told that certificates are
    /// waited for, it ends with an error if none comes for long.
    pub(super) async fn until_ready(
        mut self,
        stop: &Stop,
        progress: impl Fn(&str),
        mut tell: Option<impl FnMut(&str) -> Result<()>>,
    ) -> Result<Option<usize>> {
        // A node that was there before counts when it has its certificate, though there are no more of them then.
        let mut last = Instant::now();
        let mut told = last;
        loop {
            let Registered { nodes, done } = *self.registration.borrow_and_update();
            if done {
                return Ok(Some(nodes));
            }
            progress(&format!("{nodes} of {} ready", self.wanted));
            if let Some(tell) = &mut tell {
                let left = PATIENCE.saturating_sub(last.elapsed());
                if left.is_zero() {
                    return Err(GaveUp(self.complaint(nodes)).into());
                }
                if told.elapsed() >= TELLS_EVERY {
                    told = Instant::now();
                    let (wanted, left) = (self.wanted, said(left));
                    tell(&format!(
                        "{nodes} of {wanted} nodes are ready; waits {left} more for the certificate of another one"
                    ))?;
                }
            }
            match stop
                .or(timeout(TELLS_EVERY, self.registration.changed()))
                .await
            {
                None | Some(Ok(Err(_))) => return Ok(None),
                Some(Ok(Ok(()))) => last = Instant::now(),
                Some(Err(_)) => {}
            }
        }
    }

    fn complaint(&self, nodes: usize) -> String {
        let (wanted, patience) = (self.wanted, said(PATIENCE));
        let why = match &self.signers {
            Signers::Here { left_out } if left_out.is_empty() => {
                "The controllers that approve and sign their requests run; `steersman up --bootstrap-nodes` without --detach shows what they say".to_owned()
            }
            Signers::Here { left_out } => format!(
                "--controllers leaves out {}, which {} needed for that: let {} run, or leave out --bootstrap-nodes",
                left_out.join(" and "),
                agree(left_out.len(), "is", "are"),
                agree(left_out.len(), "it", "them"),
            ),
            Signers::Elsewhere => "Your own controller manager has to approve and sign their requests: does it run, with --cluster-signing-cert-file and --cluster-signing-key-file? Start it meanwhile, or leave out --bootstrap-nodes".to_owned(),
        };
        format!(
            "{nodes} of {wanted} nodes are ready, and no other one got its certificate within {patience}. {why}"
        )
    }
}

fn said(duration: Duration) -> String {
    human(i64::try_from(duration.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use expect_test::{Expect, expect};

    use super::*;

    /// What is said until it ends, and how; the nodes come at these seconds.
    async fn check(signers: Signers, come_at: &[u64], expected: Expect) {
        let (sender, registration) = watch::channel(Registered::default());
        let (_stopper, stop) = Stop::new();
        let lines = RefCell::new(Vec::new());
        let begun = Instant::now();
        let note = |text: &str| {
            let line = format!("{}s {text}", begun.elapsed().as_secs());
            lines.borrow_mut().push(line);
            Ok(())
        };
        let waiting = Waiting {
            registration,
            wanted: 3,
            signers,
        };
        let nodes = async {
            for (place, at) in come_at.iter().enumerate() {
                tokio::time::sleep_until(begun + Duration::from_secs(*at)).await;
                let nodes = place + 1;
                let done = nodes == 3;
                sender.send_replace(Registered { nodes, done });
            }
            std::future::pending::<()>().await;
        };
        let ended = tokio::select! {
            ended = waiting.until_ready(&stop, |_| {}, Some(note)) => ended,
            () = nodes => unreachable!(),
        };
        let ended = match ended {
            Ok(nodes) => format!("{nodes:?}"),
            Err(error) => {
                assert!(error.is::<GaveUp>());
                error.to_string()
            }
        };
        let seconds = begun.elapsed().as_secs();
        let mut lines = lines.into_inner();
        lines.truncate(2);
        expected.assert_eq(&format!("{}\n{seconds}s {ended}", lines.join("\n")));
    }

    fn all_but(left_out: &[&str]) -> Signers {
        Signers::among(SIGNERS.into_iter().filter(|one| !left_out.contains(one)))
    }

    #[tokio::test(start_paused = true)]
    async fn gives_up_when_no_node_comes_for_long() {
        check(all_but(&SIGNERS[1..]), &[], expect![[r#"
            10s 0 of 3 nodes are ready; waits 110s more for the certificate of another one
            20s 0 of 3 nodes are ready; waits 100s more for the certificate of another one
            120s 0 of 3 nodes are ready, and no other one got its certificate within 2m. --controllers leaves out certificatesigningrequest-signing-controller, which is needed for that: let it run, or leave out --bootstrap-nodes"#]]).await;
        check(all_but(&SIGNERS), &[100], expect![[r#"
            10s 0 of 3 nodes are ready; waits 110s more for the certificate of another one
            20s 0 of 3 nodes are ready; waits 100s more for the certificate of another one
            220s 1 of 3 nodes are ready, and no other one got its certificate within 2m. --controllers leaves out certificatesigningrequest-approving-controller and certificatesigningrequest-signing-controller, which are needed for that: let them run, or leave out --bootstrap-nodes"#]]).await;
        check(all_but(&[]), &[], expect![[r#"
            10s 0 of 3 nodes are ready; waits 110s more for the certificate of another one
            20s 0 of 3 nodes are ready; waits 100s more for the certificate of another one
            120s 0 of 3 nodes are ready, and no other one got its certificate within 2m. The controllers that approve and sign their requests run; `steersman up --bootstrap-nodes` without --detach shows what they say"#]]).await;
        check(Signers::Elsewhere, &[], expect![[r#"
            10s 0 of 3 nodes are ready; waits 110s more for the certificate of another one
            20s 0 of 3 nodes are ready; waits 100s more for the certificate of another one
            120s 0 of 3 nodes are ready, and no other one got its certificate within 2m. Your own controller manager has to approve and sign their requests: does it run, with --cluster-signing-cert-file and --cluster-signing-key-file? Start it meanwhile, or leave out --bootstrap-nodes"#]]).await;
        check(
            all_but(&[]),
            &[100, 200, 300],
            expect![[r#"
            10s 0 of 3 nodes are ready; waits 110s more for the certificate of another one
            20s 0 of 3 nodes are ready; waits 100s more for the certificate of another one
            300s Some(3)"#]],
        )
        .await;
    }

    /// Somebody watches, and may start what signs whenever they like.
    #[tokio::test(start_paused = true)]
    async fn waits_for_ever_where_nobody_is_told() {
        let (_sender, registration) = watch::channel(Registered::default());
        let (stopper, stop) = Stop::new();
        let waiting = Waiting {
            registration,
            wanted: 3,
            signers: Signers::Elsewhere,
        };
        let nobody: Option<fn(&str) -> Result<()>> = None;
        let waits = waiting.until_ready(&stop, |_| {}, nobody);
        tokio::pin!(waits);
        assert!(timeout(PATIENCE * 100, &mut waits).await.is_err());
        stopper.stop();
        assert_eq!(waits.await.unwrap(), None);
    }
}
