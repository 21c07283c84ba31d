//! TLS of a port: key and trust stores as Java's servers have them, handshakes, certificates.
//!
//! ```text
//!   config::Tls --> store --> Context (rustls) --> TlsSource (loads again when files change)
//!                                                     |
//!            Acceptor: plain, TLS, or both at a port -+- Connector: to another server
//! ```
//!
//! What the other side must show and which names its certificate must have is decided here; who it is,
//! in [`certificate`].

mod acceptor;
pub mod certificate;
mod connector;
mod context;
mod der;
mod detect;
mod error;
mod gate;
mod hosts;
mod known;
mod member_check;
mod records;
mod rules;
mod source;
mod store;
mod verify;
mod version1;

pub use acceptor::{Acceptor, Refused};
pub use config::{Secret, Store, StoreFormat};
pub use connector::{ClientStores, Connector};
pub use detect::looks_like_tls;
pub use error::TlsError;
pub use gate::{Gate, HANDSHAKES_MAX};
pub use known::{Unknown, known_to_clients};
pub use member_check::{MemberCheck, NotAMember};
pub use records::Records;
pub use rules::Endpoint;
pub use source::TlsSource;
/// For fuzzing: what is read from files of strangers.
pub use store::{KeyMaterial, read_key_store, read_revocations, read_trust_store};
pub use version1::verify_version1;

use std::time::Duration;

/// How long a handshake may take from its first byte on, as Netty's SslHandler allows.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
