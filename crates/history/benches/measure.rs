//! Measures the history: `cargo bench -p zoarium-history --bench measure -- [CHANGES] [PATHS]
//! [create]`.
//!
//! Records sets of 100 random bytes to paths in random order, merges, and queries. Prints the
//! figures for the table in docs/lab/history.md. With `create`, it records creates, each with a
//! different path, from 16 sessions with one address each, as a server passes them to the history.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jute::Encode;
use parking_lot::RwLock;
use proto::txn::{CreateTxn, SetDataTxn, Txn, TxnHeader, TxnRecord};
use proto::{Acl, SessionId, StatPersisted, Zxid};
use tree::{Tree, TreeSettings};
use zoarium_history::{
    Baseline, FeedMemory, HistoryQuery, Index, IndexSettings, MaintenanceStep, Moment, Origin,
    Position, SnapshotAt, Viewer,
};

fn main() {
    let numbers = std::env::args().filter_map(|arg| arg.parse::<u64>().ok());
    let numbers: Vec<u64> = numbers.collect();
    let changes = numbers.first().copied().unwrap_or(1_000_000);
    let paths = numbers.get(1).copied().unwrap_or(100_000);
    let creates = std::env::args().any(|arg| arg == "create");
    let origins: Vec<Origin> = (0..16).map(origin).collect();
    let dir = tempfile::tempdir().expect("a directory");
    let settings = IndexSettings::new(dir.path());
    let begun = Instant::now();
    let mut index = begin(settings.clone(), paths);
    report("baseline, znodes/s", rate(paths, begun.elapsed()));
    let (written_before, processor_before) = (written(), processor_time());
    let begun = Instant::now();
    let (mut logical, mut alone) = (0_u64, 0_u64);
    for n in 1..=changes {
        let (record, origin) = if creates {
            (create(n), &origins[(n % 16) as usize])
        } else {
            (set(n, paths), &Origin::default())
        };
        logical += 40 + 100;
        // Every thousandth record is compressed alone, to compare its size with that in a block.
        if n % 1000 == 0 {
            let packed = snap::raw::Encoder::new().compress_vec(&record.to_bytes());
            alone += packed.expect("a record").len() as u64;
        }
        index.append(&record, origin).expect("a change");
        if n % 8192 == 0 {
            index.checkpoint().expect("a checkpoint");
            while index.step(0).expect("a step") == MaintenanceStep::Worked {}
        }
    }
    index.checkpoint().expect("a checkpoint");
    report("changes/s, merges included", rate(changes, begun.elapsed()));
    let processor = processor_time().saturating_sub(processor_before);
    report("changes/s of processor time", rate(changes, processor));
    let begun = Instant::now();
    while index.step(0).expect("a step") == MaintenanceStep::Worked {}
    index.checkpoint().expect("a checkpoint");
    report(
        "rest of the merges, ms",
        begun.elapsed().as_secs_f64() * 1e3,
    );
    report(
        "bytes on disk a change",
        index.bytes_on_disk() as f64 / changes as f64,
    );
    let packed = alone as f64 / (changes / 1000).max(1) as f64;
    report("bytes of a log record, compressed", packed);
    let on_disk = index.bytes_on_disk() as f64 / changes as f64;
    report("bytes on disk / compressed record", on_disk / packed);
    let wrote = (written() - written_before) as f64;
    report("bytes written a change", wrote / changes as f64);
    report("write amplification", wrote / logical as f64);
    report("memory, MiB", resident_mib());
    if creates {
        return;
    }
    ask(&index, changes, paths);
    feed(&index, changes);
    drop(index);
    let begun = Instant::now();
    let index = Index::open(settings).expect("the same history");
    report("open again, ms", begun.elapsed().as_secs_f64() * 1e3);
    ask(&index, changes, paths);
    report("memory, MiB", resident_mib());
}

/// Creates a history whose initial znodes have all paths.
fn begin(settings: IndexSettings, paths: u64) -> Index {
    let mut baseline = Baseline::new(&settings).expect("a baseline");
    baseline.acl(1, &[Acl::open()]);
    for n in 0..paths {
        let stat = StatPersisted::default();
        baseline
            .znode(&path(n), Some(b"x"), 1, &stat)
            .expect("a znode");
    }
    let at = SnapshotAt {
        zxid: Zxid(0),
        covers: None,
    };
    Index::create(settings, baseline, at).expect("a history")
}

fn ask(index: &Index, changes: u64, paths: u64) {
    let reader = index.reader();
    let owner = Viewer::FileOwner {
        shows_secrets: true,
    };
    let mut random = fastrand::Rng::with_seed(3);
    let mut all = Vec::new();
    for _ in 0..200 {
        let mut query = HistoryQuery::of(&path(random.u64(..paths)));
        (query.newest_first, query.limit) = (true, 10);
        let begun = Instant::now();
        reader.history(&query, &owner).expect("an answer");
        all.push(begun.elapsed());
    }
    show("history of a path, 10 changes", all);
    let mut all = Vec::new();
    for _ in 0..200 {
        let (path, zxid) = (
            path(random.u64(..paths)),
            random.i64(0..=i64::try_from(changes).unwrap_or(0)),
        );
        let begun = Instant::now();
        let found = reader.znode_at(&path, Moment::Zxid(Zxid(zxid)), &owner);
        assert!(found.expect("an answer").is_some());
        all.push(begun.elapsed());
    }
    show("znode at a zxid", all);
}

/// Reads all changes in order, as a feed does, and formats them as lines, for a super user and for
/// a client whose permissions are checked.
fn feed(index: &Index, changes: u64) {
    let reader = index.reader();
    let owner = Viewer::FileOwner {
        shows_secrets: true,
    };
    let tree = RwLock::new(Tree::new(Arc::new(TreeSettings::new(testkit::LIMITS))));
    let anyone = Viewer::Client {
        tree: &tree,
        identities: &[],
    };
    let viewers: [(&str, &Viewer<'_>); 2] = [
        ("feed to a super user, lines/s", &owner),
        ("feed to anyone, lines/s", &anyone),
    ];
    let mut query = HistoryQuery::of("/");
    query.recursive = true;
    let wanted = changes.min(1_000_000);
    for (what, viewer) in viewers {
        let mut memory = FeedMemory::default();
        let (mut after, mut count, mut bytes) = (Position::after(Zxid(0)), 0, 0);
        let begun = Instant::now();
        while count < wanted {
            let page = reader.feed_with_memory(&query, after, viewer, &mut memory);
            let page = page.expect("a page");
            (after, count) = (page.position, count + page.results.len() as u64);
            assert_eq!(page.hidden, 0);
            bytes += zoarium_history::json::lines(&page.results).len();
        }
        report(what, rate(count, begun.elapsed()));
        report("bytes of a line", bytes as f64 / count as f64);
    }
}

fn show(what: &str, mut all: Vec<Duration>) {
    all.sort_unstable();
    let us = |at: usize| all[at].as_secs_f64() * 1e6;
    println!(
        "{what:<34} median {:>9.0} us, p99 {:>9.0} us",
        us(all.len() / 2),
        us(all.len() * 99 / 100)
    );
}

fn report(what: &str, figure: f64) {
    println!("{what:<34} {figure:>12.1}");
}

fn rate(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

fn path(n: u64) -> String {
    format!("/app/service-{:03}/node-{n:07}", n % 97)
}

fn data(n: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(n);
    (0..100).map(|_| random.u8(..)).collect()
}

fn origin(session: u16) -> Origin {
    Origin {
        client: format!("127.0.0.1:{}", 40_000 + session),
        identities: Vec::new(),
    }
}

fn create(n: u64) -> TxnRecord {
    let session = n % 16;
    let txn = Txn::Create(CreateTxn {
        path: format!("/bench-0123456789/create-0-{session}/{:010}", n / 16).into(),
        data: Some(data(n).into()),
        acl: vec![Acl::open()],
        ephemeral: false,
        parent_cversion: 1,
    });
    record(n, session, txn)
}

fn set(n: u64, paths: u64) -> TxnRecord {
    let mut random = fastrand::Rng::with_seed(!n);
    let txn = Txn::SetData(SetDataTxn {
        path: path(random.u64(..paths)).into(),
        data: Some(data(n).into()),
        version: 1,
    });
    record(n, random.u64(..16), txn)
}

fn record(n: u64, session: u64, txn: Txn) -> TxnRecord {
    let header = TxnHeader {
        session: SessionId(0x100_0000_0000 + i64::try_from(session).unwrap_or(0)),
        cxid: i32::try_from(n & 0xff_ffff).unwrap_or(0),
        zxid: Zxid(i64::try_from(n).unwrap_or(0)),
        time_ms: 1_700_000_000_000 + i64::try_from(n / 100).unwrap_or(0),
        op: txn.op().number(),
    };
    TxnRecord {
        header,
        txn,
        digest: None,
    }
}

/// Returns the number of bytes that the process has written, if the system provides it.
fn written() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Returns the processor time of this thread, which on a busy machine is shorter than the elapsed
/// time.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let first = text.split_whitespace().next();
    Duration::from_nanos(first.and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

fn resident_mib() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| {
        line.trim()
            .trim_end_matches(" kB")
            .trim()
            .parse::<f64>()
            .ok()
    });
    kib.unwrap_or(0.0) / 1024.0
}
