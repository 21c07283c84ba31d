// Waits for one change of a znode, and follows all changes of a subtree.

use zoarium_client::{AddWatchMode, Change, Client, Create, Options, Version};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::connect(Options::new(&std::env::var("ZOOKEEPER")?)).await?;
    client.create("/config", "1", &Create::persistent()).await?;

    // A handle reports one change, also one that happens during a reconnect.
    let (data, _stat, mut watch) = client.watch_data("/config").await?;
    println!("now {data:?}");
    client.set_data("/config", "2", Version::Any).await?;
    let event = watch.changed().await?;
    println!("{:?} of {} by {}", event.kind, event.path, event.zxid);

    let mode = AddWatchMode::PersistentRecursive;
    let mut changes = client.watch_stream("/config", mode).await?;
    client
        .create("/config/new", "3", &Create::persistent())
        .await?;
    match changes.next().await? {
        Change::Event(event) => println!("{:?} of {}", event.kind, event.path),
        Change::Missed => println!("the connection was lost: read the subtree again"),
    }
    client.close().await?;
    Ok(())
}
