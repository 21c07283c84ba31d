//! Zoarium: a coordination server that speaks ZooKeeper.

mod server_cmd;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut args: Vec<_> = std::env::args_os().skip(1).collect();
    if args.first().is_some_and(|first| first == "server") {
        args.remove(0);
    }
    server_cmd::run(args)
}
