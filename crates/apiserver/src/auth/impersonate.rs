//! Acting as someone else, for those who may.
//!
//! UPSTREAM: ConstrainedImpersonation (KEP 5284). A caller needs two permissions: to act as somebody
//! (`impersonate:user-info` and the like), and to do just this as such a one (`impersonate-on:user-info:get`). The plain
//! verb `impersonate`, which allows everything, is asked about last.

use super::rules::Attributes;
use super::{AUTHENTICATED, Identity, MASTERS, UNAUTHENTICATED};
use crate::rest::RequestInfo;
use crate::rest::query::percent_decode;
use crate::server::Shared;
use crate::status::Status;
use api::Lru;
use api::hash::Digest;
use api::syntax::{go_quote, validate_dns1123_label, validate_dns1123_subdomain};
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What all headers begin with that say whom to act as: most requests have none of them.
const PREFIX: &str = "impersonate-";
const EXTRA: &str = "extra-";

/// The group of what somebody is made of, in permissions of today.
const AUTHENTICATION: &str = "authentication.k8s.io";

/// The node that a service account's pod runs on, as its token says.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// UPSTREAM: from so many groups or values on, permission for all of them is asked for first.
const MANY: usize = 4;

/// The user that the request wants to act as, or the caller itself.
pub(crate) fn impersonate(
    shared: &Shared,
    caller: Arc<Identity>,
    headers: &HeaderMap,
    info: &RequestInfo,
) -> Result<Arc<Identity>, Status> {
    let Some(wanted) = wanted(headers)? else {
        return Ok(caller);
    };
    let last = shared.impersonation.last(&caller);
    let others = Mode::ALL.into_iter().filter(|mode| Some(*mode) != last);
    let mut refused = None;
    for mode in last
        .into_iter()
        .chain(others)
        .filter(|mode| mode.applies(&wanted, &caller))
    {
        let attempt = Attempt {
            shared,
            caller: &caller,
            wanted: &wanted,
            mode,
        };
        match attempt.check(info) {
            Ok(()) => {
                shared.impersonation.remember(&caller, mode);
                return Ok(Arc::new(complete(wanted, mode)));
            }
            Err(status) => drop(refused.get_or_insert(status)),
        }
    }
    // The last mode applies to everybody.
    Err(refused.unwrap_or_else(|| Status::internal("all impersonation modes failed")))
}

/// UPSTREAM: `modeIndexCache`: callers are likely to use one mode, so that the one in which they were last allowed to act as
/// somebody is tried first, and is what they are told of when they are refused.
pub(crate) struct LastModes(Mutex<Lru<u64, Mode>>);

/// UPSTREAM: so many callers are remembered.
const CALLERS_MAX: usize = 10_000;

impl Default for LastModes {
    fn default() -> LastModes {
        LastModes(Mutex::new(Lru::new(CALLERS_MAX)))
    }
}

impl LastModes {
    fn last(&self, caller: &Identity) -> Option<Mode> {
        self.0.lock().get(&key(caller)).copied()
    }

    fn remember(&self, caller: &Identity, mode: Mode) {
        *self.0.lock().get_or_insert(key(caller), || mode) = mode;
    }
}

/// Of the same size for all: two callers with one key are tried in each other's order, and nothing else.
fn key(caller: &Identity) -> u64 {
    Digest::new().text(&caller.user).finish()
}

/// In whose place somebody may act.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// A service account in that of the node that it runs on.
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    /// Anybody, for everything.
    Legacy,
}

impl Mode {
    const ALL: [Mode; 5] = [
        Mode::AssociatedNode,
        Mode::ArbitraryNode,
        Mode::ServiceAccount,
        Mode::UserInfo,
        Mode::Legacy,
    ];

    fn name(self) -> &'static str {
        match self {
            Mode::AssociatedNode => "associated-node",
            Mode::ArbitraryNode => "arbitrary-node",
            Mode::ServiceAccount => "serviceaccount",
            Mode::UserInfo => "user-info",
            Mode::Legacy => "",
        }
    }

    fn applies(self, wanted: &Identity, caller: &Identity) -> bool {
        let is_name_alone =
            wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = node(&wanted.user);
        let is_account = service_account(&wanted.user).is_some();
        match self {
            Mode::AssociatedNode => {
                let of_caller = caller.extra.get(NODE_NAME).map(Vec::as_slice);
                is_name_alone
                    && service_account(&caller.user).is_some()
                    && matches!((node, of_caller), (Some(node), Some([own])) if node == own)
            }
            Mode::ArbitraryNode => is_name_alone && node.is_some(),
            Mode::ServiceAccount => is_name_alone && is_account,
            Mode::UserInfo => node.is_none() && !is_account,
            Mode::Legacy => true,
        }
    }
}

/// A caller that wants to act as somebody in one of the modes.
struct Attempt<'a> {
    shared: &'a Shared,
    caller: &'a Identity,
    wanted: &'a Identity,
    mode: Mode,
}

impl Attempt<'_> {
    fn check(&self, info: &RequestInfo) -> Result<(), Status> {
        let rbac = &self.shared.rbac;
        if self.mode != Mode::Legacy {
            let verb = format!("impersonate-on:{}:{}", self.mode.name(), info.verb);
            rbac.check_verb(self.shared, self.caller, info, &verb)?;
        }
        self.check_user()?;
        if !self.wanted.uid.is_empty() {
            self.ask(AUTHENTICATION, "uids", "", &self.wanted.uid)?;
        }
        self.check_groups()?;
        self.check_extra()
    }

    fn check_user(&self) -> Result<(), Status> {
        let user = &self.wanted.user;
        let group = self.group();
        if let Some((namespace, name)) = service_account(user) {
            let asked = Attributes {
                namespace,
                ..self.attributes(group, "serviceaccounts", "", name)
            };
            return self.demand(&asked);
        }
        match node(user).filter(|_| self.mode != Mode::Legacy) {
            // One permission serves the account on all nodes.
            Some(_) if self.mode == Mode::AssociatedNode => self.ask(group, "nodes", "", "*"),
            Some(node) => self.ask(group, "nodes", "", node),
            None => self.ask(group, "users", "", user),
        }
    }

    fn check_groups(&self) -> Result<(), Status> {
        let (groups, group) = (&self.wanted.groups, self.group());
        if self.mode != Mode::Legacy {
            let refuse = |name, why| {
                let asked = self.attributes(group, "groups", "", name);
                self.with_verb(&asked, |asked| {
                    Err(super::rbac::refusal(self.caller, asked, why))
                })
            };
            if groups.iter().any(String::is_empty) {
                return refuse("", "impersonating the empty string group is not allowed");
            }
            if groups.iter().any(|group| group == MASTERS) {
                let why = "impersonating the system:masters group is not allowed";
                return refuse(MASTERS, why);
            }
            if groups.len() >= MANY && self.ask(group, "groups", "", "*").is_ok() {
                return Ok(());
            }
        }
        let mut groups = groups.iter();
        groups.try_for_each(|name| self.ask(group, "groups", "", name))
    }

    fn check_extra(&self) -> Result<(), Status> {
        let extra = &self.wanted.extra;
        let ask = |key: &str, value: &str| self.ask(AUTHENTICATION, "userextras", key, value);
        if self.mode != Mode::Legacy {
            if let Some(why) = extra_fault(extra) {
                let asked = self.attributes(AUTHENTICATION, "userextras", "", "");
                return self.with_verb(&asked, |asked| {
                    Err(super::rbac::refusal(self.caller, asked, &why))
                });
            }
            let values = extra.values().map(Vec::len).sum::<usize>();
            if extra.len().max(values) >= MANY && ask("*", "*").is_ok() {
                return Ok(());
            }
        }
        for (key, values) in extra {
            values.iter().try_for_each(|value| ask(key, value))?;
        }
        Ok(())
    }

    /// The group of users and groups in this mode.
    fn group(&self) -> &'static str {
        match self.mode {
            Mode::Legacy => "",
            _ => AUTHENTICATION,
        }
    }

    fn ask(&self, group: &str, resource: &str, part: &str, name: &str) -> Result<(), Status> {
        self.demand(&self.attributes(group, resource, part, name))
    }

    fn attributes<'b>(
        &self,
        group: &'b str,
        resource: &'b str,
        subresource: &'b str,
        name: &'b str,
    ) -> Attributes<'b> {
        Attributes {
            group,
            resource,
            subresource,
            name,
            ..Attributes::default()
        }
    }

    fn demand(&self, asked: &Attributes<'_>) -> Result<(), Status> {
        let (rbac, store) = (&self.shared.rbac, &self.shared.store);
        self.with_verb(asked, |asked| rbac.demand(store, self.caller, asked))
    }

    fn with_verb<T>(&self, asked: &Attributes<'_>, act: impl FnOnce(&Attributes<'_>) -> T) -> T {
        let verb = match self.mode {
            Mode::Legacy => "impersonate".to_owned(),
            mode => format!("impersonate:{}", mode.name()),
        };
        act(&Attributes {
            verb: &verb,
            ..*asked
        })
    }
}

/// What may not be in extra fields where modes are told apart.
fn extra_fault(extra: &BTreeMap<String, Vec<String>>) -> Option<String> {
    extra.iter().find_map(|(key, values)| {
        if key.is_empty() {
            return Some("impersonating the empty string key in extra is not allowed".to_owned());
        }
        if let Some(why) = prefixed_path_fault(key) {
            return Some(format!(
                "impersonating an invalid key in extra is not allowed: extra.key: {why}"
            ));
        }
        if *key != key.to_lowercase() {
            let key = go_quote(key);
            return Some(format!(
                "impersonating a non-lowercase key in extra is not allowed: {key}"
            ));
        }
        let is_empty = values.iter().any(String::is_empty);
        is_empty.then(|| "impersonating the empty string value in extra is not allowed".to_owned())
    })
}

/// A domain, a slash and a path.
fn prefixed_path_fault(text: &str) -> Option<String> {
    let invalid = |text: &str, why: &str| Some(format!("Invalid value: {}: {why}", go_quote(text)));
    let split = text.split_once('/');
    let Some((domain, path)) =
        split.filter(|(domain, path)| !domain.is_empty() && !path.is_empty())
    else {
        let why = r#"must be a domain-prefixed path (such as "acme.io/foo")"#;
        return invalid(text, why);
    };
    if let Some(why) = validate_dns1123_subdomain(domain).first() {
        return invalid(domain, why);
    }
    let is_fine =
        |letter: char| letter.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(letter);
    if !path.chars().all(is_fine) {
        let why = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";
        return invalid(path, why);
    }
    None
}

fn wanted(headers: &HeaderMap) -> Result<Option<Identity>, Status> {
    let mut wanted = Identity::default();
    let mut asked = headers
        .iter()
        .filter_map(|(name, value)| Some((name.as_str().strip_prefix(PREFIX)?, value)))
        .peekable();
    if asked.peek().is_none() {
        return Ok(None);
    }
    for (name, value) in asked {
        // Whatever it stands for: without it the caller would act with other rights than were asked for.
        let value = text(name, value)?;
        match name {
            // UPSTREAM: the first one counts.
            "user" if wanted.user.is_empty() => wanted.user = value,
            "uid" if wanted.uid.is_empty() => wanted.uid = value,
            "group" => wanted.groups.push(value),
            _ => {
                if let Some(key) = name.strip_prefix(EXTRA) {
                    let key = extra_key(key);
                    wanted.extra.entry(key).or_default().push(value);
                }
            }
        }
    }
    if wanted.user.is_empty() {
        if wanted.groups.is_empty() && wanted.uid.is_empty() && wanted.extra.is_empty() {
            return Ok(None);
        }
        return Err(Status::bad_request(format!(
            "requested {} without impersonating a user name",
            go_print(&wanted)
        )));
    }
    Ok(Some(wanted))
}

/// Go's clients send names as they are, so the bytes are UTF-8 and need not be ASCII.
fn text(name: &str, value: &HeaderValue) -> Result<String, Status> {
    match str::from_utf8(value.as_bytes()) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(Status::bad_request(format!(
            "invalid header Impersonate-{name}: the value is not valid UTF-8"
        ))),
    }
}

/// UPSTREAM: a key that is not well encoded stands for itself.
fn extra_key(encoded: &str) -> String {
    let is_hex = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    let decoded = percent_decode(encoded);
    let is_text = !decoded.contains(char::REPLACEMENT_CHARACTER);
    match is_text && encoded.split('%').skip(1).all(is_hex) {
        true => decoded.into_owned(),
        false => encoded.to_owned(),
    }
}

/// Somebody without a name, as Go prints the struct.
fn go_print(identity: &Identity) -> String {
    let list = |items: &[String]| {
        let items: Vec<String> = items.iter().map(|item| go_quote(item)).collect();
        format!("[]string{{{}}}", items.join(", "))
    };
    let groups = match identity.groups.as_slice() {
        [] => "[]string(nil)".to_owned(),
        groups => list(groups),
    };
    let extra = identity.extra.iter();
    let extra: Vec<String> = extra
        .map(|(key, values)| format!("{}:{}", go_quote(key), list(values)))
        .collect();
    let extra = match extra.is_empty() {
        true => "map[string][]string(nil)".to_owned(),
        false => format!("map[string][]string{{{}}}", extra.join(", ")),
    };
    let uid = go_quote(&identity.uid);
    format!("&user.DefaultInfo{{Name:\"\", UID:{uid}, Groups:{groups}, Extra:{extra}}}")
}

/// Adds the groups that such a user always has.
fn complete(mut identity: Identity, mode: Mode) -> Identity {
    if let Some((namespace, _)) = service_account(&identity.user) {
        let groups = [
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
        ];
        if identity.groups.is_empty() {
            identity.groups.extend(groups);
        }
    }
    if matches!(mode, Mode::AssociatedNode | Mode::ArbitraryNode) {
        identity.groups = vec!["system:nodes".to_owned()];
    }
    let is_anonymous = identity.user == "system:anonymous";
    let default = if is_anonymous {
        UNAUTHENTICATED
    } else {
        AUTHENTICATED
    };
    // UPSTREAM: who asks for a user that is not authenticated gets one.
    let is_settled = identity.is_in(default) || (!is_anonymous && identity.is_in(UNAUTHENTICATED));
    if !is_settled {
        identity.groups.push(default.to_owned());
    }
    identity
}

/// The node that a user name is that of.
fn node(user: &str) -> Option<&str> {
    let name = user.strip_prefix("system:node:")?;
    validate_dns1123_subdomain(name).is_empty().then_some(name)
}

/// Namespace and name, if both are well formed: any other name is that of a user, which other permissions are for.
fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user
        .strip_prefix("system:serviceaccount:")?
        .split_once(':')?;
    let is_valid =
        validate_dns1123_label(namespace).is_empty() && validate_dns1123_subdomain(name).is_empty();
    is_valid.then_some((namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_keys_are_decoded_where_they_are_well_encoded() {
        for (encoded, key) in [
            ("scopes", "scopes"),
            ("acme.com%2fproject", "acme.com/project"),
            ("%c3%bc", "ü"),
            ("%zz%41", "%zz%41"),
            ("%41%4", "%41%4"),
            ("%ff", "%ff"),
        ] {
            assert_eq!(extra_key(encoded), key);
        }
    }
}
