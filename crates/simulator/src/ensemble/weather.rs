//! Faults of a run, and their ends.

use simulation::configured::dirs_of;
use simulation::queue::{MS, SECOND};

use super::Ensemble;
use super::damage;
use crate::client::SLEEP_MAX;
use crate::simulated::{Event, OwnEvent, World};
use proto::Epoch;
use testkit::SyncFault;

impl Ensemble {
    /// Schedules the first fault of the storm.
    pub(crate) fn begin_weather(&mut self) {
        self.servers
            .world
            .queue
            .after(SECOND, Event::Own(OwnEvent::Weather));
    }

    /// Causes a fault or ends one.
    pub(super) fn blow(&mut self) {
        if self.servers.world.is_healed {
            return;
        }
        let pause = self.servers.world.checks.plan.pause;
        let next = self.servers.world.random.range(pause / 4, 2 * pause);
        self.servers
            .world
            .queue
            .after(next, Event::Own(OwnEvent::Weather));
        if self.servers.world.checks.plan.strikes && self.servers.world.random.percent(40) {
            return self.strike();
        }
        if self.servers.world.checks.plan.features.has_oracle
            && self.servers.world.random.percent(40)
        {
            return self.turn_oracle();
        }
        if self.servers.world.checks.plan.lists_rot && self.servers.world.random.percent(10) {
            return self.rot_list();
        }
        let has_bad_disks = self.servers.world.checks.plan.has_bad_disks;
        // Few seeds have a standalone server, and its process syncs in place only until the first
        // stall of its disk. The disk of a standalone server therefore stalls more often.
        let (stall_percent, stand_percent) = if self.servers.world.checks.plan.is_standalone() {
            (30, 10)
        } else {
            (20, 50)
        };
        if self.servers.world.checks.plan.has_stalls
            && self.servers.world.random.percent(stall_percent)
        {
            return if self.servers.world.random.percent(stand_percent) {
                self.stand_still();
            } else {
                self.hang_disk();
            };
        }
        if self.servers.world.checks.plan.has_wrong_clocks && self.servers.world.random.percent(10)
        {
            return self.set_clock();
        }
        if self.servers.world.checks.plan.ends_early {
            match self.servers.world.random.below(100) {
                0..=19 => return self.leave_leader_alone(),
                20..=29 => return self.ask_for_snapshot(),
                _ => {}
            }
        }
        match self.servers.world.random.below(100) {
            0..=14 => self.stop(true),
            15..=21 => self.stop(false),
            22..=33 => self.cut_some(),
            34..=39 => self.isolate_one(),
            40..=47 => {
                let World { network, queue, .. } = &mut self.servers.world;
                network.heal(queue);
            }
            48..=57 => self.break_some(false),
            58..=63 => self.break_some(true),
            64..=73 => self.disturb_client(),
            74..=79 if has_bad_disks => self.spoil_disk(),
            80..=81 if has_bad_disks => self.hang_disk(),
            82..=84 if has_bad_disks => self.rot(),
            87 => self.promise_more(),
            85..=88 => self.stop_leader(),
            _ => self.start_some(),
        }
    }

    pub(super) fn any_server(&mut self) -> usize {
        self.servers.world.random.below(self.servers.machines.len())
    }

    /// Stops a process, alone or together with its machine. The process restarts later.
    fn stop(&mut self, with_power: bool) {
        let index = self.any_server();
        self.stop_one(index, with_power);
    }

    pub(super) fn stop_one(&mut self, index: usize, with_power: bool) {
        if with_power {
            self.lose_power(index);
        } else {
            self.kill(index);
        }
        let longest = if self.servers.world.random.percent(70) {
            500 * MS
        } else {
            5 * SECOND
        };
        let delay = self.servers.world.random.range(10 * MS, longest);
        self.servers
            .world
            .queue
            .after(delay, Event::Start { server: index });
    }

    /// Stops the leader, or all servers simultaneously.
    fn stop_leader(&mut self) {
        let with_power = self.servers.world.random.percent(70);
        if self.servers.world.random.percent(30) {
            for index in 0..self.servers.machines.len() {
                self.stop_one(index, with_power);
            }
        } else if let Some(leader) = self.leader() {
            self.stop_one(leader, with_power);
        }
    }

    fn start_some(&mut self) {
        let index = self.any_server();
        self.start(index);
    }

    /// Cuts a network path in one or both directions.
    fn cut_some(&mut self) {
        let (one, other) = (self.any_server(), self.any_server());
        if one == other {
            return;
        }
        self.servers.world.say("network", || {
            format!("the connection from {} to {} is cut", one + 1, other + 1)
        });
        self.servers.world.network.cut(one, other);
        if self.servers.world.random.percent(60) {
            self.servers.world.network.cut(other, one);
        }
        self.break_cut();
    }

    /// Isolates a server or splits the ensemble in two.
    pub(super) fn isolate_one(&mut self) {
        let count = self.servers.machines.len();
        let mut inside: Vec<usize> = vec![self.any_server()];
        if self.servers.world.random.percent(50) {
            inside = (0..count)
                .filter(|_| self.servers.world.random.percent(50))
                .collect();
        }
        self.servers.world.say("network", || {
            format!("servers {inside:?} (counted from 0) are isolated")
        });
        for one in &inside {
            for other in (0..count).filter(|other| !inside.contains(other)) {
                self.servers.world.network.cut(*one, other);
                self.servers.world.network.cut(other, *one);
            }
        }
        self.break_cut();
    }

    /// Breaks some connections over cut paths, each end separately. The other connections stall.
    fn break_cut(&mut self) {
        for connection in self.servers.world.network.between_servers(true) {
            for end in 0..2 {
                if self.servers.world.random.percent(60) {
                    let delay = self.servers.world.random.range(MS, 3 * SECOND);
                    self.servers
                        .world
                        .queue
                        .after(delay, Event::Broken { connection, end });
                }
            }
        }
    }

    /// Breaks a connection between servers at both ends. With `are_many`, also breaks other
    /// connections.
    fn break_some(&mut self, are_many: bool) {
        let connections = self.servers.world.network.between_servers(false);
        let chosen = self.servers.world.random.below(connections.len());
        for (at, connection) in connections.into_iter().enumerate() {
            if at == chosen || (are_many && self.servers.world.random.percent(30)) {
                for end in 0..2 {
                    let delay = self.servers.world.random.range(0, 100 * MS);
                    self.servers
                        .world
                        .queue
                        .after(delay, Event::Broken { connection, end });
                }
            }
        }
    }

    /// Breaks the connection of a client, or makes the client sleep for a while.
    fn disturb_client(&mut self) {
        let chosen = self.servers.world.random.below(self.clients.len());
        let sleeps = self.servers.world.random.percent(30);
        let now = self.servers.world.now();
        let sleep = self.servers.world.random.range(MS, SLEEP_MAX);
        let lag = self.servers.world.random.range(0, 600 * MS);
        let Some(client) = self.clients.get_mut(chosen) else {
            return;
        };
        if sleeps {
            client.asleep_until = now + sleep;
        } else if let Some(connection) = client.connection {
            // Packets that the client has sent may still arrive, even after it has reconnected to
            // another server.
            self.servers.world.network.slow_down(connection, 0, lag);
            let event = Event::Broken { connection, end: 1 };
            self.servers.world.queue.after(2 * lag, event);
            let event = Event::Broken { connection, end: 0 };
            self.servers.world.queue.after(0, event);
        }
    }

    /// Makes the next reads or the next sync of a server fail, or fills its disk until the faults
    /// end.
    fn spoil_disk(&mut self) {
        let index = self.any_server();
        let disk = self.servers.machines[index].disk.clone();
        if self.servers.world.random.percent(20) {
            disk.fail_next_reads(u32::try_from(self.servers.world.random.below(20)).unwrap_or(1));
            self.servers.world.say(format!("server {}", index + 1), || {
                "has a disk that cannot be read".into()
            });
        } else if self.servers.world.random.percent(70) {
            let fault = match self.servers.world.random.below(3) {
                0 => SyncFault::Fails,
                1 => SyncFault::FailsAndForgets,
                _ => SyncFault::FailsAndShows,
            };
            disk.fail_next_sync(fault);
        } else {
            disk.set_full(true);
            self.servers
                .world
                .say(format!("server {}", index + 1), || "has a full disk".into());
        }
    }

    /// Corrupts data on the disk of a random server, unless too many voters have corrupt disks.
    fn rot(&mut self) {
        let index = self.any_server();
        let voters = self.servers.world.checks.plan.voters;
        let rotten = self.damage[..voters]
            .iter()
            .filter(|damage| damage.is_rotten)
            .count();
        if rotten + 1 > (voters - 1) / 2 && !self.damage[index].is_rotten {
            return;
        }
        let (disk, random) = (
            &self.servers.machines[index].disk,
            &mut self.servers.world.random,
        );
        let [data, _] = dirs_of(&self.servers.world.settings);
        let numbers =
            ["currentEpoch", "acceptedEpoch"].map(|name| data.join(VERSION_DIR).join(name));
        let rotten = if random.percent(20) {
            disk.rot_number(&[&numbers[0], &numbers[1]], random)
        } else {
            disk.rot(random)
        };
        if let Some(path) = rotten {
            self.damage[index].is_rotten = true;
            self.servers.world.say(format!("server {}", index + 1), || {
                format!("{} rots", path.display())
            });
        }
    }

    /// Corrupts the file of the current or the proposed member list, and stops the server. The
    /// server notices the corruption at its next start.
    fn rot_list(&mut self) {
        let index = self.any_server();
        let (disk, random) = (
            &self.servers.machines[index].disk,
            &mut self.servers.world.random,
        );
        if self.damage[index].lost_list.is_none()
            && let Ok(Some(lost)) = damage::rot(disk, random)
        {
            self.servers.world.say(format!("server {}", index + 1), || {
                format!("{} rots", lost.path.display())
            });
            self.damage[index].lost_list = Some(lost);
            self.stop_one(index, false);
        }
    }

    /// Raises the accepted epoch in a server's file. The server notices this at its next start.
    fn promise_more(&mut self) {
        let index = self.any_server();
        let [data, _] = dirs_of(&self.servers.world.settings);
        let path = data.join(VERSION_DIR).join("acceptedEpoch");
        let disk = &self.servers.machines[index].disk;
        let content = disk.content(&path);
        let text = content.and_then(|content| String::from_utf8(content).ok());
        let Some(accepted) = text.and_then(|text| text.parse().ok()).map(Epoch) else {
            return;
        };
        let more = Epoch(accepted.0 + self.servers.world.random.range(1, 4));
        disk.set_content(&path, more.0.to_string().as_bytes());
        self.servers.world.say(format!("server {}", index + 1), || {
            format!("has promised epoch {} on disk", more.0)
        });
    }
}

/// Subdirectory of a data directory that contains the files.
const VERSION_DIR: &str = "version-2";
