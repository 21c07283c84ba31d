//! Queries of commands and of the admin server, from their parameters to the answers in JSON.
//!
//! | query | parameters |
//! |---|---|
//! | `changes` | `path`, `recursive`, `since`, `until`, `by`, `session`, `op` (any number), `diff`, `oldest_first`, `limit`, `after` |
//! | `blame` | `path`, `limit`, `after` |
//! | `cat` | `path`, `at` |
//! | `tree` | `path`, `at`, `limit`, `after` |
//! | `diff` | `path`, `from`, `to`, `limit`, `after` |
//! | `origins` | `zxid` (up to [`ORIGINS_MAX`]) |
//!
//! An answer contains `results`, and in `next` the value of `after` for the next page (`null` on
//! the last page). For `origins`, `next` is the first transaction that was not looked up. Answers
//! to `cat`, `tree` and `diff` also contain the zxids of the requested moments. Requests for
//! further pages contain these zxids instead of the moments.

use std::collections::BTreeSet;

use prost::Message;
use proto::position::{Position, parse_zxid};
use serde_json::{Value, json};

use super::json::{self, hex};
use super::moment::parse_session;
use crate::error::HistoryError;
use crate::limits::{ORIGINS_MAX, PAGE_RESULTS_MAX};
use crate::query::HistoryQuery;
use crate::reading::read::{Moment, Reader};
use crate::reading::viewer::Viewer;
use crate::record::Operation;
use crate::recording::filter;

/// Reason why a question cannot be answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// A parameter is invalid or unknown.
    #[error("{name}: {reason}")]
    Parameter {
        /// Name of the parameter.
        name: String,
        /// Reason why the parameter is invalid.
        reason: String,
    },
    /// The znode did not exist at the requested moment.
    #[error("{path} did not exist at that moment")]
    NoZnode {
        /// Path of the znode.
        path: String,
    },
    /// The history returned an error.
    #[error("{0}")]
    History(#[from] HistoryError),
}

/// Kind of question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// The changes to a path or a subtree.
    Changes,
    /// The last changes to a znode.
    Blame,
    /// A znode at a moment.
    Cat,
    /// A subtree at a moment.
    Tree,
    /// The differences between two moments.
    Diff,
    /// The clients that requested transactions.
    Origins,
}

/// Default number of results per page.
const LIMIT: usize = 100;

impl Question {
    /// All questions.
    pub const ALL: [Self; 6] = [
        Self::Changes,
        Self::Blame,
        Self::Cat,
        Self::Tree,
        Self::Diff,
        Self::Origins,
    ];

    /// Returns the name of the question.
    pub fn name(self) -> &'static str {
        match self {
            Self::Changes => "changes",
            Self::Blame => "blame",
            Self::Cat => "cat",
            Self::Tree => "tree",
            Self::Diff => "diff",
            Self::Origins => "origins",
        }
    }

    /// Returns a page of the answer, limited to data that the viewer may see.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn answer(
        self,
        reader: &Reader,
        parameters: &[(String, String)],
        viewer: &Viewer<'_>,
    ) -> Result<Value, AskError> {
        let parameters = QueryParameters(parameters);
        match self {
            Self::Changes => changes(reader, &parameters, viewer),
            Self::Blame => blame(reader, &parameters, viewer),
            Self::Cat => cat(reader, &parameters, viewer),
            Self::Tree => tree(reader, &parameters, viewer),
            Self::Diff => diff(reader, &parameters, viewer),
            Self::Origins => origins(reader, &parameters, viewer),
        }
    }
}

/// Parses the parameters of a feed. Returns the query and the position after which the feed begins.
/// The position is `None` if the feed begins now. `path` defaults to `/`, and descendants are
/// included unless `recursive` is `false`.
///
/// # Errors
/// If a parameter is invalid.
pub fn feed(parameters: &[(String, String)]) -> Result<(HistoryQuery, Option<Position>), AskError> {
    const KNOWN: &[&str] = &[
        "path",
        "recursive",
        "by",
        "session",
        "op",
        "diff",
        "from",
        "after",
    ];
    let parameters = QueryParameters(parameters);
    parameters.check_known(KNOWN)?;
    let mut query = HistoryQuery::of(parameters.single_value("path").unwrap_or("/"));
    filter::check(&query.path)?;
    query.recursive = parameters.flag("recursive")?.unwrap_or(true);
    parameters.read_filters(&mut query)?;
    let after = parameters.parse("after", Position::parse)?;
    let from = parameters.parse("from", parse_zxid)?;
    // The transaction `from` is included, so the feed begins after the previous zxid.
    let from = from.map(|zxid| Position::after(proto::Zxid((zxid.0 - 1).max(0))));
    Ok((query, after.or(from)))
}

/// A page of changes for other programs.
#[derive(Debug)]
pub struct ExportPage {
    /// Messages `ExportedChange` of `history.proto`, each after its length, oldest first.
    pub bytes: Vec<u8>,
    /// Value of `after` for the next page; `None` on the last page.
    pub next: Option<String>,
    /// Number of changes that the page omits because the viewer may not see them.
    pub hidden: u64,
}

/// Exports changes as protobuf, each with the znode before and after it. Accepts the parameters of
/// `changes`, except `diff` and `oldest_first`. `path` defaults to `/`, and descendants are
/// included unless `recursive` is `false`.
///
/// # Errors
/// See [`AskError`].
pub fn export(
    reader: &Reader,
    parameters: &[(String, String)],
    viewer: &Viewer<'_>,
) -> Result<ExportPage, AskError> {
    const KNOWN: &[&str] = &[
        "path",
        "recursive",
        "since",
        "until",
        "by",
        "session",
        "op",
        "limit",
        "after",
    ];
    let parameters = QueryParameters(parameters);
    parameters.check_known(KNOWN)?;
    let mut query = HistoryQuery::of(parameters.single_value("path").unwrap_or("/"));
    parameters.read_page(&mut query)?;
    query.recursive = parameters.flag("recursive")?.unwrap_or(true);
    query.with_states = true;
    query.newest_first = false;
    let page = reader.history(&query, viewer)?;
    let mut bytes = Vec::new();
    for change in &page.results {
        bytes.extend_from_slice(&change.encode_length_delimited_to_vec());
    }
    Ok(ExportPage {
        bytes,
        next: page.next.map(|next| next.to_string()),
        hidden: page.hidden,
    })
}

/// Parameters of a question.
struct QueryParameters<'a>(&'a [(String, String)]);

impl QueryParameters<'_> {
    fn single_value(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    fn check_known(&self, known: &[&str]) -> Result<(), AskError> {
        match self.0.iter().find(|(key, _)| !known.contains(&&**key)) {
            Some((key, _)) => Err(refuse(
                key,
                format!("unknown parameter; known parameters: {}", known.join(", ")),
            )),
            None => Ok(()),
        }
    }

    fn required_value(&self, name: &str) -> Result<&str, AskError> {
        self.single_value(name)
            .ok_or_else(|| refuse(name, "this parameter is required".to_owned()))
    }

    fn parse<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, AskError> {
        let parsed = self.single_value(name).map(parse).transpose();
        parsed.map_err(|reason| refuse(name, reason))
    }

    fn flag(&self, name: &str) -> Result<Option<bool>, AskError> {
        self.parse(name, |text| {
            text.parse()
                .map_err(|_| format!("{text:?} is not true or false"))
        })
    }

    fn limit(&self) -> Result<usize, AskError> {
        let limit = self.parse("limit", |text| match text.parse() {
            Ok(0) | Err(_) => Err(format!("{text:?} is not a valid number of results")),
            Ok(limit) => Ok(limit),
        })?;
        Ok(limit.unwrap_or(LIMIT).min(PAGE_RESULTS_MAX))
    }

    fn moment(&self, name: &str) -> Result<Moment, AskError> {
        self.required_value(name)?;
        let moment = self.parse(name, Moment::parse)?;
        moment.ok_or_else(|| refuse(name, "this parameter is required".to_owned()))
    }

    /// Parses the filters, the range of moments, and the limit and start of the page.
    fn read_page(&self, query: &mut HistoryQuery) -> Result<(), AskError> {
        query.since = self.parse("since", Moment::parse)?;
        query.until = self.parse("until", Moment::parse)?;
        self.read_filters(query)?;
        query.limit = self.limit()?;
        query.after = self.parse("after", Position::parse)?;
        Ok(())
    }

    fn read_filters(&self, query: &mut HistoryQuery) -> Result<(), AskError> {
        query.by = self.single_value("by").map(str::to_owned);
        query.session = self.parse("session", parse_session)?;
        query.with_states = self.flag("diff")?.unwrap_or(false);
        for (_, name) in self.0.iter().filter(|(key, _)| key == "op") {
            let names = || Operation::ALL.map(Operation::name).join(", ");
            let operation = Operation::parse(name).ok_or_else(|| {
                refuse(
                    "op",
                    format!("not an operation; known operations: {}", names()),
                )
            })?;
            query.operations.push(operation);
        }
        Ok(())
    }
}

fn refuse(name: &str, reason: String) -> AskError {
    AskError::Parameter {
        name: name.to_owned(),
        reason,
    }
}

fn changes(
    reader: &Reader,
    parameters: &QueryParameters<'_>,
    viewer: &Viewer<'_>,
) -> Result<Value, AskError> {
    const KNOWN: &[&str] = &[
        "path",
        "recursive",
        "since",
        "until",
        "by",
        "session",
        "op",
        "diff",
        "oldest_first",
        "limit",
        "after",
    ];
    parameters.check_known(KNOWN)?;
    let mut query = HistoryQuery::of(parameters.required_value("path")?);
    query.recursive = parameters.flag("recursive")?.unwrap_or(false);
    parameters.read_page(&mut query)?;
    query.newest_first = !parameters.flag("oldest_first")?.unwrap_or(false);
    let page = reader.history(&query, viewer)?;
    let results = page.results.iter().map(json::exported);
    let next = page.next.map(|next| next.to_string());
    Ok(json!({
        "results": results.collect::<Vec<_>>(),
        "next": next,
        "hidden": page.hidden,
        "extent": json::extent(&page.extent, reader.filter()),
    }))
}

fn blame(
    reader: &Reader,
    parameters: &QueryParameters<'_>,
    viewer: &Viewer<'_>,
) -> Result<Value, AskError> {
    parameters.check_known(&["path", "limit", "after"])?;
    let (path, after) = (
        parameters.required_value("path")?,
        parameters.single_value("after"),
    );
    let blame = reader.blame(path, after, parameters.limit()?, viewer)?;
    Ok(json!({
        "results": [json::blame(&blame)],
        "next": blame.next.map(String::from),
        "extent": json::extent(&reader.extent(), reader.filter()),
    }))
}

fn cat(
    reader: &Reader,
    parameters: &QueryParameters<'_>,
    viewer: &Viewer<'_>,
) -> Result<Value, AskError> {
    parameters.check_known(&["path", "at"])?;
    let path = parameters.required_value("path")?;
    let at = reader.zxid_at(parameters.moment("at")?)?;
    let found = reader.znode_at(path, Moment::Zxid(at), viewer)?;
    let znode = found.ok_or_else(|| AskError::NoZnode {
        path: path.to_owned(),
    })?;
    Ok(json!({
        "at": hex(at.0),
        "results": [json::znode(path, &znode)],
        "next": null,
    }))
}

fn tree(
    reader: &Reader,
    parameters: &QueryParameters<'_>,
    viewer: &Viewer<'_>,
) -> Result<Value, AskError> {
    parameters.check_known(&["path", "at", "limit", "after"])?;
    let (path, after) = (
        parameters.single_value("path").unwrap_or("/"),
        parameters.single_value("after"),
    );
    let at = reader.zxid_at(parameters.moment("at")?)?;
    let page = reader.tree_at(path, Moment::Zxid(at), after, parameters.limit()?, viewer)?;
    let results = page.results.iter();
    let results = results.map(|entry| json::znode(&entry.path, &entry.znode));
    Ok(json!({
        "at": hex(at.0),
        "results": results.collect::<Vec<_>>(),
        "next": page.next.map(String::from),
        "hidden": page.hidden,
        "extent": json::extent(&page.extent, reader.filter()),
    }))
}

fn diff(
    reader: &Reader,
    parameters: &QueryParameters<'_>,
    viewer: &Viewer<'_>,
) -> Result<Value, AskError> {
    parameters.check_known(&["path", "from", "to", "limit", "after"])?;
    let (path, after) = (
        parameters.single_value("path").unwrap_or("/"),
        parameters.single_value("after"),
    );
    let from = reader.zxid_at(parameters.moment("from")?)?;
    let to = reader.zxid_at(parameters.moment("to")?)?;
    let (begin, end) = (Moment::Zxid(from), Moment::Zxid(to));
    let page = reader.diff(path, begin, end, after, parameters.limit()?, viewer)?;
    Ok(json!({
        "from": hex(from.0),
        "to": hex(to.0),
        "results": page.results.iter().map(json::difference).collect::<Vec<_>>(),
        "next": page.next.map(String::from),
        "hidden": page.hidden,
        "extent": json::extent(&page.extent, reader.filter()),
    }))
}

fn origins(
    reader: &Reader,
    parameters: &QueryParameters<'_>,
    viewer: &Viewer<'_>,
) -> Result<Value, AskError> {
    parameters.check_known(&["zxid"])?;
    if parameters.0.len() > ORIGINS_MAX {
        return Err(refuse("zxid", format!("the limit is {ORIGINS_MAX} values")));
    }
    let zxids = parameters.0.iter().map(|(name, text)| {
        let zxid = parse_zxid(text);
        zxid.map_err(|reason| refuse(name, reason))
    });
    let zxids = zxids.collect::<Result<BTreeSet<_>, _>>()?;
    let found = reader.origins(&zxids, viewer)?;
    let results = found.results.iter().map(|origin| {
        json!({
            "zxid": hex(origin.zxid.0),
            "client": origin.client,
            "identities": origin.identities,
        })
    });
    Ok(json!({
        "results": results.collect::<Vec<_>>(),
        "next": found.next.map(|next| hex(next.0)),
        "extent": json::extent(&reader.extent(), reader.filter()),
    }))
}
