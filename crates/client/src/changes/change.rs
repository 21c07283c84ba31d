//! Change of a znode.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use proto::position::Position;
use proto::{SessionId, Zxid};
use serde_json::Value;

/// Data that a change has set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeData {
    /// The change did not set data, or it set null.
    None,
    /// Bytes that the change set.
    Bytes(Bytes),
    /// Number of bytes of data that the history does not keep or the reader may not see.
    Omitted(u64),
}

/// One change of one znode: the committed operation, and its origin as far as the member knows it.
#[derive(Debug, Clone)]
pub struct Change {
    position: Position,
    value: Value,
    line: Bytes,
}

impl Change {
    pub(super) fn new(value: Value, line: Bytes) -> Result<Self, String> {
        let text = |name: &str| {
            let found = value[name].as_str();
            found.ok_or_else(|| format!("the server sent a change without {name:?}"))
        };
        text("path")?;
        text("operation")?;
        let position = Position::parse(text("position")?)?;
        Ok(Self {
            position,
            value,
            line,
        })
    }

    fn text(&self, name: &str) -> &str {
        self.value[name].as_str().unwrap_or_default()
    }

    /// Returns the position in the order of all changes. It is equal on all members.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Returns the zxid of the transaction.
    pub fn zxid(&self) -> Zxid {
        self.position.zxid
    }

    /// Returns the path of the znode.
    pub fn path(&self) -> &str {
        self.text("path")
    }

    /// Returns the operation: `create`, `set`, `setAcl`, `delete`, `deleteByServer`, `closeSession`
    /// or `reconfig`.
    pub fn operation(&self) -> &str {
        self.text("operation")
    }

    /// Returns the time of the change by the leader's clock, in ms since 1970.
    pub fn time_ms(&self) -> i64 {
        self.value["time_ms"].as_i64().unwrap_or(0)
    }

    /// Returns whether the server hides the origin (session, client and identities). Administrators
    /// always see the origin.
    pub fn is_origin_hidden(&self) -> bool {
        self.value["session"].is_null()
    }

    /// Returns the session that requested the change. The id is 0 for the server itself and for a
    /// hidden origin.
    pub fn session(&self) -> SessionId {
        let digits = self.text("session").trim_start_matches("0x");
        SessionId(u64::from_str_radix(digits, 16).map_or(0, u64::cast_signed))
    }

    /// Returns the address of the client. It is empty if the origin is hidden, or if the member
    /// that sent the change did not serve the session.
    pub fn client(&self) -> &str {
        self.text("client")
    }

    /// Returns the identities of the session, as `scheme:id`. There are none if the
    /// [address](Self::client) is empty.
    pub fn identities(&self) -> impl Iterator<Item = &str> {
        let found = self.value["identities"].as_array();
        found.into_iter().flatten().filter_map(Value::as_str)
    }

    /// Returns the version of the data after the change.
    pub fn version(&self) -> i32 {
        let version = self.value["version"].as_i64();
        version
            .and_then(|version| i32::try_from(version).ok())
            .unwrap_or(0)
    }

    /// Returns the data that the change has set.
    pub fn data(&self) -> ChangeData {
        let data = &self.value["data"];
        let bytes = data["base64"].as_str().map(|text| BASE64.decode(text));
        match bytes {
            Some(Ok(bytes)) => ChangeData::Bytes(bytes.into()),
            _ if data.is_null() => ChangeData::None,
            _ => ChangeData::Omitted(data["size"].as_u64().unwrap_or(0)),
        }
    }

    /// Returns all fields that the server sent. docs/HISTORY.md lists their names.
    pub fn json(&self) -> &Value {
        &self.value
    }

    /// Returns the line that the server sent: a JSON object and a line feed.
    pub fn line(&self) -> &[u8] {
        &self.line
    }
}
