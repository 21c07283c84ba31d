//! Zoarium: a coordination server that speaks ZooKeeper, and its tools.

mod cli;
mod history_tool;
mod log_tool;
mod moment;
mod output;
mod restore_tool;
mod server_cmd;
mod snapshot_tool;
mod tool;
mod word;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::run(std::env::args_os())
}
