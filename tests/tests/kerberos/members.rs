//! Members that log in to each other by Kerberos, also together with Apache ZooKeeper.

use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use proto::request::Request;
use tests::ensemble::{EnsembleBuilder, check};
use tests::requests::create;
use tests::{Flavour, RawSession, or_skip, wait_for};

use crate::realm::Realm;

const LIMIT: Duration = Duration::from_secs(60);
/// The wait for a silent KDC takes more than ten seconds.
const STOPS_WITHIN: Duration = Duration::from_secs(8);
const MEMBER: &str = "zkquorum/127.0.0.1";

/// Returns members with this principal, and the key tab of all.
fn builder(realm: &Realm, voters: &[Flavour], principal: &str) -> EnsembleBuilder {
    builder_with(realm, voters, principal, &realm.kdc.krb5_conf())
}

fn builder_with(
    realm: &Realm,
    voters: &[Flavour],
    principal: &str,
    krb5_conf: &Path,
) -> EnsembleBuilder {
    let key_tab = realm.kdc.path("members.keytab");
    let sections = ["QuorumServer", "QuorumLearner"]
        .map(|name| realm.section(name, &key_tab, principal))
        .concat();
    let jaas = realm.jaas("members.conf", &sections);
    EnsembleBuilder::new(voters)
        .property(
            "java.security.auth.login.config",
            &jaas.display().to_string(),
        )
        .property("java.security.krb5.conf", &krb5_conf.display().to_string())
        // Java would put its replay cache into a shared directory.
        .property("sun.security.krb5.rcache", "none")
        .setting("quorum.auth.enableSasl", "true")
        .setting("quorum.auth.learnerRequireSasl", "true")
        .setting("quorum.auth.serverRequireSasl", "true")
        .setting("quorum.auth.kerberos.servicePrincipal", "zkquorum/_HOST")
}

#[test]
#[ignore = "runs other people's programs"]
fn members_log_in_with_each_other_under_each_leader() {
    let Some(realm) = Realm::start("Kerberos") else {
        return;
    };
    realm.kdc.key_tab_of("members.keytab", &[MEMBER]);
    let voters = [Flavour::ZoariumGssapi; 3];
    let Some(mut ensemble) = or_skip("Kerberos", builder(&realm, &voters, MEMBER).start()) else {
        return;
    };
    let leader = ensemble.wait_until_all_serve();
    check::all_write(&ensemble, "first");
    ensemble.member_mut(leader).kill();
    let rest: Vec<u64> = ensemble
        .ids()
        .into_iter()
        .filter(|id| *id != leader)
        .collect();
    let next = ensemble.wait_for_leader_among(&rest);
    check::all_write(&ensemble, "second");
    ensemble.start(leader);
    ensemble.wait_until_all_serve();
    let log = ensemble.member(next).log();
    let told = "a member logged in with SASL user=\"zkquorum/127.0.0.1@ZOARIUM.TEST\"";
    assert!(log.contains(told), "{log}");
}

#[test]
#[ignore = "runs other people's programs"]
fn members_log_in_with_apache_in_each_role() {
    let Some(realm) = Realm::start("Kerberos") else {
        return;
    };
    realm.kdc.key_tab_of("members.keytab", &[MEMBER]);
    let (ours, apache) = (Flavour::ZoariumGssapi, Flavour::Apache);
    for voters in [[ours, apache, apache], [apache, ours, ours]] {
        // The last member leads: once Apache ZooKeeper, and once Zoarium.
        let builder = builder(&realm, &voters, MEMBER);
        let Some(ensemble) = or_skip("Apache", builder.start_led_by_last_voter()) else {
            return;
        };
        check::all_write(&ensemble, "mixed");
    }
}

/// A client whose ticket does not belong to the host of a member is refused. The members continue.
#[test]
#[ignore = "runs other people's programs"]
fn principals_of_other_services_or_hosts_are_refused() {
    let Some(realm) = Realm::start("Kerberos") else {
        return;
    };
    realm
        .kdc
        .key_tab_of("members.keytab", &[MEMBER, "zkquorum/elsewhere"]);
    let voters = [Flavour::ZoariumGssapi; 3];
    let Some(mut ensemble) = or_skip("Kerberos", builder(&realm, &voters, MEMBER).start()) else {
        return;
    };
    let leader = ensemble.wait_until_all_serve();
    let outsider = ensemble
        .ids()
        .into_iter()
        .find(|id| *id != leader)
        .expect("a follower");
    ensemble.member_mut(outsider).terminate();
    // This replaces the file, which members read only when they start.
    builder(&realm, &voters, "zkquorum/elsewhere");
    ensemble.start(outsider);
    wait_for("a refusal", LIMIT, || {
        let log = ensemble.member(leader).log();
        let told = "does not have the form service/host@REALM with the host of a member";
        log.lines()
            .any(|line| line.contains(told) && line.contains("127.0.0.1:"))
            .then_some(())
    });
    assert!(ensemble.member(outsider).role().is_none());
    let address = ensemble.member(leader).client_address().to_string();
    let mut session = RawSession::open(&address, None, 30_000).expect("a session");
    let written = session.call(&Request::Write(create("/still", "", 0)));
    assert_eq!(written.expect("an answer").err, 0);
}

/// A member that waits for a KDC answers its operators, and stops on request.
#[test]
#[ignore = "runs other people's programs"]
fn a_silent_kdc_blocks_only_logins() {
    let Some(realm) = Realm::start("Kerberos") else {
        return;
    };
    realm.kdc.key_tab_of("members.keytab", &[MEMBER]);
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("a port").port();
    let text = std::fs::read_to_string(realm.kdc.krb5_conf()).expect("a krb5.conf");
    let answers = text
        .lines()
        .find(|line| line.contains("kdc = 127.0.0.1:"))
        .expect("a KDC");
    let krb5_conf = realm.kdc.path("silent.conf");
    let changed = text.replace(answers, &format!("kdc = 127.0.0.1:{port}"));
    std::fs::write(&krb5_conf, changed).expect("a krb5.conf");
    let voters = [Flavour::ZoariumGssapi; 3];
    let prepared = builder_with(&realm, &voters, MEMBER, &krb5_conf).prepare();
    let Some(mut ensemble) = or_skip("Kerberos", prepared) else {
        return;
    };
    for id in ensemble.ids() {
        ensemble.start(id);
    }
    // The member requests a ticket, and does not get an answer.
    silent.set_nonblocking(true).expect("a listener");
    let asking = wait_for("a question to the KDC", LIMIT, || silent.accept().ok());
    for id in ensemble.ids() {
        let answer = wait_for("an answer to ruok", LIMIT, || {
            ensemble.member(id).word("ruok")
        });
        assert_eq!(answer, "imok");
        assert!(ensemble.member(id).role().is_none());
        let began = Instant::now();
        ensemble.member_mut(id).terminate();
        let took = began.elapsed();
        assert!(took < STOPS_WITHIN, "member {id} took {took:?} to end");
    }
    drop(asking);
}
