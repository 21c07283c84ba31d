//! The thread that the replica runs on.
//!
//! It takes messages in turns: requests first, all that wait under one hold of the tree, then what
//! happened elsewhere.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};
use replica::{ClientRequest, ElectorateError, Input, Now, Replica, Start, Turn};

use super::host::ServerHost;
use super::inbox::ToCore;
use crate::client::clients::Clients;
use crate::client::inbox::ClientMessage;
use crate::{clock, limits};

/// Runs a replica.
pub(crate) struct CoreThread {
    replica: Replica<ServerHost>,
    host: ServerHost,
    clients: Arc<Clients>,
    inbox: Receiver<ToCore>,
    /// Requests of this turn, and when each batch of them came in.
    requests: Vec<ClientRequest>,
    received_ms: Vec<u64>,
    /// What else has come in this turn.
    events: VecDeque<ToCore>,
}

/// What a core begins with.
pub(crate) struct CoreStart {
    pub(crate) clients: Arc<Clients>,
    pub(crate) inbox: Receiver<ToCore>,
    pub(crate) host: ServerHost,
    pub(crate) replica: Start,
}

impl CoreThread {
    /// The replica has begun when this returns: a server that stands alone serves.
    ///
    /// # Errors
    /// If nobody can be elected by the member lists.
    pub(crate) fn begin(start: CoreStart) -> Result<Self, ElectorateError> {
        let clients = start.clients;
        let mut core = Self {
            replica: Replica::new(start.replica, &*clients.state, now())?,
            host: start.host,
            inbox: start.inbox,
            clients,
            requests: Vec::new(),
            received_ms: Vec::new(),
            events: VecDeque::new(),
        };
        core.with_replica(|replica, turn| replica.begin(turn));
        Ok(core)
    }

    /// Runs until told to end and everything proposed is applied, or until the disk fails.
    pub(crate) fn run(mut self) {
        while !self.replica.is_over() {
            match self.next_message() {
                Ok(first) => self.turn(first),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now_ms = clock::session_ms();
            let deadline_ms = self.replica.deadline_ms();
            if deadline_ms.is_some_and(|at_ms| at_ms <= now_ms) {
                self.with_replica(|replica, turn| replica.handle_deadline(turn));
            }
            self.host.disk.offer(now_ms);
        }
        tracing::debug!(zxid = %self.replica.last_zxid(), "core thread ends");
    }

    fn next_message(&self) -> Result<ToCore, RecvTimeoutError> {
        let deadlines = [
            self.replica.deadline_ms(),
            self.host.disk.gathers_until_ms(),
        ];
        let Some(at_ms) = deadlines.into_iter().flatten().min() else {
            let received = self.inbox.recv();
            return received.map_err(|_| RecvTimeoutError::Disconnected);
        };
        let wait_ms = at_ms.saturating_sub(clock::session_ms()).max(0);
        self.inbox
            .recv_timeout(Duration::from_millis(wait_ms.unsigned_abs()))
    }

    /// Handles `first` and what else waits.
    fn turn(&mut self, first: ToCore) {
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                ToCore::Client(ClientMessage::Submit {
                    connection,
                    received_ms,
                    requests,
                }) => self.gather(&connection, received_ms, requests),
                sync @ ToCore::Client(ClientMessage::Sync(..)) => {
                    self.events.push_back(sync);
                    // What its connection asks for next must not go up before it.
                    break;
                }
                event => self.events.push_back(event),
            }
            if self.requests.len() + self.events.len() >= limits::PREPARE_GROUP_MAX {
                break;
            }
            next = self.inbox.try_recv().ok();
        }
        let is_idle = self.events.is_empty() && self.inbox.is_empty();
        self.host.set_nothing_else_waits(is_idle);
        if !self.requests.is_empty() {
            self.take_requests();
        }
        while let Some(event) = self.events.pop_front() {
            if let Some(input) = self.host.translate(event) {
                self.handle(input);
            }
        }
    }

    fn gather(
        &mut self,
        connection: &Arc<crate::client::connection::Connection>,
        received_ms: u64,
        requests: Vec<ClientRequest>,
    ) {
        if self.replica.is_forwarding() && connection.is_closed() {
            // A leader elsewhere need not be asked for somebody who is gone.
            return self.host.release_all(&requests);
        }
        self.host.note_client(connection);
        self.host.note_requests(connection, &requests);
        self.received_ms
            .extend(std::iter::repeat_n(received_ms, requests.len()));
        self.requests.extend(requests);
    }

    fn take_requests(&mut self) {
        let mut requests = std::mem::take(&mut self.requests);
        if self.replica.is_ordering() {
            let since_ms = self.received_ms.drain(..);
            let metrics = &self.clients.metrics;
            metrics.preparing(clock::monotonic_ms(), since_ms, self.inbox.len());
        } else if self.replica.is_forwarding() {
            let behind = self.inbox.len() as u64;
            let sizes = &self.clients.metrics.learner_request_processor_queue_size;
            sizes.record(behind);
        }
        self.received_ms.clear();
        self.with_replica(|replica, turn| replica.handle_client_requests(&mut requests, turn));
        // Kept for its memory.
        self.requests = requests;
    }

    fn handle(&mut self, input: Input) {
        self.with_replica(|replica, turn| replica.handle(input, turn));
    }

    /// Lets the replica do something, and then tells it what was synced here of what it wanted.
    fn with_replica(
        &mut self,
        step: impl FnOnce(&mut Replica<ServerHost>, &mut Turn<'_, ServerHost>),
    ) {
        self.step(step);
        while let Some(input) = self.host.disk.sync_due() {
            self.step(|replica, turn| replica.handle(input, turn));
        }
    }

    fn step(&mut self, step: impl FnOnce(&mut Replica<ServerHost>, &mut Turn<'_, ServerHost>)) {
        let now = now();
        self.host.begin_turn(now);
        let mut turn = Turn {
            now,
            state: &*self.clients.state,
            host: &mut self.host,
        };
        step(&mut self.replica, &mut turn);
        self.host.end_turn();
        self.host.disk.set_may_gather(self.replica.may_sync_late());
        self.host.release_elections();
        if !self.replica.has_waiting_packets() {
            self.host.release_read_ahead();
        }
    }
}

fn now() -> Now {
    Now {
        ms: clock::session_ms(),
        wall_ms: clock::wall_ms(),
    }
}
