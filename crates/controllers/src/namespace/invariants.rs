//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use api::Meta;
use api::kinds::Namespace;

use crate::oracle::{Change, Oracle, Verdict, World};

#[derive(Default)]
pub struct NamespaceOracle;

impl Oracle for NamespaceOracle {
    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        let Some(meta) = change.meta_before().filter(|_| change.is_ending()) else {
            return Ok(());
        };
        let held = world.store::<Namespace>().find("", &meta.namespace);
        safe(held.as_deref(), meta)
    }

    fn at_rest(&self, world: &World) -> Verdict {
        for held in world.store::<Namespace>().list() {
            let is_in = |meta: &&Meta| *meta.namespace == *held.metadata.name;
            converged(&held, world.all().filter(is_in).count())?;
        }
        Ok(())
    }
}

/// A namespace that is being deleted is held by content with finalizers, or by a finalizer of somebody
/// else; never by us. `content` counts what is left in it.
pub fn converged(namespace: &Namespace, content: usize) -> Result<(), String> {
    let meta = &namespace.metadata;
    if !meta.is_terminating() {
        return Ok(());
    }
    let ours = namespace
        .spec
        .finalizers
        .iter()
        .any(|finalizer| *finalizer == super::FINALIZER);
    if ours && content == 0 {
        return Err(format!(
            "namespace {} is empty and still carries our finalizer",
            meta.name
        ));
    }
    if !ours && content > 0 {
        return Err(format!(
            "namespace {} was finalized with {content} objects in it",
            meta.name
        ));
    }
    Ok(())
}

/// The controller empties a namespace only when that is being deleted. `deleted` is what it deleted.
pub fn safe(namespace: Option<&Namespace>, deleted: &Meta) -> Result<(), String> {
    match namespace {
        Some(namespace) if !namespace.metadata.is_terminating() => Err(format!(
            "{} was deleted although its namespace lives",
            deleted.key()
        )),
        _ => Ok(()),
    }
}
