//! One run: an ensemble, clients, faults, and the verdict about what the clients saw.
//!
//! ```text
//! main thread     start members | faults by the schedule | repair, wait for service | check
//! runtime         prepare       | clients (Running)      | clients end (Healing)    | finish (Final)
//! ```
//!
//! Only the main thread operates on members, because they end when it ends.

mod cleanup;
mod faults;
pub mod legs;
mod options;
pub mod porcupine;
mod record;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::check::check_file;
use crate::cluster::{AFTER_GROWTH, Cluster, ClusterError, Machine, Need, Plan, SERVE_LIMIT};
use crate::history::{self, Event, Kind as EventKind, Process, Recorder};
use crate::nemesis::Kind;
use crate::verdict::{Finding, Validity, Verdict};
use crate::workload::{Context, Phase, Workload};
use cleanup::Remains;
use faults::Faults;
use legs::{Earlier, Leg};
pub use options::Options;
pub use record::{FILE, Record};

/// The history keeps its guarantees.
pub const EXIT_VALID: i32 = 0;
/// The history violates a guarantee.
pub const EXIT_INVALID: i32 = 1;
/// The result is unknown.
pub const EXIT_UNKNOWN: i32 = 2;
/// There was no run.
pub const EXIT_CANNOT_RUN: i32 = 3;

/// Name of the history in a run's directory.
pub const HISTORY: &str = "history.jsonl";
/// Time limit for each part before and after the load.
const PART_LIMIT: Duration = Duration::from_secs(60);

/// Reason why a run did not begin or did not complete.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// `--members` is not a list of members.
    #[error(
        "{0:?} is not a list of members: use 3 to 9 letters, z for Zoarium and j for Apache ZooKeeper 3.9.5, and then up to 4 capital letters for observers"
    )]
    Members(String),
    /// The directory is not empty.
    #[error("the directory {0} is not empty")]
    NotEmpty(PathBuf),
    /// The directory, or one for the members, cannot be created.
    #[error("cannot create or read a directory for the run: {0}")]
    Directory(io::Error),
    /// The history cannot be written or read.
    #[error("cannot write or read the history: {0}")]
    History(io::Error),
    /// The record cannot be written.
    #[error("cannot write {FILE}: {0}")]
    Record(io::Error),
    /// The runtime of the clients cannot be started.
    #[error("cannot start the clients' runtime: {0}")]
    Runtime(io::Error),
    /// The leg does not continue the legs in its directory.
    #[error("cannot continue: {0}; use another directory for a new series")]
    Leg(String),
    /// An operation on the ensemble failed.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The harness failed.
    #[error("the harness failed: {0}")]
    Harness(String),
    /// The preparation did not end, or a client failed.
    #[error("{0}")]
    Workload(String),
}

/// Executes the run and returns its record, which is also in the directory.
///
/// # Errors
/// If there was no run, or it was interrupted. If it had begun, the directory contains its partial
/// data.
pub fn run(options: &Options) -> Result<Record, RunError> {
    let mut plan = options.plan()?;
    if let Some(lack) = options.workload.lack() {
        return Err(ClusterError::Missing(lack).into());
    }
    let earlier = if options.is_leg {
        // Members run in other directories.
        let dir = std::path::absolute(legs::members(&options.out));
        plan.kept_in = Some(dir.map_err(RunError::Directory)?);
        Earlier::restore(options)?
    } else {
        make_empty(&options.out)?;
        Earlier::default()
    };
    plan.network = earlier.legs.last().and_then(|leg| leg.network);
    let prefix = format!("jepsen-{}-", std::process::id());
    let scratch = tempfile::Builder::new().prefix(&prefix).tempdir();
    let scratch = scratch.map_err(RunError::Directory)?;
    // Members create their directories in this one, so that its removal is sufficient.
    tempfile::env::override_temp_dir(scratch.path()).ok();
    let recorder = earlier.recorder(&options.out).map_err(RunError::History)?;
    let mut record = Record::new(options);
    record.settings.clone_from(&plan.settings);
    record.legs = options.is_leg.then(|| earlier.legs.clone());
    let remains = Remains::new(options, &scratch, recorder.clone(), record);
    remains.save()?;
    let runtime = Runtime::new().map_err(RunError::Runtime)?;
    remains.end_on_signals(&runtime);
    let mut running = Running {
        options,
        runtime,
        recorder,
        remains: remains.clone(),
        progress: progress(options),
        earlier,
        network: None,
    };
    let outcome = remains.guard(|| running.run(plan));
    running.progress.finish_and_clear();
    if let Err(error) = &outcome {
        remains.record().error = Some(error.to_string());
    }
    remains.save()?;
    outcome?;
    let record = remains.record().clone();
    if let Some(legs) = &record.legs {
        legs::remove_older(&options.out, legs.len());
    }
    Ok(record)
}

fn make_empty(dir: &Path) -> Result<(), RunError> {
    std::fs::create_dir_all(dir).map_err(RunError::Directory)?;
    let mut entries = std::fs::read_dir(dir).map_err(RunError::Directory)?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(RunError::NotEmpty(dir.to_path_buf())),
    }
}

fn progress(options: &Options) -> ProgressBar {
    let bar = ProgressBar::new(options.length.as_secs());
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} s  {msg}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

struct Running<'a> {
    options: &'a Options,
    runtime: Runtime,
    recorder: Recorder,
    remains: Remains,
    progress: ProgressBar,
    earlier: Earlier,
    /// Number of the members' network.
    network: Option<u8>,
}

impl Running<'_> {
    fn run(&mut self, mut plan: Plan) -> Result<(), RunError> {
        let (machine, kinds) = self.look_at_machine(&mut plan);
        self.progress.set_message("starting members");
        let mut cluster = Cluster::start(&plan, machine, self.remains.registered())?;
        self.network = cluster.ensemble().network_number();
        self.remains.record().versions = cluster.versions();
        let (phase, phases) = watch::channel(Phase::Running);
        let context = self.context(&cluster, phases)?;
        self.part("preparation", |workload| {
            workload.prepare(context(self.options.clients))
        })?;
        let mut clients = JoinSet::new();
        for client in 0..self.options.clients {
            let work = self.options.workload.run(context(client));
            clients.spawn_on(work, self.runtime.handle());
        }
        let first = self.earlier.events();
        let mut faults = Faults::new(kinds, self.options.seed, self.recorder.clone(), first);
        faults.run(&mut cluster, self.options, &self.progress);
        phase.send_replace(Phase::Healing);
        self.progress.set_message("members recover");
        let healed = faults.heal(&mut cluster, SERVE_LIMIT);
        self.note(&faults);
        self.end_clients(clients)?;
        if healed.is_ok() {
            phase.send_replace(Phase::Final);
            let last = context(self.options.clients + 1);
            self.part("final reads", |workload| workload.finish(last))?;
        }
        self.remains.save_logs();
        drop(cluster);
        self.judge(healed.err())?;
        if self.options.is_leg {
            self.complete_leg()?;
        }
        Ok(())
    }

    /// Saves the members' directories, and adds the leg to the record.
    fn complete_leg(&self) -> Result<(), RunError> {
        let end = self.recorder.end().map_err(RunError::History)?;
        legs::save(&self.options.out, self.earlier.legs.len() + 1).map_err(RunError::Directory)?;
        let mut record = self.remains.record();
        let acknowledged = record.events.get("ok").copied().unwrap_or_default();
        let leg = Leg {
            commit: legs::commit(),
            seed: record.seed,
            nemeses: record.nemeses.clone(),
            seconds: record.seconds,
            faults: record.faults.clone(),
            acknowledged: acknowledged - self.earlier.acknowledged(),
            validity: record.validity,
            porcupine: record.porcupine.clone(),
            network: self.network,
            end,
        };
        record.legs.get_or_insert_default().push(leg);
        Ok(())
    }

    /// Returns the faults that can be made. The others are reported and left out.
    fn look_at_machine(&self, plan: &mut Plan) -> (Machine, Vec<&'static Kind>) {
        let nemeses = &self.options.nemeses;
        let needs: Vec<Need> = nemeses
            .iter()
            .flat_map(|kind| kind.needs)
            .copied()
            .collect();
        let machine = Machine::look(&needs);
        let mut left_out = Vec::new();
        let mut kinds = Vec::new();
        let grows = nemeses.iter().any(|kind| kind.grows());
        for &kind in nemeses {
            match kind
                .lack(&machine)
                .or_else(|| lack_of_members(kind, plan, grows))
            {
                Some(lack) => left_out.push((kind.name.to_owned(), lack)),
                None => kinds.push(kind),
            }
        }
        let wanted = [
            (Need::Network, "a network for each member"),
            (
                Need::DeathSignal,
                "the end of members when this program is killed",
            ),
        ];
        for (need, what) in wanted {
            left_out.extend(machine.lack(need).map(|lack| (what.to_owned(), lack)));
        }
        for (what, lack) in &left_out {
            self.progress
                .suspend(|| eprintln!("left out: {what}: {lack}"));
        }
        let notes = |kind: &&Kind| kind.needs.contains(&Need::UnsyncedNotes);
        plan.notes_unsynced = kinds.iter().any(notes);
        plan.grows = kinds.iter().any(|kind| kind.grows());
        let mut record = self.remains.record();
        record.left_out = left_out.into_iter().collect();
        record.nemeses = kinds.iter().map(|kind| kind.name.to_owned()).collect();
        record.settings.clone_from(&plan.settings);
        (machine, kinds)
    }

    /// Returns the context of the client with this number. There are two more numbers than clients:
    /// one prepares, and one reads at the end.
    fn context(
        &self,
        cluster: &Cluster,
        phase: watch::Receiver<Phase>,
    ) -> Result<impl Fn(u64) -> Context + use<>, ClusterError> {
        let members: Arc<[String]> = cluster.addresses().into();
        let admin: Arc<[String]> = if self.options.workload.asks_admin() {
            cluster.admin_addresses()?.into()
        } else {
            Arc::default()
        };
        let access = cluster.access();
        let (recorder, seed) = (self.recorder.clone(), self.options.seed);
        let (processes, pace) = (self.options.clients + 2, self.options.pace);
        let lowest = self.earlier.first_process(processes);
        Ok(move |client| Context {
            process: lowest + client,
            lowest,
            processes,
            members: Arc::clone(&members),
            admin: Arc::clone(&admin),
            access: access.clone(),
            pace,
            recorder: recorder.clone(),
            // Any two clients, and any two runs, make different choices.
            seed: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ client,
            phase: phase.clone(),
        })
    }

    fn part<'w>(
        &self,
        what: &str,
        work: impl FnOnce(&'static dyn Workload) -> crate::workload::Work<'w>,
    ) -> Result<(), RunError> {
        self.progress.set_message(what.to_owned());
        let work = work(self.options.workload);
        let done = self
            .runtime
            .block_on(async { timeout(PART_LIMIT, work).await });
        done.map_err(|_| {
            RunError::Workload(format!("the {what} did not end within {PART_LIMIT:?}"))
        })
    }

    /// Waits for the open calls of clients.
    fn end_clients(&self, mut clients: JoinSet<()>) -> Result<(), RunError> {
        let ended = async {
            while let Some(ended) = clients.join_next().await {
                ended.map_err(|error| RunError::Workload(format!("a client failed: {error}")))?;
            }
            Ok(())
        };
        let ended = self
            .runtime
            .block_on(async { timeout(PART_LIMIT, ended).await });
        ended.unwrap_or_else(|_| {
            let text = format!("clients still run {PART_LIMIT:?} after the end of the load");
            Err(RunError::Workload(text))
        })
    }

    fn note(&self, faults: &Faults) {
        let mut record = self.remains.record();
        record.faults.clone_from(&faults.counts);
        record.notes.extend(faults.notes.iter().cloned());
    }

    /// Lets porcupine judge the history, and adds its verdict.
    fn ask_porcupine(&self, history: &Path, verdict: &mut Verdict) -> Option<String> {
        let judged = if self.options.workload.has_registers() {
            porcupine::judge(history)
        } else {
            Err("it only judges registers".to_owned())
        };
        match judged {
            Ok(line) => {
                porcupine::add(&line, verdict);
                Some(line)
            }
            Err(lack) => {
                let mut record = self.remains.record();
                record.left_out.insert("porcupine".to_owned(), lack);
                None
            }
        }
    }

    fn judge(&self, not_serving: Option<ClusterError>) -> Result<(), RunError> {
        self.progress.set_message("check");
        self.recorder.flush().map_err(RunError::History)?;
        let path = self.options.out.join(HISTORY);
        let counts = count(&path).map_err(RunError::History)?;
        let verdict = check_file(&path, self.options.workload, self.options.budget);
        let mut verdict = verdict.map_err(RunError::History)?;
        if let Some(error) = not_serving {
            verdict.validity = Validity::Invalid;
            verdict.findings.push(Finding {
                what: format!("the ensemble does not recover after the faults: {error}"),
                events: Vec::new(),
            });
        }
        let opinion = if self.options.porcupine {
            self.ask_porcupine(&path, &mut verdict)
        } else {
            None
        };
        let mut record = self.remains.record();
        record.porcupine = opinion;
        record.events = counts;
        record.validity = verdict.validity;
        if verdict.validity == Validity::Valid && !record.events.contains_key("ok") {
            record.validity = Validity::Unknown;
            record
                .notes
                .push("no call succeeded, so the run proves nothing".to_owned());
        }
        record.verdict = Some(verdict);
        Ok(())
    }
}

/// Returns why a fault does not fit these members, or `None` if it fits.
fn lack_of_members(kind: &Kind, plan: &Plan, grows: bool) -> Option<String> {
    if kind.grows() {
        let fits = plan.members.len() == AFTER_GROWTH;
        return (!fits).then(|| format!("it requires {AFTER_GROWTH} members"));
    }
    let is_beside = grows && plan.members.len() == AFTER_GROWTH;
    is_beside.then(|| "it may end the leader with the old list during growth".to_owned())
}

fn name(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Invoke => "invoke",
        EventKind::Ok => "ok",
        EventKind::Fail => "fail",
        EventKind::Info => "info",
    }
}

/// Returns the number of client events by their type.
fn count(history: &Path) -> io::Result<BTreeMap<String, u64>> {
    let mut counts = BTreeMap::new();
    for event in history::read(history)? {
        let event = event?;
        if matches!(event.process, Process::Client(_)) {
            *counts.entry(name(event.kind).to_owned()).or_default() += 1;
        }
    }
    Ok(counts)
}

/// Reads all events of a file.
///
/// # Errors
/// If it cannot be read, or is not a history.
pub fn read_history(path: &Path) -> Result<Vec<Event>, RunError> {
    let events = history::read(path).map_err(RunError::History)?;
    events.collect::<Result<_, _>>().map_err(RunError::History)
}
