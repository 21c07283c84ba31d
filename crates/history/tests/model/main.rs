//! Random histories compared with a plain list: every query returns equal results, also after
//! kills, merges, retention, and rebuilding.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod compare;
mod generate;
mod plain;
mod vault;
mod viewers;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use compare::compare;
use generate::{Generator, Made};
use plain::{Plain, start_zxid};
use proto::{StatPersisted, Zxid};
use zoarium_history::record::Operation;
use zoarium_history::{
    Baseline, HistoryError, HistoryQuery, Index, IndexSettings, MaintenanceStep, PathFilter,
    Position, Shape, SnapshotAt,
};

fn settings(dir: &Path) -> IndexSettings {
    IndexSettings {
        shape: Shape {
            block_changes: 8,
            run_blocks: 4,
            runs_merged: 3,
            segment_bytes: 16 << 10,
        },
        ..IndexSettings::new(dir)
    }
}

/// Creates a history that begins before the first transaction.
fn create(settings: IndexSettings, made: &[Made]) -> Index {
    let mut baseline = Baseline::new(&settings).unwrap();
    baseline
        .znode("", Some(b""), -1, &StatPersisted::default())
        .unwrap();
    let snapshot = SnapshotAt {
        zxid: Zxid(start_zxid(made)),
        covers: None,
    };
    Index::create(settings, baseline, snapshot).unwrap()
}

fn append_rest(index: &mut Index, made: &[Made]) {
    let head = index.head();
    for (record, origin) in made.iter().filter(|(record, _)| record.header.zxid > head) {
        index.append(record, origin).unwrap();
    }
    index.publish().unwrap();
}

fn step_to_the_end(index: &mut Index, now_ms: i64) -> usize {
    let mut steps = 0;
    while index.step(now_ms).unwrap() == MaintenanceStep::Worked {
        steps += 1;
    }
    steps
}

#[test]
fn every_query_answers_like_the_plain_list() {
    {
        let seed = 1;
        let dir = tempfile::tempdir().unwrap();
        let made = Generator::make(seed, 1500);
        let plain = Plain::of(&made);
        let mut index = create(settings(dir.path()), &made);
        append_rest(&mut index, &made);
        compare(&index.reader(), &plain, seed, 12);
        // After merging.
        assert!(step_to_the_end(&mut index, 0) > 3);
        compare(&index.reader(), &plain, seed + 100, 12);
        // After reopening.
        index.checkpoint().unwrap();
        drop(index);
        let mut index = Index::open(settings(dir.path())).unwrap();
        compare(&index.reader(), &plain, seed + 200, 12);
        // Appending continues as if the history had not been reopened.
        let longer = Generator::make(seed, 2000);
        let head = index.head();
        assert_eq!(head.0, plain.head());
        append_rest(&mut index, &longer);
        compare(&index.reader(), &Plain::of(&longer), seed + 300, 12);
    }
}

/// Adjacent moments, in one block or in two.
#[test]
fn successive_trees_differ_by_one_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let made = Generator::make(51, 150);
    let plain = Plain::of(&made);
    let mut index = create(settings(dir.path()), &made);
    let owner = zoarium_history::Viewer::FileOwner {
        shows_secrets: false,
    };
    for count in [75, 150] {
        append_rest(&mut index, &made[..count]);
        let trees = &plain.trees[..=count];
        for pair in trees.windows(2) {
            let ((before, older), (after, newer)) = (&pair[0], &pair[1]);
            let moments = [before, after].map(|zxid| zoarium_history::Moment::Zxid(Zxid(*zxid)));
            let paths = older.keys().chain(newer.keys());
            let mut wanted: Vec<&String> = paths
                .filter(|path| older.get(*path) != newer.get(*path))
                .collect();
            wanted.sort_unstable();
            wanted.dedup();
            for (from, to) in [(moments[0], moments[1]), (moments[1], moments[0])] {
                let found = index
                    .reader()
                    .diff("/", from, to, None, 1000, &owner)
                    .unwrap();
                let found: Vec<&String> = found.results.iter().map(|one| &one.path).collect();
                assert_eq!(found, wanted, "{from:?} {to:?}");
            }
        }
    }
}

#[test]
fn retention_drops_only_old_changes() {
    {
        let seed = 11;
        let dir = tempfile::tempdir().unwrap();
        let made = Generator::make(seed, 1600);
        let plain = Plain::of(&made);
        let whole = tempfile::tempdir().unwrap();
        let mut index = create(settings(whole.path()), &made);
        append_rest(&mut index, &made);
        step_to_the_end(&mut index, 0);
        index.checkpoint().unwrap();
        let bytes_max = index.bytes_on_disk() * 3 / 4;
        let settings = IndexSettings {
            bytes_max,
            ..settings(dir.path())
        };
        let mut index = create(settings.clone(), &made);
        for end in (200..=made.len()).step_by(200) {
            append_rest(&mut index, &made[..end]);
            step_to_the_end(&mut index, 0);
        }
        index.checkpoint().unwrap();
        let extent = index.reader().extent();
        assert!(
            extent.known_from.0 > start_zxid(&made),
            "nothing was dropped"
        );
        assert!(
            index.bytes_on_disk() <= bytes_max * 11 / 10,
            "{}",
            index.bytes_on_disk()
        );
        compare(&index.reader(), &plain, seed, 12);
        drop(index);
        let mut index = Index::open(settings).unwrap();
        compare(&index.reader(), &plain, seed + 100, 12);
        // By age: everything except the newest file.
        index.checkpoint().unwrap();
        drop(index);
        let settings = IndexSettings {
            age_ms_max: 1000,
            ..self::settings(dir.path())
        };
        let mut index = Index::open(settings).unwrap();
        let last_ms = plain.times.last().unwrap().1;
        step_to_the_end(&mut index, last_ms + 100_000);
        assert!(index.reader().extent().known_from > extent.known_from);
        compare(&index.reader(), &plain, seed + 200, 12);
    }
}

/// Returns the baseline of a snapshot that was taken at a moment.
fn snapshot_of(dir: &Path, zxid: i64, tree: &plain::Tree) -> (Baseline, SnapshotAt) {
    let mut baseline = Baseline::new(&settings(dir)).unwrap();
    let mut acls: Vec<Vec<proto::Acl>> = Vec::new();
    for (path, znode) in tree {
        acls.push(znode.acl.clone());
        let id = i64::try_from(acls.len()).unwrap();
        baseline.acl(id, &znode.acl);
        let owner = match znode.kind {
            zoarium_history::record::Kind::Container => i64::MIN,
            zoarium_history::record::Kind::Ttl => (0xff_i64 << 56) | 5000,
            _ => znode.owner,
        };
        let stat = StatPersisted {
            czxid: znode.czxid,
            mzxid: znode.mzxid,
            ctime: znode.ctime_ms,
            mtime: znode.mtime_ms,
            version: znode.version,
            aversion: znode.aversion,
            ephemeral_owner: owner,
            ..StatPersisted::default()
        };
        baseline
            .znode(path, znode.data.as_deref(), id, &stat)
            .unwrap();
    }
    let at = SnapshotAt {
        zxid: Zxid(zxid),
        covers: None,
    };
    (baseline, at)
}

#[test]
fn a_gap_is_reported_and_both_sides_are_correct() {
    let dir = tempfile::tempdir().unwrap();
    let mut made = Generator::make(21, 1200);
    for ((record, _), number) in made.iter_mut().zip(0..) {
        record.header.time_ms = 1_700_000_000_000 + 10 * number;
    }
    let plain = Plain::of(&made);
    let (before, behind) = (&made[..400], &made[700..]);
    let mut index = create(settings(dir.path()), &made);
    append_rest(&mut index, before);
    let gap_after = index.head();
    let (snapshot_zxid, tree) = &plain.trees[700];
    let (baseline, at) = snapshot_of(dir.path(), *snapshot_zxid, tree);
    index.begin_era(baseline, at).unwrap();
    append_rest(&mut index, behind);
    for _ in 0..2 {
        let reader = index.reader();
        let extent = reader.extent();
        assert_eq!(extent.holes.len(), 1);
        assert_eq!(extent.holes[0].after, gap_after);
        let owner = zoarium_history::Viewer::FileOwner {
            shows_secrets: true,
        };
        let at = |zxid: i64| {
            reader.tree_at(
                "/",
                zoarium_history::Moment::Zxid(Zxid(zxid)),
                None,
                1000,
                &owner,
            )
        };
        assert!(matches!(
            at(plain.trees[600].0),
            Err(HistoryError::Hole { .. })
        ));
        for known in [200, 400, 700, 900, 1200] {
            let (zxid, tree) = &plain.trees[known];
            let found: Vec<String> = at(*zxid)
                .unwrap()
                .results
                .into_iter()
                .map(|e| e.path)
                .collect();
            let mut wanted: Vec<String> = tree.keys().cloned().collect();
            wanted.sort_unstable();
            assert_eq!(found, wanted, "{known}");
        }
        times_in_the_gap_are_not_known(&reader, &plain);
        nobody_is_blamed_for_what_was_done_in_the_gap(&reader, &plain, gap_after);
        index.checkpoint().unwrap();
        step_to_the_end(&mut index, 0);
        drop(index);
        index = Index::open(settings(dir.path())).unwrap();
    }
    feed_stops_at_the_hole(&index, &plain, gap_after);
    // The changes before the gap are dropped, and the gap with them.
    drop(index);
    let settings = IndexSettings {
        age_ms_max: 1,
        ..settings(dir.path())
    };
    let mut index = Index::open(settings).unwrap();
    step_to_the_end(&mut index, i64::MAX);
    let extent = index.reader().extent();
    assert_eq!(extent.holes, []);
    assert!(extent.recorded_after.0 >= *snapshot_zxid);
    compare(&index.reader(), &plain, 21, 20);
}

/// Checks that a moment in the gap has no answer, up to the moment that the znodes after the gap
/// show.
fn times_in_the_gap_are_not_known(reader: &zoarium_history::Reader, plain: &Plain) {
    let hole = reader.extent().holes[0];
    let at = |ms: i64| reader.zxid_at(zoarium_history::Moment::Time(ms));
    let newest = plain.tree(hole.known_from.0).values();
    let newest_ms = newest.map(|znode| znode.mtime_ms).max().unwrap();
    let times = plain.times.iter();
    let within = times.filter(|(zxid, ms)| *zxid > hole.after.0 && *ms < newest_ms);
    let mut refused = 0;
    for (_, ms) in within {
        assert!(matches!(at(*ms), Err(HistoryError::Hole { .. })), "{ms}");
        refused += 1;
    }
    assert!(refused > 200, "only {refused}");
    assert_eq!(at(newest_ms).unwrap(), hole.known_from);
}

/// Checks that the origin of a change before the gap is shown only if the znode still has the state
/// that it left.
fn nobody_is_blamed_for_what_was_done_in_the_gap(
    reader: &zoarium_history::Reader,
    plain: &Plain,
    gap_after: Zxid,
) {
    let owner = zoarium_history::Viewer::FileOwner {
        shows_secrets: true,
    };
    let zxid_of = |found: &Option<zoarium_history::record::ExportedChange>| {
        found
            .as_ref()
            .map(|found| found.change.as_ref().unwrap().zxid)
    };
    let (mut known, mut unknown) = (0, 0);
    let now = plain.tree(plain.head());
    for path in now.keys() {
        let blame = reader.blame(path, None, 1000, &owner).unwrap();
        let children = blame.children.iter().map(|child| {
            let path = format!("{}/{}", path.trim_end_matches('/'), child.name);
            (path, zxid_of(&child.last), Operation::ALL.to_vec())
        });
        let data = vec![Operation::Create, Operation::SetData];
        let acl = vec![Operation::Create, Operation::SetAcl];
        let own = [
            (
                path.clone(),
                zxid_of(&blame.created),
                vec![Operation::Create],
            ),
            (path.clone(), zxid_of(&blame.data), data),
            (path.clone(), zxid_of(&blame.acl), acl),
        ];
        for (path, found, operations) in own.into_iter().chain(children) {
            let mut of_path = plain.changes.iter().rev();
            let last = of_path
                .find(|change| change.path == path && operations.contains(&change.operation))
                .map(|change| change.zxid);
            match found {
                None => unknown += 1,
                Some(zxid) => {
                    assert_eq!(Some(zxid), last, "{path} {operations:?}");
                    known += i32::from(zxid <= gap_after.0);
                }
            }
        }
    }
    assert!(known > 5 && unknown > 5, "{known} known, {unknown} unknown");
}

/// Checks that a feed ends before unknown changes, returns the position at which it can continue,
/// and does so.
fn feed_stops_at_the_hole(index: &Index, plain: &Plain, gap_after: Zxid) {
    let reader = index.reader();
    let hole = reader.extent().holes[0];
    let owner = zoarium_history::Viewer::FileOwner {
        shows_secrets: false,
    };
    let mut query = HistoryQuery::of("/");
    query.recursive = true;
    let count_from = |mut after: Position| {
        let mut count = 0;
        loop {
            match reader.feed(&query, after, &owner) {
                Ok(page) => {
                    count += page.results.len();
                    let is_end = !page.has_more && page.position.zxid == Zxid(plain.head());
                    after = page.position;
                    if is_end {
                        return (count, None);
                    }
                }
                Err(HistoryError::Hole { from, to }) => return (count, Some((from, to))),
                Err(other) => panic!("{other}"),
            }
        }
    };
    let changes_in = |from: i64, to: i64| {
        let of = plain.changes.iter();
        of.filter(|change| change.zxid > from && change.zxid <= to)
            .count()
    };
    let start = reader.extent().recorded_after;
    let end = Some((gap_after, hole.recorded_after));
    let before = changes_in(start.0, gap_after.0);
    assert_eq!(count_from(Position::after(start)), (before, end));
    assert_eq!(count_from(Position::after(gap_after)), (0, end));
    let behind = changes_in(hole.recorded_after.0, i64::MAX);
    let found = count_from(Position::after(hole.recorded_after));
    assert_eq!(found, (behind, None));
}

/// Members that record different paths use equal positions for a change.
#[test]
fn positions_do_not_depend_on_what_is_recorded() {
    let made = Generator::make(41, 600);
    let positions = |filter: PathFilter| {
        let dir = tempfile::tempdir().unwrap();
        let settings = IndexSettings {
            filter,
            ..settings(dir.path())
        };
        let mut index = create(settings, &made);
        append_rest(&mut index, &made);
        let mut query = HistoryQuery::of("/");
        query.recursive = true;
        let mut found = std::collections::BTreeMap::new();
        loop {
            let owner = zoarium_history::Viewer::FileOwner {
                shows_secrets: false,
            };
            let page = index.reader().history(&query, &owner).unwrap();
            let changes = page.results.into_iter().filter_map(|result| result.change);
            found.extend(changes.map(|change| (change.position(), change.path)));
            match page.next {
                Some(next) => query.after = Some(next),
                None => return found,
            }
        }
    };
    let all = positions(PathFilter::default());
    let top = all.values().find(|path| path.len() > 1).unwrap().clone();
    let some = positions(PathFilter::new(Vec::new(), vec![top]).unwrap());
    assert!(!some.is_empty() && some.len() < all.len());
    for (position, path) in &some {
        assert_eq!(all.get(position), Some(path), "{position:?}");
    }
}

/// Name of the variable with the child's task.
const CHILD: &str = "HISTORY_MODEL_CHILD";

/// Not a test itself: the process that is killed.
#[test]
fn child() {
    let Ok(task) = std::env::var(CHILD) else {
        return;
    };
    let (seed, dir) = task.split_once(' ').unwrap();
    let seed: u64 = seed.parse().unwrap();
    let made = Generator::make(seed, COUNT);
    let settings = settings(Path::new(dir));
    let mut index = match Index::open(settings.clone()) {
        Err(HistoryError::Missing { .. }) => create(settings, &made),
        other => other.unwrap(),
    };
    let mut random = fastrand::Rng::new();
    let head = index.head();
    for (record, origin) in made.iter().filter(|(record, _)| record.header.zxid > head) {
        index.append(record, origin).unwrap();
        match random.u32(..30) {
            0 => index.checkpoint().unwrap(),
            1 => drop(index.step(0).unwrap()),
            _ => {}
        }
        println!("at {}", record.header.zxid);
    }
    index.checkpoint().unwrap();
    println!("end");
}

const COUNT: usize = 1500;

#[test]
fn random_kills_lose_no_durable_change() {
    let seed = 31;
    let dir = tempfile::tempdir().unwrap();
    let made = Generator::make(seed, COUNT);
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut kills, mut head) = (0, i64::MIN);
    loop {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(CHILD, format!("{seed} {}", dir.path().display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = random.usize(1..400);
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut lines = out
            .lines()
            .map(Result::unwrap)
            .filter(|line| line.starts_with("at ") || line == "end")
            .take(lines);
        let is_over = lines.any(|line| line == "end");
        child.kill().unwrap();
        child.wait().unwrap();
        if is_over {
            break;
        }
        kills += 1;
        let index = match Index::open(settings(dir.path())) {
            Err(HistoryError::Missing { .. }) => continue,
            other => other.unwrap(),
        };
        assert!(index.head().0 >= head, "it went back");
        head = index.head().0;
        let recorded: Vec<Made> = made
            .iter()
            .filter(|(r, _)| r.header.zxid.0 <= head)
            .cloned()
            .collect();
        if recorded
            .iter()
            .any(|(record, _)| matches!(record.txn, proto::txn::Txn::Create(_)))
        {
            compare(&index.reader(), &Plain::of(&recorded), kills, 4);
        }
    }
    assert!(kills > 2, "only {kills} kills");
    let index = Index::open(settings(dir.path())).unwrap();
    compare(&index.reader(), &Plain::of(&made), 31, 12);
}
