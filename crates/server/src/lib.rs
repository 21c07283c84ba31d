//! A ZooKeeper server: the host that gives a [`replica`] its sockets, threads and files.
//!
//! [`Server::start`] recovers the data directory, starts the threads and listens; the `zoarium`
//! binary and tests embed it. Inside, in folders that know none of each other:
//!
//! * `client` takes requests off sockets and puts replies and events onto them,
//! * `quorum` has the connections to other members,
//! * `disk` has the log, the epoch files, the member lists and the snapshots,
//! * `assemble` runs the replica and puts all of it together.
//!
//! docs/ARCHITECTURE.md follows a request through all of it.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

mod assemble;
mod audit;
mod client;
mod clock;
mod disk;
mod error;
mod failure;
mod faults;
mod inbox;
mod kerberos;
mod limits;
mod quorum;
mod random;
mod recorder;
mod settings;

use monitoring::{fourlw, metrics};

pub use assemble::admin_token;
pub use assemble::ahead;
pub use assemble::server::{Server, Started};
pub use disk::recovery::{RecoveredTree, recover_tree};
pub use error::{EXIT_ELECTION_PORT, StartError};
pub use faults::Faults;
pub use kerberos::kerberos_environment;
pub use replica::Service;
pub use transport::sasl::gssapi::IS_BUILT_IN as HAS_GSSAPI;

// Tests of the whole workspace build the server beside a simulator that has them.
const _: () = assert!(
    cfg!(debug_assertions) || !proto::mutant::ARE_AVAILABLE,
    "a server that is built for use has no deliberate bugs: build without the feature `mutants`"
);
