//! Who is let in on loopback: whoever has a link that was not used yet, or a token that the API server knows.
//!
//! A link is a number that is used once, signed with a key of this process. `up` prints one; `steersman dashboard` makes
//! another from the key, which lies beside the cluster's kubeconfig and is as private. Used, it becomes a session: a
//! cookie that no script can read and no other site can send.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::{COOKIE, HOST, ORIGIN};
use parking_lot::Mutex;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use crate::viewer::Viewer;

/// Makes links; whoever has its text can make them too.
#[derive(Clone)]
pub struct LinkKey(String);

/// The sessions of one address.
pub struct Access {
    key: hmac::Key,
    /// The port that the page is served on: part of the cookie's name, because browsers share cookies between ports.
    port: u16,
    used: Mutex<BTreeSet<String>>,
    sessions: Mutex<VecDeque<Session>>,
}

struct Session {
    cookie: String,
    viewer: Arc<Viewer>,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error(
        "this address is not ours: open http://127.0.0.1 with the port that `steersman up` printed"
    )]
    Host,
    #[error("another site asked for this")]
    Origin,
    #[error("this link was used before; `steersman dashboard` prints a new one")]
    Used,
    #[error("this link is not one of this cluster; `steersman dashboard` prints a good one")]
    Forged,
    #[error(
        "open the link that `steersman up` printed, or run `steersman dashboard` for a new one"
    )]
    NoSession,
}

/// Browsers that are open at once; the oldest has to be let in again.
const SESSIONS_MAX: usize = 128;

impl LinkKey {
    /// A new one, as unguessable as the system's random numbers.
    pub fn generate() -> LinkKey {
        LinkKey(random())
    }

    pub fn parse(text: &str) -> LinkKey {
        LinkKey(text.trim().to_owned())
    }

    pub fn text(&self) -> &str {
        &self.0
    }

    /// A new link to the page at this address.
    pub fn link(&self, address: &str) -> String {
        let number = random();
        let signature = hmac::sign(&self.hmac(), number.as_bytes());
        let signature = URL_SAFE_NO_PAD.encode(signature);
        format!("{address}/?link={number}.{signature}")
    }

    fn hmac(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, self.0.as_bytes())
    }
}

impl Access {
    pub fn new(key: &LinkKey, port: u16) -> Access {
        Access {
            key: key.hmac(),
            port,
            used: Mutex::default(),
            sessions: Mutex::default(),
        }
    }

    /// Is the request meant for us, and did our own page make it? A name that somebody points at 127.0.0.1 is not ours.
    pub(crate) fn check_origin(&self, headers: &HeaderMap, writes: bool) -> Result<(), Refused> {
        let text = |name: http::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let ours = ["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}:{}", self.port));
        let host = text(HOST).unwrap_or_default();
        if !ours.iter().any(|own| own == host) {
            return Err(Refused::Host);
        }
        let origin = text(ORIGIN);
        let is_own = origin.map(|origin| origin == format!("http://{host}"));
        let fetched_from = headers
            .get("sec-fetch-site")
            .and_then(|value| value.to_str().ok());
        let is_foreign = matches!(fetched_from, Some("cross-site" | "same-site"));
        // A link may be opened from anywhere: that is a navigation, and reads nothing.
        let navigates = headers
            .get("sec-fetch-mode")
            .is_some_and(|mode| mode == "navigate");
        if is_own == Some(false) || (writes && is_own.is_none()) || (is_foreign && !navigates) {
            return Err(Refused::Origin);
        }
        Ok(())
    }

    /// Exchanges a link for a session; the cookie to set.
    pub(crate) fn open_link(&self, link: &str, viewer: Arc<Viewer>) -> Result<String, Refused> {
        let (number, signature) = link.split_once('.').ok_or(Refused::Forged)?;
        let signature = URL_SAFE_NO_PAD
            .decode(signature)
            .map_err(|_| Refused::Forged)?;
        hmac::verify(&self.key, number.as_bytes(), &signature).map_err(|_| Refused::Forged)?;
        // Only who has the key can make this grow.
        if !self.used.lock().insert(number.to_owned()) {
            return Err(Refused::Used);
        }
        Ok(self.open(viewer))
    }

    /// Opens a session; the cookie to set.
    pub(crate) fn open(&self, viewer: Arc<Viewer>) -> String {
        let cookie = random();
        let mut sessions = self.sessions.lock();
        if sessions.len() >= SESSIONS_MAX {
            sessions.pop_front();
        }
        sessions.push_back(Session {
            cookie: cookie.clone(),
            viewer,
        });
        format!(
            "{}={cookie}; Path=/; HttpOnly; SameSite=Strict",
            self.cookie_name()
        )
    }

    /// Whose session the request is of.
    pub(crate) fn viewer(&self, headers: &HeaderMap) -> Result<Arc<Viewer>, Refused> {
        let cookie = cookie(headers, &self.cookie_name());
        let sessions = self.sessions.lock();
        let found = sessions
            .iter()
            .find(|session| cookie == Some(session.cookie.as_str()));
        found
            .map(|session| session.viewer.clone())
            .ok_or(Refused::NoSession)
    }

    fn cookie_name(&self) -> String {
        format!("steersman-{}", self.port)
    }
}

/// The value of a cookie.
pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let all = headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let mut pairs = all
        .flat_map(|all| all.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(own, _)| *own == name).map(|(_, value)| value)
}

/// 192 random bits. Secrets are not replayed, so they do not come from a seed.
pub(crate) fn random() -> String {
    let mut bytes = [0; 24];
    let filled = SystemRandom::new().fill(&mut bytes);
    assert!(
        filled.is_ok(),
        "the system has no random numbers, so nobody can be let in safely"
    );
    URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::tests::nobody;

    fn viewer() -> Arc<Viewer> {
        Viewer::owner(nobody())
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect::<HeaderMap>()
    }

    #[test]
    fn a_link_opens_once() {
        let key = LinkKey::generate();
        let access = Access::new(&key, 6444);
        let link = key.link("http://127.0.0.1:6444");
        let link = link.split_once("link=").unwrap().1;
        let cookie = access.open_link(link, viewer()).unwrap();
        assert!(
            cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"),
            "{cookie}"
        );
        assert_eq!(access.open_link(link, viewer()).err(), Some(Refused::Used));
        let session = cookie.split(';').next().unwrap();
        assert!(access.viewer(&headers(&[("cookie", session)])).is_ok());
        assert!(
            access
                .viewer(&headers(&[("cookie", "steersman-6444=no")]))
                .is_err()
        );
        assert!(access.viewer(&headers(&[])).is_err());
        let other = LinkKey::generate().link("");
        let other = other.split_once("link=").unwrap().1;
        for forged in [other, "", "a.b", "a", "0.00"] {
            assert_eq!(
                access.open_link(forged, viewer()).err(),
                Some(Refused::Forged)
            );
        }
    }

    #[test]
    fn other_sites_are_refused() {
        let access = Access::new(&LinkKey::generate(), 6444);
        let check = |pairs: &[(&'static str, &str)], writes: bool| {
            access.check_origin(&headers(pairs), writes)
        };
        assert_eq!(check(&[("host", "127.0.0.1:6444")], false), Ok(()));
        assert_eq!(check(&[("host", "localhost:6444")], false), Ok(()));
        assert_eq!(
            check(&[("host", "evil.example:6444")], false),
            Err(Refused::Host)
        );
        assert_eq!(check(&[], false), Err(Refused::Host));
        let own = ("host", "127.0.0.1:6444");
        assert_eq!(
            check(&[own, ("origin", "http://127.0.0.1:6444")], true),
            Ok(())
        );
        assert_eq!(
            check(&[own, ("origin", "http://127.0.0.1:80")], true),
            Err(Refused::Origin)
        );
        assert_eq!(
            check(&[own], true),
            Err(Refused::Origin),
            "a write says where it comes from"
        );
        assert_eq!(
            check(&[own, ("sec-fetch-site", "cross-site")], false),
            Err(Refused::Origin)
        );
        let navigates = [
            own,
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
        ];
        assert_eq!(check(&navigates, false), Ok(()));
    }
}
