//! Which signatures `cluster-info` should have. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::decision::{Line, counted};
use api::json::write_go_string;
use api::kinds::{ConfigMap, Secret};
use api::{Istr, MicroTime};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::hmac;

use crate::bootstrap_token::{Token, Unusable};

/// The entry that is signed, and how the names of signatures begin.
const CONTENT: &str = "kubeconfig";
pub(super) const PREFIX: &str = "jws-kubeconfig-";

/// What the map should hold, if it does not.
pub(crate) struct Plan {
    pub data: Option<BTreeMap<String, Istr>>,
    pub reasons: Vec<Reason>,
    /// When the first of the tokens expires.
    pub next: Option<MicroTime>,
}

pub(crate) enum Reason {
    /// There is nothing to sign.
    NoKubeconfig,
    Signs {
        signed: usize,
        removed: usize,
    },
    Unchanged {
        tokens: usize,
    },
    /// A secret that is no good as a token, by its name.
    Ignored(Arc<str>, Unusable),
}

/// `tokens` are secrets of that type, sorted by name.
pub(crate) fn plan(held: &ConfigMap, tokens: &[Arc<Secret>], now: MicroTime) -> Plan {
    let mut plan = Plan {
        data: None,
        reasons: Vec::new(),
        next: None,
    };
    let Some(content) = held.data.get(CONTENT) else {
        plan.reasons.push(Reason::NoKubeconfig);
        return plan;
    };
    let mut data = held.data.clone();
    data.retain(|key, _| !key.starts_with(PREFIX));
    let others = data.len();
    for secret in tokens {
        match Token::for_signing(secret, now) {
            Ok(token) => {
                let signature = detached_signature(content, &token);
                data.insert(format!("{PREFIX}{}", token.id), Istr::from(signature));
                plan.next = plan.next.into_iter().chain(token.expires_at).min();
            }
            Err(unusable) => {
                let name = secret.metadata.name.clone();
                plan.reasons.push(Reason::Ignored(name, unusable));
            }
        }
    }
    let is_new = |(key, value): &(&String, &Istr)| held.data.get(*key) != Some(*value);
    let signed = data.iter().filter(is_new).count();
    let removed = held.data.keys().filter(|key| !data.contains_key(*key));
    let removed = removed.count();
    if signed + removed > 0 {
        plan.data = Some(data);
        plan.reasons.insert(0, Reason::Signs { signed, removed });
    } else {
        let tokens = data.len() - others;
        plan.reasons.insert(0, Reason::Unchanged { tokens });
    }
    plan
}

/// A compact JWS (RFC 7515, appendix F) whose middle, the content, is left out.
pub(super) fn detached_signature(content: &str, token: &Token) -> String {
    let mut header = String::from(r#"{"alg":"HS256","kid":"#);
    write_go_string(&mut header, &token.id);
    header.push('}');
    let encode = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
    let header = encode(header.as_bytes());
    let message = format!("{header}.{}", encode(content.as_bytes()));
    let key = hmac::Key::new(hmac::HMAC_SHA256, &token.secret);
    let signature = hmac::sign(&key, message.as_bytes());
    format!("{header}..{}", encode(signature.as_ref()))
}

impl From<&Reason> for Line {
    fn from(reason: &Reason) -> Line {
        match reason {
            Reason::NoKubeconfig => Line::waits("NoKubeconfig", "signs nothing")
                .because("there is no kubeconfig in the map"),
            Reason::Signs { signed, removed } => {
                let signed = counted(*signed, "signature");
                let removed = counted(*removed, "signature");
                let what = format!("writes {signed} and removes {removed}");
                Line::acts("Signs", what).because("tokens or kubeconfig have changed")
            }
            Reason::Unchanged { tokens } => {
                let what = format!("is signed by {}", counted(*tokens, "token"));
                Line::states("Signed", what)
            }
            Reason::Ignored(name, unusable) => {
                Line::states("TokenIgnored", format!("secret {name} does not sign"))
                    .because(unusable.why())
            }
        }
    }
}
