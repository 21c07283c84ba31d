// Injects faults into an ensemble in this process.

use zoarium::testing::TestEnsemble;
use zoarium_client::{Client, Options};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut ensemble = TestEnsemble::builder()
        .members(3)
        .observers(1)
        .start()
        .await?;
    let client = Client::connect(Options::new(&ensemble.connect_string())).await?;
    let leader = ensemble.leader().expect("it serves");
    ensemble.partition(&[leader]);
    ensemble.wait_until_serving().await?;
    ensemble.heal();
    ensemble.kill(leader).await?;
    ensemble.restart(leader).await?;
    ensemble.expire(client.session_id()).await?;
    ensemble.stop().await?;
    Ok(())
}
