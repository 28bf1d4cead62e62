//! The `cluster` module, see the map in the crate's documentation.
