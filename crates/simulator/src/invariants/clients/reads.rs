//! Invariant: a read returns the committed state as of the zxid in its reply.

use bytes::Bytes;
use jute::{Decode, Reader};
use proto::multi::MultiHeader;
use proto::request::ReadRequest;
use proto::response::{
    GetAclResponse, GetAllChildrenNumberResponse, GetChildren2Response, GetDataResponse,
    NamesResponse, StatResponse, WhoAmIResponse,
};
use proto::{ErrorCode, OpCode, SessionId, Zxid};

use crate::history::History;
use crate::invariants::CheckResult;
use crate::invariants::access::{self, Identity};

pub(crate) const NAME: &str = "reads return committed data";

/// Subtree in which servers write without a client.
pub(crate) const SYSTEM: &str = "/zookeeper";

/// Reply to a read, and the client that sent the read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadReply<'a> {
    pub(crate) session: SessionId,
    pub(crate) identity: Option<Identity>,
    pub(crate) zxid: Zxid,
    pub(crate) result: &'a Result<Bytes, ErrorCode>,
}

pub(crate) fn read(request: &ReadRequest, told: ReadReply<'_>, history: &History) -> CheckResult {
    let zxid = told.zxid;
    if zxid > history.end() {
        let end = history.end();
        return Err(format!(
            "a read receives a reply with zxid {zxid}, but the last committed transaction is {end}"
        ));
    }
    let path = path_of(request);
    if path.is_some_and(|path| path.starts_with(SYSTEM)) {
        return Ok(());
    }
    if let (Some(path), Some(node)) = (path, path.and_then(|path| history.get(path, zxid))) {
        access::reads(path, told, node, request)?;
        if told.result == &Err(ErrorCode::NoAuth) {
            return Ok(());
        }
    }
    match (request, told.result) {
        (ReadRequest::MultiRead(reads), Ok(body)) => multi(reads, body, told, history),
        (ReadRequest::GetEphemerals(_), Ok(body)) => {
            let names = names(decode::<NamesResponse>(body)?.names);
            let expected = owned(&history.owned_at(told.session, zxid));
            same("the session's ephemerals", zxid, &names, &expected)
        }
        (ReadRequest::WhoAmI, Ok(body)) => {
            let count = decode::<WhoAmIResponse>(body)?.clients.len();
            let expected = 1 + told.identity.map_or(0, Identity::ids);
            same("the identities of the session", zxid, &count, &expected)
        }
        (_, result) => match path {
            Some(path) => node(request, path, zxid, result, history),
            None => Ok(()),
        },
    }
}

fn path_of(request: &ReadRequest) -> Option<&str> {
    match request {
        ReadRequest::Exists(request)
        | ReadRequest::GetData(request)
        | ReadRequest::GetChildren(request)
        | ReadRequest::GetChildren2(request) => request.path.as_deref(),
        ReadRequest::GetAcl(request) | ReadRequest::GetAllChildrenNumber(request) => {
            request.path.as_deref()
        }
        _ => None,
    }
}

/// Checks a reply about one znode.
fn node(
    request: &ReadRequest,
    path: &str,
    zxid: Zxid,
    result: &Result<Bytes, ErrorCode>,
    history: &History,
) -> CheckResult {
    let there = history.get(path, zxid);
    let (Ok(body), Some(node)) = (result, there) else {
        return same(path, zxid, &result.is_ok(), &there.is_some());
    };
    let children = || owned(&history.children(path, zxid));
    match request {
        ReadRequest::Exists(_) => {
            let version = decode::<StatResponse>(body)?.stat.version;
            same(path, zxid, &version, &node.version)
        }
        ReadRequest::GetData(_) => {
            let told = decode::<GetDataResponse>(body)?;
            let told = (told.data, told.stat.version);
            same(path, zxid, &told, &(node.data.clone(), node.version))
        }
        ReadRequest::GetChildren(_) => {
            let told = names(decode::<NamesResponse>(body)?.names);
            same(path, zxid, &told, &children())
        }
        ReadRequest::GetChildren2(_) => {
            let told = decode::<GetChildren2Response>(body)?;
            let count = usize::try_from(told.stat.num_children).unwrap_or(usize::MAX);
            let children = children();
            let expected = (children.len(), children);
            same(path, zxid, &(count, names(told.children)), &expected)
        }
        ReadRequest::GetAcl(_) => {
            let told = decode::<GetAclResponse>(body)?.acl;
            // A client without the ADMIN permission does not see the complete ACL.
            let is_whole = told[..] == node.acl[..] || node.acl.len() == told.len();
            same(path, zxid, &is_whole, &true)
        }
        ReadRequest::GetAllChildrenNumber(_) => {
            let told = decode::<GetAllChildrenNumberResponse>(body)?.total;
            let expected = history.descendants(path, zxid).count();
            let told = usize::try_from(told).unwrap_or(usize::MAX);
            same(path, zxid, &told, &expected)
        }
        _ => Ok(()),
    }
}

/// Checks each read of a multiRead separately.
fn multi(
    reads: &proto::multi::MultiRead,
    body: &Bytes,
    told: ReadReply<'_>,
    history: &History,
) -> CheckResult {
    let proto::multi::MultiRead::Reads(reads) = reads else {
        return Ok(());
    };
    let mut input = Reader::new(body.clone());
    for request in reads {
        let header = decode_from::<MultiHeader>(&mut input)?;
        let from = input.position();
        let result = match OpCode::from_i32(header.op) {
            Some(OpCode::GetData) => {
                decode_from::<GetDataResponse>(&mut input)?;
                Ok(body.slice(from..input.position()))
            }
            Some(OpCode::GetChildren) => {
                decode_from::<NamesResponse>(&mut input)?;
                Ok(body.slice(from..input.position()))
            }
            _ => {
                let code = decode_from::<i32>(&mut input)?;
                Err(ErrorCode::from_i32(code).unwrap_or(ErrorCode::SystemError))
            }
        };
        let result = &result;
        read(request, ReadReply { result, ..told }, history)?;
    }
    Ok(())
}

fn decode<T: Decode>(body: &Bytes) -> Result<T, String> {
    decode_from(&mut Reader::new(body.clone()))
}

fn decode_from<T: Decode>(input: &mut Reader) -> Result<T, String> {
    T::decode(input).map_err(|error| format!("cannot decode a reply: {error}"))
}

fn names(names: Vec<jute::Str>) -> Vec<String> {
    let mut names: Vec<String> = names.iter().map(ToString::to_string).collect();
    names.sort_unstable();
    names
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn same<T: std::fmt::Debug + PartialEq>(
    path: &str,
    zxid: Zxid,
    told: &T,
    expected: &T,
) -> CheckResult {
    if told == expected {
        return Ok(());
    }
    Err(format!(
        "{path} was reported as {told:?} at {zxid} instead of the committed {expected:?}"
    ))
}
