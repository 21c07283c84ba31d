//! `zoarium history`, `cat`, `tree` and `diff`: who changed what, and the tree as it was.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::{Args, Subcommand, ValueEnum};
use history::record::{Change, Content, ExportedChange, Operation, Znode};
use history::{Blame, Difference, Extent, FileOwner, HistoryQuery, Moment, Reader};
use serde_json::{Value, json};

use crate::moment::{At, parse_at, time_text};
use crate::output::write_stdout;
use crate::tool::ToolError;

/// Where the history is, and how answers look.
#[derive(Debug, Clone, Args)]
pub(crate) struct SourceArgs {
    /// The dataDir of a server that does not run; its history is in `history` below it
    #[arg(long, value_name = "DIR", required_unless_present = "history_dir")]
    data_dir: Option<PathBuf>,
    /// The directory of the history itself (history.dir)
    #[arg(long, value_name = "DIR")]
    history_dir: Option<PathBuf>,
    /// How the answer looks
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    /// Shows hashes of passwords in ACLs, and the member list
    #[arg(long)]
    show_secrets: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    Text,
    /// One object a line
    Json,
}

/// Says who changed a znode and when
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct HistoryArgs {
    #[command(subcommand)]
    command: Option<HistoryCommand>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Subcommand)]
enum HistoryCommand {
    /// Says who last changed data, ACL and each child of a znode
    Blame(BlameArgs),
}

#[derive(Debug, Args)]
struct BlameArgs {
    /// The znode
    path: String,
    #[command(flatten)]
    source: SourceArgs,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// The znode
    #[arg(required = true)]
    path: Option<String>,
    #[command(flatten)]
    source: SourceArgs,
    /// Not before this
    #[arg(long, value_name = "ZXID|TIME", value_parser = parse_at)]
    since: Option<At>,
    /// Not after this
    #[arg(long, value_name = "ZXID|TIME", value_parser = parse_at)]
    until: Option<At>,
    /// By this identity (scheme:id) or from this host
    #[arg(long, value_name = "WHO")]
    by: Option<String>,
    /// In this session
    #[arg(long, value_name = "0xID", value_parser = parse_session)]
    session: Option<i64>,
    /// By this operation: create, set, setAcl, delete, deleteByServer, closeSession, reconfig
    #[arg(long, value_name = "OPERATION", value_parser = parse_operation)]
    op: Vec<Operation>,
    /// And of all znodes below
    #[arg(long, short)]
    recursive: bool,
    /// Shows data and ACL before and after
    #[arg(long)]
    diff: bool,
    /// The oldest first
    #[arg(long)]
    reverse: bool,
    /// So many at most
    #[arg(long, default_value_t = 100)]
    limit: usize,
}

/// Prints the data of a znode as it was
#[derive(Debug, Args)]
pub(crate) struct CatArgs {
    /// The znode
    path: String,
    /// After this transaction, or the last change not later than this time
    #[arg(long, value_name = "ZXID|TIME", value_parser = parse_at)]
    at: At,
    #[command(flatten)]
    source: SourceArgs,
}

/// Prints the tree as it was
#[derive(Debug, Args)]
pub(crate) struct TreeArgs {
    /// The top of it
    #[arg(default_value = "/")]
    path: String,
    /// After this transaction, or the last change not later than this time
    #[arg(long, value_name = "ZXID|TIME", value_parser = parse_at)]
    at: At,
    #[command(flatten)]
    source: SourceArgs,
}

/// Says which znodes differ between two moments
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The top of the tree
    #[arg(default_value = "/")]
    path: String,
    /// The earlier moment
    #[arg(long, value_name = "ZXID|TIME", value_parser = parse_at)]
    from: At,
    /// The later one
    #[arg(long, value_name = "ZXID|TIME", value_parser = parse_at)]
    to: At,
    #[command(flatten)]
    source: SourceArgs,
}

fn parse_session(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16)
        .map(u64::cast_signed)
        .map_err(|_| "not a session: hex digits, 0x may stand in front".to_owned())
}

fn parse_operation(text: &str) -> Result<Operation, String> {
    let names = || Operation::ALL.map(Operation::name).join(", ");
    Operation::parse(text).ok_or_else(|| format!("no operation; there are {}", names()))
}

impl SourceArgs {
    fn open(&self) -> Result<Reader, ToolError> {
        let below = self.data_dir.as_ref().map(|dir| dir.join("history"));
        let dir = self.history_dir.clone().or(below).unwrap_or_default();
        Ok(Reader::open(&dir)?)
    }

    fn viewer(&self) -> Owner {
        Owner(FileOwner {
            shows_secrets: self.show_secrets,
        })
    }
}

/// Who may read the files may read what is in them.
struct Owner(FileOwner);

impl std::ops::Deref for Owner {
    type Target = FileOwner;

    fn deref(&self) -> &FileOwner {
        &self.0
    }
}

fn moment(at: At) -> Moment {
    match at {
        At::Zxid(zxid) => Moment::Zxid(zxid),
        At::Time(ms) => Moment::Time(ms),
    }
}

/// Does what the arguments say.
pub(crate) fn run_history(args: &HistoryArgs) -> ExitCode {
    report("history", |out| match (&args.command, &args.list.path) {
        (Some(HistoryCommand::Blame(args)), _) => blame(args, out),
        (None, Some(path)) => list(path, &args.list, out),
        (None, None) => Err(ToolError::Usage("name a znode".to_owned())),
    })
}

/// Does what the arguments say.
pub(crate) fn run_cat(args: &CatArgs) -> ExitCode {
    report("cat", |out| cat(args, out))
}

/// Does what the arguments say.
pub(crate) fn run_tree(args: &TreeArgs) -> ExitCode {
    report("tree", |out| tree(args, out))
}

/// Does what the arguments say.
pub(crate) fn run_diff(args: &DiffArgs) -> ExitCode {
    report("diff", |out| diff(args, out))
}

fn report(tool: &str, write: impl FnOnce(&mut dyn Write) -> Result<(), ToolError>) -> ExitCode {
    match write_stdout(write) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(tool),
    }
}

fn list(path: &str, args: &ListArgs, out: &mut dyn Write) -> Result<(), ToolError> {
    let reader = args.source.open()?;
    let viewer = args.source.viewer();
    let mut query = HistoryQuery::of(path);
    query.recursive = args.recursive;
    (query.since, query.until) = (args.since.map(moment), args.until.map(moment));
    (query.by, query.session) = (args.by.clone(), args.session);
    query.operations.clone_from(&args.op);
    query.newest_first = !args.reverse;
    query.with_states = args.diff;
    let mut left = args.limit;
    while left > 0 {
        query.limit = left;
        let page = reader.history(&query, &*viewer)?;
        left -= page.results.len().min(left);
        for result in &page.results {
            match args.source.output {
                Output::Json => writeln!(out, "{}", exported_json(result))?,
                Output::Text => write_change(result, out)?,
            }
        }
        let Some(next) = page.next else {
            return write_extent(args.source.output, &page.extent, out);
        };
        query.after = Some(next);
    }
    Ok(())
}

/// What is not known is said, so that no answer is taken for the whole.
fn write_extent(output: Output, extent: &Extent, out: &mut dyn Write) -> Result<(), ToolError> {
    if output == Output::Json {
        return Ok(());
    }
    for hole in &extent.holes {
        writeln!(
            out,
            "(nothing is known of what changed after {} up to {})",
            hole.after, hole.recorded_after
        )?;
    }
    writeln!(
        out,
        "(changes after {} are kept, up to {})",
        extent.recorded_after, extent.head
    )?;
    Ok(())
}

fn write_change(result: &ExportedChange, out: &mut dyn Write) -> Result<(), ToolError> {
    let Some(change) = &result.change else {
        return Ok(());
    };
    writeln!(out, "{}", change_text(change))?;
    for (sign, znode) in [("-", &result.before), ("+", &result.after)] {
        if let Some(znode) = znode {
            let (data, acl) = (content_text(znode.data.as_ref()), acl_text(znode));
            writeln!(out, "  {sign} version {} {data} {acl}", znode.version)?;
        }
    }
    if result.is_before_unknown {
        writeln!(out, "  (what it was before is no longer kept)")?;
    }
    Ok(())
}

fn change_text(change: &Change) -> String {
    let mut text = format!(
        "{} {:#x} {} {} session {:#x}",
        time_text(change.time_ms),
        change.zxid,
        change.operation().name(),
        change.path,
        change.session
    );
    if !change.client.is_empty() {
        text.push_str(&format!(" from {}", change.client));
    }
    for identity in &change.identities {
        text.push_str(&format!(" as {identity}"));
    }
    text
}

fn content_text(content: Option<&Content>) -> String {
    match content {
        None => "null".to_owned(),
        Some(content) => match content.bytes() {
            Some(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => format!("{text:?}"),
                Err(_) => format!("base64 {}", BASE64.encode(bytes)),
            },
            None => format!("({} bytes, not kept)", content.size),
        },
    }
}

fn acl_text(znode: &Znode) -> String {
    match znode.acl_list() {
        Some(list) => {
            let entries = list.entries.iter();
            let entries = entries.map(|e| format!("{}:{}:{}", e.scheme, e.id, e.perms));
            entries.collect::<Vec<_>>().join(",")
        }
        None => "(ACL not kept)".to_owned(),
    }
}

fn blame(args: &BlameArgs, out: &mut dyn Write) -> Result<(), ToolError> {
    let reader = args.source.open()?;
    let viewer = args.source.viewer();
    let mut after: Option<String> = None;
    loop {
        let blame = reader.blame(&args.path, after.as_deref(), usize::MAX, &*viewer)?;
        match args.source.output {
            Output::Json => writeln!(out, "{}", blame_json(&blame))?,
            Output::Text => write_blame(&blame, after.is_none(), out)?,
        }
        match blame.next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}

fn write_blame(blame: &Blame, is_first: bool, out: &mut dyn Write) -> Result<(), ToolError> {
    let text = |found: &Option<ExportedChange>| {
        let change = found.as_ref().and_then(|found| found.change.as_ref());
        change.map_or_else(|| "older than what is kept".to_owned(), change_text)
    };
    if is_first {
        writeln!(out, "created  {}", text(&blame.created))?;
        writeln!(out, "data     {}", text(&blame.data))?;
        writeln!(out, "acl      {}", text(&blame.acl))?;
        if blame.deleted.is_some() {
            writeln!(out, "deleted  {}", text(&blame.deleted))?;
        }
    }
    for child in &blame.children {
        let state = if child.exists { "child" } else { "gone " };
        writeln!(out, "{state}    {}  {}", child.name, text(&child.last))?;
    }
    Ok(())
}

fn cat(args: &CatArgs, out: &mut dyn Write) -> Result<(), ToolError> {
    let reader = args.source.open()?;
    let found = reader.znode_at(&args.path, moment(args.at), &*args.source.viewer())?;
    let Some(znode) = found else {
        let missing = format!("there was no {} at that moment", args.path);
        return Err(ToolError::NotFound(missing));
    };
    if args.source.output == Output::Json {
        writeln!(out, "{}", znode_json(&args.path, &znode))?;
        return Ok(());
    }
    match &znode.data {
        None => Ok(()),
        Some(data) => match data.bytes() {
            Some(bytes) => Ok(out.write_all(bytes)?),
            None => Err(ToolError::NotFound(format!(
                "the {} bytes of {} were not kept",
                data.size, args.path
            ))),
        },
    }
}

fn tree(args: &TreeArgs, out: &mut dyn Write) -> Result<(), ToolError> {
    let reader = args.source.open()?;
    let viewer = args.source.viewer();
    // The same moment for all pages.
    let at = Moment::Zxid(reader.zxid_at(moment(args.at))?);
    let mut after: Option<String> = None;
    loop {
        let page = reader.tree_at(&args.path, at, after.as_deref(), usize::MAX, &*viewer)?;
        for entry in &page.results {
            match args.source.output {
                Output::Json => writeln!(out, "{}", znode_json(&entry.path, &entry.znode))?,
                Output::Text => writeln!(out, "{}", entry.path)?,
            }
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}

fn diff(args: &DiffArgs, out: &mut dyn Write) -> Result<(), ToolError> {
    let reader = args.source.open()?;
    let viewer = args.source.viewer();
    let zxid = |at| reader.zxid_at(moment(at)).map(Moment::Zxid);
    let moments = (zxid(args.from)?, zxid(args.to)?);
    let mut after: Option<String> = None;
    loop {
        let page = reader.diff(&args.path, moments, after.as_deref(), usize::MAX, &*viewer)?;
        for one in &page.results {
            match args.source.output {
                Output::Json => writeln!(out, "{}", difference_json(one))?,
                Output::Text => write_difference(one, out)?,
            }
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}

fn write_difference(one: &Difference, out: &mut dyn Write) -> Result<(), ToolError> {
    writeln!(out, "{} {}", one.kind.name(), one.path)?;
    for (sign, znode) in [("-", &one.before), ("+", &one.after)] {
        if let Some(znode) = znode {
            let (data, acl) = (content_text(znode.data.as_ref()), acl_text(znode));
            writeln!(out, "  {sign} version {} {data} {acl}", znode.version)?;
        }
    }
    Ok(())
}

fn hex(number: i64) -> String {
    format!("{number:#x}")
}

fn content_json(content: Option<&Content>) -> Value {
    match content {
        None => Value::Null,
        Some(content) => match content.bytes() {
            Some(bytes) => json!({ "size": content.size, "base64": BASE64.encode(bytes) }),
            None => json!({ "size": content.size, "omitted": true }),
        },
    }
}

fn acl_json(list: Option<history::record::AclList>) -> Value {
    let Some(list) = list else { return Value::Null };
    let entries = list.entries.into_iter();
    let entries = entries.map(|e| json!({ "perms": e.perms, "scheme": e.scheme, "id": e.id }));
    entries.collect()
}

fn znode_json(path: &str, znode: &Znode) -> Value {
    json!({
        "path": path,
        "czxid": hex(znode.czxid),
        "mzxid": hex(znode.mzxid),
        "ctime_ms": znode.ctime_ms,
        "mtime_ms": znode.mtime_ms,
        "version": znode.version,
        "aversion": znode.aversion,
        "owner": hex(znode.owner),
        "kind": znode.kind().as_str_name(),
        "data": content_json(znode.data.as_ref()),
        "acl": acl_json(znode.acl_list()),
    })
}

fn change_json(change: &Change) -> Value {
    json!({
        "zxid": hex(change.zxid),
        "index": change.index,
        "time_ms": change.time_ms,
        "time": time_text(change.time_ms),
        "session": hex(change.session),
        "cxid": change.cxid,
        "client": change.client,
        "identities": change.identities,
        "operation": change.operation().name(),
        "path": change.path,
        "version": change.version,
        "aversion": change.aversion,
        "data": content_json(change.data.as_ref()),
        "acl": acl_json(change.acl_list()),
    })
}

fn state_json(path: &str, znode: Option<&Znode>) -> Value {
    znode.map_or(Value::Null, |znode| znode_json(path, znode))
}

fn exported_json(result: &ExportedChange) -> Value {
    let Some(change) = &result.change else {
        return Value::Null;
    };
    let mut value = change_json(change);
    value["before"] = state_json(&change.path, result.before.as_ref());
    value["after"] = state_json(&change.path, result.after.as_ref());
    value["is_before_unknown"] = json!(result.is_before_unknown);
    value
}

fn blame_json(blame: &Blame) -> Value {
    let change = |found: &Option<ExportedChange>| {
        let change = found.as_ref().and_then(|found| found.change.as_ref());
        change.map_or(Value::Null, change_json)
    };
    let children = blame.children.iter().map(
        |child| json!({ "name": child.name, "exists": child.exists, "last": change(&child.last) }),
    );
    json!({
        "created": change(&blame.created),
        "data": change(&blame.data),
        "acl": change(&blame.acl),
        "deleted": change(&blame.deleted),
        "children": children.collect::<Vec<_>>(),
    })
}

fn difference_json(one: &Difference) -> Value {
    json!({
        "path": one.path,
        "kind": one.kind.name(),
        "before": state_json(&one.path, one.before.as_ref()),
        "after": state_json(&one.path, one.after.as_ref()),
    })
}
