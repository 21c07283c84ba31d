// Writes data of ZooKeeper only while it holds a lock.

use zoarium_client::{Client, Create, MultiOp, Options, Version};
use zoarium_recipes::Mutex;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::new(&std::env::var("ZOOKEEPER")?).with_renewal();
    let client = Client::connect(options).await?;
    client.create("/page", "", &Create::persistent()).await?;
    let guard = Mutex::new(&client, "/locks/page")?.acquire().await?;
    let write = MultiOp::set_data("/page", "text", Version::Any);
    client.multi(&[guard.check(), write]).await?;
    guard.release().await?;
    client.close().await?;
    Ok(())
}
