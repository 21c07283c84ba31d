//! The operation multiRead: independent reads in one request. Watch flags in it are ignored.

use jute::Encode;
use proto::multi::{MultiHeader, MultiRead, encode_error_result};
use proto::request::{PathWatchRequest, ReadRequest};
use proto::{ErrorCode, OpCode};

use super::{Caller, ReadFailure, Tree};

/// Length up to which a multiRead's answer is always allowed, bytes. It is the longest packet that
/// any release of the Java client accepts by default (4 MiB up to 3.5, 1 MiB later).
const ANSWER_BYTES_ALWAYS: usize = 4 << 20;

impl Tree {
    /// Returns the length of the longest permitted answer to a multiRead, bytes. A client with the
    /// same settings as its server does not accept a longer answer.
    pub fn multi_read_bytes_max(&self) -> usize {
        self.settings.record_bytes_max.max(ANSWER_BYTES_ALWAYS)
    }

    /// Answers a multiRead. A failed read is an ordinary result. A null path or a write causes
    /// MarshallingError. The body then contains only the preceding results.
    pub(super) fn multi_read(
        &self,
        bytes_max: usize,
        request: &MultiRead,
        caller: &Caller<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ReadFailure> {
        let start = out.len();
        let result = match request {
            MultiRead::Reads(reads) => self.put_results(bytes_max, reads, caller, out),
            MultiRead::Writes => Err(ErrorCode::MarshallingError.into()),
        };
        match result {
            Err(ReadFailure::TooLong { bytes }) if bytes > self.multi_read_bytes_max() => {
                out.truncate(start);
                let (session, limit) = (caller.session, self.multi_read_bytes_max());
                log_limiter::limited!(warn, %session, limit, "refusing a multiRead: its reply would exceed the limit; read fewer znodes per request");
                return Err(ErrorCode::BadArguments.into());
            }
            Err(ReadFailure::TooLong { bytes }) => {
                out.truncate(start);
                return Err(ReadFailure::TooLong { bytes });
            }
            _ => MultiHeader::END.encode(out),
        }
        result
    }

    /// Appends the results that fit. After the first result that does not fit, further results are
    /// only measured, until the total length exceeds the limit of a multiRead.
    fn put_results(
        &self,
        bytes_max: usize,
        reads: &[ReadRequest],
        caller: &Caller<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ReadFailure> {
        let start = out.len();
        let total_max = self.multi_read_bytes_max();
        let bytes_max = bytes_max.min(total_max);
        // Total length of the results that are only measured, and of the end marker, bytes.
        let mut measured = MultiHeader::BYTES;
        let mut is_full = false;
        for read in reads {
            let before = out.len();
            let taken = before - start + measured;
            let left = if is_full {
                0
            } else {
                bytes_max.saturating_sub(taken)
            };
            match self.put_result(left, read, caller, out) {
                Err(ReadFailure::TooLong { bytes }) => {
                    is_full = true;
                    measured += bytes;
                }
                other => other?,
            }
            if is_full {
                measured += out.len() - before;
                out.truncate(before);
            }
            let bytes = out.len() - start + measured;
            if bytes > total_max {
                return Err(ReadFailure::TooLong { bytes });
            }
        }
        let bytes = out.len() - start + measured;
        if is_full || bytes > bytes_max {
            Err(ReadFailure::TooLong { bytes })
        } else {
            Ok(())
        }
    }

    fn put_result(
        &self,
        bytes_max: usize,
        read: &ReadRequest,
        caller: &Caller<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ReadFailure> {
        let (op, request): (_, &PathWatchRequest) = match read {
            ReadRequest::GetData(request) => (OpCode::GetData, request),
            ReadRequest::GetChildren(request) => (OpCode::GetChildren, request),
            _ => return Err(ErrorCode::MarshallingError.into()),
        };
        match self.readable(request.path.as_ref(), caller) {
            Ok(id) => {
                MultiHeader::result(op).encode(out);
                if op == OpCode::GetData {
                    self.put_data(id, bytes_max, out)?;
                } else {
                    self.put_children(id, bytes_max, out)?;
                }
            }
            Err(ErrorCode::MarshallingError) => return Err(ErrorCode::MarshallingError.into()),
            Err(code) => encode_error_result(code, out),
        }
        Ok(())
    }
}
