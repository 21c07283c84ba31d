//! Identities that the server has checked: certificates, and users of SASL.

use std::fs;

use client::tls::Connector;
use proto::Acl;
use proto::data::perms;
use proto::request::Request;
use serde_json::{Value, json};
use tests::certificates::Certificates;
use tests::requests::set_acl;
use tests::secrets::{SASL_BOB, WRONG};
use tests::{Browser, HttpAnswer, HttpRequest, RawSession, or_skip};

use super::{Visit, found, is};
use crate::site::Site;

const X509: &str = "org.apache.zookeeper.server.auth.X509AuthenticationProvider";
const SASL: &str = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
const ANN: &str = "CN=ann,OU=Ops,O=Test";
const ADMIN: &str = "CN=admin,OU=Ops,O=Test";

/// Failed logins that an address may have in a minute.
const FAILURES_MAX: usize = 3;

/// Sends a request over TLS, with a certificate if the connector has one.
fn send(
    port: u16,
    connector: &Connector,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
) -> HttpAnswer {
    let request = HttpRequest {
        method,
        target,
        headers,
        body: (method != "GET").then_some(b""),
    };
    request.send_by_tls(port, connector).expect("an answer")
}

/// Begins a visit with a certificate. Returns its token, and the answer.
fn begin(port: u16, connector: &Connector, headers: &[(&str, &str)]) -> (String, Value) {
    let begun = found(&send(port, connector, "POST", "/console/visit", headers));
    let token = begun["token"].as_str().expect("a token").to_owned();
    (token, begun)
}

/// A certificate that the secure client port would accept is an identity of the console as well.
#[test]
fn a_certificate_is_the_identity_of_its_visitor() {
    let certificates = Certificates::new();
    for name in ["server", "ann", "admin"] {
        certificates.sign(name);
    }
    let trust = certificates.path("authority.pem").display().to_string();
    let mut settings = certificates.settings("ssl.quorum.", "server", "pem");
    let more = [
        ("admin.portUnification", "true"),
        ("admin.needClientAuth", "true"),
        ("authProvider.x509", X509),
        ("X509AuthenticationProvider.superUser", ADMIN),
        ("ssl.trustStore.location", trust.as_str()),
    ];
    settings.extend(more.map(|(key, value)| (key.to_owned(), value.to_owned())));
    let Some(site) = Site::start(&settings) else {
        return;
    };
    let [ann, admin] = ["ann", "admin"].map(|name| certificates.connector(Some(name)));
    let (token, begun) = begin(site.port, &ann, &[]);
    assert_eq!(begun["user"], ANN);
    assert_eq!(
        begun["identities"],
        json!([{ "scheme": "x509", "id": ANN }])
    );
    let of_ann = [("X-Zoarium-Visit", token.as_str())];
    let create = "/console/node?path=/own&acl=creator";
    found(&send(site.port, &ann, "POST", create, &of_ann));
    let read = "/console/node?path=/own";
    let node = found(&send(site.port, &ann, "GET", read, &of_ann));
    assert_eq!(
        node["acl"],
        json!([{ "scheme": "x509", "id": ANN, "perms": "cdrwa" }])
    );
    let log = "/console/log";
    assert_eq!(send(site.port, &ann, "GET", log, &of_ann).status, 403);
    // The token alone does not prove the identity.
    let other = send(site.port, &admin, "GET", read, &of_ann);
    is(&other, 403, "NoVisit");
    let plain = HttpRequest {
        method: "GET",
        target: read,
        headers: &of_ann,
        body: None,
    };
    is(&plain.send(site.port).expect("an answer"), 403, "NoVisit");
    // The certificate of a proxy is not the certificate of its visitors.
    let (_, begun) = begin(site.port, &ann, &[("Forwarded", "for=192.0.2.7")]);
    assert_eq!(
        (&begun["user"], &begun["identities"]),
        (&json!(null), &json!([]))
    );
    // After the log-out, the visitor is anybody.
    let of_nobody = |method, target| send(site.port, &ann, method, target, &of_ann);
    found(&of_nobody("POST", "/console/logout"));
    is(&of_nobody("POST", create), 403, "ReadOnly");
    is(&of_nobody("GET", read), 403, "NoAuth");

    let (token, begun) = begin(site.port, &admin, &[]);
    let of_admin = [("X-Zoarium-Visit", token.as_str())];
    let schemes = [
        &begun["identities"][0]["scheme"],
        &begun["identities"][1]["scheme"],
    ];
    assert_eq!(schemes, ["super", "x509"]);
    found(&send(site.port, &admin, "GET", log, &of_admin));
}

/// Starts a server with a SASL user.
fn start_with_sasl() -> Option<(Site, tempfile::TempDir)> {
    let dir = tempfile::tempdir().expect("a directory");
    let jaas = dir.path().join("server.conf");
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule";
    let text = format!("Server {{\n  {module} required\n  user_bob=\"{SASL_BOB}\";\n}};\n");
    fs::write(&jaas, text).expect("a JAAS file");
    let settings = [("authProvider.sasl", SASL)];
    let site = Site::start_as(&settings, |builder| {
        let failures = FAILURES_MAX.to_string();
        let builder = builder.setting("auth.maxFailuresPerMinute", &failures);
        let jaas = jaas.display().to_string();
        builder.property("java.security.auth.login.config", &jaas)
    });
    Some((site?, dir))
}

/// The server checks the password of a SASL user, and the limit of failed logins applies.
#[test]
fn a_sasl_user_proves_the_password() {
    let Some((site, _dir)) = start_with_sasl() else {
        return;
    };
    let log_in = |visit: &Visit, password: &str| {
        let form = json!({ "scheme": "sasl", "user": "bob", "password": password }).to_string();
        visit.ask("POST", "/console/login", Some(form.as_bytes()))
    };
    let visit = Visit::begin(site.port);
    is(&log_in(&visit, WRONG), 403, "AuthFailed");
    let create = "/console/node?path=/own&acl=creator";
    is(&visit.ask("POST", create, Some(b"")), 403, "ReadOnly");
    let logged_in = found(&log_in(&visit, SASL_BOB));
    assert_eq!(logged_in["user"], "bob");
    let identities = logged_in["identities"].as_array().expect("identities");
    assert!(identities.contains(&json!({ "scheme": "sasl", "id": "bob" })));
    found(&visit.ask("POST", create, Some(b"")));
    let node = found(&visit.ask("GET", "/console/node?path=/own", None));
    assert_eq!(
        node["acl"],
        json!([{ "scheme": "sasl", "id": "bob", "perms": "cdrwa" }])
    );
    // Commands use the identity, too.
    assert_eq!(visit.ask("GET", "/console/log", None).status, 403);
    let mut session = RawSession::open(&site.server.address(), None, 30_000).expect("a session");
    let bob = Acl::new(perms::ALL, "sasl", "bob");
    let write = Request::Write(set_acl("/", &[bob], -1));
    assert_eq!(session.call(&write).expect("an answer").err, 0);
    found(&visit.ask("GET", "/console/log", None));

    let guesser = Visit::begin(site.port);
    for _ in 1..FAILURES_MAX {
        is(&log_in(&guesser, WRONG), 403, "AuthFailed");
    }
    let refused = log_in(&guesser, SASL_BOB);
    is(&refused, 503, "NoSession");
    assert!(
        refused.text().contains("too many failed logins"),
        "{}",
        refused.text()
    );
    // The visitor who has logged in is not affected.
    found(&visit.ask("GET", "/console/node?path=/own", None));
}

#[test]
#[ignore = "drives a browser"]
fn a_browser_logs_in_with_sasl() {
    let Some(browser) = or_skip("the login in a browser", Browser::start()) else {
        return;
    };
    let Some((site, _dir)) = start_with_sasl() else {
        return;
    };
    browser.go(&format!("http://127.0.0.1:{}/", site.port));
    browser.click("Read only · Log in");
    browser.wait("document.querySelector('dialog[open] input[name=scheme]').value === 'sasl'");
    let fill = "const form = document.querySelector('dialog[open] form');\
        form.elements.user.value = 'bob'; form.elements.password.value = arguments[0];";
    browser.run(fill, &[json!(WRONG)]);
    browser.click("Log in");
    browser.wait(
        "document.querySelector('dialog[open] .wrong').textContent.includes('did not accept')",
    );
    browser.run(fill, &[json!(SASL_BOB)]);
    browser.click("Log in");
    browser.wait("document.getElementById('said').textContent === 'Logged in as bob'");
    let title = browser.run("return document.getElementById('identity').title", &[]);
    let title = title.as_str().expect("text");
    assert!(
        title.contains("sasl:bob (SASL user: the server has checked the password)"),
        "{title}"
    );
}
