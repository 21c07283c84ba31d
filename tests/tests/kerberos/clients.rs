//! Clients that have a ticket: Java's client and Zoarium's.

use std::path::Path;

use tests::{REALM, Server, or_skip};

use crate::realm::{Realm, SERVICE};

fn identities(printed: &[String]) -> Vec<String> {
    let mut identities: Vec<String> = printed
        .iter()
        .filter_map(|line| line.strip_prefix("whoami "))
        .map(str::to_owned)
        .collect();
    identities.sort_unstable();
    identities
}

fn as_user(realm: &Realm, server: &Server, cache: &Path, path: &str) -> Vec<String> {
    let arguments = ["login", &server.address(), SERVICE, path];
    let printed = realm.ours(cache, &arguments).expect("our client");
    printed.unwrap_or_else(|failure| panic!("{failure}\n{}", server.log()))
}

#[test]
#[ignore = "runs other people's programs"]
fn zoariums_client_has_the_identity_of_its_ticket() {
    let Some(realm) = Realm::start("Kerberos") else {
        return;
    };
    let Some(server) = realm.server() else {
        return;
    };
    let ann = realm.kdc.key_tab("ann");
    let cache = realm.kdc.ticket("ann", &ann, "10m");
    let printed = as_user(&realm, &server, &cache, "/ann");
    let expected = vec!["ip 127.0.0.1".to_owned(), format!("sasl ann@{REALM}")];
    assert_eq!(identities(&printed), expected);
    assert!(printed.ends_with(&["create ok".to_owned(), "read ok".to_owned()]));
    let log = server.log();
    assert!(log.contains("client logged in with SASL"), "{log}");
    // Another user may not read the znode.
    let bob = realm.kdc.key_tab("bob");
    let cache = realm.kdc.ticket("bob", &bob, "10m");
    let printed = as_user(&realm, &server, &cache, "/ann");
    assert!(
        printed
            .iter()
            .any(|line| line.starts_with("read ") && line.contains("-102")),
        "{printed:?}"
    );
}

#[test]
#[ignore = "runs other people's programs"]
fn java_logs_in_and_names_are_shortened_as_configured() {
    let Some(realm) = Realm::start("Kerberos") else {
        return;
    };
    let app = realm.kdc.key_tab("app/localhost");
    for (settings, user) in [
        (&[][..], format!("app/localhost@{REALM}")),
        (
            &[("kerberos.removeHostFromPrincipal", "true")],
            format!("app@{REALM}"),
        ),
        (
            &[
                ("kerberos.removeHostFromPrincipal", "true"),
                ("kerberos.removeRealmFromPrincipal", "true"),
                (
                    "security.auth_to_local",
                    "RULE:[2:$1-$2@$0](app-.*)s/@.*// DEFAULT",
                ),
                ("superUser", "app-localhost"),
            ],
            "app-localhost".to_owned(),
        ),
    ] {
        let mut builder = realm.builder();
        for (key, value) in settings {
            builder = builder.setting(key, value);
        }
        let Some(server) = or_skip("Kerberos", builder.start()) else {
            return;
        };
        let printed = realm.java(&server, "app/localhost", &app, "/app");
        let Some(printed) = or_skip("Java", printed) else {
            return;
        };
        assert_eq!(printed[0], "login SaslAuthenticated", "{}", server.log());
        let mut expected = vec!["ip 127.0.0.1".to_owned(), format!("sasl {user}")];
        expected.extend((settings.len() > 1).then(|| "super ".to_owned()));
        assert_eq!(identities(&printed), expected);
        assert!(printed.ends_with(&["create ok".to_owned(), "read ok".to_owned()]));
    }
}

/// A C client could log in with Cyrus SASL, but Debian's client is built without it.
#[test]
#[ignore = "runs other people's programs"]
fn kazoo_has_the_identity_of_its_ticket() {
    let Some(realm) = Realm::start("Kerberos") else {
        return;
    };
    let Some(server) = realm.server() else {
        return;
    };
    let address = format!("localhost:{}", server.port());
    let login = |user: &str, path: &str| {
        let key_tab = realm.kdc.key_tab(user);
        let cache = realm.kdc.ticket(user, &key_tab, "10m");
        let user = format!("{user}@{REALM}");
        let printed = realm.python(&cache, "ticket.py", &[&address, &user, path]);
        or_skip("kazoo by Kerberos", printed)
    };
    for (user, path) in [("ann", "/ann"), ("app/localhost", "/app")] {
        let Some(printed) = login(user, path) else {
            return;
        };
        let expected = ["login SaslAuthenticated", "create ok", "read ok"];
        assert_eq!(printed, expected, "{}", server.log());
    }
}

#[test]
#[ignore = "runs other people's programs"]
fn clients_without_a_ticket_are_refused_if_one_is_required() {
    let Some(realm) = Realm::start("Kerberos") else {
        return;
    };
    let builder = realm
        .builder()
        .setting("sessionRequireClientSASLAuth", "true");
    let Some(server) = or_skip("Kerberos", builder.start()) else {
        return;
    };
    let ann = realm.kdc.key_tab("ann");
    let cache = realm.kdc.ticket("ann", &ann, "10m");
    let printed = as_user(&realm, &server, &cache, "/ann");
    assert!(printed.contains(&"create ok".to_owned()), "{printed:?}");
    let mut stranger = tests::RawSession::open(&server.address(), None, 10_000).expect("a session");
    let create = tests::requests::create("/a", "", 0);
    let answer = stranger.call(&proto::request::Request::Write(create));
    assert_eq!(answer.expect("an answer").err, -124);
}
