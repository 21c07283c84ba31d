//! A coordination server with ZooKeeper's protocol, for use inside another program. Programs depend
//! on it with `default-features = false`; only the executable `zoarium` needs the feature `tools`.
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

#[cfg(feature = "tools")]
mod cli;
#[cfg(feature = "tools")]
mod data;
mod embedded;
#[cfg(feature = "tools")]
mod history_tool;
#[cfg(feature = "tools")]
mod live;
#[cfg(feature = "tools")]
mod setup;
#[cfg(feature = "tools")]
mod start;
pub mod testing;
#[cfg(feature = "tools")]
mod tool;

pub use embedded::{Server, ServerBuilder, ServerError};

/// Runs the command line of this process. Only for the executables of this crate.
#[cfg(feature = "tools")]
#[doc(hidden)]
pub fn run_process() -> std::process::ExitCode {
    cli::run(std::env::args_os())
}
