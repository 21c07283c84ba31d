//! HTTPS on the admin port.

use std::process::Command;
use std::time::Duration;

use client::tls::Connector;
use proto::request::Request;
use tests::certificates::{Certificates, Flaw};
use tests::requests::create;
use tests::{
    Bystander, Flavour, HttpAnswer, HttpRequest, Port, RawSession, find_tool, or_skip, run,
    wait_for, zoarium_binary,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use transport::tls::certificate;

use crate::site::{Site, builder};

const LIMIT: Duration = Duration::from_secs(60);
const STS: &str = "strict-transport-security";

/// Returns the settings of a server with `server.<extension>` as its key, and these additional
/// ones.
fn settings(
    certificates: &Certificates,
    extension: &str,
    more: &[(&str, &str)],
) -> Vec<(String, String)> {
    let mut settings = certificates.settings("ssl.quorum.", "server", extension);
    let more = more
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    settings.extend(more);
    settings
}

fn certificates() -> Certificates {
    let certificates = Certificates::new();
    for name in ["server", "ann", "admin"] {
        certificates.sign(name);
    }
    certificates
}

fn request<'a>(target: &'a str, headers: &'a [(&'a str, &'a str)]) -> HttpRequest<'a> {
    HttpRequest {
        method: "GET",
        target,
        headers,
        body: None,
    }
}

fn get(port: u16, connector: &Connector) -> std::io::Result<HttpAnswer> {
    request("/commands/ruok", &[]).send_by_tls(port, connector)
}

#[test]
fn a_unified_port_accepts_both_and_counts_plain_connections() {
    let certificates = certificates();
    let unified = settings(&certificates, "pem", &[("admin.portUnification", "true")]);
    let Some(site) = Site::start(&unified) else {
        return;
    };
    let secure = get(site.port, &certificates.connector(None)).expect("an answer by TLS");
    assert_eq!(secure.status, 200);
    assert_eq!(secure.header(STS), Some("max-age=86400; includeSubDomains"));
    for _ in 0..3 {
        let plain = request("/commands/ruok", &[])
            .send(site.port)
            .expect("an answer");
        assert_eq!((plain.status, plain.header(STS)), (200, None));
    }
    let counted = site.server.metric("insecure_admin_count");
    assert_eq!(counted.as_deref(), Some("3"));
}

#[test]
fn a_forced_port_accepts_only_https_and_logs_refusals() {
    let certificates = certificates();
    let forced = settings(
        &certificates,
        "pem",
        &[
            ("admin.forceHttps", "true"),
            ("admin.portUnification", "true"),
        ],
    );
    let Some(site) = Site::start(&forced) else {
        return;
    };
    let missing = request("/nowhere", &[]).send_by_tls(site.port, &certificates.connector(None));
    let missing = missing.expect("an answer by TLS");
    assert_eq!((missing.status, missing.header(STS).is_some()), (404, true));
    assert!(request("/commands/ruok", &[]).send(site.port).is_err());
    // A client that does not trust the server fails as well.
    let strangers = Certificates::new();
    assert!(get(site.port, &strangers.connector(None)).is_err());
    for reason in ["the peer does not use TLS", "TLS handshake failed: "] {
        wait_for("the refusals in the log", LIMIT, || {
            let log = site.server.log();
            let mut lines = log.lines().filter(|line| line.contains("the admin server"));
            let line = lines.find(|line| line.contains(reason))?;
            line.contains("peer=127.0.0.1:").then_some(())
        });
    }
    assert_eq!(
        get(site.port, &certificates.connector(None))
            .expect("an answer")
            .status,
        200
    );
}

/// The tools that query the admin port use HTTPS.
#[test]
fn a_backup_over_https_requires_a_trusted_server() {
    let certificates = certificates();
    let forced = settings(&certificates, "pem", &[("admin.forceHttps", "true")]);
    let Some(site) = Site::start(&forced) else {
        return;
    };
    let mut session = RawSession::open(&site.server.address(), None, 30_000).expect("a session");
    let created = session.call(&Request::Write(create("/kept", "x", 0)));
    assert_eq!(created.expect("an answer").err, 0);
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("zk.tar");
    let server = format!("localhost:{}", site.port);
    let trust = certificates.path("authority.pem");
    let backup = |more: &[&std::ffi::OsStr]| {
        let mut command = Command::new(zoarium_binary());
        command.arg("backup").arg(&file).args(["--server", &server]);
        command.args(["--auth", "digest super:secret"]).args(more);
        run(&mut command, LIMIT)
    };
    let tls = ["--tls".as_ref(), "--tls-trust".as_ref(), trust.as_os_str()];
    let said = backup(&tls).expect("a backup");
    assert!(said.contains("znodes after 0x"), "{said}");
    // There is no plain answer, and an untrusted server does not receive a secret.
    assert!(backup(&[]).is_err() && backup(&tls[..1]).is_err());
}

/// `top` uses HTTPS with the stores of its configuration, whatever its session uses.
#[test]
fn top_over_https_requires_a_trusted_server() {
    let certificates = certificates();
    let forced = settings(&certificates, "pem", &[("admin.forceHttps", "true")]);
    let Some(site) = Site::start(&forced) else {
        return;
    };
    let home = tempfile::tempdir().expect("a directory");
    let configuration = home.path().join("client.cfg");
    let stores = certificates.settings("zookeeper.ssl.", "ann", "pem");
    let lines: String = stores
        .iter()
        .map(|(key, value)| format!("{key}={value}\n"))
        .collect();
    std::fs::write(&configuration, lines).expect("write the configuration");
    let configured = ["-client-configuration".as_ref(), configuration.as_os_str()];
    let port = format!("localhost:{}", site.port);
    let top = |configuration: &[&std::ffi::OsStr], words: &[&str]| {
        let mut command = Command::new(zoarium_binary());
        command.args(["cli", "-server", &site.server.address()]);
        command.args(configuration);
        command.args(["top", "-n", "1", "-d", "0.3", "-a", &port]);
        run(command.args(words), LIMIT).expect("a view")
    };
    let seen = top(&configured, &["-tls"]);
    assert!(
        seen.contains("ADDRESS") && seen.contains("127.0.0.1 "),
        "{seen}"
    );
    // There is no plain answer, and an untrusted server is not queried.
    for (configuration, words) in [(&configured[..], &[][..]), (&[], &["-tls"])] {
        let seen = top(configuration, words);
        assert!(seen.contains("no admin port answers"), "{seen}");
        assert!(seen.contains(&format!("{port}: ")), "{seen}");
    }
}

/// The console accepts a remote user's password over TLS, but not over a plain connection.
#[test]
fn the_console_accepts_credentials_over_tls_from_any_host() {
    let certificates = certificates();
    let unified = settings(&certificates, "pem", &[("admin.portUnification", "true")]);
    let Some(site) = Site::start(&unified) else {
        return;
    };
    let connector = certificates.connector(None);
    let proxied = ("Forwarded", "for=192.0.2.7");
    let post = |target, headers: &[(&str, &str)], body: &[u8], by_tls: bool| {
        let request = HttpRequest {
            method: "POST",
            target,
            headers,
            body: Some(body),
        };
        let answer = if by_tls {
            request.send_by_tls(site.port, &connector)
        } else {
            request.send(site.port)
        };
        answer.expect("an answer")
    };
    for by_tls in [true, false] {
        let begun = post("/console/visit", &[proxied], b"", by_tls);
        assert_eq!(begun.header(STS).is_some(), by_tls);
        let begun: serde_json::Value = serde_json::from_slice(&begun.body).expect("JSON");
        assert_eq!(begun["may_log_in"], by_tls);
        let token = begun["token"].as_str().expect("a token");
        let headers = [proxied, ("X-Zoarium-Visit", token)];
        let form = br#"{"user":"ann","password":"pw"}"#;
        let login = post("/console/login", &headers, form, by_tls);
        // The client port of this server is for this machine, so a remote visitor cannot get a
        // session.
        let text = login.text();
        if by_tls {
            assert!(text.contains("clientPortAddress"), "{text}");
        } else {
            assert_eq!((login.status, text.contains("NotSecure")), (403, true));
        }
    }
    // A local visitor gets one, also over TLS.
    let begun = post("/console/visit", &[], b"", true);
    let begun: serde_json::Value = serde_json::from_slice(&begun.body).expect("JSON");
    let token = begun["token"].as_str().expect("a token");
    let form = br#"{"user":"ann","password":"pw"}"#;
    let login = post("/console/login", &[("X-Zoarium-Visit", token)], form, true);
    assert_eq!(login.status, 200, "{}", login.text());
}

/// With the operators' usual tool, and a key store from keytool.
#[test]
fn curl_authenticates_by_a_certificate() {
    let certificates = certificates();
    let Some(()) = or_skip("key stores of keytool", certificates.convert("server")) else {
        return;
    };
    let Some(curl) = or_skip("HTTPS by curl", find_tool("curl")) else {
        return;
    };
    let needed = settings(
        &certificates,
        "p12",
        &[
            ("admin.forceHttps", "true"),
            ("admin.needClientAuth", "true"),
        ],
    );
    let Some(site) = Site::start(&needed) else {
        return;
    };
    let url = format!("https://127.0.0.1:{}/commands/ruok", site.port);
    let ask = |more: &[&str]| {
        let mut command = Command::new(&curl);
        command.current_dir(certificates.dir());
        command.args(["--silent", "--show-error", "--cacert", "authority.pem"]);
        run(command.args(more).arg(&url), LIMIT)
    };
    let answer = ask(&["--cert", "ann.pem"]).expect("an answer to curl");
    assert!(answer.contains("\"command\""), "{answer}");
    ask(&["--tlsv1.2", "--tls-max", "1.2", "--cert", "ann.pem"]).expect("TLS 1.2 is taken, too");
    ask(&[]).expect_err("no certificate");
}

#[test]
fn a_required_certificate_identifies_its_caller() {
    let certificates = certificates();
    let provider = "org.apache.zookeeper.server.auth.X509AuthenticationProvider";
    let trust = certificates.path("authority.pem").display().to_string();
    let common = [
        ("admin.portUnification", "true"),
        ("admin.needClientAuth", "true"),
        ("serializeLastProcessedZxid.enabled", "true"),
        ("authProvider.x509", provider),
        (
            "X509AuthenticationProvider.superUser",
            "CN=admin,OU=Ops,O=Test",
        ),
    ];
    let known = [&common[..], &[("ssl.trustStore.location", trust.as_str())]].concat();
    let Some(site) = Site::start(&settings(&certificates, "pem", &known)) else {
        return;
    };
    let restore = |port: u16, name: Option<&str>, scheme: &str| {
        let headers = [("Authorization", scheme)];
        let request = HttpRequest {
            method: "POST",
            target: "/commands/restore",
            headers: &headers,
            body: Some(b""),
        };
        match name {
            Some(name) => request.send_by_tls(port, &certificates.connector(Some(name))),
            None => request.send(port),
        }
    };
    let status = |port, name, scheme| restore(port, name, scheme).map(|answer| answer.status).ok();
    close_the_root(&site);
    assert!(
        get(site.port, &certificates.connector(None)).is_err(),
        "no certificate"
    );
    assert_eq!(status(site.port, None, "x509"), Some(401));
    assert_eq!(status(site.port, Some("ann"), "x509"), Some(403));
    assert_eq!(status(site.port, Some("admin"), "ip"), Some(403));
    // The identity has permission, but the body is not a snapshot.
    assert_eq!(status(site.port, Some("admin"), "x509"), Some(500));
    // An identity that the client ports would not accept is unknown.
    let Some(site) = Site::start(&settings(&certificates, "pem", &common)) else {
        return;
    };
    assert_eq!(status(site.port, Some("admin"), "x509"), Some(401));
    assert!(
        site.server
            .log()
            .contains("ssl.trustStore.location is missing")
    );
}

/// Validity period, revocation list and key usage are checked, but host names are not.
#[test]
fn flawed_certificates_are_refused_each_with_its_reason() {
    let certificates = certificates();
    let flaws = [
        ("expired", Some(Flaw::Expired), "certificate expired"),
        (
            "early",
            Some(Flaw::NotYetValid),
            "certificate not valid yet",
        ),
        ("own", Some(Flaw::SelfSigned), "UnknownIssuer"),
        ("only", Some(Flaw::ForServersOnly), "does not allow"),
        ("revoked", None, "Revoked"),
    ];
    let lists = certificates.revoke(&["revoked"], "lists.pem");
    let lists = lists.display().to_string();
    let needed = settings(
        &certificates,
        "pem",
        &[
            ("admin.forceHttps", "true"),
            ("admin.needClientAuth", "true"),
            ("ssl.quorum.crl.location", &lists),
        ],
    );
    let Some(site) = Site::start(&needed) else {
        return;
    };
    let bystander = Bystander::start(&site.server.address(), Connector::plain());
    for (name, flaw, reason) in flaws {
        match flaw {
            Some(flaw) => certificates.sign_flawed(name, flaw),
            None => certificates.sign(name),
        };
        assert!(get(site.port, &certificates.connector(Some(name))).is_err());
        wait_for(reason, LIMIT, || {
            let log = site.server.log();
            let mut lines = log.lines().filter(|line| line.contains("the admin server"));
            let line = lines.find(|line| line.contains(reason))?;
            line.contains("peer=127.0.0.1:").then_some(())
        });
    }
    let good = get(site.port, &certificates.connector(Some("ann")));
    assert_eq!(good.expect("an answer").status, 200);
    bystander.finish();
}

/// Restricts / so that only the super user may do everything.
fn close_the_root(site: &Site) {
    let mut session = RawSession::open(&site.server.address(), None, 10_000).expect("a session");
    let nobody = proto::Acl {
        perms: 31,
        id: proto::Id {
            scheme: "ip".into(),
            id: "192.0.2.1".into(),
        },
    };
    let request = tests::requests::set_acl("/", &[nobody], -1);
    let answer = session.call(&Request::Write(request)).expect("an answer");
    assert_eq!(answer.err, 0);
    let refused = session.call(&Request::Write(create("/a", "", 0)));
    assert_ne!(refused.expect("an answer").err, 0);
}

#[test]
fn a_new_certificate_applies_only_to_new_connections() {
    let certificates = certificates();
    let reloaded = settings(
        &certificates,
        "pem",
        &[
            ("admin.forceHttps", "true"),
            ("sslQuorumReloadCertFiles", "true"),
        ],
    );
    let Some(site) = Site::start(&reloaded) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime");
    let connect = || {
        runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect(("127.0.0.1", site.port)).await?;
            certificates
                .connector(None)
                .establish(stream, &["127.0.0.1"])
                .await
        })
    };
    let mut old = connect().expect("a connection");
    let mut ask = || {
        runtime.block_on(async {
            let request = b"HEAD /commands/ruok HTTP/1.1\r\nHost: x\r\n\r\n";
            old.write_all(request).await.expect("written");
            old.flush().await.expect("written");
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(old.read_u8().await.expect("an answer"));
            }
            assert!(head.starts_with(b"HTTP/1.1 200"));
        });
    };
    ask();
    certificates.sign("other");
    std::fs::write(
        certificates.path("new.pem"),
        std::fs::read(certificates.path("other.pem")).expect("a key"),
    )
    .expect("written");
    std::fs::rename(
        certificates.path("new.pem"),
        certificates.path("server.pem"),
    )
    .expect("renamed");
    wait_for("the new certificate", LIMIT, || {
        let stream = connect().ok()?;
        let subject = certificate::subject(stream.peer_certificate()?)?;
        (subject == "CN=other,OU=Ops,O=Test").then_some(())
    });
    ask();
}

#[test]
fn a_tls_admin_port_without_stores_does_not_start() {
    let certificates = certificates();
    let admin = Port::take();
    let key = certificates.path("server.pem").display().to_string();
    for (settings, reason) in [
        (
            vec![("admin.forceHttps", "true")],
            "ssl.quorum.keyStore.location is missing",
        ),
        (
            vec![
                ("admin.portUnification", "true"),
                ("ssl.quorum.keyStore.location", key.as_str()),
            ],
            "ssl.quorum.trustStore.location is missing",
        ),
        (
            vec![("admin.needClientAuth", "true")],
            "admin.needClientAuth: requires certificates of admin clients",
        ),
    ] {
        let builder = settings
            .iter()
            .fold(builder(&admin), |builder, (key, value)| {
                builder.setting(key, value)
            });
        if Flavour::under_test() != Flavour::Zoarium {
            return;
        }
        let refused = builder
            .try_start()
            .expect("ours is there")
            .expect_err(reason);
        assert_eq!(refused.status.and_then(|status| status.code()), Some(2));
        assert!(refused.log.contains(reason), "{}", refused.log);
    }
}
