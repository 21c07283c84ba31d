//! Processes that currently use the data directories and the ports, from Linux's `/proc`.
//!
//! Only root can see the file descriptors and sockets of another user's process. The command line
//! of a process is visible to everyone, and contains the path of zoo.cfg. The pid file and the lock
//! of the directory also reveal a server. A Java server that has not written since its start does
//! not have an open log, so its open files do not reveal it.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// Running process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) id: u32,
    pub(crate) name: String,
}

impl std::fmt::Display for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} ({})", self.id, self.name)
    }
}

/// Name of the pid file that `zkServer.sh` writes into `dataDir`.
const PID_FILE: &str = "zookeeper_server.pid";
/// Name of the file that a running Zoarium server locks.
const LOCK_FILE: &str = "zoarium.lock";
/// Process names of servers.
const SERVERS: [&str; 2] = ["java", "zoarium"];
/// Java classes that start a server.
const JAVA_CLASSES: [&str; 2] = [
    "org.apache.zookeeper.server.quorum.QuorumPeerMain",
    "org.apache.zookeeper.server.ZooKeeperServerMain",
];
/// Maximum length of a command line, in bytes. The class path of a JVM is long.
const COMMAND_LINE_BYTES_MAX: u64 = 1 << 20;
/// State TCP_LISTEN in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// Running processes that use the data or the ports.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    /// Processes that have opened a file in the data directories for writing.
    pub(crate) holders: Vec<Process>,
    /// Servers that were started with the checked zoo.cfg.
    pub(crate) own: Vec<Process>,
    /// Whether a server uses a data directory although both lists are empty.
    pub(crate) has_hidden_holder: bool,
    /// Process of each socket, by the socket's inode.
    sockets: BTreeMap<u64, Process>,
    /// Addresses, ports and inodes of the listening sockets.
    listening: Vec<(IpAddr, u16, u64)>,
}

/// Describes the process that listens on this address, or on this port of all addresses. Returns
/// `None` if no such process is known.
pub fn port_holder(at: SocketAddr) -> Option<String> {
    let found = Processes::scan(Path::new(""), &[]);
    let holder = found.listener(at.ip(), at.port()).ok()?;
    Some(holder.to_string())
}

impl Processes {
    /// Scans the processes. `dirs` are the data directories of `config`.
    pub(crate) fn scan(config: &Path, dirs: &[PathBuf]) -> Self {
        let config = config.canonicalize().ok();
        let mut found = Self::default();
        let dirs: Vec<PathBuf> = dirs
            .iter()
            .filter_map(|dir| dir.canonicalize().ok())
            .collect();
        for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let name = process.file_name();
            let Some(id) = name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            if id == std::process::id() {
                continue;
            }
            found.look_into(id, &process.path(), &dirs);
            if config
                .as_deref()
                .is_some_and(|config| serves(&process.path(), config))
            {
                let name = name_of(id);
                found.own.push(Process { id, name });
            }
        }
        let is_known = !found.holders.is_empty() || !found.own.is_empty();
        found.has_hidden_holder = !is_known && dirs.iter().any(|dir| is_held(dir));
        for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
            let text = fs::read_to_string(table).unwrap_or_default();
            found
                .listening
                .extend(text.lines().skip(1).filter_map(listening));
        }
        found
    }

    /// Returns the process that listens on `ip` and `port`. `Err` contains whether an unknown
    /// process listens there.
    pub(crate) fn listener(&self, ip: IpAddr, port: u16) -> Result<&Process, bool> {
        let overlaps = |other: &IpAddr| {
            let is_everywhere = ip.is_unspecified() || other.is_unspecified();
            is_everywhere || ip == *other
        };
        let mut sockets = self
            .listening
            .iter()
            .filter(|(at, number, _)| *number == port && overlaps(at))
            .peekable();
        let is_taken = sockets.peek().is_some();
        let known = sockets.find_map(|(_, _, socket)| self.sockets.get(socket));
        known.ok_or(is_taken)
    }

    /// Returns whether a server that uses the data or the checked zoo.cfg is running.
    pub(crate) fn has_server(&self) -> bool {
        !self.holders.is_empty() || !self.own.is_empty() || self.has_hidden_holder
    }

    /// Returns whether a process uses the data or the checked zoo.cfg.
    pub(crate) fn is_server(&self, process: &Process) -> bool {
        self.holders.contains(process) || self.own.contains(process)
    }

    fn look_into(&mut self, id: u32, path: &Path, dirs: &[PathBuf]) {
        let mut process: Option<Process> = None;
        let mut is_holder = false;
        for file in fs::read_dir(path.join("fd"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let Ok(target) = fs::read_link(file.path()) else {
                continue;
            };
            let socket = target.to_str().and_then(|target| {
                target
                    .strip_prefix("socket:[")?
                    .strip_suffix(']')?
                    .parse()
                    .ok()
            });
            let holds = !is_holder
                && dirs.iter().any(|dir| is_of_server(&target, dir))
                && is_written(&file.path());
            if socket.is_none() && !holds {
                continue;
            }
            let process = process.get_or_insert_with(|| Process {
                id,
                name: name_of(id),
            });
            if let Some(socket) = socket {
                self.sockets.insert(socket, process.clone());
            }
            if holds {
                is_holder = true;
                self.holders.push(process.clone());
            }
        }
    }
}

/// Returns whether a process is a Zoarium or Java server that was started with this zoo.cfg.
fn serves(process: &Path, config: &Path) -> bool {
    let mut text = Vec::new();
    let read = File::open(process.join("cmdline"))
        .and_then(|file| file.take(COMMAND_LINE_BYTES_MAX).read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text);
    let words: Vec<&str> = text.split('\0').collect();
    // The working directory of another user's process is not visible. In this case, only an
    // absolute path can match.
    let place = fs::read_link(process.join("cwd")).unwrap_or_default();
    read.is_ok()
        && is_command_of_server(&words)
        && words.iter().skip(1).any(|word| {
            let is_it = |path: PathBuf| path.canonicalize().is_ok_and(|path| path == config);
            !word.is_empty() && !word.starts_with('-') && is_it(place.join(word))
        })
}

/// Returns whether the command is `zoarium server ...` or contains one of [`JAVA_CLASSES`].
fn is_command_of_server(words: &[&str]) -> bool {
    let program = words
        .first()
        .and_then(|word| Path::new(word).file_name()?.to_str());
    let is_ours = program.is_some_and(|name| name.starts_with("zoarium"));
    is_ours && words.get(1) == Some(&"server")
        || words.iter().any(|word| JAVA_CLASSES.contains(word))
}

/// Returns whether a file is open for writing. A process that only reads or copies a log is not a
/// server.
fn is_written(file: &Path) -> bool {
    let Some(number) = file.file_name() else {
        return false;
    };
    let about = file.with_file_name("..").join("fdinfo").join(number);
    let text = fs::read_to_string(about).unwrap_or_default();
    let mut lines = text.lines();
    let flags = lines.find_map(|line| line.strip_prefix("flags:"));
    // O_WRONLY or O_RDWR, in octal.
    let mode = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    mode.is_some_and(|mode| mode & 0o3 != 0)
}

/// Returns whether the file is the lock or is in `version-2`. A process that has opened only the
/// directory `version-2` itself does not use the data.
fn is_of_server(target: &Path, dir: &Path) -> bool {
    target == dir.join(LOCK_FILE)
        || target.starts_with(dir.join("version-2")) && target != dir.join("version-2")
}

fn name_of(id: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// Returns whether a Zoarium server holds the lock, or a pid file names a running server.
fn is_held(dir: &Path) -> bool {
    // The shared lock is held only briefly. The check does not create a file, and two concurrent
    // checks do not disturb each other.
    let is_locked = File::open(dir.join(LOCK_FILE))
        .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)));
    let id = fs::read_to_string(dir.join(PID_FILE)).unwrap_or_default();
    let id: Option<u32> = id.trim().parse().ok();
    is_locked || id.is_some_and(|id| SERVERS.contains(&name_of(id).as_str()))
}

/// Returns the address, port and socket in a line of `/proc/net/tcp` if the socket listens.
fn listening(line: &str) -> Option<(IpAddr, u16, u64)> {
    let mut fields = line.split_ascii_whitespace();
    let local = fields.nth(1)?;
    let state = fields.nth(1)?;
    let socket = fields.nth(5)?.parse().ok()?;
    let (ip, port) = local.rsplit_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    (state == LISTEN).then_some((address(ip)?, port, socket))
}

/// Parses an address that consists of 32-bit words in hex. Each word contains the bytes of the
/// address in memory order.
fn address(hex: &str) -> Option<IpAddr> {
    let words: Vec<&str> = (0..hex.len())
        .step_by(8)
        .map(|at| hex.get(at..at + 8))
        .collect::<Option<_>>()?;
    let mut bytes = Vec::with_capacity(16);
    for word in words {
        bytes.extend(u32::from_str_radix(word, 16).ok()?.to_ne_bytes());
    }
    match *bytes.as_slice() {
        [a, b, c, d] => Some(IpAddr::from([a, b, c, d])),
        // A JVM also listens on IPv4 addresses with an IPv6 socket.
        _ => {
            let bytes = <[u8; 16]>::try_from(bytes).ok()?;
            Some(IpAddr::from(bytes).to_canonical())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn lines_of_the_table_are_read() {
        let line = "   0: 0100007F:0885 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0";
        let local = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(listening(line), Some((local, 2181, 4711)));
        let long = line.replace("0100007F", "00000000000000000000000001000000");
        assert_eq!(listening(&long), Some(("::1".parse().unwrap(), 2181, 4711)));
        let mapped = line.replace("0100007F", "0000000000000000FFFF00000100007F");
        assert_eq!(listening(&mapped), Some((local, 2181, 4711)));
        assert_eq!(address("0100"), None);
        assert_eq!(listening(&line.replace(" 0A ", " 01 ")), None);
        assert_eq!(listening("sl local_address"), None);
    }

    #[test]
    fn a_used_port_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let found = Processes::scan(Path::new("zoo.cfg"), &[]);
        // The list does not contain the current process.
        let local = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(found.listener(local, port), Err(true));
        assert_eq!(
            found.listener(IpAddr::from([127, 9, 9, 9]), port),
            Err(false)
        );
        drop(listener);
    }

    #[test]
    fn servers_are_recognised_by_their_command_lines() {
        let is_server = |line: &str| is_command_of_server(&line.split(' ').collect::<Vec<_>>());
        assert!(is_server("/usr/bin/zoarium server -Da=b /etc/zoo.cfg"));
        assert!(is_server(
            "java -cp a:b -Xmx1g org.apache.zookeeper.server.quorum.QuorumPeerMain /etc/zoo.cfg"
        ));
        assert!(!is_server("zoarium preflight /etc/zoo.cfg"));
        assert!(!is_server("vi /etc/zoo.cfg") && !is_server(""));
    }

    #[test]
    fn the_pid_file_of_another_program_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_held(dir.path()));
        fs::write(dir.path().join(PID_FILE), std::process::id().to_string()).unwrap();
        assert!(!is_held(dir.path()));
        let lock = File::create(dir.path().join(LOCK_FILE)).unwrap();
        lock.try_lock().unwrap();
        assert!(is_held(dir.path()));
    }
}
