//! Feeds of changes, followed while the members that serve them fail.

use std::sync::Arc;
use std::time::Duration;

use client::admin::AdminError;
use client::changes::{ChangeOptions, Changes, ChangesError, ChangesEvent, Start};
use client::{MultiOp, MultiResult};
use proto::Zxid;
use serde_json::json;
use tokio::time::Instant;

use super::Context;
use super::caller::{Caller, Outcome};
use super::steps::{Definition, Steps};
use crate::check::feed::FINAL_FOLLOW;
use crate::history::Event;
use crate::verdict::Verdict;

const TOP: &str = "/jepsen-feed";
const KEYS: usize = 4;
/// Time that one call waits for changes.
const WAIT: Duration = Duration::from_millis(300);
/// Maximum number of changes per call.
const CHANGES_MAX: usize = 200;
/// Time limit for the last feed to reach the last write.
const END_LIMIT: Duration = Duration::from_secs(40);

/// Bytes of a large change, more than the members' queue of changes can contain. The members then
/// read the change from their logs.
const LARGE_BYTES: usize = 17 << 20;
/// One of this many changes is large.
const LARGE_EVERY: u64 = 4;

/// The feed of the change history, with large changes or without them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Feed<const HAS_LARGE: bool>;

/// The feed of small changes.
pub(super) const FEED: Feed<false> = Feed;
/// The feed with large changes.
pub(super) const LARGE_FEED: Feed<true> = Feed;

impl<const HAS_LARGE: bool> Definition for Feed<HAS_LARGE> {
    type Client = Client<HAS_LARGE>;

    fn name(&self) -> &'static str {
        if HAS_LARGE { "large-feed" } else { "feed" }
    }

    fn promise(&self) -> &'static str {
        if HAS_LARGE {
            "the promise of `feed`, with changes that exceed the queue of the change history"
        } else {
            "a change feed reports each acknowledged change once and in order, also after the loss of members"
        }
    }

    fn properties(&self) -> &'static [(&'static str, &'static str)] {
        if HAS_LARGE {
            &[("jute.maxbuffer", "33554432")]
        } else {
            &[]
        }
    }

    fn settings(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("admin.enableServer", "true"),
            ("history.enabled", "true"),
            ("history.minFreeMegabytes", "0"),
        ]
    }

    fn asks_admin(&self) -> bool {
        true
    }

    fn top(&self) -> &'static str {
        TOP
    }

    fn znodes(&self) -> Vec<(String, String)> {
        (0..KEYS).map(|key| (path(key), String::new())).collect()
    }

    fn check(&self, events: &[Event], _steps_max: u64) -> Verdict {
        crate::check::feed::check(events)
    }
}

fn path(key: usize) -> String {
    format!("{TOP}/f{key}")
}

pub(super) struct Writer {
    caller: Caller,
    writes: u64,
}

impl Writer {
    fn new(context: Context) -> Writer {
        Writer {
            caller: Caller::new(context),
            writes: 0,
        }
    }

    /// Makes one or two changes in one transaction, and returns its zxid.
    async fn write(&mut self, may_be_large: bool) -> Option<i64> {
        let session = self.caller.session().await?;
        self.writes += 1;
        let is_large = may_be_large && self.writes.is_multiple_of(LARGE_EVERY);
        let data = vec![b'x'; if is_large { LARGE_BYTES } else { 0 }];
        let first = self.caller.rng.usize(..KEYS);
        let mut paths = vec![path(first)];
        if !is_large && self.caller.rng.u8(..4) == 0 {
            paths.push(path((first + 1) % KEYS));
        }
        let ops = paths.iter();
        let ops = ops.map(|path| MultiOp::set_data(path, data.clone(), -1));
        let ops: Vec<_> = ops.collect();
        self.caller.invoke("write", None, json!(paths));
        let call = session.multi(&ops);
        let outcome = self.caller.conclude(
            "write",
            None,
            call,
            |results| json!({"zxid": zxid(results), "paths": paths}),
        );
        match outcome.await {
            Outcome::Done(results) => zxid(&results),
            _ => None,
        }
    }
}

fn zxid(results: &[MultiResult]) -> Option<i64> {
    results.iter().find_map(|result| match result {
        MultiResult::Set(stat) => Some(stat.mzxid),
        _ => None,
    })
}

/// A client that follows feeds, one after the other. A feed that cannot continue is replaced by
/// another.
pub(super) struct Follower {
    caller: Caller,
    number: u64,
    /// The zxid after which the feed begins.
    after: i64,
    changes: Changes,
    /// Error of the member that the feed lost last.
    lost: Option<AdminError>,
}

impl Follower {
    fn new(context: Context) -> Follower {
        let changes = feed(
            &context.admin,
            &mut fastrand::Rng::with_seed(context.seed),
            0,
        );
        Follower {
            caller: Caller::new(context),
            number: 0,
            after: 0,
            changes,
            lost: None,
        }
    }

    /// Receives changes for some time. Returns their greatest zxid.
    async fn follow(&mut self, f: &str) -> Option<i64> {
        let name = format!("{}-{}", self.caller.first(), self.number);
        self.caller
            .invoke(f, Some(&name), json!({"after": self.after}));
        let mut got: Vec<(i64, u32, String)> = Vec::new();
        let deadline = Instant::now() + WAIT;
        let mut refused = None;
        while got.len() < CHANGES_MAX {
            match tokio::time::timeout_at(deadline, self.changes.next_event()).await {
                Ok(Ok(ChangesEvent::Change(change))) => {
                    let position = change.position();
                    let path = change.path().to_owned();
                    got.push((position.zxid.0, position.index, path));
                }
                Ok(Ok(ChangesEvent::Lost(error))) => self.lost = Some(error),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => {
                    refused = Some(error);
                    break;
                }
                Err(_) => break,
            }
        }
        let last = got.last().map(|(zxid, _, _)| *zxid);
        let outcome = Outcome::Done(got);
        self.caller.end(f, Some(&name), &outcome, |got| json!(got));
        if let Some(ChangesError::NotKept { resume_after, .. }) = refused {
            // The feed was informed that the changes before this zxid are lost to it.
            self.number += 1;
            self.after = resume_after.zxid.0;
            let admin = Arc::clone(&self.caller.context().admin);
            self.changes = feed(&admin, &mut self.caller.rng, self.after);
        }
        last
    }

    async fn follow_to_the_end(&mut self, last: i64) {
        let deadline = Instant::now() + END_LIMIT;
        while Instant::now() < deadline {
            if self
                .follow(FINAL_FOLLOW)
                .await
                .is_some_and(|seen| seen >= last)
            {
                return;
            }
        }
        // The checker finds the missing changes. The reason is known only here.
        eprintln!(
            "after {END_LIMIT:?}, the last feed is at {:?} and has not reached {last:#x}; the member that it lost last: {:?}",
            self.changes.position(),
            self.lost
        );
    }
}

/// Opens a feed of all changes after a transaction, from the members in a random order.
fn feed(admin: &Arc<[String]>, rng: &mut fastrand::Rng, after: i64) -> Changes {
    let mut servers = admin.to_vec();
    rng.shuffle(&mut servers);
    let options = ChangeOptions::new(&servers.join(","), TOP);
    Changes::new(options.with_start(Start::From(Zxid(after + 1))))
}

/// Some clients write, and the others follow.
pub(super) enum Client<const HAS_LARGE: bool> {
    Writes(Box<Writer>),
    Follows(Box<Follower>),
}

impl<const HAS_LARGE: bool> Steps for Client<HAS_LARGE> {
    fn new(context: Context) -> Self {
        // With two writers, a large change and the next change may be applied together. The history
        // then misses both, and not only the large change.
        let one_writes_of = if HAS_LARGE { context.processes } else { 2 };
        match (context.process - context.lowest) % one_writes_of {
            0 => Client::Writes(Box::new(Writer::new(context))),
            _ => Client::Follows(Box::new(Follower::new(context))),
        }
    }

    fn caller(&mut self) -> &mut Caller {
        match self {
            Client::Writes(writer) => &mut writer.caller,
            Client::Follows(follower) => &mut follower.caller,
        }
    }

    async fn step(&mut self) {
        match self {
            Client::Writes(writer) => drop(writer.write(HAS_LARGE).await),
            Client::Follows(follower) => drop(follower.follow("follow").await),
        }
    }

    async fn last(&mut self) {
        let context = self.caller().context().clone();
        let mut writer = Writer::new(context.clone());
        let last = writer.write(false).await;
        writer.caller.close().await;
        if let Some(last) = last {
            Follower::new(context).follow_to_the_end(last).await;
        }
    }
}
