//! What `zoarium log` and `zoarium snapshot` do, without the command line.
//!
//! The printed forms are those of Java's TxnLogToolkit and SnapshotFormatter. Written copies get
//! names that no server takes for a log: Java's `log.5.fixed` would be replayed beside `log.5`.
//!
//! Source: TxnLogToolkit, LogFormatter, SnapshotFormatter.

mod date;
pub mod log;
pub mod repair;
pub mod snapshot;
pub mod text;
