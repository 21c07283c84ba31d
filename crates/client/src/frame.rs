//! Frames: a length, a header and a record. Encoding and decoding do not allocate for each frame.
//!
//! Outgoing frames are appended to one buffer, which a single write operation sends. Incoming bytes
//! are read in large pieces and returned as slices of the read buffer:
//!
//! ```
//! use zoarium_client::frame::{FrameReader, put_request, split_reply};
//! use proto::{OpCode, Xid};
//!
//! let mut out = Vec::new();
//! put_request(Xid::PING, OpCode::Ping.number(), &mut out, |_| ());
//! assert_eq!(out, [0, 0, 0, 8, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11]);
//!
//! let mut frames = FrameReader::new(1 << 20);
//! frames.extend(&[0, 0, 0, 16, 0xff, 0xff, 0xff, 0xfe]);
//! assert!(frames.next_frame().unwrap().is_none());
//! frames.extend(&[0, 0, 0, 0, 0, 0, 0, 62, 0, 0, 0, 0]);
//! let (header, body) = split_reply(frames.next_frame().unwrap().unwrap()).unwrap();
//! assert_eq!((header.zxid.0, header.err, body), (62, 0, &[][..]));
//! ```
//!
//! Source: ClientCnxnSocket.

use jute::Encode;
use proto::connect::{ReplyHeader, RequestHeader};
use proto::{Xid, Zxid};

use crate::limits::{BUFFER_BYTES_KEPT, READ_BYTES};

/// Error for bytes from a server that are not a frame or not a reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The length before a frame is negative or above the limit.
    #[error("frame length {len} is not between 0 and {limit}")]
    Length {
        /// Length that was read.
        len: i32,
        /// Largest length accepted, in bytes.
        limit: usize,
    },
    /// The frame is too short for the header of a reply.
    #[error("a reply of {0} bytes is too short for a header")]
    Header(usize),
}

/// Appends one frame. `body` writes its content.
pub fn put_frame(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    // Callers bound their requests far below 2^31 (limits::REQUEST_BYTES_MAX). A server would
    // refuse a saturated length like any other large length.
    let len = i32::try_from(out.len() - start - 4).unwrap_or(i32::MAX);
    if let Some(slot) = out.get_mut(start..start + 4) {
        slot.copy_from_slice(&len.to_be_bytes());
    }
}

/// Appends one request: the header and the record that `body` writes.
pub fn put_request(xid: Xid, op: i32, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    put_frame(out, |out| {
        RequestHeader { xid, op }.encode(out);
        body(out);
    });
}

/// Splits a frame into the header and the record of a reply or event.
///
/// # Errors
/// If the frame is shorter than a header.
pub fn split_reply(frame: &[u8]) -> Result<(ReplyHeader, &[u8]), FrameError> {
    let read = || {
        let (xid, rest) = frame.split_first_chunk::<4>()?;
        let (zxid, rest) = rest.split_first_chunk::<8>()?;
        let (err, body) = rest.split_first_chunk::<4>()?;
        let header = ReplyHeader {
            xid: Xid(i32::from_be_bytes(*xid)),
            zxid: Zxid(i64::from_be_bytes(*zxid)),
            err: i32::from_be_bytes(*err),
        };
        Some((header, body))
    };
    read().ok_or(FrameError::Header(frame.len()))
}

/// Splits the bytes of a socket into frames.
#[derive(Debug)]
pub struct FrameReader {
    bytes: Vec<u8>,
    /// Start of the first frame that has not been returned.
    at: usize,
    frame_bytes_max: usize,
}

impl FrameReader {
    /// Creates a reader that refuses frames of more than `frame_bytes_max` bytes.
    pub fn new(frame_bytes_max: usize) -> Self {
        Self {
            bytes: Vec::new(),
            at: 0,
            frame_bytes_max,
        }
    }

    /// Changes the size limit for the following frames.
    pub fn set_frame_bytes_max(&mut self, frame_bytes_max: usize) {
        self.frame_bytes_max = frame_bytes_max;
    }

    /// Appends bytes that the caller has received.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the number of received bytes that have not been returned.
    pub fn buffered(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Returns the next complete frame without its length, or `None` until more bytes arrive.
    ///
    /// # Errors
    /// If the length before the frame is invalid. The connection is then unusable.
    pub fn next_frame(&mut self) -> Result<Option<&[u8]>, FrameError> {
        let Some(rest) = self.bytes.get(self.at..) else {
            return Ok(None);
        };
        let Some((prefix, content)) = rest.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let len = i32::from_be_bytes(*prefix);
        let limit = self.frame_bytes_max;
        let content_len = match usize::try_from(len) {
            Ok(content_len) if content_len <= limit => content_len,
            _ => return Err(FrameError::Length { len, limit }),
        };
        let Some(frame) = content.get(..content_len) else {
            return Ok(None);
        };
        self.at += 4 + content_len;
        Ok(Some(frame))
    }

    /// Returns the buffer to read into, with free space at its end.
    ///
    /// The buffer grows with the received bytes, never with an announced length. A peer that
    /// announces a large frame without sending it therefore does not cost memory.
    pub(crate) fn space(&mut self) -> &mut Vec<u8> {
        if self.at == self.bytes.len() {
            self.bytes.clear();
            self.at = 0;
            if self.bytes.capacity() > BUFFER_BYTES_KEPT {
                self.bytes.shrink_to(READ_BYTES);
            }
        }
        if self.bytes.capacity() - self.bytes.len() < READ_BYTES {
            self.bytes.drain(..self.at);
            self.at = 0;
            self.bytes.reserve(READ_BYTES);
        }
        &mut self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_assembled_from_any_pieces() {
        let mut stream = Vec::new();
        for len in [0usize, 1, 16, 5000] {
            put_frame(&mut stream, |out| out.resize(out.len() + len, 7));
        }
        for piece in [1, 3, 4, 5, 17, 4096] {
            let mut frames = FrameReader::new(5000);
            let mut lens = Vec::new();
            for bytes in stream.chunks(piece) {
                frames.space().extend_from_slice(bytes);
                while let Some(frame) = frames.next_frame().unwrap() {
                    lens.push(frame.len());
                }
            }
            assert_eq!(lens, [0, 1, 16, 5000], "pieces of {piece}");
            assert_eq!(frames.buffered(), 0);
        }
    }

    #[test]
    fn a_length_out_of_range_is_refused_before_its_bytes_come() {
        for (len, limit) in [(-1i32, 100), (101, 100), (i32::MIN, 100)] {
            let mut frames = FrameReader::new(limit);
            frames.extend(&len.to_be_bytes());
            assert_eq!(frames.next_frame(), Err(FrameError::Length { len, limit }));
        }
    }

    #[test]
    fn a_large_frame_leaves_no_large_buffer_behind() {
        let mut frames = FrameReader::new(8 << 20);
        let mut stream = Vec::new();
        put_frame(&mut stream, |out| out.resize(out.len() + (4 << 20), 0));
        frames.extend(&stream);
        assert_eq!(frames.next_frame().unwrap().map(<[u8]>::len), Some(4 << 20));
        assert!(frames.space().capacity() < BUFFER_BYTES_KEPT);
    }

    #[test]
    fn a_reply_without_a_whole_header_is_refused() {
        assert_eq!(split_reply(&[0; 15]), Err(FrameError::Header(15)));
        let (header, body) = split_reply(&[0xff; 18]).unwrap();
        assert_eq!(
            (header.xid, header.zxid, header.err),
            (Xid(-1), Zxid(-1), -1)
        );
        assert_eq!(body, [0xff, 0xff]);
    }
}
