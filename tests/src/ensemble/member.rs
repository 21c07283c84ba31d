//! One server of an ensemble.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::launcher::{Flavour, Launcher};
use crate::port::Port;
use crate::process::{Process, read_log};
use crate::words::ask;

/// How long one four-letter word may take; a server that is busy electing answers at once too.
const WORD_PATIENCE: Duration = Duration::from_secs(2);
/// How long a server may take to end after SIGTERM.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// Whether a server votes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// It votes and may lead.
    Participant,
    /// It does neither.
    Observer,
}

/// What a server says it is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It orders the writes.
    Leader,
    /// It votes and serves.
    Follower,
    /// It serves.
    Observer,
    /// Without a leader it answers reads of those who ask for that.
    ReadOnly,
}

/// Where a server listens.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) host: Ipv4Addr,
    pub(crate) client: u16,
    pub(crate) quorum: u16,
    pub(crate) election: u16,
    /// What keeps the ports from other tests, where the address is not the server's own.
    _ports: Vec<Port>,
}

impl Place {
    /// Three free ports of the loopback address.
    pub(crate) fn on_loopback() -> Place {
        let ports: Vec<Port> = std::iter::repeat_with(Port::take).take(3).collect();
        Place {
            host: Ipv4Addr::LOCALHOST,
            client: ports[0].number(),
            quorum: ports[1].number(),
            election: ports[2].number(),
            _ports: ports,
        }
    }

    /// The usual ports of an address of its own.
    pub(crate) fn at(host: Ipv4Addr) -> Place {
        Place {
            host,
            client: 2181,
            quorum: 2888,
            election: 3888,
            _ports: Vec::new(),
        }
    }
}

/// One server: its files, its place, and its process while it runs.
#[derive(Debug)]
pub struct Member {
    pub(crate) id: u64,
    pub(crate) flavour: Flavour,
    pub(crate) duty: Duty,
    pub(crate) place: Place,
    pub(crate) home: TempDir,
    pub(crate) process: Option<Process>,
    pub(crate) is_paused: bool,
}

impl Member {
    pub(crate) fn new(id: u64, flavour: Flavour, duty: Duty, place: Place) -> Member {
        let home = tempfile::Builder::new()
            .prefix("zoarium-member-")
            .tempdir()
            .expect("make a directory for a member");
        let member = Member {
            id,
            flavour,
            duty,
            place,
            home,
            process: None,
            is_paused: false,
        };
        std::fs::create_dir_all(member.data_dir()).expect("make a data directory");
        std::fs::write(member.data_dir().join("myid"), format!("{id}\n")).expect("write myid");
        member
    }

    /// Its `myid`.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Whose server it is at present.
    pub fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// Whether its process is there and not paused.
    pub fn is_up(&self) -> bool {
        self.process.is_some() && !self.is_paused
    }

    /// Whether its process is there, paused or not.
    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// Where clients connect.
    pub fn client_address(&self) -> SocketAddr {
        (self.place.host, self.place.client).into()
    }

    /// Where learners connect to it as a leader.
    pub fn quorum_address(&self) -> SocketAddr {
        (self.place.host, self.place.quorum).into()
    }

    /// Where others connect for elections.
    pub fn election_address(&self) -> SocketAddr {
        (self.place.host, self.place.election).into()
    }

    /// The `dataDir` of its zoo.cfg.
    pub fn data_dir(&self) -> PathBuf {
        self.home.path().join("data")
    }

    /// Its zoo.cfg; what is changed there counts from the next start.
    pub fn config_file(&self) -> PathBuf {
        self.home.path().join("zoo.cfg")
    }

    /// Its line in the list of servers.
    pub fn line(&self, with_client: bool) -> String {
        self.line_as(self.duty, with_client)
    }

    /// The same for another duty.
    pub fn line_as(&self, duty: Duty, with_client: bool) -> String {
        let Place {
            host,
            client,
            quorum,
            election,
            ..
        } = &self.place;
        let duty = match duty {
            Duty::Participant => "participant",
            Duty::Observer => "observer",
        };
        let line = format!("server.{}={host}:{quorum}:{election}:{duty}", self.id);
        match with_client {
            true => format!("{line};{host}:{client}"),
            false => line,
        }
    }

    fn log_file(&self) -> PathBuf {
        self.home.path().join("server.log")
    }

    /// Everything it has printed since its first start, under whatever flavour.
    pub fn log(&self) -> String {
        if let Some(process) = &self.process {
            process.wait_for_log_writer();
        }
        read_log(&self.log_file())
    }

    /// Its answer to a four-letter word; nothing if it is not up or says nothing.
    pub fn word(&self, word: &str) -> Option<String> {
        if !self.is_up() {
            return None;
        }
        ask(self.client_address(), word, WORD_PATIENCE).ok()
    }

    /// The value of a line of `mntr`, without its `zk_`.
    pub fn metric(&self, name: &str) -> Option<String> {
        let answer = self.word("mntr")?;
        let (key, mut lines) = (format!("zk_{name}"), answer.lines());
        lines
            .find_map(|line| line.split_once('\t').filter(|(found, _)| *found == key))
            .map(|(_, value)| value.to_owned())
    }

    fn line_of_srvr(&self, key: &str) -> Option<String> {
        let answer = self.word("srvr")?;
        let line = answer.lines().find_map(|line| line.strip_prefix(key));
        line.map(|value| value.trim().to_owned())
    }

    /// What it says it is; nothing while it does not serve.
    pub fn role(&self) -> Option<Role> {
        match self.line_of_srvr("Mode: ")?.as_str() {
            "leader" => Some(Role::Leader),
            "follower" => Some(Role::Follower),
            "observer" => Some(Role::Observer),
            "read-only" => Some(Role::ReadOnly),
            other => panic!("member {} of an ensemble is {other}", self.id),
        }
    }

    /// The last transaction that it has applied.
    pub fn zxid(&self) -> Option<u64> {
        let text = self.line_of_srvr("Zxid: ")?;
        u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
    }

    /// The id of its process, while there is one.
    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Asks it to end (SIGTERM), without waiting for that; nothing happens if it does not run.
    pub fn ask_to_end(&mut self) {
        self.resume();
        if let Some(process) = &mut self.process {
            process.signal(Signal::TERM);
        }
    }

    /// Processor time that its process has taken, which must be there.
    pub fn processor_time(&self) -> Duration {
        let process = self.process.as_ref().expect("a process");
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id()));
        let stat = stat.expect("read the state of a process");
        // Behind its name, which may hold anything, the 12th and the 13th.
        let (_, fields) = stat.rsplit_once(')').expect("a name in brackets");
        let fields = fields.split_whitespace().skip(11).take(2);
        let ticks: u64 = fields
            .map(|ticks| ticks.parse::<u64>().expect("ticks"))
            .sum();
        let ticks_per_second = rustix::param::clock_ticks_per_second();
        Duration::from_millis(ticks * 1000 / ticks_per_second)
    }

    /// Its process, which must be running.
    pub fn process(&self) -> &Process {
        self.process.as_ref().expect("a process")
    }

    /// How its process ended, if it did by itself.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.as_mut().and_then(Process::ended)
    }

    pub(crate) fn launch(&mut self, launcher: &Launcher) {
        assert!(self.process.is_none(), "member {} runs already", self.id);
        let mut command = launcher.command(&self.config_file());
        command.current_dir(self.home.path());
        let process = Process::spawn(&mut command, &self.log_file());
        self.process = Some(process.unwrap_or_else(|error| {
            panic!(
                "member {}: {:?}: {error}",
                self.id,
                command.get_program().to_owned()
            )
        }));
        self.is_paused = false;
    }

    /// Asks it to end (SIGTERM) and gives how it did.
    pub fn terminate(&mut self) -> ExitStatus {
        self.resume();
        let process = self.process.take();
        let mut process = process.unwrap_or_else(|| panic!("member {} does not run", self.id));
        process.signal(Signal::TERM);
        process.wait(STOP_LIMIT).unwrap_or_else(|| {
            panic!(
                "member {} did not end within {STOP_LIMIT:?} of SIGTERM",
                self.id
            )
        })
    }

    /// Ends it as a power cut would its process (SIGKILL).
    pub fn kill(&mut self) {
        let process = self.process.take();
        process
            .unwrap_or_else(|| panic!("member {} does not run", self.id))
            .kill();
        self.is_paused = false;
    }

    /// Lets it stand still (SIGSTOP): its connections stay open and nothing answers.
    pub fn pause(&mut self) {
        if let Some(process) = &mut self.process {
            process.signal(Signal::STOP);
            self.is_paused = true;
        }
    }

    /// Lets it go on (SIGCONT).
    pub fn resume(&mut self) {
        if let (Some(process), true) = (&mut self.process, self.is_paused) {
            process.signal(Signal::CONT);
            self.is_paused = false;
        }
    }

    /// Its directory, with zoo.cfg, the data directory and the log.
    pub fn home(&self) -> &Path {
        self.home.path()
    }
}
