//! `zoarium bench --tls` against real servers: every load uses TLS with a certificate on both
//! sides.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tests::{Flavour, or_skip, run, zoarium_binary};

use crate::way::{PASSWORD, Secured, USER, Way};

/// A client cannot do anything before its login.
const REQUIRED: [(&str, &str); 1] = [("sessionRequireClientSASLAuth", "true")];
const LIMIT: Duration = Duration::from_secs(300);

fn secured(flavour: Flavour) -> Option<Secured> {
    or_skip("TLS", Secured::start(flavour, Way::MutualTls, &[]))
}

/// Runs the load with the certificates of one of the servers, and returns its report.
fn bench(files: &Secured, arguments: &str) -> Result<Value, String> {
    let mut command = Command::new(zoarium_binary());
    command
        .arg("bench")
        .args(arguments.split_ascii_whitespace())
        .args(["--warmup", "0", "--json", "--tls", "--tls-trust"])
        .arg(files.certificates.path("authority.pem"))
        .arg("--tls-key")
        .arg(files.certificates.path("client.pem"));
    let printed = run(&mut command, LIMIT)?;
    let json = printed.find('{').map(|at| &printed[at..]);
    Ok(serde_json::from_str(json.unwrap_or_default()).expect("a report"))
}

#[test]
fn every_load_runs_over_tls() {
    let Some(secured) = secured(Flavour::Zoarium) else {
        return;
    };
    let address = &secured.address;
    for load in ["get", "set", "create", "mixed", "multi"] {
        let sized = "--sessions 4 --pipeline 8 --keys 50 --ops 400";
        let report = bench(&secured, &format!("{load} --server {address} {sized}"));
        let report = report.unwrap_or_else(|failure| panic!("{load}: {failure}"));
        assert_eq!(report["servers"][0]["ops"], 400, "{load}: {report}");
        assert_eq!(
            report["servers"][0]["errors"],
            serde_json::json!({}),
            "{load}"
        );
    }
    // Each opened session is one handshake, resumed or full. `handshake` does not open sessions.
    for (load, option) in [
        ("connect", ""),
        ("connect", "--tls-full-handshakes"),
        ("handshake", ""),
        ("handshake", "--tls-full-handshakes"),
    ] {
        let storm = format!("{load} --server {address} --sessions 4 --ops 100 {option}");
        let report = bench(&secured, &storm).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(report["servers"][0]["ops"], 100, "{report}");
        assert_eq!(
            report["servers"][0]["errors"],
            serde_json::json!({}),
            "{load}"
        );
        let connections = report["load"]["connections"].as_str().unwrap_or_default();
        assert_eq!(connections.contains("full"), !option.is_empty(), "{report}");
    }
    secured.server.wait_until_idle();
}

#[test]
fn bench_without_tls_or_a_certificate_reports_the_reason() {
    let Some(secured) = secured(Flavour::Zoarium) else {
        return;
    };
    let mut command = Command::new(zoarium_binary());
    command.args(["bench", "get", "--server", &secured.address, "--ops", "1"]);
    let failure = run(&mut command, LIMIT).expect_err("a plain connection");
    let said = format!("zoarium bench: handshake with {} failed: ", secured.address);
    assert!(failure.contains(&said), "{failure}");
    command.args(["--tls", "--tls-trust"]);
    command.arg(secured.certificates.path("authority.pem"));
    let failure = run(&mut command, LIMIT).expect_err("a connection without a certificate");
    assert!(failure.contains(&said), "{failure}");
}

#[test]
fn bench_logs_in_on_each_connection() {
    let secured = Secured::start(Flavour::Zoarium, Way::DigestMd5OverTls, &REQUIRED);
    let Some(secured) = or_skip("SASL", secured) else {
        return;
    };
    let file = secured.certificates.path("password");
    std::fs::write(&file, format!("{PASSWORD}\n")).expect("write a password");
    let load = format!("--server {} --sessions 4 --ops 100", secured.address);
    let login = format!("--login {USER} --login-password-file {}", file.display());
    for what in ["set", "connect"] {
        let report = bench(&secured, &format!("{what} {load} {login}"));
        let report = report.unwrap_or_else(|failure| panic!("{what}: {failure}"));
        assert_eq!(report["servers"][0]["ops"], 100, "{what}: {report}");
        assert_eq!(report["load"]["connections"], "TLS, DIGEST-MD5");
    }
    std::fs::write(&file, "wr0ngsecret").expect("write a password");
    let failure = bench(&secured, &format!("set {load} {login}"));
    let failure = failure.expect_err("a wrong password");
    assert!(
        failure.contains("the server refused the user name or password"),
        "{failure}"
    );
    assert!(!failure.contains("wr0ngsecret"), "{failure}");
}

/// Two servers that accept the same certificates, alternately.
#[test]
fn bench_compares_two_servers_over_tls() {
    let Some(ours) = secured(Flavour::Zoarium) else {
        return;
    };
    let Some(theirs) = or_skip("TLS", ours.beside(Flavour::Apache)) else {
        return;
    };
    let (address, versus) = (&ours.address, &theirs.address);
    for load in ["get", "set", "connect", "handshake"] {
        let both = format!("{load} --server {address} --versus {versus}");
        let sized = "--rounds 2 --sessions 2 --keys 10 --ops 50 --tls-full-handshakes";
        let report = bench(&ours, &format!("{both} {sized}"));
        let report = report.unwrap_or_else(|failure| panic!("{load}: {failure}"));
        assert_eq!(report["servers"][1]["server"], **versus);
        for side in 0..2 {
            assert_eq!(report["servers"][side]["ops"], 100, "{load}: {report}");
            assert_eq!(report["servers"][side]["errors"], serde_json::json!({}));
        }
        assert!(report["ratios"]["throughput"].as_f64().unwrap_or(0.0) > 0.0);
    }
}
