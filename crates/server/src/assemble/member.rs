//! Construction of an ensemble's member when the server starts.

use std::sync::Arc;

use config::{Config, Ensemble};
use host::ServerState;
use metrics::Metrics;
use quorum::{DeferredWork, MemberPorts, PeerSink, PortsStart};
use replica::MemberStart;
use replica::field_limits;
use storage::DataDirs;

use super::core::CoreHandle;
use super::inbox::{CoreMessage, Visitor};
use super::tls::PortTls;
use crate::disk::DeferredSyncSlot;
use crate::disk::members::MembershipFiles;
use crate::error::StartError;

/// Parts of a member that listens for elections.
pub(crate) struct MemberParts {
    pub(crate) start: MemberStart,
    pub(crate) ports: MemberPorts,
    pub(crate) files: MembershipFiles,
}

/// Context for constructing a member.
pub(crate) struct MemberContext<'a> {
    pub(crate) config: &'a Config,
    pub(crate) state: &'a Arc<ServerState>,
    pub(crate) metrics: &'a Arc<Metrics>,
    pub(crate) dirs: &'a DataDirs,
    pub(crate) core: &'a CoreHandle,
    pub(crate) deferred_syncs: &'a Arc<DeferredSyncSlot>,
    pub(crate) tls: &'a PortTls,
}

/// Constructs the member; `None` without an ensemble.
pub(crate) fn start(
    context: &MemberContext<'_>,
    start: MemberStart,
) -> Result<Option<MemberParts>, StartError> {
    let config = context.config;
    let Some(ensemble) = &config.ensemble else {
        return Ok(None);
    };
    let files = MembershipFiles::new(config.source.clone(), ensemble.dynamic_file.is_some());
    if config.features.reconfig_enabled {
        // The first list that is installed moves the members out of zoo.cfg, so the file is backed
        // up first.
        files
            .back_up()
            .map_err(|source| StartError::Backup { source })?;
    }
    if let Some(check) = context.tls.member_check() {
        check.set_hosts(start.lists.hosts());
    }
    let ports = ports(context, ensemble);
    Ok(Some(MemberParts {
        start,
        ports,
        files,
    }))
}

fn ports(context: &MemberContext<'_>, ensemble: &Ensemble) -> MemberPorts {
    let (config, tls) = (context.config, context.tls);
    let elections = context.core.clone();
    MemberPorts::start(PortsStart {
        config,
        ensemble,
        limits: field_limits(config),
        state: context.state.clone(),
        metrics: context.metrics.clone(),
        dirs: context.dirs.clone(),
        acceptor: tls.of_members(),
        connector: tls.to_members(),
        member_check: tls.member_check(),
        deferred_work: deferred_work(context.deferred_syncs),
        of_elections: Box::new(move |event| {
            elections.send(CoreMessage::Mesh(event));
        }),
        of_learners: sink(context.core, Visitor::Passing),
        of_leader: sink(context.core, Visitor::CanSync),
    })
}

/// Returns the access to groups that the core leaves for the task that delivers the leader's
/// packets.
fn deferred_work(deferred_syncs: &Arc<DeferredSyncSlot>) -> DeferredWork {
    let deferred_syncs = deferred_syncs.clone();
    Arc::new(move || Some(Box::new(deferred_syncs.take()?)))
}

/// Returns a sink that passes events to the core. A task that delivers packets then runs the core
/// as this kind of visitor.
fn sink(core: &CoreHandle, visitor: Visitor) -> PeerSink {
    let told = core.clone();
    Arc::new(move |event| {
        let is_packets = event.is_packets();
        told.put(CoreMessage::Peer(event));
        // The task that reads packets does not hold locks, so it may run the core.
        if is_packets {
            told.run_inline(visitor);
        } else {
            told.wake();
        }
    })
}
