//! An ensemble for a test.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use proto::SessionId;
use tempfile::TempDir;
use testkit::faults::Faults;
use tokio::time::{Instant, sleep};

use super::builder::TestEnsembleBuilder;
use super::{expiry, reach};
use crate::{Server, ServerBuilder, ServerError};

/// Time within which an ensemble on one machine has a leader, under any load.
const SERVING_MAX: Duration = Duration::from_secs(60);

/// Interval between two checks of the members while waiting.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// An ensemble inside this process, with its data in a temporary directory.
///
/// Members are numbered as in zoo.cfg: participants from 1, and observers after them. Session
/// timeouts of 200 ms to 60 s are granted, because `tickTime` is 100.
#[derive(Debug)]
#[must_use = "dropping it stops the servers"]
pub struct TestEnsemble {
    pub(super) members: BTreeMap<u32, Member>,
    pub(super) participants: u32,
    /// Members that are separated from all others. Empty without a partition.
    pub(super) apart: BTreeSet<u32>,
    // Declared after the members, so that it is dropped last.
    pub(super) _directory: TempDir,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) server: Option<Server>,
    pub(super) builder: ServerBuilder,
    pub(super) faults: Faults,
    pub(super) client: SocketAddr,
    /// Address of the admin server, if it is enabled.
    pub(super) admin: Option<SocketAddr>,
    /// Addresses for other members: quorum port and election port.
    pub(super) ports: [SocketAddr; 2],
}

impl TestEnsemble {
    /// Starts an ensemble of `members` members. Returns when it serves.
    ///
    /// # Errors
    /// If [`ServerBuilder::start`] fails for a member. The other members are then stopped and their
    /// data is removed.
    pub async fn start(members: u32) -> Result<Self, ServerError> {
        Self::builder().members(members).start().await
    }

    /// Returns a builder for an ensemble.
    pub fn builder() -> TestEnsembleBuilder {
        TestEnsembleBuilder::new()
    }

    /// Returns the connect string of all members, including stopped ones.
    pub fn connect_string(&self) -> String {
        let members = self.members.values();
        let addresses: Vec<_> = members.map(|member| member.client.to_string()).collect();
        addresses.join(",")
    }

    /// Returns the connect string of one member.
    ///
    /// # Errors
    /// If the member does not exist.
    pub fn connect_string_of(&self, id: u32) -> Result<String, ServerError> {
        Ok(self.member(id)?.client.to_string())
    }

    /// Returns the ids of all members, including stopped ones.
    pub fn members(&self) -> Vec<u32> {
        self.members.keys().copied().collect()
    }

    /// Returns the address of a member's admin server, if [`TestEnsembleBuilder::admin_servers`]
    /// has enabled the admin servers.
    ///
    /// # Errors
    /// If the member does not exist.
    pub fn admin_address(&self, id: u32) -> Result<Option<SocketAddr>, ServerError> {
        Ok(self.member(id)?.admin)
    }

    /// Returns the leader that serves, if there is one. During a partition, a leader without a
    /// majority may still consider itself the leader, but it is not returned.
    pub fn leader(&self) -> Option<u32> {
        self.leaders().first().copied()
    }

    /// Returns the members that consider themselves the leader, and reach a majority. A leader that
    /// was paused does not know yet that another one was elected.
    fn leaders(&self) -> Vec<u32> {
        let (running, able) = (self.running(), self.able());
        let leading = running.iter().filter(|(_, server)| server.is_leading());
        let ids = leading.map(|(id, _)| *id);
        ids.filter(|id| able.contains(id)).collect()
    }

    /// Returns whether a member accepts reads and writes.
    pub fn is_serving(&self, id: u32) -> bool {
        self.running()
            .get(&id)
            .is_some_and(|server| server.is_serving())
    }

    /// Ends a member as if its process had been killed (docs/EMBEDDING.md describes the
    /// differences), and waits until it has ended. Its data remains.
    ///
    /// # Errors
    /// If the member does not exist.
    pub async fn kill(&mut self, id: u32) -> Result<(), ServerError> {
        let member = self.member_mut(id)?;
        if let Some(server) = member.server.take() {
            member.faults.switch_disk_off();
            server.kill().await;
        }
        Ok(())
    }

    /// Starts a member again with its data and its ports, and waits until it listens. A running
    /// member is first stopped.
    ///
    /// # Errors
    /// If the member does not exist or has failed, or if [`ServerBuilder::start`] fails.
    pub async fn restart(&mut self, id: u32) -> Result<(), ServerError> {
        let member = self.member_mut(id)?;
        if let Some(server) = member.server.take() {
            server.stop().await?;
        }
        member.faults = Faults::default();
        let builder = member.builder.clone().faults(member.faults.clone());
        self.cut();
        let server = builder.begin().await?;
        self.member_mut(id)?.server = Some(server);
        Ok(())
    }

    /// Pauses a member, as SIGSTOP pauses a process, and waits until it is paused. It no longer
    /// answers, but its connections stay open.
    ///
    /// # Errors
    /// If the member does not exist, or if it does not run.
    pub async fn pause(&mut self, id: u32) -> Result<(), ServerError> {
        self.running_member(id)?.pause().await;
        Ok(())
    }

    /// Ends the pause of a member. [`restart`](Self::restart) and [`kill`](Self::kill) also end it.
    ///
    /// # Errors
    /// If the member does not exist, or if it does not run.
    pub fn resume(&mut self, id: u32) -> Result<(), ServerError> {
        self.running_member(id)?.resume();
        Ok(())
    }

    /// Separates these members from all others, in both directions. The separated members still
    /// reach each other. Clients reach both sides. An earlier partition is healed first.
    pub fn partition(&mut self, members: &[u32]) {
        self.apart = members.iter().copied().collect();
        self.cut();
    }

    /// Heals the partition, so all members reach each other again.
    pub fn heal(&mut self) {
        self.partition(&[]);
    }

    /// Delays each sync of this member's disk by `delay`. Zero ends the delay.
    ///
    /// # Errors
    /// If the member does not exist.
    pub fn slow(&self, id: u32, delay: Duration) -> Result<(), ServerError> {
        self.member(id)?.faults.slow_disk_down(delay);
        Ok(())
    }

    /// Ends a session. When this method returns, the ephemeral znodes of the session have been
    /// deleted. The client of the session is notified when it reconnects.
    ///
    /// # Errors
    /// If the session does not exist, or if no member serves.
    pub async fn expire(&self, session: SessionId) -> Result<(), ServerError> {
        let serving = self.running().into_iter();
        let mut serving = serving.filter(|(_, server)| server.is_serving());
        let (_, server) = serving.next().ok_or_else(|| self.not_serving())?;
        expiry::expire(&server.connect_string(), session).await
    }

    /// Waits until one member leads, and every running member that reaches a majority accepts reads
    /// and writes.
    ///
    /// # Errors
    /// If neither side has a majority of running members, if a member fails, or if the wait takes
    /// longer than a minute.
    pub async fn wait_until_serving(&self) -> Result<(), ServerError> {
        let began = Instant::now();
        let (running, able) = (self.running(), self.able());
        if able.is_empty() {
            return Err(self.not_serving());
        }
        loop {
            if let Some(failed) = running.values().find_map(|server| server.failure()) {
                return Err(failed);
            }
            if self.leaders().len() == 1 && able.iter().all(|id| self.is_serving(*id)) {
                return Ok(());
            }
            if began.elapsed() > SERVING_MAX {
                return Err(self.not_serving());
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Stops all members, and waits until all their resources are released.
    ///
    /// # Errors
    /// If a member has already failed.
    pub async fn stop(mut self) -> Result<(), ServerError> {
        let mut ended = Ok(());
        self.request_stop();
        for member in self.members.values_mut() {
            if let Some(server) = member.server.take() {
                ended = ended.and(server.stop().await);
            }
        }
        ended
    }

    fn request_stop(&mut self) {
        let members = self.members.values_mut();
        let servers = members.filter_map(|member| member.server.as_mut());
        servers.for_each(Server::request_stop);
    }

    /// Returns the members that run and are not paused.
    fn running(&self) -> BTreeMap<u32, &Server> {
        let members = self.members.iter();
        let running = members.filter_map(|(id, member)| Some((*id, member.server.as_ref()?)));
        running.filter(|(_, server)| !server.is_paused()).collect()
    }

    /// Returns the members that can have a leader.
    fn able(&self) -> BTreeSet<u32> {
        let running = self.running().into_keys().collect();
        reach::able(self.participants, &running, &self.apart)
    }

    /// Cuts the connections between the two sides of the partition, and heals all others. Each
    /// member cuts the connections that it opened.
    fn cut(&self) {
        for (id, member) in &self.members {
            for (other, its) in self.members.iter().filter(|(other, _)| *other != id) {
                let is_cut = self.apart.contains(id) != self.apart.contains(other);
                its.ports
                    .iter()
                    .for_each(|port| member.faults.cut(*port, is_cut));
            }
        }
    }

    fn not_serving(&self) -> ServerError {
        let running = self.running();
        let states = self
            .members
            .iter()
            .map(|(id, member)| match running.get(id) {
                Some(server) if server.is_serving() => format!("member {id} serves"),
                Some(_) => format!("member {id} does not have a leader"),
                None if member.server.is_some() => format!("member {id} is paused"),
                None => format!("member {id} is down"),
            });
        let states: Vec<_> = states.collect();
        ServerError::NotServing(format!(
            "the ensemble does not serve: {} (disconnected: {:?})",
            states.join(", "),
            self.apart
        ))
    }

    fn member(&self, id: u32) -> Result<&Member, ServerError> {
        self.members.get(&id).ok_or_else(|| unknown(id))
    }

    fn running_member(&mut self, id: u32) -> Result<&mut Server, ServerError> {
        let server = self.member_mut(id)?.server.as_mut();
        server.ok_or_else(|| ServerError::Test {
            what: "the member does not run",
            why: format!("{id}"),
        })
    }

    fn member_mut(&mut self, id: u32) -> Result<&mut Member, ServerError> {
        self.members.get_mut(&id).ok_or_else(|| unknown(id))
    }
}

fn unknown(id: u32) -> ServerError {
    ServerError::Test {
        what: "the member does not exist",
        why: format!("{id}; ids start at 1, and observers follow the participants"),
    }
}

impl Drop for TestEnsemble {
    fn drop(&mut self) {
        // All members stop concurrently. Dropping each member then waits until it has ended.
        self.request_stop();
    }
}
