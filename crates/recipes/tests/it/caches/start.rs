//! Requests with which a tree cache starts.

use client::Create;
use tokio::time::Instant;
use zoarium_recipes::TreeCache;

use crate::slow_server::SlowServer;
use crate::support::{both_ways, server};

/// Returns the paths of 1,001 znodes: a root, and directories with files.
fn paths(directories: usize) -> Vec<String> {
    let files = 1000 / directories - 1;
    let mut paths = vec!["/t".to_owned()];
    for directory in 0..directories {
        paths.push(format!("/t/{directory}"));
        paths.extend((0..files).map(|file| format!("/t/{directory}/{file}")));
    }
    assert_eq!(paths.len(), 1001);
    paths
}

#[tokio::test(start_paused = true)]
async fn a_start_is_a_short_chain_of_requests() {
    for directories in [1000, 40] {
        let paths = paths(directories);
        let server = SlowServer::new(&paths);
        let client = server.connect().await;
        let began = Instant::now();
        let cache = TreeCache::start(&client, "/t").unwrap();
        cache.is_complete().await.unwrap();
        let chain = began.elapsed().as_secs();
        assert!((4..=10).contains(&chain), "{directories}: {chain}");
        let requests = server.requests();
        assert!(
            (1001..=1100).contains(&requests),
            "{directories}: {requests}"
        );
        assert_eq!(cache.paths().len(), paths.len());
    }
}

/// This checks the measurement itself: two reads in a chain take two seconds, and a third takes no
/// time.
#[tokio::test(start_paused = true)]
async fn the_length_of_a_chain_is_its_time() {
    let server = SlowServer::new(&["/t".to_owned()]);
    let client = server.connect().await;
    let began = Instant::now();
    let reads = async { (client.get_data("/t").await, client.get_data("/t").await) };
    let (first, second) = tokio::join!(reads, client.get_data("/t"));
    assert!(first.0.is_ok() && first.1.is_ok() && second.is_ok());
    assert_eq!(began.elapsed().as_secs(), 2);
    assert_eq!(server.requests(), 3);
    assert!(client.get_data("/u").await.unwrap_err().is_no_node());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_reads_each_znode_without_children_once() {
    let server = server();
    let (proxy, direct, through) = both_ways(&server).await;
    let mut creation = direct.transaction();
    for path in &paths(40) {
        creation = creation.create(path, path.clone(), &Create::persistent());
    }
    creation.commit().await.unwrap();
    proxy.count();
    let cache = TreeCache::start(&through, "/t").unwrap();
    cache.is_complete().await.unwrap();
    let requests = proxy.count();
    assert!((1001..=1100).contains(&requests), "{requests}");
    assert_eq!(cache.paths().len(), 1001);
    assert_eq!(cache.get("/t/7/3").unwrap().data, "/t/7/3");
}
