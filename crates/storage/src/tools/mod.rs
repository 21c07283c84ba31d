//! The implementation of `zoarium log` and `zoarium snapshot`, without the command line.
//!
//! The output has the format of Java's TxnLogToolkit and SnapshotFormatter. Written copies get
//! names that no server treats as a log. Java's `log.5.fixed` would be replayed in addition to
//! `log.5`.
//!
//! Source: TxnLogToolkit, LogFormatter, SnapshotFormatter.

mod date;
pub mod log;
pub mod repair;
pub mod snapshot;
pub mod text;
