//! The transport to a real API server: HTTP/2 (or HTTP/1 where the server has nothing better) over rustls.
//!
//! A dead connection is noticed by HTTP/2 pings and replaced. Certificates and tokens that change on disk, or that
//! an exec plugin renews, are taken up without a restart: requests and new connections use the new ones, and
//! connections made with an old certificate end when their last stream does.

mod connect;
mod error;
mod files;
mod http2;
mod identity;
mod lease;
mod pool;
mod tls;

use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST, HeaderName, HeaderValue, UPGRADE};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};

pub use error::ConnectError;

use self::identity::Identity;
use self::lease::{Protocol, SendError};
use self::pool::{Lane, Pool};
use crate::config::{Config, ConfigError, Impersonate, Server};
use crate::metrics::TransportMetrics;
use crate::{Body, BoxError, Metrics, Transport};

/// How often one request is handed to another connection because the one it was given turned out to be closed.
const MAX_CONNECTIONS_TRIED: usize = 3;

/// Connects lazily. Certificates and keys are read at once, so that what is wrong with them is known at the start.
/// The clock judges when a plugin's credential expires.
pub fn transport(config: Config, clock: api::Clock) -> Result<Transport, ConfigError> {
    let unseen = TransportMetrics::unseen().expect("names and labels in our code are valid");
    open(config, clock, unseen)
}

/// The transports of one process, counted. Who asks for the same server with the same credentials gets the same
/// transport, and so shares its connections.
pub struct Transports {
    clock: api::Clock,
    metrics: TransportMetrics,
    open: Vec<(Config, Transport)>,
}

impl Transports {
    pub fn new(clock: api::Clock, metrics: &Metrics) -> Transports {
        Transports {
            clock,
            metrics: metrics.transport().clone(),
            open: Vec::new(),
        }
    }

    pub fn to(&mut self, config: Config) -> Result<Transport, ConfigError> {
        let same = self.open.iter().find(|(open, _)| *open == config);
        let found = same.map(|(_, transport)| transport.clone());
        self.metrics.asked_for(found.is_some());
        if let Some(transport) = found {
            return Ok(transport);
        }
        let transport = open(config.clone(), self.clock.clone(), self.metrics.clone())?;
        self.open.push((config, transport.clone()));
        Ok(transport)
    }
}

fn open(
    config: Config,
    clock: api::Clock,
    metrics: TransportMetrics,
) -> Result<Transport, ConfigError> {
    let impersonation = impersonation_headers(config.impersonate.as_ref())?;
    let https = Arc::new(Https {
        server: config.server.clone(),
        impersonation,
        pool: Pool::new(config.server.clone(), config.proxy.clone(), metrics.clone()),
        identity: Identity::new(config, clock, metrics)?,
    });
    Ok(Transport::new(tower::service_fn(move |request| {
        let https = Arc::clone(&https);
        async move { https.call(request).await }
    })))
}

struct Https {
    server: Server,
    identity: Identity,
    impersonation: HeaderMap,
    pool: Pool,
}

impl Https {
    async fn call(&self, mut request: Request<Bytes>) -> Result<Response<Body>, BoxError> {
        *request.uri_mut() = self.absolute(request.uri())?;
        request.headers_mut().extend(self.impersonation.clone());
        let first = self.identity.current().await?;
        if request.headers().contains_key(UPGRADE) {
            return Box::pin(self.upgrade(&request, &first)).await;
        }
        let response = self.send_as(&request, &first).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        // The credential may have been replaced since we last looked; then the new one is worth a try.
        match self.identity.renew(&first).await {
            Some(second) => Box::pin(self.send_as(&request, &second)).await,
            None => Ok(response),
        }
    }

    /// Asks for another protocol, on a connection of its own. If the answer is 101, its extensions hold the connection.
    async fn upgrade(
        &self,
        request: &Request<Bytes>,
        credential: &identity::Credential,
    ) -> Result<Response<Body>, BoxError> {
        let mut sender = self.pool.connect_alone(credential).await?;
        let request = self.prepare(request, credential, Protocol::Http1)?;
        let answer = sender.send_request(request.map(Full::new)).await;
        let answer = answer.map_err(|error| error::explain(Box::new(error), &self.server))?;
        Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()))
    }

    async fn send_as(
        &self,
        request: &Request<Bytes>,
        credential: &identity::Credential,
    ) -> Result<Response<Body>, BoxError> {
        let lane = if is_watch(request.uri()) {
            Lane::Watches
        } else {
            Lane::Requests
        };
        let mut tried = 0;
        loop {
            tried += 1;
            let lease = self.pool.checkout(lane, credential, &self.identity).await?;
            let request = self.prepare(request, credential, lease.protocol())?;
            let is_read = request.method() == Method::GET;
            let reused = lease.is_reused();
            let error = match lease.send(request).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            // Never sent: nobody can have seen it. A read on a connection that had been idle is as harmless.
            let harmless = matches!(error, SendError::Unsent(_)) || (is_read && reused);
            if !harmless || tried == MAX_CONNECTIONS_TRIED {
                return Err(error::explain(error.into_inner(), &self.server));
            }
        }
    }

    fn prepare(
        &self,
        request: &Request<Bytes>,
        credential: &identity::Credential,
        protocol: Protocol,
    ) -> Result<Request<Bytes>, BoxError> {
        let mut request = request.clone();
        // A client with a token of its own has already said who it is.
        if let Some(authorization) = &credential.authorization
            && !request.headers().contains_key(AUTHORIZATION)
        {
            request
                .headers_mut()
                .insert(AUTHORIZATION, authorization.clone());
        }
        // HTTP/2 carries scheme and host of its own; HTTP/1 wants the path alone and a header for the host.
        if protocol == Protocol::Http1 {
            let host = HeaderValue::from_str(self.server.authority.as_str())?;
            request.headers_mut().insert(HOST, host);
            let path = request.uri().path_and_query().cloned();
            *request.uri_mut() = Uri::from(path.unwrap_or(PathAndQuery::from_static("/")));
        }
        Ok(request)
    }

    fn absolute(&self, uri: &Uri) -> Result<Uri, BoxError> {
        let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let target = Uri::builder()
            .scheme(self.server.scheme.clone())
            .authority(self.server.authority.clone())
            .path_and_query(format!("{}{path}", self.server.prefix))
            .build()?;
        Ok(target)
    }
}

fn is_watch(uri: &Uri) -> bool {
    let parameters = uri.query().unwrap_or_default().split('&');
    parameters
        .into_iter()
        .any(|parameter| matches!(parameter, "watch=true" | "watch=1"))
}

fn impersonation_headers(impersonate: Option<&Impersonate>) -> Result<HeaderMap, ConfigError> {
    let mut headers = HeaderMap::new();
    let Some(impersonate) = impersonate else {
        return Ok(headers);
    };
    let bad = |what: &str| ConfigError::BadMaterial {
        what: format!("the impersonation settings of the kubeconfig ({what})"),
        problem: "they contain characters that no header can carry".to_owned(),
    };
    let mut add = |name: &str, value: &str| {
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad(name))?;
        headers.append(header, HeaderValue::from_str(value).map_err(|_| bad(name))?);
        Ok(())
    };
    add("impersonate-user", &impersonate.user)?;
    if !impersonate.uid.is_empty() {
        add("impersonate-uid", &impersonate.uid)?;
    }
    for group in &impersonate.groups {
        add("impersonate-group", group)?;
    }
    for (key, values) in &impersonate.extra {
        for value in values {
            add(
                &format!("impersonate-extra-{}", key.to_ascii_lowercase()),
                value,
            )?;
        }
    }
    Ok(headers)
}

#[cfg(test)]
mod tests;
