//! Watches of each kind, with lost connections: the event of a change arrives before a read shows
//! the change.
//!
//! Each session has watches of only one kind, because a server sends one event for all of them.

use std::collections::{BTreeMap, HashMap};

use client::{AddWatchMode, Change, Client as Session, Watch, WatchEvent, WatchStream};
use proto::{SessionId, Zxid};
use serde_json::{Value, json};

use super::Context;
use super::caller::Caller;
use super::steps::{Definition, Steps, session_name};
use crate::history::Event;
use crate::verdict::Verdict;

const TOP: &str = "/jepsen-watch";
const KEYS: usize = 4;

/// Watches.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watches;

impl Definition for Watches {
    type Client = Client;

    fn name(&self) -> &'static str {
        "watch"
    }

    fn promise(&self) -> &'static str {
        "each event arrives once, and before a read shows its change, also after a reconnect"
    }

    fn top(&self) -> &'static str {
        TOP
    }

    fn znodes(&self) -> Vec<(String, String)> {
        (0..KEYS).map(|key| (path(key), String::new())).collect()
    }

    fn check(&self, events: &[Event], _steps_max: u64) -> Verdict {
        crate::check::watch::check(events)
    }
}

fn path(key: usize) -> String {
    format!("{TOP}/{}", name(key))
}

fn name(key: usize) -> String {
    format!("w{key}")
}

/// A session's watches.
enum Watched {
    /// Standard watches that have not fired yet, with the version at which each was set.
    Once(HashMap<usize, (i32, Watch)>),
    /// Persistent watches.
    Streams(Streams),
}

struct Streams {
    by: &'static str,
    streams: Vec<WatchStream>,
    /// Zxids of events since the last read, by path.
    told: BTreeMap<String, Vec<i64>>,
    gaps: Gaps,
}

/// Keys whose events since the last read may be missing.
struct Gaps([bool; KEYS]);

impl Gaps {
    /// Returns whether the key has a gap after the answer to its read and a later drain of the
    /// streams. A stream drops events until it reports the loss, including events of changes after
    /// the answer. Therefore the next read of the key also has a gap if `told_now` is set.
    fn take(&mut self, key: usize, told_now: bool) -> bool {
        if told_now {
            self.0.fill(true);
        }
        self.0
            .get_mut(key)
            .is_some_and(|gap| std::mem::replace(gap, told_now))
    }
}

impl Streams {
    async fn new(session: &Session, by: &'static str) -> client::Result<Streams> {
        let mut streams = Vec::new();
        if by == "recursive" {
            let mode = AddWatchMode::PersistentRecursive;
            streams.push(session.watch_stream(TOP, mode).await?);
        } else {
            for key in 0..KEYS {
                let mode = AddWatchMode::Persistent;
                streams.push(session.watch_stream(&path(key), mode).await?);
            }
        }
        Ok(Streams {
            by,
            streams,
            told: BTreeMap::new(),
            gaps: Gaps([false; KEYS]),
        })
    }

    /// Receives the events that have arrived, without waiting. Returns whether a stream has missed
    /// events.
    async fn drain(&mut self) -> client::Result<bool> {
        let mut has_missed = false;
        for stream in &mut self.streams {
            loop {
                let next = tokio::select! {
                    biased;
                    next = stream.next() => next?,
                    () = std::future::ready(()) => break,
                };
                match next {
                    Change::Event(event) => {
                        let told = self.told.entry(event.path.to_string()).or_default();
                        told.push(event.zxid.0);
                    }
                    Change::Missed => has_missed = true,
                }
            }
        }
        Ok(has_missed)
    }
}

pub(super) struct Client {
    caller: Caller,
    session: SessionId,
    /// Number of sessions that have had watches.
    sessions: u64,
    watched: Option<Watched>,
}

impl Client {
    /// Returns a session with watches.
    async fn watching(&mut self) -> Option<Session> {
        let session = self.caller.session().await?;
        if self.session != session.session_id() {
            self.session = session.session_id();
            self.watched = None;
        }
        if self.watched.is_none() {
            // One kind after the other: with random kinds, a short run could miss one.
            let kind = (self.caller.first() + self.sessions) % 3;
            self.sessions += 1;
            self.watched = match kind {
                0 => Some(Watched::Once(HashMap::new())),
                1 => streams(&session, "persistent").await,
                _ => streams(&session, "recursive").await,
            };
        }
        Some(session)
    }

    async fn read(&mut self, key: usize) {
        let Some(session) = self.watching().await else {
            return;
        };
        let name = name(key);
        self.caller.invoke("read", Some(&name), Value::Null);
        let call = async {
            match &mut self.watched {
                Some(Watched::Once(watches)) => read_once(&session, key, watches).await,
                Some(Watched::Streams(streams)) => read_told(&session, key, streams).await,
                None => Ok(json!({})),
            }
        };
        let session = session_name(&session);
        self.caller
            .conclude("read", Some(&name), call, |shown| {
                let mut shown = shown.clone();
                shown["session"] = json!(session);
                shown
            })
            .await;
    }

    async fn write(&mut self, key: usize) {
        let Some(session) = self.watching().await else {
            return;
        };
        let (path, name) = (path(key), name(key));
        self.caller.invoke("write", Some(&name), Value::Null);
        let call = session.set_data(&path, "", -1);
        self.caller
            .conclude(
                "write",
                Some(&name),
                call,
                |stat| json!({"version": stat.version, "zxid": stat.mzxid}),
            )
            .await;
    }
}

async fn streams(session: &Session, by: &'static str) -> Option<Watched> {
    let streams = Streams::new(session, by).await;
    streams.ok().map(Watched::Streams)
}

/// Reads in a session with standard watches, and sets a watch if there is none.
async fn read_once(
    session: &Session,
    key: usize,
    watches: &mut HashMap<usize, (i32, Watch)>,
) -> client::Result<Value> {
    let path = path(key);
    let Some((watched, watch)) = watches.get_mut(&key) else {
        let (_, stat, watch) = session.watch_data(&path).await?;
        watches.insert(key, (stat.version, watch));
        return Ok(json!({"by": "once", "version": stat.version, "zxid": stat.mzxid}));
    };
    let (_, stat) = session.get_data(&path).await?;
    let told: Option<WatchEvent> = tokio::select! {
        biased;
        told = watch.changed() => Some(told?),
        () = std::future::ready(()) => None,
    };
    // An event of a later change may have arrived after the answer.
    let is_told = told.is_some_and(|event| {
        stat.version > *watched || (event.zxid > Zxid::ZERO && event.zxid.0 <= stat.mzxid)
    });
    let shown = json!({
        "by": "once",
        "version": stat.version,
        "zxid": stat.mzxid,
        "watched": *watched,
        "told": is_told,
    });
    if is_told {
        watches.remove(&key);
    }
    Ok(shown)
}

/// Reads in a session whose streams report the changes since the previous read.
async fn read_told(session: &Session, key: usize, streams: &mut Streams) -> client::Result<Value> {
    let path = path(key);
    let (_, stat) = session.get_data(&path).await?;
    let has_missed = streams.drain().await?;
    let told = streams.told.remove(&path).unwrap_or_default();
    // Events of later changes may have arrived after the answer. They belong to the next read.
    let (later, told): (Vec<i64>, Vec<i64>) = told.iter().partition(|&&zxid| zxid > stat.mzxid);
    if !later.is_empty() {
        streams.told.insert(path, later);
    }
    Ok(json!({
        "by": streams.by,
        "version": stat.version,
        "zxid": stat.mzxid,
        "events": told,
        "missed": streams.gaps.take(key, has_missed),
    }))
}

impl Steps for Client {
    fn new(context: Context) -> Client {
        Client {
            caller: Caller::new(context).keeping_session(),
            session: SessionId::NONE,
            sessions: 0,
            watched: None,
        }
    }

    fn caller(&mut self) -> &mut Caller {
        &mut self.caller
    }

    async fn step(&mut self) {
        let key = self.caller.rng.usize(..KEYS);
        match self.caller.rng.u8(..4) {
            0 => self.write(key).await,
            _ => self.read(key).await,
        }
    }

    async fn last(&mut self) {
        for key in (0..KEYS).cycle().take(2 * KEYS) {
            self.read(key).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_stream_says_behind_a_read_goes_for_the_next_one_too() {
        let mut gaps = Gaps([false; KEYS]);
        assert!(!gaps.take(0, false));
        // An event between the answer and the report was dropped.
        assert!(gaps.take(0, true));
        assert!(gaps.take(0, false));
        assert!(!gaps.take(0, false));
        // Another key has not been read yet.
        assert!(gaps.take(1, false));
        assert!(!gaps.take(1, false));
    }
}
