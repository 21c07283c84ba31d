//! Formatting of answers, which are meant for programs, as text for people.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

use crate::tool::ToolError;

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Writes a change and, if the answer contains it, the znode before and after the change.
pub(crate) fn write_change(result: &Value, out: &mut dyn Write) -> Result<(), ToolError> {
    writeln!(out, "{}", change_text(result))?;
    write_states(result, out)?;
    if result["is_before_unknown"] == true {
        writeln!(out, "  (the earlier state is no longer stored)")?;
    }
    Ok(())
}

/// Writes a znode that differs between two moments.
pub(crate) fn write_difference(one: &Value, out: &mut dyn Write) -> Result<(), ToolError> {
    writeln!(out, "{} {}", text(&one["kind"]), text(&one["path"]))?;
    write_states(one, out)
}

fn write_states(result: &Value, out: &mut dyn Write) -> Result<(), ToolError> {
    for (sign, znode) in [("-", &result["before"]), ("+", &result["after"])] {
        if !znode.is_null() {
            let (data, acl) = (data_text(&znode["data"]), acl_text(&znode["acl"]));
            writeln!(out, "  {sign} version {} {data} {acl}", znode["version"])?;
        }
    }
    Ok(())
}

pub(crate) fn change_text(change: &Value) -> String {
    let mut line = ["time", "zxid", "operation", "path"]
        .map(|name| text(&change[name]))
        .join(" ");
    let missing = text(&change["client_missing"]);
    if change["session"].is_null() {
        line.push_str(&format!(" (client not shown: {missing})"));
        return line;
    }
    line.push_str(&format!(" session {}", text(&change["session"])));
    match text(&change["client"]) {
        "" if missing.is_empty() => {}
        "" => line.push_str(&format!(" from an unknown client ({missing})")),
        client => line.push_str(&format!(" from {client}")),
    }
    for identity in list(&change["identities"]) {
        line.push_str(&format!(" as {}", text(identity)));
    }
    line
}

/// Returns the bytes of data, or `None` if the data is null or was not kept.
pub(crate) fn data_bytes(data: &Value) -> Option<Vec<u8>> {
    BASE64.decode(data["base64"].as_str()?).ok()
}

/// Formats data as quoted text, as base64, or as its size if the data itself is not stored.
pub(crate) fn data_text(data: &Value) -> String {
    if data.is_null() {
        return "null".to_owned();
    }
    match data_bytes(data).map(String::from_utf8) {
        Some(Ok(text)) => format!("{text:?}"),
        Some(Err(_)) => format!("base64 {}", text(&data["base64"])),
        None => format!("({} bytes, not stored)", data["size"]),
    }
}

fn acl_text(acl: &Value) -> String {
    if acl.is_null() {
        return "(ACL not stored)".to_owned();
    }
    let entries = list(acl)
        .iter()
        .map(|e| format!("{}:{}:{}", text(&e["scheme"]), text(&e["id"]), e["perms"]));
    entries.collect::<Vec<_>>().join(",")
}

/// Writes the number of hidden changes, the gaps and the range of the history, so that an
/// incomplete answer is not mistaken for a complete one.
pub(crate) fn write_extent(page: &Value, out: &mut dyn Write) -> Result<(), ToolError> {
    let extent = &page["extent"];
    if let Some(hidden @ 1..) = page["hidden"].as_u64() {
        writeln!(
            out,
            "(changes on this page that are hidden because they require permission: {hidden})"
        )?;
    }
    for hole in list(&extent["holes"]) {
        writeln!(
            out,
            "(changes after {} up to {} are unknown)",
            text(&hole["after"]),
            text(&hole["recorded_after"])
        )?;
    }
    let (after, head) = (text(&extent["recorded_after"]), text(&extent["head"]));
    writeln!(
        out,
        "(the history contains the changes after {after} up to {head})"
    )?;
    Ok(())
}

/// Writes the members that could not be queried for clients.
pub(crate) fn write_missing_members(page: &Value, out: &mut dyn Write) -> Result<(), ToolError> {
    for member in list(&page["members_missing"]) {
        writeln!(out, "({})", missing_member_text(member))?;
    }
    Ok(())
}

fn missing_member_text(member: &Value) -> String {
    let (address, reason) = (text(&member["admin"]), text(&member["reason"]));
    match member["member"].as_i64() {
        Some(id) => format!("member {id} at {address} {reason}"),
        None => format!("the server at {address} {reason}"),
    }
}

/// Writes the last change to each property of a znode, and its author.
pub(crate) fn write_blame(
    blame: &Value,
    is_first: bool,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    let text_of = |change: &Value| {
        if change.is_null() {
            "unknown: older than the history, or in a gap".to_owned()
        } else {
            change_text(change)
        }
    };
    if is_first {
        writeln!(out, "created  {}", text_of(&blame["created"]))?;
        writeln!(out, "data     {}", text_of(&blame["data"]))?;
        writeln!(out, "acl      {}", text_of(&blame["acl"]))?;
        if !blame["deleted"].is_null() {
            writeln!(out, "deleted  {}", text_of(&blame["deleted"]))?;
        }
    }
    for child in list(&blame["children"]) {
        let state = if child["exists"] == true {
            "child"
        } else {
            "gone "
        };
        let name = text(&child["name"]);
        writeln!(out, "{state}    {name}  {}", text_of(&child["last"]))?;
    }
    Ok(())
}
