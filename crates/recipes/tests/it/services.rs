//! Services whose instances appear and disappear.

use client::Create;
use recipes::{Instance, ServiceDiscovery};

use crate::cuts::at_every_request;
use crate::support::{expire, server, two_clients, until};

#[tokio::test(flavor = "multi_thread")]
async fn services_are_found_despite_cuts() {
    at_every_request(2, &["/print"], async |through, direct, path| {
        let ours = ServiceDiscovery::new(through, path).unwrap();
        let theirs = ServiceDiscovery::new(direct, path).unwrap();
        let instance = Instance::new("print", "a").at("10.0.0.7", 6310);
        let registered = ours.register(&instance).unwrap();
        registered.is_there().await.unwrap();
        assert_eq!(theirs.names().await.unwrap(), ["print"]);
        assert_eq!(theirs.instances("print").await.unwrap(), vec![instance]);
        assert_eq!(ours.instances("scan").await.unwrap(), []);
        registered.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_are_registered_again_with_the_next_session() {
    let server = server();
    let (client, other) = two_clients(&server).await;
    let ours = ServiceDiscovery::new(&client, "/s").unwrap();
    let theirs = ServiceDiscovery::new(&other, "/s").unwrap();
    let register = |id| ours.register(&Instance::new("print", id)).unwrap();
    let registered = ["a", "b"].map(register);
    let ids = async || {
        let found = theirs.instances("print").await.unwrap();
        found.into_iter().map(|found| found.id).collect::<Vec<_>>()
    };
    until("both", async || ids().await == ["a", "b"]).await;
    let old = client.session();
    expire(&server.address(), old.clone()).await;
    // The old instances are deleted before the next session starts.
    until("a new session", async || client.session_id() != old.id).await;
    until("both again", async || ids().await == ["a", "b"]).await;
    // An unreadable instance of another program is skipped.
    other
        .create("/s/print/c", "{", &Create::ephemeral())
        .await
        .unwrap();
    assert_eq!(ids().await, ["a", "b"]);
    drop(registered);
    until("none", async || ids().await.is_empty()).await;
    assert!(ours.register(&Instance::new("a/b", "c")).is_err());
}
