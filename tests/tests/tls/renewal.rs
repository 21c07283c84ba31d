//! Stores of members that change while the members run.

use client::tls::Connector;
use tests::Flavour::Zoarium;
use tests::certificates::Certificates;
use tests::ensemble::{Ensemble, Load, check};
use tests::{Bystander, or_skip, wait_for};
use tokio::net::TcpStream;
use transport::tls::certificate;

use crate::members::{LIMIT, PROGRESS, builder, signed};

/// Returns the subject of the certificate at a port.
fn subject(address: std::net::SocketAddr, connector: &Connector) -> Option<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let stream = TcpStream::connect(address).await.ok()?;
        let stream = connector.establish(stream, &["127.0.0.1"]).await.ok()?;
        certificate::subject(stream.peer_certificate()?)
    })
}

/// Returns how often each member has logged this text.
fn said(ensemble: &Ensemble, text: &str) -> Vec<usize> {
    let ids = ensemble.ids().into_iter();
    ids.map(|id| ensemble.member(id).log().matches(text).count())
        .collect()
}

/// Waits until each member has logged the text more often than before.
fn say_again(ensemble: &Ensemble, text: &str, before: &[usize]) {
    wait_for(text, LIMIT, || {
        let now = said(ensemble, text);
        let pairs = now.iter().zip(before);
        pairs
            .into_iter()
            .all(|(now, before)| now > before)
            .then_some(())
    });
}

fn replace(certificates: &Certificates, file: &str, content: &[u8]) {
    let beside = certificates.path("beside");
    std::fs::write(&beside, content).expect("a store");
    std::fs::rename(beside, certificates.path(file)).expect("a store");
}

#[test]
fn members_load_new_certificates_and_keep_their_connections() {
    const KEPT: &str = "continuing with the previous stores";
    const TAKEN: &str = "new connections use the new files";
    let certificates = signed();
    certificates.sign("renewed");
    let builder = builder(&certificates, &[Zoarium; 3], "pem")
        .setting("sslQuorum", "true")
        .setting("sslQuorumReloadCertFiles", "true");
    let Some(mut ensemble) = or_skip("three of ours", builder.start()) else {
        return;
    };
    let leader = ensemble.wait_until_all_serve();
    let epoch = |ensemble: &Ensemble| ensemble.member(leader).zxid().map(|zxid| zxid >> 32);
    let term = epoch(&ensemble);
    let connector = certificates.connector(Some("renewed"));
    let load = Load::start(&ensemble.addresses(&ensemble.ids()));
    let bystander = Bystander::start(&ensemble.addresses(&[leader])[0], Connector::plain());
    let ports = |ensemble: &Ensemble| {
        let member = ensemble.member(leader);
        [member.election_address(), member.quorum_address()]
    };
    for (file, garbage) in [("member.pem", &b"garbage"[..]), ("authority.pem", b"")] {
        let good = std::fs::read(certificates.path(file)).expect("a store");
        let before = said(&ensemble, KEPT);
        replace(&certificates, file, garbage);
        say_again(&ensemble, KEPT, &before);
        for port in ports(&ensemble) {
            let shown = subject(port, &connector);
            assert_eq!(shown.as_deref(), Some("CN=member,OU=Ops,O=Test"));
        }
        replace(&certificates, file, &good);
    }
    let before = said(&ensemble, TAKEN);
    let renewed = std::fs::read(certificates.path("renewed.pem")).expect("a store");
    replace(&certificates, "member.pem", &renewed);
    say_again(&ensemble, TAKEN, &before);
    for port in ports(&ensemble) {
        let shown = subject(port, &connector);
        assert_eq!(shown.as_deref(), Some("CN=renewed,OU=Ops,O=Test"));
    }
    load.wait_for_progress(PROGRESS);
    // No link was lost: the term continues.
    assert_eq!(epoch(&ensemble), term);
    let mut ids = ensemble.ids().into_iter();
    let follower = ids.find(|id| *id != leader).expect("a follower");
    ensemble.member_mut(follower).kill();
    ensemble.start(follower);
    assert_eq!(ensemble.wait_until_all_serve(), leader);
    bystander.finish();
    check::nothing_is_lost(&ensemble, &load.finish());
}
