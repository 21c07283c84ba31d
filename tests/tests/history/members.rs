//! Members that lost part of their log, received a snapshot in its place, led, and failed. Each
//! answers every query as the plain list does, and names what it cannot know.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fastrand::Rng;
use proto::request::{Request, flags};
use proto::{Acl, OpCode};
use tests::ensemble::{Ensemble, EnsembleBuilder};
use tests::requests::{create, create_with, delete, set_data};
use tests::{Flavour, HttpRequest, RawSession, or_skip, wait_for};

use crate::compare::{Asking, Extent};
use crate::plain::Plain;
use crate::site::{LIMIT, SUPER};

/// Number of writes in each part.
const PART: usize = 60;

/// Admin port of each member, at the member's own address.
const ADMIN_PORT: u16 = 8080;

/// The members, and the written data.
struct Writing {
    ensemble: Ensemble,
    plain: Plain,
    random: Rng,
}

impl Writing {
    /// Starts three members that keep a history.
    fn begin() -> Option<Self> {
        if Flavour::under_test() != Flavour::Zoarium {
            return None;
        }
        let builder = EnsembleBuilder::new(&[Flavour::Zoarium; 3])
            .setting("admin.enableServer", "true")
            .setting("admin.serverPort", &ADMIN_PORT.to_string())
            .setting("history.enabled", "true")
            .setting("history.minFreeMegabytes", "0")
            .in_network(3);
        let ensemble = or_skip("members with addresses of their own", builder.start())?;
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut session = ensemble.super_session(1).expect("a session");
        let plain = Plain::begin(&mut session);
        session.close().expect("the end of a session");
        Some(Self {
            ensemble,
            plain,
            random: Rng::with_seed(seed),
        })
    }

    fn session(&self, through: u64) -> RawSession {
        wait_for("session", LIMIT, || self.ensemble.super_session(through))
    }

    fn write(&mut self, through: u64, count: usize) {
        let mut session = self.session(through);
        for _ in 0..count {
            self.plain.write(&mut session, &mut self.random);
        }
        session.close().expect("the end of a session");
        self.plain.short_session(self.session(through));
    }

    /// Cuts off the leader with a write that is never committed. Returns the leader and the others,
    /// which serve.
    fn cut_off(&mut self, is_late: bool) -> (u64, Vec<u64>) {
        let leader = self.ensemble.wait_until_all_serve();
        let ids = self.ensemble.ids();
        self.ensemble.wait_for_equal_zxids(&ids);
        let mut session = self.session(leader);
        let others = self.others(leader);
        self.ensemble.network().cut(&[leader], &others);
        let never = format!("/t/never-{leader}-{is_late}");
        session.put(&Request::Write(create(&never, "", flags::PERSISTENT)));
        session.flush().expect("a write is sent");
        assert!(session.take().is_err(), "acknowledged without a quorum");
        let files = self.ensemble.member(leader).data_dir().join("version-2");
        assert!(holds(&files, never.as_bytes()), "it was not logged");
        self.ensemble.wait_until_these_serve(&others);
        (leader, others)
    }

    /// Cuts off a leader and reconnects it. Its log is truncated, or its tree is replaced by that
    /// of the next leader if the others have written meanwhile. Returns the old leader.
    fn depose(&mut self, is_late: bool) -> u64 {
        let (leader, others) = self.cut_off(is_late);
        if is_late {
            self.write(others[0], PART);
        }
        self.ensemble.wait_until_none_serves(&[leader]);
        let since = self.ensemble.member(leader).log().len();
        self.ensemble.network().heal();
        self.is_back(leader, since, if is_late { "SNAP" } else { "TRUNC" });
        self.write(leader, PART);
        leader
    }

    fn fail_over(&mut self) {
        let leader = self.ensemble.wait_until_all_serve();
        let others = self.others(leader);
        self.ensemble.member_mut(leader).kill();
        self.ensemble.wait_until_these_serve(&others);
        self.write(others[1], PART);
        let since = self.ensemble.member(leader).log().len();
        self.ensemble.start(leader);
        self.is_back(leader, since, "DIFF");
    }

    /// Deletes a member's history, which the member then rebuilds from its snapshot and its log.
    fn rebuild(&mut self, id: u64) {
        self.ensemble.member_mut(id).terminate();
        let dir = self.ensemble.member(id).data_dir().join("history");
        std::fs::remove_dir_all(dir).expect("remove a history");
        self.ensemble.start(id);
        self.ensemble.wait_until_all_serve();
        // If the oldest snapshot came from a leader, the tree is only known from now on.
        self.write(id, PART);
    }

    fn others(&self, but: u64) -> Vec<u64> {
        let mut ids = self.ensemble.ids();
        ids.retain(|id| *id != but);
        ids
    }

    /// Waits until a member serves again, after a synchronization of this kind.
    fn is_back(&self, id: u64, since: usize, way: &str) {
        self.ensemble.wait_until_all_serve();
        let way = format!("by=\"{way}\"");
        wait_for(&way, LIMIT, || {
            let log = self.ensemble.member(id).log().split_off(since);
            log.contains(&way).then_some(())
        });
    }

    /// Compares all members with the list. Returns the holes of each.
    fn compare(&mut self, rounds: usize) -> Vec<Vec<(i64, i64, i64)>> {
        let head = self.plain.head();
        let members = self.ensemble.ids().into_iter();
        members
            .map(|id| {
                let host = self.ensemble.member(id).client_address().ip();
                let member = SocketAddr::new(host, ADMIN_PORT);
                let extent = wait_for("record of the last change", LIMIT, || {
                    Extent::of(member).filter(|extent| extent.head >= head)
                });
                let holes = extent.holes.clone();
                let mut asking = Asking {
                    member,
                    plain: &self.plain,
                    extent,
                    random: self.random.fork(),
                };
                asking.compare(rounds);
                holes
            })
            .collect()
    }
}

fn holds(dir: &Path, text: &[u8]) -> bool {
    let files = std::fs::read_dir(dir).expect("a directory");
    let mut logs = files.flatten().map(|file| file.path()).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("log.")
    });
    logs.any(|path| {
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes.windows(text.len()).any(|window| window == text)
    })
}

#[test]
fn members_answer_as_the_plain_list_after_trunc_snap_and_fail_over() {
    let Some(mut writing) = Writing::begin() else {
        return;
    };
    writing.write(1, PART);
    assert!(writing.compare(10).iter().all(Vec::is_empty));
    writing.depose(false);
    // The truncated transactions were never committed and therefore never recorded: nothing is
    // missing.
    assert!(writing.compare(10).iter().all(Vec::is_empty));
    let lost = writing.depose(true);
    let holes = writing.compare(10);
    for (id, holes) in writing.ensemble.ids().iter().zip(&holes) {
        assert_eq!(
            holes.len(),
            usize::from(*id == lost),
            "member {id}: {holes:?}"
        );
    }
    writing.fail_over();
    writing.compare(15);
    let whole = writing.others(lost)[0];
    writing.rebuild(whole);
    writing.compare(5);
    println!("{} changes", writing.plain.changes.len());
}

/// The snapshot of an idle leader is named after the begin of its epoch, which the log never
/// contains.
#[test]
fn a_snapshot_of_an_idle_leader_leaves_no_hole() {
    let Some(mut writing) = Writing::begin() else {
        return;
    };
    writing.write(1, PART);
    let first = writing.ensemble.wait_until_all_serve();
    let others = writing.others(first);
    writing.ensemble.member_mut(first).kill();
    let leader = writing.ensemble.wait_until_these_serve(&others);
    let host = writing.ensemble.member(leader).client_address().ip();
    let request = HttpRequest {
        method: "GET",
        target: "/commands/snapshot?streaming=false",
        headers: &[("Authorization", SUPER)],
        body: None,
    };
    let answer = request.send_to(SocketAddr::new(host, ADMIN_PORT));
    assert_eq!(answer.expect("an answer").status, 200);
    let files = writing.ensemble.member(leader).data_dir().join("version-2");
    let names = std::fs::read_dir(files).expect("a directory");
    let mut names = names.flatten().map(|file| file.file_name());
    let is_begin = |name: &str| name.starts_with("snapshot.") && name.ends_with("00000000");
    assert!(names.any(|name| name.to_str().is_some_and(is_begin)));
    writing.write(leader, PART);
    writing.ensemble.start(first);
    writing.ensemble.wait_until_all_serve();
    let holes = writing.compare(1);
    assert!(holes.iter().all(Vec::is_empty), "{holes:?}");
}

/// Data of the secret changes, and its form in an answer.
const SECRET: &str = "vault-secret";
const SECRET_SHOWN: &str = "dmF1bHQtc2VjcmV0";

/// While a member receives its leader's tree, it records changes of znodes whose ACL it does not
/// know.
#[test]
fn a_change_with_an_unknown_acl_is_for_super_users_also_after_the_deletion() {
    let Some(mut writing) = Writing::begin() else {
        return;
    };
    let (member, others) = writing.cut_off(true);
    let through = others[0];
    let mut session = writing.session(through);
    let mut write = |request| {
        let answer = session.call(&Request::Write(request)).expect("an answer");
        assert_eq!(answer.err, 0);
        answer.zxid.0
    };
    let acl = [Acl::new(31, "digest", "ann:hash")];
    let op = OpCode::Create;
    write(create_with(
        op,
        "/vault",
        Some(SECRET.into()),
        flags::PERSISTENT,
        &acl,
        -1,
    ));
    writing.ensemble.wait_until_none_serves(&[member]);
    let host = writing.ensemble.member(member).client_address().ip();
    let address = SocketAddr::new(host, ADMIN_PORT);
    let since = writing.ensemble.member(member).log().len();
    let is_back = AtomicBool::new(false);
    let deleted = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            while !is_back.load(Ordering::Relaxed) {
                write(set_data("/vault", SECRET, -1));
            }
            write(delete("/vault", -1))
        });
        writing.ensemble.network().heal();
        writing.is_back(member, since, "SNAP");
        // The last write must be after the hole, because the member's history does not know any
        // moment within it.
        wait_for("a write behind the hole", LIMIT, || {
            let extent = Extent::of(address)?;
            let (_, _, known_from) = *extent.holes.first()?;
            (known_from < extent.head).then_some(())
        });
        is_back.store(true, Ordering::Relaxed);
        writer.join().expect("a writer")
    });
    let extent = wait_for("record of the deletion", LIMIT, || {
        Extent::of(address).filter(|extent| extent.head >= deleted)
    });
    let (_, recorded_after, known_from) = extent.holes[0];
    assert!(
        recorded_after < known_from,
        "no change came during the snapshot: {extent:?}"
    );
    only_super_users_see_the_secret(address, deleted - 1);
}

/// Reads the changes of the vault, and the vault at `moment`, at the admin port of a member.
fn only_super_users_see_the_secret(address: SocketAddr, moment: i64) {
    let changes = "history/changes?path=/vault&limit=1000";
    let moment = format!("history/cat?path=/vault&at={moment:#x}");
    for target in [changes, &moment] {
        let ask = |headers: &[(&str, &str)]| {
            let request = HttpRequest {
                method: "GET",
                target: &format!("/commands/{target}"),
                headers,
                body: None,
            };
            request.send_to(address).expect("an answer").text()
        };
        let shown = ask(&[("Authorization", SUPER)]);
        assert!(shown.contains(SECRET_SHOWN), "{target}: {shown}");
        for headers in [&[][..], &[("Authorization", "digest ann:pw")]] {
            let text = ask(headers);
            assert!(!text.contains(SECRET_SHOWN), "{target}: {text}");
        }
    }
}
