//! A sync that does not end delays only writes. Meanwhile, clients of that server can read, ping,
//! query and, in an ensemble, open sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use proto::request::{PathRequest, Request, WriteRequest, flags};
use proto::response::GetDataResponse;
use tests::ensemble::{Ensemble, Holders, Load, LoadSettings, check};
use tests::requests::{create, get_data};
use tests::{Faults, Flavour, Missing, Process, RawSession, ServerBuilder};
use tests::{four_letter_word_at, or_skip, wait_for};

use crate::faults::{LIMIT, OBSERVER, three};

const WHAT: &str = "disks that stand still";
/// Part of the path of every transaction log.
const LOGS: &str = "/log.";
/// Writes of each writer before a stall, enough for the server to notice that it has a single
/// writer.
const WRITES_BEFORE: u64 = 12;
/// Reads during a stall.
const READS: usize = 1000;
/// Consecutive pings.
const PINGS: usize = 20;
/// Pings of the session that only pings.
const PACED_PINGS: u32 = 20;
/// Time between two of these pings. Together they take 10 s, more than twice the session timeout.
const BETWEEN_PINGS: Duration = Duration::from_millis(500);
const PINGING_TIMEOUT_MS: i32 = 4000;
/// Timeout of the sessions that are not tested.
const TIMEOUT_MS: i32 = 60_000;
/// Time limit for a single answer during a stall.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);
const MEMORY_GROWTH_MAX: u64 = 64 << 20;
/// Limit in ticks of 300 ms. The stall must be shorter.
const SYNC_LIMIT: &str = "100";

/// Settings for one write at a time, with a pause between two.
fn trickle(prefix: &str) -> LoadSettings {
    LoadSettings {
        prefix: prefix.to_owned(),
        writers: 1,
        depth: 1,
        pace: Duration::from_millis(50),
        patience: Duration::from_secs(60),
    }
}

/// Settings for concurrent writes.
fn many_writes(prefix: &str) -> LoadSettings {
    LoadSettings {
        writers: 4,
        pace: Duration::from_millis(20),
        ..trickle(prefix)
    }
}

/// A server with a stalled disk.
struct Subject<'a> {
    name: String,
    /// Its number in the fault library.
    id: u64,
    address: String,
    process: &'a Process,
    /// Whether new sessions need a quorum instead of this server's disk.
    is_member: bool,
}

fn open(address: &str, timeout_ms: i32) -> RawSession {
    let mut session = RawSession::open(address, None, timeout_ms).expect("a session");
    session.set_patience(ANSWER_LIMIT);
    session
}

impl Subject<'_> {
    /// Stalls the syncs of its log until its clients have completed all work that does not need the
    /// disk.
    fn serves_while_its_disk_is_held(&self, faults: &Faults, load: &Load) {
        let (mut reading, pinging) = (
            open(&self.address, TIMEOUT_MS),
            open(&self.address, PINGING_TIMEOUT_MS),
        );
        let (pinging, ephemeral) = with_ephemeral(pinging, &self.name);
        load.wait_for_progress(WRITES_BEFORE);
        let memory = self.process.reset_peak_memory();
        faults.hold_syncs(self.id, LOGS);
        wait_for("a held sync", LIMIT, || {
            faults.has_held(self.id).then_some(())
        });
        let owner = pinging.session().id.0;
        let pings = Pings::start(pinging);

        let name = &self.name;
        let answered = |what: &str, count: usize, mut call: Box<dyn FnMut() -> bool + '_>| {
            for number in 0..count {
                assert!(call(), "{name}: {what} {number} is not answered");
            }
        };
        let read = get_data(&ephemeral);
        answered(
            "read",
            READS,
            Box::new(|| reading.call(&read).is_ok_and(|answer| answer.err == 0)),
        );
        answered("ping", PINGS, Box::new(|| reading.ping().is_ok()));
        let word = four_letter_word_at(&self.address, "ruok", ANSWER_LIMIT);
        assert_eq!(word.ok().as_deref(), Some("imok"), "{name}");
        if self.is_member {
            open(&self.address, TIMEOUT_MS);
        }

        wait_for("pings during the stall", LIMIT, || {
            (pings.count.load(Ordering::Relaxed) >= PACED_PINGS).then_some(())
        });
        let growth = self.process.peak_memory().saturating_sub(memory);
        faults.release(self.id);
        assert!(growth <= MEMORY_GROWTH_MAX, "{name}: {growth} bytes");
        load.wait_for_progress(1);
        let answer = reading.call(&read).expect("an answer");
        let GetDataResponse { stat, .. } = answer.record();
        assert_eq!(stat.ephemeral_owner, owner, "{name}");
        pings.end();
        println!("{name}: memory grew by {growth} bytes");
    }
}

/// Returns the session, and the path of its new ephemeral.
fn with_ephemeral(mut session: RawSession, name: &str) -> (RawSession, String) {
    let path = format!("/{}", name.replace(' ', "-"));
    session.set_patience(LIMIT);
    let made = session.call(&Request::Write(create(&path, "", flags::EPHEMERAL)));
    session.set_patience(ANSWER_LIMIT);
    assert_eq!(made.expect("an answer").err, 0, "{path}");
    (session, path)
}

/// A thread that pings for a session until the end of the test. The disk of the machine may also be
/// slow after the stall, and the session must not expire meanwhile.
struct Pings {
    /// Number of answered pings.
    count: Arc<AtomicU32>,
    /// The thread ends when this value is dropped.
    end: Sender<()>,
    thread: JoinHandle<()>,
}

impl Pings {
    /// Starts the thread, which panics if an answer is late.
    fn start(mut session: RawSession) -> Self {
        let (end, ended) = channel();
        let count = Arc::<AtomicU32>::default();
        let answered = Arc::clone(&count);
        let thread = thread::spawn(move || {
            while ended.recv_timeout(BETWEEN_PINGS) == Err(RecvTimeoutError::Timeout) {
                let pinged = session.ping();
                let number = answered.fetch_add(1, Ordering::Relaxed);
                assert!(pinged.is_ok(), "ping {number}: {pinged:?}");
            }
        });
        Self { count, end, thread }
    }

    fn end(self) {
        drop(self.end);
        self.thread.join().expect("all pings are answered");
    }
}

/// Starts three voters and an observer that learns from one of them. All of them use the fault
/// library.
fn with_all_roles(sync_limit: &str) -> Result<(Faults, Ensemble), Missing> {
    let faults = Faults::new()?;
    let builder = three()
        .observers(&[Flavour::Zoarium])
        .setting("syncLimit", sync_limit)
        .setting("observerMasterPort", "2191")
        .in_network(4);
    let mut ensemble = builder.prepare()?;
    for id in ensemble.ids() {
        ensemble.start_after(id, &faults.commands(id));
    }
    ensemble.wait_until_all_serve();
    Ok((faults, ensemble))
}

/// Stalls the disk of each member of an ensemble in turn.
fn disks_of_an_ensemble_are_held(settings: &LoadSettings) {
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let Some((faults, ensemble)) = or_skip(WHAT, with_all_roles(SYNC_LIMIT)) else {
        return;
    };
    let load = Load::with(&ensemble.addresses(&ensemble.ids()), settings);
    for (id, role) in ensemble.roles_with_observer(OBSERVER) {
        let member = ensemble.member(id);
        let subject = Subject {
            name: role.to_owned(),
            id,
            address: member.client_address().to_string(),
            process: member.process(),
            is_member: true,
        };
        subject.serves_while_its_disk_is_held(&faults, &load);
    }
    let report = load.finish();
    assert_eq!(report.sessions_lost(), 0, "{}", report.summary());
    check::nothing_is_lost(&ensemble, &report);
}

#[test]
#[ignore = "needs minutes of faults"]
fn members_under_a_trickle_of_writes_serve_while_a_sync_is_held() {
    disks_of_an_ensemble_are_held(&trickle("one"));
}

#[test]
#[ignore = "needs minutes of faults"]
fn members_under_many_writes_serve_while_a_sync_is_held() {
    disks_of_an_ensemble_are_held(&many_writes("many"));
}

/// The stall is longer than `syncLimit`, so the leader drops the member. Its clients and its
/// observer connect to other members.
#[test]
fn a_stalled_observer_master_loses_no_session() {
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let Some((faults, ensemble)) = or_skip(WHAT, with_all_roles("5")) else {
        return;
    };
    let roles = ensemble.roles_with_observer(OBSERVER);
    let with_role = |name: &str| {
        let found = roles.iter().find(|(_, role)| *role == name);
        found.expect("a member with this role").0
    };
    let (master, leader) = (with_role("observer master"), with_role("leader"));
    let timeout = Duration::from_millis(TIMEOUT_MS.unsigned_abs().into());
    let mut holders = Holders::open(&ensemble.addresses(&[master, leader, OBSERVER]), timeout);
    let load = Load::with(&ensemble.addresses(&[leader]), &trickle("far"));
    load.wait_for_progress(WRITES_BEFORE);
    faults.hold_syncs(master, LOGS);
    ensemble.wait_until_none_serves(&[master]);
    wait_for("an observer behind another member", LIMIT, || {
        let member = ensemble.member(OBSERVER);
        let now = member.metric("observer_master_id")?.parse::<u64>().ok()?;
        (now != master).then_some(())
    });
    load.wait_for_progress(WRITES_BEFORE);
    holders.check();
    faults.release(master);
    assert_eq!(ensemble.wait_until_all_serve(), leader);
    holders.check();
    holders.close();
    let report = load.finish();
    assert_eq!(report.sessions_lost(), 0, "{}", report.summary());
    check::nothing_is_lost(&ensemble, &report);
}

/// On a standalone server, new sessions are writes, and wait.
#[test]
#[ignore = "needs minutes of faults"]
fn a_standalone_server_serves_during_a_stalled_sync() {
    let Some(faults) = or_skip(WHAT, Faults::new()) else {
        return;
    };
    let builder = ServerBuilder::new(Flavour::Zoarium).setting("maxSessionTimeout", "600000");
    let server = builder.after(&faults.commands(1)).start();
    let server = server.expect("a server of ours needs nothing");
    for settings in [trickle("one"), many_writes("many")] {
        let load = Load::with(&[server.address()], &settings);
        let subject = Subject {
            name: format!("alone under {} writes", settings.prefix),
            id: 1,
            address: server.address(),
            process: server.process(),
            is_member: false,
        };
        subject.serves_while_its_disk_is_held(&faults, &load);
        let report = load.finish();
        assert_eq!(report.sessions_lost(), 0, "{}", report.summary());
    }
}

/// A client whose connection broke during its write uses this to learn the outcome. Here, another
/// session writes, because the order within one connection is kept anyway.
#[test]
fn a_sync_of_a_standalone_server_is_answered_after_earlier_writes() {
    let Some(faults) = or_skip(WHAT, Faults::new()) else {
        return;
    };
    let builder = ServerBuilder::new(Flavour::Zoarium);
    let server = builder.after(&faults.commands(1)).start();
    let server = server.expect("a server of ours needs nothing");
    let address = server.address();
    let mut writing = open(&address, TIMEOUT_MS);
    let mut asking = open(&address, TIMEOUT_MS);
    faults.hold_syncs(1, LOGS);
    writing.put(&Request::Write(create("/written", "", flags::PERSISTENT)));
    writing.flush().expect("a connection");
    wait_for("a held sync", LIMIT, || faults.has_held(1).then_some(()));
    asking.put(&Request::Sync(PathRequest {
        path: Some("/".into()),
    }));
    asking.put(&get_data("/written"));
    asking.flush().expect("a connection");
    // By then the server has received both requests.
    wait_for("a server that has read them", LIMIT, || {
        let word = four_letter_word_at(&address, "cons", ANSWER_LIMIT).ok()?;
        let session = format!("sid=0x{:x}", asking.session().id.0);
        let line = word.lines().find(|line| line.contains(&session))?;
        line.contains("recved=3").then_some(())
    });
    faults.release(1);
    assert_eq!(asking.take().expect("an answer to the sync").err, 0);
    assert_eq!(asking.take().expect("an answer to the read").err, 0);
    assert_eq!(writing.take().expect("an answer to the write").err, 0);
}

/// A client may send a request before it knows that its session has ended, such as a ping. As in
/// Apache ZooKeeper, this request is dropped, and the answer to the close is sent all the same.
#[test]
fn a_close_is_answered_although_a_request_follows_it() {
    a_close_is_answered_although_bytes_follow_it(|session| session.put(&get_data("/")));
}

#[test]
fn a_close_is_answered_although_an_invalid_frame_follows_it() {
    a_close_is_answered_although_bytes_follow_it(|session| {
        session.put(&get_data("/"));
        session.put_unframed(&(-1_i32).to_be_bytes());
    });
}

fn a_close_is_answered_although_bytes_follow_it(put: impl FnOnce(&mut RawSession)) {
    let Some(faults) = or_skip(WHAT, Faults::new()) else {
        return;
    };
    let builder = ServerBuilder::new(Flavour::Zoarium);
    let server = builder.after(&faults.commands(1)).start();
    let server = server.expect("a server of ours needs nothing");
    let mut session = open(&server.address(), TIMEOUT_MS);
    faults.hold_syncs(1, LOGS);
    session.put(&Request::Write(WriteRequest::CloseSession));
    session.flush().expect("a connection");
    wait_for("a held sync", LIMIT, || faults.has_held(1).then_some(()));
    let received = || server.metric("packets_received")?.parse::<u64>().ok();
    let before = received().expect("a number");
    put(&mut session);
    session.flush().expect("a connection");
    wait_for("a server that has read the request", LIMIT, || {
        (received()? > before).then_some(())
    });
    faults.release(1);
    assert_eq!(session.take().expect("an answer to the close").err, 0);
    session.take().expect_err("an answer after the close");
}
