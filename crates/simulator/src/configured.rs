//! The configuration file and the identity of each server.

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

use crate::client::Identity;
use crate::plan::Plan;
use crate::{member_files, members};

pub(crate) fn sid_of(index: usize) -> Sid {
    Sid(i64::try_from(index).unwrap_or(i64::MAX - 1) + 1)
}

pub(crate) fn index_of(sid: Sid) -> usize {
    usize::try_from(sid.0 - 1).unwrap_or(usize::MAX)
}

/// Returns the first message of a server in elections, with its identity and address.
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

/// Returns the server that owns this address, and the kind of port.
pub(crate) fn server_at(address: &HostPort) -> Option<(usize, Port)> {
    let number = address.host.rsplit('.').next()?;
    let server = number.parse::<usize>().ok()?.checked_sub(1)?;
    let port = match address.port {
        OBSERVER_MASTER_PORT => Port::Observers,
        _ => Port::Learners,
    };
    Some((server, port))
}

/// Address of all clients.
pub(crate) const CLIENT_ADDRESS: &str = "10.1.0.1";

/// Returns the rules for the handshakes of clients.
pub(crate) fn handshake_rules(plan: &Plan, service: Service) -> HandshakeRules {
    HandshakeRules {
        service,
        local_sessions: plan.features.local_sessions,
        timeout_min_ms: 0,
        timeout_max_ms: i32::MAX,
    }
}

/// Returns the rules for the requests of a connection.
pub(crate) fn connection_rules(plan: &Plan, service: Service) -> ConnectionRules<'static> {
    ConnectionRules {
        sessions: SessionRules {
            local: plan.features.local_sessions,
            upgrades: true,
            is_read_only: false,
        },
        service,
        enforced_schemes: None,
        eager_acl_check: false,
        is_late: false,
        bounds_holding: false,
        watch_bytes_max: usize::MAX,
    }
}

/// Returns the directories of the snapshots and of the log.
pub(crate) fn dirs_of(plan: &Plan) -> [&'static Path; 2] {
    let data = Path::new("/data");
    if plan.has_log_dir {
        [data, Path::new("/log")]
    } else {
        [data, data]
    }
}

pub(crate) fn config_of(index: usize, plan: &Plan, disk: &SimDisk) -> Result<Config, String> {
    let tick_ms = plan.tick_ms;
    let [data, log] = dirs_of(plan).map(Path::display);
    let mut text = format!("dataDir={data}\ndataLogDir={log}\ntickTime={tick_ms}\n");
    text += "initLimit=10\nsyncLimit=5\n";
    if plan.features.local_sessions {
        text += "localSessionsEnabled=true\nlocalSessionsUpgradingEnabled=true\n";
    }
    if plan.features.has_observer_masters {
        text += &format!("observerMasterPort={OBSERVER_MASTER_PORT}\n");
    }
    text += match plan.features.on_digest_mismatch {
        OnDigestMismatch::Log => "",
        OnDigestMismatch::Stop => "zoarium.onDigestMismatch=stop\n",
        OnDigestMismatch::Repair => "zoarium.onDigestMismatch=repair\n",
    };
    if plan.features.has_oracle {
        text += "oraclePath=/oracle\n";
    }
    let list = members::first_list(index, plan);
    let raw = if plan.features.reconfigures {
        text += "reconfigEnabled=true\nstandaloneEnabled=false\n";
        member_files::begin(disk, &text, &list).map_err(|error| error.to_string())?
    } else {
        if index >= plan.voters {
            text += "peerType=observer\n";
        }
        let raw = RawConfig::parse("zoo.cfg".as_ref(), (text + &list).as_bytes());
        raw.map_err(|error| error.to_string())?
    };
    let config = Config::parse(raw, SystemProperties::new(), &mut Files(index, disk));
    config.map_err(|error| error.to_string())
}

/// Port on which followers serve observers, if the plan enables it.
pub(crate) const OBSERVER_MASTER_PORT: u16 = 2191;

/// Other files that a server reads together with its configuration file.
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

/// Returns the function that recovers the tree. A member can receive the tree of its leader.
pub(crate) fn recover_of(plan: &Plan) -> host::Recover<SimDisk> {
    if plan.is_standalone() {
        recover_tree
    } else {
        recover_member
    }
}

/// Returns the usual settings of a server, with times that suit a simulation.
pub(crate) fn settings(config: &Config, plan: &Plan) -> ReplicaSettings {
    let mut settings = ReplicaSettings::new(config);
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
        standalone: plan.is_standalone(),
        extended_types: true,
        enforce_quota: plan.features.enforces_quota,
        record_bytes_max: plan.features.record_bytes_max,
        reconfig_enabled: plan.features.reconfigures,
        ..TreeSettings::new(testkit::LIMITS)
    };
    settings.auth.digest.super_digest = Some(proto::Secret::new(Identity::Super.id()));
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

/// Returns the settings for writing files. Logs are short, so that one seed creates many of them.
pub(crate) fn history_settings(db_autocreate: bool, plan: &Plan) -> DurableLogSettings {
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
        tree: tree_settings(plan),
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
