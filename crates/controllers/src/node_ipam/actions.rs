//! What users do to the ranges of nodes: nothing. Nodes come and go by the hands of others.

use crate::oracle::Actions;

pub(super) const ACTIONS: [Actions; 0] = [];
