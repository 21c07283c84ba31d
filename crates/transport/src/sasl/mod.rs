//! SASL exchanges as state machines: tokens in, tokens out, without sockets, clocks or randomness of their own.
//!
//! There is DIGEST-MD5 (RFC 2831), as the JDK speaks it, for clients and between members; [`Names`] tells the two
//! apart. The crate `rsasl` does not have it: it is obsolete (RFC 6331), but all that ZooKeeper has besides Kerberos,
//! which is [`gssapi`].

mod digest_md5;
mod directives;
pub mod gssapi;
mod refusal;
mod response;

pub use config::{KerberosKey, SaslAcceptor, SaslInitiator, SaslLogin, SaslUsers, Secret};
pub use digest_md5::client::{ClientExchange, ClientStep};
pub use digest_md5::server::{ServerExchange, ServerStep};
pub use refusal::Refusal;

/// Random bytes that an exchange is begun with. Source: DigestMD5Base.generateNonce.
pub const NONCE_BYTES: usize = 30;

/// What both sides put into the hash, so that a login for one purpose is worth nothing for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names {
    /// Name of the service.
    pub service: &'static str,
    /// Name of the server, which is also the realm.
    pub server: &'static str,
}

/// Of clients. Source: ZooKeeperSaslServer.
pub const CLIENTS: Names = Names {
    service: "zookeeper",
    server: "zk-sasl-md5",
};

/// Between members. Source: QuorumAuth.
pub const MEMBERS: Names = Names {
    service: "zookeeper-quorum",
    server: "zk-quorum-sasl-md5",
};

impl Names {
    fn uri(self) -> String {
        format!("{}/{}", self.service, self.server)
    }
}
