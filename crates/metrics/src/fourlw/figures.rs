//! The words `srvr`, `stat`, `cons` and `mntr`, which show counters of the server.

use std::fmt::{self, Write};

use proto::SessionId;

use super::peer::Peer;
use crate::process::version;
use crate::role::{Mode, RoleView};
use crate::table::{mntr as shown, read_all};
use crate::view::{ConnectionInfo, View};

pub(super) fn srvr(view: &dyn View, mode: Mode, out: &mut String) -> fmt::Result {
    head(mode, out)?;
    totals(view, mode, out)
}

pub(super) fn stat(view: &dyn View, mode: Mode, out: &mut String) -> fmt::Result {
    head(mode, out)?;
    writeln!(out, "Clients:")?;
    for connection in view.connections() {
        write_common_part(&connection, out)?;
        writeln!(out, ")")?;
    }
    writeln!(out)?;
    totals(view, mode, out)
}

fn head(mode: Mode, out: &mut String) -> fmt::Result {
    writeln!(out, "Zookeeper version: {}", version::FULL)?;
    if mode == Mode::ReadOnly {
        writeln!(out, "READ-ONLY mode; serving only read-only clients")?;
    }
    Ok(())
}

fn totals(view: &dyn View, mode: Mode, out: &mut String) -> fmt::Result {
    let figures = view.stats().get(view.now().monotonic_ms);
    let state = view.state();
    let latency = figures.latency;
    let (min, average, max) = (latency.min(), latency.average(), latency.max());
    writeln!(out, "Latency min/avg/max: {min}/{average}/{max}")?;
    writeln!(out, "Received: {}", figures.packets_received)?;
    writeln!(out, "Sent: {}", figures.packets_sent)?;
    writeln!(out, "Connections: {}", state.connections)?;
    writeln!(out, "Outstanding: {}", state.outstanding_requests)?;
    writeln!(out, "Zxid: {}", view.last_zxid())?;
    writeln!(out, "Mode: {}", mode.name())?;
    writeln!(out, "Node count: {}", state.znode_count)?;
    if let Some(leader) = view.leader_figures() {
        let sizes = leader.proposal_sizes;
        let (last, min, max) = (sizes.last, sizes.min, sizes.max);
        writeln!(out, "Proposal sizes last/min/max: {last}/{min}/{max}")?;
    }
    Ok(())
}

pub(super) fn cons(view: &dyn View, out: &mut String) -> fmt::Result {
    for connection in view.connections() {
        write_common_part(&connection, out)?;
        if connection.session != SessionId::NONE {
            write_session_part(&connection, out)?;
        }
        writeln!(out, ")")?;
    }
    writeln!(out)
}

/// Writes the part that every connection has. The parenthesis remains open.
fn write_common_part(connection: &ConnectionInfo, out: &mut String) -> fmt::Result {
    let ConnectionInfo {
        peer,
        interest,
        queued,
        figures,
        ..
    } = connection;
    let (peer, interest) = (Peer(*peer), interest.bits());
    let (received, sent) = (figures.received, figures.sent);
    write!(
        out,
        " {peer}[{interest}](queued={queued},recved={received},sent={sent}"
    )
}

/// Writes the additional part for a connection with a session.
fn write_session_part(connection: &ConnectionInfo, out: &mut String) -> fmt::Result {
    let ConnectionInfo {
        session,
        timeout_ms,
        figures,
        ..
    } = connection;
    let (operation, established) = (figures.last_op, figures.established_ms);
    write!(
        out,
        ",sid={session},lop={operation},est={established},to={timeout_ms}"
    )?;
    // The xid is missing between `crst` and the next request.
    if figures.last_cxid >= 0 {
        write!(out, ",lcxid={:#x}", figures.last_cxid)?;
    }
    write!(
        out,
        ",lzxid={},lresp={}",
        figures.last_zxid, figures.last_response_ms
    )?;
    write!(
        out,
        ",llat={},minlat={}",
        figures.last_latency_ms, figures.min_latency_ms
    )?;
    write!(
        out,
        ",avglat={},maxlat={}",
        figures.avg_latency_ms, figures.max_latency_ms
    )
}

pub(super) fn mntr(view: &dyn View, role: &RoleView, out: &mut String) -> fmt::Result {
    writeln!(out, "zk_version\t{}", version::FULL)?;
    writeln!(out, "zk_server_state\t{}", role.mode.name())?;
    if let Some(state) = role.peer_state() {
        writeln!(out, "zk_peer_state\t{state}")?;
    }
    if let Mode::Observer { master } = role.mode {
        writeln!(out, "zk_observer_master_id\t{master}")?;
    }
    for (metric, reading) in read_all(view) {
        let mut line = |name: &str, figure| writeln!(out, "zk_{name}\t{figure}");
        shown::figures(metric, &reading, &mut line)?;
    }
    Ok(())
}
