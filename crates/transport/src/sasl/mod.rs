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
mod refusal;
#[cfg(feature = "sasl")]
mod response;

pub use config::{KerberosKey, SaslAcceptor, SaslInitiator, SaslLogin, SaslUsers, Secret};
#[cfg(feature = "sasl")]
pub use digest_md5::client::{ClientExchange, ClientStep};
#[cfg(feature = "sasl")]
pub use digest_md5::server::{ServerExchange, ServerStep};
pub use refusal::Refusal;

/// Number of random bytes at the start of an exchange. Source: DigestMD5Base.generateNonce.
pub const NONCE_BYTES: usize = 30;

/// Names that both sides include in the hash, so that a login for one purpose is not valid for
/// another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names {
    /// Name of the service.
    pub service: &'static str,
    /// Name of the server, which is also the realm.
    pub server: &'static str,
}

/// Returns the names for clients. Source: ZooKeeperSaslServer.
pub const CLIENTS: Names = Names {
    service: "zookeeper",
    server: "zk-sasl-md5",
};

/// Returns the names for members. Source: QuorumAuth.
pub const MEMBERS: Names = Names {
    service: "zookeeper-quorum",
    server: "zk-quorum-sasl-md5",
};

#[cfg(feature = "sasl")]
impl Names {
    fn uri(self) -> String {
        format!("{}/{}", self.service, self.server)
    }
}
