//! Clients without the permissions of the ensemble's clients, and super users.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use client::tls::Connector;
use client::{Dial, Dialing, Duplex, Login, Options, Secret};
use testkit::Random;

use super::clients::{ClientSecurity, PASSWORD, READER_PASSWORD};
use super::schemes::{Ports, Scheme};
use super::super_users::{self, SuperClient, SuperUser};
use crate::addresses::{CLIENT_PORT, SECURE_PORT, connect};

/// Time after which servers have loaded a changed list. They check every second.
const LISTS_LOADED_WITHIN: Duration = Duration::from_secs(10);

/// A client that must not read or change protected znodes.
#[derive(Debug)]
pub(crate) struct Intruder {
    pub(crate) name: &'static str,
    pub(crate) options: Options,
    /// Credentials of the scheme `digest`.
    pub(crate) digest: Option<String>,
    /// Whether the client may read the vault.
    pub(crate) is_reader: bool,
    /// Whether the server must not accept the connection.
    pub(crate) is_refused: bool,
}

/// Port and certificate of an intruder.
struct Route {
    port: u16,
    connector: Connector,
    name: &'static str,
    is_refused: bool,
}

impl ClientSecurity {
    /// Draws the port and the certificate of an intruder.
    fn route(&self, random: &mut Random) -> Route {
        let uses_tls = match self.ports {
            Ports::Plain => false,
            Ports::Secure => true,
            Ports::Both | Ports::Unified => random.percent(50),
        };
        let port = if uses_tls && self.ports != Ports::Unified {
            SECURE_PORT
        } else {
            CLIENT_PORT
        };
        let (mut port, mut connector) = (port, Connector::plain());
        let (mut name, mut is_refused) = ("another client", false);
        if uses_tls {
            connector = self.intruders.other.clone();
            let revoked_at = *self.revoked_at.lock();
            if revoked_at.is_some_and(|at| at.elapsed() > LISTS_LOADED_WITHIN) {
                name = "a certificate that was revoked during the run";
                is_refused = self.client_auth != "none";
            }
            let wrong = random.below(self.intruders.wrong.len() * 2);
            if random.percent(30) {
                name = "no certificate";
                connector = self.intruders.none.clone();
                is_refused = self.client_auth == "need";
            } else if let Some((wrong, with)) = self.intruders.wrong.get(wrong) {
                name = wrong;
                connector = with.clone();
                is_refused = self.client_auth != "none";
            } else if self.ports != Ports::Unified && random.percent(15) {
                name = "plain bytes to a port for TLS";
                connector = Connector::plain();
                is_refused = true;
            }
        } else if self.ports == Ports::Both && random.percent(20) {
            name = "TLS to a plain port";
            connector = self.intruders.none.clone();
            port = CLIENT_PORT;
            is_refused = true;
        }
        Route {
            port,
            connector,
            name,
            is_refused,
        }
    }

    /// Draws an intruder.
    pub(crate) fn intruder(
        &self,
        addresses: &[IpAddr],
        source: IpAddr,
        random: &mut Random,
    ) -> Intruder {
        let Route {
            port,
            connector,
            mut name,
            mut is_refused,
        } = self.route(random);
        let server = random.pick(addresses).expect("members");
        let dialer = Arc::new(Source { connector, source });
        let mut options = Options::new(&format!("{server}:{port}")).with_dialer(dialer);
        let (mut digest, mut is_reader) = (None, false);
        match random.below(6) {
            0 => digest = Some("eve:secret".to_owned()),
            1 => digest = Some("app:guess".to_owned()),
            5 if self.scheme == Scheme::Digest && !is_refused => {
                name = "a reader";
                is_reader = true;
                digest = Some(format!("reader:{READER_PASSWORD}"));
            }
            2 if !self.jaas.is_empty() && self.scheme == Scheme::Sasl => {
                let secret = Secret::new("of an intruder");
                options = options.with_login(Login::digest_md5("eve", secret));
            }
            3 if !self.jaas.is_empty() => {
                name = "a wrong password";
                is_refused = true;
                let secret = Secret::new("guess");
                options = options.with_login(Login::digest_md5("app", secret));
            }
            4 if !self.jaas.is_empty() => {
                name = "an unknown user";
                is_refused = true;
                let secret = Secret::new(PASSWORD);
                options = options.with_login(Login::digest_md5("nobody", secret));
            }
            _ => {}
        }
        Intruder {
            name,
            options,
            digest,
            is_reader,
            is_refused,
        }
    }

    /// Changes the options of a permitted client to the options of the super user, if there is one.
    pub(super) fn super_client(&self, options: Options) -> Option<SuperClient> {
        let (options, digest) = match self.super_user? {
            SuperUser::Digest => (options, Some(format!("super:{}", super_users::PASSWORD))),
            SuperUser::Sasl => {
                let login =
                    Login::digest_md5(super_users::NAME, Secret::new(super_users::PASSWORD));
                (options.with_login(login), None)
            }
            SuperUser::X509 => {
                let connector = self.intruders.super_user.clone();
                (options.with_connector(connector), None)
            }
        };
        Some(SuperClient { options, digest })
    }
}

/// Dialer that connects from another address than the ensemble's clients.
#[derive(Debug)]
struct Source {
    connector: Connector,
    source: IpAddr,
}

impl Dial for Source {
    fn dial(&self, server: &str) -> Dialing {
        let server: Result<SocketAddr, _> = server.parse();
        let (connector, source) = (self.connector.clone(), self.source);
        Box::pin(async move {
            let server = server.map_err(std::io::Error::other)?;
            let stream = connect(server, source).await?;
            let host = server.ip().to_string();
            let stream = connector.establish(stream, &[&host]).await?;
            Ok(Box::new(stream) as Box<dyn Duplex>)
        })
    }
}
