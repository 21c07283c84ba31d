//! A ZooKeeper server: the host that provides a [`replica`] with threads and files.
//!
//! [`Server::start`] recovers the data directory, starts the threads and listens. The `zoarium`
//! binary and tests embed it. The folders do not depend on each other, except that `assemble` uses
//! all others:
//!
//! * `disk` contains the log, the epoch files, the member lists and the snapshots,
//! * `recorder` contains the thread of the change history,
//! * `assemble` runs the replica and connects all parts.
//!
//! docs/ARCHITECTURE.md follows a request through all of them.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

mod assemble;
mod disk;
mod error;
mod failure;
mod inbox;
mod kerberos;
mod limits;
mod recorder;
mod settings;

use frontend::clock;

pub use admin::token as admin_token;
pub use assemble::server::{Server, Started};
pub use assemble::start_checks;
pub use disk::recovery::{RecoveredTree, recover_tree};
pub use error::{EXIT_ELECTION_PORT, StartError};
pub use executor::WaitingThread;
pub use kerberos::kerberos_environment;
pub use replica::Service;
pub use transport::sasl::gssapi::IS_BUILT_IN as HAS_GSSAPI;
