//! Environment of the server process.

use std::path::PathBuf;
use std::{env, fs};

use super::Memory;
use super::version;

/// Java's value for a missing property. Zoarium also uses it for properties of a JVM.
const UNKNOWN: &str = "<NA>";

/// Constant facts about the process. Source: Environment.
#[derive(Debug, Clone)]
pub struct Environment {
    host_name: String,
    executable: String,
    temporary_directory: String,
    os_version: String,
    user: User,
    working_directory: String,
}

#[derive(Debug, Clone)]
struct User {
    name: String,
    home: String,
}

impl Environment {
    /// Reads the facts. Call this once, when the process starts.
    pub fn of_this_process() -> Self {
        Self {
            host_name: first_line("/proc/sys/kernel/hostname"),
            executable: path(env::current_exe().ok()),
            temporary_directory: path(Some(env::temp_dir())),
            os_version: first_line("/proc/sys/kernel/osrelease"),
            user: User::of_this_process(),
            working_directory: path(env::current_dir().ok()),
        }
    }

    /// Returns the name of the user that runs the process.
    pub fn user_name(&self) -> &str {
        &self.user.name
    }

    /// Returns all entries in ZooKeeper's order and under its names. The `java.` names are included
    /// because tools search for them. The class path is the path of the executable.
    pub fn entries(&self, memory: Memory) -> [(&'static str, String); 18] {
        let unknown = || UNKNOWN.to_owned();
        let megabytes = |bytes: u64| format!("{}MB", bytes >> 20);
        [
            ("zookeeper.version", version::FULL.to_owned()),
            ("host.name", self.host_name.clone()),
            ("java.version", unknown()),
            ("java.vendor", unknown()),
            ("java.home", unknown()),
            ("java.class.path", self.executable.clone()),
            ("java.library.path", unknown()),
            ("java.io.tmpdir", self.temporary_directory.clone()),
            ("java.compiler", unknown()),
            ("os.name", os_name().to_owned()),
            ("os.arch", os_arch().to_owned()),
            ("os.version", self.os_version.clone()),
            ("user.name", self.user.name.clone()),
            ("user.home", self.user.home.clone()),
            ("user.dir", self.working_directory.clone()),
            ("os.memory.free", megabytes(memory.free)),
            ("os.memory.max", megabytes(memory.max)),
            ("os.memory.total", megabytes(memory.total)),
        ]
    }
}

impl User {
    /// Reads the user from the user database, like Java. The environment is the fallback.
    fn of_this_process() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let database = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let variable = |name| env::var(name).unwrap_or_else(|_| UNKNOWN.to_owned());
        uid(&status)
            .and_then(|uid| Self::find(&database, uid))
            .unwrap_or_else(|| Self {
                name: variable("USER"),
                home: variable("HOME"),
            })
    }

    /// Finds the entry for a user id. An entry has the form
    /// `name:password:uid:gid:comment:home:shell`.
    fn find(database: &str, uid: &str) -> Option<Self> {
        database.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            let found = fields.nth(1)? == uid;
            let home = fields.nth(2)?;
            found.then(|| Self {
                name: name.to_owned(),
                home: home.to_owned(),
            })
        })
    }
}

fn uid(status: &str) -> Option<&str> {
    status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))?
        .split_whitespace()
        .next()
}

fn first_line(file: &str) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().next().unwrap_or(UNKNOWN).to_owned()
}

fn path(path: Option<PathBuf>) -> String {
    path.map_or_else(|| UNKNOWN.to_owned(), |path| path.display().to_string())
}

/// Returns the name of the operating system in Java's spelling.
fn os_name() -> &'static str {
    match env::consts::OS {
        "linux" => "Linux",
        "macos" => "Mac OS X",
        "freebsd" => "FreeBSD",
        other => other,
    }
}

/// Returns the name of the processor architecture in Java's spelling.
fn os_arch() -> &'static str {
    match env::consts::ARCH {
        "x86_64" => "amd64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_looked_up_by_id() {
        let database = "root:x:0:0:root:/root:/bin/bash\nbroken\nzk:x:100:101::/var/lib/zk:/bin/sh";
        let user = User::find(database, "100").expect("an entry");
        assert_eq!((&*user.name, &*user.home), ("zk", "/var/lib/zk"));
        assert!(User::find(database, "7").is_none());
        assert_eq!(uid("Name:\tx\nUid:\t100\t100\t100\t100\n"), Some("100"));
    }

    #[test]
    fn keys_are_in_zookeepers_order() {
        let entries = Environment::of_this_process().entries(Memory::default());
        let keys = entries.map(|(key, _)| key);
        assert_eq!(
            keys.join(" "),
            "zookeeper.version host.name java.version java.vendor java.home java.class.path \
             java.library.path java.io.tmpdir java.compiler os.name os.arch os.version user.name \
             user.home user.dir os.memory.free os.memory.max os.memory.total"
        );
    }
}
