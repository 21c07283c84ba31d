//! Names and contents of item znodes in queues.
//!
//! Source: ItemSerializer, DistributedQueue, DistributedPriorityQueue.

use bytes::{Buf, BufMut, Bytes, BytesMut};

const VERSION: u32 = 0x0001_0001;
const ITEM: u8 = 1;
const END: u8 = 2;
/// Prefix of every item's name.
pub(crate) const ITEM_WORD: &str = "queue-";
/// Length of a priority: a sign and eight digits.
const PRIORITY_LEN: usize = 9;

/// Encodes the contents of one znode. Items in one znode are taken together.
pub(crate) fn encode(items: &[Bytes]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u32(VERSION);
    for item in items {
        out.put_u8(ITEM);
        // A request cannot contain such a large item.
        out.put_u32(u32::try_from(item.len()).unwrap_or(u32::MAX));
        out.put_slice(item);
    }
    out.put_u8(END);
    out.freeze()
}

/// # Errors
/// If the data is invalid. The text describes the fault. Like Curator, this function ignores bytes
/// after the end mark.
pub(crate) fn decode(mut data: Bytes) -> Result<Vec<Bytes>, &'static str> {
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

/// Formats a priority so that the order of the text is the order of the priorities.
pub(crate) fn priority_text(priority: i32) -> String {
    let sign = i32::from(priority >= 0);
    format!("{sign}{priority:08X}")
}

/// Returns the names of items in their order, without other names.
pub(crate) fn in_order(names: &[String], has_priority: bool) -> Vec<&str> {
    let parsed = names.iter().filter_map(|name| {
        let (priority, number) = parse(name, has_priority)?;
        Some((priority, number, name.as_str()))
    });
    let mut parsed: Vec<_> = parsed.collect();
    // The server's number wraps. The existing numbers are close to each other, so distances have
    // the correct order.
    let Some(&(_, some, _)) = parsed.first() else {
        return Vec::new();
    };
    parsed.sort_by_key(|&(priority, number, _)| (priority, number.wrapping_sub(some)));
    parsed.into_iter().map(|(_, _, name)| name).collect()
}

fn parse(name: &str, has_priority: bool) -> Option<(&str, i32)> {
    let rest = name.strip_prefix(ITEM_WORD)?;
    let priority_len = if has_priority { PRIORITY_LEN } else { 0 };
    let (priority, number) = rest.split_at_checked(priority_len)?;
    let is_priority = |byte: u8| byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte);
    let digits = number.strip_prefix('-').unwrap_or(number);
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    if !priority.bytes().all(is_priority) || !is_number || !(10..=11).contains(&number.len()) {
        return None;
    }
    Some((priority, number.parse().ok()?))
}

/// Returns the name without its number.
pub(crate) fn stem(name: &str, has_priority: bool) -> &str {
    let priority_len = if has_priority { PRIORITY_LEN } else { 0 };
    name.get(..ITEM_WORD.len() + priority_len).unwrap_or(name)
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
        assert_eq!(in_order(&shuffled, true), names);
        assert_eq!(stem(&names[4], true), "queue-100000000");
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
        assert_eq!(in_order(&names, false), names[..3]);
        let late = ["queue-0000000000", "queue--000000001"].map(str::to_owned);
        assert_eq!(in_order(&late, false), [&*late[1], &*late[0]]);
        assert_eq!(stem(&late[1], false), "queue-");
    }
}
