//! Examples in documents, run as tests.

use std::fmt::Display;
use std::time::Duration;

use client::{Client, Options};

use crate::{Flavour, Server, or_skip};

/// Time limit, which only an example that hangs reaches.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs an example with a client of a separate server.
///
/// # Panics
/// If the example fails, or takes more than a minute.
pub fn documented<E: Display>(example: impl AsyncFnOnce(Client) -> Result<(), E>) {
    let Some(server) = or_skip("an example", Server::start(Flavour::Zoarium)) else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().expect("start a runtime");
    let run = async {
        let options = Options::new(&server.address()).with_renewal();
        let client = Client::connect(options).await.expect("a session");
        example(client).await
    };
    let ended = runtime.block_on(async { tokio::time::timeout(LIMIT, run).await });
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => panic!("the example failed: {error}"),
        Err(_) => panic!("the example is not over after {LIMIT:?}"),
    }
}
