//! Queries of the change history.

mod changes;
mod complete;
mod feed;

use std::sync::Arc;

use serde_json::Value;
use testkit::Random;

pub(super) use self::changes::Changes;
use self::changes::SAME;
pub(super) use self::complete::histories;
pub(super) use self::feed::follow;

use super::console::is_private;
use super::operator::{Operator, PRIVATE};
use super::settings::Caller;
use super::wire::http::{Answer, Request};

const STATUS: &str = "the history answers with a status that fits the query";
const PAGES: &str = "pages of the history are in order";
const ORIGIN: &str = "only administrators see the clients of changes";

/// Queries the history until the clients end.
pub(super) async fn run(mut operator: Operator, changes: Arc<Changes>) {
    while !operator.is_over() {
        operator.pause(3000).await;
        let random = &mut operator.random;
        let caller = random.pick(&[Caller::Anonymous, Caller::SuperUser]);
        let caller = caller.unwrap_or(Caller::SuperUser);
        let (mut target, is_valid) = draw(random);
        let member = operator.member();
        for _ in 0..4 {
            let mut request = Request::new("GET", target.clone());
            if let Some(authorization) = caller.authorization() {
                request = request.with("authorization", authorization);
            }
            let Some(answer) = operator.ask(member, &request).await else {
                break;
            };
            if !fits(answer.head.status, is_valid, caller) {
                operator.report(STATUS, &request, &answer);
            }
            if caller == Caller::Anonymous && is_private(&answer) {
                operator.report(PRIVATE, &request, &answer);
            }
            if let Err(error) = judge(&changes, &target, caller, &answer) {
                operator
                    .world
                    .report(error.0, &format!("{target}: {}", error.1));
            }
            let json = answer.json().unwrap_or_default();
            let next = json.get("next").and_then(Value::as_str);
            let Some(next) = next.filter(|_| !target.contains("after=")) else {
                break;
            };
            target = format!("{target}&after={next}");
        }
    }
}

/// Draws a query. Returns its target and whether its parameters are valid.
fn draw(random: &mut Random) -> (String, bool) {
    let path = random
        .pick(&["/", "/z0", "/z1", "/owned0", "/missing"])
        .unwrap_or("/");
    let at = random.range(0, 400);
    let limit = random.range(1, 50);
    let from = random.range(0, at + 1);
    let epoch = random.range(1, 4);
    let at = format!("{:#x}", (epoch << 32) + at);
    let from = format!("{:#x}", (epoch << 32) + from);
    let query = match random.below(14) {
        0 => format!("changes?path={path}&recursive=true&oldest_first=true&limit={limit}"),
        1 => format!("changes?path={path}&recursive=true&limit={limit}&diff=true"),
        2 => format!("changes?path={path}&since={from}&until={at}&op=set&op=create"),
        3 => format!("changes?path={path}&recursive=true&by=127.0.0.1&limit={limit}"),
        4 => format!("blame?path={path}&limit={limit}"),
        5 | 6 => format!("cat?path={path}&at={at}"),
        7 => format!("tree?path={path}&at={at}&limit={limit}"),
        8 => format!("diff?path={path}&from={from}&to={at}&limit={limit}"),
        9 => format!("origins?zxid={at}&zxid={from}"),
        10 => format!("export?path={path}&limit={limit}&since={from}"),
        11 => format!("changes?path={path}&recursive=true&until=2026-11-20T14:02:00Z"),
        12 => format!("tree?path={path}&at=1970-01-01T00:00:00Z"),
        _ => {
            let wrong = random.pick(&[
                "changes",
                "changes?path=z&limit=0",
                "changes?path=/&op=x",
                "cat?path=/z0",
                "cat?path=/z0&at=x",
                "tree?at=0x1&unknown=1",
                "origins?zxid=x",
                "feed?after=x",
                "export?diff=true",
                "blame?path=/z0&limit=-1",
            ]);
            let wrong = wrong.unwrap_or("changes");
            return (format!("/commands/history/{wrong}"), false);
        }
    };
    (format!("/commands/history/{query}"), true)
}

fn fits(status: u16, is_valid: bool, caller: Caller) -> bool {
    match status {
        // The member does not serve or has not loaded its data.
        200 | 503 => true,
        400 => !is_valid,
        // A path that the caller may not read, or a query for clients.
        403 => caller != Caller::SuperUser,
        404 | 410 => is_valid,
        _ => false,
    }
}

type Judged = Result<(), (&'static str, String)>;

/// Checks the results of an answer.
fn judge(changes: &Changes, target: &str, caller: Caller, answer: &Answer) -> Judged {
    let Some(json) = answer.json().filter(|_| answer.head.status == 200) else {
        return Ok(());
    };
    let Some(results) = json.get("results").and_then(Value::as_array) else {
        return Ok(());
    };
    if target.contains("/changes?") {
        let mut last = None;
        for change in results {
            let position = changes.add(change).map_err(|error| (SAME, error))?;
            let newest_first = !target.contains("oldest_first");
            let is_ordered = last.is_none_or(|last| (position < last) == newest_first);
            if !is_ordered || last == Some(position) {
                return Err((PAGES, format!("{position} after {last:?}")));
            }
            last = Some(position);
            let shows_client = !change["session"].is_null() || !change["client"].is_null();
            if caller == Caller::Anonymous && shows_client {
                return Err((ORIGIN, change.to_string()));
            }
        }
    }
    if target.contains("/cat?") && caller == Caller::SuperUser {
        for znode in results {
            let (path, at) = (&znode["path"], &json["at"]);
            let (path, at) = (
                path.as_str().unwrap_or_default(),
                at.as_str().unwrap_or_default(),
            );
            changes
                .add_moment(path, at, znode)
                .map_err(|error| (SAME, error))?;
        }
    }
    Ok(())
}
