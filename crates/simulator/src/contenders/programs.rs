//! Programs of the contenders. They use the shipped recipes repeatedly, as an application would.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use client::{Client, Create, MultiOp, Options};
use parking_lot::Mutex as Lock;
use recipes::{
    Layout, LeaderLatch, LeaderSelector, Leadership, Mutex, Queue, ReadWriteLock, Result,
    Semaphore, UnfairElection,
};
use simulation::application::{Sockets, name_of};
use testkit::Random;
use tokio::time::{sleep, timeout};

use crate::invariants::recipes::{FENCED, LEASES};

/// Recipes for which processes compete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recipe {
    /// An exclusive lock.
    Mutex,
    /// A lock that readers share.
    ReadWriteLock,
    /// A semaphore with two leases.
    Semaphore,
    /// An election in which the leader stays.
    LeaderLatch,
    /// An election in which leaders take turns.
    LeaderSelector,
    /// An election on one znode.
    UnfairElection,
    /// A queue whose items go to any free consumer.
    Queue,
}

impl Recipe {
    /// All recipes.
    pub const ALL: [Self; 7] = [
        Self::Mutex,
        Self::ReadWriteLock,
        Self::Semaphore,
        Self::LeaderLatch,
        Self::LeaderSelector,
        Self::UnfairElection,
        Self::Queue,
    ];

    /// Returns the directory or the znode that the recipe uses.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Mutex => "/mutex",
            Self::ReadWriteLock => "/read-write",
            Self::Semaphore => "/semaphore",
            Self::LeaderLatch => "/latch",
            Self::LeaderSelector => "/selector",
            Self::UnfairElection => "/unfair/leader",
            Self::Queue => "/queue",
        }
    }
}

/// Event that a process reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProgramEvent {
    /// The process waits for a grant.
    Waits,
    /// The process has stopped waiting.
    WaitsNoMore,
    /// The process holds this znode from now on.
    Granted { path: String, token: i64 },
    /// The process no longer holds the znode, or is not certain.
    Yielded,
    /// The item is in the queue.
    Put(String),
    /// The process has taken the item.
    Taken(String),
    /// The queue has confirmed that the item belongs to this process permanently.
    Confirmed(String),
    /// The process has ended.
    Over,
}

/// Program of one process, and its reported events.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) recipe: Recipe,
    pub(super) seed: u64,
    pub(super) session_timeout: Duration,
    pub(super) servers: usize,
    pub(super) told: Lock<Vec<ProgramEvent>>,
    pub(super) is_ending: AtomicBool,
}

impl Program {
    fn tell(&self, told: ProgramEvent) {
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
}

/// Runs the process from its start to its orderly end.
pub(super) async fn live(program: Arc<Program>, sockets: Sockets) {
    let mut random = Random::new(program.seed);
    let servers: Vec<String> = (0..program.servers).map(name_of).collect();
    let options = Options::new(&servers.join(","))
        .with_renewal()
        .with_session_timeout(program.session_timeout)
        .with_dialer(Arc::new(sockets))
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
    // The server refuses this create if the znode exists. After a lost reply, the client creates it
    // again.
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

struct Contender<'a> {
    program: &'a Program,
    client: &'a Client,
    random: Random,
    /// Number of items put so far.
    items: usize,
}

/// A grant that is held until this value is dropped.
struct Holding<'a>(&'a Program);

impl<'a> Holding<'a> {
    fn new(program: &'a Program, path: &str, token: recipes::Token) -> Self {
        let (path, token) = (path.to_owned(), token.0);
        program.tell(ProgramEvent::Granted { path, token });
        Self(program)
    }
}

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        self.0.tell(ProgramEvent::Yielded);
    }
}

impl Contender<'_> {
    async fn pause(&mut self, from_ms: i64, end_ms: i64) {
        let ms = u64::try_from(self.random.range(from_ms, end_ms)).unwrap_or(0);
        sleep(Duration::from_millis(ms)).await;
    }

    fn layout(&mut self) -> Layout {
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
        }
    }

    /// Deletes a znode of any contender, as an operator might.
    async fn meddle(&mut self) -> Result<()> {
        let path = self.program.recipe.path();
        let directory = match self.program.recipe {
            Recipe::Semaphore => format!("{path}/leases"),
            // Deleting an item would lose it. In these recipes, only the leader itself may delete
            // its znode.
            Recipe::Queue | Recipe::UnfairElection => return Ok(()),
            _ => path.to_owned(),
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

    /// Waits for a grant. Sometimes it stops waiting after a timeout.
    async fn wait<T>(&mut self, granted: impl Future<Output = Result<T>>) -> Result<Option<T>> {
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

    /// Works for a while. The write in this work fails if it arrives too late.
    async fn work(&mut self, path: &str, check: Option<MultiOp>) {
        self.pause(0, 60).await;
        if let Some(check) = check {
            let write = MultiOp::set_data(FENCED, path.to_owned(), -1);
            let _ = self.client.multi(&[check, write]).await;
        }
        self.pause(0, 60).await;
    }

    /// Holds a grant until the work is done or the grant is in doubt.
    async fn hold(
        &mut self,
        path: &str,
        token: recipes::Token,
        check: Option<MultiOp>,
        doubt: impl Future,
    ) {
        let _holding = Holding::new(self.program, path, token);
        tokio::select! {
            biased;
            _ = doubt => {}
            () = self.work(path, check) => {}
        }
    }

    async fn lock(&mut self) -> Result<()> {
        let layout = self.layout();
        let mutex = Mutex::new(self.client, Recipe::Mutex.path())?.with_layout(layout);
        let Some(mut guard) = self.wait(mutex.acquire()).await? else {
            return Ok(());
        };
        loop {
            let (path, token) = (guard.path(), guard.token());
            self.hold(path, token, Some(guard.check()), guard.in_doubt())
                .await;
            if self.random.percent(70) {
                break;
            }
            match self.wait(mutex.requeue(guard)).await? {
                Some(next) => guard = next,
                None => return Ok(()),
            }
        }
        if self.random.percent(80) {
            guard.release().await.map(drop)
        } else {
            Ok(())
        }
    }

    async fn read_or_write(&mut self) -> Result<()> {
        let layout = self.layout();
        let path = Recipe::ReadWriteLock.path();
        let lock = ReadWriteLock::new(self.client, path)?.with_layout(layout);
        let guard = if self.random.percent(50) {
            let Some(guard) = self.wait(lock.write()).await? else {
                return Ok(());
            };
            let (path, token) = (guard.path(), guard.token());
            self.hold(path, token, Some(guard.check()), guard.in_doubt())
                .await;
            if self.random.percent(50) {
                return guard.release().await;
            }
            guard.downgrade().await?
        } else {
            let Some(guard) = self.wait(lock.read()).await? else {
                return Ok(());
            };
            guard
        };
        // No check is needed, because readers share the lock, so their writes need no order.
        let (path, token) = (guard.path(), guard.token());
        self.hold(path, token, None, guard.in_doubt()).await;
        guard.release().await.map(drop)
    }

    async fn lease(&mut self) -> Result<()> {
        let semaphore = Semaphore::new(self.client, Recipe::Semaphore.path(), LEASES)?;
        let Some(lease) = self.wait(semaphore.acquire()).await? else {
            return Ok(());
        };
        self.hold(lease.path(), lease.token(), None, lease.in_doubt())
            .await;
        if self.random.percent(80) {
            lease.release().await
        } else {
            Ok(())
        }
    }

    async fn latch(&mut self) -> Result<()> {
        let latch = LeaderLatch::start(self.client, Recipe::LeaderLatch.path(), "")?;
        for _ in 0..=self.random.below(2) {
            let Some(leadership) = self.wait(latch.leads()).await? else {
                break;
            };
            let (path, token) = (leadership.path(), leadership.token());
            let check = Some(leadership.check());
            self.hold(path, token, check, latch.yields()).await;
        }
        if self.random.percent(80) {
            latch.close().await;
        }
        Ok(())
    }

    async fn elect(&mut self) -> Result<()> {
        let election = UnfairElection::start(self.client, Recipe::UnfairElection.path(), "")?;
        for _ in 0..=self.random.below(2) {
            let Some(leadership) = self.wait(election.leads()).await? else {
                break;
            };
            // The check only proves that some process leads, not which one.
            let (path, token) = (leadership.path(), leadership.token());
            self.hold(path, token, None, election.yields()).await;
        }
        if self.random.percent(80) {
            election.close().await;
        }
        Ok(())
    }

    async fn select(&mut self) -> Result<()> {
        let layout = self.layout();
        let selector = LeaderSelector::new(self.client, Recipe::LeaderSelector.path())?;
        let selector = selector.with_layout(layout);
        self.program.tell(ProgramEvent::Waits);
        let contender = &mut *self;
        let lead = |leadership: Leadership| async move {
            let (path, token) = (leadership.path(), leadership.token());
            let never = std::future::pending::<()>();
            contender
                .hold(path, token, Some(leadership.check()), never)
                .await;
        };
        selector.lead(lead).await.map(drop)
    }

    async fn queue(&mut self) -> Result<()> {
        let queue = Queue::new(self.client, Recipe::Queue.path())?;
        if self.random.percent(50) {
            let item = format!("item-{}-{}-", self.program.seed, self.items);
            self.items += 1;
            queue.put(item.clone()).await?;
            self.program.tell(ProgramEvent::Put(item));
            return Ok(());
        }
        // The producers may be slower.
        let limit = Duration::from_millis(500);
        let Ok(taken) = timeout(limit, queue.take()).await else {
            return Ok(());
        };
        let taken = taken?;
        let items: Vec<String> = taken
            .items()
            .iter()
            .map(|item| String::from_utf8_lossy(item).into_owned())
            .collect();
        let tell = |told: fn(String) -> ProgramEvent| {
            items
                .iter()
                .for_each(|item| self.program.tell(told(item.clone())));
        };
        tell(ProgramEvent::Taken);
        self.pause(0, 60).await;
        match self.random.below(10) {
            0 => drop(taken),
            1 => taken.give_back().await?,
            2 => drop(taken.requeue().await?),
            _ if taken.confirm().await? => tell(ProgramEvent::Confirmed),
            _ => {}
        }
        Ok(())
    }
}
