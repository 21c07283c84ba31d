//! The members of a run: real processes, and operations on them.
//!
//! Members die with the thread that started them (`setpriv --pdeathsig`), also if this process is
//! killed. Their network namespaces end with them.

mod machine;
mod registered;
mod security;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tests::ensemble::{Ensemble, EnsembleBuilder, Role};
use tests::{Faults, Flavour, wait_until};

pub use machine::{Machine, Need};
pub use registered::{Registered, kill_all};
use security::Secured;
pub use security::{Access, Security};

/// Time until all members serve, at the begin and at the end of a run. The limit is sufficient for
/// five members with a busy disk on two processors, some of which receive all data.
pub const SERVE_LIMIT: Duration = Duration::from_secs(120);
/// Lines of a log that an error contains.
const LOG_LINES: usize = 25;
/// Spare addresses in a separate network, for a member that joins.
const SPARE_PLACES: usize = 1;

/// Default port of an admin server.
const ADMIN_PORT: u16 = 8080;

/// Part of the paths of logs and snapshots of both server implementations.
pub(crate) const DATA: &str = "/version-2/";

/// Failure of an operation on a cluster.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClusterError {
    /// The machine does not have the required tools.
    #[error("cannot run on this machine: {0}")]
    Missing(String),
    /// A server ended before it served.
    #[error("member {id} ended ({status}) before it served clients; the end of its log:\n{log}")]
    Ended {
        /// Id of the member.
        id: u64,
        /// Exit status.
        status: String,
        /// The last lines of the log.
        log: String,
    },
    /// Some members do not serve in time.
    #[error("members that do not serve clients after {} s: {}", limit.as_secs(), waiting.join("\n"))]
    NotServing {
        /// Time limit of the wait.
        limit: Duration,
        /// Each member with the end of its log.
        waiting: Vec<String>,
    },
    /// A change of the members, or of the machine for them, failed.
    #[error("{0}")]
    Change(String),
}

/// Returns the server for a small letter of `--members`.
pub fn flavour(letter: char) -> Option<Flavour> {
    match letter {
        'z' => Some(Flavour::Zoarium),
        'j' => Some(Flavour::Apache),
        _ => None,
    }
}

/// Description of a cluster.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Servers of the voters.
    pub members: Vec<Flavour>,
    /// Servers of the observers.
    pub observers: Vec<Flavour>,
    /// Protection of the connections.
    pub security: Security,
    /// Keys of zoo.cfg in addition to those of every run.
    pub settings: Vec<(String, String)>,
    /// System properties of all members.
    pub properties: Vec<(String, String)>,
    /// Whether unsynced writes are recorded, for power cuts.
    pub notes_unsynced: bool,
    /// Whether syncs report success without doing anything. Then no guarantee can hold over a power
    /// cut.
    pub fakes_syncs: bool,
    /// Whether the first three members have a list of only themselves, and the others a list of
    /// all.
    pub grows: bool,
    /// Directory in which the members' directories stay.
    pub kept_in: Option<PathBuf>,
    /// Number of the members' network in earlier legs.
    pub network: Option<u8>,
}

/// Number of members before a growth, with ids from 1.
const BEFORE_GROWTH: u64 = 3;
/// Number of members after it.
pub const AFTER_GROWTH: usize = 5;

/// Running members.
#[derive(Debug)]
pub struct Cluster {
    ensemble: Ensemble,
    faults: Option<Faults>,
    has_network: bool,
    dies_with_us: bool,
    registered: Registered,
    secured: Secured,
}

impl Cluster {
    /// Starts all members and waits until they serve.
    ///
    /// # Errors
    /// If the machine does not have something that a server needs, or a server does not start to
    /// serve.
    pub fn start(
        plan: &Plan,
        machine: Machine,
        registered: Registered,
    ) -> Result<Cluster, ClusterError> {
        let mut builder = EnsembleBuilder::new(&plan.members)
            .observers(&plan.observers)
            // Small, so that there are old logs and snapshots, and members receive whole snapshots.
            .setting("snapCount", "1000")
            .setting("preAllocSize", "1024");
        if !plan.grows {
            builder = builder.dynamic();
        }
        for (key, value) in &plan.settings {
            builder = builder.setting(key, value);
        }
        for (key, value) in &plan.properties {
            builder = builder.property(key, value);
        }
        let has_network = machine.lack(Need::Network).is_none();
        if has_network {
            let members = plan.members.len() + plan.observers.len();
            let places = u8::try_from(members + SPARE_PLACES);
            builder = builder.in_network(places.unwrap_or(u8::MAX));
        }
        if let Some(number) = plan.network {
            builder = builder.with_network_number(number);
        }
        if let Some(dir) = &plan.kept_in {
            // The addresses on the loopback interface would change with each leg.
            if !has_network {
                let text = "legs require a separate network for each member".to_owned();
                return Err(ClusterError::Missing(text));
            }
            let with_purge = builder
                .setting("autopurge.snapRetainCount", "3")
                .setting("autopurge.purgeInterval", "1");
            builder = with_purge.kept_in(dir);
        }
        let (secured, builder) = Secured::new(plan, builder, has_network)?;
        let ensemble = builder
            .prepare()
            .map_err(|missing| ClusterError::Missing(missing.0))?;
        let mut cluster = Cluster {
            ensemble,
            dies_with_us: machine.lack(Need::DeathSignal).is_none(),
            faults: machine.into_faults(),
            has_network,
            registered,
            secured,
        };
        for id in cluster.ids() {
            if plan.notes_unsynced {
                cluster.faults()?.note_unsynced(id);
            }
            if plan.fakes_syncs {
                cluster.faults()?.fake_syncs(id, DATA);
            }
        }
        let first = if plan.grows {
            Cluster::before_growth()
        } else {
            cluster.ids()
        };
        for id in Cluster::before_growth().into_iter().filter(|_| plan.grows) {
            cluster.list_before_growth(id);
        }
        // The existing members lead, and the others follow them.
        for ids in [first, cluster.ids()] {
            for &id in &ids {
                cluster.start_member(id);
            }
            cluster.wait_until_these_serve(&ids, SERVE_LIMIT)?;
        }
        Ok(cluster)
    }

    /// Returns the ids of the members before a growth.
    pub fn before_growth() -> Vec<u64> {
        (1..=BEFORE_GROWTH).collect()
    }

    /// Rewrites the member's zoo.cfg with the list from before the growth.
    pub fn list_before_growth(&self, id: u64) {
        self.list(id, Cluster::before_growth());
    }

    /// Returns all members that report that they lead.
    pub fn leaders(&self) -> Vec<u64> {
        self.ensemble.leaders()
    }

    /// Returns all ids.
    pub fn ids(&self) -> Vec<u64> {
        self.ensemble.ids()
    }

    /// Returns the ids of the voters at the start.
    pub fn voters(&self) -> Vec<u64> {
        self.ensemble.voters()
    }

    /// Returns the members whose processes run and are not paused.
    pub fn up(&self) -> Vec<u64> {
        self.ensemble.up()
    }

    /// Returns a member that reports that it leads. During an election there may be none, or two.
    pub fn leader(&self) -> Option<u64> {
        self.ensemble.leaders().first().copied()
    }

    /// Returns the current server of a member.
    pub fn flavour(&self, id: u64) -> Flavour {
        self.ensemble.member(id).flavour()
    }

    /// Returns the client addresses, in the order of ids.
    pub fn addresses(&self) -> Vec<String> {
        let ids = self.ids().into_iter();
        let addresses = ids.map(|id| self.ensemble.member(id).client_address());
        let addresses = addresses.map(|address| self.secured.client_address(address));
        addresses.map(|address| address.to_string()).collect()
    }

    /// Returns the protection of clients' connections.
    pub fn access(&self) -> Access {
        self.secured.access()
    }

    /// Returns the members that report this role.
    pub fn in_role(&self, role: Role) -> Vec<u64> {
        self.ensemble.in_role(role)
    }

    /// Returns the admin servers of the Zoarium members, at their default port.
    ///
    /// # Errors
    /// If there are none, or members share an address and therefore that port.
    pub fn admin_addresses(&self) -> Result<Vec<String>, ClusterError> {
        let lack = |what: &str| Err(ClusterError::Missing(what.to_owned()));
        if !self.has_network {
            return lack("admin servers require a separate network for each member");
        }
        let ids = self.ids().into_iter();
        let ours: Vec<_> = ids
            .filter(|&id| self.flavour(id) == Flavour::Zoarium)
            .map(|id| self.ensemble.member(id).client_address().ip())
            .map(|host| format!("{host}:{ADMIN_PORT}"))
            .collect();
        if ours.is_empty() {
            lack("the workload requires a Zoarium member, because it follows the change history")
        } else {
            Ok(ours)
        }
    }

    /// Returns whether all members have separate addresses.
    pub fn has_network(&self) -> bool {
        self.has_network
    }

    /// Returns the ensemble.
    pub fn ensemble(&mut self) -> &mut Ensemble {
        &mut self.ensemble
    }

    /// Returns the control of the library that intercepts a member's system calls.
    ///
    /// # Errors
    /// If the library is not available on this machine.
    pub fn faults(&self) -> Result<&Faults, ClusterError> {
        let without = || {
            ClusterError::Missing("the library that intercepts system calls is missing".to_owned())
        };
        self.faults.as_ref().ok_or_else(without)
    }

    /// Starts a member's process unless it already runs.
    pub fn start_member(&mut self, id: u64) {
        if self.ensemble.member(id).is_running() {
            return;
        }
        let mut commands = match &self.faults {
            Some(faults) => faults.commands(id),
            None => String::new(),
        };
        if self.dies_with_us {
            // It replaces the shell, and the server replaces it. The signal stays set.
            commands.push_str("\nexec setpriv --pdeathsig KILL \"$0\" \"$@\"");
        }
        let mut registered = self.registered.lock();
        self.ensemble.start_after(id, &commands);
        registered.extend(
            self.ensemble
                .member(id)
                .process_id()
                .map(|process| (id, process)),
        );
    }

    /// Kills a member's process. Returns `false` if it did not run.
    pub fn kill_member(&mut self, id: u64) -> bool {
        if !self.ensemble.member(id).is_running() {
            return false;
        }
        let mut registered = self.registered.lock();
        self.ensemble.member_mut(id).kill();
        registered.remove(&id);
        true
    }

    /// Requests the end of the process (SIGTERM), and kills it at the time limit.
    pub fn stop_member(&mut self, id: u64, limit: Duration) {
        self.ensemble.member_mut(id).ask_to_end();
        wait_until(limit, || self.ensemble.member_mut(id).ended());
        self.kill_member(id);
    }

    /// Pauses a member. Returns `false` if it is not up.
    pub fn pause_member(&mut self, id: u64) -> bool {
        let is_up = self.ensemble.member(id).is_up();
        if is_up {
            self.ensemble.member_mut(id).pause();
        }
        is_up
    }

    /// Resumes a paused member.
    pub fn resume_member(&mut self, id: u64) {
        self.ensemble.member_mut(id).resume();
    }

    /// Returns the members whose processes ended without a request since the last call, with their
    /// exit statuses. They then count as stopped.
    pub fn take_ended(&mut self) -> Vec<(u64, String)> {
        let mut ended = Vec::new();
        for id in self.ids() {
            if let Some(status) = self.ensemble.member_mut(id).ended() {
                self.kill_member(id);
                ended.push((id, status.to_string()));
            }
        }
        ended
    }

    /// Removes every obstacle of the members: cut links, pauses, and stopped processes.
    pub fn repair(&mut self) {
        if self.has_network {
            self.ensemble.network().heal();
        }
        for id in self.ids() {
            self.resume_member(id);
            self.start_member(id);
        }
    }

    /// Waits until every member serves, one of them as the leader.
    ///
    /// # Errors
    /// If a member ended, or the time limit expired.
    pub fn wait_until_all_serve(&mut self, limit: Duration) -> Result<(), ClusterError> {
        let ids = self.ids();
        self.wait_until_these_serve(&ids, limit)
    }

    /// Waits until these members serve.
    ///
    /// # Errors
    /// Under the conditions of [`Self::wait_until_all_serve`].
    pub fn wait_until_these_serve(
        &mut self,
        ids: &[u64],
        limit: Duration,
    ) -> Result<(), ClusterError> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some((id, status)) = self.take_ended().into_iter().next() {
                let log = self.end_of_log(id);
                return Err(ClusterError::Ended { id, status, log });
            }
            let roles: Vec<_> = ids.iter().map(|&id| (id, self.role(id))).collect();
            let serves = |role: &Option<Role>| role.is_some_and(|role| role != Role::ReadOnly);
            let leaders = roles.iter().filter(|(_, role)| *role == Some(Role::Leader));
            if leaders.count() == 1 && roles.iter().all(|(_, role)| serves(role)) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let waiting = roles.iter().filter(|(_, role)| !serves(role));
                let text = |(id, _): &(u64, _)| format!("member {id}:\n{}", self.end_of_log(*id));
                return Err(ClusterError::NotServing {
                    limit,
                    waiting: waiting.map(text).collect(),
                });
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn role(&self, id: u64) -> Option<Role> {
        self.ensemble.member(id).role()
    }

    /// Returns the version that each member reports.
    pub fn versions(&self) -> Vec<String> {
        let version = |&id: &u64| {
            let answer = self.ensemble.member(id).word("srvr").unwrap_or_default();
            let line = answer.lines().next().unwrap_or_default();
            let version = line.trim_start_matches("Zookeeper version: ");
            format!("{:?} {version}", self.flavour(id))
        };
        self.ids().iter().map(version).collect()
    }

    /// Returns the data directory of a member.
    pub fn data_dir(&self, id: u64) -> PathBuf {
        self.ensemble.member(id).data_dir()
    }

    /// Replaces the server of a member from its next start on. The directory stays.
    pub fn replace(&mut self, id: u64, flavour: Flavour) {
        self.kill_member(id);
        self.ensemble.replace(id, flavour);
    }

    /// Returns a member's line in the list of servers.
    pub fn line(&self, id: u64) -> String {
        self.ensemble.member(id).line(true)
    }

    /// Rewrites the member's zoo.cfg with all members.
    pub fn list_all(&self, id: u64) {
        self.list(id, self.ids());
    }

    fn list(&self, id: u64, ids: Vec<u64>) {
        let members = ids.into_iter();
        let members = members.map(|id| (id, self.ensemble.member(id).duty()));
        self.ensemble.configure(id, &members.collect::<Vec<_>>());
    }

    fn end_of_log(&self, id: u64) -> String {
        let log = self.ensemble.member(id).log();
        let lines: Vec<&str> = log.lines().collect();
        let from = lines.len().saturating_sub(LOG_LINES);
        lines.get(from..).unwrap_or_default().join("\n")
    }
}

/// Copies the logs of all members whose directories are in `scratch`.
pub fn save_logs(scratch: &Path, out: &Path) {
    let homes = std::fs::read_dir(scratch).into_iter().flatten().flatten();
    for home in homes.map(|entry| entry.path()) {
        let Ok(id) = std::fs::read_to_string(home.join("data/myid")) else {
            continue;
        };
        let log = out.join(format!("member-{}.log", id.trim()));
        std::fs::copy(home.join("server.log"), log).ok();
    }
}
