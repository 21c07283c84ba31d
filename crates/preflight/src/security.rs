//! Checklist of docs/SECURITY.md: the open points of an installation.

use config::finding::{Finding, Severity};
use config::{AdminScheme, Config, MemberCheckMode, QuorumTls};
use server::admin_token;

use crate::finding;

/// Item of the checklist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChecklistItem {
    /// Name of the point.
    pub id: &'static str,
    /// Fault and solution. `None` if the point is in order.
    pub open: Option<Finding>,
}

/// Checks every point. `is_root_open` is `None` if the ACL of `/` could not be read.
pub fn checklist(config: &Config, is_root_open: Option<bool>) -> Vec<ChecklistItem> {
    vec![
        root_open(is_root_open),
        admin_everywhere(config),
        admin_no_credential(config),
        token_readable(config),
        plain_clients(config),
        plain_members(config),
        any_certificate(config),
        session_secrets(config),
        unlimited_logins(config),
        no_audit(config),
        unchecked_hosts(config),
    ]
}

fn checklist_item(
    id: &'static str,
    is_open: bool,
    problem: impl Into<String>,
    way_out: &str,
) -> ChecklistItem {
    let open = || Finding::new(id, Severity::Warning, problem.into()).way_out(way_out);
    ChecklistItem {
        id,
        open: is_open.then(open),
    }
}

fn root_open(is_open: Option<bool>) -> ChecklistItem {
    let problem = match is_open {
        Some(_) => "the ACL of / grants all permissions to everybody",
        None => "the ACL of / could not be read and may grant all permissions to everybody",
    };
    checklist_item(
        finding::ROOT_OPEN,
        is_open.unwrap_or(true),
        problem,
        "run as a super user: setAcl / digest:USER:HASH:cdrwa,world:anyone:r",
    )
}

fn is_everywhere(host: &str) -> bool {
    matches!(host, "0.0.0.0" | "::" | "")
}

fn admin_everywhere(config: &Config) -> ChecklistItem {
    let admin = &config.admin;
    let is_open =
        admin.is_enabled && is_everywhere(&admin.address) && admin.scheme != AdminScheme::Https;
    checklist_item(
        finding::ADMIN_EVERYWHERE,
        is_open,
        "the admin port listens on all addresses without TLS",
        "set admin.serverAddress=127.0.0.1, or admin.forceHttps=true with admin.needClientAuth=true",
    )
}

fn admin_no_credential(config: &Config) -> ChecklistItem {
    let auth = &config.auth;
    let has_super = auth.super_digest.is_some()
        || auth.x509_super_user.is_some()
        || !auth.super_users.is_empty();
    let has_token = matches!(
        admin_token::read(&admin_token::path(&config.data_dir)),
        Ok(Some(_))
    );
    checklist_item(
        finding::ADMIN_NO_CREDENTIAL,
        config.admin.is_enabled && !has_super && !has_token,
        "administrators do not have a credential, so backups over the admin port are not possible",
        "run `zoarium admin-token` with this zoo.cfg, or set DigestAuthenticationProvider.superDigest",
    )
}

fn token_readable(config: &Config) -> ChecklistItem {
    let file = admin_token::path(&config.data_dir);
    let wrong = admin_token::read(&file).err();
    let problem = wrong
        .as_ref()
        .map(|error| format!("{}: {error}", file.display()));
    checklist_item(
        finding::TOKEN_READABLE,
        wrong.is_some(),
        problem.unwrap_or_default(),
        "run `zoarium admin-token --new` with this zoo.cfg",
    )
}

fn plain_clients(config: &Config) -> ChecklistItem {
    let plain = config.client.plain.as_ref();
    checklist_item(
        finding::PLAIN_CLIENTS,
        plain.is_some_and(|at| !at.ip.is_loopback()),
        "clientPort accepts plain connections from other machines",
        "use secureClientPort with certificates, or set clientPortAddress=127.0.0.1",
    )
}

fn plain_members(config: &Config) -> ChecklistItem {
    let ensemble = config.ensemble.as_ref();
    let quorum_tls = config.quorum_tls.as_ref();
    let needs_tls = quorum_tls.is_some_and(|tls| tls.is_enabled && !tls.port_unification);
    let is_open = !needs_tls && ensemble.is_some_and(|own| !own.sasl.server_requires);
    checklist_item(
        finding::PLAIN_MEMBERS,
        is_open,
        "members accept plain connections from each other without a login",
        "set sslQuorum=true without portUnification, or quorum.auth.serverRequireSasl=true",
    )
}

fn any_certificate(config: &Config) -> ChecklistItem {
    let quorum_tls = config.quorum_tls.as_ref();
    let accepts = |tls: &QuorumTls| tls.is_enabled && tls.member_check != MemberCheckMode::Refuse;
    checklist_item(
        finding::ANY_CERTIFICATE,
        config.ensemble.is_some() && quorum_tls.is_some_and(accepts),
        "every peer with a certificate that the members' trust store trusts may join",
        "set zoarium.ssl.quorum.memberCheck=refuse once the log no longer reports certificates that do not belong to a member",
    )
}

fn session_secrets(config: &Config) -> ChecklistItem {
    checklist_item(
        finding::SESSION_SECRETS,
        config.ensemble.is_some() && config.sessions.secrets.is_empty(),
        "members do not share a secret for session passwords, so anyone with a session id can compute its password",
        "set zoarium.sessionSecretFile on every member when none of them runs Apache ZooKeeper",
    )
}

fn unlimited_logins(config: &Config) -> ChecklistItem {
    checklist_item(
        finding::GUESSING,
        config.auth.failures_per_minute_max.is_none(),
        "the number of failed logins is not limited",
        "set auth.maxFailuresPerMinute, for example to 30",
    )
}

fn no_audit(config: &Config) -> ChecklistItem {
    checklist_item(
        finding::NO_AUDIT,
        config.audit.is_none(),
        "changes by clients are not written to an audit log",
        "set audit.enable=true",
    )
}

fn unchecked_hosts(config: &Config) -> ChecklistItem {
    let admin = &config.admin;
    checklist_item(
        finding::ANY_HOST,
        admin.is_enabled && !admin.strict_host,
        "read-only admin commands accept any name in the header Host",
        "set admin.strictHost=true, and list the server's names in admin.console.hosts",
    )
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::IpAddr;
    use std::path::Path;

    use config::{RawConfig, Surroundings, SystemProperties};

    use super::*;

    /// Machine on which every file contains the server id 1, and every host name is unknown.
    struct Machine;

    impl Surroundings for Machine {
        fn read(&mut self, _: &Path, _: usize) -> io::Result<Vec<u8>> {
            Ok(b"1\n".to_vec())
        }

        fn resolve(&mut self, _: &str) -> io::Result<IpAddr> {
            Err(io::ErrorKind::NotFound.into())
        }
    }

    fn open(text: &str, is_root_open: Option<bool>) -> Vec<&'static str> {
        let raw = RawConfig::parse("zoo.cfg".as_ref(), text.as_bytes()).expect("zoo.cfg");
        let config =
            Config::parse(raw, SystemProperties::new(), &mut Machine).expect("a configuration");
        let points = checklist(&config, is_root_open).into_iter();
        points
            .filter_map(|point| {
                let found = point.open?;
                assert_eq!(found.id, point.id);
                assert!(found.way_out.is_some(), "{}", point.id);
                Some(point.id)
            })
            .collect()
    }

    /// Every point is open in one configuration and closed in another.
    #[test]
    fn points_are_open_until_they_are_closed() {
        let dir = tempfile::tempdir().expect("a directory");
        let data = dir.path().display();
        let of_defaults = open(&format!("dataDir={data}\nclientPort=2181\n"), Some(true));
        let expected = [
            finding::ROOT_OPEN,
            finding::ADMIN_EVERYWHERE,
            finding::ADMIN_NO_CREDENTIAL,
            finding::PLAIN_CLIENTS,
            finding::GUESSING,
            finding::NO_AUDIT,
            finding::ANY_HOST,
        ];
        assert_eq!(of_defaults, expected);
        let closed = format!(
            "dataDir={data}\nclientPort=2181\nclientPortAddress=127.0.0.1\nadmin.serverAddress=127.0.0.1\n\
             admin.strictHost=true\naudit.enable=true\nauth.maxFailuresPerMinute=30\n"
        );
        assert_eq!(
            open(&closed, None),
            [finding::ROOT_OPEN, finding::ADMIN_NO_CREDENTIAL]
        );
        let token = admin_token::path(dir.path());
        admin_token::ensure(dir.path(), false).expect("a credential");
        assert_eq!(open(&closed, Some(false)), Vec::<&str>::new());
        let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        std::fs::set_permissions(token, everybody).expect("set its mode");
        let readable = open(&closed, Some(false));
        assert_eq!(
            readable,
            [finding::ADMIN_NO_CREDENTIAL, finding::TOKEN_READABLE]
        );

        let member = format!(
            "{closed}initLimit=10\nsyncLimit=5\nserver.1=127.0.0.1:1:2\nserver.2=127.0.0.1:3:4\nserver.3=127.0.0.1:5:6\n"
        );
        let of_member = open(&member, Some(false));
        assert!(of_member.contains(&finding::PLAIN_MEMBERS), "{of_member:?}");
        assert!(
            of_member.contains(&finding::SESSION_SECRETS),
            "{of_member:?}"
        );
        let by_tls = format!(
            "{member}sslQuorum=true\nssl.quorum.keyStore.location=k.pem\nssl.quorum.trustStore.location=t.pem\n"
        );
        let of_member = open(&by_tls, Some(false));
        assert!(
            !of_member.contains(&finding::PLAIN_MEMBERS),
            "{of_member:?}"
        );
        assert!(
            of_member.contains(&finding::ANY_CERTIFICATE),
            "{of_member:?}"
        );
        let refuse = format!("{by_tls}zoarium.ssl.quorum.memberCheck=refuse\n");
        assert!(!open(&refuse, Some(false)).contains(&finding::ANY_CERTIFICATE));
    }

    #[test]
    fn the_security_page_names_every_point() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/SECURITY.md");
        let page = std::fs::read_to_string(page).expect("docs/SECURITY.md");
        let (_, table) = page.split_once("### The checklist").expect("the checklist");
        let lines = table.lines().filter_map(|line| line.strip_prefix("| `"));
        let named = lines.filter_map(|line| line.split('`').next());
        let raw = RawConfig::parse("zoo.cfg".as_ref(), b"dataDir=/nowhere\nclientPort=1\n");
        let flags = SystemProperties::new();
        let config = Config::parse(raw.expect("zoo.cfg"), flags, &mut Machine);
        let points = checklist(&config.expect("a configuration"), None);
        let points: Vec<&str> = points.iter().map(|point| point.id).collect();
        assert_eq!(named.take(points.len()).collect::<Vec<_>>(), points);
    }
}
