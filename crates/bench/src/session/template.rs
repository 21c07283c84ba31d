//! Requests that are encoded once. Only the differences are patched into each copy.
//!
//! A request of the load is a copy of such a template with a new xid and a few digits. Therefore
//! the generator costs very little compared to the server on the same machine.

use fastrand::Rng;
use jute::Encode;
use proto::multi::{self, MultiHeader};
use proto::request::{
    CreateRequest, PathVersionRequest, PathWatchRequest, SetDataRequest, WriteRequest, flags,
};
use proto::{Acl, OpCode, Xid};

use client::frame::put_request;

/// Placeholder for a digit of a number in a template's path. The path of a znode cannot contain
/// this character, and the field after a path in a record (a flag, a length, a version) does not
/// begin with it.
const DIGIT: char = '\u{1d}';

/// Returns `prefix` followed by `width` placeholders, which a template replaces with digits.
pub(crate) fn path_with_digits(prefix: &str, width: usize) -> String {
    let digits = DIGIT.to_string().repeat(width);
    format!("{prefix}{digits}")
}

/// Returns `prefix` followed by `number` with at least `width` digits.
pub(crate) fn numbered(prefix: &str, width: usize, number: u64) -> String {
    format!("{prefix}{number:0width$}")
}

/// Complete frame with slots for an xid and numbers.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    frame: Vec<u8>,
    /// Slots for numbers, in the order of their offsets.
    slots: Vec<Slot>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    at: usize,
    width: usize,
}

/// Offset of the xid, after the frame's length.
const XID_AT: usize = 4;
/// Offset of the record, after the request's header.
const RECORD_AT: usize = 12;

impl Template {
    fn new(op: OpCode, record: impl FnOnce(&mut Vec<u8>), data_bytes: usize) -> Self {
        let mut frame = Vec::with_capacity(data_bytes + 128);
        put_request(Xid(0), op.number(), &mut frame, record);
        let slots = find_slots(&frame);
        Self { frame, slots }
    }

    pub(crate) fn get_data(path: &str, watch: bool) -> Self {
        let record = path_watch(path, watch);
        Self::new(OpCode::GetData, |out| record.encode(out), 0)
    }

    pub(crate) fn exists(path: &str) -> Self {
        let record = path_watch(path, false);
        Self::new(OpCode::Exists, |out| record.encode(out), 0)
    }

    pub(crate) fn get_children(path: &str) -> Self {
        let record = path_watch(path, false);
        Self::new(OpCode::GetChildren, |out| record.encode(out), 0)
    }

    pub(crate) fn set_data(path: &str, data: &Payload) -> Self {
        let record = set_data(path, data);
        Self::new(OpCode::SetData, |out| record.encode(out), data.0.len())
    }

    pub(crate) fn create(path: &str, data: &Payload) -> Self {
        Self::create_with(path, data, flags::PERSISTENT)
    }

    pub(crate) fn create_sequential(path: &str, data: &Payload) -> Self {
        Self::create_with(path, data, flags::PERSISTENT_SEQUENTIAL)
    }

    fn create_with(path: &str, data: &Payload, flags: i32) -> Self {
        let record = CreateRequest {
            path: Some(path.into()),
            data: Some(data.0.clone()),
            acl: multi::request_acl([Acl::open()]),
            flags,
        };
        Self::new(OpCode::Create, |out| record.encode(out), data.0.len())
    }

    pub(crate) fn delete(path: &str) -> Self {
        let record = PathVersionRequest {
            path: Some(path.into()),
            version: -1,
        };
        Self::new(OpCode::Delete, |out| record.encode(out), 0)
    }

    /// Returns a multi of `count` setData operations on `path`, each with its own numbers.
    pub(crate) fn multi_set(path: &str, data: &Payload, count: usize) -> Self {
        let write = WriteRequest::SetData(set_data(path, data));
        let record = |out: &mut Vec<u8>| {
            for _ in 0..count {
                multi::encode_request(&write, out);
            }
            MultiHeader::END.encode(out);
        };
        Self::new(OpCode::Multi, record, count * data.0.len())
    }

    /// Appends the request to `out`. `number` returns the number for each slot in turn.
    #[inline]
    pub(crate) fn put(&self, xid: Xid, out: &mut Vec<u8>, mut number: impl FnMut() -> u64) {
        let start = out.len();
        out.extend_from_slice(&self.frame);
        let Some(frame) = out.get_mut(start..) else {
            return;
        };
        if let Some(place) = frame.get_mut(XID_AT..XID_AT + 4) {
            place.copy_from_slice(&xid.0.to_be_bytes());
        }
        for slot in &self.slots {
            if let Some(place) = frame.get_mut(slot.at..slot.at + slot.width) {
                write_digits(place, number());
            }
        }
    }
}

fn path_watch(path: &str, watch: bool) -> PathWatchRequest {
    PathWatchRequest {
        path: Some(path.into()),
        watch,
    }
}

fn set_data(path: &str, data: &Payload) -> SetDataRequest {
    SetDataRequest {
        path: Some(path.into()),
        data: Some(data.0.clone()),
        version: -1,
    }
}

/// Returns the runs of placeholders in strings that begin with a slash.
///
/// A payload never contains the placeholder (see [`Payload`]).
fn find_slots(frame: &[u8]) -> Vec<Slot> {
    let mark = DIGIT as u8;
    let mut slots: Vec<Slot> = Vec::new();
    let mut in_path = false;
    for (at, byte) in frame.iter().enumerate().skip(RECORD_AT) {
        match *byte {
            b'/' => in_path = true,
            byte if byte == mark && in_path => match slots.last_mut() {
                Some(slot) if slot.at + slot.width == at => slot.width += 1,
                _ => slots.push(Slot { at, width: 1 }),
            },
            byte if byte.is_ascii_graphic() => {}
            _ => in_path = false,
        }
    }
    slots
}

/// Writes `number` right-aligned with leading zeroes. Excess digits on the left are dropped.
#[inline]
fn write_digits(place: &mut [u8], mut number: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Constant data for the znodes, which is hard to compress.
#[derive(Debug, Clone)]
pub(crate) struct Payload(pub(crate) bytes::Bytes);

impl Payload {
    pub(crate) fn new(len: usize) -> Self {
        let mut random = Rng::with_seed(0x5eed);
        // The upper half of the byte range contains neither slashes nor placeholders.
        let bytes: Vec<u8> = (0..len).map(|_| random.u8(0x80..)).collect();
        Self(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use jute::{Decode, Reader};
    use proto::connect::RequestHeader;
    use proto::request::Request;

    use super::*;

    /// Decodes the header and request of the only frame in `out`.
    fn decode(out: Vec<u8>) -> (RequestHeader, Request) {
        let mut input = Reader::new(Bytes::from(out));
        assert_eq!(
            usize::try_from(input.i32().unwrap()).unwrap(),
            input.remaining()
        );
        let header = RequestHeader::decode(&mut input).unwrap();
        let op = OpCode::from_i32(header.op).unwrap();
        let request = Request::decode(op, &mut input).unwrap();
        assert!(input.is_empty());
        (header, request)
    }

    fn put(template: &Template, numbers: &[u64]) -> (RequestHeader, Request) {
        let mut out = Vec::new();
        let mut numbers = numbers.iter().copied();
        template.put(Xid(77), &mut out, || numbers.next().unwrap());
        assert_eq!(numbers.next(), None, "one slot for each number");
        assert_eq!(out.len(), template.frame.len());
        decode(out)
    }

    #[test]
    fn a_template_encodes_like_its_request() {
        let prefix = "/zoarium-bench-11/k";
        let path = path_with_digits(prefix, 8);
        let data = Payload::new(300);
        let expected = Some(numbered(prefix, 8, 1234).into());

        let (header, request) = put(&Template::get_data(&path, true), &[1234]);
        assert_eq!(header.xid, Xid(77));
        let record = path_watch("/zoarium-bench-11/k00001234", true);
        assert_eq!(
            request,
            Request::Read(proto::request::ReadRequest::GetData(record))
        );

        let (_, request) = put(&Template::create(&path, &data), &[1234]);
        match request {
            Request::Write(WriteRequest::Create { op, request, .. }) => {
                assert_eq!((op, request.path), (OpCode::Create, expected.clone()));
                assert_eq!(request.data, Some(data.0.clone()));
            }
            other => panic!("{other:?}"),
        }

        let (_, request) = put(&Template::set_data(&path, &data), &[1234]);
        match request {
            Request::Write(WriteRequest::SetData(request)) => assert_eq!(request.path, expected),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_operation_of_a_multi_has_its_own_number() {
        let path = path_with_digits("/b/k", 3);
        let template = Template::multi_set(&path, &Payload::new(10), 3);
        let (_, request) = put(&template, &[1, 22, 333]);
        let Request::Write(WriteRequest::Multi(Ok(writes))) = request else {
            panic!("{request:?}");
        };
        let paths: Vec<_> = writes
            .iter()
            .map(|write| match write {
                WriteRequest::SetData(request) => request.path.as_deref().unwrap(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(paths, ["/b/k001", "/b/k022", "/b/k333"]);
    }

    #[test]
    fn a_path_may_hold_several_numbers() {
        let path = format!(
            "{}{}",
            path_with_digits("/f/d", 2),
            path_with_digits("/n", 4)
        );
        let (_, request) = put(&Template::delete(&path), &[7, 4321]);
        let Request::Write(WriteRequest::Delete(request)) = request else {
            panic!("{request:?}");
        };
        assert_eq!(request.path.as_deref(), Some("/f/d07/n4321"));
    }
}
