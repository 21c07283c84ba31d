//! Tests of certificates on the ports of the ensemble, with `warn` and with `refuse`.

use std::sync::Arc;

use config::{MemberCheckMode, QuorumTls, Tls};
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, SanType};
use zoarium_transport::tls::{Acceptor, Connector, Gate, MemberCheck};

use crate::authority::params;
use crate::handshakes::{Site, meet, source};

/// Hosts of the member list. This test connects from 127.0.0.1.
const HOSTS: [&str; 3] = ["zk1.zk.example", "zk2.example", "192.0.2.3"];

fn check(mode: MemberCheckMode, tls: &Tls) -> Arc<MemberCheck> {
    let check = MemberCheck::new(&QuorumTls {
        is_enabled: true,
        port_unification: false,
        cert_reload: false,
        member_check: mode,
        members: vec!["observer*".to_owned(), "*.joiners.example".to_owned()],
        tls: tls.clone(),
    });
    check.set_hosts(HOSTS.map(str::to_owned).to_vec());
    Arc::new(check)
}

/// Returns the outcome of a connection from `peer`, at each end.
async fn outcome(mode: MemberCheckMode, server: &Tls, peer: &Tls) -> (String, String) {
    let acceptor = Acceptor::tls(source(server, true), Gate::new(None), false);
    let acceptor = acceptor.with_member_check(check(mode, server));
    let connector = Connector::tls(source(peer, true));
    let accepted = meet(&acceptor, &connector).await.0;
    let accepted = accepted.map_or_else(|error| error.to_string(), |_| String::new());
    // In the opposite direction, this server connects to the peer.
    let acceptor = Acceptor::tls(source(peer, true), Gate::new(None), false);
    let connector = Connector::tls(source(server, true)).with_member_check(check(mode, server));
    let connected = meet(&acceptor, &connector).await.1;
    let connected = connected.map_or_else(|error| error.to_string(), |_| String::new());
    (accepted, connected)
}

fn named(name: &str, host: Option<&str>) -> CertificateParams {
    let mut params = params(name);
    params.subject_alt_names = Vec::from_iter(host.map(|host| match host.parse() {
        Ok(ip) => SanType::IpAddress(ip),
        Err(_) => SanType::DnsName(host.try_into().unwrap()),
    }));
    params
}

#[tokio::test]
async fn members_are_recognised_by_host_own_certificate_or_pattern() {
    let site = Site::new();
    let shared = site.authority.member("shared");
    let server = site.own("server", &shared);
    let sign =
        |file: &str, params: &CertificateParams| site.own(file, &site.authority.sign(params));
    let version1 = |file: &str, params: &CertificateParams| {
        let peer = site.own(file, &shared);
        let signed = site.authority.sign_version1(params);
        std::fs::write(peer.key_store.location.as_ref().unwrap(), signed.pem()).unwrap();
        peer
    };
    let any = |host| named("any", Some(host));
    let members = [
        site.own("a shared store", &shared),
        sign("a name of the list", &any("zk2.example")),
        sign("an address of the list", &any("192.0.2.3")),
        sign("a wildcard", &any("*.zk.example")),
        sign("no alternative name", &named("zk1.zk.example", None)),
        sign("an address as the name", &named("192.0.2.3", None)),
        version1("version 1", &named("zk2.example", None)),
        sign(
            "an unlisted observer",
            &named("observer9", Some("192.0.2.9")),
        ),
        sign("a joiner", &any("zk9.joiners.example")),
    ];
    for mode in [MemberCheckMode::Warn, MemberCheckMode::Refuse] {
        for peer in &members {
            let ends = outcome(mode, &server, peer).await;
            let what = peer.key_store.location.as_ref().unwrap();
            assert_eq!(ends, (String::new(), String::new()), "{mode:?} {what:?}");
        }
    }
}

/// One authority has signed all of these certificates.
#[tokio::test]
async fn other_trusted_certificates_are_accepted_with_warn_and_refused_with_refuse() {
    let site = Site::new();
    let sign =
        |file: &str, params: &CertificateParams| site.own(file, &site.authority.sign(params));
    let server = sign("server", &named("zk1", Some("zk1.example")));
    let version1 = site.own("version 1", &site.authority.member("zk8"));
    let signed = site.authority.sign_version1(&named("app", None));
    std::fs::write(version1.key_store.location.as_ref().unwrap(), signed.pem()).unwrap();
    let mut app = named("app", Some("app.example"));
    app.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let strangers = [
        (
            "CN=zk8,OU=Ops,O=Test",
            sign("a joiner 2", &named("zk8", Some("zk8.example"))),
        ),
        (
            "CN=spare,OU=Ops,O=Test",
            sign("an observer", &named("spare", Some("192.0.2.9"))),
        ),
        // The caller's own address does not prove membership.
        (
            "CN=zk7,OU=Ops,O=Test",
            sign("an address", &named("zk7", Some("127.0.0.1"))),
        ),
        ("CN=app,OU=Ops,O=Test", version1),
    ];
    for (subject, peer) in &strangers {
        for mode in [MemberCheckMode::Warn, MemberCheckMode::Off] {
            let ends = outcome(mode, &server, peer).await;
            assert_eq!(ends, (String::new(), String::new()), "{mode:?} {subject}");
        }
        let (accepted, connected) = outcome(MemberCheckMode::Refuse, &server, peer).await;
        for end in [accepted, connected] {
            for part in [
                subject,
                "does not belong to a member",
                "zoarium.ssl.quorum.memberCheck",
            ] {
                assert!(end.contains(part), "{part}: {end}");
            }
        }
    }
    // The certificate of an application that does not listen.
    let app = sign("app", &app);
    let ends = outcome(MemberCheckMode::Warn, &server, &app).await;
    assert_eq!(ends.0, "");
    let ends = outcome(MemberCheckMode::Refuse, &server, &app).await;
    assert!(ends.0.contains("does not belong to a member"), "{}", ends.0);
}

/// A reconfiguration replaces the hosts.
#[tokio::test]
async fn a_joiner_is_a_member_once_the_list_names_it() {
    let site = Site::new();
    let joiner = site.own(
        "joiner",
        &site.authority.sign(&named("any", Some("zk4.example"))),
    );
    let check = check(MemberCheckMode::Refuse, &site.server);
    let acceptor = Acceptor::tls(source(&site.server, true), Gate::new(None), false);
    let acceptor = acceptor.with_member_check(check.clone());
    let connector = Connector::tls(source(&joiner, true));
    assert!(meet(&acceptor, &connector).await.0.is_err());
    check.set_hosts(vec!["zk1.example".to_owned(), "zk4.example".to_owned()]);
    assert!(meet(&acceptor, &connector).await.0.is_ok());
}
