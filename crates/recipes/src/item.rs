//! Names and contents of item znodes in queues.
//!
//! Source: ItemSerializer, DistributedQueue, DistributedPriorityQueue, DistributedDelayQueue,
//! DistributedIdQueue, SimpleDistributedQueue; kazoo's Queue and LockingQueue.

use bytes::{Buf, BufMut, Bytes, BytesMut};

const VERSION: u32 = 0x0001_0001;
const ITEM: u8 = 1;
const END: u8 = 2;
/// Prefix of the names of Curator's items.
const ITEM_WORD: &str = "queue-";
/// Character before and after a due time or an id.
const SEPARATOR: char = '|';
/// Length of a priority: a sign and eight hexadecimal digits.
const PRIORITY_LEN: usize = 9;

/// Encodes the contents of one znode. A consumer takes all items of one znode together.
fn encode(items: &[Bytes]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u32(VERSION);
    for item in items {
        out.put_u8(ITEM);
        // A request cannot contain an item of 4 GiB or more.
        out.put_u32(u32::try_from(item.len()).unwrap_or(u32::MAX));
        out.put_slice(item);
    }
    out.put_u8(END);
    out.freeze()
}

/// Decodes the contents of one znode. Like Curator, ignores bytes after the end mark.
///
/// # Errors
/// If the data is invalid. The message describes the error.
fn decode(mut data: Bytes) -> Result<Vec<Bytes>, &'static str> {
    const SHORT: &str = "the data ends too early";
    if data.try_get_u32().map_err(|_| SHORT)? != VERSION {
        return Err("the data does not begin with the version 0x00010001");
    }
    let mut items = Vec::new();
    loop {
        match data.try_get_u8().map_err(|_| SHORT)? {
            END => return Ok(items),
            ITEM => {}
            _ => {
                return Err(
                    "the data contains a byte that is neither the start of an item nor the end mark",
                );
            }
        }
        let len = data.try_get_u32().map_err(|_| SHORT)?;
        let len = usize::try_from(len).map_err(|_| SHORT)?;
        if len > data.len() {
            return Err(SHORT);
        }
        items.push(data.split_to(len));
    }
}

/// Format of the names of items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naming {
    /// `queue-<number>`.
    Plain,
    /// `queue-<priority><number>`.
    Priority,
    /// `queue-|<due time>|<number>`.
    Due,
    /// `queue-|<id>|<number>`.
    Id,
    /// `qn-<number>`, with the item as the data of the znode.
    Simple,
    /// `entry-<priority>-<number>`, with the item as the data of the znode.
    Entry,
}

impl Naming {
    /// Returns the first part of every name.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Plain | Self::Priority | Self::Due | Self::Id => ITEM_WORD,
            Self::Simple => "qn-",
            Self::Entry => "entry-",
        }
    }

    /// Encodes the contents of one znode. A znode whose data is the item contains only one item.
    pub(crate) fn encode(self, items: &[Bytes]) -> Bytes {
        match (self, items) {
            (Self::Simple | Self::Entry, [item]) => item.clone(),
            _ => encode(items),
        }
    }

    /// Decodes the contents of one znode.
    ///
    /// # Errors
    /// If the data is invalid. The message describes the error.
    pub(crate) fn decode(self, data: Bytes) -> Result<Vec<Bytes>, &'static str> {
        match self {
            Self::Simple | Self::Entry => Ok(vec![data]),
            _ => decode(data),
        }
    }
}

/// Parts of an item's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ItemName<'a> {
    /// Name without its number.
    pub(crate) stem: &'a str,
    /// Priority, id or due time as text. Empty in names without such a part.
    pub(crate) label: &'a str,
    /// Time from which the item may be taken, in ms since 1970, or 0 without a due time.
    pub(crate) due_ms: u64,
    number: i32,
}

/// Formats a priority so that the strings have the same order as the priorities.
fn priority_text(priority: i32) -> String {
    let sign = i32::from(priority >= 0);
    format!("{sign}{priority:08X}")
}

/// Returns the stem of an item with this priority.
pub(crate) fn priority_stem(priority: i32) -> String {
    format!("{ITEM_WORD}{}", priority_text(priority))
}

/// Returns the stem of an entry of kazoo's queues.
pub(crate) fn entry_stem(priority: u16) -> String {
    format!("entry-{priority:03}-")
}

/// Returns the stem of an item that may be taken from this time on, in ms since 1970.
pub(crate) fn due_stem(due_ms: u64) -> String {
    format!("{ITEM_WORD}{SEPARATOR}{due_ms:08X}{SEPARATOR}")
}

/// Returns the stem of an item with an id.
pub(crate) fn id_stem(id: &str) -> String {
    format!("{ITEM_WORD}{SEPARATOR}{}{SEPARATOR}", id_text(id))
}

/// Returns an id as it occurs in names.
pub(crate) fn id_text(id: &str) -> String {
    id.replace(['/', SEPARATOR], "_")
}

/// Returns the items in the order of the queue, ignoring other names.
pub(crate) fn in_order(names: &[String], naming: Naming) -> Vec<&str> {
    let parsed = names
        .iter()
        .filter_map(|name| Some((parse(name, naming)?, name.as_str())));
    let mut parsed: Vec<_> = parsed.collect();
    // The server's number wraps. The existing numbers are close to each other, so their distances
    // yield the correct order.
    let Some(some) = parsed.first().map(|(item, _)| item.number) else {
        return Vec::new();
    };
    let rank = |item: &ItemName<'_>| (item.due_ms, item.number.wrapping_sub(some));
    match naming {
        Naming::Priority | Naming::Entry => {
            parsed.sort_by_key(|(item, _)| (item.label, rank(item)));
        }
        _ => parsed.sort_by_key(|(item, _)| rank(item)),
    }
    parsed.into_iter().map(|(_, name)| name).collect()
}

/// Returns the parts of an item's name, or `None` for other names.
pub(crate) fn parse(name: &str, naming: Naming) -> Option<ItemName<'_>> {
    let rest = name.strip_prefix(naming.word())?;
    let (label, number) = match naming {
        Naming::Plain | Naming::Simple => ("", rest),
        Naming::Entry => rest.split_once('-')?,
        Naming::Priority => rest.split_at_checked(PRIORITY_LEN)?,
        Naming::Due | Naming::Id => rest.strip_prefix(SEPARATOR)?.rsplit_once(SEPARATOR)?,
    };
    let due_ms = match naming {
        Naming::Due => u64::from_str_radix(label, 16).ok()?,
        _ => 0,
    };
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte);
    let is_label = naming == Naming::Id || label.bytes().all(is_hex);
    let digits = number.strip_prefix('-').unwrap_or(number);
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_label || !is_number || !(10..=11).contains(&number.len()) {
        return None;
    }
    Some(ItemName {
        stem: name.strip_suffix(number)?,
        label,
        due_ms,
        number: number.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_written_as_curator_writes_them() {
        let written = encode(&[Bytes::from_static(b"ab"), Bytes::new()]);
        assert_eq!(
            &*written,
            b"\x00\x01\x00\x01\x01\x00\x00\x00\x02ab\x01\x00\x00\x00\x00\x02"
        );
        assert_eq!(decode(written.clone()).unwrap(), ["ab", ""]);
        for end in 0..written.len() {
            let reason = decode(written.slice(..end)).unwrap_err();
            assert_eq!(reason, "the data ends too early", "{end}");
        }
        for (bad, what) in [
            (&b"\x00\x01\x00\x02\x02"[..], "version"),
            (b"\x00\x01\x00\x01\x03", "neither the start of an item"),
            (b"\x00\x01\x00\x01\x01\xff\xff\xff\xff", "too early"),
        ] {
            let reason = decode(Bytes::from_static(bad)).unwrap_err();
            assert!(reason.contains(what), "{reason}");
        }
    }

    #[test]
    fn priorities_are_text_that_sorts() {
        let priorities = [i32::MIN, -1, 0, 5, i32::MAX];
        let names: Vec<_> = priorities
            .iter()
            .flat_map(|priority| {
                let text = priority_text(*priority);
                [9, 10].map(|number| format!("queue-{text}{number:010}"))
            })
            .collect();
        assert_eq!(names[4], "queue-1000000000000000009");
        assert_eq!(names[2], "queue-0FFFFFFFF0000000009");
        let mut shuffled = names.clone();
        shuffled.reverse();
        shuffled.swap(1, 6);
        shuffled.push("queue-0000000001".to_owned());
        assert_eq!(in_order(&shuffled, Naming::Priority), names);
        let name = parse(&names[4], Naming::Priority).unwrap();
        assert_eq!(name.stem, "queue-100000000");
    }

    #[test]
    fn the_order_holds_where_numbers_wrap() {
        let names = [
            "queue-2147483647",
            "queue--2147483648",
            "queue--2147483647",
            "lock-0000000000",
            "queue-1000000050000000000",
            "queue-x",
        ];
        let names = names.map(str::to_owned);
        assert_eq!(in_order(&names, Naming::Plain), names[..3]);
        let late = ["queue-0000000000", "queue--000000001"].map(str::to_owned);
        assert_eq!(in_order(&late, Naming::Plain), [&*late[1], &*late[0]]);
        assert_eq!(parse(&late[1], Naming::Plain).unwrap().stem, "queue-");
    }

    #[test]
    fn due_times_and_ids_are_written_as_curator_writes_them() {
        assert_eq!(due_stem(0x19F_0000_0001), "queue-|19F00000001|");
        assert_eq!(due_stem(5), "queue-|00000005|");
        assert_eq!(id_stem("a/b|c"), "queue-|a_b_c|");
        let names = [
            "queue-|19F00000001|0000000003",
            "queue-|00000005|0000000004",
            "queue-|19F00000001|0000000002",
            "queue-|x|0000000001",
            "queue-0000000000",
        ];
        let names = names.map(str::to_owned);
        let ordered = [&*names[1], &*names[2], &*names[0]];
        assert_eq!(in_order(&names, Naming::Due), ordered);
        let due = parse(&names[1], Naming::Due).unwrap();
        assert_eq!((due.due_ms, due.stem), (5, "queue-|00000005|"));
        let by_id = [&*names[3], &*names[2], &*names[0], &*names[1]];
        assert_eq!(in_order(&names, Naming::Id), by_id);
        assert_eq!(parse(&names[3], Naming::Id).unwrap().label, "x");
    }

    #[test]
    fn entries_are_ordered_by_priority() {
        let names = [
            "entry-100-0000000001",
            "entry-007-0000000002",
            "entry-100-0000000000",
            "qn-0000000003",
        ];
        let names = names.map(str::to_owned);
        let ordered = [&*names[1], &*names[2], &*names[0]];
        assert_eq!(in_order(&names, Naming::Entry), ordered);
        assert_eq!(in_order(&names, Naming::Simple), [&*names[3]]);
        assert_eq!(entry_stem(7), "entry-007-");
        let raw = Bytes::from_static(b"any");
        assert_eq!(Naming::Entry.encode(std::slice::from_ref(&raw)), raw);
        assert_eq!(Naming::Entry.decode(raw.clone()).unwrap(), [raw]);
    }
}
