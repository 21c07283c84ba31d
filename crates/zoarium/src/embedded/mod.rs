//! A server inside another program.
//!
//! Each server has its own runtime on its own thread. Therefore it does not depend on the program's
//! runtime, and all its tasks end with it. It does not change the state of the process, such as
//! signal handlers, the log subscriber, or the limit on file descriptors. A failure that would end
//! the process of `zoarium server` is returned by the handle as an error.

mod builder;
mod error;
mod handle;
mod host;
mod machine;
mod pause;

#[cfg(feature = "tools")]
pub(crate) use machine::{ThisMachine, log_notices};

pub use builder::ServerBuilder;
pub use error::ServerError;
pub use handle::Server;
