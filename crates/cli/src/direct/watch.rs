//! Command `watch`, which prints changes of the live tree.

use proto::watch::EventType;
use serde_json::json;

use crate::commands::watches::each_event;
use crate::exit;
use crate::failure::Failure;
use crate::shell::Shell;

/// Prints a line for each change below a path until the limit, Ctrl-C or the end of the session.
pub(super) async fn watch(
    shell: &mut Shell,
    path: &str,
    limit: Option<u64>,
) -> Result<(), Failure> {
    let mut left = limit.unwrap_or(u64::MAX);
    if left == 0 {
        return Ok(());
    }
    let followed = each_event(shell, path, |shell, event| {
        let time = jiff::Timestamp::now().to_string();
        let (zxid, path) = (
            format!("0x{:x}", event.zxid.0),
            shell.without_chroot(&event.path),
        );
        let (path, operation) = (path.to_owned(), operation(event.kind));
        shell.show(
            || json!({ "time": time, "zxid": zxid, "operation": operation, "path": path }),
            || format!("{time} {zxid} {operation} {path}"),
        );
        left -= 1;
        left > 0
    });
    followed.await.map_err(|failure| match failure.exit {
        exit::FAILED => failure.with_exit(exit::UNREACHABLE),
        _ => failure,
    })
}

/// Returns the change history's name for the operation that caused an event.
fn operation(kind: EventType) -> &'static str {
    match kind {
        EventType::NodeCreated => "create",
        EventType::NodeDeleted => "delete",
        EventType::NodeDataChanged => "set",
        EventType::NodeChildrenChanged => "other",
    }
}
