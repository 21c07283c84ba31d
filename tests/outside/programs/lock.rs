// Prints while it holds a lock.

use zoarium_client::{Client, Options};
use zoarium_recipes::{Mutex, Token};

async fn print(token: Token) {
    println!("the printer accepts {token:?}");
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let servers = std::env::var("ZOOKEEPER")?;
    let client = Client::connect(Options::new(&servers).with_renewal()).await?;
    let mutex = Mutex::new(&client, "/locks/printer")?;
    let guard = mutex.acquire().await?;
    tokio::select! {
        () = print(guard.token()) => {}
        cause = guard.wait_until_uncertain() => println!("stopped: {cause:?}"),
    }
    guard.release().await?;
    client.close().await?;
    Ok(())
}
