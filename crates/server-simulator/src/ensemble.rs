//! The members of the ensemble, and their faults.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use proto::Sid;
use server::{Server, Service};
use testkit::Random;
use testkit::faults::Faults;
use tokio::time::sleep;

use crate::clocks::{self, CoreNumber};
use crate::lives::Lives;
use crate::operators::settings::Settings as Operators;
use crate::settings::{ELECTION_PORT, QUORUM_PORT, Settings, address_of};
use crate::world::World;

/// A running server.
struct Running {
    server: Server,
    faults: Faults,
    core: CoreNumber,
}

/// All members.
pub(crate) struct Members {
    settings: Settings,
    dir: PathBuf,
    pub(crate) lives: Arc<Lives>,
    running: BTreeMap<Sid, Running>,
    /// Members that are separated from all others.
    apart: Vec<Sid>,
}

impl Members {
    pub(crate) fn new(settings: Settings, dir: PathBuf) -> Self {
        Self {
            settings,
            dir,
            lives: Arc::default(),
            running: BTreeMap::new(),
            apart: Vec::new(),
        }
    }

    /// Starts a member.
    pub(crate) async fn start(&mut self, member: Sid) -> Result<(), String> {
        let data_dir = self.dir.join(member.0.to_string());
        Operators::prepare(&data_dir).map_err(|error| error.to_string())?;
        let config = self.settings.config(member, &data_dir);
        let faults = Faults::default();
        let started = may_block(Server::start_with(config, faults.disk(), faults.cuts())).await;
        let server = started.map_err(|error| format!("{member} does not start: {error}"))?;
        let core = clocks::add(server.core_thread());
        let running = Running {
            server,
            faults,
            core,
        };
        self.running.insert(member, running);
        self.lives.begin(member);
        self.cut();
        Ok(())
    }

    /// Stops a member, or ends it as if its process had been killed.
    pub(crate) async fn stop(&mut self, member: Sid, is_killed: bool) {
        let Some(running) = self.running.remove(&member) else {
            return;
        };
        self.lives.end(member);
        if is_killed {
            running.faults.switch_disk_off();
        }
        may_block(running.server.stop()).await;
        clocks::remove(running.core);
    }

    pub(crate) fn is_running(&self, member: Sid) -> bool {
        self.running.contains_key(&member)
    }

    /// Separates members from all others, in both directions.
    pub(crate) fn separate(&mut self, members: Vec<Sid>) {
        self.apart = members;
        self.cut();
    }

    fn cut(&self) {
        for (member, running) in &self.running {
            for other in self.settings.members() {
                let is_cut = self.apart.contains(member) != self.apart.contains(&other);
                for port in [QUORUM_PORT, ELECTION_PORT] {
                    let address = SocketAddr::new(address_of(other), port);
                    running.faults.cut(address, is_cut);
                }
            }
        }
    }

    /// Delays the syncs of a member.
    pub(crate) fn slow_down(&self, member: Sid, delay: Duration) {
        if let Some(running) = self.running.get(&member) {
            running.faults.slow_disk_down(delay);
        }
    }

    /// Returns whether all members run and serve writes.
    pub(crate) fn are_serving(&self) -> bool {
        let is_serving = |running: &Running| {
            let service = *running.server.serving().borrow();
            matches!(service, Service::Deciding | Service::Forwarding)
        };
        self.running.len() == self.settings.members().count()
            && self.running.values().all(is_serving)
    }
}

/// Runs a future of a thread that may block: the main thread of the shipped binary.
async fn may_block<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    poll_fn(|cx| blocking::permit(|| future.as_mut().poll(cx))).await
}

/// Draws faults and repairs until the clients end.
pub(crate) async fn disturb(world: Arc<World>, mut random: Random) {
    let members: Vec<Sid> = world.settings.members().collect();
    while !world.is_over() {
        sleep(Duration::from_millis(
            random.range(50, 20_000).unsigned_abs(),
        ))
        .await;
        let Some(member) = random.pick(&members) else {
            return;
        };
        let mut all = world.members.lock().await;
        match random.below(8) {
            0 | 1 if all.is_running(member) => {
                all.stop(member, random.percent(70)).await;
            }
            2 => {
                let apart = members.iter().copied();
                let apart = apart.filter(|_| random.percent(40)).collect();
                all.separate(apart);
            }
            3 | 4 => all.separate(Vec::new()),
            5 => all.slow_down(
                member,
                Duration::from_millis(random.range(0, 20).unsigned_abs()),
            ),
            _ if !all.is_running(member) => {
                if let Err(error) = all.start(member).await {
                    world.report("a member starts with its own files", &error);
                }
            }
            _ => {}
        }
    }
}
