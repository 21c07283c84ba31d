//! The client crate with a real server.

use std::time::Duration;

use client::{
    AddWatchMode, Client, Create, Error, MultiOp, MultiRead, MultiReadResult, MultiResult, Options,
    RawConnection, WatchKind,
};
use proto::watch::EventType;
use proto::{Acl, ErrorCode, data::perms};

use crate::support::RunningServer;

async fn connect(server: &RunningServer) -> Client {
    Client::connect(Options::new(&server.address))
        .await
        .unwrap()
}

#[tokio::test]
async fn znodes_are_created_read_changed_and_deleted() {
    let server = RunningServer::start();
    let client = connect(&server).await;
    let persistent = Create::persistent();
    assert_eq!(&*client.create("/a", "1", &persistent).await.unwrap(), "/a");
    let (path, stat) = client
        .create2("/a/n-", "x", &Create::persistent().sequential())
        .await
        .unwrap();
    assert_eq!((&*path, stat.data_length), ("/a/n-0000000000", 1));
    client
        .create_without_data("/a/null", &persistent)
        .await
        .unwrap();
    client
        .create("/a/c", "", &Create::container())
        .await
        .unwrap();
    assert_eq!(client.get_data("/a/null").await.unwrap().0, None);
    assert_eq!(
        client.get_data("/a/c").await.unwrap().0.as_deref(),
        Some(&b""[..])
    );

    let stat = client.set_data("/a", "22", 0).await.unwrap();
    assert_eq!((stat.version, stat.data_length), (1, 2));
    let error = client.set_data("/a", "3", 0).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::BadVersion));
    assert_eq!(client.exists("/nothing").await.unwrap(), None);
    assert_eq!(client.get_children("/a").await.unwrap().len(), 3);
    assert_eq!(client.get_all_children_number("/a").await.unwrap(), 3);
    client.sync("/a").await.unwrap();

    let acl = vec![Acl::new(perms::READ | perms::ADMIN, "world", "anyone")];
    client.set_acl("/a/c", acl.clone(), -1).await.unwrap();
    assert_eq!(client.get_acl("/a/c").await.unwrap().0, acl);
    client.delete("/a/c", -1).await.unwrap();
    let error = client.delete("/a", -1).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NotEmpty));
    client.close().await.unwrap();
}

#[tokio::test]
async fn multi_is_all_or_nothing() {
    let server = RunningServer::start();
    let client = connect(&server).await;
    let ops = [
        MultiOp::create("/m", "1", &Create::persistent()),
        MultiOp::create("/m/e", "", &Create::ephemeral().with_stat()),
        MultiOp::set_data("/m", "2", 0),
        MultiOp::check("/m", 1),
        MultiOp::delete("/m/e", -1),
    ];
    let results = client.multi(&ops).await.unwrap();
    assert!(
        matches!(&results[1], MultiResult::Created { stat: Some(stat), .. }
        if stat.ephemeral_owner == client.session_id().0)
    );
    assert!(matches!(&results[2], MultiResult::Set(stat) if stat.version == 1));
    assert_eq!(results[3..], [MultiResult::Checked, MultiResult::Deleted]);

    let ops = [
        MultiOp::set_data("/m", "3", -1),
        MultiOp::delete("/missing", -1),
    ];
    let error = client.multi(&ops).await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Multi {
                index: 1,
                code: -101,
                ..
            }
        ),
        "{error}"
    );
    let reads = [MultiRead::Data("/m"), MultiRead::Children("/missing")];
    let results = client.multi_read(&reads).await.unwrap();
    assert!(matches!(&results[0], MultiReadResult::Data(Some(data), _) if &**data == b"2"));
    assert_eq!(results[1], MultiReadResult::Failed(-101));
}

#[tokio::test]
async fn watches_of_every_kind_bring_events() {
    let server = RunningServer::start();
    let client = connect(&server).await;
    let mut events = client.events();
    let mut seen = async || {
        let event = events.try_recv().unwrap();
        (event.kind, event.path.to_string())
    };
    assert_eq!(client.exists_and_watch("/w").await.unwrap(), None);
    client
        .create("/w", "", &Create::persistent())
        .await
        .unwrap();
    assert_eq!(seen().await, (EventType::NodeCreated, "/w".to_owned()));
    client.get_children2_and_watch("/w").await.unwrap();
    client
        .create("/w/c", "", &Create::persistent())
        .await
        .unwrap();
    assert_eq!(
        seen().await,
        (EventType::NodeChildrenChanged, "/w".to_owned())
    );
    client
        .add_watch("/w", AddWatchMode::PersistentRecursive)
        .await
        .unwrap();
    client.set_data("/w/c", "x", -1).await.unwrap();
    assert_eq!(
        seen().await,
        (EventType::NodeDataChanged, "/w/c".to_owned())
    );
    let kind = WatchKind::PersistentRecursive;
    assert!(client.has_watch("/w", kind).await.unwrap());
    client.remove_watches("/w", kind).await.unwrap();
    assert!(!client.has_watch("/w", kind).await.unwrap());
}

#[tokio::test]
async fn a_session_is_taken_over_with_its_ephemerals() {
    let server = RunningServer::start();
    let client = connect(&server).await;
    client.add_auth("digest", "user:pass").await.unwrap();
    let who = client.who_am_i().await.unwrap();
    assert!(
        who.iter()
            .any(|info| &*info.scheme == "digest" && &*info.user == "user")
    );
    client.create("/e", "", &Create::ephemeral()).await.unwrap();
    client
        .create("/watched", "", &Create::persistent())
        .await
        .unwrap();
    client.get_data_and_watch("/watched").await.unwrap();
    let mut events = client.events();

    // Another client with the session's password takes over the session. The first client resumes
    // the session, with credentials and watches.
    let handshake = client::Handshake::default().with_session(client.session());
    let address = server.address.as_str().into();
    match RawConnection::open(&address, &handshake).await {
        Ok(thief) => assert_eq!(thief.accepted.session.id, client.session_id()),
        // The client may reconnect before this handshake is answered.
        Err(Error::Handshake { .. }) => {}
        Err(other) => panic!("{other}"),
    }
    let ephemerals = loop {
        match client.get_ephemerals("/").await {
            Ok(ephemerals) => break ephemerals,
            Err(Error::ConnectionLost { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(ephemerals.len(), 1);
    let other = connect(&server).await;
    other.set_data("/watched", "x", -1).await.unwrap();
    let event = tokio::time::timeout(Duration::from_secs(20), events.recv()).await;
    assert_eq!(&*event.unwrap().unwrap().path, "/watched");
    let who = client.who_am_i().await.unwrap();
    assert!(who.iter().any(|info| &*info.scheme == "digest"), "{who:?}");

    client.close().await.unwrap();
    assert_eq!(other.exists("/e").await.unwrap(), None);
}

#[tokio::test]
async fn subtrees_are_created_and_deleted_while_others_change_them() {
    let server = RunningServer::start();
    let client = connect(&server).await;
    for _ in 0..2 {
        client.ensure_path("/t/a/b").await.unwrap();
    }
    let persistent = Create::persistent();
    let paths: Vec<String> = (0..300).map(|n| format!("/t/a/b/{n}")).collect();
    let creation = |path: &String| MultiOp::create(path, "", &persistent);
    let creations: Vec<MultiOp> = paths.iter().map(creation).collect();
    client.multi(&creations).await.unwrap();
    let other = connect(&server).await;
    let changing = tokio::spawn(async move {
        for number in 0..200 {
            // The parent may be deleted.
            let _ = other.ensure_path(&format!("/t/new/{number}")).await;
            let _ = other.delete(&format!("/t/a/b/{number}"), -1).await;
        }
    });
    // A dropped call can be repeated.
    let limit = Duration::from_millis(5);
    let _ = tokio::time::timeout(limit, client.delete_all("/t")).await;
    if let Err(error) = client.delete_all("/t").await {
        assert!(error.is_not_empty(), "{error}");
    }
    changing.await.unwrap();
    client.delete_all("/t").await.unwrap();
    assert_eq!(client.exists("/t").await.unwrap(), None);
    client.delete_all("/t").await.unwrap();

    client.ensure_path("/closed/old").await.unwrap();
    let readers = vec![Acl::new(perms::READ, "world", "anyone")];
    client.set_acl("/closed", readers, -1).await.unwrap();
    client.ensure_path("/closed/old").await.unwrap();
    let error = client.ensure_path("/closed/new").await.unwrap_err();
    assert!(error.is_no_auth(), "{error}");
    assert_eq!(error.path(), Some("/closed/new"));
}
