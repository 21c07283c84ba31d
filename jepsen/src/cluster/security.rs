//! Members and clients with TLS or SASL on their connections.
//!
//! With `tls`, members connect to each other with TLS, and clients use the secure client port. With
//! `sasl`, members and clients log in with DIGEST-MD5.

use std::net::SocketAddr;

use client::{Connector, Login, Secret};
use tempfile::TempDir;
use tests::certificates::Certificates;
use tests::ensemble::EnsembleBuilder;
use tests::secrets::{MEMBER, SASL_BOB};

use super::{ClusterError, Plan};

/// Secure client port of each member.
const SECURE_PORT: u16 = 2281;
/// Name of the members' certificate.
const CERTIFICATE: &str = "member";
/// Directory of the certificates, if the members' directories stay.
const CERTIFICATES: &str = "certificates";
/// User of the clients.
const USER: &str = "bob";
const MODULE: &str = "org.apache.zookeeper.server.auth.DigestLoginModule";
const PROVIDER: &str = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider";

/// Protection of the connections of members and clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Security {
    /// Whether they use TLS.
    pub tls: bool,
    /// Whether they log in.
    pub sasl: bool,
}

impl Security {
    /// Returns the protection with these names.
    ///
    /// # Errors
    /// If a name is unknown.
    pub fn of(names: &[String]) -> Result<Security, String> {
        let mut security = Security::default();
        for name in names {
            match name.as_str() {
                "tls" => security.tls = true,
                "sasl" => security.sasl = true,
                other => return Err(format!("unknown protection {other:?}: use tls or sasl")),
            }
        }
        Ok(security)
    }

    /// Returns the names.
    pub fn names(self) -> Vec<&'static str> {
        let all = [(self.tls, "tls"), (self.sasl, "sasl")];
        let used = all.into_iter().filter(|(is_used, _)| *is_used);
        used.map(|(_, name)| name).collect()
    }
}

/// Protection of a client's connections.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// The TLS connector.
    pub connector: Option<Connector>,
    /// The login.
    pub login: Option<Login>,
}

/// Files for the protection.
pub(super) struct Secured {
    certificates: Option<Certificates>,
    jaas: Option<TempDir>,
}

impl std::fmt::Debug for Secured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secured")
            .field("jaas", &self.jaas)
            .finish_non_exhaustive()
    }
}

impl Secured {
    /// Creates the files, and returns the builder with their settings.
    ///
    /// # Errors
    /// If members have the same address, and therefore the same secure port.
    pub(super) fn new(
        plan: &Plan,
        mut builder: EnsembleBuilder,
        has_network: bool,
    ) -> Result<(Secured, EnsembleBuilder), ClusterError> {
        let mut secured = Secured {
            certificates: None,
            jaas: None,
        };
        if plan.security.tls {
            if !has_network {
                let text = "TLS requires a separate network for each member".to_owned();
                return Err(ClusterError::Missing(text));
            }
            let kept_in = plan.kept_in.as_ref();
            let certificates = match kept_in.and_then(|dir| dir.parent()) {
                Some(dir) => Certificates::kept_in(&dir.join(CERTIFICATES)),
                None => Certificates::new(),
            };
            certificates.sign(CERTIFICATE);
            builder = with_tls(builder, &certificates);
            secured.certificates = Some(certificates);
        }
        if plan.security.sasl {
            let failed = |error| ClusterError::Change(format!("cannot write a JAAS file: {error}"));
            let dir = tempfile::tempdir().map_err(failed)?;
            let file = dir.path().join("jaas.conf");
            std::fs::write(&file, jaas()).map_err(failed)?;
            builder = with_sasl(builder, &file);
            secured.jaas = Some(dir);
        }
        Ok((secured, builder))
    }

    /// Returns the address that clients use instead of this one.
    pub(super) fn client_address(&self, address: SocketAddr) -> SocketAddr {
        match self.certificates {
            Some(_) => (address.ip(), SECURE_PORT).into(),
            None => address,
        }
    }

    pub(super) fn access(&self) -> Access {
        // The addresses of a network are not in the certificate.
        let certificates = self.certificates.as_ref();
        let connector = certificates.map(|some| some.connector_of_any_host(CERTIFICATE));
        let login = || Login::digest_md5(USER, Secret::new(SASL_BOB));
        Access {
            connector,
            login: self.jaas.as_ref().map(|_| login()),
        }
    }
}

fn with_tls(mut builder: EnsembleBuilder, certificates: &Certificates) -> EnsembleBuilder {
    for prefix in ["ssl.", "ssl.quorum."] {
        for (key, value) in certificates.settings(prefix, CERTIFICATE, "pem") {
            builder = builder.setting(&key, &value);
        }
        builder = builder.setting(&format!("{prefix}hostnameVerification"), "false");
    }
    builder
        .setting("sslQuorum", "true")
        .setting("secureClientPort", &SECURE_PORT.to_string())
        .property(
            "zookeeper.serverCnxnFactory",
            "org.apache.zookeeper.server.NettyServerCnxnFactory",
        )
}

fn with_sasl(builder: EnsembleBuilder, jaas: &std::path::Path) -> EnsembleBuilder {
    let steps = [
        "quorum.auth.enableSasl",
        "quorum.auth.learnerRequireSasl",
        "quorum.auth.serverRequireSasl",
    ];
    let builder = steps
        .iter()
        .fold(builder, |builder, key| builder.setting(key, "true"));
    builder
        .setting("authProvider.sasl", PROVIDER)
        .property(
            "java.security.auth.login.config",
            &jaas.display().to_string(),
        )
        .property("zookeeper.fips-mode", "false")
}

fn jaas() -> String {
    format!(
        "Server {{ {MODULE} required user_{USER}=\"{SASL_BOB}\"; }};\n\
         QuorumServer {{ {MODULE} required user_zk=\"{MEMBER}\"; }};\n\
         QuorumLearner {{ {MODULE} required username=\"zk\" password=\"{MEMBER}\"; }};\n"
    )
}
