//! Subresources: those that show the object itself, and those with kinds of their own.

mod binding;
mod eviction;
mod scale;
mod token;

use super::Context;
use crate::Body;
use crate::admission::Operation;
use crate::kinds::Subresource;
use crate::status::Status;
use http::Response;
use serde_json::json;

impl Context {
    pub(super) async fn subresource(
        &mut self,
        subresource: Subresource,
    ) -> Result<Response<Body>, Status> {
        if self.info.name.is_empty()
            || !self.info.rest.is_empty() && subresource != Subresource::Proxy
        {
            return Err(Status::no_such_path());
        }
        match (subresource, self.info.verb) {
            (s, "get") if Context::is_object_subresource(s) => self.get().await,
            (s, "update") if Context::is_object_subresource(s) => self.update().await,
            (s, "patch") if Context::is_object_subresource(s) => self.patch().await,
            (Subresource::Scale, "get") => self.get_scale().await,
            (Subresource::Scale, "update") => self.update_scale().await,
            (Subresource::Scale, "patch") => self.patch_scale().await,
            (Subresource::Binding, "create") => self.bind().await,
            (Subresource::Eviction, "create") => self.evict().await,
            (Subresource::Token, "create") => self.request_token().await,
            (
                Subresource::Exec
                | Subresource::Attach
                | Subresource::PortForward
                | Subresource::Log
                | Subresource::Proxy,
                _,
            ) => {
                self.find()?;
                self.admit_connection(subresource)?;
                let what = subresource.name();
                let why = format!(
                    "{what} is not implemented: the nodes of this cluster are simulated and run no containers"
                );
                Err(Status::new(501, "NotImplemented", why))
            }
            _ => Err(self.unsupported()),
        }
    }

    /// Policies see what would be connected to.
    fn admit_connection(&mut self, subresource: Subresource) -> Result<(), Status> {
        let kind = match (subresource, &*self.kind.kind) {
            (Subresource::Exec, _) => "PodExecOptions",
            (Subresource::Attach, _) => "PodAttachOptions",
            (Subresource::PortForward, _) => "PodPortForwardOptions",
            (Subresource::Proxy, "Pod") => "PodProxyOptions",
            (Subresource::Proxy, "Service") => "ServiceProxyOptions",
            (Subresource::Proxy, _) => "NodeProxyOptions",
            // Logs are read.
            _ => return Ok(()),
        };
        let query = &self.info.query;
        let mut options = json!({"kind": kind, "apiVersion": "v1"});
        for flag in ["stdin", "stdout", "stderr", "tty"] {
            if query.flag(flag) {
                options[flag] = json!(true);
            }
        }
        for text in ["container", "path"] {
            if query.has(text) {
                options[text] = json!(query.get(text));
            }
        }
        let command: Vec<&str> = query.all("command").collect();
        if !command.is_empty() {
            options["command"] = json!(command);
        }
        let ports: Vec<i64> = query
            .all("ports")
            .filter_map(|port| port.parse().ok())
            .collect();
        if !ports.is_empty() {
            options["ports"] = json!(ports);
        }
        let of = ("v1", kind);
        self.admit_part(Operation::Connect, of, &mut options, None, false)
    }
}
