//! `run.json`: what was run, by what, and what came out.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Options;
use crate::verdict::{Validity, Verdict};

/// Name of the file in a run's directory.
pub const FILE: &str = "run.json";

/// All of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// Name of the workload.
    pub workload: String,
    /// Names of the faults that were made.
    pub nemeses: Vec<String>,
    /// What was asked for and this machine cannot do, with the reason; also what a run is without.
    pub left_out: BTreeMap<String, String>,
    /// A letter for each member.
    pub members: String,
    /// Keys of zoo.cfg on top of what every run has.
    pub settings: Vec<(String, String)>,
    /// The duty that the members of Zoarium did not do.
    #[serde(default)]
    pub switch: Option<String>,
    /// How long clients called, s.
    pub seconds: u64,
    /// How many clients.
    pub clients: u64,
    /// Of all choices.
    pub seed: u64,
    /// What repeats the choices, though not their exact moments.
    pub command: String,
    /// What each member says it is.
    pub versions: Vec<String>,
    /// How often each fault was made.
    pub faults: BTreeMap<String, u64>,
    /// Events of clients by their type: `invoke`, `ok`, `fail`, `info`.
    pub events: BTreeMap<String, u64>,
    /// What went otherwise than planned: members that ended by themselves, faults that could not be
    /// taken back at once.
    pub notes: Vec<String>,
    /// Why the run has no verdict of its checker.
    pub error: Option<String>,
    /// What is said about it in the end; unknown until then.
    pub validity: Validity,
    /// What the checker says.
    pub verdict: Option<Verdict>,
}

impl Record {
    /// Of a run that begins.
    pub(super) fn new(options: &Options) -> Record {
        Record {
            workload: options.workload.name().to_owned(),
            nemeses: Vec::new(),
            left_out: BTreeMap::new(),
            members: options.members.clone(),
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
        }
    }

    /// Writes it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, dir: &Path) -> io::Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        std::fs::write(dir.join(FILE), text + "\n")
    }

    /// Reads that of a run's directory.
    ///
    /// # Errors
    /// There is none, or it is another file.
    pub fn load(dir: &Path) -> io::Result<Record> {
        let text = std::fs::read(dir.join(FILE))?;
        serde_json::from_slice(&text).map_err(io::Error::from)
    }
}
