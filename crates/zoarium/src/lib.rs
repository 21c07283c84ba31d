//! A coordination server with ZooKeeper's protocol, for use inside another program. Also contains
//! the implementation of the executable `zoarium`.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let data_dir = directory.path();
//! let server = zoarium::Server::builder().data_dir(data_dir).port(0).start().await?;
//! println!("clients connect to {}", server.connect_string());
//! server.stop().await?;
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new()?.block_on(example())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! docs/EMBEDDING.md contains more examples.

mod address;
mod admin_token_tool;
mod backup;
mod cli;
mod client_flags;
mod config_tool;
mod container;
mod embedded;
mod findings;
mod history_tool;
mod live;
mod log_output;
mod log_tool;
mod logging;
mod notify;
mod output;
mod pages;
mod preflight_tool;
mod purge_tool;
mod quickstart;
mod ready;
mod restore_path;
mod restore_tool;
mod server_cmd;
mod snapshot_tool;
mod test_server;
pub mod testing;
mod tool;
mod watch_tool;
mod word;

use std::ffi::OsString;
use std::process::ExitCode;

pub use embedded::{Server, ServerBuilder, ServerError};

/// Runs the command line. The first argument is the name of the program.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    cli::run(args.into_iter())
}
