//! The settings of an ensemble.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::Ensemble;
use super::member::{Duty, Home, Member, Place};
use super::network::Network;
use crate::launcher::{Flavour, Launcher};
use crate::secrets::SUPER_DIGEST;
use crate::skip::Missing;

/// Flavours and settings of an ensemble.
#[derive(Debug, Clone)]
pub struct EnsembleBuilder {
    voters: Vec<Flavour>,
    observers: Vec<Flavour>,
    settings: Vec<(String, String)>,
    properties: Vec<(String, String)>,
    template: Option<String>,
    pub(super) is_dynamic: bool,
    places_in_network: Option<u8>,
    network_number: Option<u8>,
    kept_in: Option<PathBuf>,
}

impl EnsembleBuilder {
    /// Returns settings with voters of these flavours on the loopback address, short ticks (300 ms;
    /// session timeouts up to ten minutes), all four-letter words allowed, and without an admin
    /// server.
    pub fn new(voters: &[Flavour]) -> EnsembleBuilder {
        let builder = EnsembleBuilder {
            voters: voters.to_vec(),
            observers: Vec::new(),
            settings: Vec::new(),
            properties: Vec::new(),
            template: None,
            is_dynamic: false,
            places_in_network: None,
            network_number: None,
            kept_in: None,
        };
        builder
            .setting("tickTime", "300")
            .setting("initLimit", "20")
            .setting("syncLimit", "8")
            .setting("maxSessionTimeout", "600000")
            .setting("maxClientCnxns", "0")
            .setting("admin.enableServer", "false")
            .setting("4lw.commands.whitelist", "*")
            .setting("extendedTypesEnabled", "true")
            .property(
                "zookeeper.DigestAuthenticationProvider.superDigest",
                SUPER_DIGEST,
            )
            // Java waits five seconds for a peer that does not respond before it tries the next
            // one.
            .property("zookeeper.cnxTimeout", "500")
            // The digest covers a path's bytes, which depend on the locale before Java 18.
            .property("file.encoding", "UTF-8")
    }

    /// Adds observers of these flavours.
    #[must_use]
    pub fn observers(mut self, observers: &[Flavour]) -> EnsembleBuilder {
        self.observers = observers.to_vec();
        self
    }

    /// Sets a key of every zoo.cfg, and replaces an earlier value.
    #[must_use]
    pub fn setting(mut self, key: &str, value: &str) -> EnsembleBuilder {
        self.settings.retain(|(existing, _)| existing != key);
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Adds `-D<key>=<value>` to every command line.
    #[must_use]
    pub fn property(mut self, key: &str, value: &str) -> EnsembleBuilder {
        self.properties.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Uses this text instead of the settings, with `@PORT@` and `@DATADIR@` replaced, and client
    /// addresses in the list of servers.
    #[must_use]
    pub fn template(mut self, text: &str) -> EnsembleBuilder {
        self.template = Some(text.to_owned());
        self.is_dynamic = true;
        self
    }

    /// Enables changes of the members at run time: `reconfigEnabled`, and client addresses in the
    /// list of servers.
    #[must_use]
    pub fn dynamic(mut self) -> EnsembleBuilder {
        self.is_dynamic = true;
        self.setting("reconfigEnabled", "true")
    }

    /// Gives every member a separate network namespace and address, with capacity for `places`
    /// members.
    #[must_use]
    pub fn in_network(mut self, places: u8) -> EnsembleBuilder {
        self.places_in_network = Some(places);
        self
    }

    /// Uses the network with this number, and therefore its addresses.
    #[must_use]
    pub fn with_network_number(mut self, number: u8) -> EnsembleBuilder {
        self.network_number = Some(number);
        self
    }

    /// Keeps the members' directories in this directory. Members whose directories exist there
    /// continue with their files, including zoo.cfg.
    #[must_use]
    pub fn kept_in(mut self, dir: &Path) -> EnsembleBuilder {
        self.kept_in = Some(dir.to_path_buf());
        self
    }

    pub(super) fn home(&self, id: u64) -> Home {
        Home::new(self.kept_in.as_deref(), id)
    }

    /// Creates the members with their files, without starting any.
    ///
    /// # Errors
    /// [`Missing`] if the machine lacks Java, or the required network namespaces.
    pub fn prepare(&self) -> Result<Ensemble, Missing> {
        for &flavour in self.voters.iter().chain(&self.observers) {
            self.launcher(flavour, None)?;
        }
        let network = |places| Network::with_number(places, self.network_number);
        let network = self.places_in_network.map(network).transpose()?;
        let mut ensemble = Ensemble {
            builder: self.clone(),
            members: Vec::new(),
            network,
        };
        let voters = self
            .voters
            .iter()
            .map(|&flavour| (flavour, Duty::Participant));
        let observers = self.observers.iter();
        for (flavour, duty) in voters.chain(observers.map(|&flavour| (flavour, Duty::Observer))) {
            ensemble.add(flavour, duty);
        }
        let servers: Vec<_> = ensemble
            .members
            .iter()
            .map(|member| (member.id, member.duty))
            .collect();
        for id in ensemble.ids() {
            if !ensemble.member(id).config_file().exists() {
                ensemble.configure(id, &servers);
            }
        }
        Ok(ensemble)
    }

    /// Creates and starts all members, and waits until all of them serve.
    ///
    /// # Errors
    /// Under the conditions of [`prepare`](Self::prepare). Panics, with the logs, if the members do
    /// not serve in time.
    pub fn start(&self) -> Result<Ensemble, Missing> {
        let mut ensemble = self.prepare()?;
        for id in ensemble.ids() {
            ensemble.start(id);
        }
        ensemble.wait_until_all_serve();
        Ok(ensemble)
    }

    /// Starts all members like [`start`](Self::start), but first the voter with the highest id and
    /// only as many others as a quorum requires, so that this voter leads.
    ///
    /// # Errors
    /// Under the conditions of [`prepare`](Self::prepare).
    pub fn start_led_by_last_voter(&self) -> Result<Ensemble, Missing> {
        let mut ensemble = self.prepare()?;
        let voters = ensemble.voters();
        let leader = *voters.last().expect("voters");
        let (first, later) = voters.split_at(voters.len() / 2);
        for &id in first.iter().chain([&leader]) {
            ensemble.start(id);
        }
        assert_eq!(ensemble.wait_until_all_serve(), leader);
        for id in ensemble.ids() {
            if later.contains(&id) && id != leader || !voters.contains(&id) {
                ensemble.start(id);
            }
        }
        assert_eq!(ensemble.wait_until_all_serve(), leader);
        Ok(ensemble)
    }

    pub(super) fn launcher(
        &self,
        flavour: Flavour,
        shell: Option<&str>,
    ) -> Result<Launcher, Missing> {
        Launcher::new(flavour, &self.properties, shell)
    }

    pub(super) fn place(&self, id: u64, network: Option<&Network>) -> Place {
        match network {
            Some(network) => Place::at(network.address(id)),
            None => Place::on_loopback(),
        }
    }

    /// Returns the zoo.cfg of a member whose list contains these lines.
    pub(super) fn zoo_cfg(&self, member: &Member, lines: &[String]) -> String {
        let data_dir = member.data_dir().display().to_string();
        let mut text = match &self.template {
            Some(template) => template
                .replace("@PORT@", &member.client_address().port().to_string())
                .replace("@DATADIR@", &data_dir),
            None => format!("dataDir={data_dir}\n"),
        };
        if !self.is_dynamic {
            let address = member.client_address();
            write!(
                text,
                "clientPortAddress={}\nclientPort={}\n",
                address.ip(),
                address.port()
            )
            .expect("a string takes everything");
        }
        if member.duty == Duty::Observer {
            text.push_str("peerType=observer\n");
        }
        let settings = self.settings.iter().filter(|_| self.template.is_none());
        for (key, value) in settings {
            writeln!(text, "{key}={value}").expect("a string takes everything");
        }
        for line in lines {
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}
