//! Zoarium: a coordination server that speaks ZooKeeper, and its tools.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    zoarium::run(std::env::args_os())
}
