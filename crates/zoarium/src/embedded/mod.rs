//! A server inside another program.
//!
//! Each server has its own runtime on its own thread. Therefore it does not depend on the runtime
//! of the program, and all its tasks end with it. It does not change the state of the process:
//! signal handlers, the subscriber of log lines, or the limit of open files. A failure that would
//! end the process of `zoarium server` is an error of the handle.

mod builder;
mod error;
mod handle;
mod host;
mod pause;

pub use builder::ServerBuilder;
pub use error::ServerError;
pub use handle::Server;
