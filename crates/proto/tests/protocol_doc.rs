//! docs/PROTOCOL.md contains exactly the tables of this crate.
//!
//! `ZOARIUM_BLESS=1 cargo test -p zoarium-proto --test protocol_doc` generates it.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use zoarium_proto::packet::PacketType;
use zoarium_proto::{ErrorCode, OpCode, OpKind};

const HEAD: &str = "\
# Protocol

<!-- Made from the tables in `crates/proto`; do not edit (see `crates/proto/tests/protocol_doc.rs`). -->

Zoarium implements the client protocol and the quorum protocol of Apache ZooKeeper 3.9.
";

fn render() -> String {
    let mut out = HEAD.to_owned();
    render_opcodes(&mut out);
    render_errors(&mut out);
    render_packets(&mut out);
    out
}

fn render_opcodes(out: &mut String) {
    out.push_str(
        "\n## Operations\n\n\
         A *write* becomes a transaction. The server that receives a *read* answers it. The leader orders\n\
         a *sync* among the writes. A *connection* request is handled when it arrives, before queued\n\
         requests. Clients cannot send an *internal* operation as a separate request.\n\n\
         | # | name | kind | request | reply | since |\n|--:|---|---|---|---|---|\n",
    );
    for op in OpCode::ALL {
        let kind = match op.kind() {
            OpKind::Write => "write",
            OpKind::Read => "read",
            OpKind::Sync => "sync",
            OpKind::Connection => "connection",
            OpKind::Internal => "internal",
        };
        writeln!(
            out,
            "| {} | {} | {kind} | {} | {} | {} |",
            op.number(),
            op.name(),
            op.request_record(),
            op.reply_record(),
            op.since()
        )
        .unwrap();
    }
}

fn render_errors(out: &mut String) {
    out.push_str("\n## Error codes\n\n| # | name | meaning |\n|--:|---|---|\n");
    for code in ErrorCode::ALL {
        let (number, name) = (code.code(), code.name());
        writeln!(out, "| {number} | {name} | {} |", code.description()).unwrap();
    }
}

fn render_packets(out: &mut String) {
    out.push_str("\n## Quorum packets\n\n| # | name | meaning |\n|--:|---|---|\n");
    for packet in PacketType::ALL {
        let (number, name) = (packet.number(), packet.name());
        writeln!(out, "| {number} | {name} | {} |", packet.description()).unwrap();
    }
}

#[test]
fn the_document_shows_the_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/PROTOCOL.md");
    let rendered = render();
    if env::var_os("ZOARIUM_BLESS").is_some() {
        fs::write(&path, &rendered).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == rendered,
        "docs/PROTOCOL.md is not what the tables say: \
         run ZOARIUM_BLESS=1 cargo test -p zoarium-proto --test protocol_doc"
    );
}
