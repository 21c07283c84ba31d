//! One server process, Zoarium or Apache ZooKeeper, with a separate data directory.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::launcher::{Flavour, Launcher};
use crate::port::Port;
use crate::process::{Process, last_lines, read_log};
use crate::skip::Missing;
use crate::wait::{wait_for, wait_until};
use crate::words::{four_letter_word, serves};

/// Time limit until a server serves, on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Time limit for the end of a server after SIGTERM.
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// Lines of its log that a failed test shows.
const LOG_SHOWN: usize = 100;
/// Number of attempts with another port, if another program has taken the port.
const PORT_TRIES: usize = 5;

/// Settings of a server.
#[derive(Debug, Clone)]
pub struct ServerBuilder {
    flavour: Flavour,
    settings: Vec<(String, String)>,
    properties: Vec<(String, String)>,
    template: Option<String>,
    data_dir: Option<PathBuf>,
    shell: Option<String>,
}

/// Reason for which a server does not serve.
#[derive(Debug)]
pub struct StartFailure {
    /// Exit status, if it has ended.
    pub status: Option<ExitStatus>,
    /// Complete output.
    pub log: String,
}

impl ServerBuilder {
    /// Returns settings with short ticks (500 ms, session timeouts of 1 to 10 s), all four-letter
    /// words allowed, TTL znodes enabled, and without an admin server.
    pub fn new(flavour: Flavour) -> ServerBuilder {
        let builder = ServerBuilder {
            flavour,
            settings: Vec::new(),
            properties: Vec::new(),
            template: None,
            data_dir: None,
            shell: None,
        };
        builder
            .setting("tickTime", "500")
            .setting("initLimit", "10")
            .setting("syncLimit", "5")
            .setting("maxClientCnxns", "0")
            .setting("admin.enableServer", "false")
            .setting("4lw.commands.whitelist", "*")
            .setting("extendedTypesEnabled", "true")
    }

    /// Sets a key of zoo.cfg, and replaces an earlier value.
    #[must_use]
    pub fn setting(mut self, key: &str, value: &str) -> ServerBuilder {
        self.settings.retain(|(existing, _)| existing != key);
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Adds `-D<key>=<value>` to the command line.
    #[must_use]
    pub fn property(mut self, key: &str, value: &str) -> ServerBuilder {
        self.properties.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Uses this text as zoo.cfg instead of the settings, with `@PORT@` and `@DATADIR@` replaced.
    #[must_use]
    pub fn template(mut self, text: &str) -> ServerBuilder {
        self.template = Some(text.to_owned());
        self
    }

    /// Uses this data directory instead of a fresh one. It is not removed afterwards.
    #[must_use]
    pub fn data_dir(mut self, dir: &Path) -> ServerBuilder {
        self.data_dir = Some(dir.to_path_buf());
        self
    }

    /// Lets a shell run these commands first. They affect the server's process, such as `ulimit`.
    #[must_use]
    pub fn after(mut self, commands: &str) -> ServerBuilder {
        self.shell = Some(commands.to_owned());
        self
    }

    /// Starts the server and waits until it serves.
    ///
    /// # Errors
    /// [`Missing`] if the machine lacks requirements of Apache ZooKeeper. Panics, with the server's
    /// log, if the server does not serve in time.
    pub fn start(&self) -> Result<Server, Missing> {
        Ok(self.try_start()?.unwrap_or_else(|failure| {
            panic!(
                "{:?} did not serve ({:?}):\n{}",
                self.flavour, failure.status, failure.log
            )
        }))
    }

    /// Starts a server that is expected to refuse.
    ///
    /// # Errors
    /// [`Missing`] as for [`start`](Self::start). The inner error contains the server's output, if
    /// it ended or did not serve in time.
    pub fn try_start(&self) -> Result<Result<Server, StartFailure>, Missing> {
        let launcher = Launcher::new(self.flavour, &self.properties, self.shell.as_deref())?;
        let mut failure = None;
        for _ in 0..PORT_TRIES {
            let mut server = Server::new(self, launcher.clone());
            match server.launch() {
                Ok(()) => return Ok(Ok(server)),
                // A program without our locks has taken the port first.
                Err(failed) if failed.log.contains("Address already in use") => {
                    failure = Some(failed);
                }
                Err(failed) => return Ok(Err(failed)),
            }
        }
        Ok(Err(failure.expect("at least one port was tried")))
    }

    /// Returns the zoo.cfg for a server on `port` of the loopback address with this data directory.
    pub fn zoo_cfg(&self, port: u16, data_dir: &Path) -> String {
        let data_dir = data_dir.display().to_string();
        if let Some(template) = &self.template {
            return template
                .replace("@PORT@", &port.to_string())
                .replace("@DATADIR@", &data_dir);
        }
        let mut text =
            format!("dataDir={data_dir}\nclientPort={port}\nclientPortAddress=127.0.0.1\n");
        for (key, value) in &self.settings {
            writeln!(text, "{key}={value}").expect("a string takes everything");
        }
        text
    }
}

/// A server process, which runs unless it was stopped. Dropping it kills the process and removes
/// its files.
#[derive(Debug)]
pub struct Server {
    launcher: Launcher,
    port: Port,
    home: TempDir,
    data_dir: PathBuf,
    process: Option<Process>,
}

impl Server {
    /// Starts a server of the given flavour with the settings of [`ServerBuilder::new`].
    ///
    /// # Errors
    /// Under the conditions of [`ServerBuilder::start`].
    pub fn start(flavour: Flavour) -> Result<Server, Missing> {
        ServerBuilder::new(flavour).start()
    }

    fn new(builder: &ServerBuilder, launcher: Launcher) -> Server {
        let port = Port::take();
        let home = tempfile::Builder::new()
            .prefix("zoarium-test-")
            .tempdir()
            .expect("make a directory for a server");
        let data_dir = builder
            .data_dir
            .clone()
            .unwrap_or_else(|| home.path().join("data"));
        std::fs::create_dir_all(&data_dir).expect("make a data directory");
        let server = Server {
            launcher,
            port,
            home,
            data_dir,
            process: None,
        };
        let text = builder.zoo_cfg(server.port(), &server.data_dir);
        std::fs::write(server.config_file(), text).expect("write zoo.cfg");
        server
    }

    /// Returns its client port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Returns the connect string for a client.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// Returns the `dataDir` of its zoo.cfg.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Returns the path of its zoo.cfg. Changes take effect at the next start.
    pub fn config_file(&self) -> PathBuf {
        self.home.path().join("zoo.cfg")
    }

    /// Returns all its output since its first start.
    pub fn log(&self) -> String {
        if let Some(process) = &self.process {
            process.wait_for_log_writer();
        }
        read_log(&self.log_file())
    }

    fn log_file(&self) -> PathBuf {
        self.home.path().join("server.log")
    }

    /// Returns the id of the running process.
    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Returns its process, which must be running.
    pub fn process(&self) -> &Process {
        self.process.as_ref().expect("the server is running")
    }

    /// Returns its answer to a four-letter word.
    pub fn word(&self, word: &str) -> String {
        four_letter_word(self.port(), word)
            .unwrap_or_else(|error| panic!("no answer to {word}: {error}\n{}", self.log()))
    }

    /// Returns the value of a line of `mntr`. `name` lacks the prefix `zk_`.
    pub fn metric(&self, name: &str) -> Option<String> {
        let answer = self.word("mntr");
        let (key, mut lines) = (format!("zk_{name}"), answer.lines());
        lines
            .find_map(|line| line.split_once('\t').filter(|(found, _)| *found == key))
            .map(|(_, value)| value.to_owned())
    }

    /// Starts it with the same directory and port, and waits until it serves.
    ///
    /// # Errors
    /// If it ended or did not serve in time. The error contains its output. It is then stopped.
    pub fn launch(&mut self) -> Result<(), StartFailure> {
        assert!(self.process.is_none(), "the server is running already");
        let printed_before = self.log().len();
        let mut command = self.launcher.command(&self.config_file());
        command.current_dir(self.home.path());
        let mut process = match Process::spawn(&mut command, &self.log_file()) {
            Ok(process) => process,
            Err(error) => {
                let log = format!("{}: {error}", command.get_program().display());
                return Err(StartFailure { status: None, log });
            }
        };
        let outcome = wait_until(START_LIMIT, || {
            if let Some(status) = process.ended() {
                return Some(Err(Some(status)));
            }
            if !serves(self.port()) {
                return None;
            }
            // The answer may come from another server, because of which ours is about to end.
            Some(process.ended().map_or(Ok(()), |status| Err(Some(status))))
        });
        match outcome.unwrap_or(Err(None)) {
            Ok(()) => {
                self.process = Some(process);
                Ok(())
            }
            Err(status) => {
                process.kill();
                let log = self.log().split_off(printed_before);
                Err(StartFailure { status, log })
            }
        }
    }

    /// Sends SIGTERM, and returns the exit status.
    pub fn terminate(&mut self) -> ExitStatus {
        let mut process = self.process.take().expect("the server is running");
        process.signal(Signal::TERM);
        process
            .wait(STOP_LIMIT)
            .unwrap_or_else(|| panic!("no end within {STOP_LIMIT:?} of SIGTERM:\n{}", self.log()))
    }

    /// Waits for a server that is about to end by itself, and returns the exit status.
    pub fn wait_for_end(&mut self) -> ExitStatus {
        let mut process = self.process.take().expect("the server is running");
        process
            .wait(STOP_LIMIT)
            .unwrap_or_else(|| panic!("no end within {STOP_LIMIT:?}:\n{}", self.log()))
    }

    /// Kills its process (SIGKILL), as a power failure would.
    pub fn kill(&mut self) {
        let mut process = self.process.take().expect("the server is running");
        process.kill();
    }

    /// Ends it (SIGTERM) and starts it again.
    pub fn restart(&mut self) {
        self.terminate();
        self.launch_again();
    }

    /// Kills it (SIGKILL) and starts it again.
    pub fn crash_and_restart(&mut self) {
        self.kill();
        self.launch_again();
    }

    fn launch_again(&mut self) {
        if let Err(failure) = self.launch() {
            panic!(
                "no service after a restart ({:?}):\n{}",
                failure.status, failure.log
            );
        }
    }

    /// Waits until no session holds anything in the server: no connection except the current one,
    /// no ephemeral znode, no watch.
    pub fn wait_until_idle(&self) {
        let idle = |name: &str, value: &str| self.metric(name).as_deref() == Some(value);
        wait_for(
            "idle server after its clients left",
            Duration::from_secs(20),
            || {
                (idle("num_alive_connections", "1")
                    && idle("ephemerals_count", "0")
                    && idle("watch_count", "0"))
                .then_some(())
            },
        );
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process = None;
        if std::thread::panicking() {
            let log = last_lines(&self.log(), LOG_SHOWN);
            eprintln!("end of the log of port {}:\n{log}", self.port());
        }
    }
}
