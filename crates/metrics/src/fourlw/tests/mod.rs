//! Fake server, and its answers.

mod answers;
mod monitor;

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use config::membership::Membership;
use proto::{OpCode, SessionId, Sid, Xid, Zxid};
use tree::{EphemeralOwners, WatchSummary, WatchedPaths, Watchers};

use super::*;
use crate::counters::{BufferSizes, ConnectionStats, ServerStats};
use crate::process::environment::Environment;
use crate::process::version;
use crate::role::{LeaderFigures, Learners, RoleView, ZabState};
use crate::table::{Metrics, NamespaceQuota, ServerGauges};
use crate::view::{
    Configuration, ConnectionId, ConnectionInfo, DEFAULT_TRACE_MASK, DirectorySizes, ExpirySets,
    GlobalSessions, Interest, MemberConfiguration, Now, Sessions,
};

/// Server with the state that a test has set.
struct Fake {
    mode: Option<Mode>,
    metrics: Arc<Metrics>,
    stats: ServerStats,
    environment: Environment,
    quotas: Vec<NamespaceQuota>,
    connections: Vec<ConnectionInfo>,
    member: Option<MemberConfiguration>,
    sessions: Sessions,
    expiry: Option<ExpirySets<ConnectionId>>,
    trace_mask: Cell<i64>,
    /// Whether one part of the watches has been listed.
    listed: Cell<bool>,
    calls: RefCell<Vec<&'static str>>,
}

const SESSION: SessionId = SessionId(0x0100_000f_53f0_0002);

fn fake(mode: Option<Mode>) -> Fake {
    let metrics = Arc::new(Metrics::with_shards(1));
    let asker = connection("127.0.0.1:48818", Interest::default(), SessionId::NONE);
    let reading = Interest {
        read: true,
        write: false,
    };
    let client = connection("127.0.0.1:48800", reading, SESSION);
    let sets = |set| ExpirySets {
        sets: vec![(9_000, Vec::new()), (11_000, vec![set])],
    };
    Fake {
        mode,
        stats: ServerStats::new(metrics.clone(), 1_000),
        metrics,
        environment: Environment::of_this_process(),
        quotas: Vec::new(),
        member: None,
        sessions: Sessions {
            local: None,
            global: GlobalSessions::Expired(sets(SESSION)),
        },
        expiry: Some(ExpirySets {
            sets: vec![(
                12_000,
                vec![ConnectionId {
                    peer: client.peer,
                    session: SESSION,
                }],
            )],
        }),
        connections: vec![asker, client],
        trace_mask: Cell::new(DEFAULT_TRACE_MASK),
        listed: Cell::new(false),
        calls: RefCell::default(),
    }
}

fn connection(peer: &str, interest: Interest, session: SessionId) -> ConnectionInfo {
    let stats = ConnectionStats::new(1_795_296_237_648);
    stats.packets_received(1);
    if session != SessionId::NONE {
        stats.packets_sent(1);
        stats.answered(Xid(4), Zxid(0x31), OpCode::GetChildren2, 7_972, 8_000);
    }
    let peer = peer.parse().expect("an address");
    ConnectionInfo {
        peer,
        interest,
        queued: 0,
        session,
        timeout_ms: 30_000,
        figures: stats.get(),
    }
}

impl View for Fake {
    fn role(&self) -> Arc<RoleView> {
        Arc::new(RoleView {
            mode: self.mode.unwrap_or(Mode::Looking),
            is_serving: self.mode.is_some(),
            zab: ZabState::Broadcast,
            sync: None,
            leader: None,
            members: Some(Arc::new(three_voters())),
        })
    }

    fn leader_figures(&self) -> Option<LeaderFigures> {
        let Some(Mode::Leader { since_ms, learners }) = self.mode else {
            return None;
        };
        Some(LeaderFigures {
            learners,
            pending_syncs: 0,
            uptime_ms: self.now().monotonic_ms - since_ms,
            proposal_sizes: BufferSizes {
                last: 94,
                min: 48,
                max: 94,
            },
        })
    }

    fn now(&self) -> Now {
        Now {
            monotonic_ms: 10_000,
            wall_ms: 1_795_296_268_000,
        }
    }

    fn stats(&self) -> &ServerStats {
        &self.stats
    }

    fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn state(&self) -> ServerGauges {
        ServerGauges {
            connections: 2,
            znode_count: 12,
            ..ServerGauges::default()
        }
    }

    fn last_zxid(&self) -> Zxid {
        Zxid(0x31)
    }

    fn quotas(&self) -> Vec<NamespaceQuota> {
        self.quotas.clone()
    }

    fn connections(&self) -> Vec<ConnectionInfo> {
        self.connections.clone()
    }

    fn reset_connections(&self) {
        self.calls.borrow_mut().push("reset connections");
    }

    fn reset_proposal_sizes(&self) {
        self.calls.borrow_mut().push("reset proposal sizes");
    }

    fn configuration(&self) -> Configuration {
        Configuration {
            client_port: 2181,
            secure_client_port: -1,
            data_dir: "/data/version-2".to_owned(),
            data_log_dir: "/log/version-2".to_owned(),
            tick_time_ms: 2000,
            max_client_cnxns: 60,
            min_session_timeout_ms: 4000,
            max_session_timeout_ms: 40_000,
            listen_backlog: -1,
            server_id: 0,
            member: self.member.clone(),
        }
    }

    fn directory_sizes(&self) -> DirectorySizes {
        DirectorySizes {
            data: 600,
            log: 67_109_358,
        }
    }

    fn sessions(&self) -> Sessions {
        self.sessions.clone()
    }

    fn ephemerals(&self, at: &mut Option<EphemeralOwners>) -> Vec<(SessionId, Vec<String>)> {
        *at = None;
        vec![(SESSION, vec!["/live/eph".to_owned()])]
    }

    fn connection_expiry(&self) -> Option<ExpirySets<ConnectionId>> {
        self.expiry.clone()
    }

    fn watch_summary(&self) -> WatchSummary {
        WatchSummary {
            watchers: 2,
            paths: 3,
            watches: 4,
        }
    }

    fn watches_by_session(&self, at: &mut Option<Watchers>) -> Vec<(SessionId, Vec<String>)> {
        // The list has two parts.
        let path = if self.listed.replace(!self.listed.get()) {
            *at = None;
            "/other"
        } else {
            "/live"
        };
        vec![(SESSION, vec![path.to_owned()])]
    }

    fn watches_by_path(&self, at: &mut Option<WatchedPaths>) -> Vec<(String, Vec<SessionId>)> {
        *at = None;
        vec![("/live".to_owned(), vec![SESSION])]
    }

    fn digests(&self) -> Vec<(Zxid, i64)> {
        vec![(Zxid(0x80), 8_046_098_329), (Zxid(0x100), -5)]
    }

    fn environment(&self) -> &Environment {
        &self.environment
    }

    fn trace_mask(&self) -> i64 {
        self.trace_mask.get()
    }

    fn set_trace_mask(&self, mask: i64) {
        self.trace_mask.set(mask);
    }
}

fn ask(word: Word, view: &Fake) -> String {
    answer(word, &[], view)
}

fn three_voters() -> Membership {
    let text = "server.1=h:1:2\nserver.2=h:3:4\nserver.3=h:5:6\n";
    Membership::parse(text, false).expect("a member list")
}

fn leader() -> Mode {
    Mode::Leader {
        since_ms: 1_000,
        learners: Learners {
            connected: 2,
            synced_followers: 2,
            ..Learners::default()
        },
    }
}

fn observer() -> Mode {
    Mode::Observer { master: Sid(3) }
}

fn follower(synced_observers: Option<u64>) -> Mode {
    Mode::Follower { synced_observers }
}
