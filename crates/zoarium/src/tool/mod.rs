//! Common parts of the tools: limits, errors and exit codes. docs/COMMANDS.md contains the table of
//! exit codes.

pub(crate) mod output;

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use ::cli::exit;
use clap::Args;
use client::admin::AdminError;
use client::changes::ChangesError;
use datadir::ReadSettings;
use history::HistoryError;
use history::ask::AskError;
pub(crate) use history::parse_zxid;
use jute::Limits;
use storage::StorageError;

/// Exit code for a configuration with which a server would not start.
pub(crate) const NO_GO: u8 = 3;

/// Reason why a tool failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    #[error("{0}")]
    Storage(#[from] StorageError),
    #[error("cannot print: {0}")]
    Output(#[from] io::Error),
    #[error("{0}")]
    History(#[from] HistoryError),
    #[error("{0}")]
    Ask(#[from] AskError),
    #[error("{0}")]
    Admin(#[from] AdminError),
    #[error("{0}")]
    Client(#[from] client::Error),
    #[error("{0}")]
    Changes(#[from] ChangesError),
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Refused(String),
}

impl From<datadir::Error> for ToolError {
    fn from(error: datadir::Error) -> Self {
        match error {
            datadir::Error::Storage(error) => Self::Storage(error),
            datadir::Error::Print(error) => Self::Output(error),
            datadir::Error::Usage(text) => Self::Usage(text),
            datadir::Error::Refused(text) => Self::Refused(text),
        }
    }
}

impl ToolError {
    /// Prints the error on stderr and returns the exit code. A closed output is not an error.
    pub(crate) fn report(&self, tool: &str) -> ExitCode {
        match self {
            Self::Output(error) | Self::Storage(StorageError::Io { source: error, .. })
                if error.kind() == io::ErrorKind::BrokenPipe =>
            {
                ExitCode::SUCCESS
            }
            _ => {
                terminal::complain!("zoarium {tool}: {self}");
                ExitCode::from(self.exit_code())
            }
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => exit::USAGE,
            Self::NotFound(_) | Self::Ask(AskError::NoZnode { .. }) => exit::NOT_FOUND,
            Self::Ask(AskError::Parameter { .. }) => exit::USAGE,
            Self::Ask(AskError::History(error)) | Self::History(error) => match error {
                HistoryError::NoPermission { .. } => exit::DENIED,
                _ => exit::FAILED,
            },
            Self::Admin(error) | Self::Changes(ChangesError::Refused(error)) => admin_code(error),
            Self::Client(error) => exit::of_client(error),
            Self::Storage(_)
            | Self::Output(_)
            | Self::Ask(_)
            | Self::Changes(_)
            | Self::Refused(_) => exit::FAILED,
        }
    }
}

fn admin_code(error: &AdminError) -> u8 {
    match error {
        AdminError::Unreachable { .. } => exit::UNREACHABLE,
        AdminError::Refused { status, .. } => match status.as_u16() {
            401 | 403 => exit::DENIED,
            404 => exit::NOT_FOUND,
            _ => exit::FAILED,
        },
        _ => exit::FAILED,
    }
}

/// Maximum `jute.maxbuffer` that does not need a flag, bytes. A tool does not know the
/// configuration of the server that wrote the files. Together with the extra size, this is the
/// length up to which every server reads a record of a log.
const MAX_BUFFER: usize = storage::log::scan::RECORD_BYTES_MAX / 2;

/// Limit for the size of fields.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct LimitArgs {
    /// `jute.maxbuffer` of the server that wrote the files, if it is higher than this default
    #[arg(long, default_value_t = MAX_BUFFER, value_name = "BYTES")]
    pub(crate) jute_maxbuffer: usize,
}

impl LimitArgs {
    pub(crate) fn limits(self) -> Limits {
        // The default of the extra size is the size of the buffer. Source: BinaryInputArchive.
        Limits::from_max_buffer(self.jute_maxbuffer, self.jute_maxbuffer)
    }

    /// Returns the settings for reading a data directory. Skipped snapshots are reported on stderr.
    pub(crate) fn read_settings(self) -> ReadSettings {
        ReadSettings {
            limits: self.limits(),
            on_skipped: |error| terminal::complain!("zoarium: {error}; trying an older snapshot"),
        }
    }
}

/// Formats a number with its noun.
pub(crate) fn number(count: impl Display, noun: &str) -> String {
    let count = count.to_string();
    let plural = if count == "1" { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Returns a function for `map_err` that adds the operation and the file.
pub(crate) fn file_error(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> ToolError + use<> {
    let described = datadir::file_error(action, path);
    move |error| described(error).into()
}
