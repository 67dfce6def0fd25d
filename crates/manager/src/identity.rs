//! As whom each controller talks to the API server.
//!
//! Every controller has a client of its own, with a user agent that names it, so that audit logs and priority
//! rules can tell them apart. With --use-service-account-credentials each acts as its own service account: the
//! account is created if it is missing, and its token is asked for when it is first needed, kept for most of
//! its lifetime, and asked for again when the API server no longer takes it.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use api::{Clock, ResourceType, Time};
use bytes::Bytes;
use client::{BoxError, Client, Flow, Transport};
use http::{HeaderValue, StatusCode, header};
use serde::Deserialize;
use tokio::time::Instant;
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt};
use tracing::{debug, warn};

use crate::config::ClientConnection;
use crate::version;

/// Makes clients.
#[derive(Clone)]
pub struct Identities(Arc<Inner>);

struct Inner {
    /// With the identity of --kubeconfig.
    own: Transport,
    /// Without any identity, for service account tokens; none without --use-service-account-credentials.
    bare: Option<Transport>,
    rate: Rate,
    /// Where requests are counted, and under which host.
    measured: Option<(client::Metrics, String)>,
    clock: Clock,
    accounts: Mutex<BTreeMap<String, Arc<Account>>>,
}

/// How fast clients may ask.
enum Rate {
    /// --kube-api-qps and --kube-api-burst were given: each client has a bucket of its own, as upstream.
    Given { per_second: f64, burst: u32 },
    /// A negative --kube-api-qps.
    Unlimited,
    /// One for all clients that adapts to what the API server can take.
    Adaptive(Flow),
}

/// The namespace of the controllers' accounts.
const NAMESPACE: &str = "kube-system";

const NAMESPACES: ResourceType = ResourceType::cluster("", "v1", "namespaces", "Namespace");
const SERVICE_ACCOUNTS: ResourceType =
    ResourceType::namespaced("", "v1", "serviceaccounts", "ServiceAccount");

impl Identities {
    /// `own` has the identity of --kubeconfig. `bare` has none, and is given if controllers are to act as their
    /// service accounts.
    pub fn new(
        own: Transport,
        bare: Option<Transport>,
        connection: &ClientConnection,
        rate_given: bool,
        measured: Option<(client::Metrics, String)>,
        clock: Clock,
    ) -> Identities {
        let rate = match rate_given {
            // UPSTREAM: client-go takes a negative rate for no limit, and zero for its own default.
            true if connection.qps < 0.0 => Rate::Unlimited,
            true if connection.qps == 0.0 => Rate::Given {
                per_second: 5.0,
                burst: 10,
            },
            true => Rate::Given {
                per_second: f64::from(connection.qps),
                burst: u32::try_from(connection.burst).unwrap_or(1).max(1),
            },
            false => Rate::Adaptive(Flow::adaptive()),
        };
        Identities(Arc::new(Inner {
            own,
            bare,
            rate,
            measured,
            clock,
            accounts: Mutex::default(),
        }))
    }

    /// The manager's own client under a name, such as "shared-informers".
    pub fn own(&self, component: &str) -> Client {
        let client = self.0.client(self.0.own.clone(), component);
        client.with_flow(self.0.rate.flow(1.0, 1))
    }

    /// The client of a controller, by the name of its service account. Some controllers may ask more: rate
    /// and burst are multiplied, if they were given at all.
    pub async fn controller(
        &self,
        account: &str,
        (rate_factor, burst_factor): (f64, u32),
    ) -> Result<Client, client::Error> {
        let flow = self.0.rate.flow(rate_factor, burst_factor);
        let Some(bare) = &self.0.bare else {
            return Ok(self.own(account).with_flow(flow));
        };
        let own = self.own(COMPONENT);
        match ensure_account(&own, account).await {
            // A standby may not write, and an API server may be away for a moment: a request for the
            // token makes sure of the account again.
            Err(error) if error.is_transport() => {
                debug!(
                    error = client::describe(&error),
                    account, "Service account is left for later"
                );
            }
            other => other?,
        }
        let account_state = {
            let mut accounts = self.0.accounts.lock();
            let make = || Arc::new(Account::new(account, own, self.0.clock.clone()));
            Arc::clone(accounts.entry(account.to_owned()).or_insert_with(make))
        };
        let transport = AsAccount {
            inner: bare.clone(),
            account: account_state,
        };
        let name = format!("system:serviceaccount:{NAMESPACE}:{account}");
        Ok(self
            .0
            .client(BoxCloneSyncService::new(transport), &name)
            .with_flow(flow))
    }
}

/// UPSTREAM: the user agent under which accounts and tokens are asked for.
const COMPONENT: &str = "kube-controller-manager";

impl Inner {
    fn client(&self, transport: Transport, component: &str) -> Client {
        let client = Client::new(transport).with_user_agent(&version::user_agent(component));
        match &self.measured {
            Some((metrics, host)) => client.with_metrics(metrics, host),
            None => client,
        }
    }
}

impl Rate {
    fn flow(&self, rate_factor: f64, burst_factor: u32) -> Flow {
        match self {
            Rate::Given { per_second, burst } => {
                Flow::bucket(per_second * rate_factor, burst.saturating_mul(burst_factor))
            }
            Rate::Unlimited => Flow::unlimited(),
            Rate::Adaptive(flow) => flow.clone(),
        }
    }
}

/// Creates the service account unless it is there.
async fn ensure_account(own: &Client, account: &str) -> Result<(), client::Error> {
    match own.get(&SERVICE_ACCOUNTS, NAMESPACE, account).await {
        Err(error) if error.is_not_found() => {}
        other => return other.map(drop),
    }
    // On a cluster that is just starting the namespace itself may be missing. Creating it may not be allowed,
    // which the creation of the account will then say.
    if let Err(error) = own.get(&NAMESPACES, "", NAMESPACE).await
        && error.is_not_found()
    {
        let body = format!(
            r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{NAMESPACE}"}}}}"#
        );
        if let Err(error) = own.create(&NAMESPACES, "", body).await
            && !error.is_already_exists()
        {
            warn!(
                error = client::describe(&error),
                namespace = NAMESPACE,
                "Cannot create the namespace"
            );
        }
    }
    let body = serde_json::json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"namespace": NAMESPACE, "name": account},
    });
    match own
        .create(&SERVICE_ACCOUNTS, NAMESPACE, body.to_string())
        .await
    {
        Err(error) if !error.is_already_exists() => Err(error),
        _ => Ok(()),
    }
}

/// A service account and its token.
struct Account {
    name: String,
    own: Client,
    clock: Clock,
    token: tokio::sync::Mutex<Option<IssuedToken>>,
}

#[derive(Clone)]
struct IssuedToken {
    header: HeaderValue,
    renew_at: Instant,
}

/// UPSTREAM: an hour is asked for, and a token is replaced when a fifth of its lifetime is left.
const LIFETIME_SECONDS: u64 = 3600;
const USED_SHARE: f64 = 0.8;

/// UPSTREAM: a token that seems to live shorter is a sign of clocks that disagree, not of such a token.
const SHORTEST_LIFETIME: Duration = Duration::from_secs(600);

/// UPSTREAM: a token is asked for four times, with pauses that double.
const ATTEMPTS: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(500);

impl Account {
    fn new(name: &str, own: Client, clock: Clock) -> Account {
        Account {
            name: name.to_owned(),
            own,
            clock,
            token: tokio::sync::Mutex::new(None),
        }
    }

    async fn header(&self) -> Result<HeaderValue, BoxError> {
        // Held while asking, so that many requests at once ask for one token.
        let mut token = self.token.lock().await;
        if let Some(token) = &*token
            && token.renew_at > Instant::now()
        {
            return Ok(token.header.clone());
        }
        let issued = self.ask().await?;
        let header = issued.header.clone();
        *token = Some(issued);
        Ok(header)
    }

    /// Forgets a token that was refused, unless it has been replaced meanwhile.
    async fn forget(&self, refused: &HeaderValue) {
        let mut token = self.token.lock().await;
        if token.as_ref().is_some_and(|token| token.header == *refused) {
            *token = None;
        }
    }

    async fn ask(&self) -> Result<IssuedToken, BoxError> {
        let mut pause = FIRST_PAUSE;
        for _ in 1..ATTEMPTS {
            match self.ask_once().await {
                Ok(token) => return Ok(token),
                Err(error) => warn!(
                    error = &*error as &dyn std::error::Error,
                    account = self.name,
                    "Cannot get a service account token; trying again"
                ),
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        self.ask_once().await
    }

    async fn ask_once(&self) -> Result<IssuedToken, BoxError> {
        ensure_account(&self.own, &self.name).await?;
        let body = serde_json::json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": LIFETIME_SECONDS},
        });
        let answer = self
            .own
            .create_subresource(
                &SERVICE_ACCOUNTS,
                NAMESPACE,
                &self.name,
                "token",
                body.to_string(),
            )
            .await?;
        let answer: TokenAnswer = serde_json::from_slice(&answer)?;
        let left = answer.status.expiration_timestamp.unix() - self.clock.now().time().unix();
        let lifetime = Duration::from_secs(u64::try_from(left).unwrap_or(0)).max(SHORTEST_LIFETIME);
        let mut header = HeaderValue::from_str(&format!("Bearer {}", answer.status.token))?;
        header.set_sensitive(true);
        Ok(IssuedToken {
            header,
            renew_at: Instant::now() + lifetime.mul_f64(USED_SHARE),
        })
    }
}

#[derive(Deserialize)]
struct TokenAnswer {
    status: TokenStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TokenStatus {
    token: String,
    expiration_timestamp: Time,
}

/// A transport whose requests carry the account's token.
#[derive(Clone)]
struct AsAccount {
    inner: Transport,
    account: Arc<Account>,
}

impl Service<http::Request<Bytes>> for AsAccount {
    type Response = http::Response<client::Body>;
    type Error = BoxError;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<Result<(), BoxError>> {
        // The inner service is asked once a token is there.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: http::Request<Bytes>) -> Self::Future {
        let AsAccount { inner, account } = self.clone();
        Box::pin(async move {
            let token = account.header().await?;
            request
                .headers_mut()
                .insert(header::AUTHORIZATION, token.clone());
            let answer = inner.oneshot(request).await?;
            if answer.status() == StatusCode::UNAUTHORIZED {
                account.forget(&token).await;
            }
            Ok(answer)
        })
    }
}

#[cfg(test)]
mod tests;
