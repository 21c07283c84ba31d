//! No server reveals a secret. Every test searches for secrets. These tests use servers that print
//! much, and one that reveals a secret deliberately.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use proto::request::{Request, flags};
use tests::requests::{create, delete, get_data, set_data};
use tests::secrets::{CAROL, SASL_BOB, STORE, SUPER, SUPER_DIGEST, WRONG, ZNODE_DATA};
use tests::{
    Flavour, HttpRequest, Port, RawSession, Server, ServerBuilder, four_letter_word, http_get,
    or_skip, wait_for,
};

/// Returns a server with secrets in its file and on its command line, an audit log and an admin
/// port.
fn builder(admin: &Port) -> ServerBuilder {
    ServerBuilder::new(Flavour::Zoarium)
        .setting("audit.enable", "true")
        .setting("admin.enableServer", "true")
        .setting("admin.serverAddress", "127.0.0.1")
        .setting("admin.serverPort", &admin.number().to_string())
        .setting("ssl.keyStore.password", STORE)
        .setting("SASLAuthenticationProvider.superPassword", SASL_BOB)
        .property(
            "zookeeper.DigestAuthenticationProvider.superDigest",
            SUPER_DIGEST,
        )
        .property("zookeeper.ssl.quorum.trustStore.password", STORE)
        .property("my.own.Password", WRONG)
}

fn start(admin: &Port) -> Option<Server> {
    or_skip("secrets", builder(admin).start())
}

fn open(server: &Server) -> RawSession {
    RawSession::open(&server.address(), None, 10_000).expect("a session")
}

/// Creates a znode whose path is a secret. The answer, which contains the path, is not read.
fn create_by_its_secret(server: &Server, flags: i32) -> RawSession {
    let mut session = open(server);
    session.put(&Request::Write(create(&format!("/{WRONG}"), "", flags)));
    session.flush().expect("a connection");
    let log = server.data_dir().join("../zookeeper_audit.log");
    wait_for("the line of the audit log", Duration::from_secs(60), || {
        let lines = std::fs::read_to_string(&log).unwrap_or_default();
        lines.contains(WRONG).then_some(())
    });
    session
}

/// Returns the message of the panic.
fn said(task: impl FnOnce()) -> String {
    let refused = catch_unwind(AssertUnwindSafe(task)).expect_err("nothing was found");
    *refused.downcast::<String>().expect("a text")
}

#[test]
fn commands_four_letter_words_and_refusals_show_no_secrets() {
    let admin = Port::take();
    let Some(mut server) = start(&admin) else {
        return;
    };
    let mut session = open(&server);
    let data = || ZNODE_DATA.as_bytes().to_vec();
    for credentials in [SUPER, CAROL] {
        let answer = session.authenticate("digest", credentials);
        assert_eq!(answer.expect("an answer").err, 0);
    }
    for request in [
        Request::Write(create("/a", data(), flags::PERSISTENT)),
        Request::Write(create("/a", data(), flags::PERSISTENT)),
        Request::Write(create("//bad", data(), flags::PERSISTENT)),
        Request::Write(set_data("/a", data(), 7)),
        Request::Write(set_data("/a", data(), -1)),
        Request::Write(delete("/missing", -1)),
    ] {
        session.call(&request).expect("an answer");
    }
    let read = session.call(&get_data("/a")).expect("an answer");
    let is_there = read
        .body
        .windows(ZNODE_DATA.len())
        .any(|part| part == data());
    assert!(is_there, "a client gets its data");
    for word in ["conf", "envi", "cons", "dump", "mntr", "srvr", "wchp"] {
        assert!(!server.word(word).is_empty(), "{word}");
    }
    for command in [
        "",
        "/system_properties",
        "/initial_configuration",
        "/configuration",
        "/environment",
    ] {
        let answer = http_get(admin.number(), &format!("/commands{command}"));
        assert_eq!(answer.status, 200, "{command}");
    }
    let shown = http_get(admin.number(), "/commands/initial_configuration").text();
    assert!(shown.contains("ssl.keyStore.password=*****"), "{shown}");
    for credentials in [WRONG, CAROL, SUPER] {
        let request = HttpRequest {
            method: "POST",
            target: "/commands/restore",
            headers: &[("Authorization", &format!("digest {credentials}"))],
            body: Some(b""),
        };
        request.send(admin.number()).expect("an answer");
    }
    drop(session);
    server.terminate();
    let audited = server.data_dir().join("../zookeeper_audit.log");
    let audited = std::fs::read_to_string(audited).expect("an audit log");
    assert!(audited.contains("operation=setData"), "{audited}");
}

#[test]
fn a_store_that_cannot_be_opened_is_refused_without_its_password() {
    let admin = Port::take();
    let builder = builder(&admin)
        .setting("secureClientPort", &Port::take().number().to_string())
        .setting("ssl.keyStore.location", "/proc/self/comm")
        .setting("ssl.keyStore.type", "PKCS12");
    let refused = builder.try_start().expect("ours is there");
    let log = refused.expect_err("no key store").log;
    assert!(
        log.contains("/proc/self/comm: the file is not a PKCS12 store"),
        "{log}"
    );
}

/// The search works: a secret in a name is in the audit log.
#[test]
fn a_log_that_shows_a_secret_fails_the_test() {
    let admin = Port::take();
    let Some(mut server) = start(&admin) else {
        return;
    };
    let _session = create_by_its_secret(&server, flags::PERSISTENT);
    let said = said(|| {
        server.terminate();
    });
    assert!(
        said.contains("zookeeper_audit.log shows a wrong password in clear in line"),
        "{said}"
    );
    assert!(!said.contains(WRONG), "{said}");
}

/// The search also covers the answers to operators.
#[test]
fn an_answer_that_shows_a_secret_fails_the_test() {
    let admin = Port::take();
    let Some(server) = start(&admin) else {
        return;
    };
    let mut session = create_by_its_secret(&server, flags::EPHEMERAL);
    let by_word = said(|| drop(four_letter_word(server.port(), "dump")));
    assert!(
        by_word.contains("to dump shows a wrong password in clear"),
        "{by_word}"
    );
    let by_command = said(|| drop(http_get(admin.number(), "/commands/dump")));
    assert!(
        by_command.contains("to /commands/dump shows a wrong password"),
        "{by_command}"
    );
    let by_client = said(|| drop(session.take()));
    assert!(
        by_client.contains("an answer to a client shows a wrong password"),
        "{by_client}"
    );
    let at_the_end = said(|| drop(server));
    assert!(at_the_end.contains("zookeeper_audit.log"), "{at_the_end}");
}

/// Existing files keep their modes, and a file that replaces another one receives its mode.
#[test]
fn the_mode_of_new_files_can_be_set() {
    let builder = ServerBuilder::new(Flavour::Zoarium).setting("zoarium.fileMode", "0600");
    let Some(mut server) = or_skip("a server of ours", builder.start()) else {
        return;
    };
    let dir = server.data_dir().join("version-2");
    let mode = |path: &Path| {
        let metadata = std::fs::metadata(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        metadata.permissions().mode() & 0o777
    };
    server.terminate();
    let entries = std::fs::read_dir(&dir).expect("a data directory");
    let files: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
    assert_eq!(mode(&dir), 0o700);
    for file in &files {
        assert_eq!(mode(file), 0o600, "{}", file.display());
        std::fs::set_permissions(file, Permissions::from_mode(0o644)).expect("set a mode");
    }
    server.launch().expect("a second start");
    let mut session = open(&server);
    session
        .call(&Request::Write(create("/new", "", 0)))
        .expect("an answer");
    drop(session);
    server.terminate();
    for file in files.iter().filter(|file| file.exists()) {
        assert_eq!(mode(file), 0o644, "{}", file.display());
    }
    let entries = std::fs::read_dir(&dir).expect("a data directory");
    let mut new = entries.map(|entry| entry.expect("a file").path());
    assert!(new.any(|file| !files.contains(&file) && mode(&file) == 0o600));
}

/// Returns the limit for core dumps of a server with this value of `zoarium.coreDumps`, as the
/// system reports it.
fn core_limit(value: Option<&str>) -> Option<String> {
    // Many shells forbid core dumps, and the server would inherit this limit.
    let mut builder = ServerBuilder::new(Flavour::Zoarium).after("ulimit -S -c $(ulimit -H -c)");
    if let Some(value) = value {
        builder = builder.setting("zoarium.coreDumps", value);
    }
    let server = or_skip("a server of ours", builder.start())?;
    let id = server.process_id().expect("it runs");
    let limits = std::fs::read_to_string(format!("/proc/{id}/limits")).expect("its limits");
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"));
    let words: Vec<&str> = line.expect("a limit").split_whitespace().collect();
    words.get(4).map(|soft| (*soft).to_owned())
}

/// A crash would write data and secrets to the disk.
#[test]
fn a_server_writes_no_core_dump_unless_it_is_allowed_to() {
    let Some(forbidden) = core_limit(None) else {
        return;
    };
    assert_eq!(forbidden, "0");
    // The hard limit, which no server raises.
    let own = std::fs::read_to_string("/proc/self/limits").expect("limits");
    let own = own
        .lines()
        .find(|line| line.starts_with("Max core file size"));
    let hard = own.and_then(|line| line.split_whitespace().nth(5));
    assert_eq!(core_limit(Some("true")).as_deref(), hard);
}
