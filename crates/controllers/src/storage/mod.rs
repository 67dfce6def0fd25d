//! What the controllers of claims and volumes have in common: changes of whole objects ([`live`]), what they came to
//! ([`latest`]), finalizers that
//! protect what is in use ([`protection`]), and which pods use a claim ([`claim_users`]).

pub(crate) mod claim_users;
pub(crate) mod latest;
pub(crate) mod live;
pub(crate) mod protection;
