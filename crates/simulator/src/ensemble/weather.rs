//! The faults of a run, and their ends.

use super::Ensemble;
use crate::client::SLEEP_MAX;
use crate::configured::dirs_of;
use crate::member_files;
use crate::plan::{MS, SECOND};
use crate::queue::Event;
use crate::world::World;
use proto::Epoch;
use testkit::SyncFault;

impl Ensemble {
    /// Starts the storm.
    pub(crate) fn begin_weather(&mut self) {
        self.world.queue.after(SECOND, Event::Weather);
    }

    /// Causes a fault, or ends one.
    pub(super) fn blow(&mut self) {
        if self.world.is_healed {
            return;
        }
        let pause = self.world.plan.pause;
        let next = self.world.random.range(pause / 4, 2 * pause);
        self.world.queue.after(next, Event::Weather);
        if self.world.plan.features.has_oracle && self.world.random.percent(40) {
            return self.turn_oracle();
        }
        if self.world.plan.lists_rot && self.world.random.percent(10) {
            return self.rot_list();
        }
        let has_bad_disks = self.world.plan.has_bad_disks;
        // Few seeds have a standalone server, and a process syncs in place until its disk stalls.
        let (stall_percent, stand_percent) = if self.world.plan.is_standalone() {
            (30, 10)
        } else {
            (20, 50)
        };
        if self.world.plan.has_stalls && self.world.random.percent(stall_percent) {
            return if self.world.random.percent(stand_percent) {
                self.stand_still()
            } else {
                self.hang_disk()
            };
        }
        if self.world.plan.has_wrong_clocks && self.world.random.percent(10) {
            return self.set_clock();
        }
        if self.world.plan.ends_early {
            match self.world.random.below(100) {
                0..=19 => return self.leave_leader_alone(),
                20..=29 => return self.ask_for_snapshot(),
                _ => {}
            }
        }
        match self.world.random.below(100) {
            0..=14 => self.stop(true),
            15..=21 => self.stop(false),
            22..=33 => self.cut_some(),
            34..=39 => self.isolate_one(),
            40..=47 => {
                let World { network, queue, .. } = &mut self.world;
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
        self.world.random.below(self.machines.len())
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
        let longest = if self.world.random.percent(70) {
            500 * MS
        } else {
            5 * SECOND
        };
        let delay = self.world.random.range(10 * MS, longest);
        self.world
            .queue
            .after(delay, Event::Start { server: index });
    }

    /// Stops the leader, or all servers simultaneously.
    fn stop_leader(&mut self) {
        let with_power = self.world.random.percent(70);
        if self.world.random.percent(30) {
            for index in 0..self.machines.len() {
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
        self.world.say("network", || {
            format!("the connection from {} to {} is cut", one + 1, other + 1)
        });
        self.world.network.cut(one, other);
        if self.world.random.percent(60) {
            self.world.network.cut(other, one);
        }
        self.break_cut();
    }

    /// Isolates a server, or splits the ensemble in two.
    fn isolate_one(&mut self) {
        let count = self.machines.len();
        let mut inside: Vec<usize> = vec![self.any_server()];
        if self.world.random.percent(50) {
            inside = (0..count)
                .filter(|_| self.world.random.percent(50))
                .collect();
        }
        self.world.say("network", || {
            format!("servers {inside:?} (counted from 0) are isolated")
        });
        for one in &inside {
            for other in (0..count).filter(|other| !inside.contains(other)) {
                self.world.network.cut(*one, other);
                self.world.network.cut(other, *one);
            }
        }
        self.break_cut();
    }

    /// Breaks some connections over cut paths, each end separately. The other connections stall.
    fn break_cut(&mut self) {
        for connection in self.world.network.between_servers(true) {
            for end in 0..2 {
                if self.world.random.percent(60) {
                    let delay = self.world.random.range(MS, 3 * SECOND);
                    self.world
                        .queue
                        .after(delay, Event::Broken { connection, end });
                }
            }
        }
    }

    /// Breaks one connection between servers at both ends, or many of them.
    fn break_some(&mut self, are_many: bool) {
        let connections = self.world.network.between_servers(false);
        let chosen = self.world.random.below(connections.len());
        for (at, connection) in connections.into_iter().enumerate() {
            if at == chosen || (are_many && self.world.random.percent(30)) {
                for end in 0..2 {
                    let delay = self.world.random.range(0, 100 * MS);
                    self.world
                        .queue
                        .after(delay, Event::Broken { connection, end });
                }
            }
        }
    }

    /// Breaks the connection of a client, or makes the client sleep for a while.
    fn disturb_client(&mut self) {
        let chosen = self.world.random.below(self.clients.len());
        let sleeps = self.world.random.percent(30);
        let now = self.world.now();
        let sleep = self.world.random.range(MS, SLEEP_MAX);
        let lag = self.world.random.range(0, 600 * MS);
        let Some(client) = self.clients.get_mut(chosen) else {
            return;
        };
        if sleeps {
            client.asleep_until = now + sleep;
        } else if let Some(connection) = client.connection {
            // Packets that it has sent may still arrive, even after it has reconnected to another
            // server.
            self.world.network.slow_down(connection, 0, lag);
            let event = Event::Broken { connection, end: 1 };
            self.world.queue.after(2 * lag, event);
            let event = Event::Broken { connection, end: 0 };
            self.world.queue.after(0, event);
        }
    }

    /// Makes the next sync of a server fail, or fills its disk for a while.
    fn spoil_disk(&mut self) {
        let index = self.any_server();
        let disk = self.machines[index].disk.clone();
        if self.world.random.percent(20) {
            disk.fail_next_reads(u32::try_from(self.world.random.below(20)).unwrap_or(1));
            self.world.say(format!("server {}", index + 1), || {
                "has a disk that cannot be read".into()
            });
        } else if self.world.random.percent(70) {
            let fault = match self.world.random.below(3) {
                0 => SyncFault::Fails,
                1 => SyncFault::FailsAndForgets,
                _ => SyncFault::FailsAndShows,
            };
            disk.fail_next_sync(fault);
        } else {
            disk.set_full(true);
            self.world
                .say(format!("server {}", index + 1), || "has a full disk".into());
        }
    }

    /// Flips a bit on the disk of a server, if few enough disks are corrupt.
    fn rot(&mut self) {
        let index = self.any_server();
        let voters = self.world.plan.voters;
        let rotten = self.machines[..voters]
            .iter()
            .filter(|machine| machine.is_rotten)
            .count();
        if rotten + 1 > (voters - 1) / 2 && !self.machines[index].is_rotten {
            return;
        }
        let (disk, random) = (&self.machines[index].disk, &mut self.world.random);
        let [data, _] = dirs_of(&self.world.plan);
        let numbers =
            ["currentEpoch", "acceptedEpoch"].map(|name| data.join(VERSION_DIR).join(name));
        let rotten = if random.percent(20) {
            disk.rot_number(&[&numbers[0], &numbers[1]], random)
        } else {
            disk.rot(random)
        };
        if let Some(path) = rotten {
            self.machines[index].is_rotten = true;
            self.world.say(format!("server {}", index + 1), || {
                format!("{} rots", path.display())
            });
        }
    }

    /// Corrupts the file of the current or the proposed member list, or deletes both. The server
    /// notices at its next start.
    fn rot_list(&mut self) {
        let index = self.any_server();
        let (disk, random) = (&self.machines[index].disk, &mut self.world.random);
        if self.machines[index].lost_list.is_none()
            && let Ok(Some(lost)) = member_files::rot(disk, random)
        {
            self.world.say(format!("server {}", index + 1), || {
                format!("{} rots", lost.path.display())
            });
            self.machines[index].lost_list = Some(lost);
            self.stop_one(index, false);
        }
    }

    /// Raises the accepted epoch of a server above all known epochs. The server notices the raised
    /// epoch at its next start.
    fn promise_more(&mut self) {
        let index = self.any_server();
        let [data, _] = dirs_of(&self.world.plan);
        let path = data.join(VERSION_DIR).join("acceptedEpoch");
        let disk = &self.machines[index].disk;
        let content = disk.content(&path);
        let text = content.and_then(|content| String::from_utf8(content).ok());
        let Some(accepted) = text.and_then(|text| text.parse().ok()).map(Epoch) else {
            return;
        };
        let more = Epoch(accepted.0 + self.world.random.range(1, 4));
        disk.set_content(&path, more.0.to_string().as_bytes());
        self.world.say(format!("server {}", index + 1), || {
            format!("has promised epoch {} on disk", more.0)
        });
    }
}

/// Subdirectory of the files in a data directory.
const VERSION_DIR: &str = "version-2";
