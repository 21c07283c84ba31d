//! TLS and logins between members.

use std::collections::BTreeMap;

use client::tls::{ClientStores, Connector};
use proto::Sid;
use testkit::Random;
use testkit::certificates::Authority;

use super::files::{Files, Kind};
use super::rules::{format, versions};
use super::stores::{Format, Pair};

/// Password of the members' logins.
pub(crate) const PASSWORD: &str = "the password of all members";

/// Security of the ports of members.
#[derive(Debug)]
pub(crate) struct MemberSecurity {
    pub(super) authority: Authority,
    /// Lines of zoo.cfg of each member.
    pub(crate) lines: BTreeMap<Sid, String>,
    /// Sections of the JAAS file.
    pub(crate) jaas: String,
    pub(crate) has_tls: bool,
    /// Whether the ports of members refuse everybody without a certificate of a member or without
    /// a login.
    pub(crate) refuses_attackers: bool,
    /// Stores that the servers load again after they change.
    reloaded: Vec<Store>,
    /// Connector with a trusted certificate that members refuse.
    pub(super) outsider: Option<Connector>,
}

#[derive(Debug)]
struct Store {
    name: String,
    format: Format,
    kind: Kind,
}

impl MemberSecurity {
    pub(crate) fn draw(random: &mut Random, files: &Files, members: &[Sid]) -> Self {
        let mut security = Self {
            authority: Authority::new("Authority of members"),
            lines: members.iter().map(|id| (*id, String::new())).collect(),
            jaas: String::new(),
            has_tls: random.percent(50),
            refuses_attackers: false,
            reloaded: Vec::new(),
            outsider: None,
        };
        let has_sasl = random.percent(35);
        if has_sasl {
            security.add_sasl(random);
        }
        if security.has_tls {
            security.add_tls(random, files, has_sasl);
        } else if has_sasl {
            security.add("fips-mode", "false");
        }
        security
    }

    fn add(&mut self, key: &str, value: &str) {
        for lines in self.lines.values_mut() {
            *lines += &format!("{key}={value}\n");
        }
    }

    fn add_sasl(&mut self, random: &mut Random) {
        const MODULE: &str = "org.apache.zookeeper.server.auth.DigestLoginModule required";
        self.jaas = format!(
            "QuorumServer {{\n {MODULE} user_zk=\"{PASSWORD}\" user_old=\"another\";\n}};\n\
             QuorumLearner {{\n {MODULE} username=\"zk\" password=\"{PASSWORD}\";\n}};\n"
        );
        self.add("quorum.auth.enableSasl", "true");
        // The three rounds of a migration.
        match random.below(4) {
            0 => {
                for lines in self.lines.values_mut() {
                    if random.percent(50) {
                        *lines += "quorum.auth.learnerRequireSasl=true\n";
                    }
                }
            }
            _ => {
                self.add("quorum.auth.learnerRequireSasl", "true");
                self.add("quorum.auth.serverRequireSasl", "true");
                self.refuses_attackers = true;
            }
        }
    }

    fn add_tls(&mut self, random: &mut Random, files: &Files, has_sasl: bool) {
        let is_unified = random.percent(25);
        let is_version1 = random.percent(15);
        let kind = if is_version1 {
            Kind::Version1
        } else {
            Kind::Valid
        };
        let client_auth = random.pick(&["none", "want", "need", "need"]);
        let client_auth = client_auth.unwrap_or("need");
        if is_unified {
            self.add("portUnification", "true");
        } else {
            self.refuses_attackers |= client_auth == "need";
        }
        for lines in self.lines.values_mut() {
            let connects_with_tls = !is_unified || random.percent(50);
            *lines += &format!("sslQuorum={connects_with_tls}\n");
        }
        self.add("ssl.quorum.clientAuth", client_auth);
        self.add(
            "fips-mode",
            if has_sasl || random.percent(50) {
                "false"
            } else {
                "true"
            },
        );
        if is_version1 {
            self.add("ssl.quorum.hostnameVerification", "false");
        }
        if is_version1 || client_auth != "need" {
            self.add("ssl.quorum.clientHostnameVerification", "false");
        }
        if client_auth == "need" && random.percent(60) {
            self.add("zoarium.ssl.quorum.memberCheck", "refuse");
            if is_version1 {
                // These certificates contain no addresses.
                self.add("ssl.quorum.members", "another*,member*");
            }
            self.outsider = Some(self.sign_outsider(files));
        }
        let rules = versions(random, "ssl.quorum.");
        if random.percent(30) {
            let list = self.authority.revoke(&["revoked"], 4000);
            let list = files.write("members.crl", list.pem().expect("a list"));
            self.add("ssl.quorum.crl.location", &list.display().to_string());
        }
        let reloads = random.percent(50);
        self.add("sslQuorumReloadCertFiles", &reloads.to_string());
        self.add_certificates(random, files, kind, &rules, reloads);
        if random.percent(50) {
            self.add("admin.portUnification", "true");
            let needs_certificate = random.percent(50);
            self.add("admin.needClientAuth", &needs_certificate.to_string());
        }
    }

    fn add_certificates(
        &mut self,
        random: &mut Random,
        files: &Files,
        kind: Kind,
        rules: &str,
        reloads: bool,
    ) {
        let is_shared = random.percent(30);
        let shared = files.sign(&self.authority, "member", kind);
        let trusted = self.authority.pem().to_owned();
        for (member, lines) in &mut self.lines {
            let format = format(random, kind);
            let has_file = random.percent(50);
            let name = format!("member{}", member.0);
            let pair = if is_shared {
                shared.clone()
            } else {
                files.sign(&self.authority, &name, kind)
            };
            let key = files.key_store(&name, &pair, format);
            let trust = files.trust_store(&format!("trust{}", member.0), &trusted, format);
            *lines += &files.lines("ssl.quorum.keyStore", &key, format, has_file);
            *lines += &files.lines("ssl.quorum.trustStore", &trust, format, has_file);
            *lines += rules;
            if reloads && !is_shared {
                self.reloaded.push(Store { name, format, kind });
            }
        }
    }

    /// Returns a connector with a trusted certificate that does not belong to a member.
    fn sign_outsider(&self, files: &Files) -> Connector {
        let trusted = files.write("outsider-trust.pem", self.authority.pem());
        let pair = files.sign(&self.authority, "outsider", Kind::Elsewhere);
        let key = files.write("outsider.pem", pair.pem);
        let stores = ClientStores {
            checks_hosts: false,
            ..ClientStores::trusting(trusted).with_key(key)
        };
        Connector::of_client(&stores).expect("stores")
    }

    /// Replaces the certificate of a member that loads changed stores.
    pub(crate) fn replace(&self, random: &mut Random, files: &Files) {
        let at = random.below(self.reloaded.len());
        if let Some(Store { name, format, kind }) = self.reloaded.get(at) {
            let pair: Pair = files.sign(&self.authority, name, *kind);
            files.key_store(name, &pair, *format);
        }
    }
}
