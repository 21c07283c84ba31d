//! Commands that query running servers.

mod client;
mod word;
