//! Members that lost something of their log, got a snapshot in its place, led and fell: each answers
//! every question as the plain list does, and names what it cannot know.

use std::net::SocketAddr;
use std::path::Path;

use fastrand::Rng;
use proto::request::{Request, flags};
use tests::ensemble::{Ensemble, EnsembleBuilder};
use tests::requests::create;
use tests::{Flavour, RawSession, or_skip, wait_for};

use crate::compare::{Asking, Extent};
use crate::plain::Plain;
use crate::site::LIMIT;

/// Writes of each part.
const PART: usize = 60;

/// The admin port of each member at its own address.
const ADMIN_PORT: u16 = 8080;

/// Members, and what was written.
struct Writing {
    ensemble: Ensemble,
    plain: Plain,
    random: Rng,
}

impl Writing {
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

    /// The leader is cut off with a write that is never committed, and comes back: its log is cut, or
    /// the tree of the next leader takes its place if that has gone on meanwhile. Gives the old leader.
    fn depose(&mut self, is_late: bool) -> u64 {
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

    /// The history of a member is gone: it is made again from snapshot and log.
    fn rebuild(&mut self, id: u64) {
        self.ensemble.member_mut(id).terminate();
        let dir = self.ensemble.member(id).data_dir().join("history");
        std::fs::remove_dir_all(dir).expect("remove a history");
        self.ensemble.start(id);
        self.ensemble.wait_until_all_serve();
        // Where the oldest snapshot came from a leader, the tree is known from now on only.
        self.write(id, PART);
    }

    fn others(&self, but: u64) -> Vec<u64> {
        let mut ids = self.ensemble.ids();
        ids.retain(|id| *id != but);
        ids
    }

    /// Waits until a member serves again, brought up to date in this way.
    fn is_back(&self, id: u64, since: usize, way: &str) {
        self.ensemble.wait_until_all_serve();
        let way = format!("by=\"{way}\"");
        wait_for(&way, LIMIT, || {
            let log = self.ensemble.member(id).log().split_off(since);
            log.contains(&way).then_some(())
        });
    }

    /// Compares all members with the list; gives the holes of each.
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
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let builder = EnsembleBuilder::new(&[Flavour::Zoarium; 3])
        .setting("admin.enableServer", "true")
        .setting("admin.serverPort", &ADMIN_PORT.to_string())
        .setting("history.enabled", "true")
        .setting("history.minFreeMegabytes", "0")
        .in_network(3);
    let Some(ensemble) = or_skip("members with addresses of their own", builder.start()) else {
        return;
    };
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut session = ensemble.super_session(1).expect("a session");
    let plain = Plain::begin(&mut session);
    session.close().expect("the end of a session");
    let mut writing = Writing {
        ensemble,
        plain,
        random: Rng::with_seed(seed),
    };
    writing.write(1, PART);
    assert!(writing.compare(10).iter().all(Vec::is_empty));
    writing.depose(false);
    // What is cut was never committed, so it was never recorded: nothing is missing.
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
