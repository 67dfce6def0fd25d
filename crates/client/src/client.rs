//! The verbs of the Kubernetes API over any transport.

use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, DATE, ETAG, HeaderValue, IF_NONE_MATCH, USER_AGENT,
    WARNING,
};
use http::{Method, Request, Response, StatusCode};
use tokio::time::Instant;
use tower::Service;

use crate::flow::Pace;
use crate::metrics::HostMetrics;
use crate::{
    Body, DeleteOptions, Encoding, Error, Flow, ListOptions, ListPage, Metrics, Patch, Status,
    Token, Transport, WatchOptions, WatchStream, list, path, response,
};
use api::{Resource, ResourceType, Time};

/// Talks to one API server under one identity. Cheap to clone; clones share transport and flow control.
#[derive(Clone)]
pub struct Client {
    transport: Transport,
    flow: Flow,
    user_agent: HeaderValue,
    token: Option<Token>,
    metrics: Option<HostMetrics>,
}

/// The answer to [`Client::request_unless`].
#[derive(Debug)]
pub enum Conditional {
    Unchanged,
    Changed {
        body: Bytes,
        /// What to ask with next time, where the server gives one.
        tag: Option<HeaderValue>,
    },
}

/// How often a request is sent again when the server asks for it with `Retry-After`.
// UPSTREAM: client-go's default for the same case.
const MAX_RETRIES: u32 = 10;

/// When we give up on an answer. The API server gives up on its own work after 60 s and says so, so
/// whoever is silent for half as long again has lost the request. A watch is opened within this time too; how long
/// it then lives is the server's choice.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);

/// From here on a request that waits for the rate limit is worth a log line.
// UPSTREAM: client-go's threshold for the same message at the default log level.
const NOTABLE_WAIT: Duration = Duration::from_secs(1);

/// Hot kinds in protobuf where the server has it, else in JSON.
const PROTOBUF: HeaderValue =
    HeaderValue::from_static("application/vnd.kubernetes.protobuf,application/json");
const METADATA_PROTOBUF: HeaderValue = HeaderValue::from_static(
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
);
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const METADATA: HeaderValue = HeaderValue::from_static(
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
);
const METADATA_LIST: HeaderValue = HeaderValue::from_static(
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
);

impl Client {
    /// A client without limits of its own, as suits a server in the same process.
    pub fn new(transport: Transport) -> Client {
        Client {
            transport,
            flow: Flow::unlimited(),
            user_agent: HeaderValue::from_static("steersman"),
            token: None,
            metrics: None,
        }
    }

    /// The same connection under another name. Characters that no header can carry are dropped.
    pub fn with_user_agent(mut self, user_agent: &str) -> Client {
        let printable: String = user_agent
            .chars()
            .filter(|c| (' '..='~').contains(c))
            .collect();
        self.user_agent =
            HeaderValue::from_str(&printable).expect("printable ASCII is a valid header value");
        self
    }

    /// The same connection with flow control of its own: a lane that nobody else can fill.
    pub fn with_flow(mut self, flow: Flow) -> Client {
        self.flow = flow;
        self
    }

    /// The same connection as somebody else. The transport must have no client certificate of its own (see
    /// [`crate::config::Config::anonymous`]), because a server believes that first.
    pub fn with_token(mut self, token: Token) -> Client {
        self.token = Some(token);
        self
    }

    /// Counts what this client does, under the name of the host it talks to.
    pub fn with_metrics(mut self, metrics: &Metrics, host: &str) -> Client {
        self.metrics = Some(metrics.for_host(host));
        self
    }

    pub async fn get(
        &self,
        rt: &ResourceType,
        namespace: &str,
        name: &str,
    ) -> Result<Bytes, Error> {
        self.exchange(Method::GET, &path::object(rt, namespace, name, None)?, None)
            .await
    }

    /// The object as `PartialObjectMetadata`: enough to know its owners, finalizers and uid.
    pub async fn get_metadata(
        &self,
        rt: &ResourceType,
        namespace: &str,
        name: &str,
    ) -> Result<Bytes, Error> {
        let path = path::object(rt, namespace, name, None)?;
        let request = build(Method::GET, &path, METADATA, None)?;
        self.whole_answer(request, Pace::Telling).await
    }

    /// Reads a subresource, such as `scale`.
    pub async fn get_subresource(
        &self,
        rt: &ResourceType,
        namespace: &str,
        name: &str,
        subresource: &str,
    ) -> Result<Bytes, Error> {
        let path = path::object(rt, namespace, name, Some(subresource))?;
        self.exchange(Method::GET, &path, None).await
    }

    pub async fn get_as<K: Resource>(&self, namespace: &str, name: &str) -> Result<K, Error> {
        let path = path::object(&K::TYPE, namespace, name, None)?;
        let body = self.exchange(Method::GET, &path, None).await?;
        K::decode(&body).map_err(|source| Error::decode(&format!("GET {path}"), &body, source))
    }

    /// One page. When it carries a continue token, ask for the next with the same selectors.
    pub async fn list(
        &self,
        rt: &ResourceType,
        namespace: &str,
        options: &ListOptions,
    ) -> Result<ListPage, Error> {
        let path = path::collection(rt, namespace)?;
        let target = format!("{path}{}", options.query().as_str());
        let accept = if options.metadata_only {
            METADATA_LIST
        } else {
            JSON
        };
        let request = build(Method::GET, &target, accept, None)?;
        let body = self.whole_answer(request, Pace::Other).await?;
        list::parse(&body).map_err(|source| Error::decode(&format!("GET {path}"), &body, source))
    }

    /// Hands over all objects of a list, page by page.
    pub async fn list_all<E: From<Error>>(
        &self,
        rt: &ResourceType,
        namespace: &str,
        mut options: ListOptions,
        mut take: impl FnMut(Bytes) -> Result<(), E>,
    ) -> Result<(), E> {
        loop {
            let page = self.list(rt, namespace, &options).await?;
            page.items.into_iter().try_for_each(&mut take)?;
            match page.continue_token {
                Some(token) => options.continue_token = Some(token),
                None => return Ok(()),
            }
        }
    }

    pub async fn watch(
        &self,
        rt: &ResourceType,
        namespace: &str,
        options: &WatchOptions,
    ) -> Result<WatchStream, Error> {
        let mut target = path::collection(rt, namespace)?;
        let description = ["WATCH ", &target].concat();
        target.push_str(options.query().as_str());
        let accept = match (options.metadata_only, options.protobuf) {
            (true, true) => METADATA_PROTOBUF,
            (true, false) => METADATA,
            (false, true) => PROTOBUF,
            (false, false) => JSON,
        };
        let request = build(Method::GET, &target, accept, None)?;
        let opened = self.send(request, &description, Pace::Other).await?;
        let encoding = Encoding::of(opened.headers().get(CONTENT_TYPE));
        Ok(WatchStream::new(
            opened.into_body(),
            encoding,
            description,
            options.timeout_seconds,
        ))
    }

    pub async fn create(
        &self,
        rt: &ResourceType,
        namespace: &str,
        body: impl Into<Bytes>,
    ) -> Result<Bytes, Error> {
        let path = path::writable_collection(rt, namespace)?;
        self.exchange(Method::POST, &path, Some((JSON, body.into())))
            .await
    }

    /// Creates, and answers no more than the metadata of what was made: the rest is what was sent, and half the
    /// bytes of a pod.
    pub async fn create_metadata_only(
        &self,
        rt: &ResourceType,
        namespace: &str,
        body: impl Into<Bytes>,
    ) -> Result<Bytes, Error> {
        let path = path::writable_collection(rt, namespace)?;
        let content = Some((JSON, body.into()));
        let request = build(Method::POST, &path, METADATA, content)?;
        self.whole_answer(request, Pace::Telling).await
    }

    /// Posts to a subresource, such as `eviction`, `binding` or `token`.
    pub async fn create_subresource(
        &self,
        rt: &ResourceType,
        namespace: &str,
        name: &str,
        subresource: &str,
        body: impl Into<Bytes>,
    ) -> Result<Bytes, Error> {
        let path = path::object(rt, namespace, name, Some(subresource))?;
        self.exchange(Method::POST, &path, Some((JSON, body.into())))
            .await
    }

    /// PUT of a whole object or of a subresource such as `status` or `scale`.
    pub async fn replace(
        &self,
        rt: &ResourceType,
        namespace: &str,
        name: &str,
        subresource: Option<&str>,
        body: impl Into<Bytes>,
    ) -> Result<Bytes, Error> {
        let path = path::object(rt, namespace, name, subresource)?;
        self.exchange(Method::PUT, &path, Some((JSON, body.into())))
            .await
    }

    /// Replaces, and answers no more than the metadata of what came of it; see [`Client::create_metadata_only`].
    pub async fn replace_metadata_only(
        &self,
        rt: &ResourceType,
        namespace: &str,
        name: &str,
        body: impl Into<Bytes>,
    ) -> Result<Bytes, Error> {
        let path = path::object(rt, namespace, name, None)?;
        let content = Some((JSON, body.into()));
        let request = build(Method::PUT, &path, METADATA, content)?;
        self.whole_answer(request, Pace::Telling).await
    }

    pub async fn patch(
        &self,
        rt: &ResourceType,
        namespace: &str,
        name: &str,
        subresource: Option<&str>,
        patch: &Patch,
    ) -> Result<Bytes, Error> {
        let mut target = path::object(rt, namespace, name, subresource)?;
        target.push_str(patch.query().as_str());
        let content_type = HeaderValue::from_static(patch.content_type());
        self.exchange(
            Method::PATCH,
            &target,
            Some((content_type, patch.body().clone())),
        )
        .await
    }

    /// What a patch would make of an object.
    pub async fn patch_dry_run(
        &self,
        rt: &ResourceType,
        namespace: &str,
        name: &str,
        patch: &Patch,
    ) -> Result<Bytes, Error> {
        let mut target = path::object(rt, namespace, name, None)?;
        let mut query = patch.query();
        query.text("dryRun", Some("All"));
        target.push_str(query.as_str());
        let content_type = HeaderValue::from_static(patch.content_type());
        let content = Some((content_type, patch.body().clone()));
        self.exchange(Method::PATCH, &target, content).await
    }

    /// Patches, and answers no more than the metadata of what came of it; see [`Client::create_metadata_only`].
    pub async fn patch_metadata_only(
        &self,
        rt: &ResourceType,
        namespace: &str,
        name: &str,
        patch: &Patch,
    ) -> Result<Bytes, Error> {
        let mut target = path::object(rt, namespace, name, None)?;
        target.push_str(patch.query().as_str());
        let content_type = HeaderValue::from_static(patch.content_type());
        let content = Some((content_type, patch.body().clone()));
        let request = build(Method::PATCH, &target, METADATA, content)?;
        self.whole_answer(request, Pace::Telling).await
    }

    /// Answers the metadata of the deleted object, or a `Status` when it is gone at once.
    pub async fn delete(
        &self,
        rt: &ResourceType,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Bytes, Error> {
        let path = path::object(rt, namespace, name, None)?;
        let request = build(
            Method::DELETE,
            &path,
            METADATA,
            Some((JSON, options.body())),
        )?;
        self.whole_answer(request, Pace::Telling).await
    }

    pub async fn delete_collection(
        &self,
        rt: &ResourceType,
        namespace: &str,
        list: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<(), Error> {
        let mut target = path::writable_collection(rt, namespace)?;
        target.push_str(list.query().as_str());
        let request = build(Method::DELETE, &target, JSON, Some((JSON, options.body())))?;
        self.whole_answer(request, Pace::Other).await?;
        Ok(())
    }

    /// Any path at all: discovery, `/healthz`, a scale through an arbitrary group.
    pub async fn request(&self, request: Request<Bytes>) -> Result<Bytes, Error> {
        self.whole_answer(request, Pace::Other).await
    }

    /// The same, unless the answer would be the one that was given with this tag.
    pub async fn request_unless(
        &self,
        mut request: Request<Bytes>,
        tag: Option<&HeaderValue>,
    ) -> Result<Conditional, Error> {
        if let Some(tag) = tag {
            request.headers_mut().insert(IF_NONE_MATCH, tag.clone());
        }
        let description = describe(&request);
        let response = self.send(request, &description, Pace::Other).await?;
        if response.status() == StatusCode::NOT_MODIFIED {
            return Ok(Conditional::Unchanged);
        }
        let tag = response.headers().get(ETAG).cloned();
        let body = response::collect_object(response.into_body(), &description);
        let body = in_time(&description, body).await?;
        Ok(Conditional::Changed { body, tag })
    }

    /// What time it is where the server is; none if it does not say.
    pub async fn server_time(&self) -> Result<Option<Time>, Error> {
        let request = build(Method::GET, "/version", JSON, None)?;
        let response = self.send(request, "GET /version", Pace::Other).await?;
        let date = response.headers().get(DATE);
        let date = date.and_then(|date| date.to_str().ok());
        Ok(date.and_then(Time::from_http_date))
    }

    /// One request about one object.
    async fn exchange(
        &self,
        method: Method,
        target: &str,
        content: Option<(HeaderValue, Bytes)>,
    ) -> Result<Bytes, Error> {
        self.whole_answer(build(method, target, JSON, content)?, Pace::Telling)
            .await
    }

    /// Boxed, because every future that asks for something would else contain all of this, and code to drop it
    /// at each place where it waits.
    fn whole_answer(
        &self,
        request: Request<Bytes>,
        pace: Pace,
    ) -> BoxFuture<'_, Result<Bytes, Error>> {
        Box::pin(async move {
            let description = describe(&request);
            let method = request.method().clone();
            // Both are counted references.
            let (target, sent) = (request.uri().clone(), request.body().clone());
            let response = self.send(request, &description, pace).await?;
            let body = response.into_body();
            let body = match pace {
                Pace::Telling => {
                    let body = response::collect_object(body, &description);
                    in_time(&description, body).await?
                }
                Pace::Other => in_time(&description, response::collect(body, &description)).await?,
            };
            if let Some(metrics) = &self.metrics {
                metrics.received(&method, body.len());
            }
            crate::writes::note(&method, target.path(), &sent, &body);
            Ok(body)
        })
    }

    /// Sends, and sends again while the server asks for it. Answers successes alone.
    ///
    /// Not an `async fn`, here and below, where that would keep a request twice: this is a box for each of them.
    fn send<'a>(
        &'a self,
        request: Request<Bytes>,
        description: &'a str,
        pace: Pace,
    ) -> BoxFuture<'a, Result<Response<Body>, Error>> {
        Box::pin(async move {
            let started = Instant::now();
            let mut retries = 0;
            let answer = loop {
                let answer = self.attempt_in_turn(&request, description, pace).await;
                let error = match answer {
                    Ok(response) => break Ok(response),
                    Err(error) => error,
                };
                let (Some(wait), true) = (asked_to_wait(&error), retries < MAX_RETRIES) else {
                    break Err(error);
                };
                retries += 1;
                if let Some(metrics) = &self.metrics {
                    metrics.retried(request.method(), &error);
                }
                tracing::debug!(
                    request = description,
                    retries,
                    ?wait,
                    "the API server asks to retry later"
                );
                tokio::time::sleep(wait).await;
            };
            if let Some(metrics) = &self.metrics {
                metrics.finished(request.method(), started.elapsed());
            }
            answer
        })
    }

    /// One attempt, when flow control lets it.
    async fn attempt_in_turn(
        &self,
        request: &Request<Bytes>,
        description: &str,
        pace: Pace,
    ) -> Result<Response<Body>, Error> {
        let asked_at = Instant::now();
        let permit = self.flow.acquire().await;
        let waited = asked_at.elapsed();
        if waited >= NOTABLE_WAIT {
            tracing::info!(
                request = description,
                ?waited,
                "held back by client-side flow control"
            );
        }
        let answer = in_time(description, self.attempt(request, description)).await;
        permit.finish(answer.as_ref().map(|_| pace));
        if let Some(metrics) = &self.metrics {
            metrics.waited(request.method(), waited);
            metrics.attempted(
                request.method(),
                request.body().len(),
                answer.as_ref().map(|response| response.status().as_u16()),
            );
        }
        answer
    }

    /// The request under our name, to be sent.
    fn signed(&self, request: &Request<Bytes>) -> Request<Bytes> {
        let mut request = request.clone();
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, self.user_agent.clone());
        if let Some(token) = &self.token {
            headers.insert(AUTHORIZATION, token.authorization());
        }
        request
    }

    async fn attempt(
        &self,
        request: &Request<Bytes>,
        description: &str,
    ) -> Result<Response<Body>, Error> {
        let mut transport = self.transport.clone();
        let ready = poll_fn(|cx| transport.poll_ready(cx)).await;
        let answer = match ready.map(|()| transport.call(self.signed(request))) {
            Ok(answer) => answer.await,
            Err(source) => Err(source),
        };
        let response = answer.map_err(|source| Error::transport(description, source))?;
        for warning in response.headers().get_all(WARNING) {
            // UPSTREAM: the manager keeps silent about warnings; no operator can change its requests.
            tracing::debug!(request = description, ?warning, "the API server warns");
        }
        // Only who asked for it is told that nothing has changed.
        if response.status().is_success() || response.status() == StatusCode::NOT_MODIFIED {
            return Ok(response);
        }
        Err(Box::pin(refusal(request.method(), response, description)).await)
    }
}

/// Reads why the server refuses.
async fn refusal(method: &Method, response: Response<Body>, description: &str) -> Error {
    let (head, body) = response.into_parts();
    let body = response::collect_refusal(body, description)
        .await
        .unwrap_or_default();
    let status = Status::of_response(method, head.status, &head.headers, &body);
    Error::Status(Box::new(status))
}

fn in_time<T>(
    description: &str,
    answer: impl Future<Output = Result<T, Error>>,
) -> impl Future<Output = Result<T, Error>> {
    tokio::time::timeout(ANSWER_TIMEOUT, answer).map(|answer| match answer {
        Ok(answer) => answer,
        Err(_) => Err(Error::Timeout {
            request: description.to_owned(),
            after: ANSWER_TIMEOUT,
        }),
    })
}

/// A wait is taken only from a server that is overloaded or failing and says when to come back.
fn asked_to_wait(error: &Error) -> Option<Duration> {
    let status = error.status()?;
    if status.code != 429 && status.code < 500 {
        return None;
    }
    // A server that lags behind keeps each try waiting for seconds; the caller knows what to ask instead.
    if error.is_resource_version_too_large() {
        return None;
    }
    status.retry_after
}

fn build(
    method: Method,
    target: &str,
    accept: HeaderValue,
    content: Option<(HeaderValue, Bytes)>,
) -> Result<Request<Bytes>, Error> {
    let wrong = |error| Error::InvalidRequest(format!("{target:?}: {error}"));
    let uri = http::Uri::try_from(target).map_err(wrong)?;
    // Not by a builder, which moves all parts with each step.
    let mut request = Request::new(Bytes::new());
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    request.headers_mut().insert(ACCEPT, accept);
    if let Some((content_type, bytes)) = content {
        request.headers_mut().insert(CONTENT_TYPE, content_type);
        *request.body_mut() = bytes;
    }
    Ok(request)
}

/// `GET /api/v1/pods`: what an error message calls the request. Queries are left out, they can be long.
fn describe(request: &Request<Bytes>) -> String {
    [request.method().as_str(), " ", request.uri().path()].concat()
}

#[cfg(test)]
mod tests;
