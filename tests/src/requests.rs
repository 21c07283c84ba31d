//! Short forms of requests.

use bytes::Bytes;
use proto::multi::request_acl;
use proto::request::{
    CreateRequest, PathRequest, PathVersionRequest, PathWatchRequest, ReadRequest, Request,
    SetAclRequest, SetDataRequest, WriteRequest,
};
use proto::{Acl, OpCode};

fn path_watch(path: &str) -> PathWatchRequest {
    PathWatchRequest {
        path: Some(path.into()),
        watch: false,
    }
}

fn path_version(path: &str, version: i32) -> PathVersionRequest {
    PathVersionRequest {
        path: Some(path.into()),
        version,
    }
}

/// Returns a getData request.
pub fn get_data(path: &str) -> Request {
    Request::Read(ReadRequest::GetData(path_watch(path)))
}

/// Returns an exists request with a watch.
pub fn exists_watched(path: &str) -> Request {
    Request::Read(ReadRequest::Exists(PathWatchRequest {
        watch: true,
        ..path_watch(path)
    }))
}

/// Returns a getChildren request.
pub fn get_children(path: &str) -> Request {
    Request::Read(ReadRequest::GetChildren(path_watch(path)))
}

/// Returns a getACL request.
pub fn get_acl(path: &str) -> Request {
    let path = Some(path.into());
    Request::Read(ReadRequest::GetAcl(PathRequest { path }))
}

/// Returns a create request with flags of [`proto::request::flags`].
pub fn create(path: &str, data: impl Into<Bytes>, flags: i32) -> WriteRequest {
    create_with(
        OpCode::Create,
        path,
        Some(data.into()),
        flags,
        &[Acl::open()],
        -1,
    )
}

/// Returns any of the four create requests.
pub fn create_with(
    op: OpCode,
    path: &str,
    data: Option<Bytes>,
    flags: i32,
    acl: &[Acl],
    ttl: i64,
) -> WriteRequest {
    let request = CreateRequest {
        path: Some(path.into()),
        data,
        acl: request_acl(acl.iter().cloned()),
        flags,
    };
    WriteRequest::Create { op, request, ttl }
}

/// Returns a delete request. Version -1 matches any version.
pub fn delete(path: &str, version: i32) -> WriteRequest {
    WriteRequest::Delete(path_version(path, version))
}

/// Returns a check for a multi.
pub fn check(path: &str, version: i32) -> WriteRequest {
    WriteRequest::Check(path_version(path, version))
}

/// Returns a setData request. Version -1 matches any version.
pub fn set_data(path: &str, data: impl Into<Bytes>, version: i32) -> WriteRequest {
    WriteRequest::SetData(SetDataRequest {
        path: Some(path.into()),
        data: Some(data.into()),
        version,
    })
}

/// Returns a setACL request. Version -1 matches any version.
pub fn set_acl(path: &str, acl: &[Acl], version: i32) -> WriteRequest {
    WriteRequest::SetAcl(SetAclRequest {
        path: Some(path.into()),
        acl: request_acl(acl.iter().cloned()),
        version,
    })
}

/// Returns a multi.
pub fn multi(writes: Vec<WriteRequest>) -> WriteRequest {
    WriteRequest::Multi(Ok(writes))
}
