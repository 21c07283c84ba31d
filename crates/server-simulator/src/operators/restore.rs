//! Uploads of snapshots. Only a standalone server accepts them.
//!
//! During the run, all uploads are refused or incomplete, so they change nothing. The answers to
//! the clients show that. At the end, a snapshot of the server itself is restored.

use client::{Client, Create, Options};
use proto::Sid;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use super::operator::{Operator, PATIENCE};
use super::settings::Caller;
use super::wire::http::{Answer, Request};
use crate::clients::registers::path_of;
use crate::settings::{ADMIN_PORT, CLIENT_PORT, address_of};

const REFUSED: &str = "an upload that is not a snapshot is refused";
const RESTORED: &str = "a restored server has the znodes of the snapshot";

fn request(method: &'static str, target: &str) -> Request {
    let authorization = Caller::SuperUser.authorization().unwrap_or_default();
    Request::new(method, target).with("authorization", authorization)
}

/// Uploads wrong snapshots until the clients end.
pub(super) async fn run(mut operator: Operator) {
    let mut snapshot = Vec::new();
    while !operator.is_over() {
        operator.pause(6000).await;
        let member = operator.member();
        if snapshot.is_empty() || operator.random.percent(20) {
            let taken = operator
                .ask(member, &request("GET", "/commands/snapshot"))
                .await;
            snapshot = taken.filter(is_ok).map_or(snapshot, |taken| taken.body);
        }
        let mut upload = request("POST", "/commands/restore");
        upload.body = altered(&mut operator, &snapshot);
        if operator.random.percent(30) {
            interrupt(&mut operator, member, &upload).await;
        } else if let Some(answer) = operator.ask(member, &upload).await {
            let error = answer.json().is_some_and(|json| json["error"].is_string());
            let is_refused = match answer.head.status {
                // The server does not serve.
                200 => error,
                status => matches!(status, 429 | 500 | 503),
            };
            if !is_refused {
                operator.report(REFUSED, &upload, &answer);
            }
        }
    }
}

fn is_ok(answer: &Answer) -> bool {
    answer.head.status == 200
}

/// Returns bytes that are not a complete snapshot.
fn altered(operator: &mut Operator, snapshot: &[u8]) -> Vec<u8> {
    let random = &mut operator.random;
    let mut bytes = snapshot.to_vec();
    if bytes.is_empty() || random.percent(20) {
        return (0..random.below(2000)).map(|_| random.byte()).collect();
    }
    if random.percent(50) {
        bytes.truncate(random.below(bytes.len()));
    } else {
        let at = random.below(bytes.len());
        bytes[at] ^= 1 << random.below(8);
    }
    bytes
}

/// Ends the connection within an upload.
async fn interrupt(operator: &mut Operator, member: Sid, upload: &Request) {
    let Ok(mut connection) = operator.connect(member, ADMIN_PORT).await else {
        return;
    };
    let bytes = upload.bytes(connection.server);
    let some = operator.random.below(bytes.len());
    let _ = connection.write(&bytes[..some]).await;
    operator.pause(3000).await;
    if operator.random.percent(30) {
        // The server ends the connection when no more bytes arrive.
        let mut rest = Vec::new();
        let _ = timeout(PATIENCE, connection.stream.read_to_end(&mut rest)).await;
    }
}

/// Takes a snapshot, writes another znode, and restores the snapshot.
pub(super) async fn at_end(operator: &Operator) {
    if let Err(error) = restore(operator).await {
        operator.world.report(RESTORED, &error);
    }
}

async fn restore(operator: &Operator) -> Result<(), String> {
    let member = Sid(1);
    let before = znodes(operator).await?;
    let taken = operator
        .ask(member, &request("GET", "/commands/snapshot"))
        .await;
    let taken = taken.ok_or("no answer to the snapshot")?;
    if taken.head.status == 429 {
        return Ok(());
    }
    if !is_ok(&taken) {
        return Err(format!("{} {}", taken.head.status, taken.text()));
    }
    let client = connect().await?;
    let created = client.create("/later", "", &Create::persistent()).await;
    created.map_err(|error| error.to_string())?;
    let mut upload = request("POST", "/commands/restore");
    upload.body = taken.body;
    let answer = operator
        .ask(member, &upload)
        .await
        .ok_or("no answer to the restore")?;
    if answer.head.status == 429 {
        // An interval of minutes applies between two restores.
        return Ok(());
    }
    if !is_ok(&answer) {
        return Err(format!("{} {}", answer.head.status, answer.text()));
    }
    let after = znodes(operator).await?;
    if before != after {
        return Err(format!("{after:?} instead of {before:?}"));
    }
    let client = connect().await?;
    match client.exists("/later").await {
        Ok(None) => Ok(()),
        later => Err(format!("a later znode: {later:?}")),
    }
}

async fn connect() -> Result<Client, String> {
    let server = format!("{}:{CLIENT_PORT}", address_of(Sid(1)));
    let connected = Client::connect(Options::new(&server)).await;
    connected.map_err(|error| error.to_string())
}

/// Returns the data and the Stat of each znode of the clients.
async fn znodes(operator: &Operator) -> Result<Vec<String>, String> {
    let client = connect().await?;
    let mut found = Vec::new();
    for znode in 0..operator.world.settings.znodes {
        let read = client.get_data(&path_of(znode)).await;
        found.push(match read {
            Ok(read) => format!("{read:?}"),
            Err(error) if error.is_no_node() => String::new(),
            Err(error) => return Err(error.to_string()),
        });
    }
    Ok(found)
}
