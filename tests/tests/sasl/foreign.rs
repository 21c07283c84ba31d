//! Java's client and kazoo with a Zoarium server, the Zoarium client with Apache ZooKeeper, and the
//! reverse: neither side sees a difference.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use proto::request::{ReadRequest, Request};
use proto::response::WhoAmIResponse;
use tests::secrets::SASL_BOB;
use tests::{
    Flavour, Missing, Server, apache_class_path, java_tool, or_skip, python_with_kazoo, run,
    source_dir,
};

use crate::clients::{log_in, open};
use crate::files::{Files, USERS, builder, server};

const LIMIT: Duration = Duration::from_secs(120);

/// Runs a program and returns the lines of its output.
fn printed(command: &mut Command) -> Vec<String> {
    let output = run(command, LIMIT).unwrap_or_else(|failure| panic!("{failure}"));
    let lines = output.lines().filter(|line| {
        let first = line.split(' ').next().unwrap_or_default();
        ["login", "whoami", "create", "read", "failed"].contains(&first)
    });
    lines.map(str::to_owned).collect()
}

fn java(server: &Server, jaas: &Path, path: &str) -> Result<Vec<String>, Missing> {
    let logging = source_dir("java").join("logback.xml");
    let mut command = Command::new(java_tool("java")?);
    command
        .args([
            "-XX:+UseSerialGC",
            "-Dfile.encoding=UTF-8",
            "-Dstdout.encoding=UTF-8",
        ])
        .args(["-Dzookeeper.fips-mode=false"])
        .arg(format!("-Dlogback.configurationFile={}", logging.display()))
        .arg(format!(
            "-Djava.security.auth.login.config={}",
            jaas.display()
        ))
        .args(["-cp", &apache_class_path()?])
        .arg(source_dir("java").join("SaslLogin.java"))
        .args([&server.address(), path]);
    Ok(printed(&mut command))
}

fn kazoo(server: &Server, user: &str, password: &str, path: &str) -> Result<Vec<String>, Missing> {
    let mut command = Command::new(python_with_kazoo()?);
    command.arg(source_dir("python").join("sasl.py")).args([
        &server.address(),
        user,
        password,
        path,
    ]);
    Ok(printed(&mut command))
}

/// Java's client, with every user, and with a wrong password.
#[test]
#[ignore = "runs other people's programs"]
fn java_logs_in_to_zoarium_as_to_apache() {
    for flavour in [Flavour::under_test(), Flavour::Apache] {
        let files = Files::new();
        let Some(server) = server(flavour, &files) else {
            return;
        };
        for (number, (user, password)) in USERS.iter().enumerate() {
            let jaas = files.client(user, password);
            let Some(told) = or_skip("Java", java(&server, &jaas, &format!("/j{number}"))) else {
                return;
            };
            assert_eq!(told[0], "login SaslAuthenticated", "{user}");
            assert_eq!(&told[3..], ["create ok", "read ok"], "{user}");
            let mut whoami = told[1..3].to_vec();
            whoami.sort_unstable();
            assert_eq!(
                whoami,
                [
                    "whoami ip 127.0.0.1".to_owned(),
                    format!("whoami sasl {user}")
                ]
            );
        }
        let jaas = files.client("bob", "wrong");
        let told = java(&server, &jaas, "/wrong").expect("Java was there before");
        assert_eq!(told, ["login AuthFailed"]);
    }
}

#[test]
#[ignore = "runs other people's programs"]
fn kazoo_logs_in_to_zoarium_as_to_apache() {
    for flavour in [Flavour::under_test(), Flavour::Apache] {
        let files = Files::new();
        let Some(server) = server(flavour, &files) else {
            return;
        };
        let good = kazoo(&server, "bob", SASL_BOB, "/k");
        let Some(good) = or_skip("kazoo", good) else {
            return;
        };
        assert_eq!(
            good,
            ["login SaslAuthenticated", "create ok", "read ok"],
            "{flavour:?}"
        );
        let bad = kazoo(&server, "bob", "wrong", "/k2").expect("kazoo was there before");
        assert_eq!(bad, ["login AuthFailed"], "{flavour:?}");
    }
}

/// The Zoarium client with both servers: the answers are equal.
#[test]
#[ignore = "runs other people's programs"]
fn zoariums_client_logs_in_to_apache_as_to_zoarium() {
    for flavour in [Flavour::under_test(), Flavour::Apache] {
        let files = Files::new();
        let builder = builder(flavour, &files).setting("superUser.1", "bob");
        let Some(server) = or_skip("SASL", builder.start()) else {
            return;
        };
        for (user, password) in USERS {
            let mut session = open(&server.address());
            assert_eq!(
                log_in(&mut session, user, password),
                Ok(()),
                "{user} {flavour:?}"
            );
            let answer = session.call(&Request::Read(ReadRequest::WhoAmI));
            let ids = answer
                .expect("an answer")
                .record::<WhoAmIResponse>()
                .clients;
            let mut ids: Vec<_> = ids.iter().map(|id| (&*id.scheme, &*id.user)).collect();
            ids.sort_unstable();
            let mut expected = vec![("ip", "127.0.0.1"), ("sasl", *user)];
            expected.extend((*user == "bob").then_some(("super", "")));
            assert_eq!(ids, expected, "{flavour:?}");
        }
        let mut session = open(&server.address());
        assert_eq!(
            log_in(&mut session, "bob", "wrong"),
            Err(-115),
            "{flavour:?}"
        );
        assert!(session.sync().is_err(), "the connection is closed");
    }
}
