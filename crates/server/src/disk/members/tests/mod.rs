//! Tests of member lists together with their files, as the replica and its host use them.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod files;
mod lists;
mod plans;
mod recorded;

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use config::members::{HostPort, MemberRole};
use config::membership::Membership;
use config::{Config, Surroundings, SystemProperties};
use proto::{ConfigVersion, Epoch, Sid, Zxid};
use replica::MemberFile;
use replica::members::{MemberLists, MembershipChange, PlanFacts};
use zab::leader::EpochConfig;

use super::*;

/// Member lists whose files are written immediately.
struct MembershipKeeper {
    lists: MemberLists,
    files: MembershipFiles,
    reconfig_enabled: bool,
}

impl std::ops::Deref for MembershipKeeper {
    type Target = MemberLists;

    fn deref(&self) -> &MemberLists {
        &self.lists
    }
}

impl MembershipKeeper {
    fn new(config: &Config) -> Option<Self> {
        let ensemble = config.ensemble.as_ref()?;
        Some(Self {
            lists: MemberLists::new(config)?,
            files: MembershipFiles::new(config.source.clone(), ensemble.dynamic_file.is_some()),
            reconfig_enabled: config.features.reconfig_enabled,
        })
    }

    fn back_up(&self) -> io::Result<()> {
        if self.reconfig_enabled {
            self.files.back_up()
        } else {
            Ok(())
        }
    }

    fn write(&mut self, file: Option<MemberFile>) -> io::Result<()> {
        file.map_or(Ok(()), |file| self.files.write(&file))
    }

    fn see(&mut self, list: Membership) -> io::Result<()> {
        let file = self.lists.see(list);
        self.write(file)
    }

    /// Installs a list. As in the server, a file that cannot be written does not change the result.
    fn install(&mut self, list: Membership) -> Option<MembershipChange> {
        let (change, file) = self.lists.install(list)?;
        let _ = self.write(Some(file));
        Some(change)
    }

    fn epoch_config(&mut self, epoch: Epoch) -> io::Result<EpochConfig> {
        let (config, file) = self.lists.epoch_config(epoch);
        self.write(file)?;
        Ok(config)
    }
}

/// Three servers with client addresses.
const THREE: &str = "server.1=127.0.0.1:101:201:participant;127.0.0.1:301\n\
                     server.2=127.0.0.1:102:202:participant;127.0.0.1:302\n\
                     server.3=127.0.0.1:103:203:participant;127.0.0.1:303\n";

/// A directory with a zoo.cfg.
struct Server {
    dir: tempfile::TempDir,
    my_id: i64,
}

impl Server {
    /// Creates server `my_id` with these lines in its zoo.cfg.
    fn new(my_id: i64, zoo_cfg: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("zoo.cfg"), zoo_cfg).unwrap();
        Self { dir, my_id }
    }

    /// Creates a server of [`THREE`], with reconfig on and these lines.
    fn of_three(my_id: i64, lines: &str) -> Self {
        Self::new(
            my_id,
            &format!("{BASE}reconfigEnabled=true\n{lines}{THREE}"),
        )
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Returns the sorted names of all files except zoo.cfg, without the prefix `zoo.cfg.`.
    fn others(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter_map(|name| Some(name.strip_prefix("zoo.cfg.")?.to_owned()))
            .collect();
        names.sort();
        names
    }

    fn config(&self) -> Config {
        let flags = SystemProperties::new();
        Config::load(&self.path("zoo.cfg"), flags, &mut WithMyId(self.my_id)).unwrap()
    }

    fn start(&self) -> MembershipKeeper {
        MembershipKeeper::new(&self.config()).unwrap()
    }
}

/// Returns the lists of a server of [`THREE`] with these lines, which does not write files.
fn keeper(my_id: i64, lines: &str) -> MembershipKeeper {
    let mut config = Server::of_three(my_id, lines).config();
    config.source = None;
    MembershipKeeper::new(&config).unwrap()
}

/// Lines that every zoo.cfg needs.
const BASE: &str = "dataDir=data\ninitLimit=10\nsyncLimit=5\n";

/// The real files, except that `myid` contains this number.
struct WithMyId(i64);

impl Surroundings for WithMyId {
    fn read(&mut self, path: &Path, _limit: usize) -> io::Result<Vec<u8>> {
        if path.ends_with("myid") {
            Ok(self.0.to_string().into_bytes())
        } else {
            fs::read(path)
        }
    }

    fn resolve(&mut self, _host: &str) -> io::Result<IpAddr> {
        Ok(Ipv4Addr::LOCALHOST.into())
    }
}

fn list(text: &str) -> Membership {
    Membership::parse(text, true).unwrap()
}

/// Returns [`THREE`] with this version, in hex.
fn three(version: &str) -> Membership {
    list(&format!("{THREE}version={version}"))
}
