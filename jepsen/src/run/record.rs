//! `run.json`: the options, versions and results of a run.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Options;
use super::legs::Leg;
use crate::cluster::Security;
use crate::verdict::{Validity, Verdict};

/// Name of the file in a run's directory.
pub const FILE: &str = "run.json";

/// Contents of the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// Name of the workload.
    pub workload: String,
    /// Names of the faults that were made.
    pub nemeses: Vec<String>,
    /// Requested parts that this machine cannot do, with the reasons, and other missing parts of
    /// the run.
    pub left_out: BTreeMap<String, String>,
    /// A letter for each member.
    pub members: String,
    /// Names of the protection of the connections.
    #[serde(default)]
    pub security: Vec<String>,
    /// Keys of zoo.cfg in addition to those of every run.
    pub settings: Vec<(String, String)>,
    /// The duty that the Zoarium members skipped.
    #[serde(default)]
    pub switch: Option<String>,
    /// Duration of the load, in seconds.
    pub seconds: u64,
    /// Number of clients.
    pub clients: u64,
    /// Seed of all choices.
    pub seed: u64,
    /// Command that repeats the choices, though not their exact moments.
    pub command: String,
    /// Version that each member reports.
    pub versions: Vec<String>,
    /// Number of faults of each kind.
    pub faults: BTreeMap<String, u64>,
    /// Events of clients by their type: `invoke`, `ok`, `fail`, `info`.
    pub events: BTreeMap<String, u64>,
    /// Deviations from the plan: members that ended without a request, and faults that could not be
    /// reverted at first.
    pub notes: Vec<String>,
    /// Reason why the checker did not give a verdict.
    pub error: Option<String>,
    /// Final result, unknown until then.
    pub validity: Validity,
    /// Verdict of the checker.
    pub verdict: Option<Verdict>,
    /// Verdict of porcupine about the history.
    #[serde(default)]
    pub porcupine: Option<String>,
    /// The completed legs, if the run is a leg. The other fields are about the last leg.
    #[serde(default)]
    pub legs: Option<Vec<Leg>>,
}

impl Record {
    /// Returns the record of a run that begins.
    pub(super) fn new(options: &Options) -> Record {
        Record {
            workload: options.workload.name().to_owned(),
            nemeses: Vec::new(),
            left_out: BTreeMap::new(),
            members: options.members.clone(),
            security: names(options.security),
            settings: options.settings.clone(),
            switch: options.switch.clone(),
            seconds: options.length.as_secs(),
            clients: options.clients,
            seed: options.seed,
            command: options.command(),
            versions: Vec::new(),
            faults: BTreeMap::new(),
            events: BTreeMap::new(),
            notes: Vec::new(),
            error: None,
            validity: Validity::Unknown,
            verdict: None,
            porcupine: None,
            legs: None,
        }
    }

    /// Returns the members and the protection of their connections.
    pub fn ensemble(&self) -> String {
        let names = [self.members.as_str()].into_iter();
        let names = names.chain(self.security.iter().map(String::as_str));
        names.collect::<Vec<_>>().join(" ")
    }

    /// Writes the record.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, dir: &Path) -> io::Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        std::fs::write(dir.join(FILE), text + "\n")
    }

    /// Reads the record of a run's directory.
    ///
    /// # Errors
    /// If the file does not exist, or is not a record.
    pub fn load(dir: &Path) -> io::Result<Record> {
        let text = std::fs::read(dir.join(FILE))?;
        serde_json::from_slice(&text).map_err(io::Error::from)
    }
}

/// Returns the names of a protection.
pub(super) fn names(security: Security) -> Vec<String> {
    let names = security.names().into_iter();
    names.map(str::to_owned).collect()
}
