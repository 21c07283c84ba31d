//! Clients over TLS: the whole scenario of each, on a port that accepts TLS and plain connections.

use std::process::Command;
use std::time::Duration;

use proto::request::Request;
use tests::certificates::{Certificates, PASSWORD};
use tests::requests::{create, get_data};
use tests::scenario::Scenario;
use tests::{Missing, Port, find_tool, java_program, kazoo_program, or_skip, told, wait_for};

use crate::{session, started, unified};

fn java(certificates: &Certificates) -> Result<Scenario, Missing> {
    certificates.convert("client")?;
    let mut properties = vec![
        ("zookeeper.client.secure".to_owned(), "true".to_owned()),
        (
            "zookeeper.clientCnxnSocket".to_owned(),
            "org.apache.zookeeper.ClientCnxnSocketNetty".to_owned(),
        ),
    ];
    let settings = certificates.settings("zookeeper.ssl.", "client", "jks");
    properties.extend(settings);
    Ok(Scenario {
        program: java_program("JavaScenario", &["Talk", "Watching"], &properties)?,
        further_steps: &["persistent-watches", "node-kinds", "newer-requests"],
    })
}

/// Returns the scenario of kazoo, with the location of the certificates.
fn kazoo(certificates: &Certificates) -> Result<Scenario, Missing> {
    let variables = [
        ("ZOARIUM_TEST_TLS", certificates.dir().display().to_string()),
        ("ZOARIUM_TEST_KEY", "client".to_owned()),
    ];
    Ok(Scenario {
        program: told(kazoo_program()?, &variables)?,
        further_steps: &["recipes"],
    })
}

fn both_sides() -> Certificates {
    let certificates = Certificates::new();
    certificates.sign("server");
    certificates.sign("client");
    certificates
}

#[test]
#[ignore = "runs other people's programs"]
fn java_client_over_tls_with_jks_stores_notices_no_difference() {
    let certificates = both_sides();
    let Some(scenario) = or_skip("the Java client", java(&certificates)) else {
        return;
    };
    if or_skip("JKS stores", certificates.convert("server")).is_none() {
        return;
    }
    // A certificate would be an additional identity, and the scenario's ACLs would differ.
    let builder = unified(&certificates, "jks")
        .setting("ssl.clientAuth", "none")
        .property("znode.container.checkIntervalMs", "500");
    let mut server = started(&builder);
    scenario.drive(&mut server);
    assert!(!server.log().contains("for scheme x509"));
}

#[test]
#[ignore = "runs other people's programs"]
fn kazoo_over_mutual_tls_with_pem_files_notices_no_difference() {
    let certificates = both_sides();
    let Some(scenario) = or_skip("kazoo", kazoo(&certificates)) else {
        return;
    };
    let builder = unified(&certificates, "pem");
    let mut server = started(&builder);
    scenario.drive(&mut server);
    let known = "authenticated id \"CN=client,OU=Ops,O=Test\" for scheme x509";
    assert!(server.log().contains(known), "{}", server.log());
}

#[test]
fn our_client_over_every_kind_of_store_keeps_its_session_over_a_restart() {
    let certificates = both_sides();
    if or_skip("JKS and PKCS12 stores", certificates.convert("server")).is_none() {
        return;
    }
    for extension in ["pem", "p12", "jks"] {
        let mut server = started(&unified(&certificates, extension));
        let mut first = session(&server, certificates.connector(Some("client"))).unwrap();
        let large = vec![7u8; 900_000];
        let made = first
            .call(&Request::Write(create("/large", large.clone(), 0)))
            .unwrap();
        assert_eq!(made.err, 0);
        let read = first.call(&get_data("/large")).unwrap();
        let read: proto::response::GetDataResponse = read.record();
        assert!(read.data.unwrap() == large);
        let kept = first.session().clone();
        server.restart();
        let handshake = client::Handshake::default()
            .with_session(kept.clone())
            .with_connector(certificates.connector(Some("client")));
        let second = tests::RawSession::with_handshake(&server.address(), &handshake).unwrap();
        assert_eq!(second.session().id, kept.id, "{extension}");
    }
}

#[test]
fn a_password_from_a_file_opens_a_store() {
    let certificates = both_sides();
    if or_skip("JKS and PKCS12 stores", certificates.convert("server")).is_none() {
        return;
    }
    let path = certificates.path("password");
    std::fs::write(&path, format!("{PASSWORD}\n")).unwrap();
    let path = path.display().to_string();
    let builder = unified(&certificates, "p12")
        .setting("ssl.keyStore.password", "not this one")
        .setting("ssl.keyStore.passwordPath", &path)
        .setting("ssl.trustStore.passwordPath", &path);
    let server = started(&builder);
    session(&server, certificates.connector(Some("client"))).unwrap();
}

#[test]
fn the_secure_port_takes_tls_and_words_through_it_and_nothing_else() {
    let certificates = both_sides();
    let port = Port::take();
    let mut builder = unified(&certificates, "pem")
        .setting("client.portUnification", "false")
        .setting("secureClientPort", &port.number().to_string())
        .setting("secureClientPortAddress", "127.0.0.1");
    builder = builder.setting("ssl.clientAuth", "none");
    let server = started(&builder);
    let address = format!("127.0.0.1:{}", port.number());
    let handshake = client::Handshake::default().with_connector(certificates.connector(None));
    tests::RawSession::with_handshake(&address, &handshake).unwrap();
    let plain = tests::RawSession::open(&address, None, 10_000);
    assert!(plain.is_err());
    let refused = "the peer does not use TLS, but this port accepts only TLS";
    wait_for("the refusal in the log", Duration::from_secs(10), || {
        let log = server.log();
        let line = log.lines().find(|line| line.contains(refused))?;
        line.contains("peer=127.0.0.1:").then_some(())
    });
    let Some(openssl) = or_skip("openssl", find_tool("openssl")) else {
        return;
    };
    let asked = Command::new("sh")
        .arg("-c")
        .arg(format!(
            "(printf srvr; sleep 1) | {} s_client -quiet -connect {address} 2>/dev/null",
            openssl.display()
        ))
        .output()
        .unwrap();
    let answer = String::from_utf8_lossy(&asked.stdout).into_owned();
    assert!(answer.contains("Mode: standalone"), "{answer}");
}
