//! The builder of a server inside another program.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::{Config, Notice, SystemProperties, finding};
use testkit::faults::Faults;

use super::error::ServerError;
use super::handle::Server;
use super::machine::{ThisMachine, log_notices};

/// Keys for the addresses of all ports other than the client port.
const OTHER_ADDRESSES: &[&str] = &[
    "secureClientPortAddress",
    "admin.serverAddress",
    "metricsProvider.httpHost",
];

/// Settings of a server inside another program.
///
/// With only a directory, the server listens on 127.0.0.1 at a port that the system chooses, and
/// does not start an admin server.
#[derive(Debug, Clone)]
#[must_use = "nothing starts before `start`"]
pub struct ServerBuilder {
    data_dir: Option<PathBuf>,
    address: IpAddr,
    port: u16,
    settings: Vec<(String, String)>,
    properties: SystemProperties,
    /// Faults that tests can trigger.
    faults: Option<Faults>,
    /// Whether unknown settings are refused.
    is_strict: bool,
}

impl ServerBuilder {
    pub(super) fn new() -> Self {
        Self {
            data_dir: None,
            address: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            settings: Vec::new(),
            properties: SystemProperties::new(),
            faults: None,
            is_strict: false,
        }
    }

    /// Sets the data directory. It is created if it does not exist. Existing data is served.
    pub fn data_dir(mut self, directory: impl AsRef<Path>) -> Self {
        self.data_dir = Some(directory.as_ref().to_owned());
        self
    }

    /// Sets the client port. With the default, 0, the system chooses a port.
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Sets the address of all ports: the client ports with and without TLS, the admin server's
    /// port, and the exporter's port. The default is 127.0.0.1. Settings can change the address of
    /// one port.
    pub fn address(mut self, address: IpAddr) -> Self {
        self.address = address;
        self
    }

    /// Adds a setting, like a line `key=value` of zoo.cfg. All keys in docs/CONFIG.md are
    /// supported. If a key is set several times, the last value applies. A setting overrides the
    /// other methods of this builder, except that system properties override some keys, as with
    /// `zoarium server`.
    pub fn setting(mut self, key: impl Into<String>, value: impl ToString) -> Self {
        self.settings.push((key.into(), value.to_string()));
        self
    }

    /// Sets a system property such as `jute.maxbuffer`, as `-Dname=value` does for `zoarium
    /// server`. The environment variables of the process (`SERVER_JVMFLAGS`) are ignored.
    pub fn property(mut self, name: &str, value: impl ToString) -> Self {
        let definition = format!("{name}={}", value.to_string());
        self.properties.define("the properties", &definition);
        self
    }

    /// Adds faults that tests can trigger.
    pub(crate) fn faults(mut self, faults: Faults) -> Self {
        self.faults = Some(faults);
        self
    }

    /// Refuses settings whose names are unknown.
    pub(crate) fn strict(mut self) -> Self {
        self.is_strict = true;
        self
    }

    /// Starts the server and waits until it serves. A member of an ensemble serves when there is a
    /// leader, so start the members of one ensemble concurrently.
    ///
    /// Dropping the future stops the server.
    ///
    /// # Errors
    /// If the settings are refused, the data cannot be recovered, an address cannot be bound, or
    /// the server fails while the call waits. After an error, no part of the server is running.
    pub async fn start(self) -> Result<Server, ServerError> {
        let server = self.begin().await?;
        server.wait_until_serving().await?;
        Ok(server)
    }

    /// Starts the server and waits until it listens.
    ///
    /// # Errors
    /// If the settings are refused, the data cannot be recovered, or an address cannot be bound.
    pub(crate) async fn begin(self) -> Result<Server, ServerError> {
        let config = Arc::new(self.config()?);
        Server::host(config, self.faults).await
    }

    fn config(&self) -> Result<Config, ServerError> {
        let data_dir = self.data_dir.as_ref().ok_or(ServerError::NoDataDir)?;
        let data_dir = std::path::absolute(data_dir).map_err(ServerError::Directory)?;
        let address = self.address.to_string();
        let mut settings = vec![
            ("dataDir".to_owned(), data_dir.display().to_string()),
            ("clientPort".to_owned(), self.port.to_string()),
            ("clientPortAddress".to_owned(), address.clone()),
            ("admin.enableServer".to_owned(), false.to_string()),
        ];
        let other_addresses = OTHER_ADDRESSES.iter().filter(|key| self.needs(key));
        settings.extend(other_addresses.map(|key| ((*key).to_owned(), address.clone())));
        settings.extend(self.settings.clone());
        let config = Config::from_settings(&settings, self.properties.clone(), &mut ThisMachine)
            .inspect_err(|error| log_notices(error.notices()))?;
        let unknown = |notice: &&Notice| self.is_strict && notice.id == finding::UNKNOWN;
        if let Some(notice) = config.notices.iter().find(unknown) {
            let key = notice.key.as_deref().unwrap_or_default();
            return Err(ServerError::Settings(format!("{key}: {}", notice.text)));
        }
        log_notices(&config.notices);
        let wanted = server::kerberos_environment(&config);
        let is_set = |name: &str, value: &OsString| std::env::var_os(name).as_ref() == Some(value);
        match wanted
            .into_iter()
            .find(|(name, value)| !is_set(name, value))
        {
            Some((name, value)) => Err(ServerError::Environment {
                name,
                value: value.to_string_lossy().into_owned(),
            }),
            None => Ok(config),
        }
    }

    /// Returns whether this key must be set to the builder's address.
    fn needs(&self, key: &str) -> bool {
        // `secureClientPortAddress` is refused without `secureClientPort`.
        let has_port = key != "secureClientPortAddress"
            || self
                .settings
                .iter()
                .any(|(key, _)| key == "secureClientPort");
        // A line of zoo.cfg would override the property.
        let has_property = self.properties.get(&format!("zookeeper.{key}")).is_some();
        has_port && !has_property
    }
}
