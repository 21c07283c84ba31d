//! Invariants of the interfaces for operators at the end of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use client::Create;
use proto::position::Position;
use proto::{Sid, Zxid};
use serde_json::Value;
use testkit::linearizability::znode::{Answer, Question};
use tokio::time::sleep;

use super::changes::Changes;
use super::changes::SAME;
use crate::checks::LIVENESS;
use crate::clients::connect;
use crate::clients::registers::path_of;
use crate::operators::operator::Operator;
use crate::operators::settings::Caller;
use crate::operators::wire::base64;
use crate::operators::wire::http::Request;

const COMPLETE: &str = "the history contains each acknowledged write";
const FEEDS: &str = "a feed delivers all committed changes";
const RECORDED: &str = "the history follows the transactions";

/// Number of attempts, one per second, until the history of a member must be complete.
const ATTEMPTS: usize = 300;

/// History of a member.
struct History {
    member: Sid,
    /// Ranges of transactions that the member knows: after the first and up to the second.
    known: Vec<(Zxid, Zxid)>,
    changes: BTreeSet<Position>,
}

/// Checks the histories of all members, and the feeds.
pub(crate) async fn histories(operator: &mut Operator, changes: &Changes) {
    // An epoch may have begun without a transaction. Only some members then record its first zxid.
    let world = operator.world.clone();
    let is_written = match connect(&world, &mut operator.random).await {
        Some(client) => client
            .create("/end", "", &Create::persistent())
            .await
            .is_ok(),
        None => false,
    };
    if !is_written {
        return world.report(LIVENESS, "no write after the faults");
    }
    let members: Vec<Sid> = operator.world.listed_members();
    let mut heads = BTreeMap::new();
    for _ in 0..ATTEMPTS {
        heads.clear();
        for member in &members {
            let page = page(operator, *member, "limit=1").await;
            heads.insert(*member, page.as_ref().and_then(head));
        }
        let distinct: BTreeSet<_> = heads.values().collect();
        if distinct.len() == 1 && !distinct.contains(&None) {
            break;
        }
        sleep(Duration::from_secs(1)).await;
    }
    let distinct: BTreeSet<_> = heads.values().collect();
    if distinct.len() != 1 || distinct.contains(&None) {
        return operator.world.report(RECORDED, &format!("{heads:?}"));
    }
    let mut histories = Vec::new();
    for member in members {
        match history(operator, member, changes).await {
            Ok(history) => histories.push(history),
            Err(error) => return operator.world.report(SAME, &format!("{member}: {error}")),
        }
    }
    if let Err(error) = are_equal(&histories, changes) {
        operator.world.report(SAME, &error);
    }
    if let Err(error) = changes.check_feeds() {
        operator.world.report(FEEDS, &error);
    }
    if histories
        .iter()
        .any(|history| history.known.len() == 1 && history.known[0].0 == Zxid(0))
    {
        are_complete(operator, changes);
    }
}

async fn page(operator: &Operator, member: Sid, query: &str) -> Option<Value> {
    let target = format!("/commands/history/changes?path=/&recursive=true&{query}");
    let authorization = Caller::SuperUser.authorization().unwrap_or_default();
    let request = Request::new("GET", target).with("authorization", authorization);
    let answer = operator.ask(member, &request).await?;
    let json = answer.json().filter(|json| json.get("results").is_some());
    if json.is_none() && answer.head.status != 503 {
        operator.report(RECORDED, &request, &answer);
    }
    json
}

fn zxid(value: &Value) -> Option<Zxid> {
    proto::position::parse_zxid(value.as_str()?).ok()
}

fn head(page: &Value) -> Option<Zxid> {
    zxid(&page["extent"]["head"])
}

/// Reads the whole history of a member.
async fn history(operator: &Operator, member: Sid, changes: &Changes) -> Result<History, String> {
    let mut found = BTreeSet::new();
    let mut query = "oldest_first=true&limit=1000".to_owned();
    loop {
        let page = page(operator, member, &query).await.ok_or("no answer")?;
        for change in page["results"].as_array().into_iter().flatten() {
            let position = changes.add(change)?;
            if found.last().is_some_and(|last| *last >= position) {
                return Err(format!("{position} after {:?}", found.last()));
            }
            found.insert(position);
        }
        match page["next"].as_str() {
            Some(next) => query = format!("oldest_first=true&limit=1000&after={next}"),
            None => {
                return Ok(History {
                    member,
                    known: known(&page["extent"]).ok_or("the extent is malformed")?,
                    changes: found,
                });
            }
        }
    }
}

/// Returns the ranges between the holes.
fn known(extent: &Value) -> Option<Vec<(Zxid, Zxid)>> {
    let mut ranges = Vec::new();
    let mut from = zxid(&extent["recorded_after"])?;
    for hole in extent["holes"].as_array()? {
        ranges.push((from, zxid(&hole["after"])?));
        from = zxid(&hole["recorded_after"])?;
    }
    ranges.push((from, head(&serde_json::json!({ "extent": extent }))?));
    Some(ranges)
}

/// Checks that each member has all changes in the ranges that it knows.
fn are_equal(histories: &[History], changes: &Changes) -> Result<(), String> {
    let all = changes.all();
    for history in histories {
        for (position, change) in &all {
            let zxid = position.zxid;
            let is_known = |(from, to): &(Zxid, Zxid)| zxid > *from && zxid <= *to;
            if history.known.iter().any(is_known) && !history.changes.contains(position) {
                let (member, known) = (history.member, &history.known);
                return Err(format!(
                    "{member} with {known:?} lacks {position}: {change}"
                ));
            }
        }
    }
    Ok(())
}

/// Checks that the history contains each acknowledged write of the clients, and no write that no
/// client has sent.
fn are_complete(operator: &Operator, changes: &Changes) {
    let mut written: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    let mut deleted: BTreeMap<String, usize> = BTreeMap::new();
    for (_, change) in changes.all() {
        let path = change["path"].as_str().unwrap_or_default().to_owned();
        match change["operation"].as_str() {
            Some("delete") => *deleted.entry(path).or_default() += 1,
            Some("create" | "set") => {
                let data = change["data"]["base64"].as_str().unwrap_or_default();
                let values = written.entry(path).or_default();
                *values.entry(data.to_owned()).or_default() += 1;
            }
            _ => {}
        }
    }
    for (znode, calls) in operator.world.calls.iter().enumerate() {
        let path = path_of(znode);
        let values = written.remove(&path).unwrap_or_default();
        let mut deletes = 0;
        for call in calls.lock().iter() {
            let answer = call.answer.as_ref().map(|(answer, _)| answer);
            let is_done = matches!(answer, Some(Answer::Done | Answer::Version(_)));
            let value = match call.question {
                Question::Create(value) | Question::Set { value, .. } => value,
                Question::Delete { .. } => {
                    deletes += usize::from(is_done);
                    continue;
                }
                _ => continue,
            };
            let count = values.get(&base64::encode(value.to_string().as_bytes()));
            let count = count.copied().unwrap_or_default();
            // An unanswered write may have been executed.
            let fits = match answer {
                None => count <= 1,
                Some(_) => count == usize::from(is_done),
            };
            if !fits {
                let text = format!("{path}: {count} changes of {call:?}");
                operator.world.report(COMPLETE, &text);
            }
        }
        let recorded = deleted.get(&path).copied().unwrap_or_default();
        if recorded < deletes {
            let text = format!("{path}: {recorded} of {deletes} deletes");
            operator.world.report(COMPLETE, &text);
        }
    }
}
