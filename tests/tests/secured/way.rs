//! The ways, and a server that accepts connections by one of them.

use std::fs;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use tests::certificates::Certificates;
use tests::{Flavour, Missing, Port, Server, ServerBuilder, wait_for};

/// How a client connects to a server, and its identity there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Plain,
    /// TLS. The stores of the server, and those that the client reads, are files with this
    /// extension.
    Tls(&'static str),
    /// With a certificate on both sides.
    MutualTls,
    DigestMd5,
    DigestMd5OverTls,
}

pub(crate) const WAYS: [Way; 7] = [
    Way::Plain,
    Way::Tls("pem"),
    Way::Tls("jks"),
    Way::Tls("p12"),
    Way::MutualTls,
    Way::DigestMd5,
    Way::DigestMd5OverTls,
];

pub(crate) const USER: &str = "bob";
pub(crate) use tests::secrets::SASL_BOB as PASSWORD;

const LIMIT: Duration = Duration::from_secs(60);

const PROVIDER: &str = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
const MODULE: &str = "org.apache.zookeeper.server.auth.DigestLoginModule required";

impl Way {
    pub(crate) fn has_tls(self) -> bool {
        !matches!(self, Way::Plain | Way::DigestMd5)
    }

    pub(crate) fn has_login(self) -> bool {
        matches!(self, Way::DigestMd5 | Way::DigestMd5OverTls)
    }

    /// Returns the kind of the stores.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Way::Tls(extension) => extension,
            _ => "pem",
        }
    }

    /// Returns the entry of an ACL that matches the client.
    pub(crate) fn entry(self) -> &'static str {
        match self {
            // The digest of bob:secret.
            Way::Plain | Way::Tls(_) => "digest:bob:fyVmFCwVbTJYrznoSu1koqYEYF0=",
            Way::MutualTls => "x509:CN=client,OU=Ops,O=Test",
            Way::DigestMd5 | Way::DigestMd5OverTls => "sasl:bob",
        }
    }
}

/// A server that is reached by one way, and everything that its clients need.
pub(crate) struct Secured {
    pub(crate) way: Way,
    pub(crate) certificates: Arc<Certificates>,
    pub(crate) server: Server,
    /// Address at which clients connect by this way, and by no other.
    pub(crate) address: String,
    _secure_port: Port,
}

impl Secured {
    /// Starts a server with additional settings.
    ///
    /// # Errors
    /// If the machine does not have something that the server needs.
    pub(crate) fn start(
        flavour: Flavour,
        way: Way,
        settings: &[(&str, &str)],
    ) -> Result<Secured, Missing> {
        let certificates = Certificates::new();
        for name in ["server", "client"] {
            certificates.sign(name);
            if way.extension() != "pem" {
                certificates.convert(name)?;
            }
        }
        Secured::with(flavour, way, settings, Arc::new(certificates))
    }

    /// Starts another server for the same way, with the same certificates.
    ///
    /// # Errors
    /// If the machine does not have something that the server needs.
    pub(crate) fn beside(&self, flavour: Flavour) -> Result<Secured, Missing> {
        Secured::with(flavour, self.way, &[], Arc::clone(&self.certificates))
    }

    fn with(
        flavour: Flavour,
        way: Way,
        settings: &[(&str, &str)],
        certificates: Arc<Certificates>,
    ) -> Result<Secured, Missing> {
        let secure_port = Port::take();
        let mut builder = ServerBuilder::new(flavour);
        if way.has_login() {
            let jaas = certificates.path("server.conf");
            let text = format!("Server {{ {MODULE} user_{USER}=\"{PASSWORD}\"; }};\n");
            fs::write(&jaas, text).expect("a JAAS file");
            builder = builder.setting("authProvider.sasl", PROVIDER).property(
                "java.security.auth.login.config",
                &jaas.display().to_string(),
            );
        }
        if way.has_tls() {
            let auth = if way == Way::MutualTls {
                "need"
            } else {
                "none"
            };
            builder = builder
                .setting("secureClientPort", &secure_port.number().to_string())
                .setting("secureClientPortAddress", "127.0.0.1")
                .setting("ssl.clientAuth", auth)
                .property(
                    "zookeeper.serverCnxnFactory",
                    "org.apache.zookeeper.server.NettyServerCnxnFactory",
                );
            for (key, value) in certificates.settings("ssl.", "server", way.extension()) {
                builder = builder.setting(&key, &value);
            }
        }
        for (key, value) in settings {
            builder = builder.setting(key, value);
        }
        let server = builder.start()?;
        let address = if way.has_tls() {
            format!("127.0.0.1:{}", secure_port.number())
        } else {
            server.address()
        };
        // Apache ZooKeeper opens this port after the other.
        wait_for("the port of the way", LIMIT, || {
            TcpStream::connect(&address).ok().map(drop)
        });
        Ok(Secured {
            way,
            certificates,
            server,
            address,
            _secure_port: secure_port,
        })
    }
}
