//! A session that watches the znodes of another one.

use std::collections::VecDeque;

use client::{
    AddWatchMode, Change, Client, Create, EventType, Watch, WatchEvent, WatchStream, Zxid,
};

use super::{Actor, Outcome, has_ended, ready};

const ONCE: &str = "a watch reports its change, before a read reveals it";
const ORDER: &str = "a persistent watch reports every change, in order";

/// Change of a znode, as its writer knows it.
#[derive(Debug)]
struct Written {
    kind: EventType,
    path: String,
    /// Zxid of the change, if the answer contained it.
    zxid: Option<i64>,
}

/// Watching session.
struct Watcher {
    client: Client,
    stream: WatchStream,
    /// One-shot watch, and the zxid and existence of the znode when it was set.
    armed: Option<(Watch, i64, bool)>,
    /// Zxid of the last event of the stream.
    zxid: i64,
    /// Acknowledged changes that the stream has not reported.
    sure: VecDeque<Written>,
    /// Changes that the stream may report.
    doubtful: Vec<Written>,
}

pub(super) async fn run(actor: &mut Actor) {
    let dir = format!("/w{}", actor.number);
    if !actor.create_directory(&dir).await {
        return;
    }
    let (mut writer, mut watcher): (Option<Client>, Option<Watcher>) = (None, None);
    // Changes of earlier writers that may be executed late.
    let mut late: Vec<(EventType, String)> = Vec::new();
    for _ in 0..actor.world.settings.requests {
        if !actor.pause().await {
            break;
        }
        if writer.as_ref().is_none_or(has_ended) {
            writer = actor.connect(|options| options).await;
        }
        if watcher
            .as_ref()
            .is_none_or(|watcher| has_ended(&watcher.client))
        {
            watcher = begin(actor, &dir, &late).await;
        }
        let (Some(writing), Some(watching)) = (&writer, &mut watcher) else {
            continue;
        };
        let path = format!("{dir}/{}", actor.random.below(2));
        match actor.random.below(8) {
            0..4 => write(actor, writing, watching, &path, &mut late).await,
            4 => arm(actor, watching, &path).await,
            5 => read(actor, watching).await,
            6 => drain(actor, watching).await,
            _ if actor.random.percent(20) => watcher = None,
            _ => {
                let mode = AddWatchMode::Persistent;
                let _ = actor.ask(watching.client.add_watch(&path, mode)).await;
            }
        }
    }
    if let Some(watcher) = watcher {
        let _ = actor.ask(watcher.client.close()).await;
    }
    if let Some(client) = writer {
        let _ = actor.ask(client.close()).await;
    }
}

async fn begin(actor: &mut Actor, dir: &str, late: &[(EventType, String)]) -> Option<Watcher> {
    let client = actor.connect(|options| options).await?;
    let mode = AddWatchMode::PersistentRecursive;
    // The stream begins after all changes that were answered.
    let Outcome::Done(()) = actor.ask(client.sync("/")).await else {
        return None;
    };
    let Outcome::Done(stream) = actor.ask(client.watch_stream(dir, mode)).await else {
        return None;
    };
    let doubtful = late.iter().map(|(kind, path)| Written {
        kind: *kind,
        path: path.clone(),
        zxid: None,
    });
    Some(Watcher {
        client,
        stream,
        armed: None,
        zxid: 0,
        sure: VecDeque::new(),
        doubtful: doubtful.collect(),
    })
}

async fn write(
    actor: &mut Actor,
    writer: &Client,
    watcher: &mut Watcher,
    path: &str,
    late: &mut Vec<(EventType, String)>,
) {
    let value = actor.world.value().to_string();
    let (kind, answer) = match actor.random.below(3) {
        0 => {
            let create = Create::persistent();
            let answer = actor.ask(writer.create2(path, value, &create)).await;
            let zxid = |(_, stat): (_, client::Stat)| Some(stat.czxid);
            (EventType::NodeCreated, answer.map(zxid))
        }
        1 => {
            let answer = actor.ask(writer.delete(path, -1)).await;
            (EventType::NodeDeleted, answer.map(|()| None))
        }
        _ => {
            let answer = actor.ask(writer.set_data(path, value, -1)).await;
            let answer = answer.map(|stat| Some(stat.mzxid));
            (EventType::NodeDataChanged, answer)
        }
    };
    let path = path.to_owned();
    match answer {
        Outcome::Done(zxid) => watcher.sure.push_back(Written { kind, path, zxid }),
        Outcome::Unsure => {
            late.push((kind, path.clone()));
            let zxid = None;
            watcher.doubtful.push(Written { kind, path, zxid });
        }
        Outcome::Refused(_) => {}
    }
}

/// Sets a one-shot watch.
async fn arm(actor: &mut Actor, watcher: &mut Watcher, path: &str) {
    watcher.armed = None;
    match actor.ask(watcher.client.watch_exists(path)).await {
        Outcome::Done((stat, watch)) => {
            let zxid = stat.as_ref().map_or(0, |stat| stat.mzxid);
            watcher.armed = Some((watch, zxid, stat.is_some()));
        }
        _ => watcher.armed = None,
    }
}

/// Reads the watched znode. If it has changed, its watch must have fired before.
async fn read(actor: &mut Actor, watcher: &mut Watcher) {
    let Some((mut watch, zxid, existed)) = watcher.armed.take() else {
        return;
    };
    let path = watch.path().to_owned();
    let Outcome::Done(stat) = actor.ask(watcher.client.exists(&path)).await else {
        return;
    };
    let has_changed = stat.as_ref().map_or(existed, |stat| stat.mzxid != zxid);
    match ready(watch.changed()) {
        Some(Ok(event)) => {
            let is_later = event.zxid.0 == -1 || event.zxid.0 > zxid;
            let is_possible = match event.kind {
                EventType::NodeCreated => !existed,
                EventType::NodeDeleted | EventType::NodeDataChanged => existed,
                EventType::NodeChildrenChanged => false,
            };
            actor.require(is_later && is_possible, ONCE, || {
                format!("{event:?} after {}, existed {existed}", Zxid(zxid))
            });
        }
        Some(Err(_)) => {}
        None => {
            actor.require(!has_changed, ONCE, || {
                format!(
                    "{path} has {stat:?} without an event after {}, existed {existed}",
                    Zxid(zxid)
                )
            });
            watcher.armed = Some((watch, zxid, existed));
        }
    }
}

/// Reads the stream. It must contain all changes that were answered before.
async fn drain(actor: &mut Actor, watcher: &mut Watcher) {
    let Outcome::Done(()) = actor.ask(watcher.client.sync("/")).await else {
        return;
    };
    while let Some(Ok(change)) = ready(watcher.stream.next()) {
        match change {
            Change::Event(event) => {
                if let Err(text) = watcher.take(&event) {
                    actor.world.report(ORDER, &text);
                }
            }
            // The events of these changes may be missing.
            Change::Missed => watcher.doubtful.extend(watcher.sure.drain(..)),
        }
    }
    if !has_ended(&watcher.client) {
        let missing = watcher.sure.front();
        actor.require(missing.is_none(), ORDER, || {
            format!("{missing:?} is missing after {:#x}", watcher.zxid)
        });
    }
}

impl Watcher {
    /// Finds the change that an event reports.
    fn take(&mut self, event: &WatchEvent) -> Result<(), String> {
        let zxid = event.zxid.0;
        if zxid <= self.zxid {
            return Err(format!("{event:?} after {:#x}", self.zxid));
        }
        self.zxid = zxid;
        let is_it = |written: &Written| {
            (written.kind, written.path.as_str()) == (event.kind, &*event.path)
                && written.zxid.is_none_or(|of_change| of_change == zxid)
        };
        if self.sure.front().is_some_and(is_it) {
            self.sure.pop_front();
        } else if let Some(at) = self.doubtful.iter().position(is_it) {
            self.doubtful.remove(at);
        } else {
            return Err(format!("{event:?} instead of {:?}", self.sure.front()));
        }
        Ok(())
    }
}
