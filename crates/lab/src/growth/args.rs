//! The options of `zoarium-lab growth`.

use std::path::PathBuf;

use bench::measure::{ServersArgs, TurnsArgs};
use clap::Args;

/// Options of `zoarium-lab growth`.
#[derive(Debug, Args)]
pub(crate) struct GrowthArgs {
    #[command(flatten)]
    pub(crate) servers: ServersArgs,
    #[command(flatten)]
    pub(crate) turns: TurnsArgs,
    /// Measures only these axes, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "AXIS")]
    pub(crate) only: Vec<String>,
    /// Last value of an axis, such as `znodes=1000000`
    #[arg(long, value_name = "AXIS=NUMBER", value_parser = end_of_axis)]
    pub(crate) upto: Vec<(String, u32)>,
    /// Last value of an axis for the second server, if it is lower
    #[arg(long, value_name = "AXIS=NUMBER", value_parser = end_of_axis, requires = "versus")]
    pub(crate) versus_upto: Vec<(String, u32)>,
    /// Ensemble for the axis `voters`: number of members, and their client ports
    #[arg(long, value_name = "NUMBER=HOST:PORT,...", value_parser = ensemble)]
    pub(crate) voters: Vec<EnsembleArg>,
    /// Second ensemble for the axis `voters`, for a comparison
    #[arg(long, value_name = "NUMBER=HOST:PORT,...", value_parser = ensemble)]
    pub(crate) versus_voters: Vec<EnsembleArg>,
    /// Ensemble for the axis `observers`: number of members, of which three vote, and their client ports
    #[arg(long, value_name = "NUMBER=HOST:PORT,...", value_parser = ensemble)]
    pub(crate) observers: Vec<EnsembleArg>,
    /// Second ensemble for the axis `observers`, for a comparison
    #[arg(long, value_name = "NUMBER=HOST:PORT,...", value_parser = ensemble)]
    pub(crate) versus_observers: Vec<EnsembleArg>,
    /// Name of the server in tables and charts, instead of its address
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Name of the second server in tables and charts, instead of its address
    #[arg(long, value_name = "NAME")]
    pub(crate) versus_name: Option<String>,
    /// Directory for growth.md, growth.json and a chart of each axis
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
    /// Prints the report as JSON instead of Markdown
    #[arg(long)]
    pub(crate) json: bool,
}

/// An ensemble, with its number of members.
#[derive(Debug, Clone)]
pub(crate) struct EnsembleArg {
    pub(crate) size: u32,
    pub(crate) servers: String,
}

/// Parses `znodes=1000000`.
fn end_of_axis(text: &str) -> Result<(String, u32), String> {
    let (axis, end) = text.split_once('=').ok_or("write AXIS=NUMBER")?;
    let end = end
        .parse()
        .map_err(|_| format!("{end:?} is not a number"))?;
    Ok((axis.to_owned(), end))
}

/// Parses `3=one:2181,two:2181,three:2181`.
fn ensemble(text: &str) -> Result<EnsembleArg, String> {
    let (size, servers) = text.split_once('=').ok_or("write NUMBER=HOST:PORT,...")?;
    let size = size.parse();
    Ok(EnsembleArg {
        size: size.map_err(|_| "the text before = is not a number".to_owned())?,
        servers: servers.to_owned(),
    })
}
