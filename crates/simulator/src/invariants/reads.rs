//! A read tells what was committed, as of the zxid of its reply.

use bytes::Bytes;
use jute::{Decode, Reader};
use proto::request::ReadRequest;
use proto::response::{GetDataResponse, NamesResponse};
use proto::{ErrorCode, Zxid};

use super::Held;
use crate::history::History;

pub(crate) const NAME: &str = "reads tell what was committed";

pub(crate) fn read(
    request: &ReadRequest,
    zxid: Zxid,
    result: &Result<Bytes, ErrorCode>,
    history: &History,
) -> Held {
    if zxid > history.end() {
        let end = history.end();
        return Err(format!(
            "a read is answered as of {zxid}, the last that was committed is {end}"
        ));
    }
    match request {
        ReadRequest::GetData(request) => {
            let path = request.path.as_deref().unwrap_or_default();
            let expected = history
                .get(path, zxid)
                .map(|node| (node.data.clone(), node.version));
            let told = match result {
                Ok(body) => {
                    let told = GetDataResponse::decode(&mut Reader::new(body.clone()));
                    let told = told.map_err(|error| format!("getData: {error}"))?;
                    Some((told.data, told.stat.version))
                }
                Err(_) => None,
            };
            same(path, zxid, &told, &expected)
        }
        ReadRequest::GetChildren(request) => {
            let path = request.path.as_deref().unwrap_or_default();
            let told = match result {
                Ok(body) => {
                    let told = NamesResponse::decode(&mut Reader::new(body.clone()));
                    let told = told.map_err(|error| format!("getChildren: {error}"))?;
                    let mut names: Vec<String> =
                        told.names.iter().map(ToString::to_string).collect();
                    names.sort_unstable();
                    Some(names)
                }
                Err(_) => None,
            };
            let expected = history.get(path, zxid).map(|_| {
                let children = history.children(path, zxid);
                children.into_iter().map(str::to_owned).collect::<Vec<_>>()
            });
            same(path, zxid, &told, &expected)
        }
        _ => Ok(()),
    }
}

fn same<T: std::fmt::Debug + PartialEq>(path: &str, zxid: Zxid, told: &T, expected: &T) -> Held {
    if told == expected {
        return Ok(());
    }
    Err(format!(
        "{path} is told as {told:?} at {zxid}, committed is {expected:?}"
    ))
}
