//! TLS, logins and permissions of clients.

use std::net::IpAddr;

use client::tls::{ClientStores, Connector};
use client::{Acl, Client, Login, Options, Secret, digest_id, perms};
use parking_lot::Mutex;
use testkit::Random;
use testkit::certificates::Authority;
use tokio::time::Instant;

use super::connectors::Connectors;
use super::files::{Files, Kind};
use super::rules::{format, versions};
use super::schemes::{Ports, Scheme};
use super::stores::Format;
use super::super_users::{self, SuperUser};
use crate::addresses::{CLIENT_PORT, SECURE_PORT, attacker};

/// Password of the clients, in all schemes.
pub(crate) const PASSWORD: &str = "the password of all clients";
pub(super) const READER_PASSWORD: &str = "of a reader";
const PROVIDER: &str = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
const MODULE: &str = "org.apache.zookeeper.server.auth.DigestLoginModule required";

/// Security of the ports for clients.
#[derive(Debug)]
pub(crate) struct ClientSecurity {
    pub(crate) authority: Authority,
    pub(crate) ports: Ports,
    pub(crate) scheme: Scheme,
    /// Whether requests without the common identity are refused, whatever the ACL is.
    pub(crate) is_enforced: bool,
    /// Whether servers ignore ACLs.
    pub(crate) skips_acl: bool,
    /// Lines of zoo.cfg.
    pub(crate) lines: String,
    /// Section of the JAAS file.
    pub(crate) jaas: String,
    /// Connector with a certificate.
    named: Option<Connector>,
    /// Connector without a certificate, if servers accept it.
    unnamed: Option<Connector>,
    /// Value of `ssl.clientAuth`.
    pub(super) client_auth: &'static str,
    has_list: bool,
    /// Store with the servers' certificate, if they use TLS.
    store: Option<(Format, Kind)>,
    /// Time at which the certificate of the other client was revoked.
    pub(super) revoked_at: Mutex<Option<Instant>>,
    pub(super) intruders: Connectors,
    pub(super) super_user: Option<SuperUser>,
}

impl ClientSecurity {
    pub(crate) fn draw(random: &mut Random, files: &Files, members: &Authority) -> Self {
        let ports = [Ports::Plain, Ports::Both, Ports::Unified, Ports::Secure];
        let ports = random.pick(&ports).unwrap_or(Ports::Plain);
        let schemes = [Scheme::Anyone, Scheme::Digest, Scheme::Sasl, Scheme::X509];
        let scheme = match random.pick(&schemes).unwrap_or(Scheme::Anyone) {
            Scheme::X509 if ports == Ports::Plain => Scheme::Digest,
            scheme => scheme,
        };
        let mut security = Self {
            authority: Authority::new("Authority of clients"),
            ports,
            scheme,
            is_enforced: scheme != Scheme::Anyone && random.percent(50),
            skips_acl: random.percent(5),
            lines: String::new(),
            jaas: String::new(),
            named: None,
            unnamed: None,
            client_auth: "none",
            has_list: false,
            store: None,
            revoked_at: Mutex::default(),
            intruders: Connectors::default(),
            super_user: SuperUser::draw(random, scheme),
        };
        if ports != Ports::Plain {
            security.add_tls(random, files);
        }
        if scheme == Scheme::Sasl || random.percent(25) {
            security.add("authProvider.sasl", PROVIDER);
            let section = if random.percent(70) {
                "Server"
            } else {
                security.add("sasl.serverconfig", "Clients");
                "Clients"
            };
            security.jaas = format!(
                "{section} {{\n {MODULE} user_app=\"{PASSWORD}\" user_eve=\"of an intruder\"\n \
                 user_{}=\"{}\";\n}};\n",
                super_users::NAME,
                super_users::PASSWORD
            );
        }
        security.add_enforcement(random);
        security.add_limits(random);
        security.add_secrets(random, files);
        let super_user = security.super_user.map(SuperUser::line);
        security.lines += &super_user.unwrap_or_default();
        let trusted = members.pem().to_owned() + security.authority.pem();
        security.intruders =
            Connectors::new(files, &security.authority, &trusted, security.has_list);
        security
    }

    fn add(&mut self, key: &str, value: &str) {
        self.lines += &format!("{key}={value}\n");
    }

    fn add_enforcement(&mut self, random: &mut Random) {
        if !self.is_enforced {
            return;
        }
        let scheme = match self.scheme {
            Scheme::Anyone => return,
            Scheme::Digest => "digest",
            Scheme::X509 => "x509",
            Scheme::Sasl if random.percent(50) => {
                return self.add("sessionRequireClientSASLAuth", "true");
            }
            Scheme::Sasl => "sasl",
        };
        self.add("enforce.auth.enabled", "true");
        self.add("enforce.auth.schemes", scheme);
    }

    /// Adds the secrets of sessions.
    fn add_secrets(&mut self, random: &mut Random, files: &Files) {
        if random.percent(40) {
            let secrets = "a secret of sessions that is longer than 32 bytes\n";
            let file = files.write("session-secrets", secrets);
            self.add("zoarium.sessionSecretFile", &file.display().to_string());
        }
    }

    /// Adds limits that the clients of the ensemble never reach.
    fn add_limits(&mut self, random: &mut Random) {
        if random.percent(30) {
            let failures = random.range(1, 10);
            self.add("auth.maxFailuresPerMinute", &failures.to_string());
        }
        if random.percent(30) {
            let limit = random.range(1, 20);
            self.add("budget.attackers.who", &format!("ip:{}", attacker()));
            self.add("budget.attackers.requestsPerSecond", &limit.to_string());
            self.add(
                "budget.attackers.bytesPerSecond",
                &(limit * 100).to_string(),
            );
            self.add("budget.app.who", "digest:*");
            self.add("budget.app.requestsPerSecond", "100");
            self.add("budget.app.watches", "100");
        }
        if random.percent(20) {
            let limit = random.range(5, 50);
            self.add(
                "netty.server.outstandingHandshake.limit",
                &limit.to_string(),
            );
        }
        if random.percent(20) {
            let connections = random.range(30, 100);
            self.add("maxClientCnxns", &connections.to_string());
        }
        if random.percent(20) {
            let ms = random.range(100, 9_000);
            self.add("ssl.handshakeDetectionTimeoutMillis", &ms.to_string());
        }
        if self.scheme != Scheme::Digest && self.super_user != Some(SuperUser::Digest) {
            let is_enabled = random.percent(80);
            self.add(
                "DigestAuthenticationProvider.enabled",
                &is_enabled.to_string(),
            );
        }
        if random.percent(20) {
            self.add("allowSaslFailedClients", "true");
        }
        if self.skips_acl {
            self.add("skipACL", "yes");
        }
    }

    fn add_tls(&mut self, random: &mut Random, files: &Files) {
        let kind = if random.percent(10) {
            Kind::Version1
        } else {
            Kind::Valid
        };
        let format = format(random, kind);
        let has_file = random.percent(50);
        self.store = Some((format, kind));
        let server = files.sign(&self.authority, "server", kind);
        let key = files.key_store("server", &server, format);
        let trust = files.trust_store("clients", self.authority.pem(), format);
        self.lines += &files.lines("ssl.keyStore", &key, format, has_file);
        self.lines += &files.lines("ssl.trustStore", &trust, format, has_file);
        self.lines += &versions(random, "ssl.");
        let client_auth = random.pick(&["none", "want", "need"]).unwrap_or("need");
        let client_auth = match self.scheme {
            Scheme::X509 if client_auth == "none" => "want",
            _ => client_auth,
        };
        self.add("ssl.clientAuth", client_auth);
        self.client_auth = client_auth;
        if client_auth == "need" && kind == Kind::Valid && random.percent(30) {
            self.add("ssl.clientHostnameVerification", "true");
        }
        if self.ports == Ports::Unified {
            self.add("client.portUnification", "true");
        }
        self.has_list = random.percent(30);
        if self.has_list {
            let list = self.authority.revoke(&["revoked"], 4000);
            let list = files.write("clients.crl", list.pem().expect("a list"));
            self.add("ssl.crl.location", &list.display().to_string());
        }
        self.add("client.certReload", "true");
        let trusted = files.write("client-trust.pem", self.authority.pem());
        let app = files.sign(&self.authority, "app", kind);
        let app = files.write("client-app.pem", app.pem);
        let stores = ClientStores {
            checks_hosts: kind == Kind::Valid,
            resumes_sessions: random.percent(50),
            ..ClientStores::trusting(trusted)
        };
        let unnamed = Connector::of_client(&stores).expect("stores");
        let named = Connector::of_client(&stores.with_key(app)).expect("stores");
        let needs_name = client_auth == "need" || self.scheme == Scheme::X509;
        self.unnamed = (!needs_name).then_some(unnamed);
        self.named = Some(named);
    }

    /// Replaces the certificate of the servers, or revokes the certificate of the other client.
    pub(super) fn replace(&self, random: &mut Random, files: &Files) {
        let Some((format, kind)) = self.store else {
            return;
        };
        if self.has_list && random.percent(50) {
            let list = self.authority.revoke(&["revoked", "eve"], 4000);
            files.write("clients.crl", list.pem().expect("a list"));
            self.revoked_at.lock().get_or_insert_with(Instant::now);
        } else {
            let server = files.sign(&self.authority, "server", kind);
            files.key_store("server", &server, format);
        }
    }

    /// Returns the lines of zoo.cfg for a member with this address.
    pub(crate) fn lines_at(&self, address: IpAddr) -> String {
        let mut lines = self.lines.clone();
        if self.ports != Ports::Secure {
            lines += &format!("clientPort={CLIENT_PORT}\nclientPortAddress={address}\n");
        }
        if matches!(self.ports, Ports::Both | Ports::Secure) {
            lines +=
                &format!("secureClientPort={SECURE_PORT}\nsecureClientPortAddress={address}\n");
        }
        lines
    }

    /// Returns the options of a client of the ensemble.
    pub(crate) fn options(&self, addresses: &[IpAddr], random: &mut Random) -> Options {
        let has_tls = match self.ports {
            Ports::Plain => false,
            Ports::Secure => true,
            Ports::Both | Ports::Unified => self.scheme == Scheme::X509 || random.percent(60),
        };
        let port = if has_tls && self.ports != Ports::Unified {
            SECURE_PORT
        } else {
            CLIENT_PORT
        };
        let servers = addresses.iter().map(|address| format!("{address}:{port}"));
        let servers: Vec<String> = servers.collect();
        let mut options = Options::new(&servers.join(","));
        if has_tls {
            let unnamed = self.unnamed.as_ref().filter(|_| random.percent(50));
            let connector = unnamed.or(self.named.as_ref()).expect("a connector");
            options = options.with_connector(connector.clone());
        }
        if self.scheme == Scheme::Sasl || (!self.jaas.is_empty() && random.percent(30)) {
            options = options.with_login(Login::digest_md5("app", Secret::new(PASSWORD)));
        }
        options
    }

    /// Adds the common identity to a connected client.
    pub(crate) async fn identify(&self, client: &Client) -> client::Result<()> {
        match self.scheme {
            Scheme::Digest => client.add_auth("digest", format!("app:{PASSWORD}")).await,
            _ => Ok(()),
        }
    }

    /// Returns the ACL of the vault. With the scheme `digest`, the reader may read it.
    pub(crate) fn vault_acl(&self) -> Vec<Acl> {
        let mut acl = self.acl();
        if self.scheme == Scheme::Digest {
            acl.push(Acl {
                perms: perms::READ,
                id: digest_id("reader", READER_PASSWORD),
            });
        }
        acl
    }

    /// Returns an ACL that permits everything to the common identity, and nothing to others.
    pub(crate) fn acl(&self) -> Vec<Acl> {
        let (scheme, id) = match self.scheme {
            Scheme::Anyone => return vec![Acl::open()],
            Scheme::Digest => {
                let id = digest_id("app", PASSWORD);
                return vec![Acl {
                    perms: perms::ALL,
                    id,
                }];
            }
            Scheme::Sasl => ("sasl", "app"),
            Scheme::X509 => ("x509", "CN=app,OU=Ops,O=Test"),
        };
        let id = client::Id {
            scheme: scheme.into(),
            id: id.into(),
        };
        vec![Acl {
            perms: perms::ALL,
            id,
        }]
    }
}
