//! Zoarium: a coordination server with ZooKeeper's protocol, and its tools.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    zoarium::run_process()
}
