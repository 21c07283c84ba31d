//! multiRead: independent reads in one request. Watch flags in it are ignored.

use jute::Encode;
use proto::multi::{MultiHeader, MultiRead, encode_error_result};
use proto::request::{PathWatchRequest, ReadRequest};
use proto::{ErrorCode, OpCode};

use super::{Caller, Tree};

impl Tree {
    /// A read that fails is a result like any other; a null path, or writes instead of reads,
    /// refuse the request behind the results there are.
    pub(super) fn multi_read(
        &self,
        request: &MultiRead,
        caller: &Caller<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ErrorCode> {
        let result = match request {
            MultiRead::Reads(reads) => reads
                .iter()
                .try_for_each(|read| self.put_result(read, caller, out)),
            MultiRead::Writes => Err(ErrorCode::MarshallingError),
        };
        MultiHeader::END.encode(out);
        result
    }

    fn put_result(
        &self,
        read: &ReadRequest,
        caller: &Caller<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ErrorCode> {
        let (op, request): (_, &PathWatchRequest) = match read {
            ReadRequest::GetData(request) => (OpCode::GetData, request),
            ReadRequest::GetChildren(request) => (OpCode::GetChildren, request),
            _ => return Err(ErrorCode::MarshallingError),
        };
        match self.readable(request.path.as_ref(), caller) {
            Ok(id) => {
                MultiHeader::result(op).encode(out);
                if op == OpCode::GetData {
                    self.put_data(id, out);
                } else {
                    self.put_children(id, out);
                }
            }
            Err(ErrorCode::MarshallingError) => return Err(ErrorCode::MarshallingError),
            Err(code) => encode_error_result(code, out),
        }
        Ok(())
    }
}
