//! A server inside another program.
//!
//! Each has a runtime of its own on a thread of its own, so that nothing depends on the runtime of the program, and
//! that all tasks of the server end with it. Nothing is of the whole process: no signal handler, no subscriber of log
//! lines, no limit of open files; what would end the process of `zoarium server` is an error of the handle.

mod builder;
mod error;
mod handle;
mod host;

pub use builder::ServerBuilder;
pub use error::ServerError;
pub use handle::Server;
