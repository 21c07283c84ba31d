//! The common scenario with the Rust client `zookeeper-client`. `tests/src/scenario.rs` describes
//! the messages between program and test.

mod secured;
mod steps;
mod talk;

use std::time::Duration;

use talk::{Outcome, patient, say};
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions};

/// Path of the subtree in which all steps work.
pub const BASE: &str = "/rust";
/// ACL that permits everything to every client.
pub const OPEN: Acls<'static> = Acls::anyone_all();

/// Returns options of a znode that every client may use.
pub const fn node(mode: CreateMode) -> CreateOptions<'static> {
    mode.with_acls(OPEN)
}

/// Opens a session with the given timeout.
pub async fn connect(address: &str, timeout: Duration) -> Outcome<Client> {
    let connector = Client::connector().with_session_timeout(timeout);
    let connector = secured::secure(connector)?;
    let connecting = async {
        if secured::is_tls() {
            connector.secure_connect(address).await
        } else {
            connector.connect(address).await
        }
    };
    Ok(patient("connection", connecting).await??)
}

async fn hold(address: &str, path: &str) -> Outcome<()> {
    let client = connect(address, Duration::from_secs(2)).await?;
    client
        .create(path, b"", &node(CreateMode::Ephemeral))
        .await?;
    say("holding");
    std::future::pending().await
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [address, "hold", path] => hold(address, path).await,
        [address, "protected", entry] => secured::protected(address, entry).await,
        [address] => steps::scenario(address).await,
        _ => Err("usage: scenario HOST:PORT [hold PATH]".into()),
    };
    match outcome {
        Ok(()) => say("passed"),
        Err(reason) => {
            say(&format!("failed {reason}"));
            std::process::exit(1);
        }
    }
}
