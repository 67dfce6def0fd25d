//! What others verify service account tokens by: the issuer's discovery document and its public keys, as OpenID
//! Connect has them. Mirrors `pkg/serviceaccount/openidmetadata.go`.

use crate::Body;
use crate::discovery::nothing_here;
use crate::rest::response;
use crate::server::Shared;
use http::header::CACHE_CONTROL;
use http::{HeaderValue, Response, Uri};
use keys::{Parameters, PublicKey};
use serde::Serialize;
use std::collections::BTreeSet;

pub(crate) const CONFIGURATION: &str = "/.well-known/openid-configuration";
pub(crate) const KEYS: &str = "/openid/v1/jwks";

#[derive(Serialize)]
struct Configuration<'a> {
    issuer: &'a str,
    jwks_uri: &'a str,
    response_types_supported: [&'static str; 1],
    subject_types_supported: [&'static str; 1],
    id_token_signing_alg_values_supported: BTreeSet<&'static str>,
}

#[derive(Serialize)]
struct KeySet<'a> {
    keys: Vec<WebKey<'a>>,
}

/// In the order of upstream's library.
#[derive(Serialize)]
struct WebKey<'a> {
    r#use: &'static str,
    kty: &'static str,
    kid: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    crv: Option<&'static str>,
    alg: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    x: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    y: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    e: Option<String>,
}

impl<'a> WebKey<'a> {
    fn of(key: &'a PublicKey) -> WebKey<'a> {
        let (kty, crv, [x, y, n, e]) = match key.parameters() {
            Parameters::Rsa { modulus, exponent } => {
                ("RSA", None, [None, None, Some(modulus), Some(exponent)])
            }
            Parameters::Ec { curve, x, y } => ("EC", Some(curve), [Some(x), Some(y), None, None]),
        };
        WebKey {
            r#use: "sig",
            kty,
            kid: key.id(),
            crv,
            alg: key.algorithm(),
            x,
            y,
            n,
            e,
        }
    }
}

/// UPSTREAM: an issuer that no discovery could begin at has no documents.
pub(crate) fn is_served(shared: &Shared) -> bool {
    let issuer = &shared.tokens.issuer;
    let is_https = issuer
        .parse::<Uri>()
        .is_ok_and(|uri| uri.scheme_str() == Some("https"));
    is_https && !issuer.contains(['?', '#']) && keys_url(shared).is_some()
}

pub(crate) fn configuration(shared: &Shared) -> Response<Body> {
    let Some(url) = keys_url(shared).filter(|_| is_served(shared)) else {
        return nothing_here();
    };
    let keys = shared.tokens.published_keys();
    let document = Configuration {
        issuer: &shared.tokens.issuer,
        jwks_uri: &url,
        response_types_supported: ["id_token"],
        subject_types_supported: ["public"],
        id_token_signing_alg_values_supported: keys.map(PublicKey::algorithm).collect(),
    };
    cacheable("application/json", &document)
}

pub(crate) fn keys(shared: &Shared) -> Response<Body> {
    if !is_served(shared) {
        return nothing_here();
    }
    let keys = shared.tokens.published_keys().map(WebKey::of).collect();
    cacheable("application/jwk-set+json", &KeySet { keys })
}

fn keys_url(shared: &Shared) -> Option<String> {
    let given = shared.settings.service_account_tokens.keys_url.clone();
    let own = |(address, port)| {
        let address = std::net::SocketAddr::new(address, port);
        format!("https://{address}{KEYS}")
    };
    given.or_else(|| shared.advertise.map(own))
}

fn cacheable(content_type: &'static str, document: &impl Serialize) -> Response<Body> {
    let body = serde_json::to_vec(document).unwrap_or_default();
    let mut response = response::typed(200, content_type, body);
    // UPSTREAM: relying parties may keep it for an hour, unlike everything else that is served.
    let cache_control = HeaderValue::from_static("public, max-age=3600");
    response.headers_mut().insert(CACHE_CONTROL, cache_control);
    response
}
