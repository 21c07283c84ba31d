//! Files and ports of the members.

use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use blocking::files;
use tempfile::TempDir;

use crate::testing::free_ports;

/// Directory of an ensemble, with one folder for each member.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) members: Vec<MemberLayout>,
    directory: PathBuf,
    /// Temporary directory that is removed when dropped; `None` if the user named the directory.
    scratch: Option<TempDir>,
}

/// Files and ports of one member.
#[derive(Debug)]
pub(super) struct MemberLayout {
    /// Number in `myid` and in the lines `server.N`.
    pub(super) id: usize,
    pub(super) client: SocketAddr,
    pub(super) admin: SocketAddr,
    pub(super) config: PathBuf,
    /// Path of the file with the member's log output.
    pub(super) log: PathBuf,
}

/// Number of ports of a member: client port, quorum port, election port and admin port.
const PORTS_PER_MEMBER: usize = 4;

impl Layout {
    /// Writes the files for `count` members.
    ///
    /// # Errors
    /// If the directory is not empty, if a file cannot be written, or if too few ports are free.
    pub(super) fn create(count: u32, directory: Option<&Path>) -> Result<Self, String> {
        let (directory, scratch) = match directory {
            Some(directory) => (empty_directory(directory)?, None),
            None => {
                let scratch = tempfile::Builder::new()
                    .prefix("zoarium-quickstart-")
                    .tempdir();
                let scratch = scratch
                    .map_err(|error| format!("cannot create a temporary directory: {error}"))?;
                (scratch.path().to_owned(), Some(scratch))
            }
        };
        let count = count as usize;
        let ports = free_ports(PORTS_PER_MEMBER * count).map_err(|error| error.to_string())?;
        let server_lines: String = ports
            .chunks_exact(PORTS_PER_MEMBER)
            .enumerate()
            .filter_map(|(index, ports)| match ports {
                [_, quorum, election, admin] => {
                    Some(member_lines(index + 1, *quorum, *election, *admin))
                }
                _ => None,
            })
            .collect();
        let mut members = Vec::with_capacity(count);
        for (index, ports) in ports.chunks_exact(PORTS_PER_MEMBER).enumerate() {
            if let [client, _, _, admin] = ports {
                let folder = directory.join((index + 1).to_string());
                let member = MemberLayout {
                    id: index + 1,
                    client: *client,
                    admin: *admin,
                    config: folder.join("zoo.cfg"),
                    log: folder.join("zoarium.log"),
                };
                member.write(&folder, &server_lines)?;
                members.push(member);
            }
        }
        Ok(Self {
            members,
            directory,
            scratch,
        })
    }

    /// Returns the connect string that contains all members.
    pub(super) fn connect_string(&self) -> String {
        let members = self.members.iter();
        let addresses: Vec<String> = members.map(|member| member.client.to_string()).collect();
        addresses.join(",")
    }

    /// Returns a sentence that names the directory and states whether it will be removed.
    pub(super) fn files_after_stop(&self) -> String {
        match self.scratch {
            Some(_) => format!(
                "Their directory {} will be removed.",
                self.directory.display()
            ),
            None => format!("Their files are in {}.", self.directory.display()),
        }
    }
}

impl MemberLayout {
    fn write(&self, folder: &Path, server_lines: &str) -> Result<(), String> {
        let Self {
            id, client, admin, ..
        } = self;
        // The timeouts are short, because a user who kills a member should soon see the others
        // continue.
        let config = format!(
            "# Member {id} of an ensemble that `zoarium quickstart` created.\n\
             tickTime=500\n\
             initLimit=20\n\
             syncLimit=10\n\
             dataDir={}\n\
             clientPort={}\n\
             clientPortAddress={}\n\
             admin.serverPort={}\n\
             admin.serverAddress={}\n\
             history.enabled=true\n\
             {server_lines}",
            folder.display(),
            client.port(),
            client.ip(),
            admin.port(),
            admin.ip(),
        );
        write(folder, "myid", &format!("{id}\n"))?;
        write(folder, "zoo.cfg", &config)
    }
}

fn member_lines(id: usize, quorum: SocketAddr, election: SocketAddr, admin: SocketAddr) -> String {
    format!(
        "server.{id}={quorum}:{}\nzoarium.admin.{id}={admin}\n",
        election.port()
    )
}

fn write(folder: &Path, name: &str, text: &str) -> Result<(), String> {
    let path = folder.join(name);
    files::create_dir_all(folder)
        .and_then(|()| files::create(&path)?.write_all(text.as_bytes()))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Returns the absolute path of an empty directory. Creates the directory if it does not exist.
fn empty_directory(directory: &Path) -> Result<PathBuf, String> {
    let shown = directory.display();
    files::create_dir_all(directory).map_err(|error| format!("cannot create {shown}: {error}"))?;
    let mut entries =
        fs::read_dir(directory).map_err(|error| format!("cannot read {shown}: {error}"))?;
    if entries.next().is_some() {
        return Err(format!(
            "{shown} is not empty; name another directory, or start the members in it with \
             `zoarium server {shown}/1/zoo.cfg` and so on"
        ));
    }
    directory
        .canonicalize()
        .map_err(|error| format!("cannot resolve {shown}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_member_has_its_own_ports_and_the_same_member_list() {
        let layout = Layout::create(3, None).unwrap();
        let read = |member: &MemberLayout| fs::read_to_string(&member.config).unwrap();
        let configs: Vec<String> = layout.members.iter().map(read).collect();
        let list = |config: &String| -> Vec<String> {
            let lines = config.lines().filter(|line| line.starts_with("server."));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(list(&configs[0]).len(), 3);
        let admin = format!("zoarium.admin.3={}", layout.members[2].admin);
        assert!(configs[0].lines().any(|line| line == admin));
        assert!(
            configs
                .iter()
                .all(|config| list(config) == list(&configs[0]))
        );
        let mut ports: Vec<u16> = layout
            .members
            .iter()
            .flat_map(|member| [member.client.port(), member.admin.port()])
            .collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 6);
        let directory = layout.directory.clone();
        drop(layout);
        assert!(!directory.exists());
    }

    #[test]
    fn a_named_directory_stays_and_must_be_empty() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("new");
        drop(Layout::create(1, Some(&directory)).unwrap());
        assert!(directory.join("1/zoo.cfg").exists());
        let error = Layout::create(1, Some(&directory)).unwrap_err();
        assert!(error.contains("is not empty"), "{error}");
    }
}
