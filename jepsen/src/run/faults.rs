//! The faults of one run, in the order of its schedule.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fastrand::Rng;
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::Options;
use crate::cluster::{Cluster, ClusterError};
use crate::history::{Kind as EventKind, Name, Process, Recorder};
use crate::nemesis::{Facts, Kind, Nemesis};
use crate::schedule::{Step, plan};

/// Time between two checks of the clock and the members.
const LOOK: Duration = Duration::from_millis(50);
/// Time before a member that ended without a request is started again.
const STARTS_AFTER: Duration = Duration::from_secs(2);
/// Maximum number of notes about one run.
const NOTES_MAX: usize = 200;

/// All kinds of faults of this run.
pub(super) struct Faults {
    kinds: Vec<&'static Kind>,
    nemeses: Vec<Box<dyn Nemesis>>,
    /// For each kind, the number of the fault in progress.
    open: Vec<Option<u64>>,
    /// Members that ended without a request, and when.
    ended: Vec<(u64, Instant)>,
    seed: u64,
    /// Number that is added to the numbers of the schedule.
    first: u64,
    rng: Rng,
    recorder: Recorder,
    /// Number of faults of each kind.
    pub(super) counts: BTreeMap<String, u64>,
    /// Deviations from the plan.
    pub(super) notes: Vec<String>,
}

impl Faults {
    /// Prepares faults whose numbers begin with `first`.
    pub(super) fn new(
        kinds: Vec<&'static Kind>,
        seed: u64,
        recorder: Recorder,
        first: u64,
    ) -> Faults {
        Faults {
            nemeses: kinds.iter().map(|kind| kind.make()).collect(),
            open: vec![None; kinds.len()],
            kinds,
            ended: Vec::new(),
            seed,
            first,
            // This seed differs from that of the schedule, because a fault makes its choices when
            // it begins.
            rng: Rng::with_seed(!seed),
            recorder,
            counts: BTreeMap::new(),
            notes: Vec::new(),
        }
    }

    /// Makes the faults until the end of the load.
    pub(super) fn run(&mut self, cluster: &mut Cluster, options: &Options, progress: &ProgressBar) {
        let begun = Instant::now();
        let mut steps = plan(&self.kinds, options.length, self.seed)
            .into_iter()
            .peekable();
        while begun.elapsed() < options.length {
            progress.set_position(begun.elapsed().as_secs());
            self.look_for_ended(cluster);
            match steps.next_if(|step| step.at <= begun.elapsed()) {
                Some(step) => {
                    self.take(step, cluster);
                    progress.set_message(self.under_way());
                }
                None => std::thread::sleep(LOOK),
            }
        }
    }

    fn under_way(&self) -> String {
        let open = self.kinds.iter().zip(&self.open);
        let names: Vec<_> = open
            .filter(|(_, open)| open.is_some())
            .map(|(kind, _)| kind.name)
            .collect();
        let made: u64 = self.counts.values().sum();
        if names.is_empty() {
            format!("{made} faults")
        } else {
            format!("{made} faults, in progress: {}", names.join(", "))
        }
    }

    fn take(&mut self, step: Step, cluster: &mut Cluster) {
        if !step.is_begin {
            self.end(step.kind, cluster);
            return;
        }
        let name = self.kinds[step.kind].name;
        let fault = self.first + step.fault;
        // A fault that could not be reverted is still in progress.
        self.end(step.kind, cluster);
        if self.open[step.kind].is_some() {
            return;
        }
        match self.nemeses[step.kind].begin(cluster, &mut self.rng) {
            Ok(Some(facts)) => {
                self.open[step.kind] = Some(fault);
                *self.counts.entry(name.to_owned()).or_default() += 1;
                self.record(name, fault, "begin", facts, None);
            }
            Ok(None) => self.record(name, fault, "none", Facts::new(), None),
            Err(error) => {
                self.open[step.kind] = Some(fault);
                self.note(format!(
                    "fault {fault} ({name}) did not begin correctly: {error}"
                ));
                self.record(name, fault, "begin", Facts::new(), Some(error));
            }
        }
    }

    fn end(&mut self, kind: usize, cluster: &mut Cluster) {
        let Some(fault) = self.open[kind] else {
            return;
        };
        let name = self.kinds[kind].name;
        match self.nemeses[kind].end(cluster) {
            Ok(facts) => {
                self.open[kind] = None;
                self.record(name, fault, "end", facts, None);
            }
            Err(error) => self.note(format!(
                "fault {fault} ({name}) could not be reverted yet: {error}"
            )),
        }
    }

    /// Ends all faults and waits until all members serve.
    ///
    /// # Errors
    /// If they do not serve in time.
    pub(super) fn heal(
        &mut self,
        cluster: &mut Cluster,
        limit: Duration,
    ) -> Result<(), ClusterError> {
        let deadline = Instant::now() + limit;
        loop {
            // Ended members are started again, because the end of a fault may wait for them.
            for (id, status) in cluster.take_ended() {
                self.note(format!("member {id} ended by itself: {status}"));
            }
            cluster.repair();
            for kind in (0..self.kinds.len()).rev() {
                self.end(kind, cluster);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let is_open = self.open.iter().any(Option::is_some);
            if !is_open {
                match cluster.wait_until_all_serve(left) {
                    // It is started again.
                    Err(ClusterError::Ended { id, status, .. }) if !left.is_zero() => {
                        self.note(format!("member {id} ended by itself: {status}"));
                        std::thread::sleep(LOOK);
                    }
                    other => return other,
                }
            } else if left.is_zero() {
                let text = "a fault could not be reverted; see the notes".to_owned();
                return Err(ClusterError::Change(text));
            }
        }
    }

    /// A server may end when its disk fails. It is started again after a while.
    fn look_for_ended(&mut self, cluster: &mut Cluster) {
        for (id, status) in cluster.take_ended() {
            self.note(format!("member {id} ended by itself: {status}"));
            let value = json!({"event": "ended", "members": [id], "status": status});
            self.write("ended", value, None);
            self.ended.push((id, Instant::now()));
        }
        self.ended.retain(|&(id, when)| {
            let is_time = when.elapsed() >= STARTS_AFTER;
            if is_time {
                cluster.start_member(id);
            }
            !is_time
        });
    }

    fn note(&mut self, note: String) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(note);
        }
    }

    fn record(
        &self,
        name: &str,
        fault: u64,
        event: &str,
        mut facts: Facts,
        error: Option<ClusterError>,
    ) {
        facts.insert("fault".to_owned(), json!(fault));
        facts.insert("event".to_owned(), json!(event));
        self.write(name, Value::Object(facts), error);
    }

    fn write(&self, name: &str, value: Value, error: Option<ClusterError>) {
        let process = Process::Other(Name::Nemesis);
        let error = error.map(|error| error.to_string());
        self.recorder
            .record(process, EventKind::Info, name, None, value, error);
    }
}
