//! Service account tokens: JSON web tokens that this server signs and believes, by keys of any kind that upstream takes.

use super::Identity;
use crate::kinds;
use crate::server::Shared;
use crate::settings::ServiceAccountTokens;
use keys::jws::{self, Unverified};
use keys::{PrivateKey, PublicKey};
use serde_json::{Value, json};
use std::sync::OnceLock;

/// Longer tokens are not ours: ours have about 900 bytes.
const MAX_TOKEN_LENGTH: usize = 16 * 1024;

pub(crate) struct Tokens {
    /// PEM; made at first use if none was given.
    given_key: Option<String>,
    key: OnceLock<Option<Key>>,
    pub(crate) issuer: String,
    settings: ServiceAccountTokens,
}

struct Key {
    private: PrivateKey,
    public: PublicKey,
}

/// What a token is bound to, beside its service account.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bound {
    /// "pod", "secret" or "node"; empty for none.
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// The node of a bound pod, if it is scheduled: (name, uid).
    pub(crate) node: Option<(String, String)>,
}

/// What a token says.
pub(crate) struct Grant<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) audiences: &'a [String],
    pub(crate) id: &'a str,
    pub(crate) expires: i64,
    pub(crate) bound: &'a Bound,
}

impl Tokens {
    pub(crate) fn new(
        given_key: Option<String>,
        issuer: String,
        settings: &ServiceAccountTokens,
    ) -> Tokens {
        Tokens {
            given_key,
            key: OnceLock::new(),
            issuer,
            settings: settings.clone(),
        }
    }

    /// Whom a token is for that names nobody.
    pub(crate) fn audiences(&self) -> &[String] {
        match self.settings.audiences.is_empty() {
            true => std::slice::from_ref(&self.issuer),
            false => &self.settings.audiences,
        }
    }

    /// The keys that others shall verify tokens by. UPSTREAM: those of the files, if there are any.
    pub(crate) fn published_keys(&self) -> impl Iterator<Item = &PublicKey> {
        let own = match self.settings.keys.is_empty() {
            true => self.key().map(|key| &key.public),
            false => None,
        };
        self.settings.keys.iter().chain(own)
    }

    /// How long a token may be good for that asks for so many seconds.
    pub(crate) fn limit(&self, seconds: i64) -> i64 {
        let longest = self.settings.longest_seconds;
        longest.map_or(seconds, |longest| seconds.min(longest))
    }

    /// Signs a token; `None` if there is no usable key.
    pub(crate) fn sign(&self, now: i64, grant: &Grant<'_>) -> Option<String> {
        let key = self.key()?;
        let mut kubernetes = json!({
            "namespace": grant.namespace, "serviceaccount": {"name": grant.name, "uid": grant.uid},
        });
        let bound = grant.bound;
        if !bound.kind.is_empty() {
            kubernetes[bound.kind] = json!({"name": bound.name, "uid": bound.uid});
        }
        if let Some((name, uid)) = &bound.node {
            kubernetes["node"] = json!({"name": name, "uid": uid});
        }
        let claims = json!({
            "aud": grant.audiences, "exp": grant.expires, "iat": now, "nbf": now, "iss": self.issuer, "jti": grant.id,
            "kubernetes.io": kubernetes,
            "sub": format!("system:serviceaccount:{}:{}", grant.namespace, grant.name),
        });
        let header = json!({"alg": key.public.algorithm(), "kid": key.public.id()});
        jws::sign(&key.private, &header.to_string(), &claims.to_string()).ok()
    }

    /// The user of a token and the audiences it is good for, out of those asked for (none: this server). The
    /// service account and what the token is bound to must still exist.
    pub(crate) fn verify(
        &self,
        shared: &Shared,
        token: &str,
        audiences: &[String],
    ) -> Result<(Identity, Vec<String>), String> {
        let claims = self
            .claims(token)
            .ok_or("the token is malformed or its signature is wrong")?;
        let now = shared.now_seconds();
        let is_known = |issuer: &str| {
            issuer == self.issuer
                || self
                    .settings
                    .accepted_issuers
                    .iter()
                    .any(|one| one == issuer)
        };
        if !claims["iss"].as_str().is_some_and(is_known) {
            return Err("the token was issued by another cluster".into());
        }
        if claims["exp"].as_i64().is_none_or(|expires| now >= expires) {
            return Err("the token has expired".into());
        }
        if claims["nbf"].as_i64().is_some_and(|from| now < from) {
            return Err("the token is not valid yet".into());
        }
        let wanted = if audiences.is_empty() {
            self.audiences()
        } else {
            audiences
        };
        let has = |audience: &String| {
            claims["aud"]
                .as_array()
                .is_some_and(|list| list.iter().any(|a| a.as_str() == Some(audience)))
        };
        let common: Vec<String> = wanted
            .iter()
            .filter(|audience| has(audience))
            .cloned()
            .collect();
        if common.is_empty() {
            return Err("the token is for another audience".into());
        }
        let identity =
            check_objects(shared, &claims).ok_or("what the token speaks of no longer exists")?;
        Ok((identity, common))
    }

    fn claims(&self, token: &str) -> Option<Value> {
        if token.len() > MAX_TOKEN_LENGTH {
            return None;
        }
        let token = Unverified::read(token)?;
        let header: Value = serde_json::from_slice(&token.header).ok()?;
        let key = self.key().map(|key| &key.public);
        let keys = self.settings.keys.iter().chain(key);
        let mut meant = keys.filter(|key| header["alg"] == key.algorithm());
        let claims = meant.find_map(|key| token.verify(key))?;
        serde_json::from_slice(&claims).ok()
    }

    fn key(&self) -> Option<&Key> {
        let made = self.key.get_or_init(|| {
            let generated;
            let pem = match &self.given_key {
                Some(pem) => pem,
                None => {
                    generated = rcgen::KeyPair::generate().ok()?.serialize_pem();
                    &generated
                }
            };
            let private = PrivateKey::from_pem(pem.as_bytes()).ok()?;
            let public = private.public_key();
            Some(Key { private, public })
        });
        made.as_ref()
    }
}

/// The identity of a token's claims if the objects that it names exist with the same uid.
fn check_objects(shared: &Shared, claims: &Value) -> Option<Identity> {
    let kubernetes = &claims["kubernetes.io"];
    let namespace = kubernetes["namespace"].as_str()?;
    let exists = |kind: &str, namespaced: bool, of: &Value| -> Option<bool> {
        let (name, uid) = (of["name"].as_str()?, of["uid"].as_str()?);
        let kind = kinds::find("", kind)?;
        let key = if namespaced {
            format!("{namespace}/{name}")
        } else {
            name.to_owned()
        };
        let object = shared.store.get(kind, &key)?.value(kind);
        Some(object["metadata"]["uid"] == uid)
    };
    if !exists("ServiceAccount", true, &kubernetes["serviceaccount"])? {
        return None;
    }
    let account = &kubernetes["serviceaccount"];
    let mut identity = Identity::service_account(
        namespace,
        account["name"].as_str()?,
        account["uid"].as_str()?,
    );
    if let Some(id) = claims["jti"].as_str() {
        identity.extra.insert(
            "authentication.kubernetes.io/credential-id".into(),
            vec![format!("JTI={id}")],
        );
    }
    for (member, kind, namespaced, key) in [
        ("pod", "Pod", true, "pod"),
        ("secret", "Secret", true, ""),
        ("node", "Node", false, "node"),
    ] {
        let Some(object) = kubernetes.get(member) else {
            continue;
        };
        // UPSTREAM: a pod's token outlives its node; a node's own token does not.
        let required = member != "node" || kubernetes.get("pod").is_none();
        if required && !exists(kind, namespaced, object)? {
            return None;
        }
        if !key.is_empty() {
            for part in ["name", "uid"] {
                let value = object[part].as_str().unwrap_or_default().to_owned();
                identity.extra.insert(
                    format!("authentication.kubernetes.io/{key}-{part}"),
                    vec![value],
                );
            }
        }
    }
    Some(identity)
}
