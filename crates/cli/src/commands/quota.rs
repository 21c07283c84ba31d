//! Commands `setquota`, `listquota` and `delquota`.
//!
//! Source: SetQuotaCommand, ListQuotaCommand, DelQuotaCommand, Quotas, StatsTrack.

use client::{Client, Create};
use proto::{ErrorCode, QuotaText};

use super::Command;
use crate::failure::Failure;
use crate::parse::options::Arguments;
use crate::parse::path;
use crate::shell::Shell;

const ROOT: &str = "/zookeeper/quota";
const LIMITS: &str = "zookeeper_limits";
const STATS: &str = "zookeeper_stats";

/// Paths of the znodes that contain the quota of a znode.
struct QuotaPaths {
    parent: String,
    limits: String,
    stats: String,
}

impl QuotaPaths {
    /// Returns the paths for a znode, whose path is not relative to a chroot.
    ///
    /// # Errors
    /// If the znode is the root, for which Apache ZooKeeper defines no paths.
    fn of(outside: &str) -> Result<Self, Failure> {
        if outside == "/" {
            return Err(Failure::new("The root znode / cannot have a quota"));
        }
        let parent = format!("{ROOT}{outside}");
        Ok(Self {
            limits: format!("{parent}/{LIMITS}"),
            stats: format!("{parent}/{STATS}"),
            parent,
        })
    }
}

/// Limits or usage of a quota, as stored in its znodes. -1 means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct QuotaRecord {
    count: i64,
    bytes: i64,
    bytes_hard: i64,
    count_hard: i64,
}

impl QuotaRecord {
    const NONE: Self = Self {
        count: -1,
        bytes: -1,
        bytes_hard: -1,
        count_hard: -1,
    };

    /// Parses the data of a quota znode. For invalid text, all numbers are -1.
    fn parse(data: Option<&[u8]>) -> Self {
        QuotaText::parse(data).map_or(Self::NONE, |text| Self {
            count: text.count,
            bytes: text.bytes,
            bytes_hard: text.other(QuotaText::BYTES_HARD),
            count_hard: text.other(QuotaText::COUNT_HARD),
        })
    }

    /// Returns the field that an option names.
    fn field(&mut self, name: &str) -> Option<&mut i64> {
        match name {
            "n" => Some(&mut self.count),
            "b" => Some(&mut self.bytes),
            "B" => Some(&mut self.bytes_hard),
            "N" => Some(&mut self.count_hard),
            _ => None,
        }
    }

    fn limits(&self) -> String {
        let mut text = QuotaText::new(self.count, self.bytes);
        let hard = [
            (QuotaText::BYTES_HARD, self.bytes_hard),
            (QuotaText::COUNT_HARD, self.count_hard),
        ];
        let hard = hard.map(|(key, limit)| (key.to_owned(), limit));
        text.others.extend(hard);
        text.to_string()
    }

    fn usage(&self) -> String {
        QuotaText::new(self.count, self.bytes).to_string()
    }
}

/// Returns the given option and its value, or `None` without an option. Different options cannot be
/// combined.
fn one_of(given: &Arguments) -> Result<Option<(&'static str, &str)>, Failure> {
    let mut options = given.options();
    let first = options.next();
    let other = options.find(|(name, _)| first.is_some_and(|(first, _)| first != *name));
    match (first, other) {
        (Some((first, _)), Some((other, _))) => {
            let text = format!(
                "The option '{other}' was specified but an option from this group has already been \
                 selected: '{first}'"
            );
            Err(Failure::commons_cli("AlreadySelected", &text))
        }
        _ => Ok(first),
    }
}

pub(super) async fn set(
    shell: &mut Shell,
    command: &Command,
    given: &Arguments,
) -> Result<(), Failure> {
    let Some((option, value)) = one_of(given)? else {
        let text = "Missing required option: [-n num soft quota, -b bytes soft quota, \
                    -N num hard quota, -B bytes hard quota]";
        return Err(Failure::commons_cli("MissingOption", text));
    };
    let path = command.path(given)?;
    let what = if matches!(option, "n" | "N") {
        "num"
    } else {
        "bytes"
    };
    let Ok(value) = value.parse::<i64>() else {
        shell.print_error("NumberFormatException happens when parsing the option value");
        return Ok(());
    };
    if value <= 0 {
        shell.print_error(&format!("the {what} quota must be greater than zero"));
        return Ok(());
    }
    let (client, outside) = shell.client_for(path).await?;
    let quota = QuotaPaths::of(&outside)?;
    let fail = |error| Failure::of(&error, path);
    if client.exists(&outside).await.map_err(fail)?.is_none() {
        return Err(Failure::new(format!("{path} does not exist.")));
    }
    has_no_relative_with_quota(shell, &client, path, &outside).await?;
    let mut track = match client.get_data(&quota.limits).await {
        Ok((data, _)) => QuotaRecord::parse(data.as_deref()),
        Err(error) if error.code() == Some(ErrorCode::NoNode) => {
            make_znodes(&client, &quota).await.map_err(fail)?;
            QuotaRecord::NONE
        }
        Err(error) => return Err(fail(error)),
    };
    if let Some(field) = track.field(option) {
        *field = value;
    }
    client
        .set_data(&quota.limits, track.limits(), -1)
        .await
        .map_err(fail)?;
    let (data, _) = client.get_data(&quota.stats).await.map_err(fail)?;
    warn(shell, track, QuotaRecord::parse(data.as_deref()));
    Ok(())
}

/// Reports the limits that are already exceeded.
fn warn(shell: &mut Shell, limits: QuotaRecord, usage: QuotaRecord) {
    let is_less = |limit: i64, used: i64| limit > -1 && limit < used;
    if is_less(limits.count, usage.count) || is_less(limits.count_hard, usage.count) {
        shell.print(&format!(
            "[Warning]: the count quota you create is less than the existing count:{}",
            usage.count
        ));
    }
    if is_less(limits.bytes, usage.bytes) || is_less(limits.bytes_hard, usage.bytes) {
        shell.print(&format!(
            "[Warning]: the bytes quota you create is less than the existing bytes:{}",
            usage.bytes
        ));
    }
}

/// Checks that no ancestor or descendant has a quota, because a quota applies to a whole subtree.
async fn has_no_relative_with_quota(
    shell: &Shell,
    client: &Client,
    path: &str,
    outside: &str,
) -> Result<(), Failure> {
    let fail = |error| Failure::of(&error, path);
    for (at, _) in outside.match_indices('/').skip(1) {
        let above = &outside[..at];
        let limits = format!("{ROOT}{above}/{LIMITS}");
        if client.exists(&limits).await.map_err(fail)?.is_some() {
            let above = shell.without_chroot(above);
            let text = format!("{path} has a parent {above} which has a quota");
            return Err(Failure::new(text));
        }
    }
    let mut below = vec![format!("{ROOT}{outside}")];
    while let Some(quota_path) = below.pop() {
        let names = match client.get_children(&quota_path).await {
            Ok(names) => names,
            Err(error) if error.code() == Some(ErrorCode::NoNode) => continue,
            Err(error) => return Err(fail(error)),
        };
        let child = quota_path.strip_prefix(ROOT).unwrap_or(&quota_path);
        if child != outside && names.iter().any(|name| &**name == LIMITS) {
            let child = shell.without_chroot(child);
            let text = format!("{path} has a child {child} which has a quota");
            return Err(Failure::new(text));
        }
        let deeper = names.iter().filter(|name| !name.starts_with("zookeeper_"));
        below.extend(deeper.map(|name| path::child(&quota_path, name)));
    }
    Ok(())
}

async fn make_znodes(client: &Client, quota: &QuotaPaths) -> client::Result<()> {
    let quota_path = &quota.parent;
    let ends = quota_path.match_indices('/').map(|(at, _)| at).skip(1);
    let paths = ends
        .chain([quota_path.len()])
        .map(|end| quota_path[..end].to_owned());
    let mut wanted: Vec<(String, String)> = paths.map(|path| (path, String::new())).collect();
    let stats = QuotaRecord {
        count: 0,
        bytes: 0,
        ..QuotaRecord::NONE
    };
    wanted.push((quota.limits.clone(), QuotaRecord::NONE.limits()));
    wanted.push((quota.stats.clone(), stats.usage()));
    for (path, data) in wanted {
        match client.create(&path, data, &Create::persistent()).await {
            Err(error) if error.code() != Some(ErrorCode::NodeExists) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

pub(super) async fn list(
    shell: &mut Shell,
    command: &Command,
    given: &Arguments,
) -> Result<(), Failure> {
    let path = command.path(given)?;
    let (client, outside) = shell.client_for(path).await?;
    let fail = |error| Failure::of(&error, path);
    let quota = QuotaPaths::of(&outside)?;
    shell.print_error(&format!("absolute path is {}", quota.limits));
    let data = match client.get_data(&quota.limits).await {
        Ok((data, _)) => data,
        Err(error) if error.code() == Some(ErrorCode::NoNode) => {
            shell.print_error(&format!("quota for {path} does not exist."));
            return Ok(());
        }
        Err(error) => return Err(fail(error)),
    };
    let track = QuotaRecord::parse(data.as_deref());
    shell.print(&format!("Output quota for {path} {}", track.limits()));
    let (data, _) = client.get_data(&quota.stats).await.map_err(fail)?;
    let usage = QuotaRecord::parse(data.as_deref()).usage();
    shell.print(&format!("Output stat for {path} {usage}"));
    Ok(())
}

/// Deletes the limit that an option names. Without an option, deletes the whole quota.
pub(super) async fn delete(
    shell: &mut Shell,
    command: &Command,
    given: &Arguments,
) -> Result<(), Failure> {
    let option = one_of(given)?;
    let path = command.path(given)?;
    let (client, outside) = shell.client_for(path).await?;
    let fail = |error| Failure::of(&error, path);
    let quota = QuotaPaths::of(&outside)?;
    let data = match client.get_data(&quota.limits).await {
        Ok((data, _)) => data,
        Err(error) if error.code() == Some(ErrorCode::NoNode) => {
            shell.print(&format!("Quota does not exist for {path}"));
            return Ok(());
        }
        Err(error) => return Err(fail(error)),
    };
    if let Some((option, _)) = option {
        let mut track = QuotaRecord::parse(data.as_deref());
        if let Some(field) = track.field(option) {
            *field = -1;
        }
        let done = client.set_data(&quota.limits, track.limits(), -1).await;
        return done.map(drop).map_err(fail);
    }
    for znode in [&quota.limits, &quota.stats] {
        match client.delete(znode, -1).await {
            Err(error) if error.code() != Some(ErrorCode::NoNode) => return Err(fail(error)),
            _ => {}
        }
    }
    // The parent of these znodes and its ancestors are also deleted, unless another quota needs
    // them.
    let mut above = outside.as_str();
    while above.len() > 1 {
        match client.delete(&format!("{ROOT}{above}"), -1).await {
            Ok(()) => {}
            Err(error) if error.code() == Some(ErrorCode::NotEmpty) => break,
            Err(error) => return Err(fail(error)),
        }
        above = &above[..above.rfind('/').unwrap_or(0)];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_has_no_quota_paths() {
        let quota = QuotaPaths::of("/a/b").unwrap();
        assert_eq!(quota.limits, "/zookeeper/quota/a/b/zookeeper_limits");
        let refused = QuotaPaths::of("/").err().unwrap();
        assert_eq!(refused.text, "The root znode / cannot have a quota");
    }

    #[test]
    fn limits_are_read_and_written_as_java_does() {
        let text = "count=2,bytes=100=;byteHardLimit=500;countHardLimit=50";
        let track = QuotaRecord::parse(Some(text.as_bytes()));
        assert_eq!((track.bytes_hard, track.count_hard), (500, 50));
        assert_eq!(track.limits(), text);
        assert_eq!(
            QuotaRecord::parse(Some(b"count=6,bytes=16")).usage(),
            "count=6,bytes=16"
        );
        assert_eq!(QuotaRecord::parse(None), QuotaRecord::NONE);
    }
}
