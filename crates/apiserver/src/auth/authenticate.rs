//! From a request's credentials to a user.

use super::Identity;
use crate::server::Shared;
use crate::status::Status;
use http::HeaderMap;
use std::sync::Arc;

/// A client certificate comes first, then a bearer token; without either the caller is anonymous. A token that
/// is not accepted is refused, not ignored.
pub(crate) fn authenticate(
    shared: &Shared,
    certificate: Option<Arc<Identity>>,
    headers: &HeaderMap,
) -> Result<Arc<Identity>, Status> {
    if let Some(identity) = certificate {
        return Ok(identity);
    }
    let Some(token) = bearer(headers) else {
        return Ok(Arc::new(Identity::anonymous()));
    };
    if let Some(known) = shared
        .static_tokens
        .iter()
        .find(|known| same(&known.token, token))
    {
        return Ok(Arc::new(known.identity.clone()));
    }
    let verified = shared.tokens.verify(shared, token, &[]);
    verified
        .map(|(identity, _)| Arc::new(identity))
        .map_err(|_| Status::unauthorized())
}

pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(http::header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then_some(token.trim())
        .filter(|token| !token.is_empty())
}

/// Compares in a time that depends on the lengths only, so that a token cannot be guessed byte by byte.
fn same(left: &str, right: &str) -> bool {
    let differing = left
        .bytes()
        .zip(right.bytes())
        .fold(0, |sum, (a, b)| sum | (a ^ b));
    left.len() == right.len() && differing == 0
}
