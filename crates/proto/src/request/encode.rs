//! Encoding requests, as clients do.

use jute::Encode;

use super::{ReadRequest, Request, SetWatchesRequest, WriteRequest};
use crate::OpCode;
use crate::multi::{self, MultiHeader, MultiRead};

/// A request whose bytes are unknown: a multi or multiRead that was refused during decoding, or a
/// check outside a multi, for which there is no encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a refused {} request cannot be encoded", .op.name())]
pub struct NotEncodable {
    /// Opcode of the request.
    pub op: OpCode,
}

impl Request {
    /// Returns the opcode; setWatches2 only if setWatches is not sufficient.
    pub fn op(&self) -> OpCode {
        match self {
            Self::Write(write) => write.op(),
            Self::Read(read) => read.op(),
            Self::Sync(_) => OpCode::Sync,
        }
    }

    /// Appends the record that follows the request's header.
    ///
    /// # Errors
    /// If the record does not exist. Nothing is appended.
    ///
    /// # Panics
    /// If a multi contains an operation that [`multi::encode_request`] does not accept. Decoding
    /// never produces such a multi.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), NotEncodable> {
        match self {
            Self::Write(write) => write.encode(out),
            Self::Read(read) => read.encode(out),
            Self::Sync(request) => {
                request.encode(out);
                Ok(())
            }
        }
    }
}

impl WriteRequest {
    fn encode(&self, out: &mut Vec<u8>) -> Result<(), NotEncodable> {
        match self {
            Self::Create { op, request, ttl } => {
                request.encode(out);
                if *op == OpCode::CreateTtl {
                    ttl.encode(out);
                }
            }
            Self::Delete(request) => request.encode(out),
            Self::SetData(request) => request.encode(out),
            Self::SetAcl(request) => request.encode(out),
            Self::DeleteContainer { path } => path.encode(out),
            Self::Reconfig(request) => request.encode(out),
            Self::Multi(Ok(writes)) => {
                for write in writes {
                    multi::encode_request(write, out);
                }
                MultiHeader::END.encode(out);
            }
            Self::CreateSession { timeout_ms } => timeout_ms.encode(out),
            Self::CloseSession => {}
            Self::Multi(Err(_)) | Self::Check(_) => return Err(NotEncodable { op: self.op() }),
        }
        Ok(())
    }
}

impl ReadRequest {
    /// Returns the path of the znode; `None` if the request has no path, or several.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Exists(request)
            | Self::GetData(request)
            | Self::GetChildren(request)
            | Self::GetChildren2(request) => request.path.as_deref(),
            Self::GetAcl(request)
            | Self::GetAllChildrenNumber(request)
            | Self::GetEphemerals(request) => request.path.as_deref(),
            Self::CheckWatches(request)
            | Self::RemoveWatches(request)
            | Self::AddWatch(request) => request.path.as_deref(),
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

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), NotEncodable> {
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
    /// Returns setWatches if there are no persistent watches, because servers of all releases
    /// understand it.
    pub fn op(&self) -> OpCode {
        let is_empty = |list: &Option<Vec<_>>| list.as_ref().is_some_and(Vec::is_empty);
        if is_empty(&self.persistent) && is_empty(&self.persistent_recursive) {
            OpCode::SetWatches
        } else {
            OpCode::SetWatches2
        }
    }
}
