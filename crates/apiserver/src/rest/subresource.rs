//! Subresources: those that show the object itself, and those with kinds of their own.

mod binding;
mod containers;
mod eviction;
mod scale;
mod token;

use super::Context;
use crate::Body;
use crate::kinds::Subresource;
use crate::status::Status;
use http::Response;

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
            ) => self.container_subresource(subresource).await,
            _ => Err(self.unsupported()),
        }
    }
}
