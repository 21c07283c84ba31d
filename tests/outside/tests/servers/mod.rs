//! Runs programs, each with a server of its own.

use std::fs;
use std::path::Path;
use std::process::Command;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use zoarium::Server;
use zoarium::testing::TestServer;

/// Programs that connect to a server.
const CLIENTS: &[&str] = &[
    "connect",
    "watches",
    "acl",
    "transactions",
    "lock",
    "fenced",
];

/// Programs that start servers themselves.
const HOSTS: &[&str] = &["server", "ensemble"];

/// Runs each program. `program` returns the command of a name.
pub(crate) async fn run_each(program: impl Fn(&str) -> Command) {
    for name in CLIENTS {
        let server = TestServer::start().await.expect("a server");
        run(program(name).env("ZOOKEEPER", server.connect_string()));
        server.stop().await.expect("a stop");
    }
    for name in HOSTS {
        run(&mut program(name));
    }
    let directory = tempfile::tempdir().expect("a directory");
    let server = secured(directory.path()).await;
    let address = server.secure_client_address().expect("a secure port");
    run(program("secured")
        .env("ZOOKEEPER", address.to_string())
        .env("ZOOKEEPER_CA", directory.path().join("ca.pem")));
    server.stop().await.expect("a stop");
}

fn run(command: &mut Command) {
    let output = command.output().expect("a program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}:\n{text}{error}");
}

/// Starts a server with TLS and with logins by name and password.
async fn secured(directory: &Path) -> Server {
    write_certificates(directory);
    let jaas = directory.join("jaas.conf");
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule";
    let section = format!("Server {{\n  {module} required\n  user_bob=\"secret\";\n}};\n");
    fs::write(&jaas, section).expect("a file");
    let file = |name: &str| directory.join(name).display().to_string();
    let starting = Server::builder()
        .data_dir(directory.join("data"))
        .setting("secureClientPort", 0)
        .setting("ssl.keyStore.location", file("server.pem"))
        .setting("ssl.trustStore.location", file("ca.pem"))
        .setting("ssl.clientAuth", "none")
        .setting(
            "authProvider.sasl",
            "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        )
        .property("java.security.auth.login.config", jaas.display())
        .start();
    starting.await.expect("a server with TLS and SASL")
}

/// Writes the certificate of an authority, and the key and the certificate of a server.
fn write_certificates(directory: &Path) {
    let (own, key) = (KeyPair::generate(), KeyPair::generate());
    let (own, key) = (own.expect("a key"), key.expect("a key"));
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&own).expect("a certificate");
    let issuer = Issuer::new(params, own);
    let names = vec!["127.0.0.1".to_owned()];
    let params = CertificateParams::new(names).expect("names");
    let signed = params.signed_by(&key, &issuer).expect("a certificate");
    let server = key.serialize_pem() + &signed.pem();
    fs::write(directory.join("ca.pem"), authority.pem()).expect("a file");
    fs::write(directory.join("server.pem"), server).expect("a file");
}
