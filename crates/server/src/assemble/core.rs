//! The state machine that runs the replica, on its own thread or on a thread that delivers a
//! message to it (see [`executor`]).
//!
//! It handles messages in turns: first waiting requests during one hold of the tree, then the other
//! events.

use std::collections::VecDeque;
use std::sync::Arc;

use executor::{Channel, Executor, Machine, Queue as _};
use frontend::{ClientMessage, Connection};
use host::{Runner, ServerState, WaitingWork};
use metrics::Metrics;
use replica::{ClientRequest, ElectorateError, Input, Now, Replica, Start, Turn};

use super::host::TracedHost;
use super::inbox::{CoreMessage, Visitor};
use crate::{clock, limits};

/// State machine that runs a replica.
pub(crate) struct CoreThread {
    replica: Replica<TracedHost>,
    host: TracedHost,
    state: Arc<ServerState>,
    metrics: Arc<Metrics>,
    inbox: Channel<CoreMessage>,
    /// Requests of this turn, each with its arrival time.
    requests: Vec<ClientRequest>,
    received_ms: Vec<u64>,
    /// Other messages of this turn.
    events: VecDeque<CoreMessage>,
}

/// Handle to the core.
pub(crate) type CoreHandle = Arc<Executor<CoreThread>>;

/// Initial state of the core.
pub(crate) struct CoreStart {
    pub(crate) state: Arc<ServerState>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) inbox: Channel<CoreMessage>,
    pub(crate) host: TracedHost,
    pub(crate) replica: Start,
}

impl Machine for CoreThread {
    type Message = CoreMessage;
    type Visitor = Visitor;

    fn turn(&mut self, visitor: Option<Visitor>) {
        let can_visitor_sync = visitor == Some(Visitor::CanSync);
        self.host.schedule.begin_turn(can_visitor_sync);
        if let Some(first) = self.inbox.pop() {
            self.take_turn(first);
        }
        let now_ms = clock::session_ms();
        let deadline_ms = self.replica.deadline_ms();
        if deadline_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            self.with_replica(|replica, turn| replica.handle_deadline(turn));
        }
        self.host.pass_to_log_thread(now_ms);
    }

    /// Returns whether the core was stopped and all proposals are applied, or whether the disk has
    /// failed.
    fn has_ended(&self) -> bool {
        self.replica.is_over()
    }

    fn deadline_ms(&self) -> Option<i64> {
        let deadlines = [self.replica.deadline_ms(), self.host.gathers_until_ms()];
        deadlines.into_iter().flatten().min()
    }

    fn allows_inline(&self) -> bool {
        self.host.schedule.runner_of_message() == Runner::VisitingThread
    }
}

impl CoreThread {
    /// Starts the replica. A standalone server is serving when this returns.
    ///
    /// # Errors
    /// If no server can be elected with the member lists.
    pub(crate) fn begin(start: CoreStart) -> Result<Self, ElectorateError> {
        let mut core = Self {
            replica: Replica::new(start.replica, &*start.state, now())?,
            host: start.host,
            inbox: start.inbox,
            state: start.state,
            metrics: start.metrics,
            requests: Vec::new(),
            received_ms: Vec::new(),
            events: VecDeque::new(),
        };
        core.with_replica(|replica, turn| replica.begin(turn));
        Ok(core)
    }

    /// Handles `first` and other waiting messages.
    fn take_turn(&mut self, first: CoreMessage) {
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                CoreMessage::Client(ClientMessage::Submit {
                    connection,
                    received_ms,
                    requests,
                }) => self.gather(&connection, received_ms, requests),
                sync @ CoreMessage::Client(ClientMessage::Sync(..)) => {
                    self.events.push_back(sync);
                    // The next requests of the connection must not be sent before this sync.
                    break;
                }
                event => self.events.push_back(event),
            }
            if self.requests.len() + self.events.len() >= limits::PREPARE_GROUP_MAX {
                break;
            }
            next = self.inbox.pop();
        }
        if !self.requests.is_empty() {
            self.note_waiting_messages();
            self.take_requests();
        }
        while let Some(event) = self.events.pop_front() {
            self.note_waiting_messages();
            if let Some(input) = self.host.translate(event) {
                self.handle(input);
            }
        }
        if self.host.schedule.end_turn() {
            self.host.flush();
            self.sync_due();
        }
    }

    /// Informs the schedule about the messages that follow the current one.
    fn note_waiting_messages(&mut self) {
        self.host.schedule.begin_input(WaitingWork {
            is_in_turn: !self.events.is_empty(),
            is_in_inbox: !self.inbox.is_empty(),
        });
    }

    fn gather(
        &mut self,
        connection: &Arc<Connection>,
        received_ms: u64,
        requests: Vec<ClientRequest>,
    ) {
        self.host.note_requests(connection, &requests);
        self.received_ms
            .extend(std::iter::repeat_n(received_ms, requests.len()));
        self.requests.extend(requests);
    }

    fn take_requests(&mut self) {
        let mut requests = std::mem::take(&mut self.requests);
        if self.replica.is_ordering() {
            let since_ms = self.received_ms.drain(..);
            let metrics = &self.metrics;
            metrics.preparing(clock::monotonic_ms(), since_ms, self.inbox.len());
        } else if self.replica.is_forwarding() {
            let sizes = &self.metrics.learner_request_processor_queue_size;
            sizes.record(self.inbox.len() as u64);
        }
        self.received_ms.clear();
        self.with_replica(|replica, turn| replica.handle_client_requests(&mut requests, turn));
        // Reuses the allocation.
        self.requests = requests;
    }

    fn handle(&mut self, input: Input) {
        self.host.note_input(&input, &self.state);
        self.with_replica(|replica, turn| replica.handle(input, turn));
    }

    /// Lets the replica take a step. Then performs the syncs that are due on this thread, and
    /// reports them to the replica.
    fn with_replica(
        &mut self,
        step: impl FnOnce(&mut Replica<TracedHost>, &mut Turn<'_, TracedHost>),
    ) {
        self.step(step);
        self.sync_due();
    }

    fn sync_due(&mut self) {
        while let Some(input) = self.host.sync_due() {
            self.host.note_input(&input, &self.state);
            self.step(|replica, turn| replica.handle(input, turn));
        }
    }

    fn step(&mut self, step: impl FnOnce(&mut Replica<TracedHost>, &mut Turn<'_, TracedHost>)) {
        let now = now();
        self.host.begin_turn(now);
        let answers_own = self.replica.is_ordering() && self.replica.answers_next();
        self.host.schedule.begin_step(answers_own);
        let mut turn = Turn {
            now,
            state: &*self.state,
            host: &mut self.host,
        };
        step(&mut self.replica, &mut turn);
        if self.host.schedule.end_step() {
            self.host.flush();
        }
        self.host.end_turn();
        self.host.schedule.note_role(self.replica.may_sync_late());
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
