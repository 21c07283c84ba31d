//! A transaction as a line of text, in the form of Java's TxnLogToolkit.

use std::fmt::Write;

use bytes::Bytes;
use jute::{Decode, DecodeError, Reader};
use proto::txn::{CreateTxn, Txn, TxnHeader};
use proto::{Acl, OpCode};

use super::date;
use crate::log::chain::decode_payload;

/// Formats a record's payload as a line without a line end. ACL lists and data may contain line
/// breaks.
///
/// # Errors
/// If the payload is not a transaction.
pub fn record_text(payload: &Bytes) -> Result<String, DecodeError> {
    let record = decode_payload(payload.clone())?;
    let mut line = header_text(&record.header);
    // Writing to a string does not fail.
    let _ = match &record.txn {
        Txn::CreateSession { timeout_ms } => write!(line, "{timeout_ms}"),
        Txn::CloseSession { paths: None } => Ok(()),
        Txn::CloseSession { paths: Some(paths) } => {
            let paths: Vec<_> = paths.iter().map(|path| quoted(path)).collect();
            write!(line, "v{{{}}}", paths.join(","))
        }
        Txn::Error { code } => write!(line, "{code}"),
        Txn::Create(txn) | Txn::CreateV0(txn) | Txn::Create2(txn) => write_create(&mut line, txn),
        Txn::CreateContainer(txn) => {
            write_node(&mut line, &txn.path, &txn.data, &txn.acl);
            write!(line, ",{}", txn.parent_cversion)
        }
        Txn::CreateTtl(txn) => {
            write_node(&mut line, &txn.path, &txn.data, &txn.acl);
            write!(line, ",{},{}", txn.parent_cversion, txn.ttl)
        }
        Txn::Delete { path } | Txn::DeleteContainer { path } => {
            write!(line, "{}", quoted(path))
        }
        Txn::SetData(txn) | Txn::Reconfig(txn) => {
            let data = data_text(txn.data.as_ref());
            write!(line, "{},{data},{}", txn.path, txn.version)
        }
        Txn::SetAcl(txn) => {
            let acl: Vec<_> = txn
                .acl
                .iter()
                .map(|acl| format!("s{{{}}}", acl_text(acl)))
                .collect();
            let path = quoted(&txn.path);
            write!(line, "{path},v{{{}}},{}", acl.join(","), txn.version)
        }
        Txn::Check(txn) => write!(line, "{},{}", quoted(&txn.path), txn.version),
        Txn::Multi(_) => {
            line.push_str(&multi_text(payload)?);
            Ok(())
        }
    };
    Ok(line)
}

fn header_text(header: &TxnHeader) -> String {
    format!(
        "{} session {} cxid {:#x} zxid {} {} ",
        date::short(header.time_ms),
        header.session,
        header.cxid,
        header.zxid,
        op_name(header.op),
    )
}

/// Returns the name of an operation in the log. Source: TxnLogToolkit, Request.op2String.
fn op_name(op: i32) -> &'static str {
    match OpCode::from_i32(op) {
        Some(OpCode::CreateSession) => "createSession",
        Some(OpCode::CloseSession) => "closeSession",
        Some(OpCode::Error) => "error",
        Some(OpCode::Create) => "create",
        Some(OpCode::Create2) => "create2",
        Some(OpCode::CreateContainer) => "createContainer",
        Some(OpCode::CreateTtl) => "createTTL",
        Some(OpCode::Delete) => "delete",
        Some(OpCode::DeleteContainer) => "deleteContainer",
        Some(OpCode::SetData) => "setData",
        Some(OpCode::Reconfig) => "reconfig",
        Some(OpCode::SetAcl) => "setACL",
        Some(OpCode::Check) => "check",
        Some(OpCode::Multi) => "multi",
        _ => "unknown",
    }
}

fn write_create(line: &mut String, txn: &CreateTxn) -> std::fmt::Result {
    write_node(line, &txn.path, &txn.data, &txn.acl);
    write!(line, ",{},{}", txn.ephemeral, txn.parent_cversion)
}

/// Formats the path, the data and the ACL list. Each ACL ends with a line break.
fn write_node(line: &mut String, path: &str, data: &Option<Bytes>, acl: &[Acl]) {
    let acl: Vec<_> = acl
        .iter()
        .map(|acl| format!("{}\n", acl_text(acl)))
        .collect();
    let data = data_text(data.as_ref());
    let _ = write!(line, "{path},{data},[{}]", acl.join(", "));
}

fn acl_text(acl: &Acl) -> String {
    let (scheme, id) = (quoted(&acl.id.scheme), quoted(&acl.id.id));
    format!("{},s{{{scheme},{id}}}", acl.perms)
}

fn data_text(data: Option<&Bytes>) -> jute::Str {
    data.map_or_else(Default::default, |data| jute::decode_text(data.clone()))
}

/// Formats a string of a record. Source: jute's Utils.toXMLString for CSV.
fn quoted(text: &str) -> String {
    let mut out = String::from("'");
    for character in text.chars() {
        match character {
            '\0' => out.push_str("%00"),
            '\n' => out.push_str("%0A"),
            '\r' => out.push_str("%0D"),
            ',' => out.push_str("%2C"),
            '}' => out.push_str("%7D"),
            '%' => out.push_str("%25"),
            other => out.push(other),
        }
    }
    out
}

/// Formats the operations of a multi with their raw bodies.
fn multi_text(payload: &Bytes) -> Result<String, DecodeError> {
    let mut input = Reader::new(payload.clone());
    TxnHeader::decode(&mut input)?;
    let mut parts = Vec::new();
    for _ in 0..input.count()?.unwrap_or(0) {
        let op = input.i32()?;
        let body = input.buffer()?;
        parts.push(format!("{}:{}", op_name(op), data_text(body.as_ref())));
    }
    Ok(parts.join(";"))
}
