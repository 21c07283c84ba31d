//! Repeats the recorded operations one after the other, and compares their lines.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::Path;

use bytes::Bytes;
use proto::request::{ReconfigRequest, Request, WriteRequest, flags};
use proto::{Acl, Id, OpCode};
use serde_json::Value;
use tests::RawSession;
use tests::ensemble::SUPER;
use tests::requests::{check, create, create_with, delete, get_data, multi, set_acl, set_data};

use crate::log::{Ask, AuditLog, user};

/// A recorded step of Apache ZooKeeper.
struct Step {
    server: String,
    name: String,
    error: Option<i64>,
    lines: Vec<String>,
}

/// Returns the recorded steps, with this machine's user as the user of the server.
fn steps() -> Option<VecDeque<Step>> {
    let file = testkit::recordings::find("vectors/operations/audit/audit.masked.jsonl")?;
    let text = fs::read_to_string(file).expect("the recorded audit lines");
    let own = format!("user={}\toperation", user());
    let step = |line: &str| {
        let step: Value = serde_json::from_str(line).expect("a recorded step");
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let lines = step["lines"].as_array().expect("lines").iter();
        Step {
            server: text(&step["server"]),
            name: text(&step["step"]),
            error: step["error"].as_i64(),
            lines: lines
                .map(|line| text(line).replace("user=root\toperation", &own))
                .collect(),
        }
    };
    Some(text.lines().map(step).collect())
}

/// Player of the steps of one server.
pub(crate) struct Player {
    steps: VecDeque<Step>,
    /// Member whose clients execute the steps.
    at: u64,
    /// Logs of all members.
    logs: BTreeMap<u64, AuditLog>,
}

impl Player {
    /// Returns a player for the steps of `server`, with a single log.
    pub(crate) fn new(server: &str, home: &Path) -> Option<Player> {
        Player::among(server, 0, BTreeMap::from([(0, AuditLog::of(home))]))
    }

    /// Returns a player for the steps of `server` through the member `at`, or `None` without the
    /// recordings.
    pub(crate) fn among(server: &str, at: u64, logs: BTreeMap<u64, AuditLog>) -> Option<Player> {
        let mut steps = steps()?;
        steps.retain(|step| step.server == server);
        Some(Player { steps, at, logs })
    }

    /// Returns the logs.
    pub(crate) fn into_logs(self) -> BTreeMap<u64, AuditLog> {
        assert!(self.steps.is_empty(), "a step is left");
        self.logs
    }

    /// Returns the log of the member through which the steps are executed.
    pub(crate) fn log(&mut self) -> &mut AuditLog {
        self.logs.get_mut(&self.at).expect("a log")
    }

    /// Checks that the next step is this one, and its lines in the log of the member that executed
    /// it.
    pub(crate) fn expect(&mut self, name: &str) {
        let step = self.next(name);
        self.log().expect(&step.name, &step.lines);
    }

    /// Checks the next step, and its lines in the logs of all members.
    pub(crate) fn expect_everywhere(&mut self, name: &str) {
        let step = self.next(name);
        for log in self.logs.values_mut() {
            log.expect(&step.name, &step.lines);
        }
    }

    /// Skips the next step, which must be this one.
    pub(crate) fn skip(&mut self, name: &str) {
        self.next(name);
    }

    fn next(&mut self, name: &str) -> Step {
        let step = self.steps.pop_front().expect("a step is left");
        assert!(step.name.starts_with(name), "{name} is {}", step.name);
        step
    }

    /// Executes a request as the next step, and also compares its error code with the recorded one.
    pub(crate) fn call(&mut self, name: &str, session: &mut RawSession, request: impl Ask) {
        let answer = session.call(&request.request()).expect("an answer");
        let error = self.steps.front().and_then(|step| step.error);
        assert_eq!(Some(i64::from(answer.err)), error, "{name}");
        self.expect(name);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.steps.is_empty()
    }
}

fn acl(perms: i32, scheme: &str, id: &str) -> Acl {
    let id = Id {
        scheme: scheme.into(),
        id: id.into(),
    };
    Acl { perms, id }
}

fn create_ttl(path: &str, flags: i32) -> WriteRequest {
    create_with(
        OpCode::CreateTtl,
        path,
        Some(Bytes::new()),
        flags,
        &[Acl::open()],
        100_000,
    )
}

fn create_for(path: &str, acl: &[Acl]) -> WriteRequest {
    create_with(OpCode::Create, path, Some(Bytes::new()), 0, acl, -1)
}

fn reconfig(joining: &str, leaving: &str, config_version: i64) -> WriteRequest {
    let given = |text: &str| (!text.is_empty()).then(|| text.into());
    WriteRequest::Reconfig(ReconfigRequest {
        joining: given(joining),
        leaving: given(leaving),
        new_members: None,
        config_version,
    })
}

/// Executes all recorded operations of clients, from the first create to the last delete. `open`
/// opens a session with this timeout, ms. A standalone server also receives a reconfig.
pub(crate) fn operations(
    player: &mut Player,
    open: &dyn Fn(i32) -> RawSession,
    stands_alone: bool,
) {
    let mut first = open(30_000);
    player.expect("session start");
    creates(player, &mut first);
    changes(player, &mut first);
    multis(player, &mut first);
    identities(player, &mut first);
    let mut other = open(30_000);
    others(player, &mut other, open);
    if stands_alone {
        let join = reconfig("server.9=127.0.0.1:1:2", "", -1);
        player.call("reconfig on a standalone", &mut other, join);
    } else {
        player.skip("reconfig on a standalone");
    }
    first.close().expect("the end of a session");
    player.expect_everywhere("close of the session");
    let mut short = open(2000);
    let ephemeral = |path| Request::Write(create(path, "", flags::EPHEMERAL));
    short.call(&ephemeral("/a/x1")).expect("an answer");
    player.call("create ephemerals", &mut short, ephemeral("/a/x2"));
    drop(short);
    player.expect_everywhere("expiry");
    player.call("removal", &mut other, delete("/a/c", -1));
}

/// Executes the recorded changes of members in a session that is not authenticated yet. `line`
/// describes an observer with this `id`.
pub(crate) fn changes_of_members(
    player: &mut Player,
    session: &mut RawSession,
    id: u64,
    line: &str,
) {
    let leaving = id.to_string();
    player.call("reconfig without", session, reconfig("", &leaving, -1));
    session.authenticate("digest", SUPER).expect("an answer");
    player.call("reconfig remove", session, reconfig("", &leaving, -1));
    player.call("reconfig add", session, reconfig(line, "", -1));
    let bad = reconfig("", &leaving, 77);
    player.call("reconfig bad version", session, bad);
    let bad = reconfig("server.x=zz", "", -1);
    player.call("reconfig bad text", session, bad);
}

fn creates(player: &mut Player, session: &mut RawSession) {
    player.call("create /a persistent", session, create("/a", "1", 0));
    player.call("create /a again", session, create("/a", "1", 0));
    let sequential = create("/a/s-", "", flags::PERSISTENT_SEQUENTIAL);
    player.call("create /a/s-", session, sequential);
    let ephemeral = create("/a/e", "", flags::EPHEMERAL);
    player.call("create /a/e ephemeral", session, ephemeral);
    let both = create("/a/es-", "", flags::EPHEMERAL_SEQUENTIAL);
    player.call("create /a/es-", session, both);
    let container = create_with(
        OpCode::CreateContainer,
        "/a/c",
        Some(Bytes::new()),
        flags::CONTAINER,
        &[Acl::open()],
        -1,
    );
    player.call("create /a/c", session, container);
    player.call("create /a/t ", session, create_ttl("/a/t", flags::TTL));
    let both = create_ttl("/a/ts-", flags::TTL_SEQUENTIAL);
    player.call("create /a/ts-", session, both);
    let create2 = create_with(OpCode::Create2, "/a/x2", None, 0, &[Acl::open()], -1);
    player.call("create2 /a/x2", session, create2);
    player.call("create /no/parent", session, create("/no/parent", "", 0));
    player.call("create bad path", session, create("bad//path", "", 0));
    player.call("create under", session, create("/a/e/child", "", 0));
    let bad = create_for("/a/bad", &[acl(31, "nosuch", "x")]);
    player.call("create with invalid ACL", session, bad);
}

fn changes(player: &mut Player, session: &mut RawSession) {
    player.call("setData /a", session, set_data("/a", "2", -1));
    player.call("setData /a bad", session, set_data("/a", "2", 99));
    player.call("setData /missing", session, set_data("/missing", "2", -1));
    player.call("getData", session, get_data("/a"));
    let two = [acl(31, "world", "anyone"), acl(1, "ip", "127.0.0.1")];
    player.call("setAcl /a two", session, set_acl("/a", &two, -1));
    player.call("setAcl /a bad", session, set_acl("/a", &[Acl::open()], 99));
    let missing = set_acl("/missing", &[Acl::open()], -1);
    player.call("setAcl /missing", session, missing);
    let invalid = set_acl("/a", &[acl(31, "nosuch", "x")], -1);
    player.call("setAcl /a invalid", session, invalid);
    player.call("delete /a/x2", session, delete("/a/x2", -1));
    player.call("delete /a not empty", session, delete("/a", -1));
    player.call("delete /missing", session, delete("/missing", -1));
    player.call("delete /a bad", session, delete("/a", 99));
}

fn multis(player: &mut Player, session: &mut RawSession) {
    let good = vec![
        check("/a", -1),
        create("/a/m", "", 0),
        set_data("/a/m", "x", -1),
        delete("/a/m", -1),
    ];
    player.call("multi good", session, multi(good));
    let failing = vec![create("/a/m", "", 0), delete("/missing", -1)];
    player.call("multi failing", session, multi(failing));
    player.call("multi with only", session, multi(vec![check("/a", -1)]));
}

fn identities(player: &mut Player, session: &mut RawSession) {
    session.authenticate("digest", "bob:pw").expect("an answer");
    player.expect("auth digest bob");
    let own = create_for("/a/auth", &[acl(31, "auth", "")]);
    player.call("create after auth", session, own);
    session
        .authenticate("digest", "carol:pw")
        .expect("an answer");
    player.expect("auth digest carol");
    player.call("setData with two", session, set_data("/a", "3", -1));
    session.sync().expect("an answer");
    player.expect("sync");
}

fn others(player: &mut Player, other: &mut RawSession, open: &dyn Fn(i32) -> RawSession) {
    player.call(
        "setData /a/auth without",
        other,
        set_data("/a/auth", "x", -1),
    );
    player.call("delete child", other, delete("/a/auth", -1));
    other.authenticate("digest", SUPER).expect("an answer");
    player.expect("auth super");
    player.call("setData /a/auth as", other, set_data("/a/auth", "x", -1));
    let refused = open(30_000).authenticate("nosuch", "x");
    assert_eq!(refused.expect("an answer").err, -115);
    player.expect("auth with unknown");
}
