//! Transaction as a line of text, in the format of Java's TxnLogToolkit.

use std::fmt::Write;

use bytes::Bytes;
use jute::{Decode, DecodeError, Reader};
use proto::op::TextField;
use proto::txn::{TxnFields, TxnHeader};
use proto::{Acl, OpCode};
use storage::log::chain::decode_payload;

use crate::date;

/// Formats a record's payload as a line without a line end. ACL lists and data may contain line
/// breaks.
///
/// # Errors
/// If the payload is not a transaction.
pub(super) fn record_text(payload: &Bytes) -> Result<String, DecodeError> {
    let record = decode_payload(payload.clone())?;
    let mut line = header_text(&record.header);
    let (fields, texts) = (record.txn.fields(), record.txn.op().text());
    for (at, text) in texts.iter().enumerate() {
        if at > 0 {
            line.push(',');
        }
        write_field(&mut line, *text, &fields, payload)?;
    }
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
    let op = OpCode::from_i32(op).filter(|op| !op.text().is_empty());
    op.map_or("unknown", OpCode::name)
}

/// Appends a field of a transaction.
fn write_field(
    line: &mut String,
    field: TextField,
    fields: &TxnFields<'_>,
    payload: &Bytes,
) -> Result<(), DecodeError> {
    let path = fields.path.map(|path| &**path).unwrap_or_default();
    // Writing to a string cannot fail.
    let _ = match field {
        TextField::Number => write!(line, "{}", fields.number),
        TextField::Path => write!(line, "{}", quoted(path)),
        TextField::PlainPath => write!(line, "{path}"),
        TextField::Paths => match fields.paths {
            Some(paths) => {
                let paths: Vec<_> = paths.iter().map(|path| quoted(path)).collect();
                write!(line, "v{{{}}}", paths.join(","))
            }
            None => Ok(()),
        },
        TextField::Data => write!(line, "{}", data_text(fields.data)),
        TextField::Acl => {
            let acl = fields.acl.iter();
            let acl: Vec<_> = acl.map(|acl| format!("s{{{}}}", acl_text(acl))).collect();
            write!(line, "v{{{}}}", acl.join(","))
        }
        TextField::AclLines => {
            let acl = fields.acl.iter();
            let acl: Vec<_> = acl.map(|acl| format!("{}\n", acl_text(acl))).collect();
            write!(line, "[{}]", acl.join(", "))
        }
        TextField::IsEphemeral => write!(line, "{}", fields.is_ephemeral),
        TextField::Version => write!(line, "{}", fields.version),
        TextField::ParentCversion => write!(line, "{}", fields.parent_cversion),
        TextField::Ttl => write!(line, "{}", fields.ttl_ms),
        TextField::Parts => write!(line, "{}", multi_text(payload)?),
    };
    Ok(())
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
