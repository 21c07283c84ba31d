//! Services whose instances appear and disappear.

use std::collections::BTreeSet;
use std::time::Duration;

use client::Create;
use zoarium_recipes::{
    DownPolicy, Instance, ServiceDiscovery, ServiceProvider, ServiceType, Strategy,
};

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
    assert!(ours.instances("a/b").await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_chooses_by_its_strategy() {
    let server = server();
    let (client, other) = two_clients(&server).await;
    let ours = ServiceDiscovery::new(&client, "/s").unwrap();
    let theirs = ServiceDiscovery::new(&other, "/s").unwrap();
    let start = |strategy| ServiceProvider::start(&theirs, "print", strategy).unwrap();
    let providers = [Strategy::RoundRobin, Strategy::Random, Strategy::Sticky].map(start);
    for provider in &providers {
        provider.is_complete().await.unwrap();
        assert_eq!(provider.choose(), None);
    }
    let ids = ["a", "b", "c"];
    let registered = ids.map(|id| ours.register(&Instance::new("print", id)).unwrap());
    for provider in &providers {
        let all = async || provider.instances().len() == ids.len();
        until("all instances", all).await;
    }
    let choose = |provider: &ServiceProvider| provider.choose().unwrap().id;
    let [round_robin, random, sticky] = providers;
    let chosen: Vec<_> = (0..6).map(|_| choose(&round_robin)).collect();
    assert_eq!(chosen, ["a", "b", "c", "a", "b", "c"]);
    let chosen: BTreeSet<_> = (0..200).map(|_| choose(&random)).collect();
    assert_eq!(chosen.len(), ids.len());
    let same = choose(&sticky);
    assert!((0..20).all(|_| choose(&sticky) == same));

    // After two errors, another instance is chosen.
    let down = Instance::new("print", &same);
    sticky.report_error(&down);
    assert_eq!(choose(&sticky), same);
    sticky.report_error(&down);
    let next = choose(&sticky);
    assert_ne!(next, same);
    assert!((0..20).all(|_| choose(&sticky) == next));
    let brief = DownPolicy {
        errors: 1,
        time: Duration::from_millis(50),
    };
    let brief = random.with_down_policy(brief).unwrap();
    for id in ids {
        brief.report_error(&Instance::new("print", id));
    }
    until("an instance is up", async || brief.choose().is_some()).await;
    let never = DownPolicy {
        errors: 0,
        time: Duration::ZERO,
    };
    assert!(brief.with_down_policy(never).is_err());
    drop(registered);
    until("none", async || sticky.choose().is_none()).await;
    assert!(ServiceProvider::start(&theirs, "a/b", Strategy::Random).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_static_instance_outlives_its_session() {
    let server = server();
    let (client, other) = two_clients(&server).await;
    let ours = ServiceDiscovery::new(&client, "/s").unwrap();
    let theirs = ServiceDiscovery::new(&other, "/s").unwrap();
    let fixed = Instance::new("print", "a").with_type(ServiceType::Static);
    let registered = ours.register(&fixed).unwrap();
    registered.is_there().await.unwrap();
    client.close().await.unwrap();
    until("the end", async || registered.is_there().await.is_err()).await;
    let found = theirs.instances("print").await.unwrap();
    assert_eq!(found, std::slice::from_ref(&fixed));
    // Another client continues the registration, and ends it.
    let stat = other.exists("/s/print/a").await.unwrap().unwrap();
    let continued = theirs.register(&fixed).unwrap();
    continued.is_there().await.unwrap();
    let now = other.exists("/s/print/a").await.unwrap().unwrap();
    assert_eq!(now.czxid, stat.czxid);
    continued.close().await;
    assert_eq!(theirs.instances("print").await.unwrap(), []);
}
