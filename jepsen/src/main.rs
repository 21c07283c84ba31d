//! Runs ensembles of real servers under faults, and judges what their clients saw.
//!
//! Exit code: 0 valid, 1 invalid, 2 unknown, 3 nothing could be run or judged.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use jepsen::check::{Budget, check_file};
use jepsen::cluster::Security;
use jepsen::list;
use jepsen::matrix;
use jepsen::nemesis::{self, Kind};
use jepsen::report;
use jepsen::run::{
    EXIT_CANNOT_RUN, EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID, HISTORY, Options, Record, run,
};
use jepsen::run::{legs, porcupine};
use jepsen::switches;
use jepsen::verdict::{Validity, Verdict};
use jepsen::workload::{self, Workload};

/// Number of findings that are printed. The record contains all of them.
const FINDINGS_SHOWN: usize = 5;

#[derive(Debug, Parser)]
#[command(
    version,
    about = "Runs ensembles of real servers under faults and judges what their clients saw"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a workload under faults and check its history
    Run(RunArguments),
    /// Check a history again
    Check {
        /// File `history.jsonl` of a run
        history: PathBuf,
        /// Workload of the history. The default is the workload in `run.json` in the same directory
        #[arg(long)]
        workload: Option<String>,
        /// Also let porcupine judge the history. Only for registers; requires Go
        #[arg(long)]
        porcupine: bool,
        #[command(flatten)]
        budget: BudgetArguments,
    },
    /// Write the report of a run (one page of HTML) and its history in Jepsen's format
    Report {
        /// Directory of the run
        dir: PathBuf,
    },
    /// Run each workload under each fault, several runs at a time, and write a table of the
    /// results. Runs whose results exist are skipped
    Matrix(MatrixArguments),
    /// Run members that skip one of their duties, and check that a workload detects each skipped
    /// duty in time
    Switches {
        /// Names of the skipped duties. The default is all
        names: Vec<String>,
        /// Directory for the files
        #[arg(long, default_value = "target/jepsen/switches")]
        dir: PathBuf,
        /// List the duties, and run nothing
        #[arg(long)]
        list: bool,
    },
    /// Print a table of the legs in these directories
    Legs {
        /// Directories of runs with `--leg`
        dirs: Vec<PathBuf>,
    },
    /// List all workloads and faults
    List,
}

/// The pace of a client that is alone on its machine, in ms.
const PACE_MS: u64 = 5;
/// Enough for minutes of search.
const STEPS_MAX: u64 = 200_000_000;
/// Enough for a run of hours.
const MEMORY_MIB: u64 = 4096;

#[derive(Debug, Args)]
struct BudgetArguments {
    /// Maximum number of steps of the checker's search
    #[arg(long, default_value_t = STEPS_MAX)]
    steps: u64,
    /// Maximum memory for the events of a history. The search needs additional memory
    #[arg(long, value_name = "MEBIBYTES", default_value_t = MEMORY_MIB)]
    memory: u64,
}

impl BudgetArguments {
    fn budget(&self) -> Budget {
        Budget {
            steps: self.steps,
            bytes: self.memory.saturating_mul(1 << 20),
        }
    }
}

#[derive(Debug, Args)]
struct RunArguments {
    /// Requests that the clients send (`list` prints the workloads)
    #[arg(long)]
    workload: String,
    /// Faults, separated by commas, or `all`
    #[arg(long, value_delimiter = ',')]
    nemesis: Vec<String>,
    /// One letter for each member: z for Zoarium, j for Apache ZooKeeper 3.9.5. Capital letters
    /// after them are observers
    #[arg(long, default_value = "zzz")]
    members: String,
    /// Protection of all connections: tls, sasl, or both with a comma
    #[arg(long, value_delimiter = ',')]
    secure: Vec<String>,
    /// Time for which clients send requests, in seconds
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=7 * 86_400))]
    seconds: u64,
    /// Seed of an earlier run. The run makes the same choices, but not at exactly the same times
    #[arg(long)]
    seed: Option<u64>,
    /// Number of clients
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    clients: u64,
    /// Pause between two requests of a client, ms
    #[arg(long, default_value_t = PACE_MS, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    pace: u64,
    /// Duty that the Zoarium members skip. `switches --list` prints the duties
    #[arg(long)]
    switch: Option<String>,
    /// Directory for the files. It must be new or empty, except for a leg
    #[arg(long)]
    out: Option<PathBuf>,
    /// Make the run a leg of at most 150 minutes. If the directory contains earlier legs, the leg
    /// continues with their data directories and their history, on the same commit
    #[arg(long, requires = "out")]
    leg: bool,
    /// Line KEY=VALUE for the zoo.cfg of every member
    #[arg(long, value_parser = setting)]
    setting: Vec<(String, String)>,
    /// Make all disks report syncs that they did not execute. With power cuts, the check must find
    /// lost writes
    #[arg(long)]
    fake_syncs: bool,
    /// Also let porcupine judge the history. Only for registers; requires Go
    #[arg(long)]
    porcupine: bool,
    /// Write the steps of the members to model.trace, for the formal model. All members are voters
    /// of Zoarium, and the faults do not reconfigure
    #[arg(long, conflicts_with = "leg")]
    model_trace: bool,
    #[command(flatten)]
    budget: BudgetArguments,
}

#[derive(Debug, Args)]
struct MatrixArguments {
    /// Workloads, separated by commas. The default is all
    #[arg(long, value_delimiter = ',')]
    workload: Vec<String>,
    /// Faults, separated by commas. A plus joins faults of one run. The default is each fault
    /// alone, except for growth, and some combinations
    #[arg(long, value_delimiter = ',')]
    nemesis: Vec<String>,
    /// Lists of members, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "zzz,zzzzz")]
    members: Vec<String>,
    /// Time for which clients send requests in each run, in seconds
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Number of clients in each run
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1000))]
    clients: u64,
    /// Pause between two requests of a client, ms
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    pace: u64,
    /// Number of concurrent runs
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=64))]
    jobs: u64,
    /// Time in seconds after which no further run begins. The same command later executes the missing
    /// runs
    #[arg(long, value_name = "SECONDS")]
    for_seconds: Option<u64>,
    /// Directory of the runs and the table
    #[arg(long, default_value = "target/jepsen/matrix")]
    dir: PathBuf,
}

fn setting(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = pair.ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => {
            // Help and version are not errors.
            let code = if usage.use_stderr() {
                EXIT_CANNOT_RUN
            } else {
                EXIT_VALID
            };
            usage.print().ok();
            return exit(code);
        }
    };
    let done = match cli.command {
        Command::Run(arguments) => run_one(arguments),
        Command::Check {
            history,
            workload,
            porcupine,
            budget,
        } => check(&history, workload.as_deref(), porcupine, budget.budget()),
        Command::Report { dir } => report(&dir),
        Command::Matrix(arguments) => matrix(arguments),
        Command::Legs { dirs } => legs::table(&dirs).map(|table| {
            print!("{table}");
            EXIT_VALID
        }),
        Command::Switches { names, dir, list } => switches(&names, &dir, list),
        Command::List => {
            print!("{}", list::all());
            Ok(EXIT_VALID)
        }
    };
    exit(done.unwrap_or_else(|error| {
        eprintln!("jepsen: {error}");
        EXIT_CANNOT_RUN
    }))
}

fn exit(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

fn run_one(arguments: RunArguments) -> Result<i32, String> {
    if let Some(name) = &arguments.switch {
        switches::switch_off(name)?;
    }
    let workload = workload_by_name(&arguments.workload)?;
    let nemeses = kinds(&arguments.nemesis)?;
    let length = Duration::from_secs(arguments.seconds);
    if arguments.leg && length > legs::LENGTH_MAX {
        let most = legs::LENGTH_MAX.as_secs();
        return Err(format!("a leg has at most {most} seconds"));
    }
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
    let out = arguments.out.unwrap_or_else(|| {
        let name = format!("{}-{}-{seed}", workload.name(), arguments.members);
        Path::new("target/jepsen").join(name)
    });
    let options = Options {
        workload,
        nemeses,
        members: arguments.members,
        security: Security::of(&arguments.secure)?,
        length,
        seed,
        clients: arguments.clients,
        pace: Duration::from_millis(arguments.pace),
        switch: arguments.switch,
        settings: arguments.setting,
        fakes_syncs: arguments.fake_syncs,
        is_leg: arguments.leg,
        porcupine: arguments.porcupine,
        model_trace: arguments.model_trace,
        out,
        budget: arguments.budget.budget(),
    };
    println!("seed {seed}; files in {}", options.out.display());
    let record = run(&options).map_err(|error| error.to_string())?;
    show(&record);
    report(&options.out)?;
    Ok(code(record.validity))
}

fn matrix(arguments: MatrixArguments) -> Result<i32, String> {
    let mut workloads = Vec::new();
    for name in &arguments.workload {
        workloads.push(workload_by_name(name)?);
    }
    if workloads.is_empty() {
        workloads = workload::all().to_vec();
    }
    for together in &arguments.nemesis {
        kinds(&together.split('+').map(str::to_owned).collect::<Vec<_>>())?;
    }
    let nemeses = if arguments.nemesis.is_empty() {
        matrix::every_nemesis()
    } else {
        arguments.nemesis
    };
    let plan = matrix::Plan {
        workloads: workloads.iter().map(|one| one.name().to_owned()).collect(),
        nemeses,
        members: arguments.members,
        seconds: arguments.seconds,
        clients: arguments.clients,
        pace_ms: arguments.pace,
        jobs: arguments.jobs,
        begin_within: arguments.for_seconds.map(Duration::from_secs),
        dir: arguments.dir,
    };
    let results = matrix::run(&plan)?;
    println!("table: {}", plan.table_file().display());
    println!("{}", results.summary());
    let missing = results.missing(&plan);
    if missing > 0 {
        println!("missing runs: {missing}; repeat the command to execute them");
    }
    Ok(match code(results.validity()) {
        EXIT_VALID if missing > 0 => EXIT_UNKNOWN,
        code => code,
    })
}

fn switches(names: &[String], dir: &Path, only_list: bool) -> Result<i32, String> {
    if only_list {
        print!("{}", switches::listed());
        return Ok(EXIT_VALID);
    }
    let chosen = switches::chosen(names)?;
    let mut all_found = true;
    for switch in chosen {
        let found = switches::run(switch, dir)?;
        all_found &= found.is_some();
        println!("{}", switches::line(switch, found.as_ref()));
    }
    Ok(if all_found { EXIT_VALID } else { EXIT_INVALID })
}

fn workload_by_name(name: &str) -> Result<&'static dyn Workload, String> {
    let unknown = || format!("unknown workload {name:?}\n{}", list::all());
    workload::by_name(name).ok_or_else(unknown)
}

fn kinds(names: &[String]) -> Result<Vec<&'static Kind>, String> {
    if names == ["all"] {
        return Ok(nemesis::ALL.iter().collect());
    }
    let mut kinds: Vec<&'static Kind> = Vec::new();
    for name in names {
        let unknown = || format!("unknown nemesis {name:?}\n{}", list::all());
        let kind = nemesis::by_name(name).ok_or_else(unknown)?;
        if !kinds.iter().any(|other| other.name == kind.name) {
            kinds.push(kind);
        }
    }
    Ok(kinds)
}

fn check(
    history: &Path,
    workload: Option<&str>,
    asks_porcupine: bool,
    budget: Budget,
) -> Result<i32, String> {
    let name = match workload {
        Some(name) => name.to_owned(),
        None => {
            let dir = history.parent().unwrap_or(Path::new(""));
            let record = Record::load(dir);
            let record = record.map_err(|error| {
                format!(
                    "the workload is unknown: set --workload, or provide run.json next to {HISTORY}: {error}"
                )
            })?;
            record.workload
        }
    };
    let workload = workload_by_name(&name)?;
    let verdict = check_file(history, workload, budget);
    let mut verdict = verdict.map_err(|error| format!("{}: {error}", history.display()))?;
    if asks_porcupine {
        let line = porcupine::judge(history)?;
        println!("porcupine: {line}");
        porcupine::add(&line, &mut verdict);
    }
    show_verdict(&verdict);
    Ok(code(verdict.validity))
}

fn report(dir: &Path) -> Result<i32, String> {
    let failed = |error| format!("cannot write a report of {}: {error}", dir.display());
    let path = report::write(dir).map_err(failed)?;
    println!("report: {}", path.display());
    Ok(EXIT_VALID)
}

fn code(validity: Validity) -> i32 {
    match validity {
        Validity::Valid => EXIT_VALID,
        Validity::Invalid => EXIT_INVALID,
        Validity::Unknown => EXIT_UNKNOWN,
    }
}

fn show(record: &Record) {
    println!("events: {}", counts(&record.events));
    println!("faults: {}", counts(&record.faults));
    for note in &record.notes {
        println!("note: {note}");
    }
    if let Some(line) = &record.porcupine {
        println!("porcupine: {line}");
    }
    if let Some(verdict) = &record.verdict {
        show_verdict(verdict);
    }
    println!("repeat with: {}", record.command);
}

fn show_verdict(verdict: &Verdict) {
    for finding in verdict.findings.iter().take(FINDINGS_SHOWN) {
        println!("finding: {} (events {:?})", finding.what, finding.events);
    }
    println!("figures: {}", counts(&verdict.figures));
    println!("{:?}", verdict.validity);
}

fn counts(map: &std::collections::BTreeMap<String, u64>) -> String {
    let entries: Vec<_> = map
        .iter()
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    entries.join(", ")
}
