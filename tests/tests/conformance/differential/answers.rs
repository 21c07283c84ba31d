//! The compared parts of an answer.

use std::time::{SystemTime, UNIX_EPOCH};

use jute::{Decode, DecodeError, Reader};
use proto::multi::MultiHeader;
use proto::response::{ErrorResponse, GetDataResponse, NamesResponse, WhoAmIResponse};
use proto::{OpCode, SessionId};
use tests::Answer;

/// Longer than the servers run, ms.
const RECENT_MS: u64 = 3_600_000;

/// Returns the answer as text. Values that differ between servers are replaced: times, and the ids
/// of `sessions`, which become indices.
pub(crate) fn shown(op: OpCode, answer: &Answer, sessions: &[SessionId]) -> String {
    let mut body = answer.body.to_vec();
    blank(&mut body, sessions);
    let mut input = Reader::new(body);
    // Other bodies, and bodies that do not decode, are compared as bytes.
    let lists = lists(op, &mut input).unwrap_or_default();
    let Answer { zxid, err, .. } = answer;
    format!("zxid {zxid}, err {err}, {lists}{:?}", input.rest())
}

/// Decodes the lists at the beginning of the body, in order.
fn lists(op: OpCode, input: &mut Reader) -> Result<String, DecodeError> {
    Ok(match op {
        OpCode::GetChildren | OpCode::GetChildren2 | OpCode::GetEphemerals => names(input)?,
        OpCode::WhoAmI => {
            let mut clients = WhoAmIResponse::decode(input)?.clients;
            clients
                .sort_by(|one, other| (&one.scheme, &one.user).cmp(&(&other.scheme, &other.user)));
            format!("{clients:?}")
        }
        OpCode::MultiRead => results(input)?,
        _ => String::new(),
    })
}

fn names(input: &mut Reader) -> Result<String, DecodeError> {
    let mut names = NamesResponse::decode(input)?.names;
    names.sort();
    Ok(format!("{names:?}"))
}

fn results(input: &mut Reader) -> Result<String, DecodeError> {
    let mut shown = String::new();
    while !input.is_empty() {
        let header = MultiHeader::decode(input)?;
        shown += &format!("{header:?}");
        match OpCode::from_i32(header.op) {
            _ if header.done => break,
            Some(OpCode::GetChildren) => shown += &names(input)?,
            Some(OpCode::GetData) => shown += &format!("{:?}", GetDataResponse::decode(input)?),
            _ => shown += &format!("{:?}", ErrorResponse::decode(input)?),
        }
    }
    Ok(shown)
}

fn blank(body: &mut [u8], sessions: &[SessionId]) {
    // These come first, because six bytes of an id are a time, too.
    replace(body, |value| {
        sessions.iter().position(|session| session.0 == value)
    });
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ms = now.map_or(0, |now| i64::try_from(now.as_millis()).unwrap_or(0));
    replace(body, |value| {
        (value.abs_diff(now_ms) < RECENT_MS).then_some(sessions.len())
    });
}

/// Replaces each value for which `instead_of` returns a number.
fn replace(body: &mut [u8], instead_of: impl Fn(i64) -> Option<usize>) {
    let mut at = 0;
    while let Some(bytes) = body.get_mut(at..at + 8) {
        let value = bytes
            .iter()
            .fold(0, |value, byte| value << 8 | i64::from(*byte));
        match instead_of(value) {
            Some(number) => {
                bytes.copy_from_slice(&number.to_be_bytes());
                at += 8;
            }
            None => at += 1,
        }
    }
}
