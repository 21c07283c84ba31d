//! Tests of starting and stopping on one directory.

use std::sync::Arc;

use zoarium_server::{Server, StartError};

use crate::raw::{TestServer, config, create, op, path};

#[test]
fn sessions_and_their_ephemerals_outlive_a_restart() {
    let server = TestServer::start("maxSessionTimeout=4000\n");
    let mut raw = server.session();
    assert_eq!(raw.call(op::CREATE, &create("/mine", b"", 1)).err, 0);
    let (session, password) = (raw.session, raw.password.clone());
    let directory = server.stop();
    assert!(raw.is_closed_in_silence());
    let server = TestServer::start_in(directory, "maxSessionTimeout=4000\n");
    let mut again = server.connect();
    assert_eq!(again.handshake(session, &password), session);
    assert_eq!(again.call(op::EXISTS, &path("/mine")).err, 0);
    assert_eq!(again.call(op::CLOSE, &[]).err, 0);
    assert_eq!(server.session().call(op::EXISTS, &path("/mine")).err, -101);
}

#[test]
fn an_expired_session_is_removed_with_its_ephemerals() {
    let server = TestServer::start("maxSessionTimeout=400\n");
    let mut raw = server.session();
    assert_eq!(raw.call(op::CREATE, &create("/mine", b"", 1)).err, 0);
    assert!(
        raw.is_closed_in_silence(),
        "it stopped sending, so it expires"
    );
    let mut other = server.session();
    assert_eq!(other.call(op::EXISTS, &path("/mine")).err, -101);
    assert_eq!(server.connect().handshake(raw.session, &raw.password), 0);
}

#[test]
fn a_directory_in_use_is_refused() {
    let server = TestServer::start("");
    let second = config(server.directory.path(), "");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let refused = runtime.block_on(Server::start(Arc::new(second)));
    let Err(StartError::Storage(error)) = refused.map(drop) else {
        panic!("two servers on one directory")
    };
    assert!(error.to_string().contains("in use"), "{error}");
    assert_eq!(server.session().call(op::EXISTS, &path("/")).err, 0);
}

#[test]
fn a_port_in_use_is_refused_with_exit_code_1() {
    let server = TestServer::start("");
    let directory = tempfile::tempdir().unwrap();
    let port = server.address.port();
    let second = config(directory.path(), &format!("clientPort={port}\n"));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let Err(error) = runtime.block_on(Server::start(Arc::new(second))).map(drop) else {
        panic!("two servers on one port")
    };
    assert_eq!(error.exit_code(), 1);
    assert!(error.to_string().contains(&port.to_string()), "{error}");
}
