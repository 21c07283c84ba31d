// Connects over TLS, and logs in by name and password.

use zoarium_client::tls::ClientStores;
use zoarium_client::{Client, Connector, Login, Options, Secret};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let servers = std::env::var("ZOOKEEPER")?;
    let stores = ClientStores::trusting(std::env::var("ZOOKEEPER_CA")?);
    let options = Options::new(&servers)
        .with_connector(Connector::of_client(&stores)?)
        .with_login(Login::digest_md5("bob", Secret::new("secret")));
    let client = Client::connect(options).await?;
    for identity in client.who_am_i().await? {
        println!("{} {}", identity.scheme, identity.user);
    }
    client.close().await?;
    Ok(())
}
