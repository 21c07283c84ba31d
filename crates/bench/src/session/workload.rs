//! Sequence of a session's requests.

use fastrand::Rng;
use proto::Xid;

use crate::session::template::{Payload, Template, path_with_digits};

/// Mix of the requests in a load. (Fan-out, storms, locks and idle sessions are other kinds of
/// `SessionWork`.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mix {
    /// getData.
    Get,
    /// exists.
    Exists,
    /// setData.
    Set,
    /// create, for new znodes.
    Create,
    /// getData and setData.
    Mixed {
        /// Percentage of getData requests.
        read_percent: u32,
    },
    /// Several setData operations in one request.
    Multi {
        /// Number of operations in one request.
        size: u32,
    },
    /// getChildren of the parent of the load's znodes.
    Children,
    /// create, for sequential znodes with the same parent as the load's znodes.
    Sequence,
    /// create, for a tree in which only the leaves count as znodes.
    Fill {
        /// Number of znodes that already exist.
        from: u32,
        /// Number of znodes at the end.
        znodes: u32,
        /// Number of znodes below each parent.
        breadth: u32,
    },
}

impl Mix {
    /// Returns whether the load needs existing znodes.
    pub(crate) fn uses_keys(self) -> bool {
        !matches!(self, Self::Create | Self::Fill { .. })
    }
}

/// Number of digits in the name of a key, which is a znode that loads read and write.
pub(crate) const KEY_DIGITS: usize = 8;
/// Number of digits in the name of a created znode.
const CREATED_DIGITS: usize = 10;
/// Numbers of digits in the names of the parents and of the leaves of a filled tree.
pub(crate) const PARENT_DIGITS: usize = 8;
const LEAF_DIGITS: usize = 8;
/// Prefix of the names of sequential znodes.
const SEQUENCE: &str = "s";

/// Returns the prefix of the paths of keys.
pub(crate) fn key_prefix(root: &str) -> String {
    format!("{root}/k")
}

/// Returns the prefix of the paths of the parents in a filled tree.
pub(crate) fn parent_prefix(root: &str) -> String {
    format!("{root}/d")
}

/// Returns the path of a leaf in a filled tree, with placeholders for its two numbers.
fn leaf_path(root: &str) -> String {
    let parent = path_with_digits(&parent_prefix(root), PARENT_DIGITS);
    path_with_digits(&format!("{parent}/n"), LEAF_DIGITS)
}

/// Returns the parent of the znodes that one session creates in one round.
pub(crate) fn create_parent(root: &str, round: u32, session: u32) -> String {
    format!("{root}/r{round}-s{session}")
}

/// Properties of a load that all its sessions share.
#[derive(Debug, Clone)]
pub(crate) struct LoadPlan {
    pub(crate) mix: Mix,
    pub(crate) root: String,
    pub(crate) payload: Payload,
    pub(crate) keys: u32,
    /// Number of children per parent if the keys are the leaves of an existing tree. Otherwise the
    /// load creates the keys directly below its root.
    pub(crate) breadth: Option<u32>,
    pub(crate) sessions: u32,
    pub(crate) pipeline: u32,
}

/// Encoder of one session's requests.
#[derive(Debug)]
pub(crate) struct Requests {
    first: Template,
    /// Template of the writes in a mixed load.
    second: Option<Template>,
    numbers: Numbers,
    random: Rng,
    read_percent: u32,
    /// Whether the requests are multis. The body of the reply to a multi contains the error code.
    pub(crate) is_multi: bool,
    next_xid: i32,
}

/// Source of the numbers in paths.
#[derive(Debug)]
enum Numbers {
    /// Random key among this number of keys.
    Keys(u64),
    /// Random leaf of a tree with `count` leaves, and its parent.
    Leaves { count: u64, breadth: u64 },
    /// Consecutive numbers, beginning with this number.
    Counter(u64),
    /// Every `step`th leaf of a tree, with its parent.
    Tree {
        next: u64,
        step: u64,
        end: u64,
        breadth: u64,
    },
}

impl Requests {
    /// Returns the requests for session number `session` in round `round`.
    pub(crate) fn new(plan: &LoadPlan, round: u32, session: u32) -> Self {
        let data = &plan.payload;
        let count = plan.keys.into();
        let (key, keys) = match plan.breadth {
            None => {
                let key = path_with_digits(&key_prefix(&plan.root), KEY_DIGITS);
                (key, Numbers::Keys(count))
            }
            Some(breadth) => {
                let breadth = breadth.max(1).into();
                (leaf_path(&plan.root), Numbers::Leaves { count, breadth })
            }
        };
        let (first, second, numbers) = match plan.mix {
            Mix::Get => (Template::get_data(&key, false), None, keys),
            Mix::Exists => (Template::exists(&key), None, keys),
            Mix::Set => (Template::set_data(&key, data), None, keys),
            Mix::Mixed { .. } => {
                let write = Template::set_data(&key, data);
                (Template::get_data(&key, false), Some(write), keys)
            }
            Mix::Multi { size } => (Template::multi_set(&key, data, size as usize), None, keys),
            Mix::Create => {
                let parent = create_parent(&plan.root, round, session);
                let path = path_with_digits(&format!("{parent}/n"), CREATED_DIGITS);
                (Template::create(&path, data), None, Numbers::Counter(0))
            }
            Mix::Children => (Template::get_children(&plan.root), None, keys),
            Mix::Sequence => {
                let path = format!("{}/{SEQUENCE}", plan.root);
                (Template::create_sequential(&path, data), None, keys)
            }
            Mix::Fill {
                from,
                znodes,
                breadth,
            } => {
                let path = leaf_path(&plan.root);
                let numbers = Numbers::Tree {
                    next: u64::from(from) + u64::from(session),
                    step: plan.sessions.max(1).into(),
                    end: znodes.into(),
                    breadth: breadth.max(1).into(),
                };
                (Template::create(&path, data), None, numbers)
            }
        };
        let read_percent = match plan.mix {
            Mix::Mixed { read_percent } => read_percent,
            _ => 100,
        };
        Self {
            first,
            second,
            numbers,
            random: Rng::with_seed(u64::from(round) << 32 | u64::from(session)),
            read_percent,
            is_multi: matches!(plan.mix, Mix::Multi { .. }),
            next_xid: 1,
        }
    }

    /// Appends the next request. Returns `false` when no request remains.
    #[inline]
    pub(crate) fn put(&mut self, out: &mut Vec<u8>) -> bool {
        let xid = Xid(self.next_xid);
        let Self {
            first,
            second,
            numbers,
            random,
            ..
        } = self;
        let chosen = match second {
            Some(write) if random.u32(..100) >= self.read_percent => &*write,
            _ => &*first,
        };
        match numbers {
            Numbers::Keys(keys) => chosen.put(xid, out, || random.u64(..*keys)),
            Numbers::Leaves { count, breadth } => {
                let number = random.u64(..*count);
                let mut places = [number / *breadth, number].into_iter();
                chosen.put(xid, out, || places.next().unwrap_or(0));
            }
            Numbers::Counter(next) => {
                first.put(xid, out, || *next);
                *next += 1;
            }
            Numbers::Tree {
                next,
                step,
                end,
                breadth,
            } => {
                if *next >= *end {
                    return false;
                }
                let mut places = [*next / *breadth, *next].into_iter();
                first.put(xid, out, || places.next().unwrap_or(0));
                *next += *step;
            }
        }
        self.next_xid = xid_after(self.next_xid);
        true
    }
}

/// Returns the xid after `xid`. Source: ClientCnxn.getXid.
#[inline]
pub(crate) fn xid_after(xid: i32) -> i32 {
    if xid >= i32::MAX - 1 { 1 } else { xid + 1 }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use client::frame::FrameReader;
    use jute::Reader;
    use proto::OpCode;
    use proto::request::{ReadRequest, Request, WriteRequest};

    use super::*;

    fn plan(mix: Mix) -> LoadPlan {
        LoadPlan {
            mix,
            root: "/bench".to_owned(),
            payload: Payload::new(5),
            keys: 10,
            breadth: None,
            sessions: 3,
            pipeline: 4,
        }
    }

    /// Returns up to `count` requests of a session.
    fn requests(mix: Mix, session: u32, count: usize) -> Vec<Request> {
        let mut requests = Requests::new(&plan(mix), 2, session);
        let mut out = Vec::new();
        for _ in 0..count {
            if !requests.put(&mut out) {
                break;
            }
        }
        let mut frames = FrameReader::new(1 << 20);
        frames.extend(&out);
        let mut decoded = Vec::new();
        let mut xid = 1;
        while let Some(frame) = frames.next_frame().unwrap() {
            let mut input = Reader::new(Bytes::copy_from_slice(frame));
            assert_eq!(input.i32().unwrap(), xid);
            xid = xid_after(xid);
            let op = OpCode::from_i32(input.i32().unwrap()).unwrap();
            decoded.push(Request::decode(op, &mut input).unwrap());
        }
        decoded
    }

    fn created(request: &Request) -> &str {
        match request {
            Request::Write(WriteRequest::Create { request, .. }) => {
                request.path.as_deref().unwrap()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn reads_stay_among_the_keys() {
        for request in requests(Mix::Get, 0, 200) {
            let Request::Read(ReadRequest::GetData(record)) = request else {
                panic!("{request:?}");
            };
            let path = record.path.unwrap();
            let number: u32 = path.strip_prefix("/bench/k").unwrap().parse().unwrap();
            assert!(
                number < 10 && path.len() == "/bench/k".len() + KEY_DIGITS,
                "{path}"
            );
        }
    }

    #[test]
    fn a_mix_has_its_share_of_reads() {
        let mixed = requests(Mix::Mixed { read_percent: 70 }, 0, 2000);
        let reads = mixed
            .iter()
            .filter(|request| matches!(request, Request::Read(_)))
            .count();
        assert!((1300..1500).contains(&reads), "{reads}");
    }

    #[test]
    fn creates_never_repeat() {
        let list = requests(Mix::Create, 1, 3);
        let paths: Vec<&str> = list.iter().map(created).collect();
        assert_eq!(
            paths,
            [
                "/bench/r2-s1/n0000000000",
                "/bench/r2-s1/n0000000001",
                "/bench/r2-s1/n0000000002"
            ]
        );
    }

    #[test]
    fn the_sessions_fill_the_tree_together() {
        let filled = |from| {
            let fill = Mix::Fill {
                from,
                znodes: 10,
                breadth: 4,
            };
            let all = (0..3).flat_map(|session| requests(fill, session, 100));
            let mut paths: Vec<String> = all.map(|request| created(&request).to_owned()).collect();
            paths.sort();
            paths
        };
        let paths = filled(0);
        assert_eq!(paths.len(), 10);
        assert_eq!(filled(7), paths[7..]);
        assert_eq!(paths.first().unwrap(), "/bench/d00000000/n00000000");
        assert_eq!(paths.last().unwrap(), "/bench/d00000002/n00000009");
    }

    #[test]
    fn leaves_of_a_tree_are_read_where_they_were_made() {
        let mut requests = Requests::new(
            &LoadPlan {
                breadth: Some(4),
                ..plan(Mix::Get)
            },
            0,
            0,
        );
        let mut out = Vec::new();
        for _ in 0..50 {
            requests.put(&mut out);
        }
        let text = String::from_utf8_lossy(&out);
        let mut paths: Vec<&str> = text.split("/bench/d").skip(1).collect();
        paths.sort_unstable();
        let (first, last) = (paths[0], paths[49]);
        assert!(first.starts_with("00000000/n00000000"), "{first:?}");
        assert!(last.starts_with("00000002/n00000009"), "{last:?}");
    }

    #[test]
    fn xids_stay_positive() {
        assert_eq!(xid_after(i32::MAX - 2), i32::MAX - 1);
        assert_eq!(xid_after(i32::MAX - 1), 1);
    }
}
