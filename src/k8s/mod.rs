//! The `k8s` module, see the map in the crate's documentation.
