//! Requests that read a znode, a page of its children, or a piece of its data.

mod children;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use proto::data::perms;
use proto::request::{PathRequest, PathWatchRequest};
use proto::response::{GetAclResponse, GetDataResponse, StatResponse};
use proto::{Acl, ErrorCode, OpCode, Stat};
use serde_json::{Value, json};

use super::ids::{SessionIds, is_session};
use super::said::{Refusal, found};
use super::session::{Fault, ZnodeSession};
use crate::answer::{Answer, Body};
use crate::limits::{DATA_BYTES_PIECE, DATA_BYTES_SHOWN};

pub(crate) use self::children::{ChildrenPage, Start, children};

/// Letters of permissions, as zkCli.sh writes them.
const LETTERS: [(i32, char); 5] = [
    (perms::CREATE, 'c'),
    (perms::DELETE, 'd'),
    (perms::READ, 'r'),
    (perms::WRITE, 'w'),
    (perms::ADMIN, 'a'),
];

fn path_only(path: &str) -> PathRequest {
    PathRequest {
        path: Some(path.into()),
    }
}

fn unwatched(path: &str) -> PathWatchRequest {
    PathWatchRequest {
        path: Some(path.into()),
        watch: false,
    }
}

/// Returns `None` if the request was refused because a permission is missing.
fn allowed<T>(read: Result<T, Fault>) -> Result<Option<T>, Fault> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(Fault::Refused(code)) if code.0 == ErrorCode::NoAuth.code() => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// Returns a znode: its Stat, and the data and ACL that this visitor may read.
pub(crate) async fn znode(
    session: &ZnodeSession,
    path: &str,
    ids: SessionIds,
) -> Result<Answer, Refusal> {
    let StatResponse { stat } = session.ask(OpCode::Exists, &unwatched(path)).await?;
    let data = allowed(
        session
            .ask::<GetDataResponse>(OpCode::GetData, &unwatched(path))
            .await,
    )?;
    let acl = allowed(
        session
            .ask::<GetAclResponse>(OpCode::GetAcl, &path_only(path))
            .await,
    )?;
    let stat = data.as_ref().map_or(stat, |read| read.stat);
    let may_read = data.is_some();
    let data = data.and_then(|read| read.data);
    let shown = data
        .as_ref()
        .map(|data| data.get(..DATA_BYTES_SHOWN).unwrap_or(data));
    Ok(found(&json!({
        "path": path,
        "stat": stat_json(&stat, ids),
        "may_read": may_read,
        "data": shown.map(|bytes| STANDARD.encode(bytes)),
        "data_is_cut": data.as_ref().is_some_and(|data| data.len() > DATA_BYTES_SHOWN),
        "acl": acl.map(|read| read.acl.iter().map(acl_json).collect::<Vec<_>>()),
    })))
}

/// Returns only the Stat, which shows whether the znode has changed.
pub(crate) async fn stat(
    session: &ZnodeSession,
    path: &str,
    ids: SessionIds,
) -> Result<Answer, Refusal> {
    let StatResponse { stat } = session.ask(OpCode::Exists, &unwatched(path)).await?;
    Ok(path_and_stat(path, &stat, ids))
}

pub(crate) fn path_and_stat(path: &str, stat: &Stat, ids: SessionIds) -> Answer {
    found(&json!({ "path": path, "stat": stat_json(stat, ids) }))
}

/// Returns a piece of the data that starts at `offset`, as raw bytes.
pub(crate) async fn data(
    session: &ZnodeSession,
    path: &str,
    offset: usize,
) -> Result<Answer, Refusal> {
    let read: GetDataResponse = session.ask(OpCode::GetData, &unwatched(path)).await?;
    let data = read.data.unwrap_or_default();
    let from = offset.min(data.len());
    let to = from.saturating_add(DATA_BYTES_PIECE).min(data.len());
    let piece = data.get(from..to).unwrap_or_default().to_vec();
    let body = Body::Bytes(Some("application/octet-stream"), piece);
    // The page compares the zxids, because pieces of two versions must not be combined.
    Ok(Answer::of(StatusCode::OK, body)
        .with_header("x-znode-mzxid", hex(read.stat.mzxid))
        .with_header("x-znode-length", data.len().to_string())
        .with_header("content-disposition", "attachment"))
}

pub(crate) fn hex(number: i64) -> String {
    format!("0x{number:x}")
}

/// Converts a Stat to JSON. Zxids and sessions are strings, because integers in JavaScript have
/// only 53 bits.
pub(crate) fn stat_json(stat: &Stat, ids: SessionIds) -> Value {
    json!({
        "czxid": hex(stat.czxid),
        "mzxid": hex(stat.mzxid),
        "pzxid": hex(stat.pzxid),
        "ctime": stat.ctime,
        "mtime": stat.mtime,
        "version": stat.version,
        "cversion": stat.cversion,
        "aversion": stat.aversion,
        "ephemeral_owner": ids.owner(stat.ephemeral_owner),
        "is_ephemeral": is_session(stat.ephemeral_owner),
        "data_length": stat.data_length,
        "num_children": stat.num_children,
    })
}

fn acl_json(acl: &Acl) -> Value {
    let letters = LETTERS.iter().filter(|(bit, _)| acl.perms & bit != 0);
    json!({
        "scheme": &*acl.id.scheme,
        "id": &*acl.id.id,
        "perms": letters.map(|(_, letter)| letter).collect::<String>(),
    })
}

/// Parses the letters of permissions. Returns `None` for an unknown letter.
pub(crate) fn perms_of(letters: &str) -> Option<i32> {
    letters.chars().try_fold(0, |bits, letter| {
        let found = LETTERS.iter().find(|(_, known)| *known == letter)?;
        Some(bits | found.0)
    })
}
