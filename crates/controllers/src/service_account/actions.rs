//! What users do to service accounts.

use api::kinds::ServiceAccount;

use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 1] = [Actions::of(delete_default)];

fn delete_default(draw: &Draw<'_>) -> Vec<UserAction> {
    vec![UserAction::delete::<ServiceAccount>(
        draw.namespace,
        "default",
    )]
}
