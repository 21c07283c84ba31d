//! Clients. Each runs a program that the seed draws.

mod ephemerals;
pub(crate) mod lines;
mod owner;
mod protected;
mod quotas;
mod readers;
pub(crate) mod registers;
mod trees;
mod watches;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use client::{Client, Error, Options};
use testkit::Random;
use tokio::time::{sleep, timeout};

use crate::clients::lines::Dialer;
use crate::settings::{CLIENT_PORT, address_of};
use crate::world::World;

/// Time after which a client no longer waits for an answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns the servers for a connection.
pub(crate) fn servers(world: &World) -> String {
    let servers = world.settings.servers();
    let all: Vec<String> = servers
        .map(|member| format!("{}:{CLIENT_PORT}", address_of(member)))
        .collect();
    all.join(",")
}

/// Connects a client that opens a new session.
pub(crate) async fn connect(world: &World, random: &mut Random) -> Option<Client> {
    open(world, options(world, random)).await
}

/// Connects a client, and adds its identity in a secured run.
async fn open(world: &World, options: Options) -> Option<Client> {
    let client = Client::connect(options).await.ok()?;
    if let Some(security) = &world.settings.security {
        let identifying = timeout(PATIENCE, security.identify(&client)).await;
        identifying.ok()?.ok()?;
    }
    Some(client)
}

/// Draws the options of a client.
fn options(world: &World, random: &mut Random) -> Options {
    let timeout_ms = random.range(500, 30_000).unsigned_abs();
    if let Some(security) = &world.settings.security {
        let options = security.options(random).with_seed(random.any());
        return options.with_session_timeout(Duration::from_millis(timeout_ms));
    }
    let mut options = Options::new(&servers(world))
        .with_seed(random.any())
        .with_dialer(Arc::new(Dialer(world.lines.clone())))
        .with_session_timeout(Duration::from_millis(timeout_ms));
    if random.percent(20) {
        options = options.in_order();
    }
    if random.percent(20) {
        let wait_ms = random.range(1, 20_000).unsigned_abs();
        options = options.with_wait(Duration::from_millis(wait_ms));
    }
    if random.percent(20) {
        let connect_ms = random.range(100, 2000).unsigned_abs();
        options = options.with_connect_timeout(Duration::from_millis(connect_ms));
    }
    options
}

/// Runs a client until it has sent all its requests.
pub(crate) async fn run(world: Arc<World>, number: usize, mut random: Random) {
    let is_first = number == 0 || world.settings.security.is_some();
    let program = if is_first { 0 } else { random.below(11) };
    let mut actor = Actor {
        world: world.clone(),
        number,
        random,
    };
    match program {
        0..3 => registers::run(&mut actor).await,
        3 => owner::run(&mut actor).await,
        4 | 5 => ephemerals::run(&mut actor).await,
        6 => protected::run(&mut actor).await,
        7 => trees::run(&mut actor).await,
        8 => readers::run(&mut actor).await,
        9 if world.settings.enforces_quotas => quotas::run(&mut actor).await,
        _ => watches::run(&mut actor).await,
    }
    world.active.fetch_sub(1, Ordering::Relaxed);
}

/// A client, and the random numbers of its program.
struct Actor {
    world: Arc<World>,
    number: usize,
    random: Random,
}

/// Answer to a request.
enum Outcome<T> {
    Done(T),
    /// The server did not execute the request.
    Refused(Error),
    /// The server may have executed the request.
    Unsure,
}

impl<T> Outcome<T> {
    fn map<U>(self, change: impl FnOnce(T) -> U) -> Outcome<U> {
        match self {
            Self::Done(done) => Outcome::Done(change(done)),
            Self::Refused(error) => Outcome::Refused(error),
            Self::Unsure => Outcome::Unsure,
        }
    }
}

impl Actor {
    /// Pauses before the next step. Returns whether the program continues.
    async fn pause(&mut self) -> bool {
        let pause_ms = self.random.range(0, 1500).unsigned_abs();
        sleep(Duration::from_millis(pause_ms)).await;
        self.world.found().is_none()
    }

    /// Connects with options, or pauses.
    async fn connect(&mut self, change: impl Fn(Options) -> Options) -> Option<Client> {
        let options = change(options(&self.world, &mut self.random));
        open(&self.world, options).await
    }

    /// Waits for an answer. In some cases, the future is dropped after a short time.
    async fn ask<T>(&mut self, asking: impl Future<Output = client::Result<T>>) -> Outcome<T> {
        let patience = if self.random.percent(3) {
            Duration::from_millis(self.random.range(0, 50).unsigned_abs())
        } else {
            PATIENCE
        };
        let Ok(answer) = timeout(patience, asking).await else {
            return Outcome::Unsure;
        };
        match answer {
            Ok(done) => {
                self.world.done.fetch_add(1, Ordering::Relaxed);
                Outcome::Done(done)
            }
            Err(
                error @ (Error::Op { .. }
                | Error::Multi { .. }
                | Error::Unreachable { .. }
                | Error::TooLarge { .. }
                | Error::Path { .. }
                | Error::SequentialContainer { .. }),
            ) => Outcome::Refused(error),
            Err(_) => Outcome::Unsure,
        }
    }

    /// Creates a directory for the program, whatever happens. Returns `false` if the run ends.
    async fn create_directory(&mut self, path: &str) -> bool {
        while self.pause().await {
            if let Some(client) = self.connect(|options| options).await
                && let Outcome::Done(()) = self.ask(client.ensure_path(path)).await
            {
                let _ = timeout(PATIENCE, client.close()).await;
                return true;
            }
        }
        false
    }

    fn require(&self, is_true: bool, invariant: &'static str, text: impl FnOnce() -> String) {
        if !is_true {
            self.world.report(invariant, &text());
        }
    }
}

/// Returns whether the client can no longer use its session.
fn has_ended(client: &Client) -> bool {
    client.state().borrow().is_end()
}

/// Returns the result of a future that is ready.
fn ready<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}
