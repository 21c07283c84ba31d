//! Mixed queues: contenders of this crate, stock Curator and stock kazoo compete for locks and
//! leaderships of one ensemble while contenders and servers are killed. The transaction log shows
//! afterwards whether two contenders ever held at the same time, and whether all held in order.
//!
//! - `ZOARIUM_MIXED_SECONDS`: duration of the kills in seconds. The default is 20.
//! - `ZOARIUM_MIXED_SEED`: seed of the random choices. It repeats the choices, but not their exact
//!   times.
//!
//! Stock Curator and stock kazoo never share a queue, because they do not wait for each other.

mod contenders;
mod judge;
mod log;
mod ours;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use client::{Client, Create};
use fastrand::Rng;
use tests::Flavour::Zoarium;
use tests::ensemble::{Ensemble, EnsembleBuilder};
use tests::{or_skip, wait_for, wait_until};
use tokio::runtime::Runtime;

use contenders::Contender;
use judge::Judge;

/// Session timeout. It is short, because a queue stops for this time after each kill. Servers with
/// ticks of 300 ms accept it.
const SESSION_TIMEOUT: Duration = Duration::from_secs(3);
/// Duration of a contender's pause, or of an outage of all servers. It ends sessions, according to
/// the servers or the client.
const PAUSE: Duration = Duration::from_secs(5);
/// Time between the moment when all queues proceed again and the next disturbance, in ms.
const CALM_MS: std::ops::Range<u64> = 0..1500;
/// Time limit of a step. It suffices for a slow machine, and only a failing test reaches it.
const PATIENCE: Duration = Duration::from_secs(120);

/// Number of transactions to show before a faulty one.
const SHOWN: usize = 200;

/// Znode that makes contenders stop their turns.
const STOP: &str = "/stop";
/// Directory of the records. It contains a directory for each queue, with a subdirectory for each
/// kind of contender.
const RECORDS: &str = "/records";
/// Maximum number of records in one turn. It is high enough that a randomly paused contender is
/// often a holder.
const RECORDS_OF_A_TURN: usize = 10;
const OURS: &str = "ours";
const KINDS: [&str; 3] = [OURS, "Curator", "kazoo"];

/// Directory of contenders.
struct QueueKind {
    name: &'static str,
    directory: &'static str,
    /// Word before the numbers.
    word: &'static str,
    /// Other library in this queue.
    others: &'static str,
}

const fn kind(
    name: &'static str,
    directory: &'static str,
    word: &'static str,
    others: &'static str,
) -> QueueKind {
    QueueKind {
        name,
        directory,
        word,
        others,
    }
}

const QUEUES: [QueueKind; 5] = [
    kind("mutex", "/queues/mutex", "-lock-", "Curator"),
    kind("selector", "/queues/selector", "-lock-", "Curator"),
    kind("latch", "/queues/latch", "-latch-", "Curator"),
    kind("lock", "/queues/lock", "__lock__", "kazoo"),
    kind("election", "/queues/election", "__lock__", "kazoo"),
];

/// Minimum number of turns of each kind in each queue before the run ends.
const TURNS_MIN: usize = 4;
/// Minimum number of changes of holder in each queue.
const CHANGES_MIN: usize = 2 * TURNS_MIN - 1;

fn queue(name: &str) -> &'static QueueKind {
    let mut queues = QUEUES.iter();
    queues.find(|queue| queue.name == name).unwrap()
}

fn setting<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    let value = text.parse().ok();
    Some(value.unwrap_or_else(|| panic!("{name} cannot be {text:?}")))
}

/// Ensemble, its contenders, and their disturbances.
struct Mixed {
    ensemble: Ensemble,
    contenders: Vec<Contender>,
    runtime: Runtime,
    client: Client,
    rng: Rng,
    /// Pending disturbances. The list contains each kind with the intended frequency, even in a
    /// short run.
    disturbances: Vec<Disturbance>,
    done: BTreeMap<Disturbance, usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Disturbance {
    KillContender,
    PauseContender,
    KillServer,
    KillAllServers,
}

const DISTURBANCES: [Disturbance; 6] = [
    Disturbance::KillContender,
    Disturbance::KillContender,
    Disturbance::PauseContender,
    Disturbance::PauseContender,
    Disturbance::KillServer,
    Disturbance::KillAllServers,
];

impl Mixed {
    fn start(ensemble: Ensemble, programs: &contenders::Programs, seed: u64) -> Mixed {
        let servers = ensemble.addresses(&ensemble.ids()).join(",");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let client = runtime.block_on(crate::support::connect(&servers));
        let mixed = Mixed {
            contenders: Vec::new(),
            ensemble,
            runtime,
            client,
            rng: Rng::with_seed(seed),
            disturbances: Vec::new(),
            done: BTreeMap::new(),
        };
        mixed.make("/queues");
        mixed.make(RECORDS);
        for queue in &QUEUES {
            // A container would be deleted when it is empty, and numbers would start again.
            mixed.make(queue.directory);
            mixed.make(&format!("{RECORDS}/{}", queue.name));
            for kind in [OURS, queue.others] {
                mixed.make(&records_of(queue, kind));
            }
        }
        Mixed {
            contenders: programs.start(&servers),
            ..mixed
        }
    }

    fn make(&self, path: &str) {
        let persistent = Create::persistent();
        let made = self.client.create(path, "", &persistent);
        self.runtime.block_on(made).unwrap();
    }

    /// Returns the number of a znode's children, or `None` without an answer.
    fn children(&self, path: &str) -> Option<usize> {
        let found = self.runtime.block_on(self.client.exists(path));
        usize::try_from(found.ok()??.num_children).ok()
    }

    /// Returns whether each kind has taken this many turns in each queue.
    fn has_turns(&self, turns: usize) -> bool {
        let records = turns * RECORDS_OF_A_TURN;
        QUEUES.iter().all(|queue| {
            let kinds = [OURS, queue.others];
            let counts = kinds.map(|kind| self.children(&records_of(queue, kind)));
            counts.iter().all(|count| *count >= Some(records))
        })
    }

    /// Returns the number of records in each queue.
    fn records(&self) -> Vec<Option<usize>> {
        let count = |queue: &QueueKind| {
            let [ours, others] = [OURS, queue.others].map(|kind| records_of(queue, kind));
            Some(self.children(&ours)? + self.children(&others)?)
        };
        QUEUES.iter().map(count).collect()
    }

    /// Waits until there are new records in each queue. Any killed holder has then been replaced,
    /// and the next paused contender is probably a holder.
    fn wait_until_all_move(&mut self) {
        let before = self.records();
        wait_for("a queue that moves", PATIENCE, || {
            self.contenders.iter_mut().for_each(Contender::see_to);
            let now = self.records();
            let mut both = before.iter().zip(&now);
            both.all(|(before, now)| now > before).then_some(())
        });
    }

    /// Waits for `time` and only maintains the contenders.
    fn let_pass(&mut self, time: Duration) {
        wait_until(time, || {
            self.contenders.iter_mut().for_each(Contender::see_to);
            None::<()>
        });
    }

    fn disturb(&mut self) {
        if self.disturbances.is_empty() {
            self.disturbances = DISTURBANCES.to_vec();
            self.rng.shuffle(&mut self.disturbances);
        }
        let disturbance = self.disturbances.pop().unwrap();
        match disturbance {
            Disturbance::KillContender => {
                let victim = self.rng.usize(..self.contenders.len());
                self.contenders[victim].kill_and_start();
            }
            Disturbance::PauseContender => {
                let victim = self.rng.usize(..self.contenders.len());
                self.contenders[victim].pause(PAUSE);
            }
            Disturbance::KillServer => {
                let victim = self.rng.choice(self.ensemble.ids()).unwrap();
                self.ensemble.member_mut(victim).kill();
                self.ensemble.wait_until_all_serve();
                self.ensemble.start(victim);
                self.ensemble.wait_until_all_serve();
            }
            Disturbance::KillAllServers => {
                let ids = self.ensemble.ids();
                ids.iter()
                    .for_each(|id| self.ensemble.member_mut(*id).kill());
                self.let_pass(PAUSE);
                ids.iter().for_each(|id| self.ensemble.start(*id));
                self.ensemble.wait_until_all_serve();
            }
        }
        *self.done.entry(disturbance).or_default() += 1;
    }

    /// Disturbs the ensemble for `time`. Then continues until all contenders have had their turns.
    fn run(&mut self, time: Duration) {
        wait_for("first turns", PATIENCE, || self.has_turns(1).then_some(()));
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.disturb();
            self.wait_until_all_move();
            let calm = Duration::from_millis(self.rng.u64(CALM_MS));
            self.let_pass(calm.min(end - Instant::now().min(end)));
        }
        self.contenders.iter_mut().for_each(Contender::resume);
        wait_for("turns", PATIENCE, || {
            self.has_turns(TURNS_MIN + 1).then_some(())
        });
    }

    /// Stops all contenders, and then the servers.
    fn stop(&mut self) {
        let stop = || {
            let persistent = Create::persistent();
            let made = self.client.create(STOP, "", &persistent);
            let made = self.runtime.block_on(made);
            let is_there = made.is_ok() || self.children(STOP).is_some();
            is_there.then_some(())
        };
        wait_for("a word to stop", PATIENCE, stop);
        for contender in &mut self.contenders {
            contender.wait_for_end(PATIENCE);
        }
        for queue in &QUEUES {
            wait_for("an empty queue", PATIENCE, || {
                (self.children(queue.directory) == Some(0)).then_some(())
            });
        }
    }

    /// Judges the logs of the servers.
    fn judge(&mut self) -> Judge {
        let paths = QUEUES.iter().flat_map(|queue| {
            let kinds = [OURS, queue.others];
            kinds.map(|kind| (queue.name, self.children(&records_of(queue, kind)).unwrap()))
        });
        let mut written = BTreeMap::new();
        for (name, count) in paths {
            *written.entry(name).or_insert(0) += count;
        }
        for id in self.ensemble.ids() {
            self.ensemble.member_mut(id).terminate();
        }
        let ids = self.ensemble.ids().into_iter();
        let dirs: Vec<_> = ids.map(|id| self.ensemble.member(id).data_dir()).collect();
        let mut judge = Judge::default();
        let records = log::transactions(&dirs);
        for (at, record) in records.iter().enumerate() {
            if let Err(fault) = judge.see(record.header.session, &record.txn) {
                for before in &records[at.saturating_sub(SHOWN)..=at] {
                    println!("{before:?}");
                }
                panic!("at {}: {fault}", record.header.zxid);
            }
        }
        for (name, queue) in judge.queues() {
            assert_eq!(queue.records, written[name], "{name}: the log is not whole");
        }
        judge
    }
}

fn records_of(queue: &QueueKind, kind: &str) -> String {
    format!("{RECORDS}/{}/{kind}", queue.name)
}

#[test]
#[ignore = "runs other people's programs"]
fn holders_are_exclusive_and_in_order_despite_kills() {
    let Some(programs) = or_skip("mixed queues", contenders::Programs::find()) else {
        return;
    };
    let seconds = setting("ZOARIUM_MIXED_SECONDS").unwrap_or(20);
    let seed = setting("ZOARIUM_MIXED_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("ZOARIUM_MIXED_SEED={seed} ZOARIUM_MIXED_SECONDS={seconds}");
    let ensemble = EnsembleBuilder::new(&[Zoarium; 3]).start().unwrap();
    let mut mixed = Mixed::start(ensemble, &programs, seed);
    mixed.run(Duration::from_secs(seconds));
    mixed.stop();
    let judge = mixed.judge();
    println!(
        "{:?}, {} writes came too late, {} after an end that the servers do not know of",
        mixed.done, judge.refused, judge.given_up
    );
    let mut queues = 0;
    for (name, seen) in judge.queues() {
        queues += 1;
        println!(
            "{name}: {} records, {} changes of holder, turns {:?}",
            seen.records, seen.changes, seen.held
        );
        assert!(seen.changes >= CHANGES_MIN, "{name}: {}", seen.changes);
        for kind in [OURS, queue(name).others] {
            assert!(seen.held[kind] >= TURNS_MIN, "{name}: {:?}", seen.held);
        }
        assert!(seen.left().is_empty(), "{name}: {:?}", seen.left());
    }
    assert_eq!(queues, QUEUES.len());
}
