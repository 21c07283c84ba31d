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

mod cli;
mod data;
mod embedded;
mod history_tool;
mod live;
mod setup;
mod start;
pub mod testing;
mod tool;

use std::ffi::OsString;
use std::process::ExitCode;

pub use embedded::{Server, ServerBuilder, ServerError};

/// Runs the command line. The first argument is the name of the program.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    cli::run(args.into_iter())
}
