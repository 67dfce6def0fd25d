//! Placeholder.

pub mod int_or_string;
pub mod quantity;
