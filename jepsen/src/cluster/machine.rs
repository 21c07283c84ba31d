//! What this machine lets a run do.

use tests::ensemble::Network;
use tests::{Faults, apache_class_path, find_tool};

/// What a fault may need of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Network namespaces, which take root.
    Network,
    /// `tc` with `netem`.
    LinkShaping,
    /// A C compiler for the library before the system calls.
    Preload,
    /// The same library, and that it notes what is not synced, which takes time at each write.
    UnsyncedNotes,
    /// Apache ZooKeeper, with Java.
    Java,
    /// `setpriv`, by which members die with the run.
    DeathSignal,
}

/// What was found.
#[derive(Debug)]
pub struct Machine {
    network: Option<String>,
    link_shaping: Option<String>,
    java: Option<String>,
    death_signal: Option<String>,
    faults: Result<Faults, String>,
}

impl Machine {
    /// Looks for what these faults need, and for what every run wants.
    pub fn look(needs: &[Need]) -> Machine {
        let wanted = |need| needs.contains(&need);
        let (network, link_shaping) = match Network::new(1) {
            Ok(mut network) if wanted(Need::LinkShaping) => {
                let shaped = network.shape(1, "delay 1ms");
                (None, shaped.err().map(|missing| missing.0))
            }
            Ok(_) => (None, None),
            Err(missing) => (Some(missing.0.clone()), Some(missing.0)),
        };
        let java = match wanted(Need::Java) {
            true => apache_class_path().err().map(|missing| missing.0),
            false => None,
        };
        Machine {
            network,
            link_shaping,
            java,
            death_signal: find_tool("setpriv").err().map(|missing| missing.0),
            faults: Faults::new().map_err(|missing| missing.0),
        }
    }

    /// Why this cannot be had, if it cannot.
    pub fn lack(&self, need: Need) -> Option<String> {
        match need {
            Need::Network => self.network.clone(),
            Need::LinkShaping => self.link_shaping.clone(),
            Need::Preload | Need::UnsyncedNotes => self.faults.as_ref().err().cloned(),
            Need::Java => self.java.clone(),
            Need::DeathSignal => self.death_signal.clone(),
        }
    }

    pub(super) fn into_faults(self) -> Option<Faults> {
        self.faults.ok()
    }
}
