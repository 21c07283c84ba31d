//! Parts of the simulated server that clients and checks share.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use frontend::{Frontend, connect_in_process};
use host::ServerState;
use parking_lot::Mutex;
use tokio::io::DuplexStream;
use tokio::sync::watch;

use crate::core::Core;
use crate::history::History;
use crate::settings::Settings;

/// A violated invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Name of the invariant.
    pub invariant: &'static str,
    /// What happened.
    pub text: String,
}

/// Result of a check.
pub(crate) type Checked = Result<(), Violation>;

pub(crate) fn violation(invariant: &'static str, text: impl Into<String>) -> Violation {
    Violation {
        invariant,
        text: text.into(),
    }
}

/// Simulated server, as its clients and the checks see it.
pub(crate) struct World {
    pub(crate) settings: Settings,
    pub(crate) frontend: Frontend,
    pub(crate) state: Arc<ServerState>,
    pub(crate) core: Arc<Core>,
    pub(crate) history: Arc<Mutex<History>>,
    /// Number of bytes of the current frame that each client has not read yet.
    pub(crate) unread: Mutex<HashMap<usize, usize>>,
    /// Number of clients that still do something.
    pub(crate) active: AtomicUsize,
    /// Becomes true when the clients that do not read must end.
    pub(crate) end: watch::Sender<bool>,
    pub(crate) counts: Counts,
    found: Mutex<Option<Violation>>,
}

/// Numbers of events in a simulation.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) replies: AtomicUsize,
    pub(crate) long_replies: AtomicUsize,
    pub(crate) events: AtomicUsize,
    pub(crate) sessions: AtomicUsize,
    pub(crate) stuck: AtomicUsize,
    pub(crate) words: AtomicUsize,
    pub(crate) lost: AtomicUsize,
}

impl World {
    pub(crate) fn new(
        settings: Settings,
        frontend: Frontend,
        state: Arc<ServerState>,
        core: Arc<Core>,
        history: Arc<Mutex<History>>,
    ) -> Self {
        Self {
            settings,
            frontend,
            state,
            core,
            history,
            unread: Mutex::default(),
            active: AtomicUsize::new(0),
            end: watch::Sender::new(false),
            counts: Counts::default(),
            found: Mutex::new(None),
        }
    }

    /// Connects a client. Returns `None` if the server refuses the connection.
    pub(crate) fn connect(&self, client: usize) -> Option<DuplexStream> {
        connect_in_process(&self.frontend.context, peer_of(client), None).ok()
    }

    /// Records the first violation.
    pub(crate) fn report(&self, found: Violation) {
        self.found.lock().get_or_insert(found);
    }

    pub(crate) fn found(&self) -> Option<Violation> {
        self.found.lock().clone()
    }

    /// Waits until the clients that do not read must end.
    pub(crate) async fn ended(&self) {
        let mut end = self.end.subscribe();
        // Fails only if the sender was dropped.
        let _ = end.wait_for(|is_over| *is_over).await;
    }
}

/// Returns the address of a client.
pub(crate) fn peer_of(client: usize) -> SocketAddr {
    let host = u8::try_from(client).unwrap_or(u8::MAX);
    SocketAddr::from(([10, 0, 0, host], 1000))
}

/// Adds one to a number.
pub(crate) fn count(number: &AtomicUsize) {
    number.fetch_add(1, Ordering::Relaxed);
}
