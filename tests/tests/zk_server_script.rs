//! `conf/zkServer.sh`, as operators and their scripts see it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;
use tests::certificates::Certificates;
use tests::{
    Flavour, Port, Process, ServerBuilder, find_tool, four_letter_word, wait_for, workspace_root,
    zoarium_binary,
};

const LIMIT: Duration = Duration::from_secs(60);

/// A configuration directory, a data directory and a port. A process that still runs there at the
/// end is killed.
struct Site {
    home: TempDir,
    port: Port,
}

impl Site {
    fn new() -> Site {
        let site = Site {
            home: tempfile::tempdir().expect("make a directory"),
            port: Port::take(),
        };
        fs::create_dir(site.conf()).expect("make a configuration directory");
        let builder = ServerBuilder::new(Flavour::Zoarium);
        fs::write(
            site.config(),
            builder.zoo_cfg(site.port.number(), &site.data()),
        )
        .expect("write zoo.cfg");
        site
    }

    fn conf(&self) -> PathBuf {
        self.home.path().join("conf")
    }

    fn config(&self) -> PathBuf {
        self.conf().join("zoo.cfg")
    }

    fn data(&self) -> PathBuf {
        self.home.path().join("data")
    }

    fn pid_file(&self) -> PathBuf {
        self.data().join("zookeeper_server.pid")
    }

    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(fs::read_to_string(self.pid_file()).ok()?.parse().ok()?)
    }

    /// Returns a command of the script, without the variables of this machine that the script
    /// reads.
    fn script(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(workspace_root().join("conf/zkServer.sh"));
        for name in [
            "ZOOCFG",
            "ZOOPIDFILE",
            "SERVER_JVMFLAGS",
            "JVMFLAGS",
            "JMXDISABLE",
        ] {
            command.env_remove(name);
        }
        command
            .env("ZOARIUM", zoarium_binary())
            .env("ZOO_LOG_DIR", self.home.path().join("logs"))
            .arg("--config")
            .arg(self.conf())
            .args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Answer {
        Answer::of(&mut self.script(arguments))
    }

    fn wait_until_it_serves(&self) {
        wait_for("service", LIMIT, || {
            four_letter_word(self.port.number(), "srvr")
                .ok()
                .filter(|text| text.contains("Mode:"))
        });
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(pid) = self.pid() {
            kill_process(pid, Signal::KILL).ok();
        }
    }
}

/// The exit code of the script and its output.
#[derive(Debug)]
struct Answer {
    code: Option<i32>,
    said: String,
    errors: String,
}

impl Answer {
    fn of(command: &mut Command) -> Answer {
        let Output {
            status,
            stdout,
            stderr,
        } = command.output().expect("run the script");
        Answer {
            code: status.code(),
            said: String::from_utf8_lossy(&stdout).into_owned(),
            errors: String::from_utf8_lossy(&stderr).into_owned(),
        }
    }

    #[track_caller]
    fn expect(&self, code: i32, said: &str) {
        assert_eq!(
            (self.code, self.said.as_str()),
            (Some(code), said),
            "{}",
            self.errors
        );
    }
}

#[test]
fn a_server_is_started_queried_restarted_and_stopped() {
    let site = Site::new();
    let started = site.run(&["start"]);
    started.expect(0, "Starting zookeeper ... STARTED\n");
    let config = site.config().display().to_string();
    assert_eq!(
        started.errors,
        format!("ZooKeeper JMX enabled by default\nUsing config: {config}\n")
    );
    site.wait_until_it_serves();
    let first = site.pid().expect("a process id was written");

    let port = site.port.number();
    let found =
        format!("Client port found: {port}. Client address: 127.0.0.1. Client SSL: false.\n");
    site.run(&["status"])
        .expect(0, &format!("{found}Mode: standalone\n"));

    let running = format!("Starting zookeeper ... already running as process {first}.\n");
    site.run(&["start"]).expect(1, &running);

    let restarted = "Stopping zookeeper ... STOPPED\nStarting zookeeper ... STARTED\n";
    site.run(&["restart"]).expect(0, restarted);
    site.wait_until_it_serves();
    assert_ne!(site.pid(), Some(first));

    site.run(&["stop"])
        .expect(0, "Stopping zookeeper ... STOPPED\n");
    assert!(!site.pid_file().exists());
    assert!(
        four_letter_word(port, "srvr").is_err(),
        "it is stopped when the script says so"
    );

    let file = site.pid_file().display().to_string();
    let nothing =
        format!("Stopping zookeeper ... no zookeeper to stop (could not find file {file})\n");
    site.run(&["stop"]).expect(0, &nothing);
    let unreachable = "Error contacting service. It is probably not running.\n";
    site.run(&["status"])
        .expect(1, &format!("{found}{unreachable}"));
}

#[test]
fn a_server_that_ends_immediately_has_not_started() {
    let site = Site::new();
    fs::write(
        site.config(),
        format!("dataDir={}\ntickTime=x\n", site.data().display()),
    )
    .expect("write zoo.cfg");
    let answer = site.run(&["start"]);
    answer.expect(1, "Starting zookeeper ... FAILED TO START\n");
    assert!(
        answer.errors.contains("tickTime"),
        "the reason is shown: {}",
        answer.errors
    );
}

#[test]
fn a_stranger_with_the_number_of_an_old_server_is_left_alone() {
    let site = Site::new();
    fs::create_dir(site.data()).expect("make the data directory");
    let mut sleep = Command::new(find_tool("sleep").expect("coreutils are there"));
    let log = site.home.path().join("stranger");
    let mut stranger = Process::spawn(sleep.arg("600"), &log).expect("start a stranger");
    fs::write(site.pid_file(), stranger.id().to_string()).expect("write an old process id");
    site.run(&["stop"])
        .expect(0, "Stopping zookeeper ... STOPPED\n");
    fs::write(site.pid_file(), stranger.id().to_string()).expect("write an old process id");
    site.run(&["start"])
        .expect(0, "Starting zookeeper ... STARTED\n");
    assert!(stranger.ended().is_none());
}

#[test]
fn foreground_replaces_the_script_by_the_server() {
    let site = Site::new();
    let log = site.home.path().join("foreground");
    let mut script = site.script(&["start-foreground"]);
    let mut process = Process::spawn(&mut script, &log).expect("start the script");
    site.wait_until_it_serves();
    let name = fs::read_to_string(format!("/proc/{}/comm", process.id())).unwrap_or_default();
    assert_eq!(name.trim(), "zoarium");
    process.signal(Signal::TERM);
    let status = process.wait(LIMIT).expect("an end after SIGTERM");
    assert_eq!(status.code(), Some(0), "{}", process.log());
}

#[test]
fn the_environment_and_its_files_apply() {
    let site = Site::new();
    let elsewhere = site.home.path().join("run/server.pid");
    let logs = site.home.path().join("other-logs");
    let text = fs::read_to_string(site.config()).expect("read zoo.cfg");
    let text = text.replace("4lw.commands.whitelist=*\n", "");
    fs::rename(site.config(), site.conf().join("other.cfg")).expect("rename zoo.cfg");
    fs::write(site.conf().join("other.cfg"), text).expect("write other.cfg");
    let flags = "SERVER_JVMFLAGS='-Xmx1g -Dzookeeper.4lw.commands.whitelist=ruok,srvr'\n";
    fs::write(site.conf().join("java.env"), flags).expect("write java.env");
    let script = |arguments: &[&str]| {
        let mut command = site.script(arguments);
        command
            .env("ZOOPIDFILE", &elsewhere)
            .env("ZOO_LOG_DIR", &logs)
            .env("USER", "operator")
            .env("JMXDISABLE", "true");
        Answer::of(&mut command)
    };
    let started = script(&["start", "other.cfg"]);
    started.expect(0, "Starting zookeeper ... STARTED\n");
    let config = site.conf().join("other.cfg").display().to_string();
    let announced = format!("JMX disabled by user request\nUsing config: {config}\n");
    assert_eq!(started.errors, announced);
    site.wait_until_it_serves();
    assert_eq!(
        four_letter_word(site.port.number(), "ruok").ok().as_deref(),
        Some("imok")
    );
    assert!(elsewhere.is_file());
    let mut outputs = fs::read_dir(&logs)
        .expect("a directory for the output")
        .flatten();
    let output = outputs.next().expect("the server's output").file_name();
    let output = output.to_string_lossy();
    assert!(output.starts_with("zookeeper-operator-server-") && output.ends_with(".out"));
    // A full path is sufficient, without the configuration directory.
    script(&["stop", &config]).expect(0, "Stopping zookeeper ... STOPPED\n");
    assert!(!elsewhere.exists());
}

#[test]
fn the_port_of_a_member_is_found_in_its_member_lines() {
    let site = Site::new();
    let data = site.data();
    let members = site.conf().join("zoo.cfg.dynamic");
    fs::create_dir(&data).expect("make the data directory");
    let text = format!(
        "dataDir={}\ndynamicConfigFile={}\n",
        data.display(),
        members.display()
    );
    fs::write(site.config(), text).expect("write zoo.cfg");
    let port = site.port.number();
    let lines = format!("server.1=a:1:2\nserver.12=127.0.0.1:1:2:participant;127.0.0.1:{port}\n");
    fs::write(members, lines).expect("write the members");
    let unknown = "myid could not be determined, will not able to locate clientPort in the server \
                   configs.\nClient port not found. Looking for secureClientPort in the static \
                   config.\nUnable to find either secure or unsecure client port in any configs. \
                   Terminating.\n";
    site.run(&["status"]).expect(1, unknown);
    fs::write(data.join("myid"), "12\n").expect("write myid");
    let found = format!(
        "Client port not found in static config file. Looking in dynamic config file.\n\
         Client port found: {port}. Client address: 127.0.0.1. Client SSL: false.\n\
         Error contacting service. It is probably not running.\n"
    );
    site.run(&["status"]).expect(1, &found);
}

#[test]
fn the_other_commands_only_print() {
    let site = Site::new();
    let version = site.run(&["version"]);
    assert_eq!(version.code, Some(0));
    let first = version.said.lines().next();
    assert_eq!(
        first,
        Some("Apache ZooKeeper, version 3.9.5 2026-02-11 20:15 UTC")
    );

    let command = site.run(&["print-cmd"]);
    assert_eq!(command.code, Some(0));
    let wanted = format!(
        "\"{}\" \"server\" \"-Dzookeeper.log.dir={home}/logs\" \"{}\" > \"{home}/logs/zookeeper-",
        zoarium_binary().display(),
        site.config().display(),
        home = site.home.path().display(),
    );
    assert!(command.said.starts_with(&wanted), "{}", command.said);

    let usage = site.run(&["dance"]);
    assert_eq!((usage.code, usage.said.as_str()), (Some(1), ""));
    assert!(usage.errors.starts_with("Usage: "), "{}", usage.errors);
    assert!(!Path::new(&site.data()).exists(), "telling makes nothing");
}

#[test]
fn an_old_process_id_does_not_prevent_the_start() {
    let site = Site::new();
    fs::create_dir(site.data()).expect("make the data directory");
    // The number of a process that has just ended is not in use.
    let mut short = Command::new("true").spawn().expect("start a process");
    let pid = i32::try_from(short.id())
        .ok()
        .and_then(Pid::from_raw)
        .expect("a process id");
    short.wait().expect("wait for a process");
    assert!(test_kill_process(pid).is_err());
    fs::write(site.pid_file(), pid.to_string()).expect("write an old process id");
    site.run(&["start"])
        .expect(0, "Starting zookeeper ... STARTED\n");
    site.wait_until_it_serves();
    site.run(&["stop"])
        .expect(0, "Stopping zookeeper ... STOPPED\n");
}

/// A probe that receives a wrong "not running" restarts a healthy server.
#[test]
fn a_server_with_a_tls_port_alone_has_a_status() {
    let site = Site::new();
    let certificates = Certificates::new();
    certificates.sign("server");
    let plain = fs::read_to_string(site.config()).expect("zoo.cfg");
    let kept = plain.lines().filter(|line| !line.starts_with("clientPort"));
    let mut text: String = kept.map(|line| format!("{line}\n")).collect();
    let port = site.port.number();
    text += &format!(
        "secureClientPort={port}\nsecureClientPortAddress=127.0.0.1\nssl.clientAuth=need\n"
    );
    let stores = certificates.settings("ssl.", "server", "pem");
    let in_file: String = stores
        .iter()
        .map(|(key, value)| format!("{key}={value}\n"))
        .collect();
    let as_flags = |name: &str| {
        let flags = certificates.settings("zookeeper.ssl.", name, "pem");
        let flags: String = flags
            .iter()
            .map(|(key, value)| format!(" -D{key}={value}"))
            .collect();
        flags
    };
    let env = site.conf().join("java.env");
    let found =
        format!("Client port found: {port}. Client address: 127.0.0.1. Client SSL: true.\n");
    let looking = "myid could not be determined, will not able to locate clientPort in the server configs.\n\
                   Client port not found. Looking for secureClientPort in the static config.\n";
    let up = format!("{looking}{found}Mode: standalone\n");
    let keys = in_file.lines().filter(|line| line.contains("keyStore"));
    let keys: String = keys.map(|line| format!("{line}\n")).collect();
    let without_trust = text.replace("clientAuth=need", "clientAuth=none") + &keys;
    let authority_of_others = Certificates::new();
    let other = authority_of_others.path("authority.pem");
    // The stores are in zoo.cfg, or in the flags of the server. The trust store may be missing, or may not
    // contain the authority of the server's own certificate.
    for (config, flags) in [
        (format!("{text}{in_file}"), String::new()),
        (
            text.clone(),
            format!("SERVER_JVMFLAGS='{}'\n", as_flags("server")),
        ),
        (without_trust.clone(), String::new()),
        (
            format!(
                "{without_trust}ssl.trustStore.location={}\n",
                other.display()
            ),
            String::new(),
        ),
    ] {
        fs::write(site.config(), config).expect("write zoo.cfg");
        fs::write(&env, &flags).expect("write java.env");
        site.run(&["start"])
            .expect(0, "Starting zookeeper ... STARTED\n");
        wait_for("a status", LIMIT, || {
            (site.run(&["status"]).code == Some(0)).then_some(())
        });
        site.run(&["status"]).expect(0, &up);
        // Flags of clients have priority.
        certificates.sign("client");
        for (client, code) in [("client", 0), ("nobody", 1)] {
            let text = format!("{flags}CLIENT_JVMFLAGS='{}'\n", as_flags(client));
            fs::write(&env, text).expect("write java.env");
            let status = site.run(&["status"]);
            assert_eq!(status.code, Some(code), "{client}: {status:?}");
        }
        fs::write(&env, &flags).expect("write java.env");
        site.run(&["stop"])
            .expect(0, "Stopping zookeeper ... STOPPED\n");
        assert_eq!(site.run(&["status"]).code, Some(1));
    }
}
