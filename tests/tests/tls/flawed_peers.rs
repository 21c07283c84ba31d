//! Flawed certificates at the ports between members, of strangers and of a member. No other member
//! is affected.

use std::net::SocketAddr;

use client::tls::Connector;
use tests::Flavour::Zoarium;
use tests::certificates::{Certificates, Flaw};
use tests::ensemble::{Ensemble, EnsembleBuilder};
use tests::{Bystander, or_skip, wait_for};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::members::{LIMIT, builder, set, signed};

/// The flaws, and their descriptions in the log.
pub(crate) const FLAWS: [(&str, Option<Flaw>, &str); 6] = [
    ("expired", Some(Flaw::Expired), "certificate expired"),
    (
        "early",
        Some(Flaw::NotYetValid),
        "certificate not valid yet",
    ),
    ("own", Some(Flaw::SelfSigned), "UnknownIssuer"),
    (
        "elsewhere",
        Some(Flaw::OtherHost),
        "hosts of the certificate: 192.0.2.1",
    ),
    (
        "server",
        Some(Flaw::ForServersOnly),
        "certificate does not allow",
    ),
    ("revoked", None, "Revoked"),
];

/// A member also accepts connections: a member with a higher id calls it back.
const ONLY_FOR_CLIENTS: (&str, Option<Flaw>, &str) =
    ("client", Some(Flaw::ForClientsOnly), "does not allow");

/// Creates all of them. The certificate with the last flaw is put on the revocation list.
pub(crate) fn flawed() -> Certificates {
    let certificates = signed();
    for (name, flaw, _) in FLAWS.into_iter().chain([ONLY_FOR_CLIENTS]) {
        match flaw {
            Some(flaw) => certificates.sign_flawed(name, flaw),
            None => certificates.sign(name),
        };
    }
    certificates.revoke(&["revoked"], "lists.pem");
    certificates
}

/// Returns members under TLS that check hosts and the revocation list.
pub(crate) fn strict(certificates: &Certificates) -> EnsembleBuilder {
    let lists = certificates.path("lists.pem").display().to_string();
    builder(certificates, &[Zoarium; 3], "pem")
        .setting("sslQuorum", "true")
        .setting("fips-mode", "false")
        .setting("ssl.quorum.crl.location", &lists)
}

fn bystanders(ensemble: &Ensemble, ids: &[u64]) -> Vec<Bystander> {
    let addresses = ensemble.addresses(ids).into_iter();
    addresses
        .map(|address| Bystander::start(&address, Connector::plain()))
        .collect()
}

/// Does a handshake with a port and waits until the port closes the connection. Returns its own
/// address.
async fn comes(address: SocketAddr, connector: &Connector) -> SocketAddr {
    let stream = TcpStream::connect(address).await.expect("a connection");
    let own = stream.local_addr().expect("an address");
    let host = address.ip().to_string();
    // In TLS 1.3, a client learns only after the handshake whether the server accepts its
    // certificate.
    if let Ok(mut stream) = connector.establish(stream, &[&host]).await {
        let end = timeout(LIMIT, stream.read_to_end(&mut Vec::new())).await;
        end.expect("the connection is ended").ok();
    }
    own
}

/// Checks that such a peer is refused at a port, and that a log line names the port, the address
/// and the reason.
pub(crate) fn is_refused(
    ensemble: &Ensemble,
    id: u64,
    (of, address): (&str, SocketAddr),
    connector: &Connector,
    reason: &str,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let own = runtime.block_on(comes(address, connector));
    let (of, peer) = (format!("of=\"{of}\""), format!("peer={own} "));
    wait_for(reason, LIMIT, || {
        let log = ensemble.member(id).log();
        let mut lines = log.lines();
        let line = lines.find(|line| line.contains(&of) && line.contains(&peer))?;
        assert!(line.contains(reason), "{reason}: {line}");
        Some(())
    });
}

#[test]
fn strangers_with_flawed_certificates_reach_no_port_of_a_member() {
    let certificates = flawed();
    let Some(ensemble) = or_skip("three of ours", strict(&certificates).start()) else {
        return;
    };
    let leader = ensemble.wait_until_all_serve();
    let bystanders = bystanders(&ensemble, &ensemble.ids());
    let member = ensemble.member(leader);
    let ports = [
        ("elections", member.election_address()),
        ("learners", member.quorum_address()),
    ];
    for port in ports {
        for (name, _, reason) in FLAWS {
            let connector = certificates.connector(Some(name));
            is_refused(&ensemble, leader, port, &connector, reason);
        }
        let nobody = certificates.connector(None);
        is_refused(&ensemble, leader, port, &nobody, "no certificate");
    }
    bystanders.into_iter().for_each(Bystander::finish);
    assert_eq!(ensemble.leaders(), [leader]);
}

/// Checks that the member joins as soon as it has a good certificate, without a restart.
fn stays_out(name: &str, reason: &str) {
    let certificates = flawed();
    let builder = strict(&certificates).setting("sslQuorumReloadCertFiles", "true");
    let Some(mut ensemble) = or_skip("three of ours", builder.prepare()) else {
        return;
    };
    let flawed = certificates.path(&format!("{name}.pem"));
    let store = flawed.display().to_string();
    // The others have higher ids, and call it back.
    set(&ensemble, 1, "ssl.quorum.keyStore.location", &store);
    let others = [2, 3];
    for id in others {
        ensemble.start(id);
    }
    let leader = ensemble.wait_until_all_serve();
    let bystanders = bystanders(&ensemble, &others);
    ensemble.start(1);
    wait_for(reason, LIMIT, || {
        let logs = others.map(|id| ensemble.member(id).log());
        let lines = logs.iter().flat_map(|log| log.lines());
        let mut refusals = lines.filter(|line| line.contains(reason));
        refusals
            .any(|line| line.contains("127.0.0.1:"))
            .then_some(())
    });
    assert_eq!(ensemble.member(1).role(), None);
    assert_eq!(ensemble.leaders(), [leader]);
    let beside = certificates.path("beside.pem");
    std::fs::copy(certificates.path("member.pem"), &beside).expect("a store");
    std::fs::rename(beside, flawed).expect("a store");
    assert_eq!(ensemble.wait_until_all_serve(), leader);
    bystanders.into_iter().for_each(Bystander::finish);
}

#[test]
fn a_member_joins_once_its_flawed_certificate_is_replaced() {
    for (name, _, reason) in FLAWS.into_iter().chain([ONLY_FOR_CLIENTS]) {
        println!("{name}");
        stays_out(name, reason);
    }
}
