//! Where a history is asked: the files of a server that does not run, or servers that do.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use client::admin::AdminClient;
use client::tls::{ClientStores, Connector, Store};
use history::ask::Question;
use history::{Reader, Viewer};
use serde_json::Value;
use server::admin_token;
use tokio::runtime::{Builder, Runtime};

use crate::output::Output;
use crate::tool::ToolError;

/// Holds what `--auth` would, out of sight of others who look at processes.
const AUTH_VARIABLE: &str = "ZOARIUM_AUTH";

/// Directories in which a server on this machine may have its credential: that of the built-in settings, of the
/// package, and of a container.
const DATA_DIRS: [&str; 3] = ["zoarium-data", "/var/lib/zookeeper", "/data"];

/// Where the history is.
#[derive(Debug, Clone, Args)]
pub(crate) struct PlaceArgs {
    /// The dataDir of a server that does not run; its history is in `history` below it
    #[arg(
        long,
        value_name = "DIR",
        required_unless_present_any = ["history_dir", "server"],
        conflicts_with_all = ["history_dir", "server"]
    )]
    data_dir: Option<PathBuf>,
    /// The directory of the history itself (history.dir)
    #[arg(long, value_name = "DIR", conflicts_with = "server")]
    history_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// Where the history is, and how answers look.
#[derive(Debug, Clone, Args)]
pub(crate) struct SourceArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// How the answer looks
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) output: Output,
    /// Shows hashes of passwords in ACLs, and the member list; of a server that runs, super users see
    /// them
    #[arg(long)]
    show_secrets: bool,
}

/// Servers that run.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerArgs {
    /// The admin port of a server that runs; of several, separated by commas, any one
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    pub(crate) server: Vec<String>,
    /// Who asks, such as `digest user:password`; ZOARIUM_AUTH in the environment does as well
    #[arg(long, value_name = "SCHEME DATA")]
    auth: Option<String>,
    /// File that `zoarium admin-token` has written; without `--auth`, that of a server on this machine is found
    #[arg(long, value_name = "FILE", conflicts_with = "auth")]
    token_file: Option<PathBuf>,
    /// Speaks HTTPS with admin ports
    #[arg(long, requires = "server")]
    tls: bool,
    /// Certificates to trust (.pem, .p12 or .jks), instead of the platform's
    #[arg(long, value_name = "FILE", requires = "tls")]
    tls_trust: Option<PathBuf>,
    /// Own key and certificate (.pem, .p12 or .jks), for servers that ask for them
    #[arg(long, value_name = "FILE", requires = "tls")]
    tls_key: Option<PathBuf>,
    /// File with the password of both
    #[arg(long, value_name = "FILE", requires = "tls")]
    tls_password_file: Option<PathBuf>,
    /// Takes a certificate for whatever host
    #[arg(long, requires = "tls")]
    tls_any_host: bool,
}

impl ServerArgs {
    /// Scheme and data that were given, or those of a credential that is found.
    ///
    /// # Errors
    /// If the file of `--token-file` holds no credential.
    pub(crate) fn authorization(&self) -> Result<Option<String>, ToolError> {
        if let Some(file) = &self.token_file {
            let unusable = |reason: &dyn std::fmt::Display| {
                ToolError::Refused(format!("--token-file: {}: {reason}", file.display()))
            };
            let found = admin_token::read(file).map_err(|error| unusable(&error))?;
            let found = found.ok_or_else(|| unusable(&"it is not there"))?;
            return Ok(Some(format!("digest {}", found.expose())));
        }
        let named = self.auth.clone();
        let named = named.or_else(|| std::env::var(AUTH_VARIABLE).ok());
        Ok(named.or_else(|| self.found_token()))
    }

    /// The credential of a server on this machine, in the directories that servers use unless told
    /// otherwise. It is sent to no other machine.
    fn found_token(&self) -> Option<String> {
        let is_here = |server: &String| {
            let host = server
                .rsplit_once(':')
                .map_or(server.as_str(), |(host, _)| host);
            let host = host.trim_start_matches('[').trim_end_matches(']');
            host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        };
        if self.server.is_empty() || !self.server.iter().all(is_here) {
            return None;
        }
        let mut files = DATA_DIRS
            .iter()
            .map(|dir| admin_token::path(Path::new(dir)));
        let found = files.find_map(|file| admin_token::read(&file).ok().flatten());
        found.map(|secret| format!("digest {}", secret.expose()))
    }

    /// Asks them.
    ///
    /// # Errors
    /// If a file of `--tls-...` cannot be used.
    pub(crate) fn client(&self) -> Result<AdminClient, ToolError> {
        Ok(AdminClient {
            servers: self.server.clone(),
            authorization: self.authorization()?,
            connector: self.connector()?,
        })
    }

    /// How connections to them are made.
    ///
    /// # Errors
    /// If a file of `--tls-...` cannot be used.
    pub(crate) fn connector(&self) -> Result<Connector, ToolError> {
        if !self.tls {
            return Ok(Connector::plain());
        }
        let store = |location: &PathBuf| Store {
            location: Some(location.clone()),
            password_path: self.tls_password_file.clone(),
            ..Store::default()
        };
        let stores = ClientStores {
            key: self.tls_key.as_ref().map(store),
            trust: self.tls_trust.as_ref().map(store),
            checks_hosts: !self.tls_any_host,
            resumes_sessions: true,
        };
        Connector::of_client(&stores).map_err(|error| ToolError::Refused(format!("--tls: {error}")))
    }
}

/// An opened history.
pub(crate) enum Source {
    Files(Box<Reader>, Viewer<'static>),
    Servers(AdminClient, Runtime),
}

impl SourceArgs {
    pub(crate) fn open(&self) -> Result<Source, ToolError> {
        self.place.open(self.show_secrets)
    }
}

impl PlaceArgs {
    pub(crate) fn open(&self, shows_secrets: bool) -> Result<Source, ToolError> {
        if !self.server.server.is_empty() {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            return Ok(Source::Servers(self.server.client()?, runtime));
        }
        let (reader, owner) = self.open_files(shows_secrets)?;
        Ok(Source::Files(Box::new(reader), owner))
    }

    fn open_files(&self, shows_secrets: bool) -> Result<(Reader, Viewer<'static>), ToolError> {
        let below = self.data_dir.as_ref().map(|dir| dir.join("history"));
        let dir = self.history_dir.clone().or(below);
        let missing = || ToolError::Usage("name --data-dir or --history-dir".to_owned());
        // Who may read the files may read what is in them.
        let owner = Viewer::FileOwner { shows_secrets };
        Ok((Reader::open(&dir.ok_or_else(missing)?)?, owner))
    }
}

/// What a question is asked with.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parameters(pub(crate) Vec<(String, String)>);

impl Parameters {
    /// Adds one, if it is given.
    pub(crate) fn with(mut self, name: &str, value: Option<impl ToString>) -> Self {
        let value = value.map(|value| (name.to_owned(), value.to_string()));
        self.0.extend(value);
        self
    }

    /// Puts a value in the place of another one.
    fn set(&mut self, name: &str, value: &str) {
        self.0.retain(|(key, _)| key != name);
        self.0.push((name.to_owned(), value.to_owned()));
    }
}

impl Source {
    fn ask(&self, question: Question, parameters: &Parameters) -> Result<Value, ToolError> {
        match self {
            Self::Files(reader, owner) => Ok(question.answer(reader, &parameters.0, owner)?),
            Self::Servers(client, runtime) => {
                let command = format!("history/{}", question.name());
                Ok(runtime.block_on(client.ask(&command, &parameters.0))?)
            }
        }
    }

    /// Asks page by page, up to `limit` results, and gives the last page.
    pub(crate) fn pages(
        &self,
        question: Question,
        mut parameters: Parameters,
        limit: usize,
        mut each: impl FnMut(&Value) -> Result<(), ToolError>,
    ) -> Result<Value, ToolError> {
        let mut left = limit;
        loop {
            if question != Question::Cat {
                let size = left.min(history::PAGE_RESULTS_MAX);
                parameters.set("limit", &size.to_string());
            }
            let page = self.ask(question, &parameters)?;
            let results = page["results"].as_array();
            for result in results.into_iter().flatten() {
                each(result)?;
                left = left.saturating_sub(1);
            }
            // The same moments for all pages.
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
