//! What each server is told: its configuration file, and who it is.

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use config::members::HostPort;
use config::{Config, RawConfig, Surroundings, SystemProperties};
use proto::Sid;
use recovery::{HistorySettings, SnapshotSettings};
use replica::{ContainerSettings, Settings};
use storage::{Compression, LogSettings, RecoverySettings};
use tree::TreeSettings;

use crate::client::Identity;
use crate::plan::Plan;

pub(crate) fn sid_of(index: usize) -> Sid {
    Sid(i64::try_from(index).unwrap_or(i64::MAX - 1) + 1)
}

pub(crate) fn index_of(sid: Sid) -> usize {
    usize::try_from(sid.0 - 1).unwrap_or(usize::MAX)
}

/// Whose address this is.
pub(crate) fn server_at(address: &HostPort) -> Option<usize> {
    let number = address.host.rsplit('.').next()?;
    number.parse::<usize>().ok()?.checked_sub(1)
}

/// Where snapshots are, and where the log is.
pub(crate) fn dirs_of(plan: &Plan) -> [&'static Path; 2] {
    let data = Path::new("/data");
    match plan.has_log_dir {
        true => [data, Path::new("/log")],
        false => [data, data],
    }
}

pub(crate) fn config_of(index: usize, plan: &Plan) -> Result<Config, String> {
    let tick_ms = plan.tick_ms;
    let [data, log] = dirs_of(plan).map(Path::display);
    let mut text = format!("dataDir={data}\ndataLogDir={log}\ntickTime={tick_ms}\n");
    text += "initLimit=10\nsyncLimit=5\n";
    if plan.features.local_sessions {
        text += "localSessionsEnabled=true\nlocalSessionsUpgradingEnabled=true\n";
    }
    if index >= plan.voters {
        text += "peerType=observer\n";
    }
    for server in 0..plan.servers() {
        let role = match server < plan.voters {
            true => "participant",
            false => "observer",
        };
        let number = server + 1;
        text += &format!("server.{number}=10.0.0.{number}:2888:3888:{role}\n");
    }
    let raw = RawConfig::parse("zoo.cfg".as_ref(), text.as_bytes());
    let raw = raw.map_err(|error| error.to_string())?;
    let config = Config::parse(raw, SystemProperties::new(), &mut MyId(index));
    config.map_err(|error| error.to_string())
}

/// What a server finds beside its configuration file.
struct MyId(usize);

impl Surroundings for MyId {
    fn read(&mut self, path: &Path, _limit: usize) -> io::Result<Vec<u8>> {
        if path.ends_with("myid") {
            return Ok(sid_of(self.0).to_string().into_bytes());
        }
        Err(io::ErrorKind::NotFound.into())
    }

    fn resolve(&mut self, host: &str) -> io::Result<IpAddr> {
        Err(io::Error::new(io::ErrorKind::NotFound, host.to_owned()))
    }
}

/// The same settings as of a server, with times that suit a simulation.
pub(crate) fn settings(config: &Config, plan: &Plan) -> Settings {
    let mut settings = Settings::new(config);
    settings.containers = ContainerSettings {
        check_interval_ms: 400,
        min_spacing_ms: 10,
        max_never_used_ms: 0,
    };
    if let Some(ensemble) = &mut settings.ensemble {
        ensemble.zab = plan.zab();
        ensemble.election.election = plan.election();
        ensemble.commit_log_count = plan.committed_len;
        ensemble.read_only_after_ms = plan.features.read_only_after_ms;
    }
    settings
}

pub(crate) fn tree_settings(plan: &Plan) -> Arc<TreeSettings> {
    let mut settings = TreeSettings {
        standalone: false,
        extended_types: true,
        enforce_quota: plan.features.enforces_quota,
        record_bytes_max: plan.features.record_bytes_max,
        ..TreeSettings::default()
    };
    settings.auth.digest.super_digest = Some(Identity::Super.id());
    Arc::new(settings)
}

/// How files are written: logs short, so that a seed sees many of them.
pub(crate) fn history_settings(db_autocreate: bool, plan: &Plan) -> HistorySettings {
    HistorySettings {
        log: LogSettings {
            prealloc_bytes: 2048,
            fsync_warning: Duration::MAX,
            ..LogSettings::default()
        },
        recovery: RecoverySettings {
            db_autocreate,
            ..RecoverySettings::default()
        },
        tree: tree_settings(plan),
    }
}

pub(crate) const SNAPSHOTS: SnapshotSettings = SnapshotSettings {
    compression: Compression::None,
    force_sync: true,
    digest_enabled: true,
    serialize_last_zxid: true,
};
