//! Thread that writes the audit log.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use config::AuditSettings;
use metrics::audit::{self, AuditLog, DatedLines};
use metrics::dates::LocalDates;
use metrics::environment::Environment;
use parking_lot::Mutex;

use super::file::RollingFile;

/// Audit log of a server, with the thread that writes it.
#[derive(Debug)]
pub struct AuditWriter {
    log: Arc<AuditLog>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl AuditWriter {
    /// Opens the file and starts the thread that writes it. `wall_ms` returns the time since 1970,
    /// in ms.
    ///
    /// # Errors
    /// If the file cannot be opened or the thread cannot be started.
    pub fn start(settings: &AuditSettings, wall_ms: fn() -> i64) -> io::Result<Self> {
        let file = RollingFile::open(&settings.file, settings.file_bytes_max, settings.files_kept)?;
        let environment = Environment::of_this_process();
        let log = Arc::new(AuditLog::new(settings, environment.user_name(), wall_ms));
        let mut writer = Writer {
            file,
            log: log.clone(),
            dates: LocalDates::of_this_machine(),
            troubles: Troubles::default(),
        };
        let thread = std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || writer.run())?;
        tracing::info!(file = %settings.file.display(), "writing changes to the audit log");
        Ok(Self {
            log,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Returns the log, which accepts lines.
    pub fn log(&self) -> &Arc<AuditLog> {
        &self.log
    }

    /// Closes the queue, and waits until the queued lines are in the file.
    pub fn finish(&self) {
        blocking::mark("wait for the audit thread");
        self.log.end();
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the audit thread panicked");
        }
    }
}

/// State of the audit thread.
struct Writer {
    file: RollingFile,
    log: Arc<AuditLog>,
    dates: LocalDates,
    troubles: Troubles,
}

impl Writer {
    fn run(&mut self) {
        loop {
            let (taken, lost) = self.log.take();
            self.troubles.tell_lost(lost);
            if taken.is_empty() {
                return;
            }
            for dated in &taken {
                self.append(dated);
            }
            let flushed = self.file.flush();
            self.troubles.note(flushed);
        }
    }

    /// Appends lines. Source: the pattern `%d{ISO8601} %p %c{2}: %m%n` of conf/logback.xml.
    fn append(&mut self, DatedLines { wall_ms, lines }: &DatedLines) {
        let date = self.dates.iso8601(*wall_ms);
        lines.write_lines(|level, text| {
            let line = format!("{date} {level} {}: {text}", audit::LOGGER);
            let appended = self.file.append(&line);
            self.troubles.note(appended);
        });
    }
}

/// Failures that have been logged. Failures of the file are logged at a limited rate.
#[derive(Default)]
struct Troubles {
    logged_at: Option<Instant>,
    lost_told: u64,
}

/// Minimum time between two log lines about the file.
const ERROR_LOGGED_EVERY: Duration = Duration::from_secs(10);

impl Troubles {
    fn note(&mut self, outcome: io::Result<()>) {
        let Err(error) = outcome else { return };
        let is_due = self
            .logged_at
            .is_none_or(|at| at.elapsed() >= ERROR_LOGGED_EVERY);
        if is_due {
            self.logged_at = Some(Instant::now());
            tracing::error!(err = %error, "cannot write the audit log, lines may be missing");
        }
    }

    fn tell_lost(&mut self, lost: u64) {
        if lost > self.lost_told {
            tracing::error!(
                lost = lost - self.lost_told,
                lost_in_all = lost,
                "audit lines were dropped because the queue was full; raise auditlog.queueSize, or set auditlog.neverBlock=false so that requests wait"
            );
            self.lost_told = lost;
        }
    }
}
