//! Lookups of the clients of changes at all members of an ensemble.
//!
//! A member records addresses and identities only of the clients that it serves. For
//! administrators, the commands therefore query all members. A server does not forward the
//! credentials of its caller to other members. The command itself sends the credentials to each
//! member, but only over connections that protect them.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use client::admin::{AdminClient, AdminError, CredentialRule, unreachable};
use history::ORIGINS_MAX;
use proto::Zxid;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::tool::parse_zxid;

/// Name of the admin server's command.
const ORIGINS: &str = "history/origins";
/// Time limit for all answers from a member to one lookup. The limit is longer in tests, because
/// the machine may be busy.
const ANSWER_LIMIT: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 4 });
/// Time that a member has to record a change that another member has recorded.
const LAG_LIMIT: Duration = Duration::from_secs(2);
/// Pause before a member that lags is queried again.
const LAG_PAUSE: Duration = Duration::from_millis(50);
/// Time during which a failed member is not queried again, and a lagging member is not waited for
/// again. A feed is therefore not slowed down to the pace of such a member.
const FAILURE_LASTS: Duration = Duration::from_secs(30);

/// Reason for a missing client if the caller may not see the client.
pub(crate) const HIDDEN: &str = "only administrators see the client of a change";

/// Members that are queried for the clients of changes.
#[derive(Debug)]
pub(crate) struct Origins {
    /// Client for the servers that the user named.
    named: AdminClient,
    /// All members; `None` before a query, and empty if the caller is not an administrator.
    members: Option<Vec<Member>>,
}

/// Address of the client that requested a change, and its identities.
type Origin = (String, Vec<String>);

/// A member, and the way to query it.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    /// Id of the member; `None` if the server is not in an ensemble or did not report its id.
    id: Option<i64>,
    pub(crate) client: AdminClient,
    failure: Option<Failure>,
    /// End of the time during which answers are used without waiting for changes that the member
    /// has not recorded.
    unawaited_until: Option<Instant>,
}

#[derive(Debug, Clone)]
struct Failure {
    reason: String,
    until: Instant,
    is_reported: bool,
}

/// Answer of a member.
#[derive(Debug, Default)]
struct Answer {
    known: HashMap<Zxid, Origin>,
    /// Last transaction that the member has recorded, if the member lags.
    lags_at: Option<Zxid>,
    /// Id of the queried server, and the other members.
    id: Option<i64>,
    others: Vec<(Option<i64>, String)>,
}

impl Origins {
    pub(crate) fn new(named: AdminClient) -> Self {
        let members = None;
        Self { named, members }
    }

    /// Returns the members that can be queried, or `None` if the caller is not an administrator.
    pub(crate) async fn members(&mut self) -> Option<&mut Vec<Member>> {
        if self.members.is_none() {
            self.query(&[]).await;
        }
        self.members.as_mut().filter(|members| !members.is_empty())
    }

    /// Adds the clients that other members know to the changes in an answer. `client_missing`
    /// contains the reason if a client is still missing.
    pub(crate) async fn complete(&mut self, changes: &mut [&mut Value]) {
        let zxid_of = |change: &Value| parse_zxid(change["zxid"].as_str()?).ok();
        let wanted = changes.iter().filter(|change| is_missing(change));
        let wanted: BTreeSet<Zxid> = wanted.filter_map(|change| zxid_of(change)).collect();
        let wanted: Vec<Zxid> = wanted.into_iter().collect();
        let is_hidden = |change: &&mut Value| change["session"].is_null();
        // The first query also determines which members do not answer.
        let is_needed = !wanted.is_empty() || self.members.is_none();
        let (known, reason) = if is_needed && !changes.iter().all(is_hidden) {
            self.query(&wanted).await
        } else {
            (HashMap::new(), String::new())
        };
        for change in changes {
            let found = zxid_of(change).and_then(|zxid| known.get(&zxid));
            if let Some((client, identities)) = found.filter(|_| is_missing(change)) {
                change["client"] = json!(client);
                change["identities"] = json!(identities);
            }
            mark(change, &reason);
        }
    }

    /// Returns the failures of members that have not been reported yet.
    pub(crate) fn new_failures(&mut self) -> Vec<String> {
        let members = self.members.iter_mut().flatten();
        let failed = members.filter_map(|member| {
            let text = member.failure_text()?;
            let failure = member.failure.as_mut()?;
            let is_new = !std::mem::replace(&mut failure.is_reported, true);
            is_new.then_some(text)
        });
        failed.collect()
    }

    /// Returns the members that could not be queried, as JSON.
    pub(crate) fn missing_members(&self) -> Value {
        let members = self.members.iter().flatten();
        let failed = members.filter_map(|member| {
            let failure = member.failure.as_ref()?;
            Some(json!({
                "member": member.id,
                "admin": member.address(),
                "reason": failure.reason,
            }))
        });
        failed.collect()
    }

    /// Queries members without a recent failure. Returns the known clients by zxid, and the reason
    /// why other clients are unknown.
    async fn query(&mut self, zxids: &[Zxid]) -> (HashMap<Zxid, Origin>, String) {
        let mut known = HashMap::new();
        let mut lagging = Vec::new();
        let mut answered = None;
        self.forget_failed_search();
        let members = match &mut self.members {
            Some(members) => members,
            None => {
                let (members, answer) = self.find_members(zxids).await;
                known.extend(answer.known);
                answered = Some(0);
                self.members.insert(members.unwrap_or_default())
            }
        };
        let mut queries = JoinSet::new();
        for (index, member) in members.iter().enumerate() {
            let is_silent = member.failure.as_ref().is_some_and(Failure::is_permanent);
            if Some(index) != answered && !is_silent {
                let (client, zxids) = (member.client.clone(), zxids.to_vec());
                let limit = member.lag_limit();
                queries.spawn(async move { (index, query_member(&client, &zxids, limit).await) });
            }
        }
        for (index, answer) in queries.join_all().await {
            let Some(member) = members.get_mut(index) else {
                continue;
            };
            match answer {
                Ok(answer) if member.id.is_some() && answer.id != member.id => {
                    member.note_other_server(answer.id);
                }
                Ok(answer) => {
                    member.failure = None;
                    known.extend(answer.known);
                    if let Some(head) = answer.lags_at {
                        member.unawaited_until = Some(Instant::now() + FAILURE_LASTS);
                        lagging.push(member.lag_text(head));
                    }
                }
                Err(error) => member.fail(&error),
            }
        }
        let failed = members.iter().filter_map(Member::failure_text);
        let reasons: Vec<String> = failed.chain(lagging).collect();
        let reason = match (reasons.is_empty(), members.len()) {
            (false, _) => reasons.join("; "),
            (true, 0 | 1) => "the server does not know the client".to_owned(),
            (true, _) => "no member knows the client".to_owned(),
        };
        (known, reason)
    }

    /// Forgets the members after a pause if none of the named servers has answered.
    fn forget_failed_search(&mut self) {
        let is_over = |member: &Member| {
            let failure = member.failure.as_ref();
            member.id.is_none() && failure.is_some_and(|failure| !failure.is_permanent())
        };
        let members = self.members.as_deref().unwrap_or_default();
        if !members.is_empty() && members.iter().all(is_over) {
            self.members = None;
        }
    }

    /// Queries the servers that the user named for the members of their ensemble. Returns `None`
    /// instead of the members if the caller is not an administrator. The first member is the server
    /// that answered. If no server answers, the members are these servers with their failures.
    async fn find_members(&self, zxids: &[Zxid]) -> (Option<Vec<Member>>, Answer) {
        let mut failed = Vec::new();
        for server in self.named.servers() {
            let mut member = Member::new(None, self.named.for_server(server));
            match query_member(&member.client, zxids, LAG_LIMIT).await {
                Ok(answer) => {
                    member.id = answer.id;
                    let rule = CredentialRule::for_members_of(server).await;
                    let others = answer.others.iter().map(|(id, address)| {
                        let client = self.named.for_server(address);
                        Member::new(*id, client.with_credential_rule(rule))
                    });
                    return (Some([member].into_iter().chain(others).collect()), answer);
                }
                Err(AdminError::Refused { status, .. }) if status.as_u16() == 403 => {
                    return (None, Answer::default());
                }
                Err(error) => {
                    member.fail(&error);
                    failed.push(member);
                }
            }
        }
        (Some(failed), Answer::default())
    }
}

impl Member {
    fn new(id: Option<i64>, client: AdminClient) -> Self {
        Self {
            id,
            client,
            failure: None,
            unawaited_until: None,
        }
    }

    /// Records the reason why a query to the member failed.
    pub(crate) fn fail(&mut self, error: &AdminError) {
        let reason = match error {
            AdminError::Unreachable { reason, .. } => format!("did not answer: {reason}"),
            AdminError::Unprotected { reason, .. } => format!("was not queried: {reason}"),
            AdminError::Refused { status, .. } if status.as_u16() == 404 => {
                "does not record a change history, or runs an older version".to_owned()
            }
            AdminError::Refused { text, .. } => format!("refused the query: {text}"),
            other => format!("did not answer: {other}"),
        };
        self.note_failure(reason);
    }

    /// Records that another server answers at the address. Without `zoarium.admin.N`, several
    /// members on one machine have the same address.
    fn note_other_server(&mut self, found: Option<i64>) {
        let found = found.map_or("another server".to_owned(), |id| format!("member {id}"));
        let key = self.id.map_or(String::new(), |id| id.to_string());
        self.note_failure(format!(
            "was not queried: {found} answers at this address (set zoarium.admin.{key})"
        ));
    }

    fn note_failure(&mut self, reason: String) {
        let reported = self.failure.as_ref();
        self.failure = Some(Failure {
            is_reported: reported.is_some_and(|failure| failure.is_reported),
            reason,
            until: Instant::now() + FAILURE_LASTS,
        });
    }

    /// Returns how long to wait for the member if it lags.
    fn lag_limit(&self) -> Duration {
        match self.unawaited_until {
            Some(until) if Instant::now() < until => Duration::ZERO,
            _ => LAG_LIMIT,
        }
    }

    /// Returns whether the last query was answered. Also returns true before the first query.
    pub(crate) fn answers(&self) -> bool {
        self.failure.is_none()
    }

    fn address(&self) -> &str {
        let address = self.client.servers().first();
        address.map_or("", |address| address.trim_end_matches("/commands"))
    }

    fn name(&self) -> String {
        let address = self.address();
        match self.id {
            Some(id) => format!("member {id} at {address}"),
            None => format!("the server at {address}"),
        }
    }

    fn failure_text(&self) -> Option<String> {
        let failure = self.failure.as_ref()?;
        Some(format!("{} {}", self.name(), failure.reason))
    }

    fn lag_text(&self, head: Zxid) -> String {
        format!(
            "{} has recorded changes only up to {:#x}",
            self.name(),
            head.0
        )
    }
}

impl Failure {
    fn is_permanent(&self) -> bool {
        Instant::now() < self.until
    }
}

/// Sets `client_missing` of a change to the reason why the client is unknown, or to null.
pub(crate) fn mark(change: &mut Value, reason: &str) {
    change["client_missing"] = if change["session"].is_null() {
        json!(HIDDEN)
    } else if is_missing(change) {
        json!(reason)
    } else {
        Value::Null
    };
}

/// Returns whether a change was made by this identity or from this host.
pub(crate) fn is_by(change: &Value, who: &str) -> bool {
    let identities = change["identities"].as_array().into_iter().flatten();
    let client = change["client"].as_str().unwrap_or_default();
    client.rsplit_once(':').is_some_and(|(host, _)| host == who)
        || identities
            .filter_map(Value::as_str)
            .any(|identity| identity == who)
}

/// Returns whether the client of a change is unknown. Changes by the server itself do not have a
/// client.
fn is_missing(change: &Value) -> bool {
    let is_of_session = change["session"]
        .as_str()
        .is_some_and(|session| session != "0x0");
    is_of_session && change["client"].as_str().is_none_or(str::is_empty)
}

/// Queries one member within a short time limit. Waits at most `lag_limit` until the member has
/// recorded the last of `zxids`.
async fn query_member(
    client: &AdminClient,
    zxids: &[Zxid],
    lag_limit: Duration,
) -> Result<Answer, AdminError> {
    in_time(client, query_in_parts(client, zxids, lag_limit)).await
}

async fn query_in_parts(
    client: &AdminClient,
    zxids: &[Zxid],
    lag_limit: Duration,
) -> Result<Answer, AdminError> {
    let lag_until = Instant::now() + lag_limit;
    let mut all = Answer::default();
    let mut left = zxids;
    loop {
        let (now, later) = left.split_at(left.len().min(ORIGINS_MAX));
        let parameters = now
            .iter()
            .map(|zxid| ("zxid".to_owned(), format!("{:#x}", zxid.0)));
        let parameters: Vec<(String, String)> = parameters.collect();
        let answer = client.ask(ORIGINS, &parameters).await?;
        let head = zxid_in(&answer["extent"]["head"]);
        let lags_at = head.filter(|head| now.last().is_some_and(|last| last > head));
        if lags_at.is_some() && Instant::now() < lag_until {
            sleep(LAG_PAUSE).await;
            continue;
        }
        all.lags_at = all.lags_at.or(lags_at);
        all.read(&answer);
        let next = zxid_in(&answer["next"]);
        let done = next.map_or(now.len(), |next| now.partition_point(|zxid| *zxid < next));
        left = match done {
            0 => later,
            _ => &left[done..],
        };
        if left.is_empty() {
            return Ok(all);
        }
    }
}

/// Queries one member within a short time limit.
pub(crate) async fn query_in_time(
    client: &AdminClient,
    command: &str,
    parameters: &[(String, String)],
) -> Result<Value, AdminError> {
    in_time(client, client.ask(command, parameters)).await
}

async fn in_time<T>(
    client: &AdminClient,
    answer: impl Future<Output = Result<T, AdminError>>,
) -> Result<T, AdminError> {
    timeout(ANSWER_LIMIT, answer).await.unwrap_or_else(|_| {
        let server = client.servers().first().map_or("", String::as_str);
        Err(unreachable(server, &"no answer in time"))
    })
}

impl Answer {
    fn read(&mut self, answer: &Value) {
        let list = |name: &str| answer[name].as_array().into_iter().flatten();
        for origin in list("results") {
            let identities = origin["identities"].as_array().into_iter().flatten();
            let identities = identities.filter_map(Value::as_str).map(str::to_owned);
            if let (Some(zxid), Some(client)) =
                (zxid_in(&origin["zxid"]), origin["client"].as_str())
            {
                let origin = (client.to_owned(), identities.collect());
                self.known.insert(zxid, origin);
            }
        }
        self.id = answer["member"].as_i64();
        let others = list("others").filter_map(|other| {
            Some((
                other["member"].as_i64(),
                other["admin"].as_str()?.to_owned(),
            ))
        });
        self.others = others.collect();
    }
}

fn zxid_in(value: &Value) -> Option<Zxid> {
    parse_zxid(value.as_str()?).ok()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    /// Returns a member at a port that accepts connections but does not answer.
    fn silent_member(id: i64) -> (std::net::TcpListener, Member) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = AdminClient::new([listener.local_addr().unwrap().to_string()]);
        (listener, Member::new(Some(id), client))
    }

    /// A member whose address belongs to member 1, as happens without `zoarium.admin.N` on one
    /// machine.
    #[tokio::test]
    async fn an_answer_of_another_member_is_not_taken_for_the_answer_of_a_member() {
        let (listener, second) = silent_member(2);
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut part = [0; 4096];
            assert!(stream.read(&mut part).unwrap() > 0);
            let answer = r#"{"member":1,"results":[],"next":null,"extent":{"head":"0x5"}}"#;
            let length = answer.len();
            let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length:";
            let answer = format!("{head} {length}\r\n\r\n{answer}");
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let mut origins = Origins {
            named: AdminClient::default(),
            members: Some(vec![second]),
        };
        let mut change = json!({ "zxid": "0x1", "session": "0x5", "client": "" });
        origins.complete(&mut [&mut change]).await;
        server.join().unwrap();
        let reason = change["client_missing"].as_str().unwrap();
        let expected = "was not queried: member 1 answers at this address (set zoarium.admin.2)";
        assert!(reason.ends_with(expected), "{reason}");
    }

    #[tokio::test(start_paused = true)]
    async fn members_that_do_not_answer_cost_one_time_limit_together() {
        let (_first, first) = silent_member(2);
        let (_second, second) = silent_member(3);
        let mut origins = Origins {
            named: AdminClient::default(),
            members: Some(vec![first, second]),
        };
        let mut change = json!({ "zxid": "0x1", "session": "0x5", "client": "" });
        let begin = Instant::now();
        origins.complete(&mut [&mut change]).await;
        assert!(
            begin.elapsed() < ANSWER_LIMIT + LAG_PAUSE,
            "{:?}",
            begin.elapsed()
        );
        let reason = change["client_missing"].as_str().unwrap();
        for id in [2, 3] {
            assert!(
                reason.contains(&format!("member {id} at 127.0.0.1:")),
                "{reason}"
            );
        }
        assert_eq!(
            reason.matches("did not answer: no answer in time").count(),
            2,
            "{reason}"
        );
        assert_eq!(origins.new_failures().len(), 2);
        // The members are not queried again for a while, and not reported again.
        let begin = Instant::now();
        origins.complete(&mut [&mut change]).await;
        assert_eq!(begin.elapsed(), Duration::ZERO);
        assert!(origins.new_failures().is_empty());
        assert_eq!(origins.missing_members().as_array().unwrap().len(), 2);
    }

    #[test]
    fn a_missing_client_has_a_reason_and_a_change_of_the_server_has_no_client() {
        for (session, client, reason) in [
            (json!("0x5"), json!(""), json!("why")),
            (json!("0x5"), json!("10.0.0.1:5"), Value::Null),
            (json!("0x0"), json!(""), Value::Null),
            (Value::Null, Value::Null, json!(HIDDEN)),
        ] {
            let mut change = json!({ "session": session, "client": client });
            mark(&mut change, "why");
            assert_eq!(change["client_missing"], reason, "{change}");
        }
    }
}
