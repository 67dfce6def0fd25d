//! Tests of what takes more than one file.

mod schedule;
