//! On a port that authenticates by itself, such as the manager's: a cookie stands for the token that somebody showed.
//!
//! Browsers send cookies and no bearer tokens. Who shows a token once gets a cookie, and from then on the port reviews
//! that token as if it came with every request: when it expires or is revoked, the session is over. Nobody owns this page, so
//! everybody sees what their own rights at the API server let them see.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use client::{Client, Token};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use parking_lot::Mutex;

use crate::Dashboard;
use crate::access::{cookie, random};
use crate::answer::{Body, entered, file, plain, query, sign_in_by_script};
use crate::viewer::Viewer;

/// Where the page is on such a port.
pub const PATH: &str = "/dashboard/";

/// Who has shown a token.
#[derive(Default)]
pub struct Sessions(Mutex<VecDeque<Session>>);

struct Session {
    cookie: String,
    authorization: HeaderValue,
    viewer: Arc<Viewer>,
}

/// The cookie's name; the port of a manager is one of many on a host, and browsers share cookies between ports.
const COOKIE: &str = "steersman-manager";

/// Browsers that are open at once; the oldest has to show its token again.
const SESSIONS_MAX: usize = 128;

impl Sessions {
    /// The header that a request's cookie stands for.
    pub fn authorization(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        self.find(headers, |session| session.authorization.clone())
    }

    fn find<T>(&self, headers: &HeaderMap, read: impl Fn(&Session) -> T) -> Option<T> {
        let shown = cookie(headers, COOKIE)?;
        let sessions = self.0.lock();
        let found = sessions.iter().find(|session| session.cookie == shown);
        found.map(read)
    }

    fn open(&self, authorization: HeaderValue, viewer: Arc<Viewer>) -> String {
        let cookie = random();
        let mut sessions = self.0.lock();
        if sessions.len() >= SESSIONS_MAX {
            sessions.pop_front();
        }
        sessions.push_back(Session {
            cookie: cookie.clone(),
            authorization,
            viewer,
        });
        format!("{COOKIE}={cookie}; Path={PATH}; Secure; HttpOnly; SameSite=Strict")
    }
}

impl Dashboard {
    /// Answers somebody whom the port has let in as `user`. `bare` has no identity of its own: a certificate would count for
    /// more than the viewer's token.
    pub async fn answer_on_port(
        self: &Arc<Dashboard>,
        sessions: &Sessions,
        bare: &Client,
        user: &str,
        request: Request<Bytes>,
    ) -> Response<Body> {
        let path = request.uri().path();
        let path = path.strip_prefix(PATH).unwrap_or(path).to_owned();
        if request.method() != Method::GET {
            return plain(StatusCode::METHOD_NOT_ALLOWED, "this page is read only\n");
        }
        let known = sessions.find(request.headers(), |session| session.viewer.clone());
        let viewer = match (known, bearer(request.headers())) {
            (Some(viewer), _) => viewer,
            (None, Some(token)) => Viewer::named(user, bare.clone().with_token(token)),
            (None, None) => {
                let why = format!(
                    "You are {user}, but what this page shows is read from the API server with a token of yours."
                );
                return sign_in_by_script(StatusCode::UNAUTHORIZED, &why);
            }
        };
        if path == "session" {
            let authorization = request.headers().get(AUTHORIZATION).cloned();
            let Some(mut authorization) = authorization else {
                return plain(StatusCode::UNAUTHORIZED, "a session needs a token\n");
            };
            authorization.set_sensitive(true);
            return entered(&sessions.open(authorization, viewer));
        }
        let query = query(request.uri().query().unwrap_or_default());
        self.answer_to(&viewer, &path, &query, &request).await
    }
}

/// What somebody gets whom the port has not let in: the form, and what the form needs. The files are the same for everybody.
pub fn turn_away(path: &str, status: StatusCode, why: &str) -> Option<Response<Body>> {
    match path.strip_prefix(PATH)? {
        "" => Some(sign_in_by_script(status, why)),
        path => file(path),
    }
}

fn bearer(headers: &HeaderMap) -> Option<Token> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let is_bearer = scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty();
    is_bearer.then(|| Token::new(token).ok()).flatten()
}
