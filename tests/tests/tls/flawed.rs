//! Flawed certificates: each is refused with its reason and its address, on either side, and no
//! other client is affected.

use std::time::Duration;

use client::tls::Connector;
use proto::Id;
use proto::request::{ReadRequest, Request};
use proto::response::WhoAmIResponse;
use tests::certificates::{Certificates, Flaw};
use tests::requests::create;
use tests::{Bystander, Flavour, RawSession, Server, ServerBuilder, or_skip, wait_for};

use crate::{session, started, unified};

const LIMIT: Duration = Duration::from_secs(30);

/// Waits for the log line of this refusal, and returns it.
pub(crate) fn refusal(server: &Server, reason: &str) -> String {
    wait_for(reason, LIMIT, || {
        let log = server.log();
        let mut lines = log.lines().rev();
        let line = lines.find(|line| line.contains("connection refused") && line.contains(reason));
        line.map(str::to_owned)
    })
}

#[test]
fn clients_with_flawed_certificates_are_refused_each_with_its_reason() {
    let certificates = Certificates::new();
    for name in ["server", "ann"] {
        certificates.sign(name);
    }
    let builder = unified(&certificates, "pem").setting("ssl.clientHostnameVerification", "true");
    let server = started(&builder);
    let bystander = Bystander::start(&server.address(), certificates.connector(Some("ann")));
    let flaws = [
        (Flaw::Expired, "certificate expired"),
        (Flaw::NotYetValid, "certificate not valid yet"),
        (Flaw::SelfSigned, "UnknownIssuer"),
        (Flaw::OtherHost, "hosts of the certificate: 192.0.2.1"),
        (Flaw::ForServersOnly, "certificate does not allow"),
    ];
    for (number, (flaw, reason)) in flaws.into_iter().enumerate() {
        let name = format!("mallory{number}");
        certificates.sign_flawed(&name, flaw);
        let refused = session(&server, certificates.connector(Some(&name)));
        assert!(refused.is_err(), "{flaw:?}");
        let line = refusal(&server, reason);
        assert!(line.contains("peer=127.0.0.1:"), "{line}");
    }
    let count = flaws.len().to_string();
    assert_eq!(server.metric("unsuccessful_handshake"), Some(count));
    bystander.finish();
}

#[test]
fn servers_with_flawed_certificates_are_rejected_each_with_its_reason() {
    for (flaw, reason) in [
        (Flaw::Expired, "expired"),
        (Flaw::NotYetValid, "not valid yet"),
        (Flaw::SelfSigned, "UnknownIssuer"),
        (Flaw::OtherHost, "127.0.0.1"),
        (Flaw::ForClientsOnly, "does not allow"),
    ] {
        let certificates = Certificates::new();
        certificates.sign_flawed("server", flaw);
        certificates.sign("ann");
        let server = started(&unified(&certificates, "pem"));
        let refused = session(&server, certificates.connector(Some("ann")));
        let error = refused.expect_err("a connection to a server that cannot be trusted");
        let text = error.to_string();
        assert!(text.contains(reason), "{flaw:?}: {text}");
        assert!(text.contains(&server.address()), "{text}");
    }
}

/// Names are read as Java reads them, at any position.
#[test]
#[ignore = "runs other people's programs"]
fn names_of_any_letters_are_identities_as_for_java() {
    let certificates = Certificates::new();
    certificates.sign("server");
    let names = [
        r#"o"brien, ann"#,
        r"a\b+c=d;e<f>",
        "  blanks  ",
        "#number",
        "J\u{fc}rgen \u{4e2d}\u{6587}",
    ];
    for (number, name) in names.iter().enumerate() {
        certificates.sign_person(&format!("person{number}"), name);
    }
    let mut identities = Vec::new();
    for flavour in [Flavour::Zoarium, Flavour::Apache] {
        let mut builder = ServerBuilder::new(flavour)
            .setting("client.portUnification", "true")
            .setting(
                "authProvider.x509",
                "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
            )
            .property(
                "zookeeper.serverCnxnFactory",
                "org.apache.zookeeper.server.NettyServerCnxnFactory",
            );
        for (key, value) in certificates.settings("ssl.", "server", "pem") {
            builder = builder.setting(&key, &value);
        }
        let Some(server) = or_skip("x509", builder.start()) else {
            return;
        };
        let of = |number: usize| {
            let name = format!("person{number}");
            let mut session = session(&server, certificates.connector(Some(&name))).expect(&name);
            own(&mut session, &format!("/{name}"))
        };
        identities.push((0..names.len()).map(of).collect::<Vec<_>>());
    }
    assert_eq!(identities[0], identities[1]);
    assert!(identities[0][0].id.contains("brien"), "{identities:?}");
}

/// Returns the session's own identity, after an ACL with this identity has granted it access.
fn own(session: &mut RawSession, path: &str) -> Id {
    let answer = session.call(&Request::Read(ReadRequest::WhoAmI));
    let clients = answer
        .expect("an answer")
        .record::<WhoAmIResponse>()
        .clients;
    let mut own = clients.iter().filter(|client| &*client.scheme == "x509");
    let id = Id {
        scheme: "x509".into(),
        id: own.next().expect("an identity by certificate").user.clone(),
    };
    let acl = proto::Acl {
        perms: 31,
        id: id.clone(),
    };
    let made =
        tests::requests::create_with(proto::OpCode::Create, path, Some("x".into()), 0, &[acl], -1);
    assert_eq!(
        session.call(&Request::Write(made)).expect("an answer").err,
        0
    );
    let read = session.call(&tests::requests::get_data(path));
    assert_eq!(read.expect("an answer").err, 0, "{id:?}");
    id
}

/// Meanwhile stores are replaced repeatedly by garbage and by good ones.
#[test]
fn changing_stores_do_not_affect_existing_connections() {
    let certificates = Certificates::new();
    for name in ["server", "ann"] {
        certificates.sign(name);
    }
    let server = started(&unified(&certificates, "pem").setting("client.certReload", "true"));
    // Created while the files are good.
    let connector = certificates.connector(Some("ann"));
    let tls = Bystander::start(&server.address(), connector.clone());
    let plain = Bystander::start(&server.address(), Connector::plain());
    let said = |text: &str, times: usize| {
        wait_for(text, LIMIT, || {
            (server.log().matches(text).count() >= times).then_some(())
        });
    };
    for round in 1..=2 {
        for (garbage, which) in [(&b"garbage"[..], "server.pem"), (b"", "authority.pem")] {
            let path = certificates.path(which);
            let good = std::fs::read(&path).expect("a store");
            let before = server
                .log()
                .matches("continuing with the previous stores")
                .count();
            std::fs::write(&path, garbage).expect("write a store");
            said("continuing with the previous stores", before + 1);
            let newcomer = session(&server, connector.clone());
            let mut newcomer = newcomer.expect("a newcomer under the stores of before");
            let path_made = format!("/{round}-{}", garbage.len());
            let made = newcomer.call(&Request::Write(create(&path_made, "", 0)));
            assert_eq!(made.expect("an answer").err, 0);
            std::fs::write(&path, good).expect("write a store");
        }
        let before = server
            .log()
            .matches("new connections use the new files")
            .count();
        certificates.sign("server");
        said("new connections use the new files", before + 1);
    }
    tls.finish();
    plain.finish();
}
