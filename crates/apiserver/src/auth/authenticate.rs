//! From a request's credentials to a user.

use super::{Identity, bootstrap_tokens};
use crate::server::Shared;
use crate::settings::Anonymous;
use crate::status::Status;
use http::HeaderMap;
use std::sync::Arc;

/// Who a caller is before its token is looked at: by its certificate, or by the word of a front proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Presented {
    Nothing,
    Identity(Arc<Identity>),
    /// A certificate that nobody vouches for: without a good token its caller is refused, not anonymous.
    Invalid,
}

impl Presented {
    pub(crate) fn is_identity(&self) -> bool {
        matches!(self, Presented::Identity(_))
    }
}

/// A client certificate comes first, then a bearer token; without either the caller is anonymous. A token that
/// is not accepted is refused, not ignored.
pub(crate) fn authenticate(
    shared: &Shared,
    presented: Presented,
    headers: &HeaderMap,
) -> Result<Arc<Identity>, Status> {
    if let Presented::Identity(identity) = presented {
        return Ok(identity);
    }
    let Some(token) = bearer(headers)? else {
        return match shared.settings.anonymous {
            _ if presented == Presented::Invalid => Err(Status::unauthorized()),
            Anonymous::Refused => Err(Status::unauthorized()),
            Anonymous::HealthOnly | Anonymous::Allowed => Ok(Arc::new(Identity::anonymous())),
        };
    };
    verify(shared, token, &[])
        .map(|(identity, _)| Arc::new(identity))
        .map_err(|_| Status::unauthorized())
}

/// The user of a token of any kind, and for which of the audiences it is good; or why there is none.
pub(crate) fn verify(
    shared: &Shared,
    token: &str,
    audiences: &[String],
) -> Result<(Identity, Vec<String>), String> {
    let mut known = shared.static_tokens.iter();
    let known = known.find(|known| same(&known.token, token));
    let known = known.map(|known| known.identity.clone());
    let is_bootstrap = shared.settings.bootstrap_tokens;
    let known = known.or_else(|| is_bootstrap.then(|| bootstrap_tokens::verify(shared, token))?);
    let Some(identity) = known else {
        return shared.tokens.verify(shared, token, audiences);
    };
    // UPSTREAM: a token that names no audience is good for this server alone.
    let own = shared.tokens.audiences();
    let mut good_for = own.to_vec();
    good_for.retain(|own| audiences.is_empty() || audiences.contains(own));
    match good_for.is_empty() {
        true => Err("the token is for this server alone".into()),
        false => Ok((identity, good_for)),
    }
}

/// The token of a request, if it has one. What cannot be read is a credential that nobody accepts, not a missing one.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Status> {
    let Some(value) = headers.get(http::header::AUTHORIZATION) else {
        return Ok(None);
    };
    let value = value.to_str().map_err(|_| Status::unauthorized())?;
    let token = value
        .split_once(' ')
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim());
    Ok(token.filter(|token| !token.is_empty()))
}

/// Compares in a time that depends on the lengths only, so that a token cannot be guessed byte by byte.
pub(super) fn same(left: &str, right: &str) -> bool {
    let differing = left
        .bytes()
        .zip(right.bytes())
        .fold(0, |sum, (a, b)| sum | (a ^ b));
    left.len() == right.len() && differing == 0
}
