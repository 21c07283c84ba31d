//! Settings and start of an ensemble for a test.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use blocking::files;
use testkit::faults::Faults;

use super::ensemble::{Member, TestEnsemble};
use super::ports;
use super::server::{directory, of_tests};
use crate::{Server, ServerBuilder, ServerError};

/// Number of attempts to start. Ports are chosen before they are used, so another process may use
/// one of them first.
const TRIES: usize = 3;

/// Settings of an ensemble for a test.
#[derive(Debug, Clone)]
#[must_use = "nothing starts before `start`"]
pub struct TestEnsembleBuilder {
    participants: u32,
    observers: u32,
    /// Client port of the first member.
    port: Option<u16>,
    has_admin_servers: bool,
    settings: Vec<(String, String)>,
}

/// Ports of a member.
struct MemberPorts {
    quorum: SocketAddr,
    election: SocketAddr,
    client: SocketAddr,
    admin: SocketAddr,
}

impl TestEnsembleBuilder {
    pub(super) fn new() -> Self {
        Self {
            participants: 3,
            observers: 0,
            port: None,
            has_admin_servers: false,
            settings: Vec::new(),
        }
    }

    /// Sets the number of members with a vote. The default is 3.
    pub fn members(mut self, count: u32) -> Self {
        self.participants = count;
        self
    }

    /// Sets the number of members without a vote. The default is 0.
    pub fn observers(mut self, count: u32) -> Self {
        self.observers = count;
        self
    }

    /// Sets the client port of the first member. The other members use the next ports. By default,
    /// the client ports are free ports.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Enables the admin server of each member, on a free port.
    pub fn admin_servers(mut self) -> Self {
        self.has_admin_servers = true;
        self
    }

    /// Adds a line of zoo.cfg for all members. [`start`](Self::start) refuses an unknown key.
    pub fn setting(mut self, key: impl Into<String>, value: impl ToString) -> Self {
        self.settings.push((key.into(), value.to_string()));
        self
    }

    /// Starts the ensemble. Returns when it serves.
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
        let ports = self.ports()?;
        let lines = self.lines(&ports);
        let mut members = BTreeMap::new();
        for (id, ports) in (1..).zip(&ports) {
            let data_dir = directory.path().join(id.to_string());
            write_id(&data_dir, id).map_err(|error| ServerError::Test {
                what: "cannot write myid",
                why: error.to_string(),
            })?;
            let member = Member {
                server: None,
                builder: self.member_of(&data_dir, ports, &lines, id),
                faults: Faults::default(),
                client: ports.client,
                admin: self.has_admin_servers.then_some(ports.admin),
                ports: [ports.quorum, ports.election],
            };
            members.insert(id, member);
        }
        let mut ensemble = TestEnsemble {
            members,
            participants: self.participants,
            apart: BTreeSet::new(),
            _directory: directory,
        };
        for id in 1..=self.participants + self.observers {
            ensemble.restart(id).await?;
        }
        ensemble.wait_until_serving().await?;
        Ok(ensemble)
    }

    fn ports(&self) -> Result<Vec<MemberPorts>, ServerError> {
        let count = self.participants + self.observers;
        let free = ports::free(4 * count as usize)?;
        let mut ports = Vec::new();
        for (number, free) in (0..).zip(free.chunks_exact(4)) {
            let [quorum, election, client, admin] = *free else {
                continue;
            };
            let client = match self.port {
                None => client,
                Some(first) => {
                    let port = first.checked_add(number).ok_or(ServerError::Test {
                        what: "cannot number the client ports",
                        why: format!("{count} ports from {first} on exceed {}", u16::MAX),
                    })?;
                    (Ipv4Addr::LOCALHOST, port).into()
                }
            };
            ports.push(MemberPorts {
                quorum,
                election,
                client,
                admin,
            });
        }
        Ok(ports)
    }

    /// Returns the member list as settings `server.N`.
    fn lines(&self, ports: &[MemberPorts]) -> Vec<(String, String)> {
        let line = |(id, ports): (u32, &MemberPorts)| {
            let (quorum, election) = (ports.quorum, ports.election.port());
            let role = if id > self.participants {
                ":observer"
            } else {
                ""
            };
            (format!("server.{id}"), format!("{quorum}:{election}{role}"))
        };
        (1..).zip(ports).map(line).collect()
    }

    fn member_of(
        &self,
        data_dir: &Path,
        ports: &MemberPorts,
        lines: &[(String, String)],
        id: u32,
    ) -> ServerBuilder {
        let builder = Server::builder().data_dir(data_dir);
        let mut builder = of_tests(builder.port(ports.client.port()))
            // Ticks are short, so these limits allow for a loaded machine.
            .setting("initLimit", 100)
            .setting("syncLimit", 20)
            // A single participant is an ensemble, too.
            .setting("standaloneEnabled", false);
        if id > self.participants {
            builder = builder.setting("peerType", "observer");
        }
        if self.has_admin_servers {
            builder = builder
                .setting("admin.enableServer", true)
                .setting("admin.serverPort", ports.admin.port());
        }
        let settings = lines.iter().chain(&self.settings);
        settings.fold(builder, |builder, (key, value)| builder.setting(key, value))
    }
}

fn write_id(data_dir: &Path, id: u32) -> std::io::Result<()> {
    files::create_dir(data_dir)?;
    files::create(&data_dir.join("myid"))?.write_all(id.to_string().as_bytes())
}
