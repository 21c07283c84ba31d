//! Clients of changes: an administrator sees them, whichever member served the client.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Command, Output, Stdio};
use std::thread;

use jute::Encode;
use proto::OpCode;
use proto::connect::AuthPacket;
use proto::request::{Request, WriteRequest, flags};
use serde_json::Value;
use tests::certificates::Certificates;
use tests::ensemble::{Ensemble, EnsembleBuilder, OUTSIDE, SESSION_TIMEOUT_MS};
use tests::requests::{create_with, set_data};
use tests::{Faults, Flavour, Port, RawSession, or_skip, wait_for, zoarium_binary};

use crate::compare::Extent;
use crate::site::{LIMIT, SUPER, Site, lines, stderr, stdout};

const PATH: &str = "/who";

/// Identities of the clients, by the member that serves them.
const USERS: [&str; 3] = ["u1:pw", "u2:pw", "u3:pw"];

/// The client of a change.
#[derive(Debug)]
struct Origin {
    zxid: i64,
    client: String,
    user: String,
}

/// Three members that keep a history, and the addresses of their admin ports.
struct Members {
    ensemble: Ensemble,
    admins: Vec<SocketAddr>,
    _ports: Vec<Port>,
}

fn builder() -> EnsembleBuilder {
    EnsembleBuilder::new(&[Flavour::Zoarium; 3])
        .setting("admin.enableServer", "true")
        .setting("history.enabled", "true")
        .setting("history.minFreeMegabytes", "0")
}

impl Members {
    /// Starts the members. `lines` are the further lines of each member's zoo.cfg.
    fn start(
        mut ensemble: Ensemble,
        admins: Vec<SocketAddr>,
        lines: impl Fn(u64) -> String,
    ) -> Self {
        for id in ensemble.ids() {
            let file = ensemble.member(id).config_file();
            let mut file = OpenOptions::new().append(true).open(file).expect("zoo.cfg");
            file.write_all(lines(id).as_bytes()).expect("write zoo.cfg");
            ensemble.start(id);
        }
        ensemble.wait_until_all_serve();
        let members = Self {
            ensemble,
            admins,
            _ports: Vec::new(),
        };
        // Earlier changes came from the log when the history was opened. The log does not contain clients.
        let write = create_open("/begin");
        let answer = members.session(1).call(&Request::Write(write));
        let zxid = answer.expect("an answer").zxid.0;
        for id in members.ensemble.ids() {
            members.wait_until_recorded(id, zxid);
        }
        members
    }

    fn admin(&self, id: u64) -> SocketAddr {
        self.admins[usize::try_from(id - 1).expect("an id")]
    }

    fn session(&self, through: u64) -> RawSession {
        let address = self.ensemble.member(through).client_address().to_string();
        let user = USERS[usize::try_from(through - 1).expect("an id")];
        wait_for("session", LIMIT, || {
            let mut session = RawSession::open(&address, None, SESSION_TIMEOUT_MS).ok()?;
            session.authenticate("digest", user).ok()?;
            Some(session)
        })
    }

    /// Creates the znode through the first of these members, and sets its data through each other one.
    fn write(&self, through: &[u64]) -> Vec<Origin> {
        let mut origins = Vec::new();
        for id in through {
            let mut session = self.session(*id);
            let write = if origins.is_empty() {
                create_open(PATH)
            } else {
                set_data(PATH, format!("by {id}"), -1)
            };
            let answer = session.call(&Request::Write(write)).expect("an answer");
            assert_eq!(answer.err, 0);
            origins.push(Origin {
                zxid: answer.zxid.0,
                client: session.local_address().to_string(),
                user: format!("digest:u{id}"),
            });
        }
        origins
    }

    /// Waits until the member that is queried has recorded the last change. Commands wait for the others themselves.
    fn wait_until_recorded(&self, id: u64, zxid: i64) {
        wait_for("record of the last change", LIMIT, || {
            Extent::of(self.admin(id)).filter(|extent| extent.head >= zxid)
        });
    }

    /// Runs a command at the admin port of a member.
    fn run(&self, id: u64, words: &[&str]) -> Output {
        let mut command = Command::new(zoarium_binary());
        command
            .args(words)
            .args(["--admin", &self.admin(id).to_string()]);
        command.env_remove("ZOARIUM_AUTH").stdin(Stdio::null());
        command.output().expect("zoarium runs")
    }

    fn text(&self, id: u64, words: &[&str]) -> String {
        let output = self.run(id, words);
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
        stdout(&output)
    }

    fn json(&self, id: u64, words: &[&str]) -> Vec<Value> {
        lines(&self.run(id, &[words, &["--output", "json"]].concat()))
    }
}

fn create_open(path: &str) -> WriteRequest {
    let open = [proto::Acl::open()];
    create_with(
        OpCode::Create,
        path,
        Some("".into()),
        flags::PERSISTENT,
        &open,
        -1,
    )
}

/// Words of a command that an administrator runs.
fn admin<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [words, &["--auth", SUPER]].concat()
}

fn assert_names(change: &Value, origin: &Origin) {
    assert_eq!(change["zxid"], format!("{:#x}", origin.zxid), "{change}");
    assert_eq!(change["client"], *origin.client, "{change}");
    assert_eq!(change["identities"][0], *origin.user, "{change}");
    assert_eq!(change["client_missing"], Value::Null, "{change}");
}

/// Refuses requests until one asks for clients of changes, and returns it. The members may also
/// query the port, for the console.
fn refuse_origins(listener: TcpListener) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        loop {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut request = Vec::new();
            let mut part = [0; 1024];
            // A member first tries TLS, and would wait for an answer.
            let is_http = |request: &[u8]| request.first().is_none_or(u8::is_ascii_uppercase);
            while is_http(&request) && !request.ends_with(b"\r\n\r\n") {
                match stream.read(&mut part) {
                    Ok(0) | Err(_) => break,
                    Ok(read) => request.extend_from_slice(&part[..read]),
                }
            }
            let answer = b"HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            stream.write_all(answer).ok();
            if request.starts_with(b"GET /commands/history/origins?") {
                return String::from_utf8_lossy(&request).into_owned();
            }
        }
    })
}

/// Checks that no connection has brought credentials. The member itself may have queried the port for
/// the console, without any.
fn assert_no_credentials(listener: &TcpListener) {
    listener.set_nonblocking(true).expect("a listener");
    let would_block = |error: &io::Error| error.kind() == ErrorKind::WouldBlock;
    loop {
        let mut stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => return assert!(would_block(&error), "{error}"),
        };
        stream.set_nonblocking(true).expect("a stream");
        let mut request = Vec::new();
        match stream.read_to_end(&mut request) {
            Ok(_) => {}
            Err(error) => assert!(would_block(&error), "{error}"),
        }
        let request = String::from_utf8_lossy(&request).to_ascii_lowercase();
        assert!(!request.contains("authorization"), "{request}");
    }
}

/// Three members on the loopback interface, which name their admin ports.
fn on_loopback() -> Option<Members> {
    if Flavour::under_test() != Flavour::Zoarium {
        return None;
    }
    let ensemble = or_skip("an ensemble", builder().prepare())?;
    let ports = ensemble.add_admin_ports(true);
    let admins = ports
        .iter()
        .map(|port| SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port.number()))
        .collect();
    let members = Members::start(ensemble, admins, |_| String::new());
    Some(Members {
        _ports: ports,
        ..members
    })
}

#[test]
fn an_administrator_sees_the_clients_of_all_members_and_which_member_is_down() {
    let Some(mut members) = on_loopback() else {
        return;
    };
    let origins = members.write(&[1, 3, 1, 2]);
    let [created, lost, by_first, by_second] = origins.as_slice() else {
        panic!("{origins:?}");
    };
    for id in [1, 2] {
        members.wait_until_recorded(id, by_second.zxid);
    }
    // All members run, and each knows the clients of the others.
    for change in members
        .json(2, &admin(&["history", PATH]))
        .iter()
        .zip(origins.iter().rev())
    {
        assert_names(change.0, change.1);
        assert_eq!(change.0["members_missing"], Value::Array(Vec::new()));
    }
    members.ensemble.member_mut(3).kill();
    members.ensemble.wait_until_these_serve(&[1, 2]);
    let down = format!("member 3 at {} did not answer: ", members.admin(3));
    for id in [1, 2] {
        let text = members.text(id, &admin(&["history", PATH, "--limit", "2"]));
        let shown: Vec<&str> = text.lines().collect();
        let [second, first, missing] = shown.as_slice() else {
            panic!("{text}");
        };
        for (line, origin) in [(second, by_second), (first, by_first)] {
            let named = format!("from {} as {}", origin.client, origin.user);
            assert!(line.ends_with(&named), "{line}, not {named}");
        }
        assert!(missing.starts_with(&format!("({down}")), "{text}");
    }
    the_lost_member_is_reported(&members, lost, &down);
    other_commands_name_clients(&members, &origins, &down);
    a_plain_user_sees_why_the_column_is_missing(&members, &origins);
    // A credential is sent to an address of the loopback interface.
    let listener = TcpListener::bind(members.admin(3)).expect("the port of the lost member");
    let request = refuse_origins(listener);
    let text = members.text(1, &admin(&["history", PATH, "--limit", "1"]));
    assert!(
        text.contains("member 3 at ") && text.contains(" refused the query: "),
        "{text}"
    );
    let request = request.join().expect("a request");
    assert!(request.contains(SUPER), "{request}");
    // A history that is rebuilt from the log contains no clients.
    let history = members.ensemble.member(3).data_dir().join("history");
    std::fs::remove_dir_all(history).expect("remove a history");
    members.ensemble.start(3);
    members.ensemble.wait_until_all_serve();
    members.wait_until_recorded(3, by_second.zxid);
    let found = members.json(1, &admin(&["history", PATH]));
    let zxid = format!("{:#x}", lost.zxid);
    let change = found
        .iter()
        .find(|change| change["zxid"] == *zxid)
        .expect("the change");
    assert_eq!(change["client_missing"], "no member knows the client");
    assert_eq!(change["members_missing"], Value::Array(Vec::new()));
    assert_names(&found[3], created);
}

fn the_lost_member_is_reported(members: &Members, lost: &Origin, down: &str) {
    let text = members.text(1, &admin(&["history", PATH, "--limit", "3"]));
    let line = text.lines().nth(2).expect("three changes");
    assert!(
        line.contains(&format!("from an unknown client ({down}")),
        "{line}"
    );
    let found = members.json(1, &admin(&["history", PATH, "--limit", "3"]));
    let change = &found[2];
    assert_eq!(change["zxid"], format!("{:#x}", lost.zxid));
    assert_eq!(change["client"], "");
    let reason = change["client_missing"].as_str().expect("a reason");
    assert!(reason.starts_with(down), "{reason}");
    assert_eq!(change["members_missing"][0]["member"], 3);
    assert_eq!(
        change["members_missing"][0]["admin"],
        members.admin(3).to_string()
    );
}

fn other_commands_name_clients(members: &Members, origins: &[Origin], down: &str) {
    let [created, _, by_first, by_second] = origins else {
        panic!("{origins:?}");
    };
    let blame = members.json(2, &admin(&["history", "blame", PATH]));
    assert_names(&blame[0]["created"], created);
    assert_names(&blame[0]["data"], by_second);
    assert_eq!(blame[0]["members_missing"][0]["member"], 3);
    let text = members.text(2, &admin(&["history", "blame", "/"]));
    let child = text.lines().find(|line| line.contains("who  "));
    assert!(
        child.is_some_and(|line| line.contains(&by_second.client)),
        "{text}"
    );
    assert!(text.contains(&format!("({down}")), "{text}");
    let from = format!("{:#x}", created.zxid);
    let watch = [
        "watch", PATH, "--from", &from, "--limit", "4", "--output", "json",
    ];
    let output = members.run(1, &admin(&watch));
    assert_eq!(
        stderr(&output).matches(down).count(),
        1,
        "{}",
        stderr(&output)
    );
    let seen = lines(&output);
    assert_names(&seen[0], created);
    assert!(
        seen[1]["client_missing"]
            .as_str()
            .is_some_and(|reason| reason.starts_with(down))
    );
    assert_names(&seen[2], by_first);
    assert_names(&seen[3], by_second);
    // A filter by client finds the clients of the other member.
    let by = ["--by", &by_second.user];
    let found = members.json(1, &admin(&[&["history", PATH][..], &by].concat()));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_names(&found[0], by_second);
    let host = [
        "history",
        PATH,
        "--by",
        "127.0.0.1",
        "--reverse",
        "--limit",
        "2",
    ];
    let found = members.json(2, &admin(&host));
    assert_names(&found[0], created);
    assert_names(&found[1], by_first);
    let watch = ["watch", PATH, "--from", &from, "--limit", "1"];
    let found = members.json(1, &admin(&[&watch[..], &by].concat()));
    assert_names(&found[0], by_second);
}

fn a_plain_user_sees_why_the_column_is_missing(members: &Members, origins: &[Origin]) {
    let text = members.text(1, &["history", PATH, "--limit", "2"]);
    let why = "client not shown: only administrators see the client of a change";
    assert_eq!(text.matches(why).count(), 2, "{text}");
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(
        origins.iter().all(|origin| !text.contains(&origin.client)),
        "{text}"
    );
    let found = members.json(1, &["history", "blame", PATH]);
    assert_eq!(found[0]["created"]["client"], Value::Null);
    let reason = &found[0]["created"]["client_missing"];
    assert_eq!(*reason, "only administrators see the client of a change");
    let from = format!("{:#x}", origins[0].zxid);
    let watched = members.text(1, &["watch", PATH, "--from", &from, "--limit", "1"]);
    assert!(watched.contains(why), "{watched}");
    for words in [
        &["history", PATH, "--by", "127.0.0.1"][..],
        &[
            "watch",
            PATH,
            "--from",
            &from,
            "--limit",
            "1",
            "--by",
            "127.0.0.1",
        ],
    ] {
        let refused = members.run(1, words);
        assert_eq!(
            refused.status.code(),
            Some(5),
            "{words:?}: {}",
            stderr(&refused)
        );
    }
}

/// Members at addresses of their own, which are not on the loopback interface.
#[test]
fn credentials_leave_the_machine_only_over_verified_tls() {
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let certificates = Certificates::new();
    let builder = builder()
        .setting("admin.portUnification", "true")
        .in_network(3);
    let Some(mut ensemble) = or_skip("members with addresses of their own", builder.prepare())
    else {
        return;
    };
    let outside = IpAddr::V4(ensemble.network().address(OUTSIDE));
    let listen = |ip: IpAddr| TcpListener::bind((ip, 0)).expect("a listener");
    let (far, near) = (listen(outside), listen(Ipv4Addr::LOCALHOST.into()));
    let address_of = |listener: &TcpListener| listener.local_addr().expect("an address");
    let hosts: Vec<IpAddr> = ensemble
        .ids()
        .into_iter()
        .map(|id| ensemble.member(id).client_address().ip())
        .collect();
    for host in &hosts {
        certificates.sign_at(&host.to_string(), *host);
    }
    let lines = |id: u64| {
        let name = hosts[usize::try_from(id - 1).expect("an id")].to_string();
        let mut lines = "\n".to_owned();
        for (key, value) in certificates.settings("ssl.quorum.", &name, "pem") {
            let _ = writeln!(lines, "{key}={value}");
        }
        // Only member 1 names other addresses.
        if id == 1 {
            let _ = writeln!(lines, "zoarium.admin.2={}", address_of(&near));
            let _ = writeln!(lines, "zoarium.admin.3={}", address_of(&far));
        }
        lines
    };
    let admins = hosts
        .iter()
        .map(|host| SocketAddr::new(*host, 8080))
        .collect();
    let members = Members::start(ensemble, admins, lines);
    let origins = members.write(&[1, 3, 2]);
    for id in [1, 2] {
        members.wait_until_recorded(id, origins[2].zxid);
    }
    let refusal = "was not queried: credentials are sent only over TLS to a verified host";
    let text = members.text(1, &admin(&["history", PATH]));
    for (id, listener) in [(2, &near), (3, &far)] {
        let reported = format!("(member {id} at {} {refusal})", address_of(listener));
        assert!(text.contains(&reported), "{text}");
        assert_no_credentials(listener);
    }
    // The address of a member without a key has the member's host and the port of the queried member.
    let trust = certificates.path("authority.pem").display().to_string();
    let tls = ["--tls", "--tls-trust", &trust];
    let plain = members.text(2, &admin(&["history", PATH]));
    assert!(
        plain.contains(&format!("member 3 at {} {refusal}", members.admin(3))),
        "{plain}"
    );
    let unverified = [&["history", PATH][..], &tls, &["--tls-any-host"]].concat();
    let unverified = members.text(2, &admin(&unverified));
    assert!(unverified.contains(&format!("member 1 at {} {refusal}", members.admin(1))));
    let found = members.json(2, &admin(&[&["history", PATH][..], &tls].concat()));
    assert_eq!(found.len(), 3);
    for (change, origin) in found.iter().zip(origins.iter().rev()) {
        assert_names(change, origin);
    }
}

/// The client authenticates again and disconnects while its change waits for the disk.
#[test]
fn a_change_keeps_the_origin_of_its_request_after_the_client_has_disconnected() {
    let Some(faults) = or_skip("a held disk", Faults::new()) else {
        return;
    };
    let Some(site) = Site::start_after(&[], Some(&faults.commands(1))) else {
        return;
    };
    let open = || {
        let session = RawSession::open(&site.server.address(), None, SESSION_TIMEOUT_MS);
        session.expect("a session")
    };
    let (mut other, mut session) = (open(), open());
    session
        .authenticate("digest", USERS[0])
        .expect("an identity");
    let client = session.local_address().to_string();
    let id = format!("sid=0x{:x}", session.session().id.0);
    assert!(site.server.word("cons").contains(&id));
    faults.hold_syncs(1, "/log.");
    session.put(&Request::Write(create_open(PATH)));
    session.flush().expect("a connection");
    wait_for("a held sync", LIMIT, || faults.has_held(1).then_some(()));
    let second = AuthPacket {
        auth_type: 0,
        scheme: Some("digest".into()),
        auth: Some(USERS[1].into()).into(),
    };
    session.put_bytes(OpCode::Auth, &second.to_bytes());
    session.flush().expect("a connection");
    drop(session);
    wait_for("the end of the connection", LIMIT, || {
        (!site.server.word("cons").contains(&id)).then_some(())
    });
    faults.release(1);
    let last = other.call(&Request::Write(create_open("/last")));
    site.wait_until_recorded(last.expect("an answer").zxid.0);
    let page = site.json(&format!("history/changes?path={PATH}"), Some(SUPER));
    let change = &page["results"][0];
    assert_eq!(change["client"], *client, "{change}");
    let identities = change["identities"].as_array().expect("identities");
    assert!(identities.contains(&"digest:u1".into()), "{change}");
    assert!(!identities.contains(&"digest:u2".into()), "{change}");
}
