//! Downloads the snapshot and the log of a running server into a data directory.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use blocking::files;
use client::admin::{AdminClient, AdminError, FILE, SILENCE_LIMIT, unreachable};
use http_body_util::BodyExt;
use proto::Zxid;
use storage::DataDirs;
use tokio::time::Instant;

use crate::tool::{ToolError, file_error, parse_zxid};

/// Maximum time until the server's disk contains everything that the server has committed.
const WRITTEN_LIMIT: Duration = Duration::from_secs(60);
/// Interval between two queries of the server.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// Requests a snapshot from the server and downloads it. The name of the snapshot contains its
/// zxid.
pub(super) async fn snapshot(client: &AdminClient, to: &DataDirs) -> Result<(), ToolError> {
    let unfinished = to.snap.join("unfinished.snapshot");
    let (zxid, _) = download(client, "snapshot", &[], &unfinished).await?;
    let path = to.snap.join(format!("snapshot.{:x}", zxid.0));
    files::replace(&unfinished, &path).map_err(file_error("rename", &path))
}

/// Downloads the log after a transaction, at least up to `least`.
pub(super) async fn log(
    client: &AdminClient,
    after: Zxid,
    least: Zxid,
    to: &DataDirs,
) -> Result<(), ToolError> {
    let begun = Instant::now();
    let path = to.log.join(format!("log.{:x}", after.0));
    let parameters = [("after".to_owned(), format!("{:#x}", after.0))];
    loop {
        let (upto, server) = download(client, "backup/log", &parameters, &path).await?;
        if upto >= least {
            return check_end(&path, upto, after, &server);
        }
        if begun.elapsed() > WRITTEN_LIMIT {
            let reason = format!("its log ends at {upto}, but its snapshot ends at {least}");
            return Err(unreachable(&server, &reason).into());
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// Checks that a download is complete. The connection reports a truncated reply as an error, but a
/// proxy may hide the error.
fn check_end(path: &Path, upto: Zxid, after: Zxid, server: &str) -> Result<(), ToolError> {
    let dir = path.parent().and_then(Path::parent).unwrap_or(path);
    let dirs = DataDirs::unlocked(dir, dir);
    let last = storage::last_logged_zxid(
        &storage::RealDisk,
        &dirs,
        jute::Limits::from_max_buffer(MAX, MAX),
    )?;
    if upto > after && last != Some(upto) {
        let reason = format!("its log ends before transaction {upto}");
        return Err(unreachable(server, &reason).into());
    }
    Ok(())
}

/// Maximum size of a record, bytes. Every request that a server accepted must fit.
const MAX: usize = 1 << 30;

/// Downloads the body of a reply into a file. Returns the transaction that the reply's header
/// names, and the server that sent it.
async fn download(
    client: &AdminClient,
    command: &str,
    parameters: &[(String, String)],
    path: &Path,
) -> Result<(Zxid, String), ToolError> {
    let (server, response) = client.open(command, parameters, FILE).await?;
    let failed = |reason: &dyn std::fmt::Display| ToolError::Admin(unreachable(&server, reason));
    let header = response.headers().get("last_zxid");
    let zxid = header
        .and_then(|value| value.to_str().ok())
        .and_then(|text| parse_zxid(text).ok())
        .ok_or_else(|| failed(&"the server does not report its last transaction"))?;
    let mut file = files::create(path).map_err(file_error("create", path))?;
    let mut body = response.into_body();
    loop {
        let frame = tokio::time::timeout(SILENCE_LIMIT, body.frame()).await;
        let Some(frame) = frame.map_err(|_| failed(&"the server stopped sending data"))? else {
            break;
        };
        let frame = frame.map_err(|error| failed(&error))?;
        if let Ok(data) = frame.into_data() {
            file.write_all(&data).map_err(file_error("write", path))?;
        }
    }
    Ok((zxid, server))
}

/// Replaces the error of a server that does not support downloads of its log with advice. Returns
/// other errors unchanged.
pub(super) fn explained(error: ToolError) -> ToolError {
    match error {
        ToolError::Admin(AdminError::Refused { server, text, .. })
            if text.contains("backup/log") =>
        {
            ToolError::Refused(format!(
                "{server} does not support downloads of its log (Apache ZooKeeper never does); back up its files with --data-dir"
            ))
        }
        other => other,
    }
}
