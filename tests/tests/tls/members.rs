//! TLS between members: among Zoarium members, during the migration under load, and together with
//! Apache ZooKeeper.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tests::certificates::Certificates;
use tests::ensemble::{Ensemble, EnsembleBuilder, Holders, Load, check};
use tests::{Flavour, or_skip, wait_for, workspace_root};

pub(crate) const LIMIT: Duration = Duration::from_secs(60);
pub(crate) const PROGRESS: u64 = 20;

pub(crate) fn signed() -> Certificates {
    let certificates = Certificates::new();
    certificates.sign("member");
    certificates
}

pub(crate) fn builder(
    certificates: &Certificates,
    flavours: &[Flavour],
    extension: &str,
) -> EnsembleBuilder {
    let mut builder = EnsembleBuilder::new(flavours);
    for (key, value) in certificates.settings("ssl.quorum.", "member", extension) {
        builder = builder.setting(&key, &value);
    }
    builder
}

/// Changes a line of a member's zoo.cfg, for its next start.
pub(crate) fn set(ensemble: &Ensemble, id: u64, key: &str, value: &str) {
    let path = ensemble.member(id).config_file();
    let text = std::fs::read_to_string(&path).unwrap();
    let beginning = format!("{key}=");
    let kept = text.lines().filter(|line| !line.starts_with(&beginning));
    let mut lines: Vec<&str> = kept.collect();
    let line = format!("{beginning}{value}");
    lines.push(&line);
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
}

/// Sends these bytes and reads until the other side closes the connection.
pub(crate) fn closes(address: std::net::SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
}

fn says(ensemble: &Ensemble, id: u64, text: &str) {
    wait_for(text, LIMIT, || {
        ensemble.member(id).log().contains(text).then_some(())
    });
}

#[test]
fn three_members_under_tls_survive_their_leader_and_refuse_plain_connections() {
    let certificates = signed();
    let builder =
        builder(&certificates, &[Flavour::Zoarium; 3], "pem").setting("sslQuorum", "true");
    let mut ensemble = or_skip("three of ours", builder.start()).unwrap();
    let leader = ensemble.wait_until_all_serve();
    let load = Load::start(&ensemble.addresses(&ensemble.ids()));
    load.wait_for_progress(PROGRESS);
    let (election, quorum) = {
        let member = ensemble.member(leader);
        (member.election_address(), member.quorum_address())
    };
    let hello = b"\xff\xff\xff\xff\xff\xff\x00\x01";
    closes(election, hello);
    closes(quorum, b"\x00\x00\x00\x0b");
    says(&ensemble, leader, "of=\"elections\"");
    says(&ensemble, leader, "of=\"learners\"");
    says(&ensemble, leader, "the peer does not use TLS");
    ensemble.survive_kill_of(leader, &load, PROGRESS);
    let report = load.finish();
    check::nothing_is_lost(&ensemble, &report);
    check::all_agree(&ensemble);
}

#[test]
fn tls_on_plain_ports_of_members_is_closed_with_a_line() {
    let mut ensemble = {
        let builder = EnsembleBuilder::new(&[Flavour::Zoarium; 3]);
        or_skip("three of ours", builder.start()).unwrap()
    };
    let leader = ensemble.wait_until_all_serve();
    let hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00";
    closes(ensemble.member(leader).election_address(), hello);
    closes(ensemble.member(leader).quorum_address(), hello);
    wait_for("both lines", LIMIT, || {
        let log = ensemble.member(leader).log();
        let lines = log
            .lines()
            .filter(|line| line.contains("uses TLS, but this port"));
        let lines = lines.filter(|line| line.contains("peer=127.0.0.1:"));
        (lines.count() == 2).then_some(())
    });
    ensemble.member_mut(leader).terminate();
}

/// The rounds of the guide, and the line that each changes.
const ROUNDS: [(&str, &str, &str); 3] = [
    (
        "### Round 1: stores, and both kinds of connections",
        "portUnification",
        "true",
    ),
    ("### Round 2: members connect with TLS", "sslQuorum", "true"),
    (
        "### Round 3: plain connections are refused",
        "portUnification",
        "false",
    ),
];

#[test]
fn the_guide_has_these_rounds() {
    let guide = std::fs::read_to_string(workspace_root().join("docs/SECURITY.md"));
    let guide = guide.expect("the guide");
    let mut rest = guide.as_str();
    for (round, key, value) in ROUNDS {
        let (_, behind) = rest.split_once(round).expect(round);
        let line = format!("    {key}={value}\n");
        let (before, _) = behind.split_once(&line).expect(&line);
        assert!(!before.contains("###"), "{line} stands in another round");
        rest = behind;
    }
}

/// Restarts every member with this setting, the leader last, under load.
fn roll(ensemble: &mut Ensemble, key: &str, value: &str, holders: &mut Holders, load: &Load) {
    let leader = ensemble.wait_until_all_serve();
    let mut order = ensemble.ids();
    order.retain(|id| *id != leader);
    order.push(leader);
    for id in order {
        ensemble.member_mut(id).terminate();
        set(ensemble, id, key, value);
        ensemble.start(id);
        ensemble.wait_until_all_serve();
        load.wait_for_progress(PROGRESS);
        holders.check();
    }
}

#[test]
fn an_ensemble_rolls_from_plain_to_tls_under_load_and_loses_nothing() {
    let certificates = signed();
    let builder = builder(&certificates, &[Flavour::Zoarium; 3], "pem");
    let mut ensemble = or_skip("three of ours", builder.start()).unwrap();
    ensemble.wait_until_all_serve();
    let addresses = ensemble.addresses(&ensemble.ids());
    let load = Load::start(&addresses);
    let mut holders = Holders::open(&addresses, Duration::from_secs(30));
    load.wait_for_progress(PROGRESS);
    for (_, key, value) in ROUNDS {
        roll(&mut ensemble, key, value, &mut holders, &load);
    }
    let leader = ensemble.wait_until_all_serve();
    closes(
        ensemble.member(leader).quorum_address(),
        b"\x00\x00\x00\x0b",
    );
    says(&ensemble, leader, "the peer does not use TLS");
    holders.close();
    let report = load.finish();
    check::nothing_is_lost(&ensemble, &report);
    assert_eq!(report.sessions_lost(), 0);
    check::all_agree(&ensemble);
}

#[test]
#[ignore = "runs other people's programs"]
fn mixed_ensembles_under_tls_work_in_each_role() {
    let certificates = signed();
    if or_skip("JKS stores", certificates.convert("member")).is_none() {
        return;
    }
    let (ours, apache) = (Flavour::Zoarium, Flavour::Apache);
    // The last voter leads when all start without data. A shared certificate is a member's, even if
    // those of others are replaced.
    for (voters, observer, check) in [
        ([ours, apache, ours], apache, "warn"),
        ([ours, ours, apache], ours, "refuse"),
    ] {
        let builder = builder(&certificates, &voters, "jks")
            .observers(&[observer])
            .setting("sslQuorum", "true")
            .setting("zoarium.ssl.quorum.memberCheck", check);
        let Some(mut ensemble) = or_skip("Apache ZooKeeper", builder.start_led_by_last_voter())
        else {
            return;
        };
        let leader = ensemble.wait_until_all_serve();
        let load = Load::start(&ensemble.addresses(&ensemble.ids()));
        load.wait_for_progress(PROGRESS);
        ensemble.survive_kill_of(leader, &load, PROGRESS);
        let report = load.finish();
        check::nothing_is_lost(&ensemble, &report);
        check::all_agree(&ensemble);
        for id in ensemble.ids() {
            assert!(
                !ensemble
                    .member(id)
                    .log()
                    .contains("does not belong to a member")
            );
        }
    }
}
