//! Programs of the contenders. They use the shipped recipes repeatedly, as an application would.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use client::{Client, Create, MultiOp, Options, SessionId};
use parking_lot::Mutex as Lock;
use recipes::{Layout, Result};
use simulation::application::{Sockets, name_of};
use testkit::Random;
use tokio::time::{sleep, timeout};

use crate::invariants::recipes::{FENCED, LeaseTime, Recipe, Seen};

/// Event that a process reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProgramEvent {
    /// The process waits for a grant.
    Waits,
    /// The process has stopped waiting.
    WaitsNoMore,
    /// The process holds this znode from now on.
    Granted { path: String, token: i64 },
    /// The process no longer holds its znodes, or is not certain that it still holds them.
    Yielded,
    /// The item is in the queue.
    Put(String),
    /// The process has taken the item.
    Taken(String),
    /// The queue has confirmed that the item belongs to this process permanently.
    Confirmed(String),
    /// The process begins an observation.
    Begins,
    /// The process has observed this.
    Seen(Seen),
    /// The process has certainly incremented the counter.
    Incremented,
    /// A call has failed, and may have had its effect.
    Unknown,
    /// The process has obtained this lease.
    Leased(LeaseTime),
    /// The process itself found a violation.
    Wrong(String),
    /// The process has made progress.
    Done,
    /// The process has ended.
    Over,
}

/// Program of one process, and its reported events.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) recipe: Recipe,
    /// Number of the contender, which a restart does not change.
    pub(super) number: usize,
    pub(super) seed: u64,
    pub(super) session_timeout: Duration,
    pub(super) servers: usize,
    pub(super) told: Lock<Vec<ProgramEvent>>,
    pub(super) is_ending: AtomicBool,
    /// Whether all faults have ended, and all clocks are correct.
    pub(super) is_calm: AtomicBool,
}

impl Program {
    pub(super) fn tell(&self, told: ProgramEvent) {
        self.told.lock().push(told);
    }

    pub(super) fn take_told(&self) -> Vec<ProgramEvent> {
        std::mem::take(&mut self.told.lock())
    }

    pub(super) fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    pub(super) fn set_calm(&self, is_calm: bool) {
        self.is_calm.store(is_calm, Ordering::Relaxed);
    }

    pub(super) fn is_calm(&self) -> bool {
        self.is_calm.load(Ordering::Relaxed)
    }
}

/// Runs the process from its start to its orderly end.
pub(super) async fn live(program: Arc<Program>, sockets: Sockets) {
    let mut random = Random::new(program.seed);
    let servers: Vec<String> = (0..program.servers).map(name_of).collect();
    let options = Options::new(&servers.join(","))
        .with_renewal()
        .with_session_timeout(program.session_timeout)
        .with_dialer(Arc::new(sockets.clone()))
        .with_wall_clock(Arc::new(sockets))
        .with_seed(random.any());
    let client = loop {
        match Client::connect(options.clone()).await {
            Ok(client) => break client,
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    };
    let mut contender = Contender {
        program: &program,
        client: &client,
        random,
        items: 0,
    };
    // Errors are ignored. Another process may have created the znode, and each process sends this
    // request when it starts.
    let _ = client.create(FENCED, "", &Create::persistent()).await;
    while !program.is_ending() {
        contender.pause(5, 100).await;
        // A failed attempt is not fatal. The process tries again, like every long-running
        // application.
        let _ = contender.contend().await;
        program.tell(ProgramEvent::WaitsNoMore);
    }
    while client.close().await.is_err() && !client.state().borrow().is_end() {}
    program.tell(ProgramEvent::Over);
}

pub(super) struct Contender<'a> {
    pub(super) program: &'a Program,
    pub(super) client: &'a Client,
    pub(super) random: Random,
    /// Number of items put so far.
    pub(super) items: usize,
}

/// A grant that is held until this value is dropped.
pub(super) struct Holding<'a>(&'a Program);

impl<'a> Holding<'a> {
    fn new(program: &'a Program, path: &str, token: recipes::Token) -> Self {
        Self::all(program, [(path, token)])
    }

    /// Reports several znodes that are held together.
    pub(super) fn all<'b>(
        program: &'a Program,
        znodes: impl IntoIterator<Item = (&'b str, recipes::Token)>,
    ) -> Self {
        for (path, token) in znodes {
            let (path, token) = (path.to_owned(), token.0);
            program.tell(ProgramEvent::Granted { path, token });
        }
        Self(program)
    }
}

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        self.0.tell(ProgramEvent::Yielded);
    }
}

impl Contender<'_> {
    pub(super) async fn pause(&mut self, from_ms: i64, end_ms: i64) {
        let ms = u64::try_from(self.random.range(from_ms, end_ms)).unwrap_or(0);
        sleep(Duration::from_millis(ms)).await;
    }

    pub(super) fn layout(&mut self) -> Layout {
        if self.random.percent(30) {
            Layout::Kazoo
        } else {
            Layout::Curator
        }
    }

    async fn contend(&mut self) -> Result<()> {
        if self.random.percent(5) {
            return self.meddle().await;
        }
        match self.program.recipe {
            Recipe::Mutex => self.lock().await,
            Recipe::ReadWriteLock => self.read_or_write().await,
            Recipe::Semaphore => self.lease().await,
            Recipe::LeaderLatch => self.latch().await,
            Recipe::LeaderSelector => self.select().await,
            Recipe::UnfairElection => self.elect().await,
            Recipe::Queue => self.queue().await,
            Recipe::MultiLock => self.lock_both().await,
            Recipe::Revoker => self.lock_until_asked().await,
            Recipe::Election => self.elect_or_observe().await,
            Recipe::SetPartitioner => self.divide().await,
            Recipe::Barrier => self.pass().await,
            Recipe::DoubleBarrier => self.meet().await,
            Recipe::Counter => self.count().await,
            Recipe::Lease => self.obtain().await,
            Recipe::PriorityQueue => self.work_by_priority().await,
            Recipe::DelayQueue => self.work_when_due().await,
            Recipe::IdQueue => self.work_by_id().await,
            Recipe::LockingQueue => self.work_with_kazoo().await,
            Recipe::SimpleQueue => self.pop().await,
            Recipe::TreeCache => self.cache().await,
            Recipe::ServiceProvider => self.provide().await,
            Recipe::PersistentNode => self.persist().await,
            Recipe::PersistentTtlNode => self.persist_for_a_while().await,
            Recipe::GroupMember => self.join_group().await,
            Recipe::Party => self.join_party().await,
        }
    }

    /// Begins an observation, and returns its session. Waits until the server knows everything that
    /// is committed now.
    pub(super) async fn begin(&self) -> Result<SessionId> {
        let session = self.client.session_id();
        self.program.tell(ProgramEvent::Begins);
        self.client.sync("/").await?;
        Ok(session)
    }

    /// Reports an observation that began in this session. Ignores the observation if the session
    /// has changed, because the new session may use a server that lags.
    pub(super) fn observe(&self, session: SessionId, seen: Seen) {
        if self.client.session_id() == session {
            self.program.tell(ProgramEvent::Seen(seen));
        }
    }

    /// Waits for a result. Returns `None` if the run ends first.
    pub(super) async fn unless_ending<T>(
        &self,
        awaited: impl Future<Output = Result<T>>,
    ) -> Result<Option<T>> {
        let ending = async {
            while !self.program.is_ending() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            biased;
            result = awaited => result.map(Some),
            () = ending => Ok(None),
        }
    }

    /// Deletes a znode of a random contender, as an operator might.
    async fn meddle(&mut self) -> Result<()> {
        let path = self.program.recipe.path();
        let directory = match self.program.recipe {
            Recipe::Semaphore => format!("{path}/leases"),
            Recipe::MultiLock => format!("{path}/a"),
            Recipe::SetPartitioner => format!("{path}/locks/b"),
            Recipe::Mutex
            | Recipe::ReadWriteLock
            | Recipe::LeaderLatch
            | Recipe::LeaderSelector
            | Recipe::Revoker
            | Recipe::Election
            | Recipe::GroupMember
            | Recipe::Party => path.to_owned(),
            // The other recipes do not tolerate this. A deleted item would be lost, and only a
            // leader or a member itself may delete its znode.
            _ => return Ok(()),
        };
        let names = self.client.get_children(&directory).await?;
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        if let Some(name) = self.random.pick(&names) {
            self.client
                .delete(&format!("{directory}/{name}"), -1)
                .await?;
        }
        Ok(())
    }

    /// Waits for a grant. Some calls, drawn at random, have a timeout, after which they return
    /// `None`.
    pub(super) async fn wait<T>(
        &mut self,
        granted: impl Future<Output = Result<T>>,
    ) -> Result<Option<T>> {
        self.program.tell(ProgramEvent::Waits);
        if self.random.percent(80) {
            return granted.await.map(Some);
        }
        let limit = u64::try_from(self.random.range(1, 500)).unwrap_or(1);
        match timeout(Duration::from_millis(limit), granted).await {
            Ok(granted) => granted.map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Works for a while. With `check`, also writes to [`FENCED`]. This write fails if the grant
    /// has ended by then.
    pub(super) async fn work(&mut self, path: &str, check: Option<MultiOp>) {
        self.pause(0, 60).await;
        if let Some(check) = check {
            let write = MultiOp::set_data(FENCED, path.to_owned(), -1);
            let _ = self.client.multi(&[check, write]).await;
        }
        self.pause(0, 60).await;
    }

    /// Holds a grant until the work is done or the grant is uncertain.
    pub(super) async fn hold(
        &mut self,
        path: &str,
        token: recipes::Token,
        check: Option<MultiOp>,
        uncertain: impl Future,
    ) {
        let _holding = Holding::new(self.program, path, token);
        tokio::select! {
            biased;
            _ = uncertain => {}
            () = self.work(path, check) => {}
        }
    }
}
