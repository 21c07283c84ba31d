//! Options of a run.

use std::path::PathBuf;
use std::time::Duration;

use super::RunError;
use crate::check::Budget;
use crate::cluster::{Plan, Security, flavour};
use crate::nemesis::Kind;
use crate::workload::Workload;

/// Minimum number of voters: with two of them, no fault leaves a quorum.
const MEMBERS_MIN: usize = 3;
/// Maximum number of voters.
const MEMBERS_MAX: usize = 9;
/// Maximum number of observers.
const OBSERVERS_MAX: usize = 4;

/// Name of the trace for the formal model in the run's directory.
const MODEL_TRACE: &str = "model.trace";

/// Options of a run.
pub struct Options {
    /// The workload.
    pub workload: &'static dyn Workload,
    /// The faults.
    pub nemeses: Vec<&'static Kind>,
    /// A letter for each member.
    pub members: String,
    /// Protection of the connections.
    pub security: Security,
    /// Duration of the load.
    pub length: Duration,
    /// Seed of all choices.
    pub seed: u64,
    /// Number of clients.
    pub clients: u64,
    /// Time between two calls of a client.
    pub pace: Duration,
    /// Additional keys of zoo.cfg.
    pub settings: Vec<(String, String)>,
    /// Whether all disks report syncs that they have not done, to check that this is found.
    pub fakes_syncs: bool,
    /// The duty that the Zoarium members skip. This process was started with it.
    pub switch: Option<String>,
    /// Directory of the output files.
    pub out: PathBuf,
    /// Whether the run is a leg: it continues the legs in the directory, and can be continued.
    pub is_leg: bool,
    /// Whether porcupine also judges the history.
    pub porcupine: bool,
    /// Whether the members write a trace for the formal model.
    pub model_trace: bool,
    /// Limits of the checker.
    pub budget: Budget,
}

impl Options {
    /// Returns the command that makes the same choices.
    pub fn command(&self) -> String {
        let names: Vec<_> = self.nemeses.iter().map(|kind| kind.name).collect();
        let settings = self.settings.iter();
        let settings: String = settings
            .map(|(key, value)| format!(" --setting {key}={value}"))
            .collect();
        let nemeses = if names.is_empty() {
            String::new()
        } else {
            format!(" --nemesis {}", names.join(","))
        };
        let fake = if self.fakes_syncs {
            " --fake-syncs"
        } else {
            ""
        };
        let security = self.security.names();
        let secure = if security.is_empty() {
            String::new()
        } else {
            format!(" --secure {}", security.join(","))
        };
        let model_trace = if self.model_trace {
            " --model-trace"
        } else {
            ""
        };
        let porcupine = if self.porcupine { " --porcupine" } else { "" };
        let leg = if self.is_leg {
            format!(" --leg --out {}", self.out.display())
        } else {
            String::new()
        };
        let switch = self.switch.iter();
        let switch: String = switch.map(|name| format!(" --switch {name}")).collect();
        format!(
            "cargo run --release -p jepsen -- run --workload {}{nemeses} --members {}{secure} --seconds \
             {} --clients {} --pace {} --seed {}{settings}{fake}{switch}{porcupine}{model_trace}{leg}",
            self.workload.name(),
            self.members,
            self.length.as_secs(),
            self.clients,
            self.pace.as_millis(),
            self.seed,
        )
    }

    pub(super) fn plan(&self) -> Result<Plan, RunError> {
        let first_observer = self.members.find(char::is_uppercase);
        let (members, observers) = match first_observer {
            Some(at) => self.members.split_at(at),
            None => (self.members.as_str(), ""),
        };
        let observer = |letter: char| {
            let flavour = flavour(letter.to_ascii_lowercase());
            flavour.filter(|_| letter.is_uppercase())
        };
        let members: Option<Vec<_>> = members.chars().map(flavour).collect();
        let members = members.filter(|some| (MEMBERS_MIN..=MEMBERS_MAX).contains(&some.len()));
        let observers: Option<Vec<_>> = observers.chars().map(observer).collect();
        let both = members.zip(observers);
        let both = both.filter(|(_, observers)| observers.len() <= OBSERVERS_MAX);
        let (members, observers) = both.ok_or_else(|| RunError::Members(self.members.clone()))?;
        let mut settings = self.settings.clone();
        if self.model_trace {
            let file = std::path::absolute(self.out.join(MODEL_TRACE));
            let file = file.map_err(RunError::Directory)?;
            settings.push(("zoarium.trace.model".to_owned(), file.display().to_string()));
            // A leader of the model sends only transactions that it has in memory.
            settings.push(("snapshotSizeFactor".to_owned(), "-1".to_owned()));
        }
        let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
        let needed = self.workload.settings().iter();
        let properties = self.workload.properties().iter();
        Ok(Plan {
            members,
            observers,
            security: self.security,
            settings: needed.map(owned).chain(settings).collect(),
            properties: properties.map(owned).collect(),
            notes_unsynced: false,
            fakes_syncs: self.fakes_syncs,
            grows: false,
            kept_in: None,
            network: None,
        })
    }
}
