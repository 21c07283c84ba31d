//! Settings that a seed draws before a run.

mod files;
mod keys;

use std::net::IpAddr;
use std::sync::Arc;

use proto::Sid;
use testkit::Random;

pub(crate) use crate::addresses::*;
use crate::operators::settings::Settings as Operators;
use crate::security::Security;

/// Maximum number of members that a reconfiguration adds.
const SPARE_MAX: u8 = 2;

/// Settings of a run.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) participants: u8,
    pub(crate) observers: u8,
    /// Number of servers that are not members at first, and may join.
    pub(crate) spares: u8,
    pub(crate) clients: usize,
    pub(crate) requests: usize,
    pub(crate) znodes: usize,
    /// Whether clients may change the member list.
    pub(crate) is_reconfigurable: bool,
    /// Maximum pause between two faults, in ms.
    pub(crate) fault_pause_ms: i64,
    /// Whether writes that exceed a hard quota are refused.
    pub(crate) enforces_quotas: bool,
    /// Whether the only participant is a standalone server.
    pub(crate) is_standalone: bool,
    /// Settings of the interfaces for operators.
    pub(crate) operators: Operators,
    /// Security of the ensemble. Such a run has attackers instead of operators, and no other
    /// programs of clients and keys of zoo.cfg.
    pub(crate) security: Option<Arc<Security>>,
    /// Whether each member has two addresses for other members.
    has_two_addresses: bool,
    /// Whether the member list also contains the ports for clients.
    lists_clients: bool,
    /// Whether zoo.cfg names another file with the member list.
    is_list_outside: bool,
    /// Groups and weights, as lines.
    hierarchy: Vec<(String, String)>,
    /// Keys and values of zoo.cfg that all members share.
    lines: Vec<(String, String)>,
    /// System properties of all members, as `name=value`.
    properties: Vec<String>,
}

impl Settings {
    pub(crate) fn draw(random: &mut Random) -> Self {
        if random.percent(40) {
            return Self::draw_secured(random);
        }
        let percent = random.pick(&[0, 5, 10, 30]).unwrap_or(0);
        let mut lines = keys::draw(random, percent);
        let participants = random.pick(&[1, 3, 3, 3, 5]).unwrap_or(3);
        let observers = random.pick(&[0, 0, 0, 1, 2]).unwrap_or(0);
        let is_standalone = participants == 1 && observers == 0 && random.percent(50);
        let hierarchy = match participants {
            3.. if random.percent(15) => draw_hierarchy(participants, random),
            _ => Vec::new(),
        };
        let is_reconfigurable = !is_standalone && hierarchy.is_empty() && random.percent(40);
        draw_times(&mut lines, random);
        let mut add = |key: &str, value: &str| lines.push((key.to_owned(), value.to_owned()));
        add("extendedTypesEnabled", "true");
        let check_ms = random.range(500, 20_000);
        add("znode.container.checkIntervalMs", &check_ms.to_string());
        if participants == 1 && !is_standalone {
            add("standaloneEnabled", "false");
        }
        let has_two_addresses = random.percent(20);
        if has_two_addresses {
            add("multiAddress.enabled", "true");
        }
        if observers > 0 && participants > 1 && random.percent(40) {
            add("observerMasterPort", &OBSERVER_MASTER_PORT.to_string());
        }
        if is_reconfigurable {
            add("reconfigEnabled", "true");
        }
        Self {
            participants,
            observers,
            spares: if is_reconfigurable { SPARE_MAX } else { 0 },
            clients: 3 + random.below(4),
            requests: 15 + random.below(45),
            znodes: 1 + random.below(4),
            is_reconfigurable,
            fault_pause_ms: random.pick(&[1_000, 3_000, 8_000, 30_000]).unwrap_or(0),
            enforces_quotas: lines.iter().any(|(key, _)| key == "enforceQuota"),
            is_standalone,
            has_two_addresses,
            lists_clients: is_reconfigurable || random.percent(20),
            is_list_outside: random.percent(20),
            hierarchy,
            lines,
            properties: keys::draw_properties(random, percent),
            operators: Operators::draw(random),
            security: None,
        }
    }

    /// Draws a run with security and attackers.
    fn draw_secured(random: &mut Random) -> Self {
        let participants = random.pick(&[1, 3, 3, 3, 5]).unwrap_or(3);
        let observers = random.pick(&[0, 0, 0, 1, 2]).unwrap_or(0);
        let members: Vec<Sid> = (1..=i64::from(participants + observers)).map(Sid).collect();
        let security = Security::draw(&mut Random::new(random.any()), &members);
        let mut lines = Vec::new();
        draw_times(&mut lines, random);
        if participants == 1 {
            lines.push(("standaloneEnabled".to_owned(), "false".to_owned()));
        }
        Self {
            participants,
            observers,
            spares: 0,
            clients: 2 + random.below(4),
            requests: 20 + random.below(100),
            znodes: 1 + random.below(4),
            is_reconfigurable: false,
            fault_pause_ms: 20_000,
            enforces_quotas: false,
            is_standalone: false,
            has_two_addresses: false,
            lists_clients: false,
            is_list_outside: false,
            hierarchy: Vec::new(),
            lines,
            properties: security.properties(),
            operators: Operators::none(),
            security: Some(Arc::new(security)),
        }
    }

    /// Returns the members at the beginning of the run.
    pub(crate) fn members(&self) -> impl Iterator<Item = Sid> {
        (1..=i64::from(self.participants + self.observers)).map(Sid)
    }

    /// Returns all servers. Some of them may join later.
    pub(crate) fn servers(&self) -> impl Iterator<Item = Sid> {
        (1..=i64::from(self.participants + self.observers + self.spares)).map(Sid)
    }

    fn is_observer(&self, member: Sid) -> bool {
        member.0 > i64::from(self.participants)
    }

    /// Returns the value of a member in the member list.
    pub(crate) fn line_of(&self, member: Sid, role: &str) -> String {
        let addresses = self.addresses_of(member);
        let ports = addresses.map(|address| format!("{address}:{QUORUM_PORT}:{ELECTION_PORT}"));
        let mut line = ports.collect::<Vec<_>>().join("|");
        line.push_str(&format!(":{role}"));
        if self.lists_clients {
            line.push_str(&format!(";{}:{CLIENT_PORT}", address_of(member)));
        }
        line
    }

    /// Returns the addresses of a member for other members.
    pub(crate) fn addresses_of(&self, member: Sid) -> impl Iterator<Item = IpAddr> {
        let second = self.has_two_addresses.then(|| second_address_of(member));
        [address_of(member)].into_iter().chain(second)
    }
}

/// Draws the times of an ensemble.
fn draw_times(lines: &mut Vec<(String, String)>, random: &mut Random) {
    let mut add = |key: &str, value: &str| lines.push((key.to_owned(), value.to_owned()));
    add("tickTime", &random.range(100, 2001).to_string());
    add("initLimit", &random.range(5, 20).to_string());
    add("syncLimit", &random.range(3, 10).to_string());
    add("snapCount", &random.range(10, 300).to_string());
    add("4lw.commands.whitelist", "*");
    add("minSessionTimeout", "200");
    add("maxSessionTimeout", "60000");
}

/// Draws groups so that a majority of groups with a majority of the weights exists.
fn draw_hierarchy(participants: u8, random: &mut Random) -> Vec<(String, String)> {
    let groups = if random.percent(50) { 1 } else { 3 };
    let mut lines = Vec::new();
    for group in 1..=groups {
        let of_group = (1..=participants).filter(|member| member % groups == group % groups);
        let members: Vec<String> = of_group.map(|member| member.to_string()).collect();
        lines.push((format!("group.{group}"), members.join(":")));
    }
    for member in 1..=participants {
        if random.percent(50) {
            let weight = random.range(1, 4).to_string();
            lines.push((format!("weight.{member}"), weight));
        }
    }
    lines
}
