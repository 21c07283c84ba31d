//! Settings of the server that four-letter words show.

use std::path::Path;

use config::{ClientAddress, Config};

/// Subdirectory of a data directory that contains the snapshots or logs.
pub(super) const VERSION_DIR: &str = "version-2";

/// Settings that `conf` shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// Client port; -1 if there is none.
    pub client_port: i32,
    /// Client port with TLS; -1 if there is none.
    pub secure_client_port: i32,
    /// Directory of snapshots: the subdirectory `version-2` of `dataDir`.
    pub data_dir: String,
    /// Directory of transaction logs: the subdirectory `version-2` of `dataLogDir`.
    pub data_log_dir: String,
    /// Length of a tick, ms.
    pub tick_time_ms: i32,
    /// Maximum number of connections from one address; 0 for no limit.
    pub max_client_cnxns: i32,
    /// Minimum session timeout, ms.
    pub min_session_timeout_ms: i32,
    /// Maximum session timeout, ms.
    pub max_session_timeout_ms: i32,
    /// Length of the accept queue; -1 if the system chooses it.
    pub listen_backlog: i32,
    /// Value of `myid`; 0 for a standalone server.
    pub server_id: i64,
    /// Settings that only a member of an ensemble has.
    pub member: Option<MemberConfiguration>,
}

impl Configuration {
    /// Creates the settings of a server that was started with `config`. `member` reflects the
    /// current member list.
    pub fn new(config: &Config, member: Option<MemberConfiguration>) -> Self {
        let port = |address: &Option<ClientAddress>| {
            address
                .as_ref()
                .map_or(-1, |address| i32::from(address.port))
        };
        let version_dir = |dir: &Path| dir.join(VERSION_DIR).display().to_string();
        let number = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
        Self {
            client_port: port(&config.client.plain),
            secure_client_port: port(&config.client.secure),
            data_dir: version_dir(&config.data_dir),
            data_log_dir: version_dir(&config.data_log_dir),
            tick_time_ms: number(config.tick_time_ms),
            max_client_cnxns: config.limits.max_client_cnxns.map_or(0, number),
            min_session_timeout_ms: number(config.sessions.min_timeout_ms),
            max_session_timeout_ms: number(config.sessions.max_timeout_ms),
            listen_backlog: config.client.backlog.map_or(-1, number),
            server_id: config.ensemble.as_ref().map_or(0, |own| own.my_id.0),
            member,
        }
    }
}

/// Settings of an ensemble's member that `conf` shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberConfiguration {
    /// Value of `initLimit`, in ticks.
    pub init_limit: i32,
    /// Value of `syncLimit`, in ticks.
    pub sync_limit: i32,
    /// Election algorithm, which is always 3.
    pub election_alg: i32,
    /// Election ports on all addresses of this server.
    pub election_ports: Vec<u16>,
    /// Quorum ports on all addresses of this server.
    pub quorum_ports: Vec<u16>,
    /// Whether this server is an observer.
    pub observer: bool,
    /// Current configuration: lines `server.N=...`, then `version=<hex>` without a line end.
    pub membership: String,
}

#[cfg(test)]
mod tests {
    use config::{NoSurroundings, RawConfig, SystemProperties};

    use super::*;

    #[test]
    fn omitted_settings_are_shown_as_in_java() {
        let configuration = |text: &str| {
            let raw = RawConfig::parse("zoo.cfg".as_ref(), text.as_bytes()).unwrap();
            let config = Config::parse(raw, SystemProperties::new(), &mut NoSurroundings).unwrap();
            Configuration::new(&config, None)
        };
        let least = configuration("dataDir=/data\nmaxClientCnxns=0\n");
        assert_eq!((least.client_port, least.secure_client_port), (-1, -1));
        assert_eq!(
            (&*least.data_dir, &*least.data_log_dir),
            ("/data/version-2", "/data/version-2")
        );
        assert_eq!((least.max_client_cnxns, least.listen_backlog), (0, -1));
        assert_eq!((least.server_id, least.member), (0, None));

        let text = "dataDir=/data\ndataLogDir=/log\nclientPort=2181\ntickTime=1500\n\
                    maxClientCnxns=7\nclientPortListenBacklog=40\n";
        let more = configuration(text);
        assert_eq!((more.client_port, more.listen_backlog), (2181, 40));
        assert_eq!(
            (&*more.data_log_dir, more.max_client_cnxns),
            ("/log/version-2", 7)
        );
        assert_eq!(
            (
                more.tick_time_ms,
                more.min_session_timeout_ms,
                more.max_session_timeout_ms
            ),
            (1500, 3000, 30_000)
        );
    }
}
