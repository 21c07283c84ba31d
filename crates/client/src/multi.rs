//! Operations and results of multi and multiRead.

use bytes::Bytes;
use jute::{Decode, DecodeError, Reader, Str};
use proto::multi::{self, MultiHeader};
use proto::request::{PathVersionRequest, PathWatchRequest, SetDataRequest, WriteRequest};
use proto::response::{
    Create2Response, CreateResponse, ErrorResponse, GetDataResponse, NamesResponse, StatResponse,
};
use proto::{OpCode, Stat};

use crate::client::Client;
use crate::create::{Create, Version};
use crate::error::Result;

/// One operation of a multi.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "it only describes an operation, and `Client::multi` executes it"]
pub struct MultiOp(pub(crate) WriteRequest);

impl MultiOp {
    /// Describes the creation of a znode. With [`Create::with_stat`] the result contains the Stat.
    pub fn create(path: &str, data: impl Into<Bytes>, create: &Create) -> Self {
        Self(create.request(path, Some(data.into())))
    }

    /// Describes the creation of a znode with null data.
    pub fn create_without_data(path: &str, create: &Create) -> Self {
        Self(create.request(path, None))
    }

    /// Describes the deletion of a znode.
    pub fn delete(path: &str, version: impl Into<Version>) -> Self {
        Self(WriteRequest::Delete(path_version(path, version)))
    }

    /// Describes the replacement of a znode's data.
    pub fn set_data(path: &str, data: impl Into<Bytes>, version: impl Into<Version>) -> Self {
        Self(WriteRequest::SetData(SetDataRequest {
            path: Some(path.into()),
            data: Some(data.into()),
            version: version.into().number(),
        }))
    }

    /// Describes the replacement of a znode's data with null.
    pub fn set_data_to_null(path: &str, version: impl Into<Version>) -> Self {
        Self(WriteRequest::SetData(SetDataRequest {
            path: Some(path.into()),
            data: None,
            version: version.into().number(),
        }))
    }

    /// Describes a check of a znode's version. A different version fails the multi.
    pub fn check(path: &str, version: impl Into<Version>) -> Self {
        Self(WriteRequest::Check(path_version(path, version)))
    }
}

pub(crate) fn path_version(
    path: impl Into<Str>,
    version: impl Into<Version>,
) -> PathVersionRequest {
    let (path, version) = (Some(path.into()), version.into().number());
    PathVersionRequest { path, version }
}

impl Client {
    /// Returns the path of an operation as a server path.
    ///
    /// # Errors
    /// If the path is invalid, or the operation creates a sequential container.
    pub(crate) fn outside_of(&self, op: &MultiOp) -> Result<Option<Str>> {
        let outside = |path: &Str| match &op.0 {
            WriteRequest::Create { request, .. } => self.outside_to_create(path, request.flags),
            _ => self.outside(path),
        };
        op.0.path().map(outside).transpose()
    }
}

/// Result of one operation of a multi.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MultiResult {
    /// The znode was created. The Stat is present after create2, createContainer and createTTL.
    Created {
        /// Final path of the znode.
        path: Str,
        /// Stat directly after the creation.
        stat: Option<Stat>,
    },
    /// The znode was deleted.
    Deleted,
    /// The data was replaced.
    Set(Stat),
    /// The version matched.
    Checked,
    /// The operation failed or was not tried. The variant contains an error code. The server
    /// executed none of the operations.
    Failed(i32),
}

/// Read of a multiRead. It never sets a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MultiRead<'a> {
    /// getData.
    Data(&'a str),
    /// getChildren.
    Children(&'a str),
}

impl MultiRead<'_> {
    /// Encodes the read. `outside` converts the path to a server path.
    pub(crate) fn encode(
        &self,
        outside: impl Fn(&str) -> Result<Str>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        use jute::Encode;
        let (op, path) = match self {
            Self::Data(path) => (OpCode::GetData, path),
            Self::Children(path) => (OpCode::GetChildren, path),
        };
        let path = Some(outside(path)?);
        MultiHeader::request(op).encode(out);
        PathWatchRequest { path, watch: false }.encode(out);
        Ok(())
    }
}

/// Result of one read of a multiRead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MultiReadResult {
    /// Data and Stat of the znode.
    Data(Option<Bytes>, Stat),
    /// Names of the children, in an arbitrary order.
    Children(Vec<Str>),
    /// The read failed with this error code. Other reads are not affected.
    Failed(i32),
}

/// Decodes the results of a multi.
///
/// # Errors
/// If the results cannot be decoded.
pub fn decode_results(input: &mut Reader) -> Result<Vec<MultiResult>, DecodeError> {
    decode_list(input, |op, input| {
        Ok(match OpCode::from_i32(op) {
            Some(OpCode::Create) => MultiResult::Created {
                path: CreateResponse::decode(input)?.path,
                stat: None,
            },
            Some(OpCode::Create2) => {
                let Create2Response { path, stat } = Create2Response::decode(input)?;
                let stat = Some(stat);
                MultiResult::Created { path, stat }
            }
            Some(OpCode::Delete) => MultiResult::Deleted,
            Some(OpCode::SetData) => MultiResult::Set(StatResponse::decode(input)?.stat),
            Some(OpCode::Check) => MultiResult::Checked,
            Some(OpCode::Error) => MultiResult::Failed(ErrorResponse::decode(input)?.err),
            _ => return Err(unknown_result(op)),
        })
    })
}

/// Decodes the results of a multiRead.
///
/// # Errors
/// If the results cannot be decoded.
pub fn decode_read_results(input: &mut Reader) -> Result<Vec<MultiReadResult>, DecodeError> {
    decode_list(input, |op, input| {
        Ok(match OpCode::from_i32(op) {
            Some(OpCode::GetData) => {
                let GetDataResponse { data, stat } = GetDataResponse::decode(input)?;
                MultiReadResult::Data(data, stat)
            }
            Some(OpCode::GetChildren) => {
                MultiReadResult::Children(NamesResponse::decode(input)?.names)
            }
            Some(OpCode::Error) => MultiReadResult::Failed(ErrorResponse::decode(input)?.err),
            _ => return Err(unknown_result(op)),
        })
    })
}

/// Returns the index and the code of the operation that caused the failure, or `None` if no
/// operation failed. The other operations fail because this operation failed.
pub fn first_failure(results: &[MultiResult]) -> Option<(usize, i32)> {
    results
        .iter()
        .enumerate()
        .find_map(|(index, result)| match result {
            MultiResult::Failed(code) if *code != 0 => Some((index, *code)),
            _ => None,
        })
}

fn decode_list<T>(
    input: &mut Reader,
    mut decode: impl FnMut(i32, &mut Reader) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    // The encoding does not contain a count. Each result takes at least the 9 bytes of its header,
    // which bounds the loop.
    let mut results = Vec::new();
    loop {
        let header = MultiHeader::decode(input)?;
        if header.done {
            return Ok(results);
        }
        results.push(decode(header.op, input)?);
    }
}

fn unknown_result(op: i32) -> DecodeError {
    DecodeError::Value {
        what: "type of a multi's result",
        value: op.into(),
    }
}

/// Encodes the operations. `outside` converts each path to a server path.
pub(crate) fn encode_ops(
    ops: &[MultiOp],
    outside: impl Fn(&MultiOp) -> Result<Option<Str>>,
    out: &mut Vec<u8>,
) -> Result<()> {
    use jute::Encode;
    for op in ops {
        let outside = outside(op)?;
        let mut write = op.0.clone();
        if let (Some(path), Some(outside)) = (write.path_mut(), outside) {
            *path = outside;
        }
        multi::encode_request(&write, out);
    }
    MultiHeader::END.encode(out);
    Ok(())
}
