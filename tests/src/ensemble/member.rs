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

/// Time limit for one four-letter word. Even a server in an election answers immediately.
const WORD_PATIENCE: Duration = Duration::from_secs(2);
/// Time limit for the end of a server after SIGTERM.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// Voting right of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// It votes and may lead.
    Participant,
    /// It does not vote and cannot lead.
    Observer,
}

/// Role that a server reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It orders the writes.
    Leader,
    /// It votes and serves.
    Follower,
    /// It serves.
    Observer,
    /// Without a leader, it answers reads of clients that accept read-only servers.
    ReadOnly,
}

/// Addresses of a server.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) host: Ipv4Addr,
    pub(crate) client: u16,
    pub(crate) quorum: u16,
    pub(crate) election: u16,
    /// Reservations of the ports, if the server shares its IP address with other tests.
    _ports: Vec<Port>,
}

impl Place {
    /// Takes three free ports of the loopback address.
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

    /// Returns the usual ports of a separate address.
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

/// Directory of a member.
#[derive(Debug)]
pub(crate) enum Home {
    /// It is removed with the member.
    Temporary(TempDir),
    /// It stays, and a later ensemble may continue with it.
    Kept(PathBuf),
}

impl Home {
    /// Creates a temporary directory, or one with the member's id in a directory that stays.
    pub(crate) fn new(kept_in: Option<&Path>, id: u64) -> Home {
        let Some(dir) = kept_in else {
            let dir = tempfile::Builder::new().prefix("zoarium-member-").tempdir();
            return Home::Temporary(dir.expect("make a directory for a member"));
        };
        let home = dir.join(id.to_string());
        std::fs::create_dir_all(&home).expect("make a directory for a member");
        Home::Kept(home)
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Home::Temporary(dir) => dir.path(),
            Home::Kept(dir) => dir,
        }
    }
}

/// One server with its files, its addresses, and its process while it runs.
#[derive(Debug)]
pub struct Member {
    pub(crate) id: u64,
    pub(crate) flavour: Flavour,
    pub(crate) duty: Duty,
    pub(crate) place: Place,
    pub(crate) home: Home,
    pub(crate) process: Option<Process>,
    pub(crate) is_paused: bool,
}

impl Member {
    pub(crate) fn new(id: u64, flavour: Flavour, duty: Duty, place: Place, home: Home) -> Member {
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

    /// Returns its `myid`.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns its current implementation.
    pub fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// Returns its voting right at the start.
    pub fn duty(&self) -> Duty {
        self.duty
    }

    /// Returns whether its process runs and is not paused.
    pub fn is_up(&self) -> bool {
        self.process.is_some() && !self.is_paused
    }

    /// Returns whether its process exists, paused or not.
    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// Returns the address for clients.
    pub fn client_address(&self) -> SocketAddr {
        (self.place.host, self.place.client).into()
    }

    /// Returns the address for learners when it leads.
    pub fn quorum_address(&self) -> SocketAddr {
        (self.place.host, self.place.quorum).into()
    }

    /// Returns the address for elections.
    pub fn election_address(&self) -> SocketAddr {
        (self.place.host, self.place.election).into()
    }

    /// Returns the `dataDir` of its zoo.cfg.
    pub fn data_dir(&self) -> PathBuf {
        self.home.path().join("data")
    }

    /// Returns the path of its zoo.cfg. Changes take effect at the next start.
    pub fn config_file(&self) -> PathBuf {
        self.home.path().join("zoo.cfg")
    }

    /// Returns its line in the list of servers.
    pub fn line(&self, with_client: bool) -> String {
        self.line_as(self.duty, with_client)
    }

    /// Returns its line for another duty.
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
        if with_client {
            format!("{line};{host}:{client}")
        } else {
            line
        }
    }

    fn log_file(&self) -> PathBuf {
        self.home.path().join("server.log")
    }

    /// Returns all its output since its first start, of all flavours.
    pub fn log(&self) -> String {
        if let Some(process) = &self.process {
            process.wait_for_log_writer();
        }
        read_log(&self.log_file())
    }

    /// Returns its answer to a four-letter word, or `None` if it does not run or does not answer.
    pub fn word(&self, word: &str) -> Option<String> {
        if !self.is_up() {
            return None;
        }
        ask(self.client_address(), word, WORD_PATIENCE).ok()
    }

    /// Returns the value of a line of `mntr`. `name` lacks the prefix `zk_`.
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

    /// Returns its reported role, or `None` while it does not serve.
    pub fn role(&self) -> Option<Role> {
        match self.line_of_srvr("Mode: ")?.as_str() {
            "leader" => Some(Role::Leader),
            "follower" => Some(Role::Follower),
            "observer" => Some(Role::Observer),
            "read-only" => Some(Role::ReadOnly),
            other => panic!("member {} of an ensemble is {other}", self.id),
        }
    }

    /// Returns the last transaction that it has applied.
    pub fn zxid(&self) -> Option<u64> {
        let text = self.line_of_srvr("Zxid: ")?;
        u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
    }

    /// Returns the id of its process, if it runs.
    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Sends SIGTERM without waiting for the end. Does nothing if it does not run.
    pub fn ask_to_end(&mut self) {
        self.resume();
        if let Some(process) = &mut self.process {
            process.signal(Signal::TERM);
        }
    }

    /// Returns the CPU time of its process, which must exist.
    pub fn processor_time(&self) -> Duration {
        let process = self.process.as_ref().expect("a process");
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id()));
        let stat = stat.expect("read the state of a process");
        // The 12th and 13th field after its name, which may contain any character.
        let (_, fields) = stat.rsplit_once(')').expect("a name in brackets");
        let fields = fields.split_whitespace().skip(11).take(2);
        let ticks: u64 = fields
            .map(|ticks| ticks.parse::<u64>().expect("ticks"))
            .sum();
        let ticks_per_second = rustix::param::clock_ticks_per_second();
        Duration::from_millis(ticks * 1000 / ticks_per_second)
    }

    /// Returns its process, which must be running.
    pub fn process(&self) -> &Process {
        self.process.as_ref().expect("a process")
    }

    /// Returns the exit status if the process has ended by itself.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.as_mut().and_then(Process::ended)
    }

    pub(crate) fn launch(&mut self, launcher: &Launcher) {
        assert!(self.process.is_none(), "member {} runs already", self.id);
        let mut command = launcher.command(&self.config_file());
        // Tests read from the log how a learner was synchronised.
        command.env("RUST_LOG", "info,zoarium_zab::learner=debug");
        command.current_dir(self.home.path());
        let process = Process::spawn(&mut command, &self.log_file());
        self.process = Some(process.unwrap_or_else(|error| {
            panic!(
                "member {}: {}: {error}",
                self.id,
                command.get_program().display()
            )
        }));
        self.is_paused = false;
    }

    /// Sends SIGTERM, and returns the exit status.
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

    /// Kills its process (SIGKILL), as a power failure would.
    pub fn kill(&mut self) {
        let process = self.process.take();
        process
            .unwrap_or_else(|| panic!("member {} does not run", self.id))
            .kill();
        self.is_paused = false;
    }

    /// Pauses it (SIGSTOP). Its connections stay open, and it does not answer.
    pub fn pause(&mut self) {
        if let Some(process) = &mut self.process {
            process.pause();
            self.is_paused = true;
        }
    }

    /// Resumes it (SIGCONT).
    pub fn resume(&mut self) {
        if let (Some(process), true) = (&mut self.process, self.is_paused) {
            process.signal(Signal::CONT);
            self.is_paused = false;
        }
    }

    /// Returns its directory, with zoo.cfg, the data directory and the log.
    pub fn home(&self) -> &Path {
        self.home.path()
    }
}
