//! `steersman why`, `steersman preview` and `steersman simulate`, as operators and pipelines meet them.

mod cluster;
mod preview;
mod simulate;
mod why;
