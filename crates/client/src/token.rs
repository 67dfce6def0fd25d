//! A bearer token that its owner replaces while clients use it.

use parking_lot::RwLock;
use std::sync::Arc;

use http::HeaderValue;

use crate::Error;

/// Identifies a client on its own, whatever the transport would say. Clones share the token: what replaces it in one
/// replaces it in all, so a service account's token is renewed without touching its clients.
#[derive(Clone)]
pub struct Token(Arc<RwLock<HeaderValue>>);

impl Token {
    pub fn new(token: &str) -> Result<Token, Error> {
        Ok(Token(Arc::new(RwLock::new(header(token)?))))
    }

    /// Requests from now on carry this one.
    pub fn replace(&self, token: &str) -> Result<(), Error> {
        *self.0.write() = header(token)?;
        Ok(())
    }

    pub(crate) fn authorization(&self) -> HeaderValue {
        self.0.read().clone()
    }
}

fn header(token: &str) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.trim())).map_err(|_| {
        Error::InvalidRequest("the token contains characters that no header can carry".to_owned())
    })?;
    value.set_sensitive(true);
    Ok(value)
}
