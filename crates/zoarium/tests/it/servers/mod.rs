//! Commands that start servers.

mod log_output;
mod quickstart;
mod start;
mod test_server;
