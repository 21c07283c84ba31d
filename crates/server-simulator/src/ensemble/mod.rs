//! The members of the ensemble.

pub(crate) mod faults;
pub(crate) mod lives;
pub(crate) mod membership;

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use config::membership::Membership;
use proto::Sid;
use server::{Server, Service};
use testkit::faults::Faults;

use crate::clocks::{self, CoreNumber};
use crate::ensemble::lives::Lives;
use crate::settings::{ELECTION_PORT, OBSERVER_MASTER_PORT, QUORUM_PORT, Settings};

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

    /// Starts a member with its own files.
    pub(crate) async fn start(&mut self, member: Sid) -> Result<(), String> {
        let faults = Faults::default();
        let server = self.start_with(member, &faults).await?;
        self.add(member, server, faults);
        Ok(())
    }

    /// Starts a member whose process is killed after some changes of its disk, during the start or
    /// later.
    pub(crate) async fn start_and_kill(&mut self, member: Sid, changes: u64) {
        let faults = Faults::default();
        faults.disk().switch_off_after(changes);
        if let Ok(server) = self.start_with(member, &faults).await {
            self.add(member, server, faults);
        }
    }

    async fn start_with(&self, member: Sid, faults: &Faults) -> Result<Server, String> {
        let dir = self.dir.join(member.0.to_string());
        if !dir.exists() {
            let written = self.settings.write_files(member, &dir, None);
            written.map_err(|error| format!("{}: {error}", dir.display()))?;
        }
        let config = self.settings.config(&dir)?;
        let started = may_block(Server::start_with(config, faults.disk(), faults.cuts())).await;
        started.map_err(|error| format!("{member} does not start: {error}"))
    }

    /// Writes the files of a server again, because its member list does not contain the server. Its
    /// data remains.
    pub(crate) fn list_again(&self, member: Sid, known: &Membership) -> Result<(), String> {
        let dir = self.dir.join(member.0.to_string());
        let _ = std::fs::remove_file(dir.join("zoo.cfg.dynamic.next"));
        // Before the first answer to the operator, the list at the beginning is the newest one.
        let known = (!known.members.is_empty()).then_some(known);
        let written = self.settings.write_files(member, &dir, known);
        written.map_err(|error| format!("{}: {error}", dir.display()))
    }

    fn add(&mut self, member: Sid, server: Server, faults: Faults) {
        let core = clocks::add(server.core_thread());
        let running = Running {
            server,
            faults,
            core,
        };
        self.running.insert(member, running);
        self.lives.begin(member);
        self.cut();
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

    /// Ends the members that cannot continue, as their processes would end. Returns the members
    /// whose disks did not fail.
    pub(crate) async fn end_failed(&mut self) -> Vec<(Sid, u8)> {
        let mut failed = Vec::new();
        for (member, running) in &self.running {
            let disk = running.faults.disk();
            let failure = pin!(running.server.failed());
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(code) = failure.poll(&mut context) {
                failed.push((*member, code, disk.has_failed()));
            } else if disk.is_off() {
                failed.push((*member, 0, true));
            }
        }
        for (member, ..) in &failed {
            self.stop(*member, true).await;
        }
        let unexpected = failed.into_iter().filter(|(.., has_failed)| !has_failed);
        unexpected.map(|(member, code, _)| (member, code)).collect()
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
            for other in self.settings.servers() {
                let is_cut = self.apart.contains(member) != self.apart.contains(&other);
                for address in self.settings.addresses_of(other) {
                    for port in [QUORUM_PORT, ELECTION_PORT, OBSERVER_MASTER_PORT] {
                        running.faults.cut(SocketAddr::new(address, port), is_cut);
                    }
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

    /// Lets the disk of a member fail once, or kills the member, after some changes of its disk.
    pub(crate) fn fail_disk(&self, member: Sid, changes: u64, is_kill: bool) {
        if let Some(running) = self.running.get(&member) {
            let disk = running.faults.disk();
            if is_kill {
                disk.switch_off_after(changes);
            } else {
                disk.fail_once_after(changes);
            }
        }
    }

    /// Returns the services of these members, for a message.
    pub(crate) fn services(&self, members: &[Sid]) -> String {
        let service = |member: &Sid| {
            let running = self.running.get(member);
            let service = running.map(|running| *running.server.serving().borrow());
            format!("{member}: {service:?}")
        };
        members.iter().map(service).collect::<Vec<_>>().join(", ")
    }

    /// Returns whether these members run and serve writes.
    pub(crate) fn are_serving(&self, members: &[Sid]) -> bool {
        members.iter().all(|member| {
            self.running.get(member).is_some_and(|running| {
                let service = *running.server.serving().borrow();
                matches!(service, Service::Deciding | Service::Forwarding)
            })
        })
    }
}

/// Runs a future of a thread that may block: the main thread of the shipped binary.
async fn may_block<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    poll_fn(|cx| blocking::permit(|| future.as_mut().poll(cx))).await
}
