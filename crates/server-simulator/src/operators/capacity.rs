//! Checks that the members have their whole capacity after the run.

use std::time::Duration;

use proto::Sid;
use tokio::time::{sleep, timeout};

use super::operator::{ANSWERS, Operator, PATIENCE};
use super::wire::http::{Connection, Fault, Request};
use crate::settings::ADMIN_PORT;

const FREE: &str = "permits of ended operators are free again";
const GONE: &str = "connections of ended operators are closed";

/// Number of feeds that a member sends at a time. Source: docs/LIMITS.md.
const FEEDS: usize = 32;
/// Number of requests that an admin port answers at a time. Source: docs/LIMITS.md.
const REQUESTS: usize = 64;
/// Number of attempts, one per second, after which all connections must be closed.
const ATTEMPTS: usize = 180;

/// Checks the connections of all members, and the permits of one of them.
pub(super) async fn check(operator: &mut Operator) {
    let members: Vec<Sid> = operator.world.listed_members();
    for member in members {
        are_closed(operator, member).await;
    }
    let member = operator.member();
    if operator.world.settings.operators.has_history {
        feeds(operator, member).await;
    }
    requests(operator, member).await;
}

/// Waits until the connections of clients and of the console are closed.
async fn are_closed(operator: &Operator, member: Sid) {
    let request = Request::new("GET", "/commands/server_stats");
    for attempt in 0.. {
        let Some(answer) = operator.ask(member, &request).await else {
            return;
        };
        let json = answer.json().unwrap_or_default();
        let open = &json["server_stats"]["num_alive_client_connections"];
        if open.as_u64() == Some(0) {
            return;
        }
        if attempt == ATTEMPTS {
            return operator.report(GONE, &request, &answer);
        }
        sleep(Duration::from_secs(1)).await;
    }
}

/// Opens feeds up to the limit of the member. The next feed must be refused.
async fn feeds(operator: &Operator, member: Sid) {
    let mut open = Vec::new();
    for number in 0..=FEEDS {
        let request = Request::new("GET", "/commands/history/feed?path=/z0");
        let opening = async {
            let mut connection = operator.connect(member, ADMIN_PORT).await?;
            connection.send(&request).await?;
            let head = connection.head().await?;
            Ok::<(Connection, bool), Fault>((connection, head.status == 200 && !head.is_json()))
        };
        match timeout(PATIENCE, opening).await {
            Ok(Ok((connection, is_feed))) => {
                if is_feed != (number < FEEDS) {
                    let text = format!("feed {number} at member {member}: {is_feed}");
                    operator.world.report(FREE, &text);
                }
                open.push(connection);
            }
            failed => {
                let text = format!("feed {number} at member {member}: {:?}", failed.err());
                return operator.world.report(ANSWERS, &text);
            }
        }
    }
}

/// Holds all but one of the slots for requests, and sends another request.
async fn requests(operator: &Operator, member: Sid) {
    let mut open = Vec::new();
    for _ in 1..REQUESTS {
        let Ok(mut connection) = operator.connect(member, ADMIN_PORT).await else {
            return operator
                .world
                .report(ANSWERS, &format!("{member} refuses a connection"));
        };
        // The slot is held until the body has arrived.
        let start = "POST /console/login HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{";
        let _ = connection.write(start.as_bytes()).await;
        open.push(connection);
    }
    sleep(Duration::from_millis(100)).await;
    let request = Request::new("GET", "/commands/ruok");
    if let Some(answer) = operator.ask(member, &request).await
        && answer.head.status != 200
    {
        operator.report(FREE, &request, &answer);
    }
}
