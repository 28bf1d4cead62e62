//! The `api` module, see the map in the crate's documentation.
