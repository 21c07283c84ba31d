//! The premature end of a run, by a signal or a panic.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use super::{Options, Record, RunError, legs};
use crate::cluster::{Registered, kill_all, save_logs};
use crate::history::Recorder;
use crate::verdict::Validity;

/// The remains of a run that must be cleaned up. Clones refer to one run.
#[derive(Debug, Clone)]
pub(super) struct Remains {
    out: PathBuf,
    scratch: PathBuf,
    /// Directory with the members' directories.
    homes: PathBuf,
    registered: Registered,
    recorder: Recorder,
    record: Arc<Mutex<Record>>,
}

impl Remains {
    pub(super) fn new(
        options: &Options,
        scratch: &TempDir,
        recorder: Recorder,
        record: Record,
    ) -> Remains {
        Remains {
            out: options.out.clone(),
            scratch: scratch.path().to_path_buf(),
            homes: if options.is_leg {
                legs::members(&options.out)
            } else {
                scratch.path().to_path_buf()
            },
            registered: Registered::default(),
            recorder,
            record: Arc::new(Mutex::new(record)),
        }
    }

    pub(super) fn registered(&self) -> Registered {
        self.registered.clone()
    }

    /// Returns the record for a note. The caller must not await anything while it holds the guard.
    pub(super) fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Saves the members' logs, which are deleted with their members.
    pub(super) fn save_logs(&self) {
        save_logs(&self.homes, &self.out);
    }

    /// Flushes the history, and writes the current record.
    ///
    /// # Errors
    /// If the history or the record cannot be written.
    pub(super) fn save(&self) -> Result<(), RunError> {
        self.recorder.flush().map_err(RunError::History)?;
        self.record().save(&self.out).map_err(RunError::Record)
    }

    /// Cleans up members, logs and files, and ends the process with this code.
    fn end_process(&self, why: &str, code: i32) -> ! {
        // Held to the end, because another thread may be about to start members.
        let _none_starts = kill_all(&self.registered);
        eprintln!(
            "jepsen: {why}; the history so far is in {}",
            self.out.display()
        );
        {
            let mut record = self.record();
            record.validity = Validity::Unknown;
            record.error = Some(why.to_owned());
        }
        self.save_logs();
        if let Err(error) = self.save() {
            eprintln!("jepsen: {error}");
        }
        std::fs::remove_dir_all(&self.scratch).ok();
        std::process::exit(code)
    }

    /// From now on SIGINT, SIGTERM and SIGHUP end the run with complete files.
    pub(super) fn end_on_signals(&self, runtime: &Runtime) {
        for kind in [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
        ] {
            let remains = self.clone();
            runtime.spawn(async move {
                let Ok(mut signals) = signal(kind) else {
                    return;
                };
                if signals.recv().await.is_some() {
                    remains.end_process("interrupted", super::EXIT_UNKNOWN);
                }
            });
        }
    }

    /// Runs `part`. A panic in it, for example of the test harness, becomes an error with its text.
    /// If panics abort (`panic = "abort"`, as in releases), the process ends with complete files.
    pub(super) fn guard<T>(
        &self,
        part: impl FnOnce() -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        if cfg!(panic = "abort") {
            let remains = self.clone();
            std::panic::set_hook(Box::new(move |panic| {
                remains.end_process(&format!("{panic}"), super::EXIT_CANNOT_RUN);
            }));
            return part();
        }
        catch_unwind(AssertUnwindSafe(part))
            .unwrap_or_else(|panic| Err(RunError::Harness(text_of(panic.as_ref()))))
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
    text.unwrap_or_else(|| "a panic without a message".to_owned())
}
