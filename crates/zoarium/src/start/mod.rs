//! Commands that start servers: configuration of the process, log output, readiness.

pub(crate) mod container;
pub(crate) mod log_output;
pub(crate) mod logging;
pub(crate) mod notify;
pub(crate) mod quickstart;
pub(crate) mod ready;
pub(crate) mod server_cmd;
pub(crate) mod test_server;
