//! Finds writes that take longer than 5 ms, and the reasons for their delay.
//!
//! `cargo run --profile dist -p tests --example stalls` builds the server with the same profile;
//! `ZOARIUM_BIN` names another executable, and `ZOARIUM_STALLS_SECONDS` another duration of each
//! load than 30 s. The machine must be idle.
//!
//! A server's own time is the duration of a write without the slow syncs of the logs (the servers
//! report those above 1 ms), and without the longer of two waits:
//!
//! - the longest wait of one thread of the servers or of the client for a processor,
//! - the time in which a processor ran nothing because the host of the virtual machine did not run
//!   it. A thread that is woken on such a processor is in no run queue, and Linux counts its wait
//!   nowhere. One thread on each processor therefore notes how late its own timer is.
//!
//! The program prints each write with more than 5 ms of own time. The exit code is 1 if there is
//! one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use proto::request::{Request, flags};
use rustix::thread::{CpuSet, sched_setaffinity};
use tests::ensemble::EnsembleBuilder;
use tests::requests::{create, set_data};
use tests::{Flavour, Missing, RawSession, ServerBuilder};

/// Duration from which a write counts as a stall, µs.
const STALL_US: i64 = 5000;
/// Interval between two samples of the threads.
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);
const SESSION_TIMEOUT_MS: i32 = 60_000;
/// Resolution of the servers' reports about syncs, µs.
const SYNC_REPORT_STEP_US: i64 = 1000;
/// Interval between two timers of a processor, µs.
const TIMER_US: u64 = 500;
/// Delay of a timer from which the processor counts as absent, µs.
const ABSENCE_US: i64 = 500;

/// Begin and end, µs since 1970.
type Span = (i64, i64);

fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(since.expect("the clock is behind 1970").as_micros()).expect("a time of this age")
}

/// Returns how long a thread has waited for a processor, µs. Linux has a folder for each thread.
fn waited_us(thread: &Path) -> i64 {
    let text = fs::read_to_string(thread.join("schedstat")).unwrap_or_default();
    let waited_ns = text.split_whitespace().nth(1);
    let waited_ns: Option<i64> = waited_ns.and_then(|ns| ns.parse().ok());
    waited_ns.unwrap_or_default() / 1000
}

/// Returns the spans in which this processor ran nothing although a timer of this thread was due.
fn absences(processor: usize, ends: &AtomicBool) -> Vec<Span> {
    let mut only = CpuSet::new();
    only.set(processor);
    sched_setaffinity(None, &only).expect("a processor of this machine");
    let this_thread = Path::new("/proc/thread-self");
    let mut found = Vec::new();
    let mut waited = waited_us(this_thread);
    while !ends.load(Ordering::Relaxed) {
        let due = now_us() + i64::try_from(TIMER_US).expect("below a second");
        thread::sleep(Duration::from_micros(TIMER_US));
        let (woken, before) = (now_us(), waited);
        waited = waited_us(this_thread);
        // The wait in the run queue begins when the processor is back.
        let back = woken - (waited - before);
        if back - due > ABSENCE_US {
            found.push((due, back));
        }
    }
    found
}

/// One sample of all threads.
struct Look {
    at_us: i64,
    /// Total wait of each thread for a processor, µs.
    waited_us: BTreeMap<PathBuf, i64>,
}

impl Look {
    fn take(processes: &[u32]) -> Self {
        let tasks = processes
            .iter()
            .map(|process| fs::read_dir(format!("/proc/{process}/task")));
        let threads = tasks.flatten().flatten().flatten().map(|task| task.path());
        Self {
            at_us: now_us(),
            waited_us: threads
                .map(|thread| (thread.clone(), waited_us(&thread)))
                .collect(),
        }
    }

    /// Returns the longest wait of a thread for a processor until the later sample, µs.
    fn until(&self, later: &Self) -> i64 {
        let waits = later.waited_us.iter().map(|(thread, waited)| {
            waited - self.waited_us.get(thread).copied().unwrap_or_default()
        });
        waits.max().unwrap_or_default()
    }
}

/// Writes in one session until the end. Returns the stalls.
fn write(address: &str, path: &str, depth: usize, ends: &AtomicBool) -> (u64, Vec<Span>) {
    let mut session = RawSession::open(address, None, SESSION_TIMEOUT_MS).expect("a session");
    let made = session.call(&Request::Write(create(path, "0", flags::PERSISTENT)));
    assert_eq!(made.expect("an answer").err, 0, "{path}");
    let set = Request::Write(set_data(path, "x".repeat(100), -1));
    let mut sent_us = std::collections::VecDeque::new();
    let (mut count, mut stalls) = (0, Vec::new());
    while !ends.load(Ordering::Relaxed) {
        while sent_us.len() < depth {
            session.put(&set);
            sent_us.push_back(now_us());
        }
        assert_eq!(session.take().expect("an answer").err, 0, "{path}");
        let span = (sent_us.pop_front().expect("a request"), now_us());
        count += 1;
        if span.1 - span.0 > STALL_US {
            stalls.push(span);
        }
    }
    while !sent_us.is_empty() {
        session.take().expect("an answer");
        sent_us.pop_front();
    }
    (count, stalls)
}

/// Returns the slow syncs that the servers report.
fn syncs(logs: &[String]) -> Vec<Span> {
    let lines = logs.iter().flat_map(|log| log.lines());
    let slow = lines.filter(|line| line.contains("slow fsync of the log"));
    let spans = slow.filter_map(|line| {
        let end: Timestamp = line.split_whitespace().next()?.parse().ok()?;
        let ms = line.split("elapsed_ms=").nth(1)?;
        let ms: i64 = ms.split_whitespace().next()?.parse().ok()?;
        let end_us = end.as_microsecond();
        Some((end_us - ms * 1000 - SYNC_REPORT_STEP_US, end_us))
    });
    spans.collect()
}

/// Returns the longest of overlapping spans: concurrent requests wait for the same cause.
fn longest(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut found: Vec<Span> = Vec::new();
    let mut end = i64::MIN;
    for span in spans {
        match found.last_mut().filter(|_| span.0 < end) {
            Some(last) if span.1 - span.0 > last.1 - last.0 => *last = span,
            Some(_) => {}
            None => found.push(span),
        }
        end = end.max(span.1);
    }
    found
}

/// Returns the part of a span that others cover, µs.
fn covered(span: Span, others: &[Span]) -> i64 {
    let mut parts: Vec<Span> = others
        .iter()
        .map(|(begin, end)| ((*begin).max(span.0), (*end).min(span.1)))
        .filter(|(begin, end)| begin < end)
        .collect();
    parts.sort_unstable();
    let (mut sum, mut until) = (0, i64::MIN);
    for (begin, end) in parts {
        sum += (end - begin.max(until)).max(0);
        until = until.max(end);
    }
    sum
}

/// Servers with their output.
struct Servers {
    addresses: Vec<String>,
    processes: Vec<u32>,
    logs: Box<dyn Fn() -> Vec<String>>,
}

/// Runs a load and prints its stalls. Returns the number of stalls with too much own time.
fn report(name: &str, servers: &Servers, sessions: usize, depth: usize, time: Duration) -> usize {
    let ends = AtomicBool::new(false);
    // The last sample must follow the last write, or the waits of this write are unknown.
    let all_written = AtomicBool::new(false);
    let looks = Arc::new(Mutex::new(Vec::new()));
    let mut processes = servers.processes.clone();
    processes.push(std::process::id());
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let (results, absent): (Vec<(u64, Vec<Span>)>, Vec<Span>) = thread::scope(|scope| {
        let (ends, all_written) = (&ends, &all_written);
        let writers: Vec<_> = (0..sessions)
            .map(|number| {
                let address = &servers.addresses[number % servers.addresses.len()];
                let path = format!("/{}-{number}", name.replace(' ', "-"));
                scope.spawn(move || write(address, &path, depth, ends))
            })
            .collect();
        let timers: Vec<_> = (0..processors)
            .map(|processor| scope.spawn(move || absences(processor, all_written)))
            .collect();
        let looking = looks.clone();
        scope.spawn(move || {
            loop {
                let is_last = all_written.load(Ordering::Relaxed);
                let look = Look::take(&processes);
                looking.lock().expect("no look panics").push(look);
                if is_last {
                    break;
                }
                thread::sleep(BETWEEN_LOOKS);
            }
        });
        thread::sleep(time);
        ends.store(true, Ordering::Relaxed);
        let joined: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        all_written.store(true, Ordering::Relaxed);
        let results = joined.into_iter().map(|result| result.expect("a writer"));
        let absent = timers.into_iter().flat_map(|timer| timer.join());
        (results.collect(), absent.flatten().collect())
    });
    let looks = looks.lock().expect("no look panics");
    let syncs = syncs(&(servers.logs)());
    let count: u64 = results.iter().map(|(count, _)| count).sum();
    let stalls = longest(results.into_iter().flat_map(|(_, stalls)| stalls).collect());
    let mut own = Vec::new();
    for span in &stalls {
        let before = looks.iter().rfind(|look| look.at_us <= span.0);
        let after = looks.iter().find(|look| look.at_us >= span.1);
        let waited = before.zip(after).map_or(0, |(a, b)| a.until(b));
        let synced = covered(*span, &syncs);
        // A sync of an absent processor is late, too.
        let others: Vec<Span> = syncs.iter().chain(&absent).copied().collect();
        let absent = covered(*span, &others) - synced;
        let took = span.1 - span.0;
        // A thread may be in the run queue of an absent processor, so the longer one counts.
        let own_us = took - synced - waited.max(absent);
        if own_us > STALL_US {
            own.push((own_us, took, synced, waited, absent, span.0));
        }
    }
    own.sort_unstable_by(|a, b| b.cmp(a));
    println!(
        "{name}: {count} writes, {} stalls above 5 ms, {} of them with more than 5 ms of own time",
        stalls.len(),
        own.len()
    );
    for (own_us, took, synced, waited, absent, begun_us) in own.iter().take(20) {
        println!(
            "  at {begun_us}: {took} us, own {own_us}, sync {synced}, run queue {waited}, absent processor {absent}"
        );
    }
    own.len()
}

fn main() -> Result<ExitCode, Missing> {
    let seconds = std::env::var("ZOARIUM_STALLS_SECONDS").ok();
    let time = Duration::from_secs(seconds.and_then(|text| text.parse().ok()).unwrap_or(30));
    let property = ("zookeeper.fsync.warningthresholdms", "1");
    let alone = ServerBuilder::new(Flavour::Zoarium).property(property.0, property.1);
    let alone = alone.start().expect("a server of ours needs nothing");
    let mut own = {
        let servers = Servers {
            addresses: vec![alone.address()],
            processes: alone.process_id().into_iter().collect(),
            logs: Box::new(move || vec![alone.log()]),
        };
        report("set 1 x 1", &servers, 1, 1, time) + report("set 16 x 16", &servers, 16, 16, time)
    };
    let ensemble = EnsembleBuilder::new(&[Flavour::Zoarium; 3]).property(property.0, property.1);
    let ensemble = ensemble.start()?;
    ensemble.wait_until_all_serve();
    let ids = ensemble.ids();
    let servers = Servers {
        addresses: ensemble.addresses(&ids),
        processes: ids
            .iter()
            .filter_map(|id| ensemble.member(*id).process_id())
            .collect(),
        logs: Box::new(move || ids.iter().map(|id| ensemble.member(*id).log()).collect()),
    };
    own += report("three servers set 1 x 1", &servers, 1, 1, time);
    own += report("three servers set 16 x 1", &servers, 16, 1, time);
    Ok(match own {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}
