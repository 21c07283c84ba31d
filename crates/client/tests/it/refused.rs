//! Requests that the client refuses before it sends them.

use jute::Encode;
use proto::OpCode;
use proto::request::CreateRequest;
use proto::response::CreateResponse;
use zoarium_client::{AddWatchMode, Client, Create, Error, MultiOp, MultiRead, WatchKind};

use crate::support::{FakeConnection, FakeServer, SESSION};

async fn connected() -> (Client, FakeConnection, FakeServer) {
    let server = FakeServer::start().await;
    let (client, (connection, _)) =
        tokio::join!(Client::connect(server.options()), server.accept_session());
    (client.unwrap(), connection, server)
}

fn assert_refused(error: &Error, path: &str, reason: &str) {
    assert!(matches!(error, Error::Path { .. }), "{error}");
    assert_eq!(error.path(), Some(path));
    let expected = format!("{path:?} is not a valid path: {reason}");
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn no_call_sends_an_invalid_path() {
    let (client, mut connection, _server) = connected().await;
    let sequential = Create::persistent().sequential();
    for (path, reason) in [
        ("", "it is empty"),
        ("x", "it does not begin with a slash"),
        ("/a//b", "the name at index 3 is empty"),
        ("/a/./b", "the name that ends at index 3 is \".\" or \"..\""),
        ("/a\0", "it contains NUL at index 2"),
        ("/a\u{7f}", "the character at index 2 is not allowed"),
    ] {
        let refused = |error: Error| assert_refused(&error, path, reason);
        for kind in [Create::persistent(), sequential.clone()] {
            refused(client.create(path, "", &kind).await.unwrap_err());
            let protected = client.create_protected(path, "", &kind).await;
            refused(protected.unwrap_err());
            let good = MultiOp::delete("/good", -1);
            let ops = [good, MultiOp::create(path, "", &kind)];
            refused(client.multi(&ops).await.unwrap_err());
        }
        refused(client.delete(path, -1).await.unwrap_err());
        refused(client.delete_in(SESSION, path, -1).await.unwrap_err());
        refused(client.exists(path).await.unwrap_err());
        refused(client.exists_and_watch(path).await.unwrap_err());
        refused(client.watch_exists(path).await.unwrap_err());
        refused(client.get_data(path).await.unwrap_err());
        refused(client.watch_data(path).await.unwrap_err());
        refused(client.set_data(path, "", -1).await.unwrap_err());
        refused(client.get_acl(path).await.unwrap_err());
        refused(client.set_acl(path, Vec::new(), -1).await.unwrap_err());
        refused(client.get_children(path).await.unwrap_err());
        refused(client.get_children2(path).await.unwrap_err());
        refused(client.watch_children(path).await.unwrap_err());
        refused(client.get_all_children_number(path).await.unwrap_err());
        refused(client.get_ephemerals(path).await.unwrap_err());
        refused(client.sync(path).await.unwrap_err());
        let reads = [MultiRead::Data("/good"), MultiRead::Children(path)];
        refused(client.multi_read(&reads).await.unwrap_err());
        let mode = AddWatchMode::Persistent;
        refused(client.add_watch(path, mode).await.unwrap_err());
        refused(client.watch_stream(path, mode).await.unwrap_err());
        let kind = WatchKind::Data;
        refused(client.has_watch(path, kind).await.unwrap_err());
        refused(client.remove_watches(path, kind).await.unwrap_err());
        client.delete_in_background(path);
    }
    let error = client.exists("/a/").await.unwrap_err();
    assert_refused(&error, "/a/", "it ends with a slash");

    // The first request that arrives is the first with a valid path.
    let served = async {
        let request = connection.expect(OpCode::Create).await;
        let record = request.record::<CreateRequest>();
        assert_eq!(record.path.as_deref(), Some("/a/"));
        let body = CreateResponse {
            path: "/a/1".into(),
        }
        .to_bytes();
        connection.reply(request.header.xid, 1, 0, &body).await;
    };
    let (created, ()) = tokio::join!(client.create("/a/", "", &sequential), served);
    assert_eq!(&*created.unwrap(), "/a/1");
}

#[tokio::test]
async fn a_sequential_container_is_refused() {
    let (client, mut connection, _server) = connected().await;
    let kind = Create::container().sequential();
    let ops = [MultiOp::create("/a", "", &kind)];
    for error in [
        client.create("/a", "", &kind).await.unwrap_err(),
        client.create_protected("/a", "", &kind).await.unwrap_err(),
        client.multi(&ops).await.unwrap_err(),
    ] {
        let expected = "cannot create /a: a container cannot be sequential";
        assert_eq!(error.to_string(), expected);
    }
    let served = async {
        let request = connection.expect(OpCode::Exists).await;
        connection.reply(request.header.xid, 5, -101, &[]).await;
    };
    let (result, ()) = tokio::join!(client.exists("/a"), served);
    assert_eq!(result.unwrap(), None);
}
