//! Transactions: what is proposed, logged and applied.
//!
//! A [`TxnRecord`] is the payload of a log record and of a PROPOSAL packet:
//!
//! ```text
//! TxnHeader  session i64 | cxid i32 | zxid i64 | time i64 (ms) | type i32     32 bytes
//! body       by type
//! TxnDigest  version i32 (2) | tree digest i64                      optional, 12 bytes
//! ```
//!
//! Versions in a body are the resulting ones, paths are final. Source: SerializeUtils.deserializeTxn.

use bytes::Bytes;
use jute::{Decode, DecodeError, DecodeRecord, Encode, EncodeRecord, Reader, Str};

use crate::{Acl, ErrorCode, OpCode, SessionId, Zxid};

/// Who, when and what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct TxnHeader {
    /// Session that asked, 0 for the server itself.
    pub session: SessionId,
    /// Its xid, 0 where there is none.
    pub cxid: i32,
    /// Position in the order.
    pub zxid: Zxid,
    /// The leader's clock, ms since 1970.
    pub time_ms: i64,
    /// Opcode of the body; -1 for an error.
    pub op: i32,
}

/// The tree's digest after a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct TxnDigest {
    /// [`TxnDigest::VERSION`].
    pub version: i32,
    /// Sum of the znodes' digests.
    pub digest: i64,
}

impl TxnDigest {
    /// The version written and compared.
    pub const VERSION: i32 = 2;
    /// Bytes on the wire.
    pub const BYTES: usize = 12;

    /// A digest of the current version.
    pub fn new(digest: u64) -> Self {
        Self {
            version: Self::VERSION,
            digest: digest.cast_signed(),
        }
    }
}

/// create, create2.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct CreateTxn {
    /// Final path.
    pub path: Str,
    /// Data.
    pub data: Option<Bytes>,
    /// ACL.
    pub acl: Vec<Acl>,
    /// Whether the header's session owns it.
    pub ephemeral: bool,
    /// The parent's resulting creation count, -1 if not known (records of old releases).
    pub parent_cversion: i32,
}

/// createContainer.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct CreateContainerTxn {
    /// Final path.
    pub path: Str,
    /// Data.
    pub data: Option<Bytes>,
    /// ACL.
    pub acl: Vec<Acl>,
    /// The parent's resulting creation count.
    pub parent_cversion: i32,
}

/// createTTL.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct CreateTtlTxn {
    /// Final path.
    pub path: Str,
    /// Data.
    pub data: Option<Bytes>,
    /// ACL.
    pub acl: Vec<Acl>,
    /// The parent's resulting creation count.
    pub parent_cversion: i32,
    /// Time to live, ms.
    pub ttl: i64,
}

/// setData, reconfig.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct SetDataTxn {
    /// The path.
    pub path: Str,
    /// The new data.
    pub data: Option<Bytes>,
    /// The resulting version.
    pub version: i32,
}

/// setACL.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct SetAclTxn {
    /// The path.
    pub path: Str,
    /// The new ACL.
    pub acl: Vec<Acl>,
    /// The resulting aversion.
    pub version: i32,
}

/// check, inside a multi.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct CheckVersionTxn {
    /// The path.
    pub path: Str,
    /// The checked version plus 1; nothing reads it.
    pub version: i32,
}

/// A transaction's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Txn {
    /// A session begins.
    CreateSession {
        /// Its timeout.
        timeout_ms: i32,
    },
    /// A session ends.
    CloseSession {
        /// Its ephemerals; `None` in logs without the list.
        paths: Option<Vec<Str>>,
    },
    /// A refused request: only uses up the zxid.
    Error {
        /// An [`ErrorCode`].
        code: i32,
    },
    /// create.
    Create(CreateTxn),
    /// create of a release so old that `parent_cversion` (-1 here) is not written.
    CreateV0(CreateTxn),
    /// create2.
    Create2(CreateTxn),
    /// createContainer.
    CreateContainer(CreateContainerTxn),
    /// createTTL.
    CreateTtl(CreateTtlTxn),
    /// delete.
    Delete {
        /// The path.
        path: Str,
    },
    /// deleteContainer: an empty container or an expired TTL znode.
    DeleteContainer {
        /// The path.
        path: Str,
    },
    /// setData.
    SetData(SetDataTxn),
    /// reconfig: sets the data of the config znode.
    Reconfig(SetDataTxn),
    /// setACL.
    SetAcl(SetAclTxn),
    /// check, inside a multi.
    Check(CheckVersionTxn),
    /// multi: all or, if one is an `Error`, none.
    Multi(Vec<Txn>),
}

impl Txn {
    /// An error body.
    pub fn error(code: ErrorCode) -> Self {
        Self::Error { code: code.code() }
    }

    /// The type number in the header.
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

    /// The path that the transaction changes; `None` if it changes no path, or several.
    pub fn path(&self) -> Option<&Str> {
        match self {
            Self::Create(txn) | Self::CreateV0(txn) | Self::Create2(txn) => Some(&txn.path),
            Self::CreateContainer(txn) => Some(&txn.path),
            Self::CreateTtl(txn) => Some(&txn.path),
            Self::Delete { path } | Self::DeleteContainer { path } => Some(path),
            Self::SetData(txn) | Self::Reconfig(txn) => Some(&txn.path),
            Self::SetAcl(txn) => Some(&txn.path),
            _ => None,
        }
    }

    /// The path that the transaction changes; the first path of a multi.
    pub fn first_path(&self) -> Option<&Str> {
        match self {
            Self::Multi(parts) => parts.iter().find_map(Self::path),
            one => one.path(),
        }
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

fn unknown_type(op: i32) -> DecodeError {
    DecodeError::Value {
        what: "transaction type",
        value: op.into(),
    }
}

fn decode_create(input: &mut Reader) -> Result<Txn, DecodeError> {
    let (path, data) = (Str::decode(input)?, Option::decode(input)?);
    let (acl, ephemeral) = (Vec::decode(input)?, bool::decode(input)?);
    // Releases before 3.3.3 end here. A digest cannot follow such a record.
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

/// The list of a closeSession, absent in records of 3.5 and of servers told not to write it.
///
/// What follows may then be a digest, 12 bytes that would read as two empty paths; a list never
/// holds an empty path, so there is no doubt which it is.
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
        let len_at = out.len();
        0i32.encode(out);
        txn.encode_body(out);
        let len = i32::try_from(out.len() - len_at - 4).expect("an operation fits a frame");
        out[len_at..len_at + 4].copy_from_slice(&len.to_be_bytes());
    }
}

/// A transaction as proposed and logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TxnRecord {
    /// Who, when and what.
    pub header: TxnHeader,
    /// The change.
    pub txn: Txn,
    /// The tree's digest after it, where one was made.
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
