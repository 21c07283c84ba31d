//! Tests of accepted and refused peers over real sockets.

use std::net::{Shutdown, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use config::{ClientAuth, Tls};
use rcgen::SanType;
use rustls::HandshakeKind;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zoarium_transport::Stream;
use zoarium_transport::tls::{
    Acceptor, ClientStores, Connector, Endpoint, Gate, Refused, TlsSource, certificate,
};

use crate::authority::{Authority, Signed, params, self_signed, settings};

/// An authority, and one of its certificates for either side.
pub(crate) struct Site {
    pub(crate) dir: TempDir,
    pub(crate) authority: Authority,
    pub(crate) server: Tls,
    pub(crate) client: Tls,
}

impl Site {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new("Authority");
        let server = settings(
            dir.path(),
            "server",
            &authority.member("zk1"),
            authority.pem(),
        );
        let client = settings(
            dir.path(),
            "client",
            &authority.member("zk2"),
            authority.pem(),
        );
        Self {
            dir,
            authority,
            server,
            client,
        }
    }

    pub(crate) fn own(&self, name: &str, own: &Signed) -> Tls {
        settings(self.dir.path(), name, own, self.authority.pem())
    }
}

pub(crate) fn source(tls: &Tls, fips_mode: bool) -> Arc<TlsSource> {
    TlsSource::load(tls, Endpoint::Quorum, fips_mode).unwrap()
}

fn acceptor(tls: &Tls) -> Acceptor {
    Acceptor::tls(source(tls, true), Gate::new(None), false)
}

/// Connects both sides. Returns both ends of the connection.
pub(crate) async fn meet(
    acceptor: &Acceptor,
    connector: &Connector,
) -> (Result<Stream, Refused>, std::io::Result<Stream>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let accepting = async {
        let (stream, peer) = listener.accept().await.unwrap();
        acceptor.establish(stream, peer).await
    };
    let connecting = async {
        let stream = TcpStream::connect(address).await.unwrap();
        let mut stream = connector.establish(stream, &["127.0.0.1"]).await?;
        // In TLS 1.3, the server's decision about the client's certificate arrives with its first
        // data.
        if stream.is_tls() {
            stream.read_u8().await?;
        }
        Ok(stream)
    };
    let greeting = async {
        let mut stream = accepting.await?;
        if stream.is_tls() {
            // Fails if the client has already refused.
            let _ = stream.write_u8(1).await;
            let _ = stream.flush().await;
        }
        Ok(stream)
    };
    tokio::join!(greeting, connecting)
}

pub(crate) async fn meets(
    server: &Tls,
    client: &Tls,
) -> (Result<Stream, Refused>, std::io::Result<Stream>) {
    meet(&acceptor(server), &Connector::tls(source(client, true))).await
}

/// Returns the reason why the server refused the client.
pub(crate) async fn refusal(server: &Tls, client: &Tls) -> String {
    let (accepted, connected) = meets(server, client).await;
    assert!(connected.is_err());
    accepted.unwrap_err().to_string()
}

/// Returns the reason why the client refused the server.
pub(crate) async fn client_refusal(server: &Tls, client: &Tls) -> String {
    let (accepted, connected) = meets(server, client).await;
    assert!(accepted.is_err());
    connected.unwrap_err().to_string()
}

#[tokio::test]
async fn both_sides_authenticate_and_bytes_arrive_unchanged() {
    let site = Site::new();
    let (accepted, connected) = meets(&site.server, &site.client).await;
    let (accepted, connected) = (accepted.unwrap(), connected.unwrap());
    let subject = certificate::subject(accepted.peer_certificate().unwrap());
    assert_eq!(subject.as_deref(), Some("CN=zk2,OU=Ops,O=Test"));
    let sent: Vec<u8> = (0..3_000_000u32).map(|n| n.to_le_bytes()[0]).collect();
    let expected = sent.clone();
    let (_read, mut write) = accepted.into_split();
    let writing = tokio::spawn(async move {
        write.write_all(&sent).await.unwrap();
        write.flush().await.unwrap();
        write.shutdown().await.unwrap();
    });
    let (mut read, _write) = connected.into_split();
    let mut received = Vec::new();
    read.read_to_end(&mut received).await.unwrap();
    writing.await.unwrap();
    assert!(received == expected);
}

#[tokio::test]
async fn a_stream_that_breaks_off_ends_like_tcp() {
    let site = Site::new();
    let (accepted, connected) = meets(&site.server, &site.client).await;
    let Ok(Stream::Tls(tls)) = accepted else {
        panic!("no TLS")
    };
    // Closes without close_notify.
    let tcp = socket2::SockRef::from(tls.get_ref().0.tcp());
    tcp.shutdown(Shutdown::Both).unwrap();
    let mut some = Vec::new();
    assert_eq!(connected.unwrap().read_to_end(&mut some).await.unwrap(), 0);
}

#[tokio::test]
async fn certificates_of_strangers_are_refused() {
    let site = Site::new();
    let stranger = Authority::new("Stranger");
    let client = site.own("stranger", &stranger.member("zk2"));
    assert!(
        refusal(&site.server, &client)
            .await
            .contains("UnknownIssuer")
    );
    let client = site.own("alone", &self_signed("zk2", false));
    assert!(
        refusal(&site.server, &client)
            .await
            .contains("UnknownIssuer")
    );
    let server = site.own("wrong", &stranger.member("zk1"));
    let reason = client_refusal(&server, &site.client).await;
    assert!(reason.contains("UnknownIssuer"), "{reason}");
    // Hosts are not checked, but this must not hide the untrusted chain.
    let mut elsewhere = params("zk1");
    elsewhere.subject_alt_names = vec![SanType::IpAddress([192, 0, 2, 1].into())];
    let server = site.own("elsewhere", &stranger.sign(&elsewhere));
    let reason = client_refusal(&server, &site.client).await;
    assert!(reason.contains("UnknownIssuer"), "{reason}");
    let server = site.own("known", &site.authority.sign(&elsewhere));
    let (_, connected) = meets(&server, &site.client).await;
    assert!(connected.is_ok(), "{connected:?}");
}

/// A revoked certificate, and one that no valid list covers, is refused on both sides.
#[tokio::test]
async fn revoked_certificates_are_refused() {
    let site = Site::new();
    let with = |tls: &Tls, lists: String| {
        let path = site.dir.path().join("lists.pem");
        std::fs::write(&path, lists).unwrap();
        let crl_location = Some(path);
        Tls {
            crl_location,
            ..tls.clone()
        }
    };
    let list = |names: &[&str], until_year| site.authority.revoke(names, until_year).pem().unwrap();
    let nobody = list(&["somebody"], 3000);
    let (accepted, connected) = meets(&with(&site.server, nobody.clone()), &site.client).await;
    assert!(accepted.is_ok() && connected.is_ok(), "{accepted:?}");
    let (accepted, connected) = meets(&site.server, &with(&site.client, nobody)).await;
    assert!(accepted.is_ok() && connected.is_ok(), "{connected:?}");

    let strangers = Authority::new("Stranger").revoke(&[], 3000).pem().unwrap();
    for (lists, reason) in [
        (list(&["zk1", "zk2"], 3000), "Revoked"),
        (strangers.clone() + &list(&["zk1", "zk2"], 3000), "Revoked"),
        (
            list(&["zk1", "zk2"], 2002),
            "certificate revocation list expired",
        ),
        (strangers, "UnknownRevocationStatus"),
    ] {
        let refused = refusal(&with(&site.server, lists.clone()), &site.client).await;
        assert!(refused.contains(reason), "{reason}: {refused}");
        let refused = client_refusal(&site.server, &with(&site.client, lists)).await;
        assert!(refused.contains(reason), "{reason}: {refused}");
    }
}

/// Java does not check lists for these certificates: a certificate in the trust store is trusted.
#[tokio::test]
async fn a_revoked_certificate_in_the_trust_store_is_not_trusted() {
    let site = Site::new();
    let member = site.authority.member("zk2");
    let client = site.own("client", &member);
    let both = format!("{}{}", site.authority.pem(), member.certificate.pem());
    let mut server = settings(
        site.dir.path(),
        "server",
        &site.authority.member("zk1"),
        &both,
    );
    assert!(meets(&server, &client).await.0.is_ok());
    let path = site.dir.path().join("list.der");
    std::fs::write(&path, site.authority.revoke(&["zk2"], 3000).der()).unwrap();
    server.crl_location = Some(path);
    let refused = refusal(&server, &client).await;
    assert!(refused.contains("Revoked"), "{refused}");
}

#[tokio::test]
async fn a_file_without_revocation_lists_is_refused() {
    let site = Site::new();
    let list = site.authority.revoke(&[], 3000).pem().unwrap();
    for (content, reason) in [
        (&*list.repeat(2), "two lists have the same issuer"),
        (
            "",
            "the file is empty, or the PEM sections have another type",
        ),
        (
            site.authority.pem(),
            "the file is empty, or the PEM sections have another type",
        ),
        (
            "0 is how DER begins",
            "a list is damaged, or has another type",
        ),
        (
            "-----BEGIN X509 CRL-----\nMA==\n-----END X509 CRL-----\n",
            "a list is damaged",
        ),
        ("-----BEGIN X509 CRL-----\n", "the content is not PEM"),
    ] {
        let path = site.dir.path().join("lists");
        std::fs::write(&path, content).unwrap();
        let crl_location = Some(path);
        let server = Tls {
            crl_location,
            ..site.server.clone()
        };
        let error = TlsSource::load(&server, Endpoint::Quorum, true).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains(reason) && error.contains("lists: "),
            "{error}"
        );
    }
}

#[tokio::test]
async fn expired_certificates_and_other_usages_are_refused() {
    let site = Site::new();
    let mut old = params("zk2");
    old.not_before = rcgen::date_time_ymd(2001, 1, 1);
    old.not_after = rcgen::date_time_ymd(2002, 1, 1);
    let client = site.own("old", &site.authority.sign(&old));
    let reason = refusal(&site.server, &client).await;
    assert!(reason.contains("expired"), "{reason}");
    let mut early = params("zk2");
    early.not_before = rcgen::date_time_ymd(2999, 1, 1);
    early.not_after = rcgen::date_time_ymd(3000, 1, 1);
    let client = site.own("early", &site.authority.sign(&early));
    let reason = refusal(&site.server, &client).await;
    assert!(reason.contains("not valid yet"), "{reason}");
    let mut only_servers = params("zk2");
    only_servers.extended_key_usages.pop();
    let client = site.own("usage", &site.authority.sign(&only_servers));
    let reason = refusal(&site.server, &client).await;
    assert!(reason.contains("extended key usage"), "{reason}");
}

#[tokio::test]
async fn a_certificate_in_the_trust_store_is_trusted_whatever_it_may_sign() {
    for is_ca in [true, false] {
        let site = Site::new();
        let (one, two) = (self_signed("zk1", is_ca), self_signed("zk2", is_ca));
        let both = format!("{}{}", one.certificate.pem(), two.certificate.pem());
        let server = settings(site.dir.path(), "one", &one, &both);
        let client = settings(site.dir.path(), "two", &two, &both);
        let (accepted, connected) = meets(&server, &client).await;
        accepted.unwrap();
        connected.unwrap();
    }
}

#[tokio::test]
async fn clients_without_a_certificate_are_accepted_only_if_it_is_optional() {
    let site = Site::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    for (wanted, comes_in) in [
        (ClientAuth::None, true),
        (ClientAuth::Want, true),
        (ClientAuth::Need, false),
    ] {
        let mut server = site.server.clone();
        server.client_auth = wanted;
        let acceptor = acceptor(&server);
        let client = Command::new("openssl")
            .args(["s_client", "-quiet", "-connect", &address.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut client) = client else {
            eprintln!("skipped: no openssl");
            return;
        };
        let (stream, peer) = listener.accept().await.unwrap();
        match acceptor.establish(stream, peer).await {
            Ok(stream) => assert!(comes_in && stream.peer_certificate().is_none()),
            Err(refused) => {
                assert!(!comes_in, "{refused}");
                assert!(refused.to_string().contains("no certificate"), "{refused}");
            }
        }
        client.kill().unwrap();
        client.wait().unwrap();
    }
}

#[tokio::test]
async fn disjoint_protocol_versions_are_refused() {
    let site = Site::new();
    let (mut server, mut client) = (site.server.clone(), site.client.clone());
    server.enabled_protocols = Some(vec!["TLSv1.3".to_owned()]);
    client.enabled_protocols = Some(vec!["TLSv1.2".to_owned()]);
    let reason = refusal(&server, &client).await;
    assert!(reason.contains("incompatible"), "{reason}");
    server.enabled_protocols = Some(vec!["TLSv1.2".to_owned()]);
    let (accepted, connected) = meets(&server, &client).await;
    accepted.unwrap();
    connected.unwrap();
}

#[tokio::test]
async fn hosts_are_checked_unless_fips_mode_leaves_them_alone() {
    let site = Site::new();
    let mut elsewhere = params("zk1");
    elsewhere.subject_alt_names = vec![SanType::DnsName("zk1.elsewhere".try_into().unwrap())];
    let wrong = site.own("elsewhere", &site.authority.sign(&elsewhere));
    let checking = Connector::tls(source(&site.client, false));
    let (_, connected) = meet(&acceptor(&wrong), &checking).await;
    let reason = connected.unwrap_err().to_string();
    assert!(reason.contains("not valid for 127.0.0.1"), "{reason}");
    assert!(reason.contains("zk1.elsewhere"), "{reason}");
    let (_, connected) = meet(&acceptor(&site.server), &checking).await;
    connected.unwrap();
    let lenient = Connector::tls(source(&site.client, true));
    let (_, connected) = meet(&acceptor(&wrong), &lenient).await;
    connected.unwrap();

    let mut server = site.server.clone();
    server.client_hostname_verification = true;
    let strict = Acceptor::tls(source(&server, false), Gate::new(None), false);
    let (accepted, _) = meet(&strict, &Connector::tls(source(&wrong, true))).await;
    assert!(matches!(accepted, Err(Refused::WrongHost(_))));
    let (accepted, _) = meet(&strict, &lenient).await;
    accepted.unwrap();
}

/// Connects and sends these bytes. Returns the acceptor's result.
async fn greeted_by(acceptor: Acceptor, bytes: &[u8]) -> Result<Stream, Refused> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let (accepted, peer) = listener.accept().await.unwrap();
    acceptor.establish(accepted, peer).await
}

#[tokio::test]
async fn plain_connections_are_accepted_only_on_unified_ports() {
    let site = Site::new();
    let refused = greeted_by(acceptor(&site.server), b"ruok").await;
    assert!(matches!(refused, Err(Refused::NotTls)));
    let unified = Acceptor::tls(source(&site.server, true), Gate::new(None), true);
    let mut stream = greeted_by(unified.clone(), b"ruok").await.unwrap();
    assert!(!stream.is_tls());
    let mut word = [0; 4];
    stream.read_exact(&mut word).await.unwrap();
    assert_eq!(&word, b"ruok");
    let (accepted, _) = meet(&unified, &Connector::tls(source(&site.client, true))).await;
    assert!(accepted.unwrap().is_tls());
    // Silence means plain, because on some ports the server sends first.
    let mut hasty = site.server.clone();
    hasty.handshake_detection_timeout_ms = 50;
    let unified = Acceptor::tls(source(&hasty, true), Gate::new(None), true);
    assert!(!greeted_by(unified, b"").await.unwrap().is_tls());
}

#[tokio::test]
async fn garbage_after_the_first_byte_is_refused() {
    let site = Site::new();
    for bytes in [
        &b"\x16\x03\x01\xff\xff"[..],
        b"\x16\x03\x01\x00\x04abcd",
        b"\x16garbage that is no TLS at all",
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        stream.write_all(bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        let (accepted, peer) = listener.accept().await.unwrap();
        let acceptor = acceptor(&site.server);
        assert!(acceptor.establish(accepted, peer).await.is_err());
    }
}

#[tokio::test]
async fn a_stalled_handshake_is_dropped_and_does_not_block_others() {
    let site = Site::new();
    let gate = Gate::new(None);
    let acceptor = Acceptor::tls(source(&site.server, true), gate.clone(), false);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut stuck = Vec::new();
    let mut greetings = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"\x16\x03\x01\x02").await.unwrap();
        stuck.push(stream);
        let (accepted, peer) = listener.accept().await.unwrap();
        let acceptor = acceptor.clone();
        greetings.push(tokio::spawn(async move {
            acceptor.establish(accepted, peer).await.map(|_| ())
        }));
    }
    let begun = std::time::Instant::now();
    let (accepted, connected) = meet(&acceptor, &Connector::tls(source(&site.client, true))).await;
    accepted.unwrap();
    connected.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5));
    for greeting in greetings {
        let ended = greeting.await.unwrap();
        assert!(matches!(ended, Err(Refused::TimedOut)), "{ended:?}");
    }
    assert_eq!(gate.in_progress(), 0);
}

#[tokio::test]
async fn the_log_reports_handshakes_over_the_limit() {
    let site = Site::new();
    let acceptor = Acceptor::tls(source(&site.server, true), Gate::new(Some(0)), false);
    let refused = greeted_by(acceptor, b"\x16").await;
    assert!(matches!(refused, Err(Refused::Crowded)));
}

/// A handshake message contains its length; more than 64 KiB are not accepted.
#[tokio::test]
async fn an_endless_client_hello_is_refused() {
    let site = Site::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let (accepted, peer) = listener.accept().await.unwrap();
    let sending = tokio::spawn(async move {
        let mut record = vec![0; 5 + 16384];
        record[..5].copy_from_slice(&[22, 3, 1, 0x40, 0]);
        // Begins a hello of 16 MiB minus one byte.
        record[5..9].copy_from_slice(&[1, 0xff, 0xff, 0xff]);
        let mut sent = 0;
        while stream.write_all(&record).await.is_ok() {
            sent += record.len();
            record[5..9].fill(0);
        }
        sent
    });
    let refused = acceptor(&site.server).establish(accepted, peer).await;
    assert!(matches!(refused, Err(Refused::Handshake(_))), "{refused:?}");
    // Bytes that fit into the system's buffers are already sent by then.
    assert!(sending.await.unwrap() < 16 << 20);
}

/// A client's second connection resumes the session of its first one.
#[tokio::test]
async fn sessions_are_resumed_where_the_client_wants_it() {
    let site = Site::new();
    let acceptor = acceptor(&site.server);
    for (resumes_sessions, kind) in [(true, HandshakeKind::Resumed), (false, HandshakeKind::Full)] {
        let connector = Connector::of_client(&ClientStores {
            key: Some(site.client.key_store.clone()),
            trust: Some(site.client.trust_store.clone()),
            checks_hosts: true,
            resumes_sessions,
        });
        let connector = connector.unwrap();
        let mut last = None;
        for _ in 0..2 {
            let (accepted, connected) = meet(&acceptor, &connector).await;
            let Ok(Stream::Tls(tls)) = accepted else {
                panic!("no TLS")
            };
            connected.unwrap();
            last = tls.get_ref().1.handshake_kind();
        }
        assert_eq!(last, Some(kind));
    }
}
