//! The log of a server: lines on stderr, as text or JSON. Its levels can be changed at runtime.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use metrics::log_levels::{LEVELS_BYTES_MAX, LOG_LEVELS};
use metrics::recent_log::RECENT_LOG;
use tokio::signal::unix::Signal;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::MakeWriterExt;
use tracing_subscriber::reload::Handle;

use crate::start::log_output;

/// Default levels.
pub(crate) const DEFAULT_LEVELS: &str = "info";

/// Environment variable that contains the format of the lines if no option sets it.
const FORMAT_VARIABLE: &str = "ZOARIUM_LOG_FORMAT";

/// Form and levels of the log.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct LogArgs {
    /// Form of the log lines [default: $ZOARIUM_LOG_FORMAT, then text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    /// File with the log levels (`info,zoarium_zab=debug`), read at the start and after each SIGHUP
    #[arg(long, value_name = "FILE")]
    log_levels: Option<PathBuf>,
}

/// Form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// Text for people
    Text,
    /// JSON, one object per line
    Json,
}

/// Initial settings of the log, needed for a reload.
#[derive(Debug)]
pub(crate) struct Logging {
    /// Whether the lines are JSON, for programs.
    pub(crate) is_json: bool,
    file: Option<PathBuf>,
    /// Levels that apply without a file.
    levels: String,
}

/// Starts the log. The levels come from the file or, without a file, from `ZOARIUM_LOG` or
/// `RUST_LOG`, in this order and in the syntax of tracing. If none is set, `default` applies.
///
/// # Errors
/// If the file or the format is invalid, or if standard error is closed.
pub(crate) fn start(args: LogArgs, default: &str) -> Result<Logging, String> {
    let format = match args.log_format {
        Some(format) => format,
        None => format_of_environment()?,
    };
    let chosen = std::env::var("ZOARIUM_LOG").or_else(|_| std::env::var("RUST_LOG"));
    let logging = Logging {
        is_json: format == LogFormat::Json,
        file: args.log_levels,
        levels: chosen.unwrap_or_else(|_| default.to_owned()),
    };
    let (levels, filter) = match &logging.file {
        Some(file) => {
            let levels = read(file)?;
            let filter = EnvFilter::try_new(&levels);
            let filter = filter.map_err(|error| format!("{}: {error}", file.display()))?;
            (levels, filter)
        }
        None => (logging.levels.clone(), EnvFilter::new(&logging.levels)),
    };
    let output = log_output::begin()
        .map_err(|error| format!("cannot write the log to standard error: {error}"))?;
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(output.and(|| &RECENT_LOG))
        .with_ansi(io::stderr().is_terminal());
    // `set_global_default` fails only if the process already has a log, which is not an error.
    match format {
        LogFormat::Text => {
            let subscriber = subscriber.with_filter_reloading();
            begin(&levels, subscriber.reload_handle());
            let _ = tracing::subscriber::set_global_default(subscriber.finish());
        }
        LogFormat::Json => {
            let subscriber = subscriber.json().with_ansi(false).with_filter_reloading();
            begin(&levels, subscriber.reload_handle());
            let _ = tracing::subscriber::set_global_default(subscriber.finish());
        }
    }
    Ok(logging)
}

fn format_of_environment() -> Result<LogFormat, String> {
    match std::env::var(FORMAT_VARIABLE) {
        Ok(text) if !text.is_empty() => LogFormat::from_str(&text, false)
            .map_err(|_| format!("{FORMAT_VARIABLE} is `{text}`, but must be `text` or `json`")),
        _ => Ok(LogFormat::Text),
    }
}

fn begin<S: 'static>(levels: &str, handle: Handle<EnvFilter, S>) {
    let apply = move |levels: &str| {
        let filter = EnvFilter::try_new(levels).map_err(|error| error.to_string())?;
        handle.reload(filter).map_err(|error| error.to_string())
    };
    LOG_LEVELS.begin(levels, Box::new(apply));
}

fn read(file: &Path) -> Result<String, String> {
    blocking::mark("read the log levels");
    let mut text = String::new();
    let limit = u64::try_from(LEVELS_BYTES_MAX).unwrap_or(u64::MAX);
    // One byte above the limit is read to detect a file that is too long.
    let found = File::open(file).and_then(|open| open.take(limit + 1).read_to_string(&mut text));
    match found {
        Ok(_) if text.len() > LEVELS_BYTES_MAX => Err(format!(
            "{}: the file of log levels has more than {LEVELS_BYTES_MAX} bytes",
            file.display()
        )),
        Ok(_) if text.trim().is_empty() => Err(format!(
            "{}: the file does not contain log levels",
            file.display()
        )),
        Ok(_) => Ok(text.trim().to_owned()),
        Err(error) => Err(format!("{}: {error}", file.display())),
    }
}

impl Logging {
    /// Applies the levels in the file at each SIGHUP, or the initial levels without a file. Never
    /// ends.
    pub(crate) async fn follow(self, hang_up: io::Result<Signal>) {
        let mut hang_up = match hang_up {
            Ok(hang_up) => hang_up,
            Err(error) => {
                tracing::warn!(err = %error, "cannot listen for SIGHUP, so SIGHUP will stop this server");
                return std::future::pending().await;
            }
        };
        while hang_up.recv().await.is_some() {
            let levels = match self.file.clone() {
                Some(file) => {
                    let reading = blocking::run(move || read(&file)).await;
                    reading.unwrap_or_else(|error| Err(error.to_string()))
                }
                None => Ok(self.levels.clone()),
            };
            let changed = levels.and_then(|levels| {
                let changed = LOG_LEVELS.change(&levels);
                changed.map_err(|error| error.to_string())
            });
            match changed {
                Ok(()) => tracing::info!(
                    levels = LOG_LEVELS.current(),
                    "log levels changed by SIGHUP"
                ),
                Err(error) => tracing::error!(
                    err = error,
                    "cannot change the log levels, keeping the present levels"
                ),
            }
        }
    }
}
