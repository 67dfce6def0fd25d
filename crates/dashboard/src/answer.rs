//! What is answered on which path. Every path but the files of the page needs a session; nothing but `act` changes
//! anything.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::{BoxError, Client, ListOptions, Token};
use futures_util::stream;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, SET_COOKIE};
use http::{Method, Request, Response, StatusCode};
use http_body::Frame as BodyFrame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::access::{Access, Refused};
use crate::assets::{self, ASSETS, PAGE};
use crate::feed::Sent;
use crate::source::{Action, Named};
use crate::viewer::Viewer;
use crate::{Dashboard, kinds};

pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// A page that has gone is noticed when it does not take this.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// How often the rights of a viewer are asked for again.
const RIGHTS_AGAIN: Duration = Duration::from_secs(10);

/// Events of one object that its page shows.
const EVENTS_MAX: usize = 50;

impl Dashboard {
    /// Answers a request on loopback.
    pub async fn answer(
        self: &Arc<Dashboard>,
        access: &Access,
        request: Request<Bytes>,
    ) -> Response<Body> {
        let writes = request.method() != Method::GET;
        if let Err(refused) = access.check_origin(request.headers(), writes) {
            return plain(StatusCode::FORBIDDEN, &format!("{refused}\n"));
        }
        let path = request.uri().path().trim_start_matches('/').to_owned();
        if let Some(answer) = file(&path) {
            return answer;
        }
        let query = query(request.uri().query().unwrap_or_default());
        if let Some(link) = query.get("link").filter(|_| path.is_empty()) {
            return match access.open_link(link, self.owner.clone()) {
                Ok(cookie) => enter(&cookie),
                Err(refused) => refuse(&path, refused),
            };
        }
        if path == "session" && writes {
            return self.sign_in(access, request.body()).await;
        }
        match access.viewer(request.headers()) {
            Ok(viewer) => self.answer_to(&viewer, &path, &query, &request).await,
            Err(refused) => refuse(&path, refused),
        }
    }

    /// Answers somebody who was let in.
    pub async fn answer_to(
        self: &Arc<Dashboard>,
        viewer: &Arc<Viewer>,
        path: &str,
        query: &Query,
        request: &Request<Bytes>,
    ) -> Response<Body> {
        if let Some(answer) = file(path) {
            return answer;
        }
        match (request.method(), path) {
            (&Method::GET, "") => page(),
            (&Method::GET, "stream") => self.stream(viewer),
            (&Method::GET, "object") => found(self.object(viewer, query).await),
            (&Method::GET, "why") => {
                let client = (!viewer.sees_all()).then_some(&viewer.client);
                found(self.source.why(&named(query), client).await)
            }
            (&Method::GET, "predict") => {
                let client = (!viewer.sees_all()).then_some(&viewer.client);
                let prediction = self.source.predict(&named(query), client).await;
                json_answer(StatusCode::OK, &prediction.unwrap_or_default())
            }
            (&Method::POST, "act") if self.acts => self.act(viewer, request.body()).await,
            (_, "act") => plain(StatusCode::FORBIDDEN, "this page is read only\n"),
            _ => plain(StatusCode::NOT_FOUND, "there is nothing here\n"),
        }
    }

    /// A session for whoever shows a token that the API server knows.
    async fn sign_in(&self, access: &Access, body: &Bytes) -> Response<Body> {
        let form = query(&String::from_utf8_lossy(body));
        let token = form.get("token").map(String::as_str).unwrap_or_default();
        match self.user_of(token).await {
            Some((name, client)) => enter(&access.open(Viewer::named(&name, client))),
            None => sign_in(
                StatusCode::UNAUTHORIZED,
                "The API server does not know this token.",
            ),
        }
    }

    async fn user_of(&self, token: &str) -> Option<(String, Client)> {
        const REVIEWS: api::ResourceType = api::ResourceType::cluster(
            "authentication.k8s.io",
            "v1",
            "selfsubjectreviews",
            "SelfSubjectReview",
        );
        if token.is_empty() {
            return None;
        }
        let client = self
            .owner
            .client
            .clone()
            .with_token(Token::new(token).ok()?);
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let answer = client.create(&REVIEWS, "", review.to_string()).await.ok()?;
        let answer: Value = serde_json::from_slice(&answer).ok()?;
        let name = answer["status"]["userInfo"]["username"]
            .as_str()?
            .to_owned();
        Some((name, client))
    }

    /// The object itself, as its viewer may read it, and its events.
    async fn object(&self, viewer: &Viewer, query: &Query) -> Result<Value, String> {
        let named = named(query);
        let Some(resource) = kinds::named(&named.kind) else {
            return Err(format!("{} is not shown here", named.kind));
        };
        let namespace = if resource.namespaced {
            named.namespace.as_str()
        } else {
            ""
        };
        let body = viewer.client.get(resource, namespace, &named.name).await;
        let body = body.map_err(|error| client::describe(&error))?;
        let mut object: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
        let conditions = object["status"]["conditions"].clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
            if let Some(annotations) = metadata
                .get_mut("annotations")
                .and_then(Value::as_object_mut)
            {
                annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
            }
        }
        let yaml = api::yaml::to_string(&object);
        let events = events(&viewer.client, &named).await;
        Ok(json!({"yaml": yaml, "conditions": conditions, "events": events}))
    }

    async fn act(&self, viewer: &Viewer, body: &Bytes) -> Response<Body> {
        let action: Action = match serde_json::from_slice(body) {
            Ok(action) => action,
            Err(error) => return plain(StatusCode::BAD_REQUEST, &format!("{error}\n")),
        };
        // Time is nobody's resource, so it is the owner's.
        if matches!(action, Action::Speed { .. }) && !viewer.sees_all() {
            return plain(
                StatusCode::FORBIDDEN,
                "only the owner of the cluster may change its time\n",
            );
        }
        match self.source.act(&action, &viewer.client) {
            None => plain(StatusCode::FORBIDDEN, "this page is read only\n"),
            Some(act) => match act.await {
                Ok(done) => json_answer(StatusCode::OK, &json!({"done": done})),
                Err(why) => json_answer(StatusCode::CONFLICT, &json!({"error": why})),
            },
        }
    }

    /// Everything that happens, until the page goes away or is too slow.
    fn stream(self: &Arc<Dashboard>, viewer: &Arc<Viewer>) -> Response<Body> {
        let snapshot = self.open();
        let hello = json!({
            "viewer": viewer.name, "all": viewer.sees_all(), "acts": self.acts,
            "speed": self.source.speed(), "cluster": self.cluster, "now": self.clock.now().unix_micros() / 1000,
        });
        let begin = Streaming {
            dashboard: self.clone(),
            viewer: viewer.clone(),
            live: snapshot.live,
            begin: Some((hello.to_string(), snapshot.base, snapshot.history)),
            rights_at: tokio::time::Instant::now() + RIGHTS_AGAIN,
            speed: self.source.speed(),
        };
        let chunks = stream::unfold(begin, |mut streaming| async move {
            let text = streaming.next().await?;
            Some((
                Ok::<_, BoxError>(BodyFrame::data(Bytes::from(text))),
                streaming,
            ))
        });
        let mut response = Response::new(StreamBody::new(chunks).boxed_unsync());
        protect(&mut response, "text/event-stream");
        response
    }
}

/// One page's stream.
struct Streaming {
    dashboard: Arc<Dashboard>,
    viewer: Arc<Viewer>,
    live: Receiver<Sent>,
    begin: Option<(String, crate::feed::Frame, Vec<Arc<crate::feed::Frame>>)>,
    rights_at: tokio::time::Instant,
    /// As the page knows it.
    speed: Option<f64>,
}

impl Streaming {
    /// What is sent next; none when the page has to start over.
    async fn next(&mut self) -> Option<String> {
        if let Some((hello, base, history)) = self.begin.take() {
            let mut text = format!("retry: 500\n\nevent: hello\ndata: {hello}\n\n");
            text.push_str(&format!(
                "event: base\ndata: {}\n\n",
                self.viewer.render(&base).await
            ));
            for frame in &history {
                text.push_str(&format!("data: {}\n\n", self.viewer.render(frame).await));
            }
            text.push_str("event: live\ndata: {}\n\n");
            return Some(text);
        }
        loop {
            tokio::select! {
                sent = self.live.recv() => match sent {
                    Ok(sent) => {
                        // Whoever changed the speed of time changed it for all pages.
                        let speed = self.dashboard.source.speed();
                        let mut text = match speed == self.speed {
                            true => String::new(),
                            false => self.time(speed),
                        };
                        text.push_str("data: ");
                        match self.viewer.sees_all() {
                            // The same bytes for all, but for the few around them.
                            true => text.push_str(std::str::from_utf8(&sent.whole).unwrap_or_default()),
                            false => text.push_str(&self.viewer.render(&sent.frame).await),
                        }
                        text.push_str("\n\n");
                        return Some(text);
                    }
                    // Too slow: it comes again and gets a fresh snapshot.
                    Err(RecvError::Lagged(_) | RecvError::Closed) => return None,
                },
                () = tokio::time::sleep(HEARTBEAT) => {
                    return Some(self.time(self.dashboard.source.speed()));
                }
                () = tokio::time::sleep_until(self.rights_at), if !self.viewer.sees_all() => {
                    self.rights_at = tokio::time::Instant::now() + RIGHTS_AGAIN;
                    if !self.viewer.is_unchanged().await {
                        return None;
                    }
                }
            }
        }
    }
}

impl Streaming {
    /// What time it is, and how fast it passes.
    fn time(&mut self, speed: Option<f64>) -> String {
        self.speed = speed;
        let now = self.dashboard.clock.now().unix_micros() / 1000;
        format!(
            "event: now\ndata: {}\n\n",
            json!({"now": now, "speed": speed})
        )
    }
}

async fn events(client: &Client, object: &Named) -> Value {
    const EVENTS: api::ResourceType = api::ResourceType::namespaced("", "v1", "events", "Event");
    // Events of what has no namespace are in this one.
    let namespace = if object.namespace.is_empty() {
        "default"
    } else {
        &object.namespace
    };
    let options = ListOptions {
        field_selector: Some(format!(
            "involvedObject.name={},involvedObject.kind={}",
            object.name, object.kind
        )),
        ..ListOptions::default()
    };
    let page = match client.list(&EVENTS, namespace, &options).await {
        Ok(page) => page,
        Err(error) => return json!({"error": client::describe(&error)}),
    };
    let mut events: Vec<Value> = page
        .items
        .iter()
        .filter_map(|item| serde_json::from_slice::<Value>(item).ok())
        .map(|event| {
            let times = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"];
            let at = times.iter().find_map(|time| event.pointer(time).filter(|value| value.is_string()));
            json!({"at": at, "type": event["type"], "reason": event["reason"], "message": event["message"],
                "count": event.pointer("/series/count").unwrap_or(&event["count"])})
        })
        .collect();
    events.sort_by_key(|event| {
        std::cmp::Reverse(event["at"].as_str().unwrap_or_default().to_owned())
    });
    events.truncate(EVENTS_MAX);
    Value::Array(events)
}

/// The parameters of a request.
pub type Query = std::collections::BTreeMap<String, String>;

/// Reads `a=b&c=d`, as browsers write it.
pub fn query(text: &str) -> Query {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (unescaped(name), unescaped(value)))
        .collect()
}

fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let two = || -> Option<u8> {
            let mut two = rest.clone();
            let pair = [two.next()?, two.next()?];
            u8::from_str_radix(std::str::from_utf8(&pair).ok()?, 16).ok()
        };
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => match two() {
                Some(byte) => {
                    bytes.push(byte);
                    rest.nth(1);
                }
                None => bytes.push(b'%'),
            },
            byte => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn named(query: &Query) -> Named {
    let text = |name: &str| query.get(name).cloned().unwrap_or_default();
    Named {
        kind: text("kind"),
        namespace: text("namespace"),
        name: text("name"),
    }
}

pub(crate) fn file(path: &str) -> Option<Response<Body>> {
    let asset = ASSETS
        .iter()
        .find(|asset| path.strip_prefix("assets/") == Some(asset.path))?;
    let kind = if asset.path.ends_with(".css") {
        "text/css"
    } else {
        "text/javascript"
    };
    Some(whole(
        StatusCode::OK,
        &format!("{kind}; charset=utf-8"),
        asset.body,
    ))
}

fn page() -> Response<Body> {
    whole(StatusCode::OK, "text/html; charset=utf-8", &PAGE.html)
}

/// Answers the script that showed a token: the cookie is all it wants.
pub(crate) fn entered(cookie: &str) -> Response<Body> {
    let mut response = plain(StatusCode::OK, "");
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// Lets a browser in. It goes on to the page by itself, not by a redirect: a link that another site showed must not
/// keep the new cookie from being sent.
fn enter(cookie: &str) -> Response<Body> {
    let html = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" \
                content=\"0;url=./\"><link rel=\"icon\" href=\"data:,\"><title>Steersman</title></html>";
    let mut response = whole(StatusCode::OK, "text/html; charset=utf-8", html);
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

fn refuse(path: &str, refused: Refused) -> Response<Body> {
    match path {
        "" => sign_in(StatusCode::UNAUTHORIZED, &sentence(refused)),
        _ => plain(StatusCode::UNAUTHORIZED, &format!("{refused}\n")),
    }
}

fn sentence(refused: Refused) -> String {
    let text = refused.to_string();
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}

fn sign_in(status: StatusCode, why: &str) -> Response<Body> {
    whole(status, "text/html; charset=utf-8", &assets::sign_in(why))
}

/// The same form, whose token goes into a header: there it is reviewed before anything else of the request is read.
pub(crate) fn sign_in_by_script(status: StatusCode, why: &str) -> Response<Body> {
    let html = assets::sign_in_by_script(why);
    whole(status, "text/html; charset=utf-8", &html)
}

fn found(answer: Result<Value, String>) -> Response<Body> {
    match answer {
        Ok(value) => json_answer(StatusCode::OK, &value),
        Err(why) => json_answer(StatusCode::NOT_FOUND, &json!({"error": why})),
    }
}

fn json_answer(status: StatusCode, value: &Value) -> Response<Body> {
    whole(status, "application/json", &value.to_string())
}

pub(crate) fn plain(status: StatusCode, text: &str) -> Response<Body> {
    whole(status, "text/plain; charset=utf-8", text)
}

fn whole(status: StatusCode, kind: &str, text: &str) -> Response<Body> {
    let body = Full::new(Bytes::copy_from_slice(text.as_bytes()));
    let mut response = Response::new(body.map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = status;
    protect(&mut response, kind);
    response
}

/// What every answer says to the browser: whose it is, and that it is for nobody else.
fn protect(response: &mut Response<Body>, kind: &str) {
    let headers = response.headers_mut();
    let set = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, &PAGE.policy),
        (http::header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // With none at all, browsers would not say where a form comes from either.
        (http::header::REFERRER_POLICY, "same-origin"),
    ];
    for (name, value) in set {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_read_as_browsers_write_them() {
        let read = query("token=a%2Bb%3D&name=x+y&odd=%zz&%41=1");
        let pairs: Vec<(&str, &str)> = read
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(
            pairs,
            [
                ("A", "1"),
                ("name", "x y"),
                ("odd", "%zz"),
                ("token", "a+b=")
            ]
        );
    }
}
