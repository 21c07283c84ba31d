//! Transactions, which are proposed, logged and applied.
//!
//! A [`TxnRecord`] is the payload of a log record and of a PROPOSAL packet:
//!
//! ```text
//! TxnHeader  session i64 | cxid i32 | zxid i64 | time i64 (ms) | type i32     32 bytes
//! body       by type
//! TxnDigest  version i32 (2) | tree digest i64                      optional, 12 bytes
//! ```
//!
//! Versions in a body are the versions after the transaction, and paths contain the sequence
//! number. Source: SerializeUtils.deserializeTxn.

mod records;

use bytes::Bytes;
use jute::{Decode, DecodeError, Encode, Reader, Str, put_with_len};

use crate::client::op::ZnodeChange;
use crate::{Acl, ErrorCode, OpCode};

pub use records::{
    CheckVersionTxn, CreateContainerTxn, CreateTtlTxn, CreateTxn, SetAclTxn, SetDataTxn, TxnDigest,
    TxnHeader,
};

/// Body of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Txn {
    /// A session that begins.
    CreateSession {
        /// Timeout of the session, ms.
        timeout_ms: i32,
    },
    /// A session that ends.
    CloseSession {
        /// Paths of the session's ephemeral znodes; `None` if the record does not contain the list.
        paths: Option<Vec<Str>>,
    },
    /// A refused request. The transaction uses a zxid but does not change anything.
    Error {
        /// Number of the error code. See [`ErrorCode`].
        code: i32,
    },
    /// Transaction of create.
    Create(CreateTxn),
    /// Transaction of create, written before 3.3.3 without `parent_cversion` (which is -1 here).
    CreateV0(CreateTxn),
    /// Transaction of create2.
    Create2(CreateTxn),
    /// Transaction of createContainer.
    CreateContainer(CreateContainerTxn),
    /// Transaction of createTTL.
    CreateTtl(CreateTtlTxn),
    /// Transaction of delete.
    Delete {
        /// Path of the znode.
        path: Str,
    },
    /// Transaction of deleteContainer, for an empty container or an expired TTL znode.
    DeleteContainer {
        /// Path of the znode.
        path: Str,
    },
    /// Transaction of setData.
    SetData(SetDataTxn),
    /// Transaction of reconfig, which sets the data of the config znode.
    Reconfig(SetDataTxn),
    /// Transaction of setACL.
    SetAcl(SetAclTxn),
    /// Transaction of check, inside a multi.
    Check(CheckVersionTxn),
    /// Transaction of multi. All operations succeed, or none if one is an `Error`.
    Multi(Vec<Txn>),
}

impl Txn {
    /// Creates the body of an error.
    pub fn error(code: ErrorCode) -> Self {
        Self::Error { code: code.code() }
    }

    /// Returns the type for the header.
    pub fn op(&self) -> OpCode {
        match self {
            Self::CreateSession { .. } => OpCode::CreateSession,
            Self::CloseSession { .. } => OpCode::CloseSession,
            Self::Error { .. } => OpCode::Error,
            Self::Create(_) | Self::CreateV0(_) => OpCode::Create,
            Self::Create2(_) => OpCode::Create2,
            Self::CreateContainer(_) => OpCode::CreateContainer,
            Self::CreateTtl(_) => OpCode::CreateTtl,
            Self::Delete { .. } => OpCode::Delete,
            Self::DeleteContainer { .. } => OpCode::DeleteContainer,
            Self::SetData(_) => OpCode::SetData,
            Self::Reconfig(_) => OpCode::Reconfig,
            Self::SetAcl(_) => OpCode::SetAcl,
            Self::Check(_) => OpCode::Check,
            Self::Multi(_) => OpCode::Multi,
        }
    }

    /// Returns the path that the transaction changes; `None` for a multi, for a closeSession, and
    /// for a transaction that does not change a znode.
    pub fn path(&self) -> Option<&Str> {
        let path = self.fields().path;
        path.filter(|_| self.op().change() != ZnodeChange::None)
    }

    /// Returns the path that the transaction changes. For a multi, returns the first path that one
    /// of its operations changes.
    pub fn first_path(&self) -> Option<&Str> {
        match self {
            Self::Multi(parts) => parts.iter().find_map(Self::path),
            one => one.path(),
        }
    }

    /// Returns the fields of the body.
    pub fn fields(&self) -> TxnFields<'_> {
        let mut fields = TxnFields::default();
        match self {
            Self::CreateSession { timeout_ms: number } | Self::Error { code: number } => {
                fields.number = *number;
            }
            Self::CloseSession { paths } => fields.paths = paths.as_deref(),
            Self::Create(txn) | Self::CreateV0(txn) | Self::Create2(txn) => {
                fields.set_node(&txn.path, txn.data.as_ref(), &txn.acl, txn.parent_cversion);
                fields.is_ephemeral = txn.ephemeral;
            }
            Self::CreateContainer(txn) => {
                fields.set_node(&txn.path, txn.data.as_ref(), &txn.acl, txn.parent_cversion);
            }
            Self::CreateTtl(txn) => {
                fields.set_node(&txn.path, txn.data.as_ref(), &txn.acl, txn.parent_cversion);
                fields.ttl_ms = txn.ttl;
            }
            Self::Delete { path } | Self::DeleteContainer { path } => fields.path = Some(path),
            Self::SetData(txn) | Self::Reconfig(txn) => {
                (fields.path, fields.data) = (Some(&txn.path), txn.data.as_ref());
                fields.version = txn.version;
            }
            Self::SetAcl(txn) => {
                (fields.path, fields.acl) = (Some(&txn.path), &txn.acl);
                fields.version = txn.version;
            }
            Self::Check(txn) => {
                (fields.path, fields.version) = (Some(&txn.path), txn.version);
            }
            Self::Multi(parts) => fields.parts = parts,
        }
        fields
    }

    fn decode(op: i32, input: &mut Reader) -> Result<Self, DecodeError> {
        let Some(known) = OpCode::from_i32(op) else {
            return Err(unknown_type(op));
        };
        Ok(match known {
            OpCode::CreateSession => Self::CreateSession {
                timeout_ms: input.i32()?,
            },
            OpCode::CloseSession => Self::CloseSession {
                paths: decode_close_paths(input)?,
            },
            OpCode::Error => Self::Error { code: input.i32()? },
            OpCode::Create => decode_create(input)?,
            OpCode::Create2 => Self::Create2(CreateTxn::decode(input)?),
            OpCode::CreateContainer => Self::CreateContainer(CreateContainerTxn::decode(input)?),
            OpCode::CreateTtl => Self::CreateTtl(CreateTtlTxn::decode(input)?),
            OpCode::Delete => Self::Delete {
                path: Str::decode(input)?,
            },
            OpCode::DeleteContainer => Self::DeleteContainer {
                path: Str::decode(input)?,
            },
            OpCode::SetData => Self::SetData(SetDataTxn::decode(input)?),
            OpCode::Reconfig => Self::Reconfig(SetDataTxn::decode(input)?),
            OpCode::SetAcl => Self::SetAcl(SetAclTxn::decode(input)?),
            OpCode::Check => Self::Check(CheckVersionTxn::decode(input)?),
            OpCode::Multi => Self::Multi(decode_multi(input)?),
            _ => return Err(unknown_type(op)),
        })
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        match self {
            Self::CreateSession { timeout_ms } => timeout_ms.encode(out),
            Self::CloseSession { paths: Some(paths) } => paths.encode(out),
            Self::CloseSession { paths: None } => {}
            Self::Error { code } => code.encode(out),
            Self::Create(txn) | Self::Create2(txn) => txn.encode(out),
            Self::CreateV0(txn) => {
                txn.path.encode(out);
                txn.data.encode(out);
                txn.acl.encode(out);
                txn.ephemeral.encode(out);
            }
            Self::CreateContainer(txn) => txn.encode(out),
            Self::CreateTtl(txn) => txn.encode(out),
            Self::Delete { path } | Self::DeleteContainer { path } => path.encode(out),
            Self::SetData(txn) | Self::Reconfig(txn) => txn.encode(out),
            Self::SetAcl(txn) => txn.encode(out),
            Self::Check(txn) => txn.encode(out),
            Self::Multi(txns) => encode_multi(txns, out),
        }
    }
}

/// Fields of a transaction's body, for code that treats all operations alike. A field that the body
/// lacks has its default value.
#[derive(Debug, Clone, Copy, Default)]
pub struct TxnFields<'a> {
    /// Timeout of a new session in ms, or the error code.
    pub number: i32,
    /// Path of the znode.
    pub path: Option<&'a Str>,
    /// Ephemeral znodes of a session that ends.
    pub paths: Option<&'a [Str]>,
    /// New data.
    pub data: Option<&'a Bytes>,
    /// New ACL.
    pub acl: &'a [Acl],
    /// Whether the header's session owns the znode.
    pub is_ephemeral: bool,
    /// Resulting version or aversion.
    pub version: i32,
    /// Resulting creation count of the parent.
    pub parent_cversion: i32,
    /// TTL, ms.
    pub ttl_ms: i64,
    /// Operations of a multi.
    pub parts: &'a [Txn],
}

impl<'a> TxnFields<'a> {
    fn set_node(
        &mut self,
        path: &'a Str,
        data: Option<&'a Bytes>,
        acl: &'a [Acl],
        parent_cversion: i32,
    ) {
        (self.path, self.data, self.acl) = (Some(path), data, acl);
        self.parent_cversion = parent_cversion;
    }
}

fn unknown_type(op: i32) -> DecodeError {
    DecodeError::Value {
        what: "transaction type",
        value: op.into(),
    }
}

fn decode_create(input: &mut Reader) -> Result<Txn, DecodeError> {
    let (path, data) = (Str::decode(input)?, Option::decode(input)?);
    let (acl, ephemeral) = (Vec::decode(input)?, bool::decode(input)?);
    // Records of releases before 3.3.3 end here. No digest can follow such a record.
    Ok(match input.i32() {
        Ok(parent_cversion) => Txn::Create(CreateTxn {
            path,
            data,
            acl,
            ephemeral,
            parent_cversion,
        }),
        Err(_) => Txn::CreateV0(CreateTxn {
            path,
            data,
            acl,
            ephemeral,
            parent_cversion: -1,
        }),
    })
}

/// Decodes the list in a closeSession. The list is missing in records of 3.5 and of servers that
/// are configured not to write it.
///
/// The following bytes may then be a digest. Its 12 bytes could be read as two empty paths, but a
/// list never contains an empty path, so the two cases can be distinguished.
fn decode_close_paths(input: &mut Reader) -> Result<Option<Vec<Str>>, DecodeError> {
    if input.is_empty() {
        return Ok(None);
    }
    let starts_like_a_digest = input.clone().i32() == Ok(TxnDigest::VERSION);
    if input.remaining() == TxnDigest::BYTES && starts_like_a_digest {
        return Ok(None);
    }
    Vec::decode(input).map(Some)
}

fn decode_multi(input: &mut Reader) -> Result<Vec<Txn>, DecodeError> {
    let count = input.count()?.unwrap_or(0);
    let mut txns = Vec::with_capacity(count.min(input.remaining() / 8));
    for _ in 0..count {
        let op = input.i32()?;
        let offset = input.position();
        let body = input.buffer()?.ok_or(DecodeError::Null { offset })?;
        if op == OpCode::Multi.number() {
            return Err(unknown_type(op));
        }
        txns.push(Txn::decode(op, &mut Reader::new(body))?);
    }
    Ok(txns)
}

fn encode_multi(txns: &[Txn], out: &mut Vec<u8>) {
    i32::try_from(txns.len())
        .expect("a multi holds fewer than 2^31 operations")
        .encode(out);
    for txn in txns {
        txn.op().number().encode(out);
        put_with_len(out, |out| txn.encode_body(out));
    }
}

/// A transaction as it is proposed and logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TxnRecord {
    /// Header with origin, time and type.
    pub header: TxnHeader,
    /// Body with the change.
    pub txn: Txn,
    /// Digest of the tree after the transaction, if it was computed.
    pub digest: Option<TxnDigest>,
}

impl Encode for TxnRecord {
    fn encode(&self, out: &mut Vec<u8>) {
        self.header.encode(out);
        self.txn.encode_body(out);
        if let Some(digest) = &self.digest {
            digest.encode(out);
        }
    }
}

impl Decode for TxnRecord {
    const MIN_BYTES: usize = 32;

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let header = TxnHeader::decode(input)?;
        let txn = Txn::decode(header.op, input)?;
        let digest = if input.remaining() >= TxnDigest::BYTES {
            Some(TxnDigest::decode(input)?)
        } else {
            None
        };
        Ok(Self {
            header,
            txn,
            digest,
        })
    }
}
