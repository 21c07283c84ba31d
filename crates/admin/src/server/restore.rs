//! `restore`: replaces the tree of this server. Source: RestoreCommand.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::Incoming;
use jute::Limits;
use proto::Zxid;
use recovery::Restore;
use storage::{Compression, Disk as _, RealDisk, SnapshotFile, read_snapshot};
use tokio::sync::{OwnedMutexGuard, oneshot};
use tree::{Tree, TreeSettings};

use super::Admin;
use crate::answer::{Answer, Object};
use crate::http::{Activity, Workers};
use crate::served::{RestoreOrder, Served};

/// Reasons why a restore failed.
#[derive(Debug, thiserror::Error)]
enum RestoreError {
    #[error("the upload was interrupted: {0}")]
    Upload(hyper::Error),
    #[error("cannot write the upload to {}: {source}", path.display())]
    Disk {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{0}")]
    Content(String),
    #[error("the server is stopping")]
    Ending,
}

/// Settings with which a snapshot is read.
struct SnapshotSettings {
    tree: Arc<TreeSettings>,
    limits: Limits,
}

/// File for an upload that may be incomplete. Readers of the directory do not treat it as a
/// snapshot.
const UPLOAD: &str = "unfinished.restore";

impl Admin {
    /// Restores an upload. The checks are in Java's order and precede the receipt of the upload.
    pub(super) async fn restore(
        &self,
        served: &Served,
        body: Incoming,
        activity: &Activity,
    ) -> Answer {
        if !self.config.admin.restore_enabled {
            return Answer::refused(StatusCode::SERVICE_UNAVAILABLE);
        }
        if !self.config.storage.serialize_last_processed_zxid {
            tracing::warn!(
                "restore refused: restores require serializeLastProcessedZxid.enabled=true"
            );
            return Answer::refused(StatusCode::INTERNAL_SERVER_ERROR);
        }
        let metrics = &served.view.metrics();
        if self.config.ensemble.is_some() {
            let reason = "restore refused, because a member of an ensemble receives its data from the leader: restore a standalone server, or the files of all members while they are stopped";
            tracing::error!(reason, "restore failed");
            metrics.restore_error_count.inc();
            let fields = Object::new().with("error", reason);
            let mut answer = Answer::found(fields);
            answer.status = StatusCode::INTERNAL_SERVER_ERROR;
            return answer;
        }
        let is_allowed = self.limits.lock().restore.allow(self.started.elapsed());
        let (true, Ok(only_one)) = (is_allowed, self.restoring.clone().try_lock_owned()) else {
            metrics.restore_rate_limited_count.inc();
            return Answer::refused(StatusCode::TOO_MANY_REQUESTS);
        };
        let begun = std::time::Instant::now();
        match self.replace(served, body, only_one, activity).await {
            Ok(zxid) => {
                let elapsed = begun.elapsed().as_millis();
                metrics
                    .restore_time
                    .record(u64::try_from(elapsed).unwrap_or(u64::MAX));
                Answer::found(Object::new().with("last_zxid", zxid.0))
            }
            Err(error) => {
                tracing::error!(err = %error, "restore failed");
                metrics.restore_error_count.inc();
                Answer::refused(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    }

    /// Receives and restores the upload. Returns the last transaction of the restored tree.
    async fn replace(
        &self,
        served: &Served,
        body: Incoming,
        only_one: OwnedMutexGuard<()>,
        activity: &Activity,
    ) -> Result<Zxid, RestoreError> {
        let only_one = Arc::new(only_one);
        let upload = Upload {
            path: served.dirs.snap.join(UPLOAD),
            workers: self.workers.clone(),
            only_one: only_one.clone(),
        };
        if let Err(error) = upload.take_in(body).await {
            let removing = self.workers.run(move |_| upload.remove());
            removing.await.map_err(|_| RestoreError::Ending)?;
            return Err(error);
        }
        let _at_work = activity.begin();
        let settings = SnapshotSettings {
            tree: served.view.tree().read().settings().clone(),
            limits: served.record_limits,
        };
        let restore = served.operations.restore.clone();
        let workers = self.workers.clone();
        // The restore continues if the caller disconnects, because the next restore must not begin
        // before this one has ended.
        let replacing = tokio::spawn(async move {
            let replaced = load_and_replace(upload, settings, &workers, &*restore).await;
            drop(only_one);
            replaced
        });
        replacing.await.map_err(|_| RestoreError::Ending)?
    }
}

async fn load_and_replace(
    upload: Upload,
    settings: SnapshotSettings,
    workers: &Workers,
    restore: &(dyn Fn(RestoreOrder) + Send + Sync),
) -> Result<Zxid, RestoreError> {
    let loading = workers.run(move |_| {
        let loaded = load(&upload.path, settings);
        upload.remove();
        loaded
    });
    let (tree, zxid) = loading.await.map_err(|_| RestoreError::Ending)??;
    let (done, restored) = oneshot::channel();
    restore(RestoreOrder {
        tree: Box::new(tree),
        done,
    });
    restored.await.map_err(|_| RestoreError::Ending)?;
    Ok(zxid)
}

/// Uploaded file, which is removed before another restore may begin. [`Upload::remove`] removes it
/// before the answer. If the client has disconnected, dropping the value removes it.
struct Upload {
    path: PathBuf,
    workers: Workers,
    only_one: Arc<OwnedMutexGuard<()>>,
}

impl Upload {
    async fn take_in(&self, mut body: Incoming) -> Result<(), RestoreError> {
        let failed = |source| RestoreError::Disk {
            path: self.path.clone(),
            source,
        };
        let path = self.path.clone();
        let creating = self.workers.run(move |_| RealDisk.create(&path));
        let created = creating.await.map_err(|_| RestoreError::Ending)?;
        let file = created.map_err(failed)?;
        let file = Arc::new(file);
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(RestoreError::Upload)?.into_data() else {
                continue;
            };
            let file = file.clone();
            let writing = self.workers.run(move |_| (&*file).write_all(&data));
            let written = writing.await.map_err(|_| RestoreError::Ending)?;
            written.map_err(failed)?;
        }
        Ok(())
    }

    /// Removes the file on the current thread, which must be a thread for admin work.
    fn remove(mut self) {
        remove_upload(&std::mem::take(&mut self.path));
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let path = std::mem::take(&mut self.path);
        if path.as_os_str().is_empty() {
            return;
        }
        let only_one = self.only_one.clone();
        // If a client disconnects, the upload is dropped on a thread of the runtime, which must not
        // block.
        self.workers.discard(move || {
            remove_upload(&path);
            drop(only_one);
        });
    }
}

fn remove_upload(path: &Path) {
    if let Err(error) = RealDisk.remove(path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(file = %path.display(), err = %error, "cannot remove an uploaded file");
    }
}

/// Returns the tree of a snapshot whose checksums are all valid, and its last transaction.
#[allow(clippy::disallowed_methods, reason = "runs on a thread for admin work")]
fn load(path: &Path, settings: SnapshotSettings) -> Result<(Tree, Zxid), RestoreError> {
    let content = |error: String| RestoreError::Content(error);
    let len = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    let file = SnapshotFile {
        // The upload does not contain the name of the snapshot, which would include its zxid.
        zxid: Zxid::ZERO,
        path: path.to_path_buf(),
        len: Some(len),
        compression: Compression::None,
    };
    let mut restore = Restore::new(settings.tree);
    let info = read_snapshot(&RealDisk, &file, settings.limits, &mut restore)
        .map_err(|error| content(error.to_string()))?;
    let Some(zxid) = info.last_zxid else {
        let reason = "the snapshot does not contain the zxid of its last transaction";
        return Err(content(reason.to_owned()));
    };
    let mut tree = restore.into_tree();
    if tree.unrecognised_ttls() > 0 {
        let reason = "the snapshot contains TTL znodes: set extendedTypesEnabled=true";
        return Err(content(reason.to_owned()));
    }
    let recorded = info.digest.filter(|digest| digest.zxid == zxid);
    if recorded.is_some_and(|recorded| recorded.digest != tree.digest().cast_signed()) {
        tracing::warn!(%zxid, "the digest of the snapshot does not match its tree, because the snapshot was taken during writes or digests are off");
    }
    tree.raise_last_zxid(zxid);
    Ok((tree, zxid))
}
