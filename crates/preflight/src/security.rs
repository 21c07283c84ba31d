//! The checklist of docs/SECURITY.md: what is open, point by point.

use config::finding::{Finding, Severity};
use config::{AdminScheme, Config, MemberCheckMode, QuorumTls};
use server::admin_token;

use crate::finding;

/// Whether each point is closed. A point that is open comes with the way to close it.
pub fn checklist(config: &Config) -> Vec<(&'static str, Option<Finding>)> {
    vec![
        admin_everywhere(config),
        admin_no_credential(config),
        token_readable(config),
        plain_clients(config),
        plain_members(config),
        any_certificate(config),
        guessing(config),
        no_audit(config),
        any_host(config),
    ]
}

type Point = (&'static str, Option<Finding>);

fn point(id: &'static str, is_open: bool, problem: impl Into<String>, way_out: &str) -> Point {
    let open = || Finding::new(id, Severity::Warning, problem.into()).way_out(way_out);
    (id, is_open.then(open))
}

fn is_everywhere(host: &str) -> bool {
    matches!(host, "0.0.0.0" | "::" | "")
}

fn admin_everywhere(config: &Config) -> Point {
    let admin = &config.admin;
    let is_open =
        admin.is_enabled && is_everywhere(&admin.address) && admin.scheme != AdminScheme::Https;
    point(
        finding::ADMIN_EVERYWHERE,
        is_open,
        "the admin port listens on every address without TLS",
        "set admin.serverAddress=127.0.0.1, or admin.forceHttps=true with admin.needClientAuth=true",
    )
}

fn admin_no_credential(config: &Config) -> Point {
    let auth = &config.auth;
    let has_super = auth.super_digest.is_some()
        || auth.x509_super_user.is_some()
        || !auth.super_users.is_empty();
    let has_token = matches!(
        admin_token::read(&admin_token::path(&config.data_dir)),
        Ok(Some(_))
    );
    point(
        finding::ADMIN_NO_CREDENTIAL,
        config.admin.is_enabled && !has_super && !has_token,
        "there is no credential of an administrator, so nobody can back the server up over its admin port",
        "run `zoarium admin-token` with this zoo.cfg, or set DigestAuthenticationProvider.superDigest",
    )
}

fn token_readable(config: &Config) -> Point {
    let file = admin_token::path(&config.data_dir);
    let wrong = admin_token::read(&file).err();
    let problem = wrong
        .as_ref()
        .map(|error| format!("{}: {error}", file.display()));
    point(
        finding::TOKEN_READABLE,
        wrong.is_some(),
        problem.unwrap_or_default(),
        "run `zoarium admin-token --new` with this zoo.cfg",
    )
}

fn plain_clients(config: &Config) -> Point {
    let plain = config.client.plain.as_ref();
    point(
        finding::PLAIN_CLIENTS,
        plain.is_some_and(|at| !at.ip.is_loopback()),
        "clientPort takes plain connections from other machines",
        "use secureClientPort with certificates, or set clientPortAddress=127.0.0.1",
    )
}

fn plain_members(config: &Config) -> Point {
    let ensemble = config.ensemble.as_ref();
    let quorum_tls = config.quorum_tls.as_ref();
    let needs_tls = quorum_tls.is_some_and(|tls| tls.is_enabled && !tls.port_unification);
    let is_open = !needs_tls && ensemble.is_some_and(|own| !own.sasl.server_requires);
    point(
        finding::PLAIN_MEMBERS,
        is_open,
        "members take plain connections from each other, and log in with nothing",
        "set sslQuorum=true without portUnification, or quorum.auth.serverRequireSasl=true",
    )
}

fn any_certificate(config: &Config) -> Point {
    let quorum_tls = config.quorum_tls.as_ref();
    let accepts = |tls: &QuorumTls| tls.is_enabled && tls.member_check != MemberCheckMode::Refuse;
    point(
        finding::ANY_CERTIFICATE,
        config.ensemble.is_some() && quorum_tls.is_some_and(accepts),
        "every certificate that the trust store of the members trusts may join",
        "set zoarium.ssl.quorum.memberCheck=refuse, once the log has no line about a certificate that belongs to no member",
    )
}

fn guessing(config: &Config) -> Point {
    point(
        finding::GUESSING,
        config.auth.failures_per_minute_max.is_none(),
        "logins may fail as often as a peer likes",
        "set auth.maxFailuresPerMinute, for example to 30",
    )
}

fn no_audit(config: &Config) -> Point {
    point(
        finding::NO_AUDIT,
        config.audit.is_none(),
        "no audit log has the changes of clients",
        "set audit.enable=true",
    )
}

fn any_host(config: &Config) -> Point {
    let admin = &config.admin;
    point(
        finding::ANY_HOST,
        admin.is_enabled && !admin.strict_host,
        "commands that change nothing are answered under any name in Host",
        "set admin.strictHost=true, and name the server's names in admin.console.hosts",
    )
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::IpAddr;
    use std::path::Path;

    use config::{RawConfig, Surroundings, SystemProperties};

    use super::*;

    /// A machine whose only file is `myid`.
    struct Machine;

    impl Surroundings for Machine {
        fn read(&mut self, _: &Path, _: usize) -> io::Result<Vec<u8>> {
            Ok(b"1\n".to_vec())
        }

        fn resolve(&mut self, _: &str) -> io::Result<IpAddr> {
            Err(io::ErrorKind::NotFound.into())
        }
    }

    /// The points that are open with these lines besides a data directory.
    fn open_points(lines: &str) -> Vec<&'static str> {
        let text = format!("dataDir=/data\nclientPort=2181\n{lines}");
        let raw = RawConfig::parse(Path::new("zoo.cfg"), text.as_bytes()).unwrap();
        let config = Config::parse(raw, SystemProperties::default(), &mut Machine).unwrap();
        let points = checklist(&config).into_iter();
        points.filter_map(|(id, open)| open.map(|_| id)).collect()
    }

    #[test]
    fn members_that_accept_each_trusted_certificate_are_an_open_point() {
        let member = "initLimit=10\nsyncLimit=5\nserver.1=127.0.0.1:2888:3888\n\
                      server.2=127.0.0.2:2888:3888\nserver.3=127.0.0.3:2888:3888\n\
                      ssl.quorum.keyStore.location=/a.pem\nssl.quorum.trustStore.location=/b.pem\n";
        for (lines, is_open) in [
            ("sslQuorum=true\n", true),
            ("sslQuorum=true\nzoarium.ssl.quorum.memberCheck=off\n", true),
            (
                "sslQuorum=true\nzoarium.ssl.quorum.memberCheck=refuse\n",
                false,
            ),
            ("", false),
        ] {
            let open = open_points(&format!("{member}{lines}"));
            assert_eq!(
                open.contains(&finding::ANY_CERTIFICATE),
                is_open,
                "{lines}: {open:?}"
            );
            assert_eq!(
                open.contains(&finding::PLAIN_MEMBERS),
                lines.is_empty(),
                "{open:?}"
            );
        }
    }
}
