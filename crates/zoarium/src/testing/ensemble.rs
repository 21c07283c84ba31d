//! An ensemble for a test.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use blocking::files;
use server::Faults;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::server::{directory, of_tests};
use super::{expiry, ports, reach};
use crate::{Server, ServerBuilder, ServerError};

/// Time within which an ensemble on one machine has a leader, under any load.
const SERVING_MAX: Duration = Duration::from_secs(60);

/// Interval between two checks of the members during a wait.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Number of attempts to start. Ports are chosen before they are used, so another process may take
/// one in between.
const TRIES: usize = 3;

/// An ensemble inside this process, with its data in a temporary directory.
///
/// Members are numbered as in zoo.cfg: participants from 1, and observers after them. Session
/// timeouts of 200 ms to 60 s are granted, because `tickTime` is 100.
#[derive(Debug)]
pub struct TestEnsemble {
    members: BTreeMap<u32, Member>,
    participants: u32,
    /// Members that are separated from all others.
    apart: BTreeSet<u32>,
    // After the members, so that it is dropped last.
    _directory: TempDir,
}

#[derive(Debug)]
struct Member {
    server: Option<Server>,
    builder: ServerBuilder,
    faults: Faults,
    client: SocketAddr,
    /// Addresses for other members: quorum port and election port.
    ports: [SocketAddr; 2],
}

/// Settings of an ensemble for a test.
#[derive(Debug, Clone)]
pub struct TestEnsembleBuilder {
    participants: u32,
    observers: u32,
    settings: Vec<(String, String)>,
}

impl TestEnsembleBuilder {
    /// Sets the number of members with a vote. The default is 3.
    #[must_use]
    pub fn members(mut self, count: u32) -> Self {
        self.participants = count;
        self
    }

    /// Sets the number of members without a vote. The default is 0.
    #[must_use]
    pub fn observers(mut self, count: u32) -> Self {
        self.observers = count;
        self
    }

    /// Adds a line of zoo.cfg for all members.
    #[must_use]
    pub fn setting(mut self, key: impl Into<String>, value: impl ToString) -> Self {
        self.settings.push((key.into(), value.to_string()));
        self
    }

    /// Starts the ensemble, and returns when it serves.
    ///
    /// # Errors
    /// If [`ServerBuilder::start`] fails for a member. The other members are then stopped and their
    /// data is removed.
    pub async fn start(self) -> Result<TestEnsemble, ServerError> {
        let mut tries = 1;
        loop {
            match self.start_once().await {
                Err(ServerError::Start { .. } | ServerError::Failed { .. }) if tries < TRIES => {
                    tries += 1;
                }
                ended => return ended,
            }
        }
    }

    async fn start_once(&self) -> Result<TestEnsemble, ServerError> {
        let directory = directory()?;
        let count = self.participants + self.observers;
        let ports = ports::free(3 * count as usize)?;
        let mut lines = Vec::new();
        for (id, ports) in (1..).zip(ports.chunks_exact(3)) {
            let role = if id > self.participants {
                ":observer"
            } else {
                ""
            };
            if let [quorum, election, _] = ports {
                let line = format!(
                    "{}:{}:{}{role}",
                    quorum.ip(),
                    quorum.port(),
                    election.port()
                );
                lines.push((format!("server.{id}"), line));
            }
        }
        let mut members = BTreeMap::new();
        for (id, ports) in (1..).zip(ports.chunks_exact(3)) {
            if let [quorum, election, client] = ports {
                let data_dir = directory.path().join(id.to_string());
                let written = files::create_dir(&data_dir)
                    .and_then(|()| files::create(&data_dir.join("myid")))
                    .and_then(|mut file| file.write_all(id.to_string().as_bytes()));
                written.map_err(|error| ServerError::Test {
                    what: "cannot write myid",
                    why: error.to_string(),
                })?;
                let builder = Server::builder().data_dir(data_dir).port(client.port());
                let member = Member {
                    server: None,
                    builder: self.member_of(builder, &lines, id),
                    faults: Faults::new(),
                    client: *client,
                    ports: [*quorum, *election],
                };
                members.insert(id, member);
            }
        }
        let mut ensemble = TestEnsemble {
            members,
            participants: self.participants,
            apart: BTreeSet::new(),
            _directory: directory,
        };
        for id in 1..=count {
            ensemble.restart(id).await?;
        }
        ensemble.wait_until_serving().await?;
        Ok(ensemble)
    }

    fn member_of(
        &self,
        builder: ServerBuilder,
        lines: &[(String, String)],
        id: u32,
    ) -> ServerBuilder {
        let mut builder = of_tests(builder)
            // Ticks are short, so these limits allow for a loaded machine.
            .setting("initLimit", 100)
            .setting("syncLimit", 20)
            // One participant is also an ensemble.
            .setting("standaloneEnabled", false);
        if id > self.participants {
            builder = builder.setting("peerType", "observer");
        }
        let settings = lines.iter().chain(&self.settings);
        settings.fold(builder, |builder, (key, value)| builder.setting(key, value))
    }
}

impl TestEnsemble {
    /// Starts an ensemble of `members` members, and returns when it serves.
    ///
    /// # Errors
    /// If [`ServerBuilder::start`] fails for a member. The other members are then stopped and their
    /// data is removed.
    pub async fn start(members: u32) -> Result<Self, ServerError> {
        Self::builder().members(members).start().await
    }

    /// Returns a builder of an ensemble.
    pub fn builder() -> TestEnsembleBuilder {
        TestEnsembleBuilder {
            participants: 3,
            observers: 0,
            settings: Vec::new(),
        }
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

    /// Returns the leader that serves, or `None` without one. During a partition, a leader without
    /// a majority may still consider itself leader. It is not returned.
    pub fn leader(&self) -> Option<u32> {
        let (running, able) = (self.running(), self.able());
        let mut leading = running.iter().filter(|(_, server)| server.is_leading());
        leading.find(|(id, _)| able.contains(id)).map(|(id, _)| *id)
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

    /// Starts a member again on its data and its ports, and waits until it listens. A running
    /// member is first stopped.
    ///
    /// # Errors
    /// If the member does not exist, or under the conditions of [`ServerBuilder::start`].
    pub async fn restart(&mut self, id: u32) -> Result<(), ServerError> {
        let member = self.member_mut(id)?;
        if let Some(server) = member.server.take() {
            server.stop().await?;
        }
        member.faults = Faults::new();
        let builder = member.builder.clone().faults(member.faults.clone());
        self.cut();
        let server = builder.begin().await?;
        self.member_mut(id)?.server = Some(server);
        Ok(())
    }

    /// Separates these members from all others, in both directions. The members still reach each
    /// other. Clients reach both sides. This heals any earlier partition.
    pub fn partition(&mut self, members: &[u32]) {
        self.apart = members.iter().copied().collect();
        self.cut();
    }

    /// Heals the partition: all members reach each other again.
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

    /// Ends a session. Its ephemerals are deleted when this returns, and its client is notified.
    ///
    /// # Errors
    /// If the session does not exist, or no member serves.
    pub async fn expire(&self, session: i64) -> Result<(), ServerError> {
        let serving = self.running().into_iter();
        let mut serving = serving.filter(|(_, server)| server.is_serving());
        let (_, server) = serving.next().ok_or_else(|| self.not_serving())?;
        expiry::expire(&server.connect_string(), session).await
    }

    /// Waits until every running member that reaches a majority accepts reads and writes.
    ///
    /// # Errors
    /// If neither side has a majority of running members, a member fails, or it takes longer than a
    /// minute.
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
            if self.leader().is_some() && able.iter().all(|id| self.is_serving(*id)) {
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
    /// If a member failed before.
    pub async fn stop(mut self) -> Result<(), ServerError> {
        let mut ended = Ok(());
        self.begin_to_stop();
        for member in self.members.values_mut() {
            if let Some(server) = member.server.take() {
                ended = ended.and(server.stop().await);
            }
        }
        ended
    }

    fn begin_to_stop(&mut self) {
        let members = self.members.values_mut();
        let servers = members.filter_map(|member| member.server.as_mut());
        servers.for_each(Server::begin_to_stop);
    }

    fn running(&self) -> BTreeMap<u32, &Server> {
        let members = self.members.iter();
        let running = members.filter_map(|(id, member)| Some((*id, member.server.as_ref()?)));
        running.collect()
    }

    /// Returns the members that can have a leader.
    fn able(&self) -> BTreeSet<u32> {
        let running = self.running().into_keys().collect();
        reach::able(self.participants, &running, &self.apart)
    }

    /// Cuts and heals the connections between the members. The side that opened a connection cuts
    /// it.
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
        let states = self.members.keys().map(|id| match running.get(id) {
            Some(server) if server.is_serving() => format!("member {id} serves"),
            Some(_) => format!("member {id} does not have a leader"),
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
        // All members stop concurrently. Dropping each member then waits for its end.
        self.begin_to_stop();
    }
}
