//! The operator's executable.

use karpenter::operator::{Environment, start};
use std::process::ExitCode;

/// Less memory at rest than the system's, and needed for static images.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    start(std::env::args().skip(1), &Environment::of_process())
}
