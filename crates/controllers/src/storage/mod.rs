//! What the controllers of claims and volumes have in common: changes of whole objects ([`live`]), finalizers that
//! protect what is in use ([`protection`]), and which pods use a claim ([`claim_users`]).

pub(crate) mod claim_users;
pub(crate) mod live;
pub(crate) mod protection;
