//! Zoarium: a coordination server that speaks ZooKeeper, and its tools.

mod bench;
mod cli;
mod server_cmd;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::run(std::env::args_os())
}
