//! Every client with every way to secure a connection: {Java, kazoo, C, Go, Rust, Zoarium} x
//! {plain, TLS with stores of each kind, certificates on both sides, DIGEST-MD5, both together}.
//!
//! In each cell a client creates a znode that only it may access, with the identity that the way
//! gives it. A stranger is refused. The server is restarted. The client then continues its session
//! with the same identity. docs/COMPATIBILITY.md lists what a client does not support. Such
//! combinations do not have a cell.

mod bench;
mod foreign;
mod ours;
mod way;
