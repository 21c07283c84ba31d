//! Events in a simulation of applications, and the fingerprint of its steps.

use proto::{SessionId, Zxid};

use super::Target;
use crate::checks::StepChecks;
use crate::network::{Endpoint, Message};
use crate::queue::Micros;
use crate::settings::EnsembleSettings;
use crate::world;

pub(super) type Event = world::Event<Steps>;

/// Event that the owner of the servers handles.
#[derive(Debug)]
pub(super) enum OwnEvent {
    /// The clock of an application advances.
    Tick { application: usize },
    /// A fault begins.
    Fault { number: usize },
    /// A partition ends.
    Rejoin { target: Target },
    /// The servers end a session.
    Expire { session: SessionId },
}

/// Fingerprint of the steps in a run.
#[derive(Debug, Default)]
pub(super) struct Steps {
    pub(super) fingerprint: u64,
}

impl Steps {
    fn note(&mut self, number: u64) {
        let mixed = self.fingerprint.rotate_left(5) ^ number;
        self.fingerprint = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl StepChecks for Steps {
    type OwnEvent = OwnEvent;
    type OfProcess = ();

    fn blank() -> Self {
        Self::default()
    }

    fn of_process(_: usize, _: Zxid, _: &EnsembleSettings) {}

    fn fail(&mut self, _: &'static str, _: String) {}

    fn event(&mut self, now: Micros, _: &Event) {
        self.note(now.unsigned_abs());
    }

    fn message(&mut self, _: Micros, connection: u64, _: Endpoint, message: &Message) {
        self.note(connection);
        if let Message::ToServer(bytes) | Message::ToClient(bytes) | Message::Packets(bytes) =
            message
        {
            self.note(bytes.len() as u64);
        }
    }
}
