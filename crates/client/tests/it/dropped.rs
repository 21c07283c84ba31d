//! Test that the compiler warns of every handle that is dropped immediately.

#![deny(unfulfilled_lint_expectations)]

use zoarium_client::{AddWatchMode, Client, Create, Handshake, MultiOp, Options, RawConnection};

/// Drops each kind of handle. Without a warning, this function does not compile.
async fn drop_handles(client: &Client) -> zoarium_client::Result<()> {
    #[expect(unused_must_use)]
    Client::connect(Options::new("")).await?;
    #[expect(unused_must_use)]
    client.watch_data("/a").await?;
    #[expect(unused_must_use)]
    client.watch_exists("/a").await?;
    #[expect(unused_must_use)]
    client.watch_children("/a").await?;
    #[expect(unused_must_use)]
    client.watch_stream("/a", AddWatchMode::Persistent).await?;
    #[expect(unused_must_use)]
    client
        .create_protected("/a", "", &Create::ephemeral())
        .await?;
    #[expect(unused_must_use)]
    client.hand_over().await;
    #[expect(unused_must_use)]
    client.state();
    #[expect(unused_must_use)]
    client.events();
    #[expect(unused_must_use)]
    RawConnection::open(&"".into(), &Handshake::default()).await?;
    #[expect(unused_must_use)]
    Create::persistent().sequential();
    #[expect(unused_must_use)]
    MultiOp::delete("/a", -1);
    #[expect(unused_must_use)]
    client.transaction().delete("/a", -1);
    #[expect(unused_must_use)]
    Options::new("").in_order();
    Ok(())
}

#[test]
fn a_dropped_handle_is_a_warning() {
    // It has been compiled.
    let _ = drop_handles;
}
