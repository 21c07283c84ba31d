//! SASL between members: among Zoarium servers, with Apache ZooKeeper in each role, and enabled in
//! three rolling restarts under load.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use proto::request::Request;
use tempfile::TempDir;
use tests::ensemble::{Ensemble, EnsembleBuilder, Load, check};
use tests::requests::create;
use tests::secrets::{MEMBER as PASSWORD, WRONG};
use tests::{Flavour, RawSession, or_skip, wait_for};

const LIMIT: Duration = Duration::from_secs(60);
const MODULE: &str = "org.apache.zookeeper.server.auth.DigestLoginModule";

/// Steps that enable it.
const STEPS: [&str; 3] = [
    "quorum.auth.enableSasl=true",
    "quorum.auth.learnerRequireSasl=true",
    "quorum.auth.serverRequireSasl=true",
];

fn jaas(dir: &TempDir, name: &str, password: &str) -> PathBuf {
    let text = format!(
        "QuorumServer {{ {MODULE} required user_zk=\"{PASSWORD}\"; }};\n\
         QuorumLearner {{ {MODULE} required username=\"zk\" password=\"{password}\"; }};\n"
    );
    let path = dir.path().join(name);
    std::fs::write(&path, text).expect("a JAAS file");
    path
}

fn builder(voters: &[Flavour], jaas: &std::path::Path) -> EnsembleBuilder {
    EnsembleBuilder::new(voters)
        .property(
            "java.security.auth.login.config",
            &jaas.display().to_string(),
        )
        .property("zookeeper.fips-mode", "false")
}

fn required(voters: &[Flavour], jaas: &std::path::Path) -> EnsembleBuilder {
    STEPS.iter().fold(builder(voters, jaas), |builder, step| {
        let (key, value) = step.split_once('=').expect("a key and a value");
        builder.setting(key, value)
    })
}

/// Lets each member lead once, as far as killing the leaders achieves this.
fn survive(ensemble: &mut Ensemble) {
    for round in 0..2 {
        let leader = ensemble.wait_until_all_serve();
        check::all_write(ensemble, &format!("round{round}"));
        ensemble.member_mut(leader).kill();
        let rest: Vec<u64> = ensemble
            .ids()
            .into_iter()
            .filter(|id| *id != leader)
            .collect();
        ensemble.wait_for_leader_among(&rest);
        check::all_write(ensemble, &format!("without{round}"));
        ensemble.start(leader);
    }
    ensemble.wait_until_all_serve();
}

#[test]
fn members_with_sasl_form_an_ensemble_under_each_leader() {
    let ours = Flavour::under_test();
    let dir = tempfile::tempdir().expect("a directory");
    let file = jaas(&dir, "jaas.conf", PASSWORD);
    let builder = required(&[ours; 3], &file).observers(&[ours]);
    let Some(mut ensemble) = or_skip("SASL between members", builder.start()) else {
        return;
    };
    survive(&mut ensemble);
    for id in ensemble.ids() {
        let log = ensemble.member(id).log();
        assert!(
            !log.contains(PASSWORD),
            "the password of a member is in its log"
        );
    }
}

#[test]
#[ignore = "runs other people's programs"]
fn members_log_in_with_apache_in_each_role() {
    let (ours, apache) = (Flavour::Zoarium, Flavour::Apache);
    let dir = tempfile::tempdir().expect("a directory");
    let file = jaas(&dir, "jaas.conf", PASSWORD);
    for (voters, observer) in [
        ([ours, apache, apache], ours),
        ([apache, ours, ours], apache),
    ] {
        // The last member leads, which is of another kind each time.
        let builder = required(&voters, &file).observers(&[observer]);
        let Some(mut ensemble) = or_skip("Apache", builder.start_led_by_last_voter()) else {
            return;
        };
        survive(&mut ensemble);
    }
}

/// A member with another password, and one without a password, are refused. The others continue.
#[test]
fn a_member_that_does_not_know_the_password_stays_out() {
    let ours = Flavour::under_test();
    let dir = tempfile::tempdir().expect("a directory");
    let file = jaas(&dir, "jaas.conf", PASSWORD);
    let Some(mut ensemble) = or_skip("SASL between members", required(&[ours; 3], &file).start())
    else {
        return;
    };
    let leader = ensemble.wait_until_all_serve();
    let outsider = ensemble
        .ids()
        .into_iter()
        .find(|id| *id != leader)
        .expect("a follower");
    ensemble.member_mut(outsider).terminate();
    let config = ensemble.member(outsider).config_file();
    let text = std::fs::read_to_string(&config).expect("a zoo.cfg");
    let without: String = text
        .lines()
        .filter(|line| !line.starts_with("quorum.auth"))
        .fold(String::new(), |text, line| text + line + "\n");
    std::fs::write(&config, without).expect("a zoo.cfg");
    ensemble.start(outsider);
    // Both other members refuse its election connections.
    wait_for("a refusal", LIMIT, || {
        let log = ensemble.member(leader).log();
        log.contains("the other member did not log in")
            .then_some(())
    });
    let wrong = jaas(&dir, "wrong.conf", WRONG);
    ensemble.member_mut(outsider).terminate();
    std::fs::write(&config, text).expect("a zoo.cfg");
    // The file itself is replaced, because members read it only at their start.
    std::fs::copy(wrong, &file).expect("another JAAS file");
    ensemble.start(outsider);
    wait_for("a refusal", LIMIT, || {
        let log = ensemble.member(leader).log();
        log.contains("wrong name or password").then_some(())
    });
    assert!(!ensemble.member(outsider).is_up() || ensemble.member(outsider).role().is_none());
    let address = ensemble.member(leader).client_address().to_string();
    let mut session = RawSession::open(&address, None, 30_000).expect("a session");
    let written = session.call(&Request::Write(create("/still", "", 0)));
    assert_eq!(written.expect("an answer").err, 0);
    for id in ensemble.ids() {
        assert!(!ensemble.member(id).log().contains(WRONG));
    }
}

fn append(path: &std::path::Path, line: &str) {
    let mut file = OpenOptions::new()
        .append(true)
        .open(path)
        .expect("a zoo.cfg");
    writeln!(file, "{line}").expect("a line more");
}

/// First without SASL, then accepted if offered, then offered, then required. No write and no
/// session is lost, among members of both kinds.
#[test]
#[ignore = "runs other people's programs"]
fn sasl_is_enabled_by_rolling_restarts_under_load() {
    let voters = [Flavour::Zoarium, Flavour::Apache, Flavour::Zoarium];
    let dir = tempfile::tempdir().expect("a directory");
    let file = jaas(&dir, "jaas.conf", PASSWORD);
    let Some(mut ensemble) = or_skip("Apache", builder(&voters, &file).start()) else {
        return;
    };
    ensemble.wait_until_all_serve();
    let load = Load::start(&ensemble.addresses(&ensemble.ids()));
    load.wait_for_progress(50);
    for step in STEPS {
        for id in ensemble.ids() {
            let config = ensemble.member(id).config_file();
            append(&config, step);
            ensemble.member_mut(id).terminate();
            ensemble.start(id);
            ensemble.wait_until_all_serve();
            load.wait_for_progress(20);
        }
    }
    let report = load.finish();
    assert_eq!(report.sessions_lost(), 0, "{}", report.summary());
    check::nothing_is_lost(&ensemble, &report);
    // All of them now require it.
    let log = ensemble.member(1).log();
    assert!(log.contains("a member logged in with SASL"), "{log}");
}
