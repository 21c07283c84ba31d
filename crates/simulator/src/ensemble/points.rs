//! Points of a storm, at which another future begins, and the faults that only such futures have.
//!
//! A point often lies at the moment of a rare step of a server. The new future therefore often
//! begins with a fault. The faults of this module hold back one kind of work of a server, as a slow
//! thread would, or stop servers just then.

use simulation::queue::{MS, Micros, SECOND};
use simulation::world::HeldWork;

use super::Ensemble;
use crate::simulated::{Event, OwnEvent};
use crate::storms::Point;

/// Minimum duration of a storm after its last point.
const STORM_AFTER_MIN: Micros = 4 * SECOND;

/// Work that may be held back.
const WORK: [HeldWork; 5] = [
    HeldWork::Sync,
    HeldWork::SaveCurrent,
    HeldWork::Truncate,
    HeldWork::AdoptSnapshot,
    HeldWork::DueSnapshot,
];

impl Ensemble {
    /// Runs the whole storm.
    pub(crate) fn run_storm(&mut self, points: &[Point]) {
        for point in points {
            self.run_to(point.at);
            self.begin_future(*point);
        }
        self.run_to(self.servers.world.checks.plan.storm);
    }

    fn run_to(&mut self, end: Micros) {
        self.run(end - self.servers.world.now());
    }

    /// Begins another future: other random numbers, another frequency of faults, and often a fault
    /// immediately.
    fn begin_future(&mut self, point: Point) {
        let world = &mut self.servers.world;
        world.draw_from(point.seed);
        world.checks.coverage.now = point.at;
        world.say("weather", || format!("another future, seed {}", point.seed));
        let random = &mut world.random;
        let pause = random.pick(&[50, 150, 300, 600]).unwrap_or(300) * MS;
        let (ends_early, strikes_now) = (random.percent(50), random.percent(60));
        let plan = &mut world.checks.plan;
        plan.storm = plan.storm.max(point.at + STORM_AFTER_MIN);
        plan.pause = pause;
        plan.ends_early = ends_early && !plan.is_standalone();
        plan.strikes = true;
        if strikes_now {
            self.strike();
        }
    }

    /// Causes one of the faults that may follow a point.
    pub(super) fn strike(&mut self) {
        match self.servers.world.random.below(100) {
            0..=14 => self.stop_one_or_leader(true),
            15..=24 => self.stop_one_or_leader(false),
            25..=34 => self.unplug_some(),
            35..=59 => self.hold_some(),
            60..=69 => self.isolate_one(),
            70..=81 => self.ask_for_snapshot(),
            82..=91 => self.leave_leader_alone(),
            _ => self.all_look_again(),
        }
    }

    fn leader_or_any(&mut self) -> usize {
        let any = self.any_server();
        let wants_leader = self.servers.world.random.percent(50);
        self.leader().filter(|_| wants_leader).unwrap_or(any)
    }

    fn stop_one_or_leader(&mut self, with_power: bool) {
        let index = self.leader_or_any();
        self.stop_one(index, with_power);
    }

    /// Cuts the power of some machines before their disks complete any queued work.
    fn unplug_some(&mut self) {
        let percent = self.servers.world.random.pick(&[30, 60, 100]);
        for server in 0..self.servers.machines.len() {
            if !self.servers.world.random.percent(percent.unwrap_or(60)) {
                continue;
            }
            self.unplug(server);
            let delay = self.servers.world.random.range(10 * MS, 2 * SECOND);
            let event = Event::Start { server };
            self.servers.world.queue.after(delay, event);
        }
    }

    /// Holds back one kind of work of some servers for a while.
    fn hold_some(&mut self) {
        let random = &mut self.servers.world.random;
        let work = random.pick(&WORK).unwrap_or(HeldWork::Sync);
        let percent = random.pick(&[30, 60]).unwrap_or(30);
        let longest = random.pick(&[200 * MS, SECOND, 3 * SECOND]);
        for server in 0..self.servers.machines.len() {
            let world = &mut self.servers.world;
            if world.random.percent(percent) {
                let delay = world.random.range(20 * MS, longest.unwrap_or(SECOND));
                world.say(format!("server {}", server + 1), || {
                    format!("holds back {work:?} for {} ms", delay / MS)
                });
                world.held.insert((server, work));
                let event = Event::Own(OwnEvent::Release { server, work });
                world.queue.after(delay, event);
            }
        }
    }

    /// Cuts the power. Unsynced data is lost, and queued jobs of the disk do not start.
    pub(crate) fn unplug(&mut self, server: usize) {
        self.kill(server);
        let disk = self.servers.machines[server].disk.clone();
        disk.lose_power(&mut self.servers.world.random, false);
    }
}
