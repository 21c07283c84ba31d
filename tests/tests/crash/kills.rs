//! A server that is killed repeatedly while several sessions write.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::process::Command;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use client::Error;
use fastrand::Rng;
use proto::request::{Request, flags};
use tests::requests::create;
use tests::{Dump, Flavour, Process, RawSession, Server, ServerBuilder, or_skip, zoarium_binary};

use crate::load::{Worker, number_of, prepare};
use crate::model::{SHARED, parent_of, settle};

/// Number of kills, unless `ZOARIUM_CRASH_KILLS` sets another one.
const KILLS: usize = 100;
const SESSIONS: usize = 6;
/// Session timeout. It is long, so that no session expires on a slow machine.
const TIMEOUT_MS: i32 = 60_000;

/// Events of the whole run, to prove that it tested the intended cases.
#[derive(Debug, Default)]
struct Seen {
    kills: usize,
    kills_while_starting: usize,
    writes_answered: u64,
    unanswered_kept: usize,
    unanswered_lost: usize,
    sessions_closed: usize,
}

struct Run {
    server: Server,
    workers: Vec<Worker>,
    /// Every number ever seen below [`SHARED`], with the data of its znode.
    numbers: BTreeMap<u64, String>,
    rng: Rng,
    seen: Seen,
}

#[test]
#[ignore = "needs minutes of faults"]
fn acknowledged_writes_survive_a_hundred_kills() {
    let kills = number_from("ZOARIUM_CRASH_KILLS").unwrap_or(KILLS);
    let seed = number_from("ZOARIUM_CRASH_SEED").unwrap_or_else(seed_of_now);
    println!("ZOARIUM_CRASH_SEED={seed} repeats this run's choices");
    let builder = ServerBuilder::new(Flavour::Zoarium)
        .setting("maxSessionTimeout", "60000")
        // In each round, logs roll and snapshots are written several times.
        .setting("snapCount", "300")
        .setting("preAllocSize", "16")
        .setting("autopurge.purgeInterval", "1")
        .setting("autopurge.snapRetainCount", "3");
    let Some(server) = or_skip("crashes", builder.start()) else {
        return;
    };
    let mut rng = Rng::with_seed(seed);
    let workers = (0..SESSIONS).map(|number| Worker::new(number, rng.fork()));
    let mut run = Run {
        workers: workers.collect(),
        server,
        numbers: BTreeMap::new(),
        rng,
        seen: Seen::default(),
    };
    run.prepare();
    let begun = Instant::now();
    while run.seen.kills < kills {
        run.round();
    }
    run.check_that_it_was_worth_it();
    println!("{:?} in {:?}", run.seen, begun.elapsed());
}

fn number_from<T: FromStr>(variable: &str) -> Option<T> {
    let text = env::var(variable).ok()?;
    let number = text.parse().ok();
    Some(number.expect("a number in the environment"))
}

fn seed_of_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::from(since.subsec_nanos()) ^ since.as_secs())
}

impl Run {
    fn prepare(&mut self) {
        for worker in &mut self.workers {
            let mut session = open(&self.server, worker).expect("a session");
            let shared = Request::Write(create(SHARED, "", flags::PERSISTENT));
            session.call(&shared).expect("an answer");
            prepare(worker, &mut session);
        }
    }

    /// Runs load, a kill, a restart, and a check of everything.
    fn round(&mut self) {
        let loads: Vec<RawSession> = self.sessions();
        let limit = Duration::from_micros(self.rng.u64(5_000..300_000));
        let server = &mut self.server;
        thread::scope(|scope| {
            let workers = self.workers.iter_mut().zip(loads);
            let running: Vec<_> = workers
                .map(|(worker, session)| scope.spawn(|| worker.run(session)))
                .collect();
            // The random moment of the kill is essential, so there is no condition to wait for.
            thread::sleep(limit);
            server.kill();
            for worker in running {
                if let Err(panic) = worker.join() {
                    std::panic::resume_unwind(panic);
                }
            }
        });
        self.seen.kills += 1;
        self.choose_compression();
        while self.rng.u8(..5) == 0 {
            self.kill_while_starting();
        }
        if let Err(failure) = self.server.launch() {
            panic!("no start after a kill: {failure:?}");
        }
        let dump = self.dump();
        self.settle(&dump);
        self.check_shared(&dump);
    }

    /// Resumes the sessions of all workers on new connections. They are the sessions from before
    /// the kill, except for closed ones.
    fn sessions(&mut self) -> Vec<RawSession> {
        let workers = self.workers.iter_mut();
        let sessions = workers.map(|worker| {
            let opened = open(&self.server, worker);
            if worker.answered.closed {
                assert!(
                    matches!(opened, Err(Error::SessionExpired { .. })),
                    "{opened:?}"
                );
                self.seen.sessions_closed += 1;
                worker.answered.closed = false;
                worker.session = None;
                return open(&self.server, worker).expect("a new session");
            }
            opened.unwrap_or_else(|error| panic!("{} does not go on: {error}", worker.top))
        });
        sessions.collect()
    }

    /// Selects the compression of snapshots for the next start.
    fn choose_compression(&mut self) {
        let method = ["", "gz", "snappy"][self.rng.usize(..3)];
        let file = self.server.config_file();
        let text = fs::read_to_string(&file).expect("zoo.cfg");
        let lines = text.lines().filter(|line| !line.starts_with("snapshot."));
        let mut text: String = lines.flat_map(|line| [line, "\n"]).collect();
        if !method.is_empty() {
            text.push_str(&format!("snapshot.compression.method={method}\n"));
        }
        fs::write(file, text).expect("write zoo.cfg");
    }

    fn kill_while_starting(&mut self) {
        let mut command = Command::new(zoarium_binary());
        command.arg("server").arg(self.server.config_file());
        let log = self.server.config_file().with_file_name("killed.log");
        let mut process = Process::spawn(&mut command, &log).expect("start a server");
        thread::sleep(Duration::from_micros(self.rng.u64(..150_000)));
        assert_eq!(process.ended(), None, "{}", process.log());
        process.kill();
        self.seen.kills += 1;
        self.seen.kills_while_starting += 1;
    }

    fn dump(&self) -> Dump {
        let mut session = RawSession::open(&self.server.address(), None, TIMEOUT_MS)
            .expect("a session after the restart");
        let dump = Dump::read(&mut session).expect("the tree after the restart");
        session.close().expect("the end of a session");
        dump
    }

    fn settle(&mut self, dump: &Dump) {
        for worker in &mut self.workers {
            let unanswered = std::mem::take(&mut worker.unanswered);
            let whose = worker.whose(is_over(&self.server, worker));
            let (kept, part) = settle(&worker.answered, &unanswered, dump, &whose);
            self.seen.unanswered_kept += kept;
            self.seen.unanswered_lost += unanswered.len() - kept;
            worker.answered = part;
            self.seen.writes_answered += std::mem::take(&mut worker.writes_answered);
        }
        let tops = self.workers.iter().map(|worker| worker.top.as_str());
        let expected: Vec<&str> = tops.chain([SHARED, "/zookeeper"]).collect();
        let parts = dump
            .znodes
            .keys()
            .filter(|path| *path != "/" && parent_of(path).is_empty());
        let mut parts: Vec<&str> = parts.map(String::as_str).collect();
        parts.sort_unstable();
        assert_eq!(parts, expected);
    }

    /// Checks that a number belongs to a single znode, even after its deletion.
    fn check_shared(&mut self, dump: &Dump) {
        let answered = self.workers.iter_mut().flat_map(|worker| {
            let last = worker.numbers.pop();
            let numbers = std::mem::replace(&mut worker.numbers, last.iter().cloned().collect());
            numbers.into_iter().chain(last)
        });
        let mut found: Vec<(u64, String)> = answered.collect();
        for (path, node) in &dump.znodes {
            if parent_of(path) == SHARED {
                let data = node.data.as_deref().unwrap_or_default();
                let data = String::from_utf8_lossy(data).into_owned();
                let marks = self.workers.iter().map(|worker| &worker.mark);
                assert!(
                    marks.into_iter().any(|mark| data.starts_with(mark)),
                    "{path}: {data}"
                );
                found.push((number_of(path), data));
            }
        }
        for (number, data) in found {
            let owner = self.numbers.entry(number).or_insert_with(|| data.clone());
            assert_eq!(*owner, data, "number {number} was given twice");
        }
        let created = dump.znodes[SHARED].stat;
        let creations = u64::try_from(i32::midpoint(created.cversion, created.num_children));
        let next = self
            .numbers
            .last_key_value()
            .map_or(0, |(number, _)| number + 1);
        assert!(
            creations.is_ok_and(|creations| creations >= next),
            "{created:?}, next {next}"
        );
    }

    fn check_that_it_was_worth_it(&self) {
        let seen = &self.seen;
        assert!(seen.writes_answered > 50 * seen.kills as u64, "{seen:?}");
        assert!(
            seen.unanswered_kept > 0 && seen.unanswered_lost > 0,
            "{seen:?}"
        );
        assert!(
            seen.kills_while_starting > 0 && seen.sessions_closed > 0,
            "{seen:?}"
        );
        let log = self.server.log();
        let count = |text: &str| log.matches(text).count();
        for suffix in ["", ".gz", ".snappy"] {
            let written = log.lines().filter(|line| line.contains("snapshot written"));
            let with_suffix = written.filter(|line| {
                let name = line.split("snapshot.").nth(1).unwrap_or_default();
                name.split(' ').next().is_some_and(|name| match suffix {
                    "" => !name.contains('.'),
                    suffix => name.ends_with(suffix),
                })
            });
            assert!(with_suffix.count() > 0, "no snapshot{suffix}");
        }
        assert_eq!(count("digest of the tree differs"), 0);
        assert_eq!(count("panicked"), 0);
        assert!(count("purged") > 0, "no old file was purged");
    }
}

fn open(server: &Server, worker: &mut Worker) -> Result<RawSession, Error> {
    let session = RawSession::open(&server.address(), worker.session.as_ref(), TIMEOUT_MS)?;
    worker.session = Some(session.session().clone());
    Ok(session)
}

/// Returns whether the session of `worker` is over. Otherwise the next client resumes it.
fn is_over(server: &Server, worker: &Worker) -> bool {
    match RawSession::open(&server.address(), worker.session.as_ref(), TIMEOUT_MS) {
        Ok(_) => false,
        Err(Error::SessionExpired { .. }) => true,
        Err(error) => panic!("{} cannot ask for its session: {error}", worker.top),
    }
}
