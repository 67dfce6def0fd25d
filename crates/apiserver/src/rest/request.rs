//! What a request asks for: upstream's RequestInfo, from the method, path and query.

use super::query::Query;
use http::Method;

/// `apis/apps/v1/namespaces/default/deployments/web/status`
const USUAL_PARTS: usize = 8;

/// A request, taken apart. All text is decoded.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestInfo {
    pub(crate) verb: &'static str,
    /// Empty for resources.
    pub(crate) path: String,
    /// False for `/healthz`, discovery and the like; then only `verb` and `path` are set.
    pub(crate) is_resource: bool,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    /// What follows the subresource, as in `pods/web/proxy/metrics`.
    pub(crate) rest: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) query: Query,
}

impl RequestInfo {
    pub(crate) fn parse(method: &Method, uri: &http::Uri) -> RequestInfo {
        let query = Query::parse(uri.query().unwrap_or_default());
        // Escapes stand for what they are, a slash among them.
        let path = super::query::percent_decode(uri.path());
        let mut info = RequestInfo {
            verb: plain_verb(method),
            query,
            ..RequestInfo::default()
        };
        // Two slashes in a row are a part without a name, of which there is none.
        let mut parts = Vec::with_capacity(USUAL_PARTS);
        parts.extend(path.trim_matches('/').split('/'));
        let (group, version, parts) = match parts.as_slice() {
            ["api", version, parts @ ..] if !parts.is_empty() => ("", *version, parts),
            ["apis", group, version, parts @ ..] if !parts.is_empty() => (*group, *version, parts),
            _ => {
                info.path = path.into_owned();
                return info;
            }
        };
        // UPSTREAM: an old way to ask for a watch, which some clients never unlearned.
        let (watches, parts) = match parts {
            ["watch", parts @ ..] if !parts.is_empty() => (true, parts),
            _ => (false, parts),
        };
        info.is_resource = true;
        info.group = group.to_owned();
        info.version = version.to_owned();
        info.place(parts);
        info.verb = resource_verb(method, !info.name.is_empty(), &info.query);
        if watches && info.verb == "list" {
            info.verb = "watch";
        }
        info
    }

    /// Whether the client says in words of Go how long it waits. No request takes as long as anybody would ask for.
    pub(crate) fn check_timeout(&self) -> Result<(), String> {
        let text = self.query.get("timeout");
        let is_long = self.verb == "watch"
            || matches!(
                &*self.subresource,
                "attach" | "exec" | "proxy" | "log" | "portforward"
            );
        if text.is_empty() || is_long || api::GoDuration::parse(text).is_ok() {
            return Ok(());
        }
        let quoted = api::syntax::go_quote(text);
        Err(format!(
            "invalid timeout specified in the request URL - time: invalid duration {quoted}"
        ))
    }

    /// Fills namespace, resource, name and subresource from the part after the version.
    fn place(&mut self, parts: &[&str]) {
        let parts = match parts {
            // A namespace is an object too: its own subresources are not resources within it.
            ["namespaces", namespace, "status" | "finalize"] => {
                self.namespace = (*namespace).to_owned();
                parts
            }
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => {
                self.namespace = (*namespace).to_owned();
                rest
            }
            ["namespaces", namespace] => {
                self.namespace = (*namespace).to_owned();
                parts
            }
            _ => parts,
        };
        let text = |index: usize| {
            parts
                .get(index)
                .map(|part| (*part).to_owned())
                .unwrap_or_default()
        };
        self.resource = text(0);
        self.name = text(1);
        self.subresource = text(2);
        self.rest = parts
            .get(3..)
            .map(|rest| rest.join("/"))
            .unwrap_or_default();
    }
}

fn plain_verb(method: &Method) -> &'static str {
    match *method {
        Method::GET => "get",
        Method::HEAD => "head",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        Method::OPTIONS => "options",
        _ => "",
    }
}

fn resource_verb(method: &Method, named: bool, query: &Query) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if named => "delete",
        Method::DELETE => "deletecollection",
        // UPSTREAM: `watch` on the path of one object is ignored.
        Method::GET | Method::HEAD if named => "get",
        Method::GET | Method::HEAD if query.flag("watch") => "watch",
        Method::GET | Method::HEAD => "list",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: Method, uri: &str, expected: &str) {
        let info = RequestInfo::parse(&method, &uri.parse().unwrap());
        let actual = [
            info.verb,
            &info.group,
            &info.version,
            &info.namespace,
            &info.resource,
            &info.name,
            &info.subresource,
        ]
        .join("|");
        assert_eq!(actual, expected, "{uri}");
    }

    #[test]
    fn paths_become_requests() {
        check(Method::GET, "/api/v1/pods", "list||v1||pods||");
        check(Method::GET, "/api/v1/pods?watch=1", "watch||v1||pods||");
        check(Method::GET, "/api/v1/pods/", "list||v1||pods||");
        // Upstream finds nothing there, and neither do rules about pods.
        check(Method::GET, "/api/v1//pods", "get||v1|||pods|");
        check(
            Method::GET,
            "/api/v1/namespaces/a/pods/b",
            "get||v1|a|pods|b|",
        );
        check(
            Method::PUT,
            "/api/v1/namespaces/a/finalize",
            "update||v1|a|namespaces|a|finalize",
        );
        check(
            Method::GET,
            "/api/v1/namespaces/a",
            "get||v1|a|namespaces|a|",
        );
        check(
            Method::PATCH,
            "/apis/apps/v1/namespaces/a/deployments/b/scale",
            "patch|apps|v1|a|deployments|b|scale",
        );
        check(
            Method::DELETE,
            "/apis/apps/v1/namespaces/a/deployments",
            "deletecollection|apps|v1|a|deployments||",
        );
        check(Method::GET, "/healthz", "get||||||");
        check(Method::GET, "/apis/apps/v1", "get||||||");
        check(Method::GET, "/api/v1/nodes/a%3Ab", "get||v1||nodes|a:b|");
        check(
            Method::GET,
            "/api/v1/nodes/a%2Fstatus",
            "get||v1||nodes|a|status",
        );
        check(Method::GET, "/%61pi/v1/nodes", "list||v1||nodes||");
    }
}
