//! The core of the simulated server: the shipped replica, its inbox, and the time at which it
//! handles messages.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use frontend::{ClientMessage, Connection, CoreInbox, clock};
use host::{ServerState, WaitingWork};
use parking_lot::Mutex;
use proto::Zxid;
use replica::{ClientRequest, Input, Now, Replica, Turn};
use testkit::Random;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::server::SimServer;
use crate::settings::CoreSettings;

/// Maximum number of messages in a turn.
const TURN_MESSAGES_MAX: usize = 1000;
/// Number of turns of a visitor, after which the core's own task continues.
const VISITOR_TURNS_MAX: usize = 4;

/// Message for the core.
pub(crate) enum Message {
    /// Message of a connection.
    Client(ClientMessage),
    /// The log is on disk up to this transaction.
    Synced(Zxid, Duration),
}

/// Inbox of the core. A task that sends a message may run the core itself.
pub(crate) struct Core {
    inbox: Mutex<VecDeque<Message>>,
    machine: Mutex<Option<Machine>>,
    arrived: Notify,
    random: Mutex<Random>,
    settings: CoreSettings,
    /// Number of requests that connections have submitted and that are not applied or dropped yet.
    pub(crate) in_progress: Mutex<usize>,
}

/// The replica and its host.
struct Machine {
    replica: Replica<SimServer>,
    server: SimServer,
    state: Arc<ServerState>,
    requests: Vec<ClientRequest>,
    events: VecDeque<Message>,
}

impl Core {
    pub(crate) fn new(settings: CoreSettings, random: Random) -> Self {
        Self {
            inbox: Mutex::default(),
            machine: Mutex::new(None),
            arrived: Notify::new(),
            random: Mutex::new(random),
            settings,
            in_progress: Mutex::new(0),
        }
    }

    /// Starts the replica, which serves clients afterwards.
    pub(crate) fn begin(&self, server: SimServer, state: Arc<ServerState>, start: replica::Start) {
        let replica = Replica::new(start, &*state, now()).expect("a standalone server");
        let mut machine = Machine {
            replica,
            server,
            state,
            requests: Vec::new(),
            events: VecDeque::new(),
        };
        machine.with_replica(|replica, turn| replica.begin(turn));
        *self.machine.lock() = Some(machine);
    }

    /// Runs the core's own task.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            let deadline_ms = self.machine.lock().as_ref().and_then(Machine::deadline_ms);
            if self.inbox.lock().is_empty() {
                let left_ms = deadline_ms.map_or(i64::MAX, |at| at - clock::session_ms());
                let left = Duration::from_millis(left_ms.clamp(0, 1 << 40).unsigned_abs());
                tokio::select! {
                    biased;
                    () = self.arrived.notified() => {}
                    () = sleep(left) => {}
                }
            }
            let delay = self.settings.turn_delay(&mut self.random.lock());
            match delay {
                Some(Duration::ZERO) => {}
                Some(delay) => sleep(delay).await,
                None => tokio::task::yield_now().await,
            }
            self.turn();
        }
    }

    /// Sends a message to the core's own task.
    pub(crate) fn post(&self, message: Message) {
        self.push(message);
        self.arrived.notify_one();
    }

    /// Calls `look` with the host.
    pub(crate) fn with_server<T>(&self, look: impl FnOnce(&SimServer) -> T) -> T {
        let machine = self.machine.lock();
        look(&machine.as_ref().expect("the core has begun").server)
    }

    fn push(&self, message: Message) {
        if let Message::Client(ClientMessage::Submit { requests, .. }) = &message {
            *self.in_progress.lock() += requests.len();
        }
        self.inbox.lock().push_back(message);
    }

    fn turn(&self) {
        if let Some(machine) = &mut *self.machine.lock() {
            machine.turn(&self.inbox);
        }
    }
}

impl CoreInbox for Core {
    fn send(&self, message: ClientMessage) {
        self.post(Message::Client(message));
    }

    fn put(&self, message: ClientMessage) {
        self.push(Message::Client(message));
    }

    fn run_inline(&self) {
        if self.random.lock().percent(self.settings.inline_percent) {
            for _ in 0..VISITOR_TURNS_MAX {
                if self.inbox.lock().is_empty() {
                    break;
                }
                self.turn();
            }
        }
        // The core's task waits for a deadline that may have changed.
        self.arrived.notify_one();
    }
}

impl Machine {
    fn turn(&mut self, inbox: &Mutex<VecDeque<Message>>) {
        self.server.schedule.begin_turn(false);
        let first = inbox.lock().pop_front();
        if let Some(first) = first {
            self.take_turn(first, inbox);
        }
        let now_ms = clock::session_ms();
        if self.replica.deadline_ms().is_some_and(|at| at <= now_ms) {
            self.with_replica(|replica, turn| replica.handle_deadline(turn));
        }
        self.server.pass_to_disk(now_ms);
    }

    fn deadline_ms(&self) -> Option<i64> {
        self.replica.deadline_ms()
    }

    fn take_turn(&mut self, first: Message, inbox: &Mutex<VecDeque<Message>>) {
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Message::Client(ClientMessage::Submit {
                    connection,
                    requests,
                    ..
                }) => self.gather(&connection, requests),
                sync @ Message::Client(ClientMessage::Sync(..)) => {
                    self.events.push_back(sync);
                    // The next requests of the connection must not be sent before this sync.
                    break;
                }
                event => self.events.push_back(event),
            }
            if self.requests.len() + self.events.len() >= TURN_MESSAGES_MAX {
                break;
            }
            next = inbox.lock().pop_front();
        }
        if !self.requests.is_empty() {
            self.note_waiting(inbox);
            let mut requests = std::mem::take(&mut self.requests);
            self.with_replica(|replica, turn| replica.handle_client_requests(&mut requests, turn));
            self.requests = requests;
        }
        while let Some(event) = self.events.pop_front() {
            self.note_waiting(inbox);
            if let Some(input) = self.server.translate(event) {
                self.with_replica(|replica, turn| replica.handle(input, turn));
            }
        }
        if self.server.schedule.end_turn() {
            self.server.flush();
            self.sync_due();
        }
    }

    fn gather(&mut self, connection: &Arc<Connection>, requests: Vec<ClientRequest>) {
        self.server.note_requests(connection, &requests);
        self.requests.extend(requests);
    }

    fn note_waiting(&mut self, inbox: &Mutex<VecDeque<Message>>) {
        self.server.schedule.begin_input(WaitingWork {
            is_in_turn: !self.events.is_empty(),
            is_in_inbox: !inbox.lock().is_empty(),
        });
    }

    fn with_replica(
        &mut self,
        step: impl FnOnce(&mut Replica<SimServer>, &mut Turn<'_, SimServer>),
    ) {
        self.step(step);
        self.sync_due();
    }

    fn sync_due(&mut self) {
        while let Some(upto) = self.server.sync_due() {
            self.step(|replica, turn| replica.handle(Input::Synced(upto), turn));
        }
    }

    fn step(&mut self, step: impl FnOnce(&mut Replica<SimServer>, &mut Turn<'_, SimServer>)) {
        let now = now();
        self.server.begin_step(now);
        let answers_own = self.replica.is_ordering() && self.replica.answers_next();
        self.server.schedule.begin_step(answers_own);
        let mut turn = Turn {
            now,
            state: &*self.state,
            host: &mut self.server,
        };
        step(&mut self.replica, &mut turn);
        if self.server.schedule.end_step() {
            self.server.flush();
        }
        self.server.schedule.note_role(self.replica.may_sync_late());
    }
}

fn now() -> Now {
    Now {
        ms: clock::session_ms(),
        wall_ms: clock::session_ms(),
    }
}
