//! Many runs as separate processes, several at a time, and a table of their results.
//!
//! Each run has a directory, named after its workload, faults and members. A run whose directory
//! contains a verdict for this duration is not repeated, so an interrupted matrix continues.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ::tests::find_tool;
use indicatif::{ProgressBar, ProgressStyle};

use crate::nemesis;
use crate::run::Record;
use crate::run::legs::commit;
use crate::verdict::Validity;

/// Faults that are combined, in addition to each fault alone.
const TOGETHER: &[&str] = &[
    "kill+partition+pause",
    "power+clock+fsync",
    "rot+disk-full+kill",
];

/// The runs of a matrix.
#[derive(Debug)]
pub struct Plan {
    /// Names of workloads.
    pub workloads: Vec<String>,
    /// Names of faults, with a plus between those of one run.
    pub nemeses: Vec<String>,
    /// Lists of members.
    pub members: Vec<String>,
    /// Duration of the load in each run, in seconds.
    pub seconds: u64,
    /// Clients in each run.
    pub clients: u64,
    /// Time between two calls of a client, in ms.
    pub pace_ms: u64,
    /// Number of concurrent runs.
    pub jobs: u64,
    /// Time after which no run begins. The runs in progress are completed.
    pub begin_within: Option<Duration>,
    /// Directory of all output.
    pub dir: PathBuf,
}

/// Returns every fault alone that works with any members, and some combinations.
pub fn every_nemesis() -> Vec<String> {
    let alone = nemesis::ALL.iter().filter(|kind| !kind.grows());
    let alone = alone.map(|kind| kind.name);
    alone
        .chain(TOGETHER.iter().copied())
        .map(str::to_owned)
        .collect()
}

/// One run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// The list of members.
    pub members: String,
    /// Name of the workload.
    pub workload: String,
    /// Names of the faults.
    pub nemesis: String,
}

impl Cell {
    /// Returns the name of its directory.
    pub fn name(&self) -> String {
        format!("{}-{}-{}", self.workload, self.nemesis, self.members)
    }
}

impl Plan {
    /// Returns all runs, in the order of the table.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for members in &self.members {
            for workload in &self.workloads {
                for nemesis in &self.nemeses {
                    cells.push(Cell {
                        members: members.clone(),
                        workload: workload.clone(),
                        nemesis: nemesis.clone(),
                    });
                }
            }
        }
        cells
    }

    /// Returns whether another run may begin after this time.
    fn may_begin(&self, after: Duration) -> bool {
        self.begin_within.is_none_or(|limit| after < limit)
    }

    /// Returns the path of the table.
    pub fn table_file(&self) -> PathBuf {
        self.dir.join("table.md")
    }

    /// Returns the record of a run that reached a verdict.
    fn done(&self, cell: &Cell) -> Option<Record> {
        let record = Record::load(&self.dir.join(cell.name())).ok()?;
        let is_done = record.verdict.is_some()
            && record.error.is_none()
            && record.seconds == self.seconds
            && record.validity != Validity::Unknown;
        is_done.then_some(record)
    }
}

/// Results of the completed runs.
#[derive(Debug, Default)]
pub struct Results(BTreeMap<Cell, Result<Record, String>>);

impl Results {
    /// Returns the worst result.
    pub fn validity(&self) -> Validity {
        let each = self.0.values().map(|result| match result {
            Ok(record) => record.validity,
            Err(_) => Validity::Unknown,
        });
        each.max().unwrap_or(Validity::Unknown)
    }

    /// Returns the number of runs of each result, and the time under faults.
    pub fn summary(&self) -> String {
        let records = || self.0.values().filter_map(|result| result.as_ref().ok());
        let of = |validity| {
            records()
                .filter(|record| record.validity == validity)
                .count()
        };
        // A run whose faults were all left out was not under faults.
        let under_faults = records().filter(|record| !record.nemeses.is_empty());
        let seconds: u64 = under_faults.map(|record| record.seconds).sum();
        let faults: u64 = records().flat_map(|record| record.faults.values()).sum();
        let calls = records().map(|record| record.events.get("ok").copied().unwrap_or_default());
        format!(
            "{} runs: {} valid, {} invalid, {} unknown, {} without a verdict; {}:{:02} h of load \
             under faults, {faults} faults, {} acknowledged calls",
            self.0.len(),
            of(Validity::Valid),
            of(Validity::Invalid),
            of(Validity::Unknown),
            self.0.len() - records().count(),
            seconds / 3600,
            seconds % 3600 / 60,
            calls.sum::<u64>(),
        )
    }

    /// Returns the number of runs of the plan that are missing.
    pub fn missing(&self, plan: &Plan) -> usize {
        let cells = plan.cells().into_iter();
        cells.filter(|cell| !self.0.contains_key(cell)).count()
    }

    /// Returns one table for each list of members: a row for each workload, and a column for each
    /// fault.
    pub fn table(&self, plan: &Plan) -> String {
        let mut text = format!(
            "{} s each, {} clients with {} ms between two calls, commit {}.\n\nEach field contains the \
             verdict, and faults / acknowledged calls.\n\n{}.\n",
            plan.seconds,
            plan.clients,
            plan.pace_ms,
            commit(),
            self.summary(),
        );
        for members in &plan.members {
            write!(text, "\n`{members}`:\n\n| workload |").ok();
            for nemesis in &plan.nemeses {
                write!(text, " {nemesis} |").ok();
            }
            writeln!(text, "\n|---{}|", "|---".repeat(plan.nemeses.len())).ok();
            for workload in &plan.workloads {
                write!(text, "| `{workload}` |").ok();
                for nemesis in &plan.nemeses {
                    let cell = Cell {
                        members: members.clone(),
                        workload: workload.clone(),
                        nemesis: nemesis.clone(),
                    };
                    write!(text, " {} |", self.field(&cell)).ok();
                }
                text.push('\n');
            }
        }
        text
    }

    fn field(&self, cell: &Cell) -> String {
        match self.0.get(cell) {
            None => String::new(),
            Some(Err(_)) => "no verdict".to_owned(),
            Some(Ok(record)) => {
                let verdict = match record.validity {
                    Validity::Valid => "valid",
                    Validity::Unknown => "unknown",
                    Validity::Invalid => "**invalid**",
                };
                let faults: u64 = record.faults.values().sum();
                let calls = record.events.get("ok").copied().unwrap_or_default();
                let wanted = cell.nemesis.split('+').count();
                if record.nemeses.len() >= wanted {
                    format!("{verdict} {faults}/{calls}")
                } else if record.nemeses.is_empty() {
                    "left out".to_owned()
                } else {
                    format!("{verdict} {faults}/{calls}, some left out")
                }
            }
        }
    }
}

/// Executes all missing runs, or as many as begin in time. The table is written after each run.
///
/// # Errors
/// If the directory or the table cannot be written.
pub fn run(plan: &Plan) -> Result<Results, String> {
    let failed = |error| format!("{}: {error}", plan.dir.display());
    std::fs::create_dir_all(&plan.dir).map_err(failed)?;
    let mut results = Results::default();
    let mut waiting = Vec::new();
    for cell in plan.cells() {
        match plan.done(&cell) {
            Some(record) => drop(results.0.insert(cell, Ok(record))),
            None => waiting.push(cell),
        }
    }
    let progress = progress(plan.cells().len(), results.0.len());
    // So that the first run is taken first.
    waiting.reverse();
    let (waiting, results) = (Mutex::new(waiting), Mutex::new(results));
    let failure = Mutex::new(None);
    let begun = Instant::now();
    let next = || lock(&waiting).pop_if(|_| plan.may_begin(begun.elapsed()));
    std::thread::scope(|scope| {
        for _ in 0..plan.jobs {
            scope.spawn(|| {
                while let Some(cell) = next() {
                    progress.set_message(cell.name());
                    let result = run_cell(plan, &cell);
                    let mut results = lock(&results);
                    let text = shown(&result);
                    progress.suspend(|| println!("{}: {text}", cell.name()));
                    results.0.insert(cell, result);
                    let written = std::fs::write(plan.table_file(), results.table(plan));
                    if let Err(error) = written {
                        *lock(&failure) = Some(failed(error));
                        lock(&waiting).clear();
                    }
                    progress.inc(1);
                }
            });
        }
    });
    progress.finish_and_clear();
    if let Some(failure) = lock(&failure).take() {
        return Err(failure);
    }
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    std::fs::write(plan.table_file(), results.table(plan)).map_err(failed)?;
    Ok(results)
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn progress(all: usize, done: usize) -> ProgressBar {
    let bar = ProgressBar::new(all as u64);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs  {eta} left  {msg}");
    bar.set_position(done as u64);
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn shown(result: &Result<Record, String>) -> String {
    match result {
        Ok(record) => format!("{:?}", record.validity),
        Err(why) => format!("no verdict: {why}"),
    }
}

fn run_cell(plan: &Plan, cell: &Cell) -> Result<Record, String> {
    let dir = plan.dir.join(cell.name());
    // The output of an earlier attempt.
    std::fs::remove_dir_all(&dir).ok();
    let log = plan.dir.join(format!("{}.log", cell.name()));
    let mut command = this_program("run")?;
    command
        .args(["--workload", &cell.workload, "--members", &cell.members])
        .args(["--nemesis", &cell.nemesis.replace('+', ",")])
        .args(["--seconds", &plan.seconds.to_string()])
        .args(["--clients", &plan.clients.to_string()])
        .args(["--pace", &plan.pace_ms.to_string()])
        .arg("--out")
        .arg(&dir);
    to_its_end(&mut command, &log)?;
    let record = Record::load(&dir);
    let record = record.map_err(|error| format!("{}: {error}", log.display()))?;
    match &record.error {
        Some(error) => Err(error.clone()),
        None => Ok(record),
    }
}

/// Returns a command of this program with a subcommand. It ends with the thread that starts it, if
/// the machine has the tool for this.
pub(crate) fn this_program(subcommand: &str) -> Result<Command, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = match find_tool("setpriv") {
        Ok(tool) => {
            let mut command = Command::new(tool);
            command.args(["--pdeathsig", "TERM", "--"]).arg(program);
            command
        }
        Err(_) => Command::new(program),
    };
    command.arg(subcommand).stdin(Stdio::null());
    Ok(command)
}

/// Runs the command with its output in a file. Its result is in its record.
pub(crate) fn to_its_end(command: &mut Command, log: &Path) -> Result<(), String> {
    let failed = |error| format!("{}: {error}", log.display());
    let out = std::fs::File::create(log).map_err(failed)?;
    let errors = out.try_clone().map_err(failed)?;
    let status = command.stdout(out).stderr(errors).status();
    status.map(drop).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(dir: &Path) -> Plan {
        Plan {
            workloads: vec!["set".to_owned(), "bank".to_owned()],
            nemeses: vec!["kill".to_owned(), "kill+pause".to_owned()],
            members: vec!["zzz".to_owned()],
            seconds: 60,
            clients: 4,
            pace_ms: 50,
            jobs: 1,
            begin_within: None,
            dir: dir.to_path_buf(),
        }
    }

    fn record(validity: Validity, seconds: u64) -> Record {
        let text = format!(
            r#"{{"workload":"set","nemeses":["kill"],"left_out":{{}},"members":"zzz",
            "settings":[],"seconds":{seconds},"clients":4,"seed":1,"command":"","versions":[],
            "faults":{{"kill":7}},"events":{{"ok":100}},"notes":[],"error":null,
            "validity":{},"verdict":{{"validity":"valid","findings":[],"figures":{{}}}}}}"#,
            serde_json::to_string(&validity).expect("a text")
        );
        serde_json::from_str(&text).expect("a record")
    }

    fn cell(workload: &str, nemesis: &str) -> Cell {
        Cell {
            members: "zzz".to_owned(),
            workload: workload.to_owned(),
            nemesis: nemesis.to_owned(),
        }
    }

    #[test]
    fn a_verdict_for_the_same_time_is_not_asked_for_again() {
        let dir = tempfile::tempdir().expect("directory");
        let plan = plan(dir.path());
        let cell = cell("set", "kill");
        assert!(plan.done(&cell).is_none());
        let home = dir.path().join("set-kill-zzz");
        std::fs::create_dir(&home).expect("make");
        for (validity, seconds, is_done) in [
            (Validity::Valid, 60, true),
            (Validity::Invalid, 60, true),
            (Validity::Unknown, 60, false),
            (Validity::Valid, 10, false),
        ] {
            record(validity, seconds).save(&home).expect("save");
            assert_eq!(
                plan.done(&cell).is_some(),
                is_done,
                "{validity:?} {seconds}"
            );
        }
    }

    #[test]
    fn the_table_has_each_verdict_in_its_place_and_the_worst_counts() {
        let dir = tempfile::tempdir().expect("directory");
        let plan = plan(dir.path());
        let mut results = Results::default();
        results
            .0
            .insert(cell("set", "kill"), Ok(record(Validity::Valid, 60)));
        assert_eq!(results.validity(), Validity::Valid);
        results
            .0
            .insert(cell("set", "kill+pause"), Ok(record(Validity::Invalid, 60)));
        results
            .0
            .insert(cell("bank", "kill"), Err("ended".to_owned()));
        let table = results.table(&plan);
        for line in [
            "| workload | kill | kill+pause |",
            "| `set` | valid 7/100 | **invalid** 7/100, some left out |",
            "| `bank` | no verdict |  |",
        ] {
            assert!(table.lines().any(|found| found == line), "{line}: {table}");
        }
        assert_eq!(results.validity(), Validity::Invalid);
        let summary = results.summary();
        assert!(
            summary.contains("3 runs: 1 valid, 1 invalid, 0 unknown, 1 without"),
            "{summary}"
        );
        assert!(summary.contains("0:02 h"), "{summary}");
    }

    #[test]
    fn no_run_begins_when_the_time_is_over_and_the_others_count_as_missing() {
        let dir = tempfile::tempdir().expect("directory");
        let mut plan = plan(dir.path());
        assert!(plan.may_begin(Duration::from_secs(86_400)));
        plan.begin_within = Some(Duration::from_secs(200));
        assert!(plan.may_begin(Duration::from_secs(199)));
        assert!(!plan.may_begin(Duration::from_secs(200)));
        plan.begin_within = Some(Duration::ZERO);
        std::fs::create_dir(dir.path().join("bank-kill-zzz")).expect("make");
        let home = dir.path().join("bank-kill-zzz");
        record(Validity::Valid, 60).save(&home).expect("save");
        let results = run(&plan).expect("a table");
        assert_eq!((results.0.len(), results.missing(&plan)), (1, 3));
    }

    #[test]
    fn a_run_without_faults_is_no_time_under_faults() {
        let mut results = Results::default();
        let mut without = record(Validity::Valid, 7200);
        without.nemeses.clear();
        results.0.insert(cell("set", "links"), Ok(without));
        results
            .0
            .insert(cell("set", "kill"), Ok(record(Validity::Valid, 3600)));
        assert!(
            results.summary().contains("1:00 h"),
            "{}",
            results.summary()
        );
    }
}
