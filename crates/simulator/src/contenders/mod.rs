//! Recipes on simulated time. Processes with the shipped client and recipes compete on simulated
//! servers. They lose their connections, pause, and are killed.

mod drawn;
mod groups;
mod items;
mod locks;
mod meetings;
mod programs;
mod reports;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use simulation::application::{Process, Sockets, carry_out};
use simulation::network::{Endpoint, Message};
use simulation::queue::{MS, Micros, SECOND};
use testkit::Random;

use crate::invariants::recipes::{self, Moment, Recipe, Recipes};
use crate::simulated::{Event, OwnEvent, World};
use programs::{Program, live};

/// Interval at which the clock of an idle process advances.
const TICK: Micros = 5 * MS;
/// Number of disturbances per thousand ticks. Each process is disturbed about every two seconds.
const DISTURBED_PER_MILLE: usize = 3;
/// Minimum progress (completed steps, such as grants) of each contender between the end of the
/// faults and its own end.
const DONE_MIN: usize = 5;

/// A contender: a process that is restarted after a kill.
struct Contender {
    recipe: Recipe,
    life: u64,
    process: Option<Running>,
    /// End of a pause of the process.
    stands_until: Micros,
    /// Number of grants, puts, takes and other completed steps since the counter was reset.
    done: usize,
    is_waiting: bool,
    /// Beginning of the current observation.
    since: Moment,
    is_over: bool,
}

/// A running process and its program.
struct Running {
    process: Process,
    program: Arc<Program>,
}

/// All contenders of a run.
#[derive(Default)]
pub(crate) struct Contenders {
    all: Vec<Contender>,
    judged: Recipes,
    /// Whether contenders no longer start new work.
    is_ending: bool,
    /// Number of grants, puts, takes and other completed steps of each recipe.
    pub(crate) done: Vec<(Recipe, usize)>,
}

impl Contenders {
    /// Draws several contenders for the recipe `only`, or for each of two drawn recipes if `only`
    /// is `None`.
    pub(crate) fn drawn(random: &mut Random, only: Option<Recipe>) -> Self {
        let mut recipes = BTreeSet::new();
        match only {
            Some(recipe) => drop(recipes.insert(recipe)),
            None => {
                while recipes.len() < 2 {
                    recipes.extend(random.pick(&Recipe::DRAWN));
                }
            }
        }
        let mut all = Vec::new();
        for recipe in recipes.iter().copied() {
            for _ in 0..random.range(2, 5) {
                all.push(Contender {
                    recipe,
                    life: 0,
                    process: None,
                    stands_until: 0,
                    done: 0,
                    is_waiting: false,
                    since: Moment::default(),
                    is_over: false,
                });
            }
        }
        Self {
            all,
            done: recipes.into_iter().map(|recipe| (recipe, 0)).collect(),
            ..Self::default()
        }
    }

    /// Schedules the start of all contenders, after which their clocks advance.
    pub(crate) fn begin(&mut self, world: &mut World) {
        for number in 0..self.all.len() {
            let delay = world.random.range(0, SECOND);
            world
                .queue
                .after(delay, Event::Own(OwnEvent::Contend { number }));
        }
    }

    /// Advances the clock of a process. If the process does not run, starts it first.
    pub(crate) fn tick(&mut self, number: usize, world: &mut World) {
        world
            .queue
            .after(TICK, Event::Own(OwnEvent::Contend { number }));
        if !world.is_healed && world.random.below(1000) < DISTURBED_PER_MILLE {
            self.disturb(world);
        }
        let Some(contender) = self.all.get_mut(number) else {
            return;
        };
        if contender.process.is_none()
            && !contender.is_over
            && world.now() >= contender.stands_until
        {
            contender.life += 1;
            let program = Program {
                recipe: contender.recipe,
                number,
                seed: world.random.any(),
                session_timeout: Duration::from_millis(
                    u64::try_from(world.random.range(600, 2000)).unwrap_or(2000),
                ),
                servers: world.settings.servers(),
                told: parking_lot::Mutex::default(),
                is_ending: self.is_ending.into(),
                is_calm: is_calm(world).into(),
            };
            world.say(name_of(number), || {
                format!("starts, {:?}", contender.recipe)
            });
            let (program, sockets) = (Arc::new(program), Sockets::default());
            let main = live(Arc::clone(&program), sockets.clone());
            match Process::start(main, sockets, world.now_ms()) {
                Ok(process) => contender.process = Some(Running { process, program }),
                Err(error) => {
                    let text = format!("cannot create a runtime for a contender: {error}");
                    world.checks.fail(recipes::NAME, text);
                }
            }
        }
        self.run(number, world);
    }

    /// Runs a process until it has no more work, and checks its reports.
    fn run(&mut self, number: usize, world: &mut World) {
        let Some(contender) = self.all.get_mut(number) else {
            return;
        };
        if world.now() < contender.stands_until {
            return;
        }
        let place = contender.place(number);
        let Some(Running { process, program }) = &mut contender.process else {
            return;
        };
        process.run(world.now_ms());
        let told = program.take_told();
        let sockets = process.sockets.clone();
        carry_out(&sockets, place, world);
        for told in told {
            self.hear(number, told, world);
        }
        let held = self.judged.committed(&world.checks.history);
        world.checks.hold(recipes::NAME, held);
        if sockets.open().is_empty() {
            let held = self.judged.is_cut_off(number);
            world.checks.hold(recipes::NAME, held);
        }
    }

    /// Returns the process at this endpoint, and its number, if the process still runs.
    fn process(&self, place: Endpoint) -> Option<(usize, &Process)> {
        let Endpoint::Application { number, life } = place else {
            return None;
        };
        let contender = self.all.get(number)?;
        let process = &contender.process.as_ref()?.process;
        (contender.life == life).then_some((number, process))
    }

    pub(crate) fn dialled(
        &mut self,
        place: Endpoint,
        connection: u64,
        is_open: bool,
        world: &mut World,
    ) {
        let found = self.process(place);
        let number = found.filter(|(_, of)| of.sockets.dialled(connection, is_open));
        match number.map(|(number, _)| number) {
            Some(number) => self.run(number, world),
            None if is_open => world.close(place, connection),
            None => {}
        }
    }

    pub(crate) fn receive(
        &mut self,
        place: Endpoint,
        connection: u64,
        message: Message,
        world: &mut World,
    ) {
        let Some((number, process)) = self.process(place) else {
            return;
        };
        process.sockets.handle_message(connection, message);
        self.run(number, world);
    }

    /// Handles a broken connection.
    pub(crate) fn broken(&mut self, place: Endpoint, connection: u64, world: &mut World) {
        if let Some((number, process)) = self.process(place) {
            process.sockets.end(connection);
            self.run(number, world);
        }
    }

    /// Disturbs one process, most often one that holds a grant.
    fn disturb(&mut self, world: &mut World) {
        let holders = self.judged.holders();
        let anybody = world.random.below(self.all.len());
        let holder = world
            .random
            .pick(&holders)
            .filter(|_| world.random.percent(60));
        let number = holder.unwrap_or(anybody);
        let longest = world
            .random
            .pick(&[50 * MS, SECOND, 5 * SECOND, 5 * SECOND]);
        let pause = world.random.range(10 * MS, longest.unwrap_or(SECOND));
        let lag = world.random.range(0, 600 * MS);
        let kind = world.random.below(10);
        let Some(contender) = self.all.get_mut(number) else {
            return;
        };
        let place = contender.place(number);
        let Some(Running { process, .. }) = &contender.process else {
            return;
        };
        match kind {
            0..=1 => {
                world.say(name_of(number), || "is killed".into());
                contender.process = None;
                contender.stands_until = world.now() + pause;
                self.judged.yielded(number);
                if contender.is_waiting {
                    self.judged.unknown(contender.recipe);
                }
                contender.is_waiting = false;
                world.close_all(place);
            }
            2..=5 => {
                world.say(name_of(number), || format!("pauses for {} ms", pause / MS));
                contender.stands_until = world.now() + pause;
            }
            _ => {
                for connection in process.sockets.open() {
                    world.say(name_of(number), || "loses its connection".into());
                    // Packets that the process has sent may still arrive, even after it has
                    // reconnected to another server.
                    world.network.slow_down(connection, 0, lag);
                    let event = Event::Broken { connection, end: 1 };
                    world.queue.after(2 * lag, event);
                    let event = Event::Broken { connection, end: 0 };
                    world.queue.after(0, event);
                }
            }
        }
    }

    /// Ends the faults. From now on every contender must make progress.
    pub(crate) fn heal(&mut self, world: &World) {
        for contender in &mut self.all {
            contender.stands_until = 0;
            contender.done = 0;
            if let Some(running) = &contender.process {
                running.program.set_calm(is_calm(world));
            }
        }
    }

    /// Checks that every contender has made progress since the end of the faults. A candidate of an
    /// unfair election that waits indefinitely is found only when all others have ended.
    pub(crate) fn get_on(&self) -> Result<(), String> {
        // A slower candidate may never win an unfair election while other candidates exist.
        let is_unfair = |contender: &Contender| contender.recipe == Recipe::UnfairElection;
        let unfair = self.all.iter().filter(|contender| is_unfair(contender));
        let (count, sum) = unfair.fold((0, 0), |(count, sum), of| (count + 1, sum + of.done));
        if sum < count * DONE_MIN {
            return Err(format!(
                "{count} candidates led only {sum} times after the faults"
            ));
        }
        let fair = |(_, contender): &(usize, &Contender)| !is_unfair(contender);
        let mut all = self.all.iter().enumerate().filter(fair);
        match all.find(|(_, contender)| contender.done < DONE_MIN) {
            Some((number, contender)) => Err(format!(
                "contender {number} ({:?}) acquired only {} times after the faults; it waits: {}",
                contender.recipe, contender.done, contender.is_waiting
            )),
            None => Ok(()),
        }
    }

    /// Requests that all contenders end in an orderly way.
    pub(crate) fn end(&mut self) {
        self.is_ending = true;
        let processes = self.all.iter().filter_map(|one| one.process.as_ref());
        processes.for_each(|running| running.program.end());
    }

    /// Checks that all contenders have ended.
    pub(crate) fn are_over(&self) -> Result<(), String> {
        let mut all = self.all.iter().enumerate();
        match all.find(|(_, contender)| !contender.is_over) {
            Some((number, contender)) => Err(format!(
                "contender {number} ({:?}) does not end; it waits: {}",
                contender.recipe, contender.is_waiting
            )),
            None => Ok(()),
        }
    }

    /// Checks what the contenders have left in the tree after all sessions are over.
    pub(crate) fn judge_leftovers(&self, world: &mut World) {
        let held = self.judged.at_the_end(&world.checks.history);
        world.checks.hold(recipes::NAME, held);
    }
}

impl Contender {
    fn place(&self, number: usize) -> Endpoint {
        let life = self.life;
        Endpoint::Application { number, life }
    }
}

/// Returns whether all faults have ended and all clocks are correct.
fn is_calm(world: &World) -> bool {
    world.is_healed && !world.checks.plan.has_wrong_clocks
}

fn name_of(number: usize) -> String {
    format!("contender {number}")
}
