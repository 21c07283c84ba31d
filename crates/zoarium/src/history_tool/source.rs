//! Sources of a history: the files of a stopped server, or running servers.

use std::path::PathBuf;

use clap::Args;
use client::admin::AdminClient;
use history::ask::Question;
use history::{Reader, Viewer};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use super::merge;
use super::origins::{self, Origins};
use crate::live::address::AddressArgs;
use crate::tool::ToolError;
use crate::tool::output::Output;

/// Reason for a missing client if files are read.
const OF_FILES: &str = "these files contain only the clients of one member";

/// Location of the history.
#[derive(Debug, Clone, Args)]
pub(crate) struct PlaceArgs {
    /// dataDir of a stopped server; it must contain the directory `history`
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["history_dir", "server", "admin"]
    )]
    data_dir: Option<PathBuf>,
    /// Directory of the history (history.dir)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["server", "admin"])]
    history_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) address: AddressArgs,
}

/// Location of the history, and form of the output.
#[derive(Debug, Clone, Args)]
pub(crate) struct SourceArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Form of the output
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) output: Output,
    /// Prints password hashes in ACLs, and the member list; on a running server, only super users see
    /// them
    #[arg(long)]
    show_secrets: bool,
}

/// An opened history.
pub(crate) enum Source {
    Files(Box<Reader>, Viewer<'static>),
    Servers(Box<Servers>),
}

/// Change histories of running servers.
pub(crate) struct Servers {
    pub(crate) client: AdminClient,
    pub(crate) runtime: Runtime,
    origins: Origins,
}

impl SourceArgs {
    /// Returns the servers of the command line.
    pub(crate) fn address(&self) -> &AddressArgs {
        &self.place.address
    }

    /// Returns whether the command line names files of a stopped server.
    pub(crate) fn names_files(&self) -> bool {
        self.place.data_dir.is_some() || self.place.history_dir.is_some()
    }

    pub(crate) fn open(&self) -> Result<Source, ToolError> {
        self.place.open(self.show_secrets)
    }
}

impl PlaceArgs {
    pub(crate) fn open(&self, shows_secrets: bool) -> Result<Source, ToolError> {
        let below = self.data_dir.as_ref().map(|dir| dir.join("history"));
        let Some(dir) = self.history_dir.clone().or(below) else {
            let client = self.address.admin_client()?;
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let origins = Origins::new(client.clone());
            let servers = Servers {
                client,
                runtime,
                origins,
            };
            return Ok(Source::Servers(Box::new(servers)));
        };
        // ACLs do not restrict a user who can read the files.
        let owner = Viewer::FileOwner { shows_secrets };
        Ok(Source::Files(Box::new(Reader::open(&dir)?), owner))
    }
}

/// Parameters of a query.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parameters(pub(crate) Vec<(String, String)>);

impl Parameters {
    /// Adds a parameter if it has a value.
    pub(crate) fn with(mut self, name: &str, value: Option<impl ToString>) -> Self {
        let value = value.map(|value| (name.to_owned(), value.to_string()));
        self.0.extend(value);
        self
    }

    /// Sets a parameter and removes its earlier value.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.0.retain(|(key, _)| key != name);
        self.0.push((name.to_owned(), value.to_owned()));
    }
}

impl Source {
    fn ask(&self, question: Question, parameters: &Parameters) -> Result<Value, ToolError> {
        match self {
            Self::Files(reader, owner) => Ok(question.answer(reader, &parameters.0, owner)?),
            Self::Servers(servers) => {
                let command = format!("history/{}", question.name());
                let asked = servers.client.ask(&command, &parameters.0);
                Ok(servers.runtime.block_on(asked)?)
            }
        }
    }

    /// Adds the missing clients to the changes on a page. Also adds to each result the members that
    /// could not be queried.
    fn complete_clients(&mut self, question: Question, page: &mut Value) {
        let Some(results) = page["results"].as_array_mut() else {
            return;
        };
        let mut changes: Vec<&mut Value> = Vec::new();
        for result in results.iter_mut() {
            match question {
                Question::Changes => changes.extend(Some(result).filter(|it| it.is_object())),
                Question::Blame => changes.extend(changes_of_blame(result)),
                _ => return,
            }
        }
        let missing = match self {
            Self::Files(..) => {
                for change in changes {
                    origins::mark(change, OF_FILES);
                }
                json!([])
            }
            Self::Servers(servers) => {
                let completed = servers.origins.complete(&mut changes);
                servers.runtime.block_on(completed);
                servers.origins.missing_members()
            }
        };
        for result in results.iter_mut().filter(|result| result.is_object()) {
            result["members_missing"] = missing.clone();
        }
        page["members_missing"] = missing;
    }

    /// Queries page by page, and passes up to `limit` results to `each`. Returns the last page.
    pub(crate) fn pages(
        &mut self,
        question: Question,
        mut parameters: Parameters,
        limit: usize,
        mut each: impl FnMut(&Value) -> Result<(), ToolError>,
    ) -> Result<Value, ToolError> {
        if let Self::Servers(servers) = self
            && parameters.0.iter().any(|(name, _)| name == "by")
        {
            let merged = merge::changes(&mut servers.origins, &parameters, limit, &mut each);
            if let Some(last) = servers.runtime.block_on(merged)? {
                return Ok(last);
            }
        }
        let mut left = limit;
        loop {
            if question != Question::Cat {
                let size = left.min(history::PAGE_RESULTS_MAX);
                parameters.set("limit", &size.to_string());
            }
            let mut page = self.ask(question, &parameters)?;
            self.complete_clients(question, &mut page);
            let results = page["results"].as_array();
            for result in results.into_iter().flatten() {
                each(result)?;
                left = left.saturating_sub(1);
            }
            // All pages use the same moments.
            for name in ["at", "from", "to"] {
                if let Some(zxid) = page[name].as_str() {
                    parameters.set(name, zxid);
                }
            }
            match page["next"].as_str() {
                Some(next) if left > 0 => parameters.set("after", next),
                _ => return Ok(page),
            }
        }
    }
}

/// Returns the changes in an answer to `blame`.
fn changes_of_blame(result: &mut Value) -> Vec<&mut Value> {
    let fields = result.as_object_mut().into_iter().flatten();
    let changes = fields.flat_map(|(_, field)| match field {
        Value::Array(children) => {
            let children = children.iter_mut();
            children.filter_map(|child| child.get_mut("last")).collect()
        }
        field => vec![field],
    });
    changes.filter(|change| change.is_object()).collect()
}
