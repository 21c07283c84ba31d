//! Text output of values.
//!
//! Source: StatPrinter, DefaultFormatter, HexDumpOutputFormatter (Netty's
//! ByteBufUtil.prettyHexDump), ZKUtil.getPermString.

use std::fmt::Write;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use proto::data::perms;
use proto::{Acl, Stat};

/// Returns the eleven lines of a Stat.
pub(crate) fn stat(stat: &Stat) -> String {
    let mut text = String::with_capacity(300);
    let _ = writeln!(text, "cZxid = 0x{:x}", stat.czxid);
    let _ = writeln!(text, "ctime = {}", time(stat.ctime));
    let _ = writeln!(text, "mZxid = 0x{:x}", stat.mzxid);
    let _ = writeln!(text, "mtime = {}", time(stat.mtime));
    let _ = writeln!(text, "pZxid = 0x{:x}", stat.pzxid);
    let _ = writeln!(text, "cversion = {}", stat.cversion);
    let _ = writeln!(text, "dataVersion = {}", stat.version);
    let _ = writeln!(text, "aclVersion = {}", stat.aversion);
    let _ = writeln!(text, "ephemeralOwner = 0x{:x}", stat.ephemeral_owner);
    let _ = writeln!(text, "dataLength = {}", stat.data_length);
    let _ = write!(text, "numChildren = {}", stat.num_children);
    text
}

/// Formats a time like `java.util.Date.toString`, in the machine's time zone.
pub(crate) fn time(ms: i64) -> String {
    match Timestamp::from_millisecond(ms) {
        Ok(moment) => moment
            .to_zoned(TimeZone::system())
            .strftime("%a %b %d %H:%M:%S %Z %Y")
            .to_string(),
        // A server may send an arbitrary number.
        Err(_) => format!("{ms} ms since 1970"),
    }
}

/// Formats a number with its noun.
pub(crate) fn number(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Returns data as text. Invalid UTF-8 is replaced.
pub(crate) fn data(data: Option<&[u8]>) -> String {
    match data {
        None => "null".to_owned(),
        Some(data) => String::from_utf8_lossy(data).into_owned(),
    }
}

/// Returns `'scheme,'id` and the permissions, two lines for each entry.
pub(crate) fn acl(entries: &[Acl]) -> String {
    let lines = entries.iter().map(|entry| {
        let perms = permissions(entry.perms);
        format!("'{},'{}\n: {perms}", entry.id.scheme, entry.id.id)
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Letters of the permissions, in the order of output.
pub(crate) const PERMISSIONS: [(char, i32); 5] = [
    ('c', perms::CREATE),
    ('d', perms::DELETE),
    ('r', perms::READ),
    ('w', perms::WRITE),
    ('a', perms::ADMIN),
];

pub(crate) fn permissions(bits: i32) -> String {
    let is_set = |(_, bit): &(char, i32)| bits & bit != 0;
    let set = PERMISSIONS.into_iter().filter(is_set);
    set.map(|(letter, _)| letter).collect()
}

/// Formats a list as `[a, b, c]`.
pub(crate) fn list<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items
        .into_iter()
        .map(|item| item.as_ref().to_owned())
        .collect();
    format!("[{}]", items.join(", "))
}

/// Returns a hexadecimal dump with sixteen bytes per line, and their text.
pub(crate) fn hex_dump(data: &[u8]) -> String {
    if data.is_empty() {
        return String::new();
    }
    let rule = "-".repeat(49);
    let numbers: Vec<String> = (0..16).map(|number| format!("{number:x}")).collect();
    let mut text = format!("         +{rule}+\n         |  {} |\n", numbers.join("  "));
    let _ = writeln!(text, "+--------+{rule}+----------------+");
    for (row, bytes) in data.chunks(16).enumerate() {
        let hex: String = bytes.iter().map(|byte| format!(" {byte:02x}")).collect();
        let shown = |byte: &u8| match byte {
            0x20..=0x7e => char::from(*byte),
            _ => '.',
        };
        let plain: String = bytes.iter().map(shown).collect();
        let _ = writeln!(text, "|{:08x}|{hex:<48} |{plain:<16}|", row * 16);
    }
    let _ = write!(text, "+--------+{rule}+----------------+");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_have_javas_order() {
        assert_eq!(acl(&[Acl::open()]), "'world,'anyone\n: cdrwa");
        let entry = Acl::new(perms::READ | perms::ADMIN, "ip", "::1");
        assert_eq!(acl(&[entry]), "'ip,'::1\n: ra");
    }

    #[test]
    fn a_dump_has_nettys_shape() {
        let dump = hex_dump(&[0x41, 0xff, 0x20]);
        let lines: Vec<&str> = dump.lines().collect();
        let numbers = "         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |";
        assert_eq!(lines[1], numbers);
        let row = format!("|00000000| 41 ff 20{} |A.              |", " ".repeat(39));
        assert_eq!(lines[3], row);
        assert_eq!(lines.len(), 5);
        assert_eq!(hex_dump(&[]), "");
    }

    #[test]
    fn any_time_is_printed() {
        assert!(time(0).contains("1970") || time(0).contains("1969"));
        assert_eq!(time(i64::MAX), format!("{} ms since 1970", i64::MAX));
    }
}
