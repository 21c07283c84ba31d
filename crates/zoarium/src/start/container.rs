//! The command `zoarium container`, which is the entry point of an image. It reads the `ZOO_*`
//! variables of Apache ZooKeeper's official image.
//!
//! As in the official image, an existing zoo.cfg or myid is not changed. A new zoo.cfg is checked
//! before it is written. Otherwise an invalid file would stay in a volume, and every later start
//! would fail, whatever values the variables have. Source: docker-entrypoint.sh of the official
//! image, 3.9.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use blocking::files;
use clap::Args;
use config::{Config, ConfigError, RawConfig, SystemProperties};

use crate::embedded::ThisMachine;
use crate::start::logging::LogArgs;
use crate::start::server_cmd::flags;
use crate::tool::{ToolError, file_error};

/// Entry point of an image: creates zoo.cfg and myid from ZOO_* variables, and then runs a server
///
/// As in the official image of Apache ZooKeeper, `zkServer.sh start-foreground` or no argument runs a server,
/// and `zkCli.sh ...` runs a shell. Any other command is run unchanged.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zoarium container zkServer.sh start-foreground")]
pub(crate) struct ContainerArgs {
    /// Command to run
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    command: Vec<OsString>,
}

/// Lines of zoo.cfg: key, variable that contains the value, and default value. Source: the image's
/// Dockerfile.
const LINES: [(&str, &str, &str); 10] = [
    ("dataDir", "ZOO_DATA_DIR", "/data"),
    ("dataLogDir", "ZOO_DATA_LOG_DIR", "/datalog"),
    ("tickTime", "ZOO_TICK_TIME", "2000"),
    ("initLimit", "ZOO_INIT_LIMIT", "5"),
    ("syncLimit", "ZOO_SYNC_LIMIT", "2"),
    (
        "autopurge.snapRetainCount",
        "ZOO_AUTOPURGE_SNAPRETAINCOUNT",
        "3",
    ),
    (
        "autopurge.purgeInterval",
        "ZOO_AUTOPURGE_PURGEINTERVAL",
        "0",
    ),
    ("maxClientCnxns", "ZOO_MAX_CLIENT_CNXNS", "60"),
    ("standaloneEnabled", "ZOO_STANDALONE_ENABLED", "true"),
    ("admin.enableServer", "ZOO_ADMINSERVER_ENABLED", "true"),
];
const SERVERS: (&str, &str) = ("ZOO_SERVERS", "server.1=localhost:2888:3888;2181");
const WORDS: &str = "ZOO_4LW_COMMANDS_WHITELIST";
const EXTRA: &str = "ZOO_CFG_EXTRA";
const CONF_DIR: (&str, &str) = ("ZOO_CONF_DIR", "/conf");
const MY_ID: (&str, &str) = ("ZOO_MY_ID", "1");
const MY_ID_FILE: &str = "myid";
/// Zoarium-specific variable whose value is added to the number at the end of the host name. For
/// example, 1 suits the pods of a StatefulSet, which are numbered from 0.
const ID_FROM_HOST: &str = "ZOARIUM_MY_ID_FROM_HOSTNAME";

/// Runs the command. The exit code is 2 if variables are invalid.
pub(crate) fn run(args: &ContainerArgs) -> ExitCode {
    let words: Vec<_> = args
        .command
        .iter()
        .map(|word| word.to_string_lossy())
        .collect();
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    let rest = |skipped: usize| args.command.iter().skip(skipped).cloned();
    let ours = |command: &str, skipped: usize| {
        let head = [OsString::from("zoarium"), OsString::from(command)];
        crate::cli::run(head.into_iter().chain(rest(skipped)))
    };
    match words.as_slice() {
        [] | ["zkServer.sh"] | ["zkServer.sh", "start-foreground", ..] => {
            match prepare(&|name| std::env::var(name).ok()) {
                Ok(config) => {
                    let named = rest(2).next().unwrap_or(config.into_os_string());
                    let mut arguments: Vec<_> = log_dir(&flags()).into_iter().collect();
                    arguments.push(named);
                    crate::start::server_cmd::run(arguments, LogArgs::default())
                }
                Err(error) => error.report("container"),
            }
        }
        ["zkServer.sh", other, ..] => {
            let reason = format!("zkServer.sh {other}: a container supports only start-foreground");
            ToolError::Usage(reason).report("container")
        }
        ["zkCli.sh", ..] => ours("cli", 1),
        ["zoarium", ..] => crate::cli::run(args.command.clone().into_iter()),
        [program, ..] => {
            // Returns only after a failure.
            let error = Command::new(program).args(rest(1)).exec();
            ToolError::Refused(format!("cannot run {program}: {error}")).report("container")
        }
    }
}

/// Returns the flag for the directory of the audit log, as set by `zkServer.sh`, unless the
/// operator sets it.
fn log_dir(flags: &SystemProperties) -> Option<OsString> {
    let dir = std::env::var_os("ZOO_LOG_DIR").filter(|dir| !dir.is_empty())?;
    let is_set = flags.get("zookeeper.log.dir").is_some();
    let mut flag = OsString::from("-Dzookeeper.log.dir=");
    flag.push(dir);
    (!is_set).then_some(flag)
}

/// Lookup of environment variables as text.
type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Creates the missing files. Returns the path of zoo.cfg.
fn prepare(variables: Variables<'_>) -> Result<PathBuf, ToolError> {
    let value = |(name, default): (&str, &str)| value_of(variables, name, default);
    let config = PathBuf::from(value(CONF_DIR)?).join("zoo.cfg");
    let my_id = my_id(variables)?;
    let data = PathBuf::from(value(("ZOO_DATA_DIR", "/data"))?);
    if config.exists() {
        terminal::complain!(
            "{} exists, so the ZOO_* variables for its settings are ignored",
            config.display()
        );
        write_my_id(&data, &my_id)?;
    } else {
        let text = zoo_cfg(variables)?;
        let is_new = write_my_id(&data, &my_id)?;
        // The check reads myid. After a refusal, the next start may select another id.
        let written = judge(&config, &text).and_then(|()| write_whole(&config, &text));
        if written.is_err() && is_new {
            let _ = fs::remove_file(data.join(MY_ID_FILE));
        }
        written?;
    }
    Ok(config)
}

fn value_of(variables: Variables<'_>, name: &str, default: &str) -> Result<String, ToolError> {
    let value = variables(name).filter(|value| !value.trim().is_empty());
    let value = value.unwrap_or_else(|| default.to_owned());
    if value.contains(['\n', '\r', '\0']) {
        let reason = format!("{name}: the value must have exactly one line");
        return Err(ToolError::Usage(reason));
    }
    Ok(value.trim().to_owned())
}

/// Returns the content of zoo.cfg, with its lines in the order of the official image.
fn zoo_cfg(variables: Variables<'_>) -> Result<String, ToolError> {
    let mut text = String::new();
    let mut line = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    for (key, name, default) in LINES {
        line(&format!("{key}={}", value_of(variables, name, default)?));
    }
    for server in value_of(variables, SERVERS.0, SERVERS.1)?.split_ascii_whitespace() {
        if !server.starts_with("server.") || !server.contains('=') {
            return Err(ToolError::Usage(format!(
                "{}: {server} is not a member; write server.N=HOST:2888:3888;2181, separated by spaces",
                SERVERS.0
            )));
        }
        line(server);
    }
    let words = value_of(variables, WORDS, "")?;
    if !words.is_empty() {
        line(&format!("4lw.commands.whitelist={words}"));
    }
    let extras = value_of(variables, EXTRA, "")?;
    for (extra, position) in extras.split_ascii_whitespace().zip(1..) {
        if !extra.contains('=') {
            // The word may be a part of a password that contains spaces.
            return Err(ToolError::Usage(format!(
                "{EXTRA}: word {position} is not a setting; write key=value, separated by spaces"
            )));
        }
        line(extra);
    }
    Ok(text)
}

fn my_id(variables: Variables<'_>) -> Result<String, ToolError> {
    let added = value_of(variables, ID_FROM_HOST, "")?;
    let id = if added.is_empty() {
        value_of(variables, MY_ID.0, MY_ID.1)?
    } else {
        let added: u64 = number(ID_FROM_HOST, &added)?;
        let host = variables("HOSTNAME").or_else(|| {
            let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
            Some(name.trim().to_owned())
        });
        let host = host.unwrap_or_default();
        let ordinal = host.rsplit('-').next().unwrap_or_default();
        (number(
            &format!("the end of the host name {host} (see {ID_FROM_HOST})"),
            ordinal,
        )? + added)
            .to_string()
    };
    // The server decides which numbers are valid ids.
    number(MY_ID.0, &id)?;
    Ok(id)
}

fn number(name: &str, text: &str) -> Result<u64, ToolError> {
    let odd = |_| ToolError::Usage(format!("{name}: {text:?} is not a number"));
    text.parse::<u32>().map(u64::from).map_err(odd)
}

/// Writes the id to myid unless the file exists, and returns whether the file is new. With another
/// id, the same data would belong to another member.
fn write_my_id(data: &Path, id: &str) -> Result<bool, ToolError> {
    let path = data.join(MY_ID_FILE);
    match fs::read_to_string(&path) {
        Ok(there) => {
            if there.trim() != id {
                let (path, there) = (path.display(), there.trim());
                terminal::complain!(
                    "{path} contains {there} and is not changed, although the variables select the id {id}"
                );
            }
            Ok(false)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            write_whole(&path, &format!("{id}\n")).map(|()| true)
        }
        Err(error) => Err(file_error("read", &path)(error)),
    }
}

/// Validates a zoo.cfg by the server's rules. Only the error is shown, because other settings may
/// contain secrets. For example, the name of a password setting may be misspelt.
fn judge(path: &Path, text: &str) -> Result<(), ToolError> {
    let refused = |error: ConfigError| {
        ToolError::Usage(format!(
            "a server refuses the zoo.cfg that the ZOO_* variables define: {error}"
        ))
    };
    let raw = RawConfig::parse(path, text.as_bytes()).map_err(refused)?;
    Config::parse(raw, flags(), &mut ThisMachine)
        .map(drop)
        .map_err(refused)
}

/// Writes a file completely or not at all.
fn write_whole(path: &Path, text: &str) -> Result<(), ToolError> {
    let dir = path.parent().unwrap_or(path);
    files::create_dir_all(dir).map_err(file_error("create", dir))?;
    let unfinished = path.with_extension("unfinished");
    let write = || {
        // Variables may contain passwords.
        let mut options = files::secret_options();
        let mut file = { options.write(true).create(true).truncate(true) }.open(&unfinished)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        files::replace(&unfinished, path)
    };
    write().map_err(file_error("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(set: &[(&str, &str)]) -> Result<String, String> {
        let variables = |name: &str| {
            let found = set.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        zoo_cfg(&variables).map_err(|error| error.to_string())
    }

    fn id(set: &[(&str, &str)]) -> Result<String, String> {
        let variables = |name: &str| {
            let found = set.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        my_id(&variables).map_err(|error| error.to_string())
    }

    /// This is the file that the official image writes if no variable is set.
    #[test]
    fn without_variables_it_is_the_file_of_the_official_image() {
        let wanted = "dataDir=/data\ndataLogDir=/datalog\ntickTime=2000\ninitLimit=5\nsyncLimit=2\n\
            autopurge.snapRetainCount=3\nautopurge.purgeInterval=0\nmaxClientCnxns=60\n\
            standaloneEnabled=true\nadmin.enableServer=true\nserver.1=localhost:2888:3888;2181\n";
        assert_eq!(text(&[]).unwrap(), wanted);
        assert_eq!(text(&[("ZOO_TICK_TIME", " ")]).unwrap(), wanted);
    }

    #[test]
    fn variables_become_lines() {
        let made = text(&[
            ("ZOO_SERVERS", "server.1=a:1:2;3  server.2=b:1:2;3"),
            ("ZOO_4LW_COMMANDS_WHITELIST", "srvr, mntr"),
            ("ZOO_CFG_EXTRA", "snapCount=7 jute.x=y=z"),
            ("ZOO_TICK_TIME", "100"),
        ])
        .unwrap();
        assert!(made.contains("\ntickTime=100\n"), "{made}");
        let end = "server.1=a:1:2;3\nserver.2=b:1:2;3\n4lw.commands.whitelist=srvr, mntr\nsnapCount=7\njute.x=y=z\n";
        assert!(made.ends_with(end), "{made}");
    }

    #[test]
    fn invalid_values_are_named() {
        let refused = |set, name: &str| assert!(text(set).unwrap_err().contains(name));
        refused(
            &[("ZOO_SERVERS", "a:2888:3888")],
            "ZOO_SERVERS: a:2888:3888",
        );
        // The word may be a part of a password.
        let text = text(&[("ZOO_CFG_EXTRA", "ssl.keyStore.password=two words")]).unwrap_err();
        assert!(text.contains("ZOO_CFG_EXTRA: word 2 is not"), "{text}");
        assert!(!text.contains("words"), "{text}");
        refused(&[("ZOO_TICK_TIME", "5\nsuperUser=x")], "ZOO_TICK_TIME");
    }

    #[test]
    fn a_refused_start_shows_no_password_and_does_not_keep_its_id() {
        let home = tempfile::tempdir().unwrap();
        let dir = |name: &str| home.path().join(name).display().to_string();
        let extra = "ssl.keyStore.password=st0resecret superDigst=super:m1sspelt tickTime=often";
        let set = [
            ("ZOO_CONF_DIR", dir("conf")),
            ("ZOO_DATA_DIR", dir("data")),
            ("ZOO_DATA_LOG_DIR", dir("datalog")),
            ("ZOO_CFG_EXTRA", extra.to_owned()),
        ];
        let variables = |name: &str| {
            let found = set.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| value.clone())
        };
        let refused = prepare(&variables).unwrap_err().to_string();
        assert!(
            refused.contains("tickTime") && refused.contains("often"),
            "{refused}"
        );
        for secret in ["st0resecret", "m1sspelt"] {
            assert!(!refused.contains(secret), "{refused}");
        }
        assert!(!home.path().join("data/myid").exists());
        assert!(!home.path().join("conf/zoo.cfg").exists());
    }

    #[test]
    fn ids_come_from_the_variable_or_the_name_of_the_host() {
        assert_eq!(id(&[]).unwrap(), "1");
        assert_eq!(id(&[("ZOO_MY_ID", "7")]).unwrap(), "7");
        let pod = |host, added| id(&[("HOSTNAME", host), (ID_FROM_HOST, added)]);
        assert_eq!(pod("zk-2", "1").unwrap(), "3");
        assert!(
            pod("zk", "1")
                .unwrap_err()
                .contains("the end of the host name zk")
        );
        for odd in ["x", "-1", "1\n2", "99999999999"] {
            assert!(id(&[("ZOO_MY_ID", odd)]).unwrap_err().contains("ZOO_MY_ID"));
        }
    }
}
