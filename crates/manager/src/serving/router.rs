//! Which handler answers which path.

use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode, header};

use super::mount::Mounted;

/// A request that was let in.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: Method,
    pub path: String,
    /// Decoded query parameters, in order.
    pub query: Vec<(String, String)>,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Request {
    /// A GET without headers, as tests make.
    pub fn get(path_and_query: &str) -> Request {
        let (path, query) = path_and_query
            .split_once('?')
            .unwrap_or((path_and_query, ""));
        Request {
            method: Method::GET,
            path: path.to_owned(),
            query: parse_query(query),
            headers: HeaderMap::new(),
            body: Bytes::new(),
        }
    }

    pub fn has(&self, parameter: &str) -> bool {
        self.query.iter().any(|(name, _)| name == parameter)
    }

    pub fn value(&self, parameter: &str) -> Option<&str> {
        self.query
            .iter()
            .find(|(name, _)| name == parameter)
            .map(|(_, value)| value.as_str())
    }
}

pub type Reply = Response<Bytes>;

type Handler = Arc<dyn Fn(Request) -> Pin<Box<dyn Future<Output = Reply> + Send>> + Send + Sync>;

/// Paths and their handlers. Handlers can be added while serving: controllers bring theirs when they start.
#[derive(Default)]
pub struct Router {
    routes: RwLock<Routes>,
}

#[derive(Default)]
struct Routes {
    exact: BTreeMap<String, Handler>,
    prefixes: BTreeMap<String, Handler>,
    mounts: BTreeMap<String, Arc<dyn Mounted>>,
}

impl Router {
    /// Answers exactly this path. A later handler for the same path takes the place of the former.
    pub fn handle(&self, path: &str, handler: impl Fn(Request) -> Reply + Send + Sync + 'static) {
        self.handle_async(path, move |request| std::future::ready(handler(request)));
    }

    pub fn handle_async<F>(
        &self,
        path: &str,
        handler: impl Fn(Request) -> F + Send + Sync + 'static,
    ) where
        F: Future<Output = Reply> + Send + 'static,
    {
        let handler: Handler = Arc::new(move |request| Box::pin(handler(request)));
        let mut routes = self.routes.write();
        match path.ends_with('/') {
            true => routes.prefixes.insert(path.to_owned(), handler),
            false => routes.exact.insert(path.to_owned(), handler),
        };
    }

    /// Leaves everything below this path, which ends in a slash, to somebody else.
    pub fn mount(&self, prefix: &str, mounted: Arc<dyn Mounted>) {
        let mut routes = self.routes.write();
        routes.mounts.insert(prefix.to_owned(), mounted);
    }

    /// Who answers for this path, if it was left to somebody.
    pub(super) fn mounted(&self, path: &str) -> Option<Arc<dyn Mounted>> {
        let routes = self.routes.read();
        let mut mounts = routes.mounts.iter();
        let found = mounts.find(|(prefix, _)| path.starts_with(*prefix))?;
        Some(Arc::clone(found.1))
    }

    /// All paths, for `/statusz`; those that end in a slash stand for everything below them.
    pub fn paths(&self) -> Vec<String> {
        let routes = self.routes.read();
        routes
            .exact
            .keys()
            .chain(routes.prefixes.keys())
            .chain(routes.mounts.keys())
            .cloned()
            .collect()
    }

    /// The longest prefix counts where no exact path does.
    pub async fn answer(&self, request: Request) -> Reply {
        let handler = {
            let routes = self.routes.read();
            let path = request.path.as_str();
            let prefix = || {
                routes
                    .prefixes
                    .iter()
                    .rev()
                    .find(|(prefix, _)| path.starts_with(*prefix))
            };
            routes
                .exact
                .get(path)
                .or_else(|| prefix().map(|(_, handler)| handler))
                .cloned()
        };
        match handler {
            Some(handler) => handler(request).await,
            None => text(StatusCode::NOT_FOUND, "404 page not found\n"),
        }
    }
}

/// A plain text reply.
pub fn text(code: StatusCode, body: impl Into<Bytes>) -> Reply {
    reply(code, "text/plain; charset=utf-8", body)
}

pub fn json(code: StatusCode, body: impl Into<Bytes>) -> Reply {
    reply(code, "application/json", body)
}

pub fn reply(code: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(body.into());
    *reply.status_mut() = code;
    let headers = reply.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static(content_type),
    );
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        header::HeaderValue::from_static("nosniff"),
    );
    reply
}

/// `a=b&c` with percent and plus decoded.
pub(super) fn parse_query(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        })
        .collect()
}

fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        let byte = hex
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (byte, bytes[at]) {
            (Some(byte), _) => {
                decoded.push(byte);
                at += 3;
                continue;
            }
            (None, b'+') => decoded.push(b' '),
            (None, other) => decoded.push(other),
        }
        at += 1;
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let request = Request::get("/healthz?verbose&exclude=a%2Fb&exclude=c+d&x=%zz%");
        assert!(request.has("verbose") && !request.has("excl"));
        let values: Vec<_> = request
            .query
            .iter()
            .map(|(_, value)| value.as_str())
            .collect();
        assert_eq!(values, ["", "a/b", "c d", "%zz%"]);
    }

    #[tokio::test]
    async fn exact_paths_win_and_long_prefixes_beat_short_ones() {
        let router = Router::default();
        for path in ["/debug/", "/debug/controllers/", "/debug/x"] {
            router.handle(path, move |_| text(StatusCode::OK, path));
        }
        for (path, expected) in [
            ("/debug/x", "/debug/x"),
            ("/debug/y", "/debug/"),
            ("/debug/controllers/job/a", "/debug/controllers/"),
            ("/debug", "404 page not found\n"),
        ] {
            assert_eq!(
                router.answer(Request::get(path)).await.body(),
                expected,
                "{path}"
            );
        }
    }
}
