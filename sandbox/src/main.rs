//! The sandbox commands.

fn main() {}
