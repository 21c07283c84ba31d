//! SASL exchanges as state machines that handle and return tokens, without sockets, clocks or their
//! own randomness.
//!
//! DIGEST-MD5 (RFC 2831) is implemented as in the JDK, for clients and between members; [`Names`]
//! distinguishes the two. Only builds with the feature `sasl` contain it. The crate `rsasl` does
//! not support it, because it is obsolete (RFC 6331). However, it is ZooKeeper's only mechanism
//! apart from Kerberos, which is in [`gssapi`].

#[cfg(feature = "sasl")]
mod digest_md5;
#[cfg(feature = "sasl")]
mod directives;
pub mod gssapi;
mod names;
mod refusal;
#[cfg(feature = "sasl")]
mod response;

pub use config::{KerberosKey, SaslAcceptor, SaslInitiator, SaslLogin, SaslUsers, Secret};
#[cfg(feature = "sasl")]
pub use digest_md5::client::{ClientExchange, ClientStep};
#[cfg(feature = "sasl")]
pub use digest_md5::server::{ServerExchange, ServerStep};
pub use names::{CLIENTS, MEMBERS, NONCE_BYTES, Names};
pub use refusal::Refusal;
