//! Reading of the present state of the subtree.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use client::{Client, Error};
use history::record::Kind;
use history::{kind_of_owner, parse_zxid};
use proto::{Acl, ErrorCode, Stat};
use serde_json::Value;

use crate::tool::ToolError;

/// Present state of a znode.
#[derive(Debug, Clone)]
pub(super) struct CurrentZnode {
    pub(super) data: Option<Bytes>,
    pub(super) acl: Vec<Acl>,
    pub(super) stat: Stat,
    /// Kind of the znode. A Stat only identifies ephemeral znodes, so the other kinds come from the
    /// history.
    pub(super) kind: Kind,
    pub(super) ttl_ms: i64,
}

/// Containers and TTL znodes in the history, by path. Each value contains the zxid of the creation,
/// the kind, and the TTL in ms.
#[derive(Debug, Default)]
pub(super) struct Kinds(HashMap<String, (i64, Kind, i64)>);

impl Kinds {
    /// Adds a znode from an answer if it is a container or a TTL znode.
    pub(super) fn take(&mut self, znode: &Value) {
        let kind = Kind::from_str_name(znode["kind"].as_str().unwrap_or_default());
        let czxid = znode["czxid"]
            .as_str()
            .and_then(|czxid| parse_zxid(czxid).ok());
        let ttl_ms = znode["ttl_ms"].as_i64().unwrap_or_default();
        if let (Some(path), Some(czxid), Some(kind)) = (znode["path"].as_str(), czxid, kind)
            && matches!(kind, Kind::Container | Kind::Ttl)
        {
            self.0.insert(path.to_owned(), (czxid.0, kind, ttl_ms));
        }
    }

    fn of(&self, path: &str, stat: &Stat) -> (Kind, i64) {
        if stat.ephemeral_owner != 0 {
            let (kind, _, ttl_ms) = kind_of_owner(stat.ephemeral_owner);
            return (kind, ttl_ms);
        }
        let known = self.0.get(path).filter(|(czxid, ..)| *czxid == stat.czxid);
        known.map_or((Kind::Persistent, 0), |(_, kind, ttl_ms)| (*kind, *ttl_ms))
    }
}

/// Returns all znodes in a subtree by their paths. Omits a znode that is deleted during the read.
pub(super) async fn read(
    client: &Client,
    path: &str,
    kinds: &Kinds,
) -> Result<BTreeMap<String, CurrentZnode>, ToolError> {
    let mut found = BTreeMap::new();
    let mut left = vec![path.to_owned()];
    while let Some(path) = left.pop() {
        let Some((current, children)) = none_if_missing(read_one(client, &path, kinds).await)?
        else {
            continue;
        };
        let below = if path == "/" { "" } else { &path };
        left.extend(children.iter().map(|name| format!("{below}/{name}")));
        found.insert(path, current);
    }
    Ok(found)
}

async fn read_one(
    client: &Client,
    path: &str,
    kinds: &Kinds,
) -> Result<(CurrentZnode, Vec<jute::Str>), Error> {
    let (data, stat) = client.get_data(path).await?;
    let (acl, _) = client.get_acl(path).await?;
    let children = client.get_children(path).await?;
    let (kind, ttl_ms) = kinds.of(path, &stat);
    let current = CurrentZnode {
        data,
        acl,
        stat,
        kind,
        ttl_ms,
    };
    Ok((current, children))
}

fn none_if_missing<T>(read: Result<T, Error>) -> Result<Option<T>, ToolError> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(None),
        Err(other) => Err(other.into()),
    }
}
