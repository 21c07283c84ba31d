//! TLS of a port: key and trust stores as in Java's servers, handshakes, certificates.
//!
//! ```text
//!   config::Tls --> store --> Context (rustls) --> TlsSource (loads again when files change)
//!                                                     |
//!            Acceptor: plain, TLS, or both at a port -+- Connector: to another server
//! ```
//!
//! This module decides which certificates and names the peer must present; [`certificate`]
//! determines the peer's identity.

mod acceptor;
pub(crate) mod certificates;
mod context;
mod detect;
mod error;
mod gate;
pub(crate) mod outgoing;
pub(crate) mod records;
mod rules;
mod store;

pub use acceptor::{Acceptor, Refused};
pub use certificates::known::{UnknownCertificate, known_to_clients};
pub use certificates::member_check::{MemberCheck, NotAMember};
pub use certificates::subject as certificate;
pub use certificates::version1::verify_version1;
pub use config::{Secret, Store, StoreFormat};
pub use detect::looks_like_tls;
pub use error::{StoreFault, TlsError};
pub use gate::{Gate, HANDSHAKE_TIMEOUT, HANDSHAKES_MAX};
pub use outgoing::ClientStores;
pub use records::Records;
pub use rules::Endpoint;
pub use store::source::TlsSource;
/// Parsers of untrusted files, for fuzzing.
pub use store::{KeyMaterial, read_key_store, read_revocations, read_trust_store};

pub use crate::connect::connector::Connector;

/// Crates whose types occur in signatures.
pub use {rustls, tokio_rustls};
