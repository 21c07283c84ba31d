//! The command `zoarium watch`: changes below a path, from the live tree or from the change history
//! of all members.

use std::io::{self, Write};
use std::process::ExitCode;

use ::cli::{Direct, check_path};
use clap::Args;
use client::changes::{ChangeOptions, Changes, ChangesError, ChangesEvent, Start};
use proto::SessionId;
use proto::position::{Position, parse_zxid};

use crate::history_tool::origin_lookups::{Batch, Item, OriginLookups};
use crate::history_tool::origins::{self, Member, Origins};
use crate::history_tool::{FilterArgs, text};

use super::address::AddressArgs;
use super::session;
use crate::tool::ToolError;
use crate::tool::output::Output;

/// Prints changes below a path as they happen
///
/// Without other options, the command sets a watch on the live tree, which every server supports. With --from,
/// --after, a filter or an admin port, it follows the change history, and prints each committed change once
/// and in order, even if a member fails. The command ends when the members no longer store the next changes,
/// and then reports where to continue.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  zoarium watch /app\n  zoarium watch /app --from 0x1 --op delete"
)]
pub(crate) struct WatchArgs {
    /// Top of the subtree
    #[arg(default_value = "/", value_parser = check_path)]
    path: String,
    #[command(flatten)]
    address: AddressArgs,
    /// First transaction to print; by default the next transaction
    #[arg(long, value_name = "ZXID", value_parser = parse_zxid)]
    from: Option<proto::Zxid>,
    /// Prints the changes after this `position` or zxid
    #[arg(long, value_name = "POSITION", conflicts_with = "from", value_parser = Position::parse)]
    after: Option<Position>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Number of changes after which the command ends
    #[arg(long)]
    limit: Option<u64>,
    /// Form of the output
    #[arg(long, value_enum, default_value = "table")]
    output: Output,
    /// With `--output json`, also prints the progress from time to time
    #[arg(long)]
    progress: bool,
}

/// Runs `watch`.
pub(crate) fn run(args: &WatchArgs) -> ExitCode {
    let followed = follows_history(args).and_then(|follows_history| {
        if follows_history {
            follow(args).map(|()| ExitCode::SUCCESS)
        } else {
            let (path, limit) = (args.path.clone(), args.limit);
            let direct = Direct::Watch { path, limit };
            Ok(session::run("watch", &args.address, args.output, direct))
        }
    });
    followed.unwrap_or_else(|error| error.report("watch"))
}

/// Returns whether the command follows the change history instead of the live tree.
fn follows_history(args: &WatchArgs) -> Result<bool, ToolError> {
    let filter = &args.filter;
    let has_filter =
        filter.by.is_some() || filter.session.is_some() || !filter.op.is_empty() || filter.diff;
    let has_start = args.from.is_some() || args.after.is_some();
    Ok(has_start || has_filter || args.progress || args.address.names_admin_port()?)
}

fn follow(args: &WatchArgs) -> Result<(), ToolError> {
    let options = options(args)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let out = io::BufWriter::new(terminal::stdout());
    runtime.block_on(follow_from(args, options, out))
}

async fn follow_from(
    args: &WatchArgs,
    mut options: ChangeOptions,
    out: impl Write,
) -> Result<(), ToolError> {
    let mut origins = Origins::new(options.admin_client());
    let mut by = None;
    if let Some(author) = &args.filter.by {
        let members = origins.members().await;
        let first = members.and_then(|members| members.first());
        if first.is_some_and(Member::answers) {
            by = Some(author.clone());
        } else {
            options = options.with_author(author);
        }
    }
    let follower = Follower {
        args,
        by,
        origin_lookups: OriginLookups::new(origins),
        left: args.limit.unwrap_or(u64::MAX),
        lost: None,
        out,
    };
    follower.follow(Changes::new(options)).await
}

fn options(args: &WatchArgs) -> Result<ChangeOptions, ToolError> {
    let filter = &args.filter;
    let start = args.from.map_or(Start::Now, Start::From);
    let servers = args.address.admin_servers()?;
    let authorization = args.address.authorization(&servers)?;
    let mut options = ChangeOptions::new(&servers.join(","), &args.path)
        .with_start(args.after.map_or(start, Start::After))
        .with_authorization(authorization.as_deref())
        .with_connector(args.address.connector()?)
        // The tool prints each failure of a member.
        .with_failure_limit(None);
    if let Some(session) = filter.session {
        options = options.with_session(SessionId(session));
    }
    if filter.diff {
        options = options.with_states();
    }
    for operation in &filter.op {
        options = options.with_operation(operation.name());
    }
    Ok(options)
}

/// Reader of the change history, which writes the changes to the output.
struct Follower<'a, W> {
    args: &'a WatchArgs,
    /// Filter of `--by` if this command applies the filter itself. A server only finds changes by
    /// the clients that it serves.
    by: Option<String>,
    /// Changes that have arrived and are not written yet.
    origin_lookups: OriginLookups,
    /// Number of changes that are still to be written.
    left: u64,
    /// Last reported failure of a member, until a member answers.
    lost: Option<String>,
    out: W,
}

impl<W: Write> Follower<'_, W> {
    async fn follow(mut self, mut changes: Changes) -> Result<(), ToolError> {
        while self.left > 0 {
            // The feed takes precedence, so that changes that arrive together are looked up
            // together.
            tokio::select! {
                biased;
                event = changes.next_event(), if self.wants_more() => match event {
                    Ok(event) => self.put(event),
                    Err(error) => {
                        self.write_all().await?;
                        return Err(explained(error));
                    }
                },
                batch = self.origin_lookups.next(), if !self.origin_lookups.is_empty() => self.write(batch)?,
            }
        }
        Ok(())
    }

    /// Returns whether another change may be needed and memory has room for it.
    fn wants_more(&self) -> bool {
        let is_needed = self.by.is_some() || self.origin_lookups.changes() < self.left;
        is_needed && self.origin_lookups.has_room()
    }

    fn put(&mut self, event: ChangesEvent) {
        if let ChangesEvent::Lost(error) = event {
            let text = error.to_string();
            if self.lost.as_ref() != Some(&text) {
                terminal::complain!("zoarium watch: {text}");
            }
            self.lost = Some(text);
            return;
        }
        self.lost = None;
        match event {
            ChangesEvent::Change(change) => {
                let bytes = change.line().len();
                self.origin_lookups
                    .push_change(change.json().clone(), bytes);
            }
            ChangesEvent::Progress(progress)
                if self.args.progress && self.args.output == Output::Json =>
            {
                self.origin_lookups.push_progress(progress.line());
            }
            _ => {}
        }
    }

    /// Looks up the clients of all changes that have arrived and writes the changes.
    async fn write_all(&mut self) -> Result<(), ToolError> {
        while !self.origin_lookups.is_empty() {
            let batch = self.origin_lookups.next().await;
            self.write(batch)?;
        }
        Ok(())
    }

    fn write(&mut self, batch: Option<Batch>) -> Result<(), ToolError> {
        let Some(batch) = batch else { return Ok(()) };
        for failure in batch.new_failures {
            terminal::complain!("zoarium watch: {failure}");
        }
        for item in batch.items {
            let mut change = match item {
                Item::Change(change) => change,
                Item::Progress(line) => {
                    self.out.write_all(&line)?;
                    continue;
                }
            };
            let is_wanted = self.by.as_ref();
            let is_wanted = is_wanted.is_none_or(|by| origins::is_by(&change, by));
            if !is_wanted || self.left == 0 {
                continue;
            }
            self.left -= 1;
            change["members_missing"] = batch.missing_members.clone();
            match self.args.output {
                Output::Table => text::write_change(&change, &mut self.out)?,
                output => output.write_line(&change, &mut self.out)?,
            }
        }
        Ok(self.out.flush()?)
    }
}

/// Converts an error of the feed. Adds the option with which the user can continue.
fn explained(error: ChangesError) -> ToolError {
    match error {
        ChangesError::NotKept { resume_after, .. } => {
            ToolError::Refused(format!("{error} (--after {resume_after})"))
        }
        ChangesError::Refused(error) => error.into(),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::sync::{Arc, Condvar, Mutex};
    use std::thread;

    use clap::Parser;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: WatchArgs,
    }

    /// Numbers of requests that a member has received.
    #[derive(Debug, Default)]
    struct Requests {
        feeds: usize,
        origin_lookups: usize,
    }

    type Shared = Arc<(Mutex<Requests>, Condvar)>;

    fn wait(shared: &Shared, is_over: impl Fn(&Requests) -> bool) {
        let requests = shared.0.lock().unwrap();
        let waited = shared.1.wait_while(requests, |requests| !is_over(requests));
        drop(waited.unwrap());
    }

    fn count(shared: &Shared, change: impl FnOnce(&mut Requests)) {
        change(&mut shared.0.lock().unwrap());
        shared.1.notify_all();
    }

    fn chunk(zxid: u64) -> String {
        let position = format!("{zxid:#x}.0");
        let change = json!({
            "position": position, "zxid": format!("{zxid:#x}"), "path": "/a", "operation": "set",
            "session": "0x5", "client": "", "identities": [],
        });
        let line = format!("{change}\n");
        format!("{:x}\r\n{line}\r\n", line.len())
    }

    /// Answers one request to a member. The first feed ends during the first lookup, and the first
    /// lookup ends after the second feed has begun.
    fn answer(mut stream: TcpStream, shared: &Shared) {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut part = [0; 1024];
            match stream.read(&mut part).unwrap() {
                0 => return,
                read => request.extend_from_slice(&part[..read]),
            }
        }
        let request = String::from_utf8(request).unwrap();
        if !request.contains("history/origins") {
            count(shared, |requests| requests.feeds += 1);
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n";
            let is_first = !request.contains("after=0x1.0");
            let zxid = if is_first { 1 } else { 2 };
            let text = format!("{head}{}", chunk(zxid));
            stream.write_all(text.as_bytes()).unwrap();
            if is_first {
                wait(shared, |requests| requests.origin_lookups > 0);
            } else {
                // The reader closes the connection.
                let _ = stream.read(&mut [0]);
            }
            return;
        }
        count(shared, |requests| requests.origin_lookups += 1);
        wait(shared, |requests| requests.feeds > 1);
        let known: Vec<Value> = ["0x1", "0x2"]
            .map(|zxid| json!({ "zxid": zxid, "client": format!("client of {zxid}") }))
            .to_vec();
        let answer = json!({
            "member": 1, "others": [], "results": known, "next": null, "extent": { "head": "0x9" },
        });
        let answer = answer.to_string();
        let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length:";
        let text = format!("{head} {}\r\n\r\n{answer}", answer.len());
        stream.write_all(text.as_bytes()).unwrap();
    }

    #[tokio::test]
    async fn a_feed_continues_while_a_member_holds_its_answer_about_clients() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shared = Shared::default();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = shared.clone();
                thread::spawn(move || answer(stream.unwrap(), &shared));
            }
        });
        let line = ["watch", "/a", "--limit", "2", "--output", "json"];
        let args = Line::parse_from(line).args;
        let options = ChangeOptions::new(&address, "/a").with_start(Start::From(proto::Zxid(1)));
        let mut out = Vec::new();
        follow_from(&args, options, &mut out).await.unwrap();
        let lines = String::from_utf8(out).unwrap();
        let changes: Vec<Value> = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        for (change, zxid) in changes.iter().zip(["0x1", "0x2"]) {
            assert_eq!(change["zxid"], zxid);
            assert_eq!(change["client"], format!("client of {zxid}"), "{change}");
        }
        assert_eq!(changes.len(), 2);
    }
}
