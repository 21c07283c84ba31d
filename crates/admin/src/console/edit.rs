//! Requests that change znodes: create, set, delete, set the ACL. They require an identity.

use bytes::Bytes;
use http::StatusCode;
use jute::Encode;
use proto::data::perms;
use proto::request::{CreateRequest, PathVersionRequest, SetAclRequest, SetDataRequest, flags};
use proto::response::{Create2Response, StatResponse};
use proto::{Acl, OpCode, multi};
use serde_json::{Value, json};

use super::ids::SessionIds;
use super::said::{Refusal, found};
use super::session::{ZnodeSession, decode};
use super::shown::{path_and_stat, perms_of};
use crate::answer::Answer;

/// Sets the data of a znode if the znode has this version.
pub(crate) async fn set_data(
    session: &ZnodeSession,
    path: &str,
    version: i32,
    data: Bytes,
    ids: SessionIds,
) -> Result<Answer, Refusal> {
    let record = SetDataRequest {
        path: Some(path.into()),
        data: Some(data),
        version,
    };
    let StatResponse { stat } = session.ask(OpCode::SetData, &record).await?;
    Ok(path_and_stat(path, &stat, ids))
}

/// Properties of a znode to create, as the page sends them.
pub(crate) struct NewZnode<'a> {
    pub(crate) kind: &'a str,
    /// Time to live in ms, as text. Required for the kinds with a TTL.
    pub(crate) ttl: Option<&'a str>,
    /// Name of a common ACL, or an ACL as JSON.
    pub(crate) acl: &'a str,
    /// Data of the znode. `None` if it is null.
    pub(crate) data: Option<Bytes>,
}

/// Reason for the refusal of an unknown kind, or of a `ttl` that does not suit the kind.
const UNKNOWN_KIND: &str = "`kind` must be persistent, sequential or container without a `ttl`, or ttl or ttl-sequential with a `ttl`; the console cannot create ephemeral znodes, because they would be deleted together with the session of the page";

/// Creates a znode.
pub(crate) async fn create(
    session: &ZnodeSession,
    path: &str,
    new: NewZnode<'_>,
    ids: SessionIds,
) -> Result<Answer, Refusal> {
    let ttl_ms = new.ttl.map(str::parse).transpose();
    let ttl_ms = ttl_ms.map_err(|_| wrong("`ttl` is not a number of milliseconds"))?;
    let (op, flags) = match (new.kind, ttl_ms) {
        ("persistent", None) => (OpCode::Create2, flags::PERSISTENT),
        ("sequential", None) => (OpCode::Create2, flags::PERSISTENT_SEQUENTIAL),
        ("container", None) => (OpCode::CreateContainer, flags::CONTAINER),
        ("ttl", Some(_)) => (OpCode::CreateTtl, flags::TTL),
        ("ttl-sequential", Some(_)) => (OpCode::CreateTtl, flags::TTL_SEQUENTIAL),
        _ => return Err(wrong(UNKNOWN_KIND)),
    };
    let acl = match new.acl {
        "open" => vec![Acl::open()],
        "creator" => vec![Acl::new(perms::ALL, "auth", "")],
        "creator-and-readers" => vec![
            Acl::new(perms::ALL, "auth", ""),
            Acl::new(perms::READ, "world", "anyone"),
        ],
        list if list.starts_with('[') => read_acl(list.as_bytes())?,
        _ => return Err(wrong("`acl` is neither a known name nor an array")),
    };
    let request = CreateRequest {
        path: Some(path.into()),
        data: new.data,
        acl: multi::request_acl(acl),
        flags,
    };
    let mut record = request.to_bytes().to_vec();
    if let Some(ttl_ms) = ttl_ms {
        i64::encode(&ttl_ms, &mut record);
    }
    let made: Create2Response = decode(session.call(op, record.into()).await?)?;
    Ok(path_and_stat(&made.path, &made.stat, ids))
}

/// Deletes a childless znode if the znode has this version.
pub(crate) async fn delete(
    session: &ZnodeSession,
    path: &str,
    version: i32,
) -> Result<Answer, Refusal> {
    let record = PathVersionRequest {
        path: Some(path.into()),
        version,
    };
    session.order(OpCode::Delete, &record).await?;
    Ok(found(&json!({ "path": path })))
}

/// Sets the ACL of a znode if the ACL has this version.
pub(crate) async fn set_acl(
    session: &ZnodeSession,
    path: &str,
    version: i32,
    body: &[u8],
    ids: SessionIds,
) -> Result<Answer, Refusal> {
    let record = SetAclRequest {
        path: Some(path.into()),
        acl: multi::request_acl(read_acl(body)?),
        version,
    };
    let StatResponse { stat } = session.ask(OpCode::SetAcl, &record).await?;
    Ok(path_and_stat(path, &stat, ids))
}

fn read_acl(body: &[u8]) -> Result<Vec<Acl>, Refusal> {
    let entries: Vec<Value> = serde_json::from_slice(body)
        .map_err(|_| wrong("an ACL must be an array of {scheme, id, perms}"))?;
    let read = entries.iter().map(|entry| {
        let text = |name: &str| entry.get(name).and_then(Value::as_str);
        let perms = text("perms").and_then(perms_of)?;
        Some(Acl::new(perms, text("scheme")?, text("id")?))
    });
    let read: Option<Vec<Acl>> = read.collect();
    read.ok_or_else(|| {
        wrong(
            "each entry of the ACL must contain scheme, id and perms; perms may contain only the letters cdrwa",
        )
    })
}

pub(crate) fn wrong(text: &str) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, "BadArguments", text)
}
