//! The end of a command that continues until the user ends it.

use terminal::QuitKey;
use tokio::sync::oneshot;

/// Waits until the user presses Ctrl-C or, with `has_key`, the key `q` on a terminal.
pub(crate) async fn by_user(has_key: bool) {
    let (quit, pressed) = oneshot::channel();
    let listen = || {
        QuitKey::listen(move || {
            // The command has already ended.
            let _ = quit.send(());
        })
    };
    let _key = has_key.then(listen).flatten();
    let pressed = async {
        if pressed.await.is_err() {
            // No thread listens for keys.
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = pressed => {}
    }
}
