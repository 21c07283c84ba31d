//! Ensembles of real server processes, with any mixture of Zoarium and Apache ZooKeeper.
//!
//! ```no_run
//! use tests::Flavour::{Apache, Zoarium};
//! use tests::ensemble::EnsembleBuilder;
//!
//! let mut ensemble = EnsembleBuilder::new(&[Zoarium, Apache, Zoarium])
//!     .observers(&[Zoarium])
//!     .start()?;
//! let leader = ensemble.wait_for_leader();
//! ensemble.member_mut(leader).kill();
//! let next = ensemble.wait_for_leader();
//! ensemble.start(leader);
//! ensemble.wait_until_all_serve();
//! # Ok::<(), tests::Missing>(())
//! ```
//!
//! Meanwhile, [`Load`] writes through members and records the acknowledged writes. [`check`]
//! compares them with the members, and the members with each other. [`Holders`] keep sessions with
//! ephemerals and watches. A [`Network`] can separate members.

mod builder;
pub mod check;
mod holders;
mod links;
mod load;
mod member;
mod network;
mod reconfig;
mod writer;

use std::time::{Duration, Instant};

pub use builder::EnsembleBuilder;
pub use holders::Holders;
pub use links::{Carried, Shape};
pub use load::{Load, LoadReport, LoadSettings};
pub use member::{Duty, Member, Role};
pub use network::{Network, OUTSIDE};
pub use reconfig::Change;
pub use writer::{Known, WriterReport};

use crate::launcher::Flavour;
use crate::port::Port;
use crate::process::last_lines;
use crate::wait::{wait_for, wait_until};

/// Time within which a healthy ensemble of busy processes has elected a leader and synchronised.
pub const SETTLE_LIMIT: Duration = Duration::from_secs(60);
/// Lines of each member's log that a failed test shows.
const LOG_SHOWN: usize = 80;

/// The super user of every ensemble, to whom ACLs do not apply.
pub use crate::secrets::SUPER;
/// Default session timeout of tests, ms. It is longer than any disturbance.
pub const SESSION_TIMEOUT_MS: i32 = 30_000;

/// The members, numbered from 1: first the voters, then the observers.
#[derive(Debug)]
pub struct Ensemble {
    builder: EnsembleBuilder,
    members: Vec<Member>,
    network: Option<Network>,
}

impl Ensemble {
    /// Returns a member by its id.
    pub fn member(&self, id: u64) -> &Member {
        let found = self.members.iter().find(|member| member.id == id);
        found.unwrap_or_else(|| panic!("there is no member {id}"))
    }

    /// Returns a member by its id, to stop or pause it.
    pub fn member_mut(&mut self, id: u64) -> &mut Member {
        let found = self.members.iter_mut().find(|member| member.id == id);
        found.unwrap_or_else(|| panic!("there is no member {id}"))
    }

    /// Returns all ids.
    pub fn ids(&self) -> Vec<u64> {
        self.members.iter().map(|member| member.id).collect()
    }

    /// Returns the ids of members whose processes run.
    pub fn up(&self) -> Vec<u64> {
        let up = self.members.iter().filter(|member| member.is_up());
        up.map(|member| member.id).collect()
    }

    /// Returns the ids of the voters.
    pub fn voters(&self) -> Vec<u64> {
        let voters = self.members.iter();
        let voters = voters.filter(|member| member.duty == Duty::Participant);
        voters.map(|member| member.id).collect()
    }

    /// Returns the number of the network, if the members have one.
    pub fn network_number(&self) -> Option<u8> {
        self.network.as_ref().map(Network::number)
    }

    /// Returns the network between the members. Panics if they use the loopback address.
    pub fn network(&mut self) -> &mut Network {
        self.network.as_mut().expect("a network of its own")
    }

    /// Returns the client addresses of these members.
    pub fn addresses(&self, ids: &[u64]) -> Vec<String> {
        let ids = ids.iter();
        ids.map(|&id| self.member(id).client_address().to_string())
            .collect()
    }

    /// Gives each member an admin port on the loopback address, before it starts. If the ports are
    /// named, the members know the ports of each other (`zoarium.admin.N`). Returns the ports in the
    /// order of the ids.
    pub fn add_admin_ports(&self, are_named: bool) -> Vec<Port> {
        let ids = self.ids();
        let ports: Vec<Port> = ids.iter().map(|_| Port::take()).collect();
        let mut named = String::new();
        for (port, id) in ports.iter().zip(&ids).filter(|_| are_named) {
            named.push_str(&format!("zoarium.admin.{id}=127.0.0.1:{}\n", port.number()));
        }
        for (port, id) in ports.iter().zip(&ids) {
            let file = self.member(*id).config_file();
            let text = std::fs::read_to_string(&file).expect("zoo.cfg");
            let own = port.number();
            let text =
                format!("{text}\nadmin.serverAddress=127.0.0.1\nadmin.serverPort={own}\n{named}");
            std::fs::write(&file, text).expect("write zoo.cfg");
        }
        ports
    }

    /// Starts a member's process, without waiting until it serves.
    pub fn start(&mut self, id: u64) {
        self.launch(id, None);
    }

    /// Starts a member's process after a shell has run these commands, which affect the server's
    /// process, such as `ulimit`.
    pub fn start_after(&mut self, id: u64, commands: &str) {
        self.launch(id, Some(commands));
    }

    fn launch(&mut self, id: u64, shell: Option<&str>) {
        let flavour = self.member(id).flavour;
        let launcher = self.builder.launcher(flavour, shell);
        let mut launcher = launcher.unwrap_or_else(|missing| panic!("{missing}"));
        if let Some(network) = &self.network {
            launcher = network.launcher(id, launcher);
        }
        self.member_mut(id).launch(&launcher);
    }

    /// Changes the implementation of a member from its next start, in the same directory.
    pub fn replace(&mut self, id: u64, flavour: Flavour) {
        let member = self.member_mut(id);
        assert!(member.process.is_none(), "member {id} runs");
        member.flavour = flavour;
    }

    /// Writes a member's zoo.cfg with these servers in its list.
    pub fn configure(&self, id: u64, servers: &[(u64, Duty)]) {
        let lines = servers.iter().map(|&(id, duty)| {
            let with_client = self.builder.is_dynamic;
            self.member(id).line_as(duty, with_client)
        });
        let member = self.member(id);
        let text = self.builder.zoo_cfg(member, &lines.collect::<Vec<_>>());
        std::fs::write(member.config_file(), text).expect("write zoo.cfg");
    }

    /// Adds a member, which is neither configured nor started, and returns its id. A network must
    /// have a free place for it.
    pub fn add(&mut self, flavour: Flavour, duty: Duty) -> u64 {
        let id = self.members.last().map_or(1, |member| member.id + 1);
        let place = self.builder.place(id, self.network.as_ref());
        let home = self.builder.home(id);
        self.members
            .push(Member::new(id, flavour, duty, place, home));
        id
    }

    /// Returns the members that report that they lead.
    pub fn leaders(&self) -> Vec<u64> {
        self.in_role(Role::Leader)
    }

    /// Returns the members that report this role.
    pub fn in_role(&self, role: Role) -> Vec<u64> {
        let members = self.members.iter();
        let found = members.filter(|member| member.role() == Some(role));
        found.map(|member| member.id).collect()
    }

    /// Waits for the single leader, and returns its id.
    pub fn wait_for_leader(&self) -> u64 {
        self.wait_for_leader_among(&self.ids())
    }

    /// Waits for the single leader among these members.
    pub fn wait_for_leader_among(&self, ids: &[u64]) -> u64 {
        wait_for("leader", SETTLE_LIMIT, || {
            let leading = |id: &&u64| self.member(**id).role() == Some(Role::Leader);
            let leaders: Vec<_> = ids.iter().filter(leading).collect();
            match leaders.as_slice() {
                [leader] => Some(**leader),
                _ => None,
            }
        })
    }

    /// Waits until this observer is connected to a follower, and returns each member with a name
    /// for its role.
    pub fn roles_with_observer(&self, observer: u64) -> Vec<(u64, &'static str)> {
        let leader = self.wait_for_leader();
        let master = wait_for("an observer behind a follower", SETTLE_LIMIT, || {
            let master = self.member(observer).metric("observer_master_id")?;
            master.parse::<u64>().ok().filter(|id| *id != leader)
        });
        let role = |id| match id {
            id if id == observer => "observer",
            id if id == leader => "leader",
            id if id == master => "observer master",
            _ => "follower",
        };
        self.ids().into_iter().map(|id| (id, role(id))).collect()
    }

    /// Waits until every running member serves, one of them as the leader.
    pub fn wait_until_all_serve(&self) -> u64 {
        self.wait_until_these_serve(&self.up())
    }

    /// Waits until all of these serve, one of them as the leader, and returns its id.
    pub fn wait_until_these_serve(&self, ids: &[u64]) -> u64 {
        let roles = || ids.iter().map(|&id| self.member(id).role());
        let settled = wait_until(SETTLE_LIMIT, || {
            let roles: Vec<_> = roles().collect();
            let leaders = roles.iter().filter(|role| **role == Some(Role::Leader));
            let serve = |role: &Option<Role>| role.is_some_and(|role| role != Role::ReadOnly);
            (leaders.count() == 1 && roles.iter().all(serve)).then_some(())
        });
        let found: Vec<_> = ids.iter().zip(roles()).collect();
        assert!(
            settled.is_some(),
            "not all serve after {SETTLE_LIMIT:?}: {found:?}"
        );
        self.wait_for_leader_among(ids)
    }

    /// Kills this member and starts it again. The others must continue without it, and it must then
    /// rejoin. `more` is the required number of writes by each writer meanwhile.
    pub fn survive_kill_of(&mut self, id: u64, load: &Load, more: u64) {
        self.member_mut(id).kill();
        self.wait_until_all_serve();
        load.wait_for_progress(more);
        self.start(id);
        self.wait_until_all_serve();
    }

    /// Waits until none of these serves writes, so that none leads, follows or observes.
    pub fn wait_until_none_serves(&self, ids: &[u64]) {
        wait_for("end of service without a quorum", SETTLE_LIMIT, || {
            let serves = |id: &u64| {
                let role = self.member(*id).role();
                role.is_some_and(|role| role != Role::ReadOnly)
            };
            (!ids.iter().any(serves)).then_some(())
        });
    }

    /// Panics if any of these serves at any check within `time`. This is the only wait of a fixed
    /// time here, because there is no condition that shows the absence of an event.
    pub fn assert_none_serves_for(&self, ids: &[u64], time: Duration) {
        let begun = Instant::now();
        let served = wait_until(time, || {
            let serving = |id: &u64| {
                let role = self.member(*id).role();
                role.filter(|role| *role != Role::ReadOnly)
            };
            ids.iter().find_map(|id| Some((*id, serving(id)?)))
        });
        if let Some((id, role)) = served {
            panic!(
                "member {id} became {role:?} without a quorum after {:?}",
                begun.elapsed()
            );
        }
    }

    /// Waits until all of these have applied the same last transaction.
    pub fn wait_for_equal_zxids(&self, ids: &[u64]) -> u64 {
        let zxids = || -> Vec<_> { ids.iter().map(|&id| self.member(id).zxid()).collect() };
        let equal = wait_until(SETTLE_LIMIT, || {
            let zxids = zxids();
            let first = zxids.first().copied().flatten()?;
            zxids
                .iter()
                .all(|zxid| *zxid == Some(first))
                .then_some(first)
        });
        equal.unwrap_or_else(|| panic!("last transactions stay apart: {:x?}", zxids()))
    }
}

impl Drop for Ensemble {
    fn drop(&mut self) {
        for member in &mut self.members {
            member.process = None;
        }
        if !std::thread::panicking() {
            return;
        }
        for member in &self.members {
            let Member { id, flavour, .. } = member;
            let log = last_lines(&member.log(), LOG_SHOWN);
            eprintln!("==== end of the log of member {id} ({flavour:?}):\n{log}");
        }
    }
}
