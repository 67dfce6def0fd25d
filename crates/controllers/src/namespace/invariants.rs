//! What must hold once nothing changes any more.

use api::kinds::Namespace;

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
