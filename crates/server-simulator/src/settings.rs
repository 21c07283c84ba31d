//! Settings that a seed draws before a run.

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use config::{Config, RawConfig, SystemProperties};
use proto::Sid;
use testkit::Random;

pub(crate) use crate::addresses::*;
use crate::operators::settings::Settings as Operators;

/// Settings of a run.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) participants: u8,
    pub(crate) observers: u8,
    /// Whether the only member is a standalone server, without an ensemble.
    pub(crate) is_standalone: bool,
    pub(crate) clients: usize,
    pub(crate) requests: usize,
    pub(crate) znodes: usize,
    pub(crate) operators: Operators,
    /// Lines of zoo.cfg for all members.
    lines: String,
}

impl Settings {
    pub(crate) fn draw(random: &mut Random) -> Self {
        let mut lines = String::new();
        let mut add = |key: &str, value: &str| lines.push_str(&format!("{key}={value}\n"));
        let tick_ms = random.range(100, 2001);
        add("tickTime", &tick_ms.to_string());
        add("initLimit", &random.range(5, 20).to_string());
        add("syncLimit", &random.range(3, 10).to_string());
        add("snapCount", &random.range(10, 300).to_string());
        add("4lw.commands.whitelist", "*");
        add("minSessionTimeout", "200");
        add("maxSessionTimeout", "60000");
        let participants = random.pick(&[1, 3, 3, 3, 5]).unwrap_or(3);
        let is_standalone = participants == 1 && random.percent(70);
        let observers = random.pick(&[0, 0, 0, 1, 2]).filter(|_| !is_standalone);
        Self {
            participants,
            observers: observers.unwrap_or(0),
            is_standalone,
            clients: 2 + random.below(4),
            requests: 20 + random.below(100),
            znodes: 1 + random.below(4),
            operators: Operators::draw(random),
            lines,
        }
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = Sid> {
        (1..=i64::from(self.participants + self.observers)).map(Sid)
    }

    fn is_observer(&self, member: Sid) -> bool {
        member.0 > i64::from(self.participants)
    }

    /// Parses the configuration of a member as a server does.
    pub(crate) fn config(&self, member: Sid, data_dir: &Path) -> Arc<Config> {
        let mut file = self.lines.clone() + &self.operators.lines(member, data_dir);
        let mut add = |key: &str, value: &str| file.push_str(&format!("{key}={value}\n"));
        let address = address_of(member).to_string();
        add("dataDir", &data_dir.display().to_string());
        add("clientPort", &CLIENT_PORT.to_string());
        add("clientPortAddress", &address);
        add("admin.serverPort", &ADMIN_PORT.to_string());
        add("admin.serverAddress", &address);
        if self.is_observer(member) {
            add("peerType", "observer");
        }
        if self.participants == 1 && !self.is_standalone {
            add("standaloneEnabled", "false");
        }
        for other in self.members().filter(|_| !self.is_standalone) {
            let role = if self.is_observer(other) {
                "observer"
            } else {
                "participant"
            };
            let address = address_of(other);
            let ports = format!("{address}:{QUORUM_PORT}:{ELECTION_PORT}:{role}");
            add(&format!("server.{}", other.0), &ports);
        }
        let raw = RawConfig::parse("zoo.cfg".as_ref(), file.as_bytes()).expect("valid lines");
        let properties = SystemProperties::new();
        let mut surroundings = Surroundings(member);
        let config = Config::parse(raw, properties, &mut surroundings);
        Arc::new(config.unwrap_or_else(|error| panic!("{file}{error}")))
    }
}

/// Surroundings of a member in a process that knows its id.
struct Surroundings(Sid);

impl config::Surroundings for Surroundings {
    fn read(&mut self, path: &Path, _limit: usize) -> io::Result<Vec<u8>> {
        if path.ends_with("myid") {
            return Ok(self.0.0.to_string().into_bytes());
        }
        std::fs::read(path)
    }

    fn resolve(&mut self, _host: &str) -> io::Result<IpAddr> {
        Err(io::Error::new(io::ErrorKind::NotFound, "no name service"))
    }
}
