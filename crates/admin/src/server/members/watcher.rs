//! Task that queries all members and maintains the state of the ensemble for the console.
//!
//! Visitors only read the last state, so their number does not affect the number of queries. The
//! task sends each member at most one query at a time, to the address from the configuration. If a
//! visitor requests the figures of another member, or the clients of changes that only that member
//! knows, a separate query is sent to the same address. At most four such queries run at a time.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use config::members::HostPort;
use config::membership::Membership;
use parking_lot::Mutex;
use proto::{Secret, Sid};
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use transport::tls::Connector;

use super::AdminPorts;
use super::observed::{Observed, Outcome, Own};
use super::query::{self, QueryError, Running};
use super::report::{self, Report};
use crate::answer::set;
use crate::commands::NOT_SERVING;
use crate::limits::{MEMBER_REPORT_TIME, VISITOR_ANSWER_BYTES_MAX, VISITOR_QUERIES_MAX};
use crate::served::Pending;

/// Interval between queries while a page is open.
const WATCHED_PACE: Duration = Duration::from_secs(1);
/// Interval between queries while no page is open.
const IDLE_PACE: Duration = Duration::from_secs(5);
/// Time after a page's last request at which the page counts as closed.
const WATCHED_FOR: Duration = Duration::from_secs(10);
/// Age above which a page waits for a new state.
const STALE_AFTER: Duration = Duration::from_millis(2_500);
/// Command that Apache ZooKeeper supports, unlike the command for reports.
const FALLBACK: &str = "server_stats";

/// Function that returns the state of this member, or `None` while the data is being loaded, and
/// when the server is stopping.
pub(crate) type OwnReport = Box<dyn Fn() -> Pending<Option<Own>> + Send + Sync>;

/// Running queries to all members. Dropping the value stops them.
#[derive(Debug)]
pub(crate) struct Watcher {
    shared: Arc<Shared>,
    ports: AdminPorts,
    connector: Connector,
    /// Permits of queries for visitors.
    permits: Semaphore,
    _task: Running,
}

#[derive(Debug)]
struct Shared {
    /// Last state. `None` before the first one.
    latest: watch::Sender<Option<Arc<Sampled>>>,
    /// Time of the last request of any page. `None` before the first request.
    requested_at: Mutex<Option<Instant>>,
    /// Signal that wakes the task when a page is opened.
    opened: Notify,
}

#[derive(Debug)]
struct Sampled {
    at: Instant,
    state: Value,
}

impl Watcher {
    /// Starts the queries. `connector` opens the connections to the admin ports.
    pub(crate) fn begin(ports: AdminPorts, connector: Connector, own: OwnReport) -> Self {
        let shared = Arc::new(Shared {
            latest: watch::Sender::new(None),
            requested_at: Mutex::new(None),
            opened: Notify::new(),
        });
        let queries = Queries {
            path: ports.path().to_owned(),
            connector,
            running: JoinSet::new(),
            in_flight: BTreeMap::new(),
        };
        let connector = queries.connector.clone();
        let task = Running::begin(watch(ports.clone(), queries, own, shared.clone()));
        Self {
            shared,
            ports,
            connector,
            permits: Semaphore::new(VISITOR_QUERIES_MAX),
            _task: task,
        }
    }

    /// Returns the state of the ensemble with its age. Waits for a new state if the last one is old.
    pub(crate) async fn state(&self) -> Option<Value> {
        let now = Instant::now();
        let before = self.shared.requested_at.lock().replace(now);
        if before.is_none_or(|before| now - before > WATCHED_FOR) {
            self.shared.opened.notify_one();
        }
        let mut latest = self.shared.latest.subscribe();
        let is_fresh = |sampled: &Option<Arc<Sampled>>| {
            let sampled = sampled.as_ref();
            sampled.is_some_and(|sampled| now.duration_since(sampled.at) < STALE_AFTER)
        };
        // After a timeout, the page shows the age of the last state.
        let _ = timeout(MEMBER_REPORT_TIME, latest.wait_for(is_fresh)).await;
        let sampled = latest.borrow().clone()?;
        let mut state = sampled.state.clone();
        let age_ms = sampled.at.elapsed().as_millis();
        let age_ms = u64::try_from(age_ms).unwrap_or(u64::MAX);
        set(&mut state, "age", json!(age_ms));
        Some(state)
    }

    /// Returns another member's answer to a visitor's query.
    pub(crate) async fn ask(
        &self,
        sid: Sid,
        members: Option<&Membership>,
        command: &str,
        authorization: Option<&Secret>,
    ) -> Result<Value, QueryError> {
        let unknown = || QueryError::Refused(format!("server {sid} is not another member"));
        let others = self.ports.of_others(members);
        let port = others.get(&sid).ok_or_else(unknown)?;
        let closed = |_| QueryError::Refused("this server is stopping".to_owned());
        let _permit = self.permits.acquire().await.map_err(closed)?;
        let request = query::MemberRequest {
            path: &format!("{}/{command}", self.ports.path()),
            authorization: authorization.map(Secret::expose),
            bytes_max: VISITOR_ANSWER_BYTES_MAX,
        };
        query::ask(port, request, &self.connector).await
    }
}

impl Shared {
    fn pace(&self) -> Duration {
        let requested_at = *self.requested_at.lock();
        if requested_at.is_some_and(|at| at.elapsed() < WATCHED_FOR) {
            WATCHED_PACE
        } else {
            IDLE_PACE
        }
    }
}

async fn watch(ports: AdminPorts, mut queries: Queries, own: OwnReport, shared: Arc<Shared>) {
    let mut observed = Observed::default();
    loop {
        if let Some(own) = own().await {
            let others = ports.of_others(own.members.as_deref());
            let outcomes = queries.ask(&others, own.now_ms).await;
            let sampled = Sampled {
                at: Instant::now(),
                state: observed.note(&own, outcomes, &others),
            };
            shared.latest.send_replace(Some(Arc::new(sampled)));
        }
        tokio::select! {
            () = sleep(shared.pace()) => {}
            () = shared.opened.notified() => {}
        }
    }
}

/// Queries to the other members.
struct Queries {
    /// Path prefix of the commands.
    path: String,
    connector: Connector,
    running: JoinSet<Answered>,
    /// Queries that may not have ended.
    in_flight: BTreeMap<Sid, AbortHandle>,
}

/// Answer from a member.
struct Answered {
    sid: Sid,
    outcome: Outcome,
}

impl Queries {
    /// Queries all members concurrently, and returns a result for each. A member that does not
    /// answer within the time limit is unreachable. Its query continues, and the member is not
    /// queried again until the query has ended.
    async fn ask(
        &mut self,
        others: &BTreeMap<Sid, HostPort>,
        now_ms: i64,
    ) -> BTreeMap<Sid, Outcome> {
        let deadline = Instant::now() + MEMBER_REPORT_TIME;
        self.in_flight.retain(|_, query| !query.is_finished());
        for (sid, port) in others {
            if let Entry::Vacant(place) = self.in_flight.entry(*sid) {
                let query = Query {
                    sid: *sid,
                    port: port.clone(),
                    path: self.path.clone(),
                    connector: self.connector.clone(),
                    now_ms,
                };
                place.insert(self.running.spawn(query.run()));
            }
        }
        let mut outcomes = BTreeMap::new();
        while let Ok(Some(ended)) = timeout_at(deadline, self.running.join_next()).await {
            // A query task fails only if it panics or is cancelled together with this set.
            if let Ok(Answered { sid, outcome }) = ended {
                outcomes.insert(sid, outcome);
            }
        }
        outcomes.retain(|sid, _| others.contains_key(sid));
        for sid in others.keys() {
            let late = || Outcome::Unreachable("no answer in time".to_owned());
            outcomes.entry(*sid).or_insert_with(late);
        }
        outcomes
    }
}

/// Query to one member.
struct Query {
    sid: Sid,
    port: HostPort,
    path: String,
    connector: Connector,
    now_ms: i64,
}

impl Query {
    async fn run(self) -> Answered {
        Answered {
            sid: self.sid,
            outcome: self.outcome().await,
        }
    }

    async fn get(&self, command: &str) -> Result<Value, QueryError> {
        let path = format!("{}/{command}", self.path);
        query::get(&self.port, &path, &self.connector).await
    }

    async fn outcome(&self) -> Outcome {
        let report = match self.get(report::COMMAND).await {
            Ok(answer) => Report::from_json(&answer),
            Err(QueryError::Unreachable(reason)) => return Outcome::Unreachable(reason),
            Err(QueryError::Refused(reason)) if reason.starts_with("Unknown command") => {
                match self.get(FALLBACK).await {
                    Ok(answer) => Report::from_server_stats(self.sid, &answer, self.now_ms),
                    Err(QueryError::Refused(reason)) if reason.starts_with(NOT_SERVING) => {
                        Some(Report::looking(self.sid))
                    }
                    Err(QueryError::Refused(reason)) => return Outcome::Hidden(reason),
                    Err(QueryError::Unreachable(reason)) => return Outcome::Unreachable(reason),
                }
            }
            Err(QueryError::Refused(reason)) => return Outcome::Hidden(reason),
        };
        match report {
            Some(report) if report.member == Some(self.sid) => Outcome::Report(Box::new(report)),
            Some(report) => Outcome::Hidden(self.wrong_port(report.member)),
            None => Outcome::Hidden("the answer is not the report of a member".to_owned()),
        }
    }

    fn wrong_port(&self, found: Option<Sid>) -> String {
        let found = match found {
            Some(found) => format!("member {found}"),
            None => "a standalone server".to_owned(),
        };
        let Self { sid, port, .. } = self;
        format!("its expected admin port {port} belongs to {found}; set zoarium.admin.{sid}")
    }
}
