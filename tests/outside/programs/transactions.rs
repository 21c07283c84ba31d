// Executes writes together, or none of them.

use zoarium_client::{Client, Create, Options, Version};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::connect(Options::new(&std::env::var("ZOOKEEPER")?)).await?;
    let create = Create::persistent();
    client.create("/accounts", "", &create).await?;
    client.create("/accounts/a", "100", &create).await?;
    client.create("/accounts/b", "0", &create).await?;

    let (_, a) = client.get_data("/accounts/a").await?;
    client
        .transaction()
        .set_data("/accounts/a", "60", a.version)
        .set_data("/accounts/b", "40", Version::Any)
        .create("/accounts/transfer-", "40", &create.clone().sequential())
        .commit()
        .await?;

    // The version has changed, so the server executes neither operation.
    let repeated = client
        .transaction()
        .set_data("/accounts/a", "60", a.version)
        .delete("/accounts/b", Version::Any)
        .commit()
        .await;
    match repeated {
        Err(error) if error.is_bad_version() => println!("{:?} has changed", error.path()),
        other => println!("{:?}", other?),
    }
    client.close().await?;
    Ok(())
}
