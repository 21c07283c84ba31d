//! What the tools for files have in common: limits, zxids, errors and exit codes.
//!
//! Exit codes: 0 all is well; 1 a file is damaged or something failed; 2 the command line makes
//! no sense (as clap has it); 3 `preflight` or `config check` found what keeps a server from
//! starting ([`NO_GO`]). docs/OPERATIONS.md has the table.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
pub(crate) use history::parse_zxid;
use jute::Limits;
use storage::StorageError;

/// A server would not start.
pub(crate) const NO_GO: u8 = 3;

/// Why a tool gave up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    #[error("{0}")]
    Storage(#[from] StorageError),
    #[error("cannot print: {0}")]
    Output(#[from] io::Error),
    #[error("{0}")]
    History(#[from] history::HistoryError),
    #[error("{0}")]
    Ask(#[from] history::ask::AskError),
    #[error("{0}")]
    Admin(#[from] client::admin::AdminError),
    #[error("{0}")]
    Client(#[from] client::Error),
    #[error("{0}")]
    Changes(#[from] client::changes::ChangesError),
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Refused(String),
}

impl ToolError {
    /// Says it on stderr, unless a reader of the output only had enough of it.
    pub(crate) fn report(&self, tool: &str) -> ExitCode {
        match self {
            Self::Output(error) | Self::Storage(StorageError::Io { source: error, .. })
                if error.kind() == io::ErrorKind::BrokenPipe =>
            {
                ExitCode::SUCCESS
            }
            Self::Usage(_) => {
                terminal::complain!("zoarium {tool}: {self}");
                ExitCode::from(2)
            }
            _ => {
                terminal::complain!("zoarium {tool}: {self}");
                ExitCode::FAILURE
            }
        }
    }
}

/// Largest `jute.maxbuffer` for which no flag is needed. A tool does not know the configuration of
/// the server that wrote its files. With the extra size this is the length up to which every server
/// reads a record of a log.
const MAX_BUFFER: usize = storage::log::scan::RECORD_BYTES_MAX / 2;

/// How large fields may be.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct LimitArgs {
    /// `jute.maxbuffer` of the server that wrote the files, if it is higher than the default here
    #[arg(long, default_value_t = MAX_BUFFER, value_name = "BYTES")]
    pub(crate) jute_maxbuffer: usize,
}

impl LimitArgs {
    pub(crate) fn limits(self) -> Limits {
        // The extra size defaults to the buffer's. Source: BinaryInputArchive.
        Limits::from_max_buffer(self.jute_maxbuffer, self.jute_maxbuffer)
    }
}

/// Where the files are when `dir` is a dataDir: its `version-2`, if it has one.
pub(crate) fn files_dir(dir: &Path) -> PathBuf {
    let versioned = dir.join("version-2");
    if versioned.is_dir() {
        versioned
    } else {
        dir.to_path_buf()
    }
}
