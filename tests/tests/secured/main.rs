//! Every client over every way to secure a connection: {Java, kazoo, C, Go, Rust, ours} x {plain, TLS
//! with stores of each kind, certificates on both sides, DIGEST-MD5, both together}.
//!
//! In each cell a client makes a znode that only it may touch, as the identity that the way gives it;
//! a stranger is refused; the server is restarted; and the client goes on with its session and is who
//! it was. docs/COMPATIBILITY.md has what a client lacks, which no cell of it stands for here.

mod bench;
mod foreign;
mod ours;
mod way;
