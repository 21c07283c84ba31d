//! Standard output for results that may be long, and whose reader may close it early.

use std::fmt::Arguments;
use std::io::{self, BufWriter, Write};

use clap::ValueEnum;
use serde_json::Value;

/// Form of a command's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Text for people
    #[value(alias = "text")]
    Table,
    /// JSON, one object per line
    Json,
    /// YAML, one document per object
    Yaml,
}

impl Output {
    /// Writes one object as JSON or YAML. `json` is the object as JSON and may contain line breaks.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub(crate) fn write_object(
        self,
        value: &Value,
        json: Arguments<'_>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        match self {
            Self::Yaml => out.write_all(::cli::yaml(value).as_bytes()),
            Self::Json | Self::Table => writeln!(out, "{json}"),
        }
    }

    /// Writes one object as one line of JSON or as one YAML document.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub(crate) fn write_line(self, value: &Value, out: &mut dyn Write) -> io::Result<()> {
        self.write_object(value, format_args!("{value}"), out)
    }

    /// Returns the corresponding format for commands that have a session.
    pub(crate) fn format(self) -> ::cli::Format {
        match self {
            Self::Table => ::cli::Format::Text,
            Self::Json => ::cli::Format::Json,
            Self::Yaml => ::cli::Format::Yaml,
        }
    }
}

/// Writes to standard output through one large buffer. Returns the result of `write`. An error of
/// the last flush is treated like any earlier error.
///
/// # Errors
/// If `write` fails, or if the output cannot be written.
pub(crate) fn write_stdout<T, E: From<io::Error>>(
    write: impl FnOnce(&mut dyn Write) -> Result<T, E>,
) -> Result<T, E> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, terminal::stdout());
    let value = write(&mut out)?;
    out.flush()?;
    Ok(value)
}

const BUFFER_BYTES: usize = 64 << 10;
