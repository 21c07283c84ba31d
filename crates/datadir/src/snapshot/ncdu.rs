//! Sizes of subtrees in the format of the program ncdu.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::sizes::Subtree;

/// Writes the format of ncdu, in which a directory is a list that contains the directory itself and
/// its children. Source: the description of ncdu's export format, major version 1.
///
/// # Errors
/// If `out` cannot be written to.
pub fn print_ncdu(znodes: &[Subtree], out: &mut dyn Write) -> io::Result<()> {
    let head =
        json!({ "progname": "zoarium", "progver": env!("CARGO_PKG_VERSION"), "timestamp": 0 });
    write!(out, "[1,2,{head}")?;
    // Number of open lists.
    let mut open = 0;
    let top = znodes.first().map_or(0, |top| top.depth);
    for (at, one) in znodes.iter().enumerate() {
        let depth = one.depth - top;
        writeln!(out, "{},", "]".repeat(open - depth.min(open)))?;
        open = depth.min(open);
        let name = if at == 0 { &*one.path } else { one.name() };
        let size = one.own_bytes;
        let entry: Value = json!({ "name": name, "asize": size, "dsize": size });
        if at == 0 || one.below > 0 {
            write!(out, "[{entry}")?;
            open += 1;
        } else {
            write!(out, "{entry}")?;
        }
    }
    writeln!(out, "{}]", "]".repeat(open))
}

#[cfg(test)]
mod tests {
    use super::super::sizes::tree;
    use super::*;

    #[test]
    fn the_format_of_ncdu_nests_lists() {
        let znodes = tree(&[("/", 1), ("/a", 2), ("/a/b", 3), ("/a/b/c", 4), ("/d", 5)]);
        let mut out = Vec::new();
        print_ncdu(&znodes, &mut out).unwrap();
        let read: Value = serde_json::from_slice(&out).unwrap();
        let entry = |name: &str, size: u64| json!({ "name": name, "asize": size, "dsize": size });
        let b = json!([entry("b", 3), entry("c", 4)]);
        let a = json!([entry("a", 2), b]);
        assert_eq!(read[3], json!([entry("/", 1), a, entry("d", 5)]));
        let mut out = Vec::new();
        print_ncdu(&znodes[4..], &mut out).unwrap();
        let read: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(read[3], json!([entry("/d", 5)]));
    }
}
