//! Key handling for commands that continue until the user ends them.

use terminal::QuitKey;
use tokio::sync::oneshot;

/// Waits until the user presses Ctrl-C or, with `has_key`, the key `q` on a terminal.
pub(crate) async fn by_user(has_key: bool) {
    let (quit, pressed) = oneshot::channel();
    let listen = || {
        QuitKey::listen(move || {
            // Sending fails only if the command has already ended.
            let _ = quit.send(());
        })
    };
    let _key = has_key.then(listen).flatten();
    let pressed = async {
        if pressed.await.is_err() {
            // No thread is listening for keys.
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = pressed => {}
    }
}
