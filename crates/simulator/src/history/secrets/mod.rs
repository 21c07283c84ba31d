//! Test that no answer depends on data that its viewer may not read.
//!
//! Two histories have the same transactions, except for the names, contents, ACLs and sessions of
//! znodes that the viewer may not read. The viewer must receive equal answers with equal pages. If
//! hidden names sort differently, only the results of all pages together must be equal.
//!
//! The number of hidden results is equal in both histories, so this test does not notice that
//! answers contain this number. Viewers learn from it how many znodes they may not read. This is
//! known and documented. The existence of a known path is also public, because `exists` requires no
//! permission in Apache ZooKeeper. Viewers therefore use secret paths only as positions.

mod walks;
mod workload;

use std::path::Path;

use history::record::Operation;
use history::{
    Baseline, HistoryQuery, Index, IndexSettings, MaintenanceStep, Origin, Shape, SnapshotAt,
};
use proto::{Id, StatPersisted, Zxid};
use testkit::Random;

use crate::invariants::CheckResult;
use walks::{Limits, Question};
use workload::{Variant, Workload};

/// Numbers of compared answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ComparedAnswers {
    /// Number of answers.
    pub answers: usize,
    /// Number of pages.
    pub pages: usize,
    /// Number of results that were shown.
    pub shown: usize,
    /// Number of results that were hidden.
    pub hidden: u64,
}

impl std::ops::AddAssign for ComparedAnswers {
    fn add_assign(&mut self, other: Self) {
        self.answers += other.answers;
        self.pages += other.pages;
        self.shown += other.shown;
        self.hidden += other.hidden;
    }
}

/// A history of one variant.
struct Site {
    workload: Workload,
    index: Index,
}

/// Number of questions.
const QUESTIONS: usize = 40;

/// Compares the answers of histories in files below `dir` that differ only in their secrets.
///
/// # Errors
/// If two answers differ, or if an answer contains a secret.
pub fn compare_secrets(seed: u64, dir: &Path) -> Result<ComparedAnswers, String> {
    let mut compared = ComparedAnswers::default();
    let variants = [Variant::First, Variant::SameOrder, Variant::OtherOrder];
    let [first, same, other] = variants.map(|variant| Site::new(seed, variant, dir));
    let (first, same, other) = (first?, same?, other?);
    let mut random = Random::new(!seed);
    for _ in 0..QUESTIONS {
        let question = first.question(&mut random);
        let identities = identities(&mut random);
        let limits = Limits {
            results: random.pick(&[1, 2, 5, 1000]).unwrap_or(1),
            checks: random.pick(&[0, 1, 3, usize::MAX]).unwrap_or(0),
        };
        // The position of a viewer who guesses a name.
        let number = random.below(60);
        let guess = random.percent(15).then(|| match &question {
            Question::Blame(_) => Variant::First.name(number),
            _ => format!("/{}", Variant::First.name(number)),
        });
        let has_path = matches!(
            question,
            Question::Tree(..) | Question::Diff(..) | Question::Blame(_)
        );
        let guess = guess.as_deref().filter(|_| has_path);
        let answer = |site: &Site| {
            let viewer = history::Viewer::Client {
                tree: site.workload.model.tree(),
                identities: &identities,
            };
            question.walk(&site.index.reader(), &viewer, limits, guess)
        };
        let wanted = answer(&first)?;
        let what = || format!("{question:?} with {limits:?} after {guess:?} to {identities:?}");
        must_equal(&answer(&same)?.pages, &wanted.pages, what)?;
        let found = answer(&other)?;
        must_equal(&found.results, &wanted.results, what)?;
        must_equal(&[found.hidden], &[wanted.hidden], what)?;
        compared.answers += 1;
        compared.pages += wanted.pages.len();
        compared.shown += wanted.results.len();
        compared.hidden += wanted.hidden;
    }
    Ok(compared)
}

fn must_equal<T: PartialEq + std::fmt::Debug>(
    found: &[T],
    wanted: &[T],
    what: impl Fn() -> String,
) -> CheckResult {
    if found == wanted {
        return Ok(());
    }
    let pairs = found.iter().zip(wanted);
    let same = pairs.take_while(|(found, wanted)| found == wanted).count();
    Err(format!(
        "{} depends on secrets: {:?} instead of {:?}",
        what(),
        found.get(same),
        wanted.get(same)
    ))
}

fn identities(random: &mut Random) -> Vec<Id> {
    let names: &[&str] = random
        .pick(&[&[][..], &["ann:hash"][..], &["bob:hash"][..]])
        .unwrap_or_default();
    let ids = names.iter().map(|name| Id {
        scheme: "digest".into(),
        id: (*name).into(),
    });
    ids.collect()
}

impl Site {
    /// Records the transactions of a variant. A part of them is missing.
    fn new(seed: u64, variant: Variant, dir: &Path) -> Result<Self, String> {
        let text = |error: history::HistoryError| error.to_string();
        let mut random = Random::new(seed.rotate_left(7));
        let workload = Workload::of(seed, variant, 160);
        let mut settings = IndexSettings::new(&dir.join(format!("{variant:?}")));
        settings.shape = Shape {
            block_changes: random.pick(&[1, 3, 8]).unwrap_or(3),
            run_blocks: random.pick(&[1, 3]).unwrap_or(3),
            runs_merged: 2,
            ..Shape::default()
        };
        let records = &workload.records;
        let (zero, covers) = (Zxid(0), None);
        let baseline = baseline(&settings, &workload, zero).map_err(text)?;
        let at = SnapshotAt { zxid: zero, covers };
        let mut index = Index::create(settings.clone(), baseline, at).map_err(text)?;
        let gap_from = random.below(records.len());
        let gap_until = gap_from + random.below(20);
        for (number, record) in records.iter().enumerate() {
            let is_missing = gap_from <= number && number < gap_until;
            if number == gap_until && gap_from < gap_until && number > 0 {
                // The snapshot may contain parts of later transactions.
                let zxid = records[number - 1].header.zxid;
                let covers = records.get(number + random.below(8));
                let covers = covers.map(|record| record.header.zxid);
                let baseline = self::baseline(&settings, &workload, zxid).map_err(text)?;
                let at = SnapshotAt { zxid, covers };
                index.begin_era(baseline, at).map_err(text)?;
            }
            if !is_missing {
                index.append(record, &Origin::default()).map_err(text)?;
            }
            if random.percent(20) {
                let _idle: MaintenanceStep = index.step(0).map_err(text)?;
            }
        }
        index.publish().map_err(text)?;
        Ok(Self { workload, index })
    }

    fn question(&self, random: &mut Random) -> Question {
        let records = &self.workload.records;
        let zxid = |random: &mut Random| {
            let record = records.get(random.below(records.len()));
            record.map_or(Zxid(0), |record| record.header.zxid)
        };
        let path = match random.below(4) {
            0 | 1 => "/".to_owned(),
            2 => format!("/pub-{}", random.below(12)),
            _ => {
                let paths = self.workload.model.paths();
                let paths: Vec<&str> = paths.filter(|path| !is_secret(path)).collect();
                paths
                    .get(random.below(paths.len()))
                    .map_or("/", |path| path)
                    .to_owned()
            }
        };
        let (from, to) = (zxid(random), zxid(random));
        match random.below(7) {
            0 | 1 => {
                let mut query = HistoryQuery::of(&path);
                query.recursive = random.percent(70);
                query.newest_first = random.percent(50);
                query.with_states = random.percent(50);
                if random.percent(30) {
                    query.operations = vec![Operation::Create, Operation::SetAcl];
                }
                Question::Changes(query)
            }
            2 => {
                let mut query = HistoryQuery::of(&path);
                (query.recursive, query.with_states) = (true, random.percent(50));
                if random.percent(50) {
                    query.operations = vec![Operation::SetData];
                }
                Question::Feed(query)
            }
            3 => Question::Tree(path, from),
            4 => Question::Diff(path, from, to),
            5 => Question::Blame(path),
            _ => Question::Znode(path, from),
        }
    }
}

fn is_secret(path: &str) -> bool {
    path.contains(workload::MARK)
}

/// Returns the znodes after a transaction.
fn baseline(
    settings: &IndexSettings,
    workload: &Workload,
    zxid: Zxid,
) -> Result<Baseline, history::HistoryError> {
    let mut baseline = Baseline::new(settings)?;
    baseline.znode("/", Some(b""), -1, &StatPersisted::default())?;
    for (number, path) in (1..).zip(workload.model.paths()) {
        let Some(znode) = workload.model.state(path, zxid) else {
            continue;
        };
        let list = znode.acl_list().unwrap_or_default();
        baseline.acl(number, &list.to_acl());
        let stat = StatPersisted {
            czxid: znode.czxid,
            mzxid: znode.mzxid,
            ctime: znode.ctime_ms,
            mtime: znode.mtime_ms,
            version: znode.version,
            aversion: znode.aversion,
            ..StatPersisted::default()
        };
        let data = znode.data.as_ref().and_then(|data| data.inline.as_deref());
        baseline.znode(path, data, number, &stat)?;
    }
    Ok(baseline)
}
