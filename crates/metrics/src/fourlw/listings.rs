//! The words `conf`, `envi`, `dump`, `dirs`, `wchs`, `wchc`, `wchp` and `hash`, which show the
//! state of the server and its environment.

use std::fmt::{self, Display, Write};

use super::peer::{Date, Peer};
use crate::process::Memory;
use crate::process::environment::Environment;
use crate::role::{Mode, RoleView};
use crate::view::{
    ConnectionId, ExpirySets, GlobalSessions, MemberConfiguration, Now, View, whole,
};

pub(super) fn conf(view: &dyn View, role: &RoleView, out: &mut String) -> fmt::Result {
    let conf = view.configuration();
    let sizes = view.directory_sizes();
    writeln!(out, "clientPort={}", conf.client_port)?;
    writeln!(out, "secureClientPort={}", conf.secure_client_port)?;
    writeln!(out, "dataDir={}", conf.data_dir)?;
    writeln!(out, "dataDirSize={}", sizes.data)?;
    writeln!(out, "dataLogDir={}", conf.data_log_dir)?;
    writeln!(out, "dataLogSize={}", sizes.log)?;
    writeln!(out, "tickTime={}", conf.tick_time_ms)?;
    writeln!(out, "maxClientCnxns={}", conf.max_client_cnxns)?;
    writeln!(out, "minSessionTimeout={}", conf.min_session_timeout_ms)?;
    writeln!(out, "maxSessionTimeout={}", conf.max_session_timeout_ms)?;
    writeln!(out, "clientPortListenBacklog={}", conf.listen_backlog)?;
    writeln!(out, "serverId={}", conf.server_id)?;
    let Some(member) = &conf.member else {
        return Ok(());
    };
    member_conf(member, out)?;
    // A read-only server does not know the current members of the ensemble.
    if role.mode != Mode::ReadOnly {
        write!(out, "membership: \n{}", member.membership)?;
    }
    Ok(())
}

fn member_conf(member: &MemberConfiguration, out: &mut String) -> fmt::Result {
    let joined = |ports: &[u16]| {
        ports
            .iter()
            .map(u16::to_string)
            .collect::<Vec<_>>()
            .join("|")
    };
    writeln!(out, "initLimit={}", member.init_limit)?;
    writeln!(out, "syncLimit={}", member.sync_limit)?;
    writeln!(out, "electionAlg={}", member.election_alg)?;
    writeln!(out, "electionPort={}", joined(&member.election_ports))?;
    writeln!(out, "quorumPort={}", joined(&member.quorum_ports))?;
    writeln!(out, "peerType={}", i32::from(member.observer))
}

pub(super) fn envi(environment: &Environment, out: &mut String) -> fmt::Result {
    writeln!(out, "Environment:")?;
    let entries = environment.entries(Memory::of_this_process());
    entries
        .iter()
        .try_for_each(|(key, value)| writeln!(out, "{key}={value}"))
}

pub(super) fn dump(view: &dyn View, out: &mut String) -> fmt::Result {
    let now = view.now();
    writeln!(out, "SessionTracker dump:")?;
    let sessions = view.sessions();
    if let Some(local) = &sessions.local {
        write!(out, "Local Session ")?;
        expiry_sets(local, now, out)?;
    }
    match &sessions.global {
        GlobalSessions::Expired(sets) => {
            write!(
                out,
                "{}",
                if sessions.local.is_some() {
                    "Global Session "
                } else {
                    "Session "
                }
            )?;
            expiry_sets(sets, now, out)?;
        }
        GlobalSessions::Known(known) => {
            writeln!(out, "Global Sessions({}):", known.len())?;
            for (session, timeout_ms) in known {
                writeln!(out, "{session}\t{timeout_ms}ms")?;
            }
        }
    }
    writeln!(out, "ephemeral nodes dump:")?;
    let ephemerals = whole(|at| view.ephemerals(at));
    writeln!(out, "Sessions with Ephemerals ({}):", ephemerals.len())?;
    for (session, paths) in &ephemerals {
        writeln!(out, "{session}:")?;
        indented(paths, out)?;
    }
    writeln!(out, "Connections dump:")?;
    if let Some(sets) = view.connection_expiry() {
        write!(out, "Connections ")?;
        expiry_sets(&sets, now, out)?;
    }
    Ok(())
}

impl Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ip: {} sessionId: {}", Peer(self.peer), self.session)
    }
}

/// Writes the expiry sets. Source: ExpiryQueue.dump.
fn expiry_sets<T: Display>(expiry: &ExpirySets<T>, now: Now, out: &mut String) -> fmt::Result {
    let members: usize = expiry.sets.iter().map(|(_, set)| set.len()).sum();
    writeln!(out, "Sets ({})/({members}):", expiry.sets.len())?;
    for (at, set) in &expiry.sets {
        writeln!(
            out,
            "{} expire at {}:",
            set.len(),
            Date(now.wall_ms_at(*at))
        )?;
        indented(set, out)?;
    }
    Ok(())
}

fn indented<T: Display>(lines: &[T], out: &mut impl Write) -> fmt::Result {
    lines.iter().try_for_each(|line| writeln!(out, "\t{line}"))
}

pub(super) fn dirs(view: &dyn View, out: &mut String) -> fmt::Result {
    let sizes = view.directory_sizes();
    writeln!(out, "datadir_size: {}", sizes.data)?;
    writeln!(out, "logdir_size: {}", sizes.log)
}

pub(super) fn wchs(view: &dyn View, out: &mut String) -> fmt::Result {
    let summary = view.watch_summary();
    writeln!(
        out,
        "{} connections watching {} paths",
        summary.watchers, summary.paths
    )?;
    writeln!(out, "Total watches:{}", summary.watches)
}

/// Writes `wchc` and `wchp`: each key with its values, and an empty line at the end.
pub(super) fn watches<K: Display, V: Display>(
    watches: &[(K, Vec<V>)],
    out: &mut String,
) -> fmt::Result {
    // The answer may be long. A buffer that grew in steps would allocate up to twice its length.
    let mut length = Length(0);
    write_watches(watches, &mut length)?;
    out.reserve_exact(length.0);
    write_watches(watches, out)
}

/// Writer that only counts the length of the output.
struct Length(usize);

impl Write for Length {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

fn write_watches<K: Display, V: Display>(
    watches: &[(K, Vec<V>)],
    out: &mut impl Write,
) -> fmt::Result {
    for (key, values) in watches {
        writeln!(out, "{key}")?;
        indented(values, out)?;
    }
    writeln!(out)
}

pub(super) fn hash(view: &dyn View, out: &mut String) -> fmt::Result {
    let digests = view.digests();
    digests
        .iter()
        .try_for_each(|(zxid, digest)| writeln!(out, "{:x}: {digest}", zxid.0))
}
