//! Members' certificates: an ensemble distinguishes its members from other holders of a trusted
//! certificate.

use std::net::SocketAddr;

use client::tls::Connector;
use tests::Flavour::Zoarium;
use tests::certificates::{Certificates, Kind};
use tests::ensemble::{Duty, Ensemble};
use tests::{or_skip, wait_for};
use tokio::net::TcpStream;

use crate::members::{LIMIT, builder, set};

/// Name of the setting.
const KEY: &str = "zoarium.ssl.quorum.memberCheck";

/// Presents a certificate at a port of the ensemble. The other side's decision is in its log.
fn show(connector: &Connector, address: SocketAddr) {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let stream = TcpStream::connect(address).await.expect("a connection");
        // In TLS 1.3 the client's handshake ends before the server has judged its certificate.
        let _ = connector.establish(stream, &["127.0.0.1"]).await;
    });
}

fn line(ensemble: &Ensemble, id: u64, parts: &[&str]) {
    wait_for(&format!("{parts:?} at {id}"), LIMIT, || {
        let log = ensemble.member(id).log();
        let mut lines = log.lines();
        let is_it = |line: &str| parts.iter().all(|part| line.contains(part));
        lines.any(is_it).then_some(())
    });
}

/// Gives a member a certificate, for its next start.
fn show_as(ensemble: &Ensemble, id: u64, certificates: &Certificates, name: &str) {
    let path = certificates.path(&format!("{name}.pem"));
    let path = path.display().to_string();
    set(ensemble, id, "ssl.quorum.keyStore.location", &path);
}

/// Starts three members. The first refuses strangers and knows observers by a pattern. The others
/// have the defaults.
fn started(certificates: &Certificates) -> Option<Ensemble> {
    let builder = builder(certificates, &[Zoarium; 3], "pem").setting("sslQuorum", "true");
    let mut ensemble = or_skip("three of ours", builder.prepare())?;
    for (id, name) in [(2, "zk2"), (3, "zk3")] {
        show_as(&ensemble, id, certificates, name);
    }
    set(&ensemble, 1, KEY, "refuse");
    set(&ensemble, 1, "ssl.quorum.members", "observer*");
    for id in ensemble.ids() {
        ensemble.start(id);
    }
    ensemble.wait_until_all_serve();
    Some(ensemble)
}

/// Without a check, an application with a certificate joins as an observer and receives all data.
#[test]
fn an_ensemble_distinguishes_members_from_applications_and_unlisted_observers() {
    let certificates = Certificates::new();
    certificates.sign("member");
    certificates.sign_for("zk2", Kind::CommonName);
    certificates.sign_for("zk3", Kind::Version1);
    certificates.sign_for("app", Kind::Application);
    certificates.sign_for("observer4", Kind::Elsewhere);
    let Some(mut ensemble) = started(&certificates) else {
        return;
    };
    let app = certificates.connector_of_any_host("app");
    for id in [1, 2] {
        show(&app, ensemble.member(id).election_address());
    }
    let subject = "CN=app,OU=Ops,O=Test";
    line(
        &ensemble,
        1,
        &[
            "connection refused",
            "does not belong to a member",
            subject,
            "peer=127.0.0.1:",
            KEY,
        ],
    );
    line(
        &ensemble,
        2,
        &[
            "WARN",
            "does not belong to a member",
            subject,
            "peer=127.0.0.1:",
            KEY,
        ],
    );
    let members = ["CN=member,", "CN=zk2,", "CN=127.0.0.1,"];
    for id in ensemble.ids() {
        let log = ensemble.member(id).log();
        let mut lines = log
            .lines()
            .filter(|line| line.contains("does not belong to a member"));
        assert!(
            lines.all(|line| !members.iter().any(|name| line.contains(name))),
            "{log}"
        );
    }
    // An observer that is not in any list, and that matches only the pattern of the first member.
    let observer = ensemble.add(Zoarium, Duty::Observer);
    let mut servers: Vec<_> = ensemble
        .voters()
        .into_iter()
        .map(|id| (id, Duty::Participant))
        .collect();
    servers.retain(|(id, _)| *id != observer);
    servers.push((observer, Duty::Observer));
    ensemble.configure(observer, &servers);
    show_as(&ensemble, observer, &certificates, "observer4");
    ensemble.start(observer);
    ensemble.wait_until_all_serve();
    line(
        &ensemble,
        2,
        &["WARN", "does not belong to a member", "CN=observer4,"],
    );
    let log = ensemble.member(1).log();
    assert!(!log.contains("CN=observer4,"), "{log}");
}
