//! `steersman why` and `steersman preview`, as operators and pipelines meet them.

mod cluster;
mod preview;
mod why;
