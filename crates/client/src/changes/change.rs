//! One change of one znode.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use proto::position::Position;
use proto::{SessionId, Zxid};
use serde_json::Value;

/// The data that a change has set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeData {
    /// None was set, or null.
    None,
    /// These bytes.
    Bytes(Bytes),
    /// So many bytes, which the history does not keep or the asker may not see.
    Omitted(u64),
}

/// One change of one znode: what was committed, and what the member knows of who asked for it.
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
            found.ok_or_else(|| format!("sends a change without {name:?}"))
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

    /// Its place in the order of all changes, the same on all members.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The transaction.
    pub fn zxid(&self) -> Zxid {
        self.position.zxid
    }

    /// The znode.
    pub fn path(&self) -> &str {
        self.text("path")
    }

    /// What was done: `create`, `set`, `setAcl`, `delete`, `deleteByServer`, `closeSession`, `reconfig`.
    pub fn operation(&self) -> &str {
        self.text("operation")
    }

    /// The leader's clock, ms since 1970.
    pub fn time_ms(&self) -> i64 {
        self.value["time_ms"].as_i64().unwrap_or(0)
    }

    /// Whether the server hides the origin: session, client and identities. Administrators see it.
    pub fn is_origin_hidden(&self) -> bool {
        self.value["session"].is_null()
    }

    /// The session that asked for it, 0 for the server itself and for a hidden origin.
    pub fn session(&self) -> SessionId {
        let digits = self.text("session").trim_start_matches("0x");
        SessionId(u64::from_str_radix(digits, 16).map_or(0, u64::cast_signed))
    }

    /// Where the session came from; empty where the member did not serve it.
    pub fn client(&self) -> &str {
        self.text("client")
    }

    /// What the session had proved, `scheme:id`; known like the address.
    pub fn identities(&self) -> impl Iterator<Item = &str> {
        let found = self.value["identities"].as_array();
        found.into_iter().flatten().filter_map(Value::as_str)
    }

    /// The version of the data after it.
    pub fn version(&self) -> i32 {
        let version = self.value["version"].as_i64();
        version
            .and_then(|version| i32::try_from(version).ok())
            .unwrap_or(0)
    }

    /// The data that it has set.
    pub fn data(&self) -> ChangeData {
        let data = &self.value["data"];
        let bytes = data["base64"].as_str().map(|text| BASE64.decode(text));
        match bytes {
            Some(Ok(bytes)) => ChangeData::Bytes(bytes.into()),
            _ if data.is_null() => ChangeData::None,
            _ => ChangeData::Omitted(data["size"].as_u64().unwrap_or(0)),
        }
    }

    /// All that the server says of it; docs/HISTORY.md has the names.
    pub fn json(&self) -> &Value {
        &self.value
    }

    /// As the server sent it: an object of JSON and the end of the line.
    pub fn line(&self) -> &[u8] {
        &self.line
    }
}
