//! Third-party clients.

use std::fs;
use std::path::PathBuf;

use tests::scenario::Scenario;
use tests::{
    Flavour, Missing, c_program, go_program, java_program, kazoo_program, or_skip, rust_program,
    told,
};

use crate::way::{PASSWORD, Secured, USER, WAYS, Way};

/// Runs a client on each of these ways, one after the other.
fn go(
    client: &str,
    ways: &[Way],
    settings: &[(&str, &str)],
    program: impl Fn(&Secured) -> Result<Vec<PathBuf>, Missing>,
) {
    for way in ways {
        println!("{client}: {way:?}");
        let secured = Secured::start(Flavour::under_test(), *way, settings);
        let Some(mut secured) = or_skip(client, secured) else {
            return;
        };
        let Some(program) = or_skip(client, program(&secured)) else {
            return;
        };
        let scenario = Scenario {
            program,
            further_steps: &[],
        };
        scenario.drive_protected(&mut secured.server, &secured.address, way.entry());
    }
}

/// Returns the variables by which a program finds a server.
fn variables(secured: &Secured) -> Vec<(&'static str, String)> {
    let mut variables = Vec::new();
    if secured.way.has_tls() {
        let dir = secured.certificates.dir().display().to_string();
        variables.push(("ZOARIUM_TEST_TLS", dir));
    }
    if secured.way == Way::MutualTls {
        variables.push(("ZOARIUM_TEST_KEY", "client".to_owned()));
    }
    if secured.way.has_login() {
        variables.push(("ZOARIUM_TEST_LOGIN", format!("{USER}:{PASSWORD}")));
    }
    variables
}

fn java(secured: &Secured) -> Result<Vec<PathBuf>, Missing> {
    let (way, certificates) = (secured.way, &secured.certificates);
    let mut properties = Vec::new();
    let mut add = |key: &str, value: &str| properties.push((key.to_owned(), value.to_owned()));
    if way.has_tls() {
        add("zookeeper.client.secure", "true");
        add(
            "zookeeper.clientCnxnSocket",
            "org.apache.zookeeper.ClientCnxnSocketNetty",
        );
        let settings = certificates.settings("zookeeper.ssl.", "client", way.extension());
        for (key, value) in settings {
            if way == Way::MutualTls || key.contains("trustStore") {
                add(&key, &value);
            }
        }
    }
    if way.has_login() {
        let module = "org.apache.zookeeper.server.auth.DigestLoginModule required";
        let login = format!("username=\"{USER}\" password=\"{PASSWORD}\"");
        let jaas = certificates.path("client.conf");
        fs::write(&jaas, format!("Client {{ {module} {login}; }};\n")).expect("a JAAS file");
        add(
            "java.security.auth.login.config",
            &jaas.display().to_string(),
        );
        // In FIPS mode, the client does not support DIGEST-MD5.
        add("zookeeper.fips-mode", "false");
    }
    java_program("JavaProtected", &["Talk"], &properties)
}

#[test]
#[ignore = "runs other people's programs"]
fn java_connects_in_every_secured_way() {
    go("Java", &WAYS, &[], java);
}

#[test]
#[ignore = "runs other people's programs"]
fn kazoo_connects_in_every_secured_way() {
    go("kazoo", &WAYS, &[], |secured| {
        told(kazoo_program()?, &variables(secured))
    });
}

/// Debian builds the C client without OpenSSL and Cyrus SASL.
#[test]
#[ignore = "runs other people's programs"]
fn the_c_client_connects_in_its_secured_way() {
    go("the C client", &[Way::Plain], &[], |_| c_program());
}

/// The Go client does not support SASL.
#[test]
#[ignore = "runs other people's programs"]
fn the_go_client_connects_in_every_way_without_a_login() {
    let ways: Vec<Way> = WAYS.into_iter().filter(|way| !way.has_login()).collect();
    go("the Go client", &ways, &[], |secured| {
        told(go_program()?, &variables(secured))
    });
}

#[test]
#[ignore = "runs other people's programs"]
fn the_rust_client_connects_in_every_secured_way() {
    go("the Rust client", &WAYS, &[], |secured| {
        told(rust_program()?, &variables(secured))
    });
}
