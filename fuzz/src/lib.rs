//! What is fuzzed: one body for each kind of text that strangers write.
//!
//! The targets in `targets/` hand libFuzzer's bytes to these bodies; `tests/hostile.rs` of the repository includes the same files and runs them
//! over the corpus in `tests/data/hostile` and over generated input, on stable Rust, with every test run.

pub mod bodies;
