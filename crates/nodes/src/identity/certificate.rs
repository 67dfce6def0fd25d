//! A kubelet's certificates: the first one by the token, each next one by the one before it (or by the token again, once
//! that has ended), and one to serve with.
//! Mirrors `client-go/util/certificate` and `pkg/kubelet/certificate`.

use std::sync::Arc;
use std::time::Duration;

use api::{Clock, MicroTime, Rng, Time};
use client::{BoxError, Client};
use runtime::{Stop, spawn};
use tracing::warn;
use x509_parser::pem::parse_x509_pem;

use super::request::{Issued, Purpose, RequestError, obtain};
use super::{Bootstrap, Credentials, NodeClients};
use crate::config::NodeConfig;

/// UPSTREAM: how long a request is waited for before another one is made.
const WAIT_FOR_FIRST: Duration = Duration::from_secs(3600);
const WAIT_FOR_NEXT: Duration = Duration::from_secs(15 * 60);

/// UPSTREAM: waits between attempts.
const FIRST_RETRY: Duration = Duration::from_secs(2);
const LONGEST_RETRY: Duration = Duration::from_secs(32);

/// Controllers take less than a second to answer: whoever waits longer for them says so.
const SOON: Duration = Duration::from_secs(30);

/// Whose certificates are kept, and by what.
pub(crate) struct Kubelet {
    pub(crate) node: NodeConfig,
    pub(crate) bootstrap: Bootstrap,
    pub(crate) clients: Arc<NodeClients>,
    pub(crate) clock: Clock,
    pub(crate) rng: Rng,
    pub(crate) stop: Stop,
}

/// Returns when the first certificate is in use, and sees to the others from then on.
pub(crate) async fn keep(kubelet: Kubelet) {
    let kubelet = Arc::new(kubelet);
    let validity = kubelet.obtain_client(None).await;
    let (rotating, serving) = (kubelet.clone(), kubelet.clone());
    let stop = kubelet.stop.clone();
    spawn(async move {
        let _ = stop.or(rotating.rotate(validity)).await;
    })
    .detach();
    let stop = kubelet.stop.clone();
    spawn(async move {
        let _ = stop.or(serving.keep_serving_certificate()).await;
    })
    .detach();
}

impl Kubelet {
    async fn rotate(&self, mut validity: Validity) {
        loop {
            self.sleep_until(validity.rotation(self.rng.unit())).await;
            validity = self.obtain_client(Some(validity)).await;
        }
    }

    /// Asks until a client certificate is in use: by the one that is in use, as long as that is good, else by the token.
    async fn obtain_client(&self, held: Option<Validity>) -> Validity {
        let patience = match held {
            None => WAIT_FOR_FIRST,
            Some(_) => WAIT_FOR_NEXT,
        };
        let by = || {
            let is_good = held.is_some_and(|held| self.clock.now() < held.until);
            let own = self.clients.of(&self.node.name).filter(|_| is_good);
            own.map_or_else(|| self.by_token(), Ok)
        };
        loop {
            let issued = self.until_issued(by, Purpose::Client, patience).await;
            match self.take_up(issued) {
                Some(validity) => return validity,
                None => tokio::time::sleep(LONGEST_RETRY).await,
            }
        }
    }

    /// UPSTREAM: a kubelet whose certificate has ended exits, and bootstraps again when it is started.
    fn by_token(&self) -> Result<Client, BoxError> {
        let token = Credentials::Token(self.bootstrap.token.clone());
        let transport = (self.bootstrap.connect)(&token)?;
        Ok(Client::new(transport).with_user_agent("kubelet/v1.36.3"))
    }

    /// Nothing is served by a simulated kubelet: it has the certificate as a real one would, and renews it.
    async fn keep_serving_certificate(&self) {
        loop {
            let Some(client) = self.clients.of(&self.node.name) else {
                return;
            };
            let by = || Ok(client.clone());
            let issued = self.until_issued(by, Purpose::Serving, WAIT_FOR_NEXT).await;
            match Validity::of(&issued.certificate) {
                Some(validity) => {
                    tracing::info!(node = %self.node.name, "has a certificate to serve with");
                    self.sleep_until(validity.rotation(self.rng.unit())).await;
                }
                None => tokio::time::sleep(LONGEST_RETRY).await,
            }
        }
    }

    /// Uses a certificate from now on; how long it is good for, unless it is of no use.
    fn take_up(&self, issued: Issued) -> Option<Validity> {
        let validity = Validity::of(&issued.certificate)?;
        let credentials = Credentials::Certificate {
            certificate: issued.certificate,
            key: issued.key,
        };
        match (self.bootstrap.connect)(&credentials) {
            Ok(transport) => {
                let (clock, rng) = (&self.clock, &self.rng);
                self.clients
                    .adopt(&self.node.name, transport, clock, rng, &self.stop);
                Some(validity)
            }
            Err(error) => {
                self.complain("cannot connect by the certificate that was issued", &*error);
                None
            }
        }
    }

    /// Asks until there is a certificate, each time by the client that is right then.
    async fn until_issued(
        &self,
        by: impl Fn() -> Result<Client, BoxError>,
        purpose: Purpose,
        patience: Duration,
    ) -> Issued {
        let mut wait = FIRST_RETRY;
        loop {
            let client = match by() {
                Ok(client) => client,
                Err(error) => {
                    self.complain("cannot connect by the bootstrap token", &*error);
                    tokio::time::sleep(LONGEST_RETRY).await;
                    continue;
                }
            };
            let asked = tokio::time::timeout(patience, obtain(&client, &self.node, purpose));
            tokio::pin!(asked);
            let answered = tokio::select! {
                biased;
                answered = &mut asked => answered,
                () = tokio::time::sleep(SOON) => {
                    if purpose == Purpose::Client {
                        let node = &self.node.name;
                        warn!(%node, "still waits for its client certificate: do the controllers that approve and sign run?");
                    }
                    asked.await
                }
            };
            match answered {
                Ok(Ok(issued)) => return issued,
                Ok(Err(error)) => self.complain("has no certificate, will ask again", &error),
                Err(_) => {
                    let (node, signer) = (&self.node.name, purpose.signer());
                    warn!(%node, signer, "nobody has approved and signed the certificate request, will ask again");
                }
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_RETRY);
        }
    }

    async fn sleep_until(&self, at: MicroTime) {
        tokio::time::sleep(at.since(self.clock.now())).await;
    }

    fn complain(&self, what: &str, error: &(dyn std::error::Error + 'static)) {
        let error = match error.downcast_ref::<RequestError>() {
            Some(RequestError::Server(error)) => client::describe(error),
            _ => error.to_string(),
        };
        warn!(node = %self.node.name, %error, "{what}");
    }
}

/// From when until when a certificate is good.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Validity {
    from: MicroTime,
    until: MicroTime,
}

impl Validity {
    fn of(certificate: &str) -> Option<Validity> {
        let (_, pem) = parse_x509_pem(certificate.as_bytes()).ok()?;
        let parsed = pem.parse_x509().ok()?;
        let at = |time: x509_parser::time::ASN1Time| Time::from_unix(time.timestamp()).into();
        Some(Validity {
            from: at(parsed.validity().not_before),
            until: at(parsed.validity().not_after),
        })
    }

    /// UPSTREAM: after 70 to 90 per cent of its time, so that nodes that were born together do not all ask at once.
    fn rotation(self, chance: f64) -> MicroTime {
        let lasts = self.until.since(self.from);
        self.from.plus(lasts.mul_f64(0.7 + 0.2 * chance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// UPSTREAM: TestSetRotationDeadline.
    #[test]
    fn certificates_are_renewed_after_seven_to_nine_tenths_of_their_time() {
        let at = |seconds| MicroTime::from(Time::from_unix(seconds));
        let validity = Validity {
            from: at(1_000),
            until: at(2_000),
        };
        assert_eq!(validity.rotation(0.0), at(1_700));
        assert_eq!(validity.rotation(0.5), at(1_800));
        assert!(validity.rotation(0.999) < at(1_900));
        let ended = Validity {
            from: at(2_000),
            until: at(1_000),
        };
        assert_eq!(ended.rotation(0.5), at(2_000), "at once");
    }
}
