//! What kube-rs sees of our API server: see `tests/`. The crate itself is empty.
