//! Names of a login, and the size of its nonces.

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

/// Names for clients. Source: ZooKeeperSaslServer.
pub const CLIENTS: Names = Names {
    service: "zookeeper",
    server: "zk-sasl-md5",
};

/// Names for members. Source: QuorumAuth.
pub const MEMBERS: Names = Names {
    service: "zookeeper-quorum",
    server: "zk-quorum-sasl-md5",
};

#[cfg(feature = "sasl")]
impl Names {
    pub(super) fn uri(self) -> String {
        format!("{}/{}", self.service, self.server)
    }
}
