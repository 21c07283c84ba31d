//! Connectors of intruders.

use client::tls::{ClientStores, Connector};
use testkit::Random;
use testkit::certificates::Authority;

use super::files::{Files, Kind};
use super::super_users;

/// Connectors of intruders.
#[derive(Debug, Default)]
pub(super) struct Connectors {
    /// With a trusted certificate of another client.
    pub(super) other: Connector,
    /// Without a certificate.
    pub(super) none: Connector,
    /// With certificates that servers must not trust.
    pub(super) wrong: Vec<(&'static str, Connector)>,
    /// With the certificate of the super user.
    pub(super) super_user: Connector,
}

impl Connectors {
    pub(super) fn new(files: &Files, authority: &Authority, trusted: &str, has_list: bool) -> Self {
        let trusted = files.write("intruder-trust.pem", trusted);
        let stores = ClientStores {
            checks_hosts: false,
            ..ClientStores::trusting(trusted)
        };
        let none = Connector::of_client(&stores).expect("stores");
        let with_key = |name: &str, authority: &Authority, kind| {
            let pair = files.sign(authority, name, kind);
            let file = files.write(&format!("intruder-{name}-{kind:?}.pem"), pair.pem);
            Connector::of_client(&stores.clone().with_key(file)).expect("stores")
        };
        let foreign = Authority::new("Authority of intruders");
        let mut wrong = vec![
            ("another authority", with_key("app", &foreign, Kind::Valid)),
            (
                "a self-signed certificate",
                with_key("self", authority, Kind::SelfSigned),
            ),
            (
                "an expired certificate",
                with_key("late", authority, Kind::Expired),
            ),
        ];
        if has_list {
            let revoked = with_key("revoked", authority, Kind::Valid);
            wrong.push(("a revoked certificate", revoked));
        }
        Self {
            other: with_key("eve", authority, Kind::Valid),
            super_user: with_key(super_users::NAME, authority, Kind::Valid),
            none,
            wrong,
        }
    }

    /// Draws a connector without a certificate that servers of members trust.
    pub(super) fn draw(&self, random: &mut Random) -> Connector {
        let mut all = vec![&self.other, &self.none];
        all.extend(self.wrong.iter().map(|(_, connector)| connector));
        all[random.below(all.len())].clone()
    }
}
