//! `zoarium container`: how the entry point of the image handles `ZOO_*` variables.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tests::{Port, Process, four_letter_word, wait_for, workspace_root, zoarium_binary};

pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The directories of a container, and its free ports.
pub(crate) struct Container {
    pub(crate) home: tempfile::TempDir,
    pub(crate) client: Port,
    pub(crate) admin: Port,
    pub(crate) health: Port,
    process: Option<Process>,
}

impl Container {
    pub(crate) fn new() -> Self {
        Self {
            home: tempfile::tempdir().expect("a directory"),
            client: Port::take(),
            admin: Port::take(),
            health: Port::take(),
            process: None,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Returns a command of its entry point, without the environment of this machine.
    pub(crate) fn command(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Command {
        let mut command = Command::new(zoarium_binary());
        command.env_clear().current_dir(self.home.path());
        for (name, dir) in [
            ("ZOO_CONF_DIR", "conf"),
            ("ZOO_DATA_DIR", "data"),
            ("ZOO_DATA_LOG_DIR", "datalog"),
        ] {
            command.env(name, self.path(dir));
        }
        command.envs(variables.iter().copied());
        command
            .arg("container")
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Output {
        let mut command = self.command(variables, arguments);
        command.output().expect("run zoarium")
    }

    pub(crate) fn start(&mut self, variables: &[(&str, &str)], arguments: &[&str]) {
        let mut command = self.command(variables, arguments);
        let process = Process::spawn(&mut command, &self.path("log"));
        self.process = Some(process.expect("run zoarium"));
    }

    pub(crate) fn mode(&self) -> Option<String> {
        let answer = four_letter_word(self.client.number(), "srvr").ok()?;
        let line = answer
            .lines()
            .find_map(|line| line.strip_prefix("Mode: "))?;
        Some(line.to_owned())
    }

    pub(crate) fn wait_until_it_serves(&self) -> String {
        wait_for("a container that serves", LIMIT, || self.mode())
    }

    fn kill(&mut self) {
        self.process.take().expect("it runs").kill();
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

#[test]
fn a_container_uses_its_variables_and_keeps_existing_files() {
    let mut container = Container::new();
    let port = container.client.number();
    let admin = format!(
        "admin.serverPort={} admin.serverAddress=127.0.0.1",
        container.admin.number()
    );
    let servers = format!("server.7=127.0.0.1:2888:3888;127.0.0.1:{port}");
    let variables = [
        ("ZOO_MY_ID", "7"),
        ("ZOO_SERVERS", servers.as_str()),
        ("ZOO_TICK_TIME", "500"),
        ("ZOO_4LW_COMMANDS_WHITELIST", "srvr, ruok"),
        ("ZOO_CFG_EXTRA", admin.as_str()),
    ];
    // As the CMD of the image, and without arguments.
    for arguments in [&["zkServer.sh", "start-foreground"][..], &[]] {
        container.start(&variables, arguments);
        assert_eq!(container.wait_until_it_serves(), "standalone");
        assert_eq!(four_letter_word(port, "ruok").expect("an answer"), "imok");
        container.kill();
    }
    assert_eq!(container.file("data/myid"), "7\n");
    let config = container.file("conf/zoo.cfg");
    assert!(config.contains("tickTime=500\n"), "{config}");
    // A variable may have been a password.
    let written = fs::metadata(container.path("conf/zoo.cfg")).expect("zoo.cfg");
    assert_eq!(written.permissions().mode() & 0o777, 0o600);
    // As in the official image, an existing file is kept.
    let config = format!("{config}# mine\n");
    fs::write(container.path("conf/zoo.cfg"), &config).expect("write zoo.cfg");
    container.start(&[("ZOO_MY_ID", "9"), ("ZOO_TICK_TIME", "7")], &[]);
    container.wait_until_it_serves();
    assert_eq!(container.file("conf/zoo.cfg"), config);
    assert_eq!(container.file("data/myid"), "7\n");
    let server = format!("127.0.0.1:{port}");
    let output = container.run(&[], &["zkCli.sh", "-server", &server, "ls", "/"]);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(printed.contains("[zookeeper]"), "{printed}");
    let output = container.run(&[], &["zoarium", "word", &server, "ruok"]);
    assert_eq!(output.stdout, b"imok");
}

/// A bad value is refused with the variable's name. No file is left that the next start would use.
#[test]
fn invalid_variables_are_refused_and_leave_no_files() {
    let container = Container::new();
    let cases = [
        ("ZOO_TICK_TIME", "soon", "tickTime"),
        ("ZOO_SERVERS", "zk1:2888:3888", "ZOO_SERVERS"),
        ("ZOO_SERVERS", "server.1=a:b:c", "server.1"),
        ("ZOO_MY_ID", "first", "ZOO_MY_ID"),
        ("ZOO_CFG_EXTRA", "snapCount", "ZOO_CFG_EXTRA"),
        (
            "ZOO_MAX_CLIENT_CNXNS",
            "1\nsuperUser=x",
            "ZOO_MAX_CLIENT_CNXNS",
        ),
        (
            "ZOARIUM_MY_ID_FROM_HOSTNAME",
            "x",
            "ZOARIUM_MY_ID_FROM_HOSTNAME",
        ),
    ];
    for (name, value, expected) in cases {
        let output = container.run(&[(name, value)], &[]);
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{name}: {complaint}");
        assert!(complaint.contains(expected), "{name}: {complaint}");
        assert!(!container.path("conf/zoo.cfg").exists(), "{name}");
    }
    let output = container.run(&[], &["zkServer.sh", "status"]);
    assert_eq!(output.status.code(), Some(2));
    let output = container.run(&[], &["no-such-program"]);
    assert_eq!(output.status.code(), Some(1));
}

/// The entry point knows the variables of the Dockerfile, with the same values.
#[test]
fn the_dockerfile_lists_the_variables_of_the_entry_point() {
    let path = workspace_root().join("conf/docker/Dockerfile");
    let text = fs::read_to_string(path).expect("a Dockerfile");
    let source = workspace_root().join("crates/zoarium/src/start/container.rs");
    let source = fs::read_to_string(source).expect("the entry point");
    for line in text.lines().map(str::trim) {
        let line = line.trim_start_matches("ENV ").trim_end_matches(" \\");
        if let Some((name, value)) = line
            .split_once('=')
            .filter(|(name, _)| name.starts_with("ZOO_"))
        {
            let is_log_dir = name == "ZOO_LOG_DIR";
            assert!(
                is_log_dir || source.contains(&format!("\"{name}\"")),
                "{name}"
            );
            assert!(
                is_log_dir || source.contains(&format!("\"{value}\"")),
                "{value}"
            );
        }
    }
    for wanted in [
        "ENTRYPOINT [\"/bin/zoarium\", \"container\"]",
        "CMD [\"zkServer.sh\", \"start-foreground\"]",
        "USER 1000:1000",
    ] {
        assert!(text.contains(wanted), "{wanted}");
    }
}
