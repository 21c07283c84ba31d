//! The capabilities of this machine.

use tests::ensemble::{Network, OUTSIDE, Shape};
use tests::{Faults, apache_class_path, find_tool};

/// A capability that a fault may need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Network namespaces, which need root.
    Network,
    /// TUN devices, and a C compiler for the program that carries packets.
    LinkShaping,
    /// A C compiler for the library that intercepts system calls.
    Preload,
    /// This library, with a record of unsynced writes, which costs time at each write.
    UnsyncedNotes,
    /// Apache ZooKeeper, with Java.
    Java,
    /// `setpriv`, which lets members die with the run.
    DeathSignal,
}

/// The capabilities that were found.
#[derive(Debug)]
pub struct Machine {
    network: Option<String>,
    link_shaping: Option<String>,
    java: Option<String>,
    death_signal: Option<String>,
    faults: Result<Faults, String>,
}

impl Machine {
    /// Checks for the needs of these faults, and for those of every run.
    pub fn look(needs: &[Need]) -> Machine {
        let wanted = |need| needs.contains(&need);
        let (network, link_shaping) = match Network::new(1) {
            Ok(mut network) if wanted(Need::LinkShaping) => {
                let shaped = network.shape(1, OUTSIDE, Shape::default());
                (None, shaped.err().map(|missing| missing.0))
            }
            Ok(_) => (None, None),
            Err(missing) => (Some(missing.0.clone()), Some(missing.0)),
        };
        let java = if wanted(Need::Java) {
            apache_class_path().err().map(|missing| missing.0)
        } else {
            None
        };
        Machine {
            network,
            link_shaping,
            java,
            death_signal: find_tool("setpriv").err().map(|missing| missing.0),
            faults: Faults::new().map_err(|missing| missing.0),
        }
    }

    /// Returns why this need is not met, or `None` if it is met.
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
