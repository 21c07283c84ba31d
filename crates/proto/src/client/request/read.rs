//! Requests that are answered from the tree of the server that received them.

use jute::{Decode, DecodeError, Encode, Reader, Str};

use super::records::{
    NotEncodable, PathModeRequest, PathRequest, PathWatchRequest, SetWatchesRequest,
};
use crate::OpCode;
use crate::client::multi::{self, MultiHeader, MultiRead};

/// A read request, which is answered from this server's own tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadRequest {
    /// Request of the operation exists.
    Exists(PathWatchRequest),
    /// Request getData.
    GetData(PathWatchRequest),
    /// Request getACL.
    GetAcl(PathRequest),
    /// Request getChildren.
    GetChildren(PathWatchRequest),
    /// Request getChildren2.
    GetChildren2(PathWatchRequest),
    /// Request getAllChildrenNumber.
    GetAllChildrenNumber(PathRequest),
    /// Request getEphemerals.
    GetEphemerals(PathRequest),
    /// Request multiRead.
    MultiRead(MultiRead),
    /// Request checkWatches.
    CheckWatches(PathModeRequest),
    /// Request removeWatches.
    RemoveWatches(PathModeRequest),
    /// Request addWatch.
    AddWatch(PathModeRequest),
    /// Request setWatches or setWatches2.
    SetWatches(SetWatchesRequest),
    /// Request whoAmI.
    WhoAmI,
    /// Request ping.
    Ping,
}

impl ReadRequest {
    /// Returns the path of the znode; `None` if the path is null, or if the request does not have
    /// exactly one path.
    pub fn path(&self) -> Option<&Str> {
        match self {
            Self::Exists(request)
            | Self::GetData(request)
            | Self::GetChildren(request)
            | Self::GetChildren2(request) => request.path.as_ref(),
            Self::GetAcl(request)
            | Self::GetAllChildrenNumber(request)
            | Self::GetEphemerals(request) => request.path.as_ref(),
            Self::CheckWatches(request)
            | Self::RemoveWatches(request)
            | Self::AddWatch(request) => request.path.as_ref(),
            Self::SetWatches(_) | Self::MultiRead(_) | Self::WhoAmI | Self::Ping => None,
        }
    }

    /// Returns the opcode.
    pub fn op(&self) -> OpCode {
        match self {
            Self::Exists(_) => OpCode::Exists,
            Self::GetData(_) => OpCode::GetData,
            Self::GetAcl(_) => OpCode::GetAcl,
            Self::GetChildren(_) => OpCode::GetChildren,
            Self::GetChildren2(_) => OpCode::GetChildren2,
            Self::GetAllChildrenNumber(_) => OpCode::GetAllChildrenNumber,
            Self::GetEphemerals(_) => OpCode::GetEphemerals,
            Self::MultiRead(_) => OpCode::MultiRead,
            Self::CheckWatches(_) => OpCode::CheckWatches,
            Self::RemoveWatches(_) => OpCode::RemoveWatches,
            Self::AddWatch(_) => OpCode::AddWatch,
            Self::SetWatches(request) => request.op(),
            Self::WhoAmI => OpCode::WhoAmI,
            Self::Ping => OpCode::Ping,
        }
    }

    /// Decodes the record of `op`. Returns `None` if no read has this opcode.
    ///
    /// # Errors
    /// If the record cannot be decoded.
    pub(crate) fn decode(op: OpCode, input: &mut Reader) -> Result<Option<Self>, DecodeError> {
        Ok(Some(match op {
            OpCode::Exists => Self::Exists(PathWatchRequest::decode(input)?),
            OpCode::GetData => Self::GetData(PathWatchRequest::decode(input)?),
            OpCode::GetAcl => Self::GetAcl(PathRequest::decode(input)?),
            OpCode::GetChildren => Self::GetChildren(PathWatchRequest::decode(input)?),
            OpCode::GetChildren2 => Self::GetChildren2(PathWatchRequest::decode(input)?),
            OpCode::GetAllChildrenNumber => Self::GetAllChildrenNumber(PathRequest::decode(input)?),
            OpCode::GetEphemerals => Self::GetEphemerals(PathRequest::decode(input)?),
            OpCode::MultiRead => Self::MultiRead(multi::decode_reads(input)?),
            OpCode::CheckWatches => Self::CheckWatches(PathModeRequest::decode(input)?),
            OpCode::RemoveWatches => Self::RemoveWatches(PathModeRequest::decode(input)?),
            OpCode::AddWatch => Self::AddWatch(PathModeRequest::decode(input)?),
            OpCode::SetWatches | OpCode::SetWatches2 => {
                Self::SetWatches(SetWatchesRequest::decode(op, input)?)
            }
            OpCode::WhoAmI => Self::WhoAmI,
            OpCode::Ping => Self::Ping,
            _ => return Ok(None),
        }))
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) -> Result<(), NotEncodable> {
        match self {
            Self::Exists(request)
            | Self::GetData(request)
            | Self::GetChildren(request)
            | Self::GetChildren2(request) => request.encode(out),
            Self::GetAcl(request)
            | Self::GetAllChildrenNumber(request)
            | Self::GetEphemerals(request) => request.encode(out),
            Self::CheckWatches(request)
            | Self::RemoveWatches(request)
            | Self::AddWatch(request) => request.encode(out),
            Self::SetWatches(request) => request.encode(request.op(), out),
            Self::MultiRead(MultiRead::Reads(reads)) => encode_reads(reads, out)?,
            Self::WhoAmI | Self::Ping => {}
            Self::MultiRead(MultiRead::Writes) => return Err(NotEncodable { op: self.op() }),
        }
        Ok(())
    }
}

fn encode_reads(reads: &[ReadRequest], out: &mut Vec<u8>) -> Result<(), NotEncodable> {
    let start = out.len();
    for read in reads {
        MultiHeader::request(read.op()).encode(out);
        if let Err(error) = read.encode(out) {
            out.truncate(start);
            return Err(error);
        }
    }
    MultiHeader::END.encode(out);
    Ok(())
}

impl SetWatchesRequest {
    fn decode(op: OpCode, input: &mut Reader) -> Result<Self, DecodeError> {
        let mut request = Self {
            relative_zxid: input.i64()?,
            data: Option::decode(input)?,
            exist: Option::decode(input)?,
            child: Option::decode(input)?,
            persistent: Some(Vec::new()),
            persistent_recursive: Some(Vec::new()),
        };
        if op == OpCode::SetWatches2 {
            request.persistent = Option::decode(input)?;
            request.persistent_recursive = Option::decode(input)?;
        }
        Ok(request)
    }

    /// Appends the record of setWatches2, or of setWatches, which lacks the persistent lists.
    pub fn encode(&self, op: OpCode, out: &mut Vec<u8>) {
        self.relative_zxid.encode(out);
        self.data.encode(out);
        self.exist.encode(out);
        self.child.encode(out);
        if op == OpCode::SetWatches2 {
            self.persistent.encode(out);
            self.persistent_recursive.encode(out);
        }
    }

    /// Returns setWatches if there are no persistent watches, because servers of all releases
    /// understand setWatches. Otherwise, returns setWatches2.
    pub fn op(&self) -> OpCode {
        let is_empty = |list: &Option<Vec<_>>| list.as_ref().is_some_and(Vec::is_empty);
        if is_empty(&self.persistent) && is_empty(&self.persistent_recursive) {
            OpCode::SetWatches
        } else {
            OpCode::SetWatches2
        }
    }
}
