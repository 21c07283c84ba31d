//! TLS, logins and permissions that a seed draws.

mod clients;
mod connectors;
mod files;
mod intruders;
mod members;
mod rules;
mod schemes;
pub(crate) mod secrets;
mod stores;
mod super_users;

use std::net::IpAddr;

use client::{Acl, Client, Connector, Error, ErrorCode, Options};
use proto::Sid;
use testkit::Random;

use self::clients::ClientSecurity;
use self::files::Files;
use self::intruders::Intruder;
use self::members::MemberSecurity;
use self::schemes::Scheme;
use self::super_users::SuperClient;
use crate::addresses::{address_of, attacker, observer};

/// Passwords that no attacker may receive.
pub(crate) const PASSWORDS: [&str; 4] = [
    clients::PASSWORD,
    members::PASSWORD,
    stores::PASSWORD,
    super_users::PASSWORD,
];

/// Security of an ensemble.
#[derive(Debug)]
pub(crate) struct Security {
    files: Files,
    members: MemberSecurity,
    clients: ClientSecurity,
    addresses: Vec<IpAddr>,
}

impl Security {
    pub(crate) fn draw(random: &mut Random, members: &[Sid]) -> Self {
        let addresses: Vec<IpAddr> = members.iter().copied().map(address_of).collect();
        let with_observer = [addresses.clone(), vec![observer()]].concat();
        let files = Files::new(with_observer);
        let members = MemberSecurity::draw(random, &files, members);
        let security = Self {
            clients: ClientSecurity::draw(random, &files, &members.authority),
            members,
            files,
            addresses,
        };
        let jaas = security.members.jaas.clone() + &security.clients.jaas;
        security.files.write("jaas.conf", jaas);
        security
    }

    /// Returns the lines of zoo.cfg for a member.
    pub(crate) fn lines(&self, member: Sid) -> String {
        let of_members = self.members.lines.get(&member);
        let of_members = of_members.map_or("", String::as_str);
        of_members.to_owned() + &self.clients.lines_at(address_of(member))
    }

    /// Returns the system properties of all members.
    pub(crate) fn properties(&self) -> Vec<String> {
        if self.members.jaas.is_empty() && self.clients.jaas.is_empty() {
            return Vec::new();
        }
        let path = self.files.path("jaas.conf");
        vec![format!(
            "java.security.auth.login.config={}",
            path.display()
        )]
    }

    /// Returns the options of a client of the ensemble, which connects to any member.
    pub(crate) fn options(&self, random: &mut Random) -> Options {
        if random.percent(30) {
            return self.clients.options(&[observer()], random);
        }
        self.clients.options(&self.addresses, random)
    }

    /// Returns the options of a client of the ensemble, which connects to one member.
    pub(crate) fn options_of(&self, member: Sid, random: &mut Random) -> Options {
        self.clients.options(&[address_of(member)], random)
    }

    /// Adds the identity of the clients of the ensemble to a connected client.
    pub(crate) async fn identify(&self, client: &Client) -> client::Result<()> {
        self.clients.identify(client).await
    }

    /// Returns the ACL of the znodes of the ensemble's clients.
    pub(crate) fn acl(&self) -> Vec<Acl> {
        self.clients.acl()
    }

    /// Returns the ACL of the vault.
    pub(crate) fn vault_acl(&self) -> Vec<Acl> {
        self.clients.vault_acl()
    }

    /// Returns whether an error means that a client lacks permissions.
    pub(crate) fn is_refusal(error: &Error) -> bool {
        let refusals = [
            ErrorCode::NoAuth,
            ErrorCode::AuthFailed,
            ErrorCode::SessionClosedRequireSaslAuth,
        ];
        error.code().is_some_and(|code| refusals.contains(&code))
    }

    /// Returns whether the ACL excludes attackers.
    pub(crate) fn is_protected(&self) -> bool {
        self.clients.scheme != Scheme::Anyone && !self.clients.skips_acl
    }

    /// Returns a connection of the super user, if there is one.
    pub(crate) fn super_client(&self, random: &mut Random) -> Option<SuperClient> {
        let options = self.clients.options(&self.addresses, random);
        self.clients.super_client(options)
    }

    /// Returns whether nobody can act as a member without a certificate or a password.
    pub(crate) fn refuses_attackers(&self) -> bool {
        self.members.refuses_attackers
    }

    /// Draws a client without permissions.
    pub(crate) fn intruder(&self, random: &mut Random) -> Intruder {
        self.clients.intruder(&self.addresses, attacker(), random)
    }

    /// Draws a connector with TLS and without a certificate that members trust.
    pub(crate) fn attacker(&self, random: &mut Random) -> Connector {
        if let Some(outsider) = &self.members.outsider
            && random.percent(40)
        {
            return outsider.clone();
        }
        self.clients.intruders.draw(random)
    }

    /// Replaces a certificate or a list that running servers load again.
    pub(crate) fn replace(&self, random: &mut Random) {
        if random.percent(50) {
            self.members.replace(random, &self.files);
        } else {
            self.clients.replace(random, &self.files);
        }
    }
}
