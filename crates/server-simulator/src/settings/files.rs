//! Files of a server, which it reads like the shipped program.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use config::members::Member;
use config::membership::Membership;
use config::{Config, SystemProperties};
use proto::Sid;

use super::keys::DIR;
use super::{ADMIN_PORT, CLIENT_PORT, Settings, address_of};
use crate::operators::settings::Settings as Operators;

const CONFIG_FILE: &str = "zoo.cfg";
const SESSION_SECRETS: &str = "1 of the secrets that all members share\nlegacy\n";

impl Settings {
    /// Writes the files of a server. `known` is the newest member list, if the server is started by
    /// an operator who knows it.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(crate) fn write_files(
        &self,
        server: Sid,
        dir: &Path,
        known: Option<&Membership>,
    ) -> io::Result<()> {
        let data_dir = dir.join("data");
        fs::create_dir_all(&data_dir)?;
        Operators::prepare(&data_dir)?;
        fs::write(data_dir.join("myid"), server.0.to_string())?;
        fs::write(dir.join("../session-secret"), SESSION_SECRETS)?;
        let (mut file, mut list) = (self.operators.lines(server, &data_dir), String::new());
        let mut add = |key: &str, value: &str| file.push_str(&format!("{key}={value}\n"));
        let shown_dir = dir.display().to_string();
        for (key, value) in &self.lines {
            add(key, &value.replace(DIR, &shown_dir));
        }
        let address = address_of(server).to_string();
        add("dataDir", &data_dir.display().to_string());
        // The lines of a secured run contain the ports for clients.
        if self.security.is_none() && (!self.lists_clients || self.is_standalone) {
            add("clientPort", &CLIENT_PORT.to_string());
            add("clientPortAddress", &address);
        }
        add("admin.serverPort", &ADMIN_PORT.to_string());
        add("admin.serverAddress", &address);
        if self.is_observer(server) && known.is_none() {
            add("peerType", "observer");
        }
        if let Some(security) = &self.security {
            file.push_str(&security.lines(server));
        }
        let mut add = |key: &str, value: &str| file.push_str(&format!("{key}={value}\n"));
        let dynamic_file = dir.join("zoo.cfg.dynamic");
        if self.is_list_outside && !self.is_standalone {
            add("dynamicConfigFile", &dynamic_file.display().to_string());
        }
        let listed = self.listed(server, known);
        for (member, line) in listed.iter().filter(|_| !self.is_standalone) {
            list.push_str(&format!("server.{}={line}\n", member.0));
        }
        for (key, value) in &self.hierarchy {
            list.push_str(&format!("{key}={value}\n"));
        }
        if self.is_list_outside && !self.is_standalone {
            fs::write(dynamic_file, list)?;
        } else {
            file.push_str(&list);
        }
        fs::write(dir.join(CONFIG_FILE), file)
    }

    /// Returns the members for the files of a server. A server that is not a member begins as an
    /// observer of the members that it knows.
    fn listed(&self, server: Sid, known: Option<&Membership>) -> BTreeMap<Sid, String> {
        let mut listed: BTreeMap<Sid, String> = match known {
            Some(list) => {
                let line = |(sid, member): (&Sid, &Member)| (*sid, member.to_string());
                list.members.iter().map(line).collect()
            }
            None => {
                let line = |member| {
                    let is_observer = self.is_observer(member);
                    let role = if is_observer {
                        "observer"
                    } else {
                        "participant"
                    };
                    (member, self.line_of(member, role))
                };
                self.members().map(line).collect()
            }
        };
        let own = || self.line_of(server, "observer");
        listed.entry(server).or_insert_with(own);
        listed
    }

    /// Reads the configuration of a server from its files.
    ///
    /// # Errors
    /// If the configuration is refused.
    pub(crate) fn config(&self, dir: &Path) -> Result<Arc<Config>, String> {
        let mut flags = SystemProperties::new();
        for property in &self.properties {
            flags.define("the command line", property);
        }
        let config = Config::load(&dir.join(CONFIG_FILE), flags, &mut Machine);
        let config = config.map_err(|error| error.to_string())?;
        config
            .check_supported()
            .map_err(|error| error.to_string())?;
        Ok(Arc::new(config))
    }
}

/// Files and names of this machine.
struct Machine;

impl config::Surroundings for Machine {
    fn read(&mut self, path: &Path, limit: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(path)?
            .take(limit as u64 + 1)
            .read_to_end(&mut bytes)?;
        if bytes.len() > limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes)
    }

    fn resolve(&mut self, _host: &str) -> io::Result<IpAddr> {
        Err(io::Error::new(io::ErrorKind::NotFound, "no name service"))
    }
}
