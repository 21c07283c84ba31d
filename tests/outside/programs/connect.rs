// Connects, follows the state of the session, and repeats reads after a lost connection.

use std::time::Duration;

use zoarium_client::{Client, Create, Options, State};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Such as zk1:2181,zk2:2181,zk3:2181/app
    let servers = std::env::var("ZOOKEEPER")?;
    let options = Options::new(&servers)
        .with_session_timeout(Duration::from_secs(10))
        .with_wait(Duration::from_secs(30))
        .with_renewal();
    let client = Client::connect(options).await?;

    let mut states = client.state();
    tokio::spawn(async move {
        while states.changed().await.is_ok() {
            match &*states.borrow_and_update() {
                State::Connected {
                    server, session, ..
                } => println!("{session} is at {server}"),
                // Another client may have the locks of this session from now on.
                State::Lost | State::Expired => println!("stop the work"),
                state => println!("{state:?}"),
            }
        }
    });

    client.ensure_path("/app").await?;
    match client
        .create("/app/greeting", "hello", &Create::persistent())
        .await
    {
        Err(error) if error.is_node_exists() => println!("{} exists", error.path().unwrap_or("?")),
        created => println!("created {}", created?),
    }
    let (data, stat) = client.retry(|| client.get_data("/app/greeting")).await?;
    println!("version {} is {data:?}", stat.version);
    client.close().await?;
    Ok(())
}
