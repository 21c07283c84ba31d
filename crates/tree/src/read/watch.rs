//! The operations addWatch, checkWatches and removeWatches, which use only the watches and do not
//! read znodes.

use jute::Encode;
use parking_lot::Mutex;
use proto::ErrorCode;
use proto::request::PathModeRequest;
use proto::response::ErrorResponse;

use super::Caller;
use crate::watch::{Kinds, Watches};

pub(super) fn add(
    request: &PathModeRequest,
    caller: &Caller<'_>,
    watches: &Mutex<Watches>,
    out: &mut Vec<u8>,
) -> Result<(), ErrorCode> {
    let kinds = match request.mode {
        0 => Kinds::PERSISTENT,
        1 => Kinds::RECURSIVE,
        _ => return Err(ErrorCode::MarshallingError),
    };
    watches
        .lock()
        .add(caller.watcher, request.path.as_deref(), kinds);
    ErrorResponse { err: 0 }.encode(out);
    Ok(())
}

pub(super) fn check(
    request: &PathModeRequest,
    caller: &Caller<'_>,
    watches: &Mutex<Watches>,
) -> Result<(), ErrorCode> {
    let kinds = kinds_of(request)?;
    found(
        watches
            .lock()
            .has(caller.watcher, request.path.as_deref(), kinds),
    )
}

pub(super) fn remove(
    request: &PathModeRequest,
    caller: &Caller<'_>,
    watches: &Mutex<Watches>,
) -> Result<(), ErrorCode> {
    let kinds = kinds_of(request)?;
    found(
        watches
            .lock()
            .remove(caller.watcher, request.path.as_deref(), kinds),
    )
}

fn kinds_of(request: &PathModeRequest) -> Result<Kinds, ErrorCode> {
    Kinds::of_request(request.mode).ok_or(ErrorCode::MarshallingError)
}

fn found(found: bool) -> Result<(), ErrorCode> {
    if found {
        Ok(())
    } else {
        Err(ErrorCode::NoWatcher)
    }
}
