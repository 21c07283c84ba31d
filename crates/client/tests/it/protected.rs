//! Protected creations with lost answers, and their background work.

use crate::support::{FakeConnection, FakeServer, PASSWORD, Received, SESSION, soon};
use jute::Encode;
use proto::request::{CreateRequest, PathRequest, PathVersionRequest};
use proto::response::{Create2Response, NamesResponse, StatResponse, SyncResponse};
use proto::{OpCode, SessionId, Stat};
use zoarium_client::{Client, Create, Error};

async fn connected(server: &FakeServer) -> (Client, FakeConnection) {
    let (client, (connection, _)) = tokio::join!(
        Client::connect(server.options().with_renewal()),
        server.accept_session()
    );
    (client.unwrap(), connection)
}

fn stat_of(owner: SessionId) -> Stat {
    Stat {
        czxid: 70,
        ephemeral_owner: owner.0,
        ..Stat::default()
    }
}

/// Returns the name in a creation, without the directory.
fn name_in(request: &Received) -> String {
    let path = request.record::<CreateRequest>().path.unwrap();
    let name = path.strip_prefix("/locks/").unwrap().to_owned();
    assert!(
        name.starts_with("_c_") && name.ends_with("-lock-"),
        "{name}"
    );
    assert_eq!(name.len(), "_c_".len() + 36 + "-lock-".len());
    name
}

async fn answer_create(connection: &mut FakeConnection, request: &Received, owner: SessionId) {
    let path = format!("/locks/{}0000000007", name_in(request)).into();
    let stat = stat_of(owner);
    let body = Create2Response { path, stat }.to_bytes();
    connection.reply(request.header.xid, 70, 0, &body).await;
}

/// Answers a search for a znode with these children.
async fn answer_look(connection: &mut FakeConnection, names: &[&str]) {
    let sync = connection.expect(OpCode::Sync).await;
    let path = sync.record::<PathRequest>().path.unwrap();
    assert_eq!(&*path, "/locks");
    let path = Some(path);
    let body = SyncResponse { path }.to_bytes();
    connection.reply(sync.header.xid, 80, 0, &body).await;
    let list = connection.expect(OpCode::GetChildren).await;
    let names = names.iter().map(|name| (*name).into()).collect();
    let body = NamesResponse { names }.to_bytes();
    connection.reply(list.header.xid, 80, 0, &body).await;
}

async fn answer_exists(connection: &mut FakeConnection, owner: SessionId) {
    let exists = connection.expect(OpCode::Exists).await;
    let stat = stat_of(owner);
    let body = StatResponse { stat }.to_bytes();
    connection.reply(exists.header.xid, 80, 0, &body).await;
}

async fn answer_delete(connection: &mut FakeConnection) -> String {
    let delete = connection.expect(OpCode::Delete).await;
    connection.reply(delete.header.xid, 90, 0, &[]).await;
    let path = delete.record::<PathVersionRequest>().path.unwrap();
    path.to_string()
}

fn kind() -> Create {
    Create::ephemeral().sequential()
}

#[tokio::test]
async fn a_creation_without_a_reply_is_found_again() {
    let server = FakeServer::start().await;
    let (client, mut first) = connected(&server).await;
    let kind = kind();
    let created = client.create_protected("/locks/lock-", "me", &kind);
    let served = async {
        let name = name_in(&first.expect(OpCode::Create2).await);
        drop(first);
        let (mut second, _) = server.accept_session().await;
        let node = format!("{name}0000000003");
        answer_look(&mut second, &["_c_other-lock-0000000002", &node]).await;
        answer_exists(&mut second, SESSION).await;
        (node, second)
    };
    let (created, (node, _second)) = tokio::join!(created, served);
    let created = created.unwrap();
    assert_eq!(&*created.path, format!("/locks/{node}"));
    assert_eq!(created.stat.czxid, 70);
}

#[tokio::test]
async fn an_unexecuted_creation_is_repeated_with_the_same_name() {
    let server = FakeServer::start().await;
    let (client, mut first) = connected(&server).await;
    let kind = kind();
    let created = client.create_protected("/locks/lock-", "me", &kind);
    let served = async {
        let name = name_in(&first.expect(OpCode::Create2).await);
        drop(first);
        let (mut second, _) = server.accept_session().await;
        // The connection is also lost during the search.
        second.expect(OpCode::Sync).await;
        drop(second);
        let (mut third, _) = server.accept_session().await;
        answer_look(&mut third, &[]).await;
        let again = third.expect(OpCode::Create2).await;
        assert_eq!(name_in(&again), name);
        answer_create(&mut third, &again, SESSION).await;
        // The server executes the first request after all. The client deletes its znode.
        let (late, own) = (format!("{name}0000000006"), format!("{name}0000000007"));
        answer_look(&mut third, &[&late, &own]).await;
        assert_eq!(answer_delete(&mut third).await, format!("/locks/{late}"));
        third
    };
    let (created, _third) = tokio::join!(created, served);
    assert!(created.unwrap().path.ends_with("-lock-0000000007"));
}

#[tokio::test]
async fn a_znode_of_an_older_session_is_not_adopted() {
    let server = FakeServer::start().await;
    let (client, mut first) = connected(&server).await;
    let kind = kind();
    let created = client.create_protected("/locks/lock-", "me", &kind);
    let next = SessionId(0x99);
    let served = async {
        let name = name_in(&first.expect(OpCode::Create2).await);
        drop(first);
        let mut second = server.accept().await;
        second.read_connect().await;
        second.refuse().await;
        let mut third = server.accept().await;
        third.read_connect().await;
        third.grant_as(30_000, next).await;
        let node = format!("{name}0000000003");
        answer_look(&mut third, &[&node]).await;
        // A server that lags still shows the znode.
        answer_exists(&mut third, SESSION).await;
        // The client deletes the znode and creates one with another name, in either order.
        let mut deleted = None;
        let mut other = None;
        while deleted.is_none() || other.is_none() {
            let request = third.any().await;
            let xid = request.header.xid;
            match OpCode::from_i32(request.header.op) {
                Some(OpCode::Create2) => {
                    other = Some(name_in(&request));
                    answer_create(&mut third, &request, next).await;
                }
                Some(OpCode::Sync) => {
                    let path = Some("/locks".into());
                    third
                        .reply(xid, 80, 0, &SyncResponse { path }.to_bytes())
                        .await;
                }
                Some(OpCode::GetChildren) => {
                    let names = vec![node.as_str().into()];
                    third
                        .reply(xid, 80, 0, &NamesResponse { names }.to_bytes())
                        .await;
                }
                Some(OpCode::Delete) => {
                    deleted = request.record::<PathVersionRequest>().path;
                    third.reply(xid, 81, 0, &[]).await;
                }
                unexpected => panic!("{unexpected:?}"),
            }
        }
        assert_eq!(deleted.unwrap(), format!("/locks/{node}"));
        assert_ne!(other.unwrap(), name);
        third
    };
    let (created, _third) = tokio::join!(created, served);
    assert_eq!(created.unwrap().stat.ephemeral_owner, next.0);
}

#[tokio::test]
async fn a_dropped_creation_leaves_no_znode() {
    let server = FakeServer::start().await;
    let (client, mut first) = connected(&server).await;
    let kind = kind();
    let created = client.create_protected("/locks/lock-", "me", &kind);
    let request = tokio::select! {
        _ = created => panic!("nobody answered"),
        request = first.expect(OpCode::Create2) => request,
    };
    // The search and the deletion continue on new connections.
    drop(first);
    let node = format!("{}0000000003", name_in(&request));
    let (mut second, _) = server.accept_session().await;
    answer_look(&mut second, &["_c_other-lock-0000000002", &node]).await;
    second.expect(OpCode::Delete).await;
    drop(second);
    let (mut third, _) = server.accept_session().await;
    assert_eq!(answer_delete(&mut third).await, format!("/locks/{node}"));
}

#[tokio::test]
async fn a_refused_creation_sends_no_more_requests() {
    let server = FakeServer::start().await;
    let (client, mut connection) = connected(&server).await;
    let kind = kind();
    let created = client.create_protected("/locks/lock-", "me", &kind);
    let served = async {
        let request = connection.expect(OpCode::Create2).await;
        connection.reply(request.header.xid, 1, -101, &[]).await;
    };
    let (created, ()) = tokio::join!(created, served);
    assert_eq!(created.unwrap_err().code(), Some(proto::ErrorCode::NoNode));
    client.delete_in_background("/a");
    assert_eq!(answer_delete(&mut connection).await, "/a");
}

#[tokio::test]
async fn background_work_is_finished_after_the_last_handle() {
    let server = FakeServer::start().await;
    let (client, mut connection) = connected(&server).await;
    client.delete_in_background("/a");
    drop(client);
    assert_eq!(answer_delete(&mut connection).await, "/a");
    connection.closed_by_client().await;
    assert_eq!(PASSWORD.len(), 16);
}

#[tokio::test]
async fn without_a_server_a_creation_fails_and_leaves_nothing() {
    let server = FakeServer::start().await;
    let granting = async {
        let mut connection = server.accept().await;
        connection.read_connect().await;
        connection.grant(200).await;
        connection
    };
    let (client, mut first) = tokio::join!(Client::connect(server.options()), granting);
    let client = client.unwrap();
    let kind = kind();
    let created = client.create_protected("/locks/lock-", "me", &kind);
    let address = server.address.clone();
    let served = async {
        let name = name_in(&first.expect(OpCode::Create2).await);
        drop(first);
        drop(server);
        name
    };
    let (created, name) = tokio::join!(created, served);
    let error = created.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    let server = soon("the port", FakeServer::start_at(&address)).await;
    let (mut second, _) = server.accept_session().await;
    let node = format!("{name}0000000003");
    answer_look(&mut second, &[&node]).await;
    assert_eq!(answer_delete(&mut second).await, format!("/locks/{node}"));
}
