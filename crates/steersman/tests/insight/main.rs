//! `steersman why`, `steersman preview`, `steersman simulate` and the manager's dashboard, as operators and pipelines meet them.

mod cluster;
mod dashboard;
mod preview;
mod simulate;
mod why;
