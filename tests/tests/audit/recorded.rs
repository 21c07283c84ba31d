//! The recorded steps, done again.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;

use bytes::Bytes;
use proto::request::{ReconfigRequest, Request, WriteRequest, flags};
use proto::{Acl, Id, OpCode};
use serde_json::Value;
use tests::ensemble::{Duty, Ensemble, EnsembleBuilder, Role, SUPER};
use tests::requests::{check, create, create_with, delete, get_data, multi, set_acl, set_data};
use tests::{Flavour, RawSession, Server, ServerBuilder, or_skip};

use crate::log::{Ask, AuditLog, user};

const SUPER_DIGEST: &str = "super:lK75jTNcA+U9vtVEw5vB51mj/w4=";

/// A step as Apache ZooKeeper did it.
struct Step {
    server: String,
    name: String,
    error: Option<i64>,
    lines: Vec<String>,
}

/// The recorded steps, with this machine's user as who runs the server.
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

/// Goes through the steps of one server.
struct Player {
    steps: VecDeque<Step>,
    log: AuditLog,
}

impl Player {
    fn new(server: &str, home: &Path) -> Option<Player> {
        let mut steps = steps()?;
        steps.retain(|step| step.server == server);
        Some(Player {
            steps,
            log: AuditLog::of(home),
        })
    }

    /// The next step is this one, and has these lines.
    fn expect(&mut self, name: &str) {
        let step = self.steps.pop_front().expect("a step is left");
        assert!(step.name.starts_with(name), "{name} is {}", step.name);
        self.log.expect(&step.name, &step.lines);
    }

    /// The same for a request, whose answer must be the recorded one too.
    fn call(&mut self, name: &str, session: &mut RawSession, request: impl Ask) {
        let answer = session.call(&request.request()).expect("an answer");
        let error = self.steps.front().and_then(|step| step.error);
        assert_eq!(Some(i64::from(answer.err)), error, "{name}");
        self.expect(name);
    }

    fn is_over(&self) -> bool {
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

fn open(server: &Server, timeout_ms: i32) -> RawSession {
    RawSession::open(&server.address(), None, timeout_ms).expect("a session")
}

#[test]
fn a_server_on_its_own_audits_what_java_does() {
    let builder = ServerBuilder::new(Flavour::under_test())
        .setting("audit.enable", "true")
        .setting("maxSessionTimeout", "60000")
        .setting("minSessionTimeout", "1000")
        .setting("DigestAuthenticationProvider.superDigest", SUPER_DIGEST);
    let Some(mut server) = or_skip("audit", builder.start()) else {
        return;
    };
    let home = server.config_file();
    let Some(mut player) = Player::new("standalone", home.parent().expect("a directory")) else {
        return;
    };
    player.expect("server start");
    let mut first = open(&server, 30_000);
    player.expect("session start");
    creates(&mut player, &mut first);
    changes(&mut player, &mut first);
    multis(&mut player, &mut first);
    identities(&mut player, &mut first);
    let mut other = open(&server, 30_000);
    others(&mut player, &mut other, &server);
    first.close().expect("the end of a session");
    player.expect("close of the session");
    let mut short = open(&server, 2000);
    let ephemeral = |path| Request::Write(create(path, "", flags::EPHEMERAL));
    short.call(&ephemeral("/a/x1")).expect("an answer");
    player.call("create ephemerals", &mut short, ephemeral("/a/x2"));
    drop(short);
    player.expect("expiry");
    player.call("removal", &mut other, delete("/a/c", -1));
    server.terminate();
    player.expect("server stop");
    assert!(player.is_over());
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

fn others(player: &mut Player, other: &mut RawSession, server: &Server) {
    player.call(
        "setData /a/auth without",
        other,
        set_data("/a/auth", "x", -1),
    );
    player.call("delete child", other, delete("/a/auth", -1));
    other.authenticate("digest", SUPER).expect("an answer");
    player.expect("auth super");
    player.call("setData /a/auth as", other, set_data("/a/auth", "x", -1));
    let refused = open(server, 30_000).authenticate("nosuch", "x");
    assert_eq!(refused.expect("an answer").err, -115);
    player.expect("auth with unknown");
    let join = reconfig("server.9=127.0.0.1:1:2", "", -1);
    player.call("reconfig on a standalone", other, join);
}

#[test]
fn a_request_that_enforced_authentication_turns_away_has_no_line() {
    let builder = ServerBuilder::new(Flavour::under_test())
        .setting("audit.enable", "true")
        .setting("enforce.auth.enabled", "true")
        .setting("enforce.auth.schemes", "digest");
    let Some(mut server) = or_skip("audit", builder.start()) else {
        return;
    };
    let home = server.config_file();
    let mut session = open(&server, 30_000);
    let answer = session
        .call(&create("/n", "", 0).request())
        .expect("an answer");
    assert_eq!(answer.err, -124);
    server.terminate();
    let log = AuditLog::of(home.parent().expect("a directory"));
    let shown: Vec<String> = log.all();
    assert_eq!(shown.len(), 2, "start and stop: {shown:#?}");
}

/// Every member tells the end of a session; everything else only the one that the client is
/// connected to.
#[test]
fn members_audit_what_java_does_in_every_role() {
    let ours = Flavour::under_test();
    let builder = EnsembleBuilder::new(&[ours; 3])
        .observers(&[ours])
        .dynamic()
        .setting("audit.enable", "true");
    let Some(ensemble) = or_skip("audit", builder.start()) else {
        return;
    };
    let leader = ensemble.wait_until_all_serve();
    let follower = ensemble.in_role(Role::Follower)[0];
    let observer = ensemble.in_role(Role::Observer)[0];
    let player = |role: &str, id: u64| Player::new(role, ensemble.member(id).home());
    let (Some(mut at_follower), Some(mut at_leader), Some(mut at_observer)) = (
        player("follower", follower),
        player("leader", leader),
        player("observer", observer),
    ) else {
        return;
    };
    at_follower.expect("server start");
    at_leader.expect("server start");
    at_observer.log.expect("server start", &start_line());
    let mut session = session_at(&ensemble, follower);
    at_follower.call("create through", &mut session, create("/q", "", 0));
    // The leader's whole log is the same as before.
    at_leader.steps.pop_front();
    let (id, leaving) = (observer, observer.to_string());
    at_follower.call("reconfig without", &mut session, reconfig("", &leaving, -1));
    session.authenticate("digest", SUPER).expect("an answer");
    at_follower.call("reconfig remove", &mut session, reconfig("", &leaving, -1));
    let line = ensemble.member(id).line_as(Duty::Observer, true);
    at_follower.call("reconfig add", &mut session, reconfig(&line, "", -1));
    let bad = reconfig("", &leaving, 77);
    at_follower.call("reconfig bad version", &mut session, bad);
    let bad = reconfig("server.x=zz", "", -1);
    at_follower.call("reconfig bad text", &mut session, bad);
    let ephemeral = create("/q/e", "", flags::EPHEMERAL);
    at_follower.call("create ephemeral", &mut session, ephemeral);
    session.close().expect("the end of a session");
    at_follower.expect("close");
    at_leader.expect("close");
    at_observer.expect("close");
    assert!(at_follower.is_over() && at_leader.is_over() && at_observer.is_over());
}

fn start_line() -> [String; 1] {
    let user = user();
    [format!(
        "<TIME> INFO o.a.z.a.Slf4jAuditLogger: user={user}\toperation=serverStart\tresult=success"
    )]
}

fn session_at(ensemble: &Ensemble, id: u64) -> RawSession {
    let address = ensemble.member(id).client_address().to_string();
    RawSession::open(&address, None, 30_000).expect("a session")
}
