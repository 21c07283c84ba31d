//! Requests that change znodes: create, set, delete, set the ACL. They require an identity.

use bytes::Bytes;
use http::StatusCode;
use proto::data::perms;
use proto::request::{CreateRequest, PathVersionRequest, SetAclRequest, SetDataRequest, flags};
use proto::response::{Create2Response, StatResponse};
use proto::{Acl, OpCode, multi};
use serde_json::{Value, json};

use super::ids::SessionIds;
use super::said::{Refusal, found};
use super::session::ZnodeSession;
use super::shown::{perms_of, stat_json};
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
    Ok(found(
        &json!({ "path": path, "stat": stat_json(&stat, ids) }),
    ))
}

/// Creates a znode. It cannot be ephemeral, because its session is closed soon.
pub(crate) async fn create(
    session: &ZnodeSession,
    path: &str,
    (kind, acl): (&str, &str),
    data: Bytes,
    ids: SessionIds,
) -> Result<Answer, Refusal> {
    let (op, flags) = match kind {
        "persistent" => (OpCode::Create2, flags::PERSISTENT),
        "sequential" => (OpCode::Create2, flags::PERSISTENT_SEQUENTIAL),
        "container" => (OpCode::CreateContainer, flags::CONTAINER),
        _ => return Err(wrong("`kind` must be persistent, sequential or container")),
    };
    let acl = match acl {
        "open" => vec![Acl::open()],
        "creator" => vec![Acl::new(perms::ALL, "auth", "")],
        "creator-and-readers" => vec![
            Acl::new(perms::ALL, "auth", ""),
            Acl::new(perms::READ, "world", "anyone"),
        ],
        _ => return Err(wrong("`acl` must be open, creator or creator-and-readers")),
    };
    let record = CreateRequest {
        path: Some(path.into()),
        data: Some(data),
        acl: multi::request_acl(acl),
        flags,
    };
    let made: Create2Response = session.ask(op, &record).await?;
    Ok(found(
        &json!({ "path": &*made.path, "stat": stat_json(&made.stat, ids) }),
    ))
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

/// Sets the ACL of a znode if the znode has this aversion.
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
    Ok(found(
        &json!({ "path": path, "stat": stat_json(&stat, ids) }),
    ))
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
