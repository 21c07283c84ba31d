//! Clients that try to read and change protected znodes.

use std::sync::Arc;
use std::time::Duration;

use client::{Acl, Client, Create, Error, ErrorCode, MultiOp, MultiRead, MultiReadResult, Session};
use testkit::Random;
use tokio::time::timeout;

use super::vault::{PATH, Victim};
use crate::clients::registers::path_of;
use crate::world::World;

const REFUSED: &str = "a client without permission is refused";
const ADMITTED: &str = "a client without valid credentials cannot connect";
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn visit(world: Arc<World>, victim: Victim, mut random: Random) {
    let security = world.security();
    let mut intruder = security.intruder(&mut random);
    let mut options = intruder.options.with_seed(random.any());
    let session = *victim.lock();
    if let Some(id) = session.filter(|_| random.percent(20)) {
        intruder.name = "the session of another client";
        intruder.is_refused = true;
        let password = (0..16).map(|_| random.byte()).collect::<Vec<u8>>().into();
        options = options.with_session(Session { id, password });
    }
    let name = intruder.name;
    let connecting = timeout(PATIENCE, Client::connect(options));
    let Ok(Ok(client)) = connecting.await else {
        return;
    };
    if intruder.is_refused {
        return world.report(ADMITTED, name);
    }
    let visiting = async {
        if let Some(digest) = intruder.digest {
            let _ = client.add_auth("digest", digest).await;
        }
        for _ in 0..=random.below(4) {
            if !security.is_protected() {
                break;
            }
            let path = if random.percent(60) {
                PATH.to_owned()
            } else {
                path_of(random.below(world.settings.znodes))
            };
            let request = random.below(REQUESTS.len());
            let outcome = attempt(&client, REQUESTS[request], &path).await;
            let request = REQUESTS[request];
            if intruder.is_reader
                && path == PATH
                && READS.contains(&request)
                && matches!(outcome, Ok(0))
            {
                continue;
            }
            judge(&world, &format!("{name}: {request} {path}"), outcome);
        }
        let _ = client.close().await;
    };
    // Without a server, requests wait.
    let _ = timeout(PATIENCE, visiting).await;
}

/// Requests that need the permission to read.
const READS: [&str; 4] = ["getData", "getChildren", "multi read", "getACL"];
const REQUESTS: [&str; 8] = [
    "getData",
    "setData",
    "getChildren",
    "setACL",
    "create",
    "multi",
    "multi read",
    "getACL",
];

/// Sends a request. Returns its error code, or 0.
async fn attempt(client: &Client, request: &str, path: &str) -> client::Result<i32> {
    let outcome = match request {
        "getData" => client.get_data(path).await.map(drop),
        "setData" => client.set_data(path, "of an intruder", -1).await.map(drop),
        "getChildren" => client.get_children(path).await.map(drop),
        "setACL" => client.set_acl(path, vec![Acl::open()], -1).await.map(drop),
        "create" => {
            let child = format!("{path}/child");
            let create = Create::persistent();
            client.create(&child, "", &create).await.map(drop)
        }
        "multi" => {
            let set = MultiOp::set_data(path, "of an intruder", -1);
            client.multi(&[set]).await.map(drop)
        }
        "multi read" => {
            let results = client.multi_read(&[MultiRead::Data(path)]).await?;
            if let Some(MultiReadResult::Failed(code)) = results.first() {
                return Ok(*code);
            }
            Ok(())
        }
        _ => client.get_acl(path).await.map(drop),
    };
    match outcome {
        Err(Error::Op { code, .. } | Error::Multi { code, .. }) => Ok(code),
        other => other.map(|()| 0),
    }
}

/// Checks that the server refused the request for a permitted reason.
fn judge(world: &World, request: &str, outcome: client::Result<i32>) {
    // Without a code, the connection has ended or the server has stopped.
    let Ok(code) = outcome else {
        return;
    };
    let permitted = [
        ErrorCode::NoNode,
        ErrorCode::NoAuth,
        ErrorCode::AuthFailed,
        ErrorCode::SessionClosedRequireSaslAuth,
    ];
    if !permitted.iter().any(|reason| *reason as i32 == code) {
        world.report(REFUSED, &format!("{request}: code {code}"));
    }
}
