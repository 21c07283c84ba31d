//! Applications on a simulated ensemble.

use std::collections::BTreeSet;
use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use proto::SessionId;

use super::faults::micros;
use super::steps::{Event, OwnEvent, Steps};
use super::{Environment, Fault, Plan, Process, SimulationError, Sockets, carry_out};
use crate::network::Endpoint;
use crate::queue::{MS, Micros};
use crate::servers::{Remaining, Servers};
use crate::settings::EnsembleSettings;
use crate::world::World;

/// Interval at which the clock of an application advances.
const TICK: Micros = 10 * MS;

/// Main task of an application's process.
type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Applications on a simulated ensemble, in one thread, on simulated time.
///
/// The seed and the plan determine the run. An application is code that uses `zoarium-client` and
/// the clock of tokio. It runs on a tokio runtime whose clock the simulation moves, so a minute
/// takes milliseconds. It must not use threads, real I/O or the clock of the standard library.
/// `tokio::select!` needs `biased;`, because it otherwise polls its branches in a random order.
///
/// In this test, two instances of a job elect a leader. The leader writes rows to a store outside
/// of ZooKeeper, and the store refuses the tokens of earlier leaders. If it did not, a paused
/// leader would write after its successor. The test would then fail and report the seed that
/// repeats the run.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use std::time::Duration;
/// use client::{Client, Options};
/// use recipes::{LeaderSelector, Leadership};
/// use tokio::time::sleep;
/// use zoarium_simulation::{Plan, Simulation};
///
/// /// Tokens of the rows.
/// type Store = Arc<Mutex<Vec<i64>>>;
///
/// async fn write(store: Store, token: i64) {
///     sleep(Duration::from_millis(50)).await;
///     let mut rows = store.lock().expect("a store");
///     if rows.last().is_none_or(|last| *last <= token) {
///         rows.push(token);
///     }
/// }
///
/// async fn job(options: Options, store: Store) {
///     let options = options.with_renewal().with_session_timeout(Duration::from_secs(1));
///     let client = Client::connect(options.with_wait(Duration::MAX)).await;
///     let client = client.expect("a connection");
///     let selector = LeaderSelector::new(&client, "/job").expect("a valid path");
///     loop {
///         // Like the client of a database, the task continues if this future is dropped.
///         let work = |leadership: Leadership| {
///             tokio::spawn(write(store.clone(), leadership.token().0))
///         };
///         let _ = selector.lead(work).await;
///         sleep(Duration::from_millis(50)).await;
///     }
/// }
///
/// # fn main() -> Result<(), zoarium_simulation::SimulationError> {
/// for seed in 0..10 {
///     let (store, plan) = (Store::default(), Plan::drawn(seed, 2, Duration::from_secs(10)));
///     let mut simulation = Simulation::new(seed, &plan);
///     for _ in 0..2 {
///         let store = store.clone();
///         simulation.start(move |environment| job(environment.options(), store.clone()));
///     }
///     simulation.run_for(Duration::from_secs(20))?;
///     let rows = store.lock().expect("a store");
///     assert!(rows.is_sorted() && rows.len() > 20, "seed {seed}: {plan:?}");
/// }
/// # Ok(())
/// # }
/// ```
pub struct Simulation {
    pub(super) servers: Servers<Steps>,
    pub(super) applications: Vec<Application>,
    pub(super) faults: Vec<Fault>,
    /// Servers that are isolated from all others.
    pub(super) isolated: BTreeSet<usize>,
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation")
            .field("now", &self.now())
            .finish_non_exhaustive()
    }
}

/// An application, and its process while it has one.
pub(super) struct Application {
    main: Box<dyn Fn(Environment) -> Task>,
    process: Option<Process>,
    life: u64,
    /// End of a pause, or of the time without a process.
    pub(super) stands_until: Micros,
    /// Last known session.
    pub(super) session: Option<SessionId>,
    /// Whether the application's task has ended.
    is_over: bool,
}

impl Simulation {
    /// Creates a simulation whose servers start now.
    pub fn new(seed: u64, plan: &Plan) -> Self {
        let settings = EnsembleSettings::plain(plan.servers);
        let mut servers = Servers::new(World::new(seed, settings, Steps::default()));
        servers.start_all();
        for (number, (at, _)) in plan.faults().iter().enumerate() {
            let event = Event::Own(OwnEvent::Fault { number });
            servers.world.queue.at(micros(*at), event);
        }
        Self {
            servers,
            applications: Vec::new(),
            faults: plan.faults().iter().map(|(_, fault)| *fault).collect(),
            isolated: BTreeSet::new(),
        }
    }

    /// Adds an application, and returns its number. Its task starts now, and again after each
    /// restart.
    pub fn start<F>(&mut self, main: impl Fn(Environment) -> F + 'static) -> usize
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let application = self.applications.len();
        self.applications.push(Application {
            main: Box::new(move |environment| Box::pin(main(environment))),
            process: None,
            life: 0,
            stands_until: 0,
            session: None,
            is_over: false,
        });
        let event = Event::Own(OwnEvent::Tick { application });
        self.servers.world.queue.after(0, event);
        application
    }

    /// Prints starts, kills and faults to standard output from now on.
    pub fn print_steps(&mut self) {
        self.servers.world.prints = true;
    }

    /// Returns the time since the beginning.
    pub fn now(&self) -> Duration {
        Duration::from_micros(self.servers.world.now().unsigned_abs())
    }

    /// Returns the index of the leader, if any.
    pub fn leader(&self) -> Option<usize> {
        self.servers.leader()
    }

    /// Returns a number that is equal for equal runs.
    pub fn fingerprint(&self) -> u64 {
        self.servers.world.checks.fingerprint
    }

    /// Runs for this time.
    ///
    /// # Errors
    ///
    /// If the plan refers to a target that does not exist, a server cannot start, or a runtime
    /// cannot be created.
    ///
    /// # Panics
    ///
    /// If the task of an application panics.
    pub fn run_for(&mut self, duration: Duration) -> Result<(), SimulationError> {
        self.run_until(duration, |_| false).map(drop)
    }

    /// Runs until a condition holds, but at most for `longest`. Returns whether the condition
    /// holds.
    ///
    /// # Errors
    ///
    /// See [`Simulation::run_for`].
    ///
    /// # Panics
    ///
    /// If the task of an application panics.
    pub fn run_until(
        &mut self,
        longest: Duration,
        mut is_so: impl FnMut(&Self) -> bool,
    ) -> Result<bool, SimulationError> {
        let end = self.servers.world.now() + micros(longest);
        loop {
            if is_so(self) {
                return Ok(true);
            }
            match self.servers.world.queue.next(end) {
                Some(event) => self.happen(event)?,
                None => return Ok(is_so(self)),
            }
        }
    }

    fn happen(&mut self, event: Event) -> Result<(), SimulationError> {
        match self.servers.happen(event) {
            None => {}
            Some(Remaining::Start { server }) => {
                let started = self.servers.start(server);
                return started.map_err(|why| SimulationError::Server { server, why });
            }
            Some(Remaining::Own(OwnEvent::Tick { application })) => {
                return self.tick(application);
            }
            Some(Remaining::Own(OwnEvent::Fault { number })) => return self.begin_fault(number),
            Some(Remaining::Own(OwnEvent::Rejoin { target })) => self.rejoin(target),
            Some(Remaining::Own(OwnEvent::Expire { session })) => self.expire(session),
            Some(Remaining::Dialled {
                at,
                connection,
                is_open,
            }) => match self.process(at) {
                Some((number, process)) if process.sockets.dialled(connection, is_open) => {
                    self.run(number);
                }
                _ if is_open => self.servers.world.close(at, connection),
                _ => {}
            },
            Some(Remaining::Message {
                at,
                connection,
                message,
            }) => {
                if let Some((number, process)) = self.process(at) {
                    process.sockets.handle_message(connection, message);
                    self.note_session(number, connection);
                    self.run(number);
                }
            }
            Some(Remaining::Broken { at, connection }) => {
                if let Some((number, process)) = self.process(at) {
                    process.sockets.end(connection);
                    self.run(number);
                }
            }
        }
        Ok(())
    }

    /// Returns the process at this end of a connection, with the number of its application. Returns
    /// `None` if the process no longer runs.
    fn process(&self, place: Endpoint) -> Option<(usize, &Process)> {
        let Endpoint::Application { number, life } = place else {
            return None;
        };
        let application = self.applications.get(number)?;
        let process = application.process.as_ref()?;
        (application.life == life).then_some((number, process))
    }

    fn note_session(&mut self, number: usize, connection: u64) {
        let ends = self.servers.world.network.get(connection).map(|it| it.ends);
        let server = ends.and_then(|ends| ends[1].server());
        let process = server.and_then(|server| self.servers.process(server));
        if let Some(session) = process.and_then(|server| server.host.session_of(connection)) {
            self.applications[number].session = Some(session);
        }
    }

    /// Starts the process of an application if it is due, and advances the application's clock.
    fn tick(&mut self, number: usize) -> Result<(), SimulationError> {
        let world = &mut self.servers.world;
        let Some(application) = self.applications.get_mut(number).filter(|it| !it.is_over) else {
            return Ok(());
        };
        let event = Event::Own(OwnEvent::Tick {
            application: number,
        });
        world.queue.after(TICK, event);
        if application.process.is_none() && world.now() >= application.stands_until {
            application.life += 1;
            let environment = Environment {
                sockets: Sockets::default(),
                servers: world.settings.servers(),
                seed: world.random.any(),
                life: application.life,
            };
            world.say(format!("application {number}"), || "starts".into());
            let sockets = environment.sockets.clone();
            let main = (application.main)(environment);
            let process = Process::start(main, sockets, world.now_ms());
            application.process = Some(process.map_err(SimulationError::Runtime)?);
        }
        self.run(number);
        Ok(())
    }

    /// Runs an application until no task can run, and executes its network requests. A paused
    /// application does not run.
    fn run(&mut self, number: usize) {
        let world = &mut self.servers.world;
        let application = &mut self.applications[number];
        let place = application.place(number);
        let Some(process) = &mut application.process else {
            return;
        };
        if world.now() < application.stands_until {
            return;
        }
        process.run(world.now_ms());
        carry_out(&process.sockets, place, world);
        if process.is_over() {
            world.say(format!("application {number}"), || "ends".into());
            application.is_over = true;
            application.kill(number, world);
        }
    }
}

impl Application {
    fn place(&self, number: usize) -> Endpoint {
        let life = self.life;
        Endpoint::Application { number, life }
    }

    /// Ends the process and closes its connections.
    pub(super) fn kill(&mut self, number: usize, world: &mut World<Steps>) {
        let place = self.place(number);
        self.process = None;
        world.close_all(place);
    }
}
