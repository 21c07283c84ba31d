//! Minimal implementation of locks and watches: queues of sequential znodes, and the watchers of a
//! change.
//!
//! With a log, a change is executed and reported once it is on disk, as in every server. Requests
//! are not validated, and data is not stored.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use client::frame::put_frame;
use jute::{Decode, Encode, Reader};
use parking_lot::Mutex;
use proto::connect::ReplyHeader;
use proto::request::{CreateRequest, PathVersionRequest, PathWatchRequest, SetDataRequest, flags};
use proto::response::{CreateResponse, NamesResponse};
use proto::watch::{EventType, STATE_SYNC_CONNECTED, WatcherEvent};
use proto::{ErrorCode, OpCode, Xid, Zxid};
use tokio::sync::Notify;

/// State that all connections share.
#[derive(Debug, Clone, Default)]
pub(super) struct Queues(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Whether any request has used a queue or a watch. Until then, requests are answered without a
    /// lookup.
    are_used: AtomicBool,
    znodes: Mutex<Znodes>,
}

#[derive(Debug, Default)]
struct Znodes {
    queues: HashMap<String, Queue>,
    watched: HashMap<String, Vec<Arc<ConnectionEvents>>>,
}

#[derive(Debug, Default)]
struct Queue {
    next: u32,
    /// Names of the znodes, with the owner of each.
    names: BTreeMap<String, Arc<ConnectionEvents>>,
}

/// Watch events that wait to be sent on a connection. The address of this value identifies the
/// connection.
#[derive(Debug, Default)]
pub(super) struct ConnectionEvents {
    frames: Mutex<Vec<u8>>,
    pub(super) came: Notify,
}

/// Request that concerns queues or watches.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct QueueRequest {
    what: QueueOperation,
    xid: Xid,
    path: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QueueOperation {
    Join,
    Leave,
    List,
    Watch,
    Change,
}

impl ConnectionEvents {
    /// Moves the waiting events to the end of `out`.
    pub(super) fn take(&self, out: &mut Vec<u8>) {
        out.append(&mut self.frames.lock());
    }
}

impl QueueRequest {
    pub(super) fn is_write(&self) -> bool {
        !matches!(self.what, QueueOperation::List | QueueOperation::Watch)
    }
}

/// Decodes a record. Returns `None` if it is invalid.
fn read<T: Decode>(record: &[u8]) -> Option<T> {
    T::decode(&mut Reader::new(Bytes::copy_from_slice(record))).ok()
}

impl Queues {
    /// Parses a request. Returns `None` if it is invalid or does not concern queues or watches.
    /// Before the first use of a queue or watch, getChildren, delete and setData do not concern
    /// them.
    pub(super) fn parse_request(&self, frame: &[u8]) -> Option<QueueRequest> {
        let (xid, rest) = frame.split_first_chunk::<4>()?;
        let (op, record) = rest.split_first_chunk::<4>()?;
        let xid = Xid(i32::from_be_bytes(*xid));
        let are_used = || self.0.are_used.load(Ordering::Relaxed);
        let (what, path) = match OpCode::from_i32(i32::from_be_bytes(*op))? {
            OpCode::Create => {
                let request: CreateRequest = read(record)?;
                let is_join = request.flags == flags::EPHEMERAL_SEQUENTIAL;
                (QueueOperation::Join, request.path.filter(|_| is_join))
            }
            // The last byte states whether to watch the znode.
            OpCode::GetData if record.last() == Some(&1) => (
                QueueOperation::Watch,
                read::<PathWatchRequest>(record)?.path,
            ),
            OpCode::GetChildren if are_used() => {
                (QueueOperation::List, read::<PathWatchRequest>(record)?.path)
            }
            OpCode::Delete if are_used() => (
                QueueOperation::Leave,
                read::<PathVersionRequest>(record)?.path,
            ),
            OpCode::SetData if are_used() => {
                (QueueOperation::Change, read::<SetDataRequest>(record)?.path)
            }
            _ => return None,
        };
        let path = path?.to_string();
        Some(QueueRequest { what, xid, path })
    }

    /// Executes a request, and appends its answer to `out`. `usual` writes an ordinary answer with
    /// data.
    pub(super) fn carry_out(
        &self,
        request: QueueRequest,
        by: &Arc<ConnectionEvents>,
        usual: impl FnOnce(Xid, &mut Vec<u8>),
        out: &mut Vec<u8>,
    ) {
        self.0.are_used.store(true, Ordering::Relaxed);
        let mut znodes = self.0.znodes.lock();
        let QueueRequest { what, xid, path } = request;
        match what {
            QueueOperation::Join => {
                let path = znodes.join(&path, by).into();
                answer(out, xid, ErrorCode::Ok, |out| {
                    CreateResponse { path }.encode(out);
                });
            }
            QueueOperation::Leave => {
                let is_there = znodes.leave(&path);
                znodes.notify_watchers(&path, EventType::NodeDeleted);
                let code = if is_there {
                    ErrorCode::Ok
                } else {
                    ErrorCode::NoNode
                };
                answer(out, xid, code, |_| ());
            }
            QueueOperation::List => {
                let queue = znodes.queues.get(&path);
                let names = queue.map(|queue| queue.names.keys().map(|name| name.as_str().into()));
                let names = names.map(Iterator::collect).unwrap_or_default();
                answer(out, xid, ErrorCode::Ok, |out| {
                    NamesResponse { names }.encode(out);
                });
            }
            QueueOperation::Watch if znodes.has_left(&path) => {
                answer(out, xid, ErrorCode::NoNode, |_| ());
            }
            QueueOperation::Watch => {
                znodes.watched.entry(path).or_default().push(Arc::clone(by));
                usual(xid, out);
            }
            QueueOperation::Change => {
                znodes.notify_watchers(&path, EventType::NodeDataChanged);
                usual(xid, out);
            }
        }
    }

    /// Removes the entries of an ended session from the queues, and notifies their watchers.
    pub(super) fn end(&self, of: &Arc<ConnectionEvents>) {
        if !self.0.are_used.load(Ordering::Relaxed) {
            return;
        }
        let mut znodes = self.0.znodes.lock();
        for path in znodes.of(of) {
            znodes.leave(&path);
            znodes.notify_watchers(&path, EventType::NodeDeleted);
        }
    }
}

impl Znodes {
    /// Adds a sequential znode to the queue of its parent, and returns the znode's path.
    fn join(&mut self, path: &str, by: &Arc<ConnectionEvents>) -> String {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let queue = self.queues.entry(directory.to_owned()).or_default();
        let name = format!("{name}{:010}", queue.next);
        queue.next += 1;
        let path = format!("{directory}/{name}");
        queue.names.insert(name, Arc::clone(by));
        path
    }

    /// Returns the paths of all znodes that belong to an owner.
    fn of(&self, owner: &Arc<ConnectionEvents>) -> Vec<String> {
        let queues = self.queues.iter();
        let paths = queues.flat_map(|(directory, queue)| {
            let names = queue.names.iter();
            let owned = names.filter(|(_, by)| Arc::ptr_eq(by, owner));
            owned.map(move |(name, _)| format!("{directory}/{name}"))
        });
        paths.collect()
    }

    /// Removes a znode. Returns whether it existed.
    fn leave(&mut self, path: &str) -> bool {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let queue = self.queues.get_mut(directory);
        queue.is_some_and(|queue| queue.names.remove(name).is_some())
    }

    /// Returns whether the znode's queue exists but no longer contains the znode.
    fn has_left(&self, path: &str) -> bool {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let queue = self.queues.get(directory);
        queue.is_some_and(|queue| !queue.names.contains_key(name))
    }

    fn notify_watchers(&mut self, path: &str, event_type: EventType) {
        let Some(watchers) = self.watched.get_mut(path) else {
            return;
        };
        let event = WatcherEvent {
            event_type: event_type as i32,
            state: STATE_SYNC_CONNECTED,
            path: path.into(),
        };
        let mut frame = Vec::new();
        answer(&mut frame, Xid::EVENT, ErrorCode::Ok, |out| {
            event.encode(out);
        });
        for events in watchers.drain(..) {
            events.frames.lock().extend_from_slice(&frame);
            events.came.notify_one();
        }
    }
}

fn answer(out: &mut Vec<u8>, xid: Xid, code: ErrorCode, record: impl FnOnce(&mut Vec<u8>)) {
    put_frame(out, |out| {
        ReplyHeader::new(xid, Zxid(1), code).encode(out);
        record(out);
    });
}

#[cfg(test)]
mod tests {
    use client::frame::{FrameReader, put_request, split_reply};

    use super::*;

    /// Executes a request, and returns the xid, error code and record of each frame in the answer.
    fn ask(
        queues: &Queues,
        by: &Arc<ConnectionEvents>,
        op: OpCode,
        record: &impl Encode,
    ) -> Option<Vec<(i32, i32, Vec<u8>)>> {
        let mut request = Vec::new();
        put_request(Xid(7), op.number(), &mut request, |out| record.encode(out));
        let request = queues.parse_request(&request[4..])?;
        let mut out = Vec::new();
        queues.carry_out(
            request,
            by,
            |xid, out| answer(out, xid, ErrorCode::Ok, |_| ()),
            &mut out,
        );
        Some(frames(&out))
    }

    fn frames(bytes: &[u8]) -> Vec<(i32, i32, Vec<u8>)> {
        let mut reader = FrameReader::new(1 << 20);
        reader.extend(bytes);
        let mut seen = Vec::new();
        while let Some(frame) = reader.next_frame().unwrap() {
            let (header, body) = split_reply(frame).unwrap();
            seen.push((header.xid.0, header.err, body.to_vec()));
        }
        seen
    }

    fn watch_request(path: &str, watch: bool) -> PathWatchRequest {
        PathWatchRequest {
            path: Some(path.into()),
            watch,
        }
    }

    #[test]
    fn a_queue_numbers_its_entries_and_notifies_the_successor() {
        let (queues, by) = (Queues::default(), Arc::<ConnectionEvents>::default());
        assert!(
            ask(
                &queues,
                &by,
                OpCode::GetChildren,
                &watch_request("/q", false)
            )
            .is_none()
        );
        let join = CreateRequest {
            path: Some("/q/lock-".into()),
            data: None,
            acl: None,
            flags: flags::EPHEMERAL_SEQUENTIAL,
        };
        for number in 0..2 {
            let joined = ask(&queues, &by, OpCode::Create, &join).unwrap();
            let path = format!("/q/lock-000000000{number}");
            assert!(joined[0].2.ends_with(path.as_bytes()));
        }
        let names = ask(
            &queues,
            &by,
            OpCode::GetChildren,
            &watch_request("/q", false),
        )
        .unwrap();
        assert_eq!(names[0].2.len(), 4 + 2 * (4 + 15));
        let first = "/q/lock-0000000000";
        assert_eq!(
            ask(&queues, &by, OpCode::GetData, &watch_request(first, true)).unwrap()[0].1,
            0
        );
        let leave = PathVersionRequest {
            path: Some(first.into()),
            version: -1,
        };
        assert_eq!(ask(&queues, &by, OpCode::Delete, &leave).unwrap()[0].1, 0);
        let mut events = Vec::new();
        by.take(&mut events);
        let events = frames(&events);
        assert!(events.len() == 1 && events[0].0 == -1 && events[0].2.ends_with(first.as_bytes()));
        let late = ask(&queues, &by, OpCode::GetData, &watch_request(first, true)).unwrap();
        assert_eq!(late[0].1, ErrorCode::NoNode.code());

        // A session that watches another session's znode receives an event when the other session
        // ends.
        let second = "/q/lock-0000000001";
        let waiting = Arc::<ConnectionEvents>::default();
        ask(&queues, &waiting, OpCode::Create, &join).unwrap();
        ask(
            &queues,
            &waiting,
            OpCode::GetData,
            &watch_request(second, true),
        )
        .unwrap();
        queues.end(&by);
        let mut events = Vec::new();
        waiting.take(&mut events);
        assert!(frames(&events)[0].2.ends_with(second.as_bytes()));
        let names = ask(
            &queues,
            &by,
            OpCode::GetChildren,
            &watch_request("/q", false),
        )
        .unwrap();
        assert!(names[0].2.ends_with(b"lock-0000000002"));
        assert_eq!(names[0].2.len(), 4 + 4 + 15);
    }

    #[test]
    fn a_change_notifies_each_watcher_once() {
        let queues = Queues::default();
        let watchers = [Arc::<ConnectionEvents>::default(), Arc::default()];
        for by in &watchers {
            ask(&queues, by, OpCode::GetData, &watch_request("/a", true)).unwrap();
        }
        let change = SetDataRequest {
            path: Some("/a".into()),
            data: None,
            version: -1,
        };
        for expected in [1, 0] {
            ask(&queues, &watchers[0], OpCode::SetData, &change).unwrap();
            for by in &watchers {
                let mut events = Vec::new();
                by.take(&mut events);
                assert_eq!(frames(&events).len(), expected);
            }
        }
    }
}
