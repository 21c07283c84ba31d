//! multi and multiRead: what goes in, what comes out.

use bytes::Bytes;
use jute::{Decode, DecodeError, Reader, Str};
use proto::multi::{self, MultiHeader};
use proto::request::{PathVersionRequest, PathWatchRequest, SetDataRequest, WriteRequest};
use proto::response::{
    Create2Response, CreateResponse, ErrorResponse, GetDataResponse, NamesResponse, StatResponse,
};
use proto::{OpCode, Stat};

use crate::Create;

/// One operation of a multi.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MultiOp(pub(crate) WriteRequest);

impl MultiOp {
    /// A creation; with [`Create::with_stat`] the result brings the Stat.
    pub fn create(path: &str, data: impl Into<Bytes>, create: &Create) -> Self {
        Self(create.request(path, Some(data.into())))
    }

    /// A creation with null for data.
    pub fn create_without_data(path: &str, create: &Create) -> Self {
        Self(create.request(path, None))
    }

    /// A deletion; version -1 matches any.
    pub fn delete(path: &str, version: i32) -> Self {
        Self(WriteRequest::Delete(path_version(path, version)))
    }

    /// New data; version -1 matches any.
    pub fn set_data(path: &str, data: impl Into<Bytes>, version: i32) -> Self {
        Self(WriteRequest::SetData(SetDataRequest {
            path: Some(path.into()),
            data: Some(data.into()),
            version,
        }))
    }

    /// Null for data; version -1 matches any.
    pub fn set_data_to_null(path: &str, version: i32) -> Self {
        Self(WriteRequest::SetData(SetDataRequest {
            path: Some(path.into()),
            data: None,
            version,
        }))
    }

    /// Changes nothing, but fails the multi unless the znode has this version.
    pub fn check(path: &str, version: i32) -> Self {
        Self(WriteRequest::Check(path_version(path, version)))
    }
}

pub(crate) fn path_version(path: &str, version: i32) -> PathVersionRequest {
    PathVersionRequest {
        path: Some(path.into()),
        version,
    }
}

/// What became of one operation of a multi.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MultiResult {
    /// Created under this path; with its Stat if the operation was a create2 or a kin of it.
    Created {
        /// The final path.
        path: Str,
        /// Just after the creation.
        stat: Option<Stat>,
    },
    /// Deleted.
    Deleted,
    /// Data set.
    Set(Stat),
    /// The version was the expected one.
    Checked,
    /// Failed, or not tried: a code. Nothing of the multi was done.
    Failed(i32),
}

/// One read of a multiRead; it never sets watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MultiRead<'a> {
    /// getData.
    Data(&'a str),
    /// getChildren.
    Children(&'a str),
}

impl MultiRead<'_> {
    /// With the paths that `outside` makes of its own.
    pub(crate) fn encode(&self, outside: impl Fn(&str) -> Str, out: &mut Vec<u8>) {
        use jute::Encode;
        let (op, path) = match self {
            Self::Data(path) => (OpCode::GetData, path),
            Self::Children(path) => (OpCode::GetChildren, path),
        };
        MultiHeader::request(op).encode(out);
        PathWatchRequest {
            path: Some(outside(path)),
            watch: false,
        }
        .encode(out);
    }
}

/// What one read of a multiRead brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MultiReadResult {
    /// Data and Stat.
    Data(Option<Bytes>, Stat),
    /// Names of the children, in no order.
    Children(Vec<Str>),
    /// This read failed with a code; the others are not concerned.
    Failed(i32),
}

/// Reads the results of a multi.
///
/// # Errors
/// If they do not decode.
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

/// Reads the results of a multiRead.
///
/// # Errors
/// If they do not decode.
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

/// The first operation that failed by itself, not because of another, and its code.
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
    // No count is announced; each result takes at least its header's 9 bytes of the body.
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

/// With the paths that `outside` makes of their own.
pub(crate) fn encode_ops(ops: &[MultiOp], outside: impl Fn(&str) -> Str, out: &mut Vec<u8>) {
    use jute::Encode;
    for MultiOp(write) in ops {
        let mut write = write.clone();
        let path = match &mut write {
            WriteRequest::Create { request, .. } => &mut request.path,
            WriteRequest::Delete(request) | WriteRequest::Check(request) => &mut request.path,
            WriteRequest::SetData(request) => &mut request.path,
            _ => &mut None,
        };
        if let Some(path) = path {
            *path = outside(path);
        }
        multi::encode_request(&write, out);
    }
    MultiHeader::END.encode(out);
}
