//! Nobody may believe to be protected: a server that cannot ask anybody to log in does not start.

use std::process::Command;

use tests::requests::create;
use tests::{Flavour, ServerBuilder, or_skip};

use crate::clients::{log_in, open};
use crate::files::{Files, PROVIDER, USERS, server};

/// The case that this is all about: with a provider and a JAAS file that is not there, an anonymous
/// create once succeeded.
#[test]
fn a_jaas_file_that_does_not_exist_is_a_reason_not_to_start() {
    let builder = ServerBuilder::new(Flavour::Zoarium)
        .setting("authProvider.sasl", PROVIDER)
        .setting("requireClientAuthScheme", "sasl")
        .property("java.security.auth.login.config", "/no/such/jaas.conf");
    let Some(refused) = or_skip("SASL", builder.try_start()) else {
        return;
    };
    let refused = refused.expect_err("a server that lets everybody in");
    assert_eq!(refused.status.and_then(|status| status.code()), Some(2));
    for part in [
        "the command line: -Djava.security.auth.login.config",
        "the JAAS file /no/such/jaas.conf cannot be read",
        "name a file that this server may read",
    ] {
        assert!(refused.log.contains(part), "{part}: {}", refused.log);
    }
    let builder = ServerBuilder::new(Flavour::Zoarium).setting("authProvider.sasl", PROVIDER);
    let refused = builder
        .try_start()
        .expect("ours is there")
        .expect_err("no JAAS file");
    assert!(
        refused
            .log
            .contains("authProvider.sasl: asks for SASL, and no JAAS file"),
        "{}",
        refused.log
    );
    assert!(refused.log.contains("zoo.cfg:"), "{}", refused.log);
}

/// Everything a server prints and answers, and every core name of its processes.
#[test]
fn no_secret_is_printed_or_shown() {
    let files = Files::new();
    let Some(mut server) = server(Flavour::Zoarium, &files) else {
        return;
    };
    let mut shown = String::new();
    for (user, password) in USERS {
        let mut session = open(&server.address());
        log_in(&mut session, user, password).expect("a login");
        session
            .authenticate("digest", "carol:d1gestsecret")
            .expect("an answer");
        session
            .call(&proto::request::Request::Write(create(
                &format!("/{}", user.len()),
                "",
                0,
            )))
            .expect("an answer");
        let mut session = open(&server.address());
        log_in(&mut session, user, "wr0ngsecret").expect_err("no login");
    }
    for word in [
        "conf", "envi", "cons", "dump", "stat", "mntr", "srvr", "wchs",
    ] {
        shown.push_str(&server.word(word));
    }
    let id = server.process_id().expect("it runs").to_string();
    let output = Command::new("ps")
        .args(["-L", "-o", "comm,args", "-p", &id])
        .output();
    if let Ok(output) = output {
        shown.push_str(&String::from_utf8_lossy(&output.stdout));
    }
    server.terminate();
    shown.push_str(&server.log());
    assert!(shown.len() > 1000, "{shown}");
    assert!(shown.contains("client has logged in by SASL"), "{shown}");
    for secret in USERS
        .iter()
        .map(|(_, password)| *password)
        .chain(["d1gestsecret", "wr0ngsecret"])
    {
        assert!(!shown.contains(secret), "{secret} is shown");
    }
}
