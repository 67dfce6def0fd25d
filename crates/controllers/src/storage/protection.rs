//! A finalizer that stays as long as an object is in use: what claims, volumes and attributes classes share.

use api::json::Node;
use api::{Istr, Meta, Resource};
use client::Client;
use runtime::Error;

use crate::storage::live::Live;

/// What an object's protection asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// It lacks the finalizer: it was created before admission added it, or somebody took it off.
    Add,
    /// It is being deleted: the finalizer goes as soon as nobody uses it.
    Remove,
}

/// None where there is nothing to do.
pub(crate) fn need(meta: &Meta, finalizer: &str) -> Option<Need> {
    match (meta.is_terminating(), meta.has_finalizer(finalizer)) {
        (false, false) => Some(Need::Add),
        (true, true) => Some(Need::Remove),
        _ => None,
    }
}

/// Adds or removes the finalizer, if the object that the API server has still needs that.
pub(crate) async fn apply<K: Resource>(
    client: &Client,
    live: &mut Live<K>,
    finalizer: &str,
    what: Need,
) -> Result<(), Error> {
    let meta = live.view.meta();
    if need(meta, finalizer) != Some(what) {
        return Ok(());
    }
    let held = meta.finalizers.clone();
    let finalizers = wanted(&held, finalizer, what);
    let written = live
        .put(client, None, |whole| match finalizers.is_empty() {
            true => drop(whole.remove(&["metadata", "finalizers"])),
            false => whole.set(&["metadata", "finalizers"], Node::of(&finalizers)),
        })
        .await;
    match written {
        // The last finalizer is off, and somebody was faster.
        Err(Error::Client(error)) if error.is_not_found() => Ok(()),
        other => other,
    }
}

fn wanted<'a>(held: &'a [Istr], finalizer: &'a str, what: Need) -> Vec<&'a str> {
    let others = held.iter().map(Istr::as_str);
    let others = others.filter(|name| *name != finalizer);
    let ours = (what == Need::Add).then_some(finalizer);
    others.chain(ours).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_finalizers_stay_in_their_order() {
        let held = ["a".into(), "x".into(), "b".into(), "x".into()];
        assert_eq!(wanted(&held, "x", Need::Remove), ["a", "b"]);
        assert_eq!(wanted(&held[..1], "x", Need::Add), ["a", "x"]);
    }
}
