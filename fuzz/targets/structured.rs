//! Objects through the solver.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| karpenter_fuzz::bodies::run("structured", data));
