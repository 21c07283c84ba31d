//! The configuration file and the identity of each server.

pub mod member_files;
pub mod member_lists;

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use config::members::HostPort;
use config::{Config, OnDigestMismatch, RawConfig, Surroundings, SystemProperties};
use proto::Sid;
use proto::hello::{Endpoint, Hello, HelloAddresses};
use recovery::{DurableLog, DurableLogSettings, SnapshotSettings, recover_member, recover_tree};
use replica::connection::ConnectionRules;
use replica::{ContainerSettings, HandshakeRules, Port, ReplicaSettings, Service, SessionRules};
use storage::{Compression, LogPages, LogSettings, RecoverySettings};
use testkit::SimDisk;
use tree::TreeSettings;

use crate::settings::EnsembleSettings;

/// Returns the id of a server.
pub fn sid_of(index: usize) -> Sid {
    Sid(i64::try_from(index).unwrap_or(i64::MAX - 1) + 1)
}

/// Returns the index of a server.
pub fn index_of(sid: Sid) -> usize {
    usize::try_from(sid.0 - 1).unwrap_or(usize::MAX)
}

/// Returns the first message that a server sends in elections, with its identity and address.
pub(crate) fn hello_of(index: usize) -> Hello {
    let at = Endpoint {
        host: format!("10.0.0.{}", index + 1),
        port: 3888,
    };
    Hello {
        sid: sid_of(index),
        addresses: HelloAddresses::One(vec![at]),
    }
}

/// Returns the index of the server that has this address, and the kind of port. Returns `None` if
/// the host name does not end with the number of a server.
pub fn server_at(address: &HostPort) -> Option<(usize, Port)> {
    let number = address.host.rsplit('.').next()?;
    let server = number.parse::<usize>().ok()?.checked_sub(1)?;
    let port = match address.port {
        OBSERVER_MASTER_PORT => Port::Observers,
        _ => Port::Learners,
    };
    Some((server, port))
}

/// Address that all clients have.
pub(crate) const CLIENT_ADDRESS: &str = "10.1.0.1";

/// Returns the rules for the handshakes of clients.
pub(crate) fn handshake_rules(settings: &EnsembleSettings, service: Service) -> HandshakeRules {
    HandshakeRules {
        service,
        local_sessions: settings.features.local_sessions,
        timeout_min_ms: 0,
        timeout_max_ms: i32::MAX,
    }
}

/// Returns the rules for the requests of a connection.
pub(crate) fn connection_rules(
    settings: &EnsembleSettings,
    service: Service,
) -> ConnectionRules<'static> {
    ConnectionRules {
        sessions: SessionRules {
            local: settings.features.local_sessions,
            upgrades: true,
            is_read_only: false,
        },
        service,
        enforced_schemes: None,
        eager_acl_check: false,
        is_late: false,
        bounds_resources: false,
        watch_bytes_max: usize::MAX,
    }
}

/// Returns the directories of the snapshots and of the log.
pub fn dirs_of(settings: &EnsembleSettings) -> [&'static Path; 2] {
    let data = Path::new("/data");
    if settings.has_log_dir {
        [data, Path::new("/log")]
    } else {
        [data, data]
    }
}

pub(crate) fn config_of(
    index: usize,
    settings: &EnsembleSettings,
    disk: &SimDisk,
) -> Result<Config, String> {
    let tick_ms = settings.tick_ms;
    let [data, log] = dirs_of(settings).map(Path::display);
    let mut text = format!("dataDir={data}\ndataLogDir={log}\ntickTime={tick_ms}\n");
    text += "initLimit=10\nsyncLimit=5\n";
    if settings.features.local_sessions {
        text += "localSessionsEnabled=true\nlocalSessionsUpgradingEnabled=true\n";
    }
    if settings.features.has_observer_masters {
        text += &format!("observerMasterPort={OBSERVER_MASTER_PORT}\n");
    }
    text += match settings.features.on_digest_mismatch {
        OnDigestMismatch::Log => "",
        OnDigestMismatch::Stop => "zoarium.onDigestMismatch=stop\n",
        OnDigestMismatch::Repair => "zoarium.onDigestMismatch=repair\n",
    };
    if settings.features.has_oracle {
        text += "oraclePath=/oracle\n";
    }
    let list = member_lists::first_list(index, settings);
    let raw = if settings.features.reconfigures {
        text += "reconfigEnabled=true\nstandaloneEnabled=false\n";
        member_files::begin(disk, &text, &list).map_err(|error| error.to_string())?
    } else {
        if index >= settings.voters {
            text += "peerType=observer\n";
        }
        let raw = RawConfig::parse("zoo.cfg".as_ref(), (text + &list).as_bytes());
        raw.map_err(|error| error.to_string())?
    };
    let config = Config::parse(raw, SystemProperties::new(), &mut Files(index, disk));
    config.map_err(|error| error.to_string())
}

/// Port on which followers serve observers if the settings of the ensemble enable it.
pub(crate) const OBSERVER_MASTER_PORT: u16 = 2191;

/// Access to other files that a server reads together with its configuration file.
struct Files<'a>(usize, &'a SimDisk);

impl Surroundings for Files<'_> {
    fn read(&mut self, path: &Path, _limit: usize) -> io::Result<Vec<u8>> {
        if path.ends_with("myid") {
            return Ok(sid_of(self.0).to_string().into_bytes());
        }
        member_files::read(self.1, path)
    }

    fn resolve(&mut self, host: &str) -> io::Result<IpAddr> {
        Err(io::Error::new(io::ErrorKind::NotFound, host.to_owned()))
    }
}

/// Returns the function that recovers the tree. The function for a member tolerates corrupt data,
/// because a member can receive its leader's tree.
pub(crate) fn recover_of(settings: &EnsembleSettings) -> host::Recover<SimDisk> {
    if settings.is_standalone() {
        recover_tree
    } else {
        recover_member
    }
}

/// Returns the usual settings of a server, with times that suit a simulation.
pub(crate) fn replica_settings(config: &Config, of: &EnsembleSettings) -> ReplicaSettings {
    let mut settings = ReplicaSettings::new(config);
    settings.containers = ContainerSettings {
        check_interval_ms: 400,
        min_spacing_ms: 10,
        max_never_used_ms: 0,
    };
    if let Some(ensemble) = &mut settings.ensemble {
        ensemble.zab = of.zab();
        ensemble.election.election = of.election();
        ensemble.commit_log_count = of.committed_len;
        ensemble.read_only_after_ms = of.features.read_only_after_ms;
    }
    settings
}

pub(crate) fn tree_settings(of: &EnsembleSettings) -> Arc<TreeSettings> {
    let mut settings = TreeSettings {
        standalone: of.is_standalone(),
        extended_types: true,
        enforce_quota: of.features.enforces_quota,
        record_bytes_max: of.features.record_bytes_max,
        reconfig_enabled: of.features.reconfigures,
        ..TreeSettings::new(testkit::LIMITS)
    };
    settings.auth.digest.super_digest = of.super_digest.clone().map(proto::Secret::new);
    Arc::new(settings)
}

/// Returns the settings for reading the log for learners.
pub(crate) fn log_pages(history: &DurableLog<SimDisk>, page_bytes: usize) -> LogPages<'_, SimDisk> {
    LogPages {
        disk: history.disk(),
        dirs: history.dirs().clone(),
        limits: testkit::LIMITS,
        size_factor: 0.0,
        page_bytes,
    }
}

/// Returns the settings of the log and of its recovery. Log files are extended in short steps, so
/// one seed extends them many times.
pub fn history_settings(db_autocreate: bool, settings: &EnsembleSettings) -> DurableLogSettings {
    DurableLogSettings {
        log: LogSettings {
            prealloc_bytes: 2048,
            fsync_warning: Duration::MAX,
            ..LogSettings::new(testkit::LIMITS)
        },
        recovery: RecoverySettings {
            db_autocreate,
            ..RecoverySettings::new(testkit::LIMITS)
        },
        tree: tree_settings(settings),
    }
}

/// Number of snapshots that a purge keeps.
pub(crate) const SNAPSHOTS_KEPT: usize = 3;

pub(crate) const SNAPSHOTS: SnapshotSettings = SnapshotSettings {
    compression: Compression::None,
    force_sync: true,
    digest_enabled: true,
    serialize_last_zxid: true,
};
