//! The operator's executable.

fn main() {}
