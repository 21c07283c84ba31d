//! The errors of a server inside another program.

use std::io;

use config::ConfigError;
use server::StartError;

/// Reason why a server inside another program does not start, or why it stops.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// [`crate::ServerBuilder::data_dir`] was not called.
    #[error("a server needs a directory for its data: call data_dir()")]
    NoDataDir,
    /// The path of the data directory is relative to a current directory that does not exist.
    #[error("cannot resolve the path of the data directory: {0}")]
    Directory(io::Error),
    /// The settings are refused. The message contains the key, the reason and advice.
    #[error("{0}")]
    Settings(String),
    /// The settings require Kerberos, whose library reads this value only from the environment of
    /// the process.
    #[error(
        "Kerberos logins require the environment variable {name}={value}: set it before the program starts"
    )]
    Environment {
        /// Name of the variable.
        name: &'static str,
        /// Required value.
        value: String,
    },
    /// The data directory cannot be recovered, or an address cannot be bound.
    #[error("{text}")]
    Start {
        /// Error message of the server.
        text: String,
        /// Exit code with which a process of `zoarium server` would end. Source: ExitCode.
        exit_code: u8,
    },
    /// The system cannot start a thread.
    #[error("cannot start the threads of a server: {0}")]
    Threads(io::Error),
    /// The server failed (for example, its disk is full or a sync failed) and has stopped. Its log
    /// lines contain the reason.
    #[error("the server failed and stopped (exit code {exit_code}); its log contains the reason")]
    Failed {
        /// Exit code with which a process of `zoarium server` would end. Source: ExitCode.
        exit_code: u8,
    },
    /// An ensemble did not serve in time.
    #[error("{0}")]
    NotServing(String),
    /// An operation or a resource of a test server failed.
    #[error("{what}: {why}")]
    Test {
        /// Name of the operation or resource.
        what: &'static str,
        /// Reason for the failure.
        why: String,
    },
    /// The server was stopped.
    #[error("the server was stopped")]
    Stopped,
}

impl From<ConfigError> for ServerError {
    fn from(error: ConfigError) -> Self {
        Self::Settings(error.to_string())
    }
}

impl From<StartError> for ServerError {
    fn from(error: StartError) -> Self {
        Self::Start {
            text: error.to_string(),
            exit_code: error.exit_code(),
        }
    }
}
