//! Limits of the machine: file descriptors, memory, and the clock.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use config::Config;
use config::finding::{Finding, Severity};
use rlimit::Resource;
use storage::{Compression, SnapshotFile};

use crate::data::DataSummary;
use crate::finding;

/// Minimum limit of file descriptors that is accepted without a warning.
const FILES_FEW: u64 = 4096;
/// Number of file descriptors that a server needs for members and files, in addition to its
/// clients.
const FILES_RESERVED: u64 = 64;
/// Memory usage per byte of a plain snapshot. A znode with 100 bytes takes about 200 bytes in the
/// snapshot and 280 in the tree.
const MEMORY_FACTOR: u64 = 2;
/// Maximum factor by which compression shrinks a snapshot.
const COMPRESSION_FACTOR: u64 = 8;
/// Tolerated time by which the clock may be earlier than the data. A small difference is normal
/// after the clock has been set.
const CLOCK_TOLERANCE_MS: u128 = 60_000;
/// 2024-01-01, before the first release of this server. No correct clock is earlier.
const EARLIEST: Duration = Duration::from_secs(1_704_067_200);

/// Estimates the memory that a snapshot's tree needs, in bytes.
pub(crate) fn memory_of_tree(snapshot: &SnapshotFile) -> u64 {
    let factor = match snapshot.compression {
        Compression::None => 1,
        Compression::Gzip | Compression::Snappy => COMPRESSION_FACTOR,
    };
    let len = snapshot.len.unwrap_or(0);
    len.saturating_mul(factor * MEMORY_FACTOR)
}

/// Checks all limits.
pub(crate) fn examine(
    config: &Config,
    data: Option<&DataSummary>,
    now: SystemTime,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(files(config));
    if let Some(data) = data {
        findings.extend(memory(data, available_memory()));
    }
    findings.extend(clock(data.and_then(|data| data.newest_ms), now));
    findings
}

/// Checks the hard limit of file descriptors, to which the server raises its limit.
fn files(config: &Config) -> Option<Finding> {
    let (_, most) = Resource::NOFILE.get().ok()?;
    let limits = &config.limits;
    let clients = limits.max_cnxns.or(limits.max_client_cnxns).unwrap_or(0);
    let wanted = (u64::from(clients) + FILES_RESERVED).max(FILES_FEW);
    if most >= wanted {
        return None;
    }
    let problem = format!(
        "the limit is {most} open files, but the server may need {wanted} (each connection needs one)"
    );
    let found = Finding::new(finding::FILES, Severity::Warning, problem);
    Some(found.way_out("raise `ulimit -n`, or LimitNOFILE of the systemd unit"))
}

fn memory(data: &DataSummary, available: Option<u64>) -> Option<Finding> {
    let available = available?;
    if data.memory_bytes <= available {
        return None;
    }
    let problem = format!(
        "{} MiB of memory are free, but the data may need {} MiB; memory of a running server does not count as free",
        available >> 20,
        data.memory_bytes >> 20
    );
    let found = Finding::new(finding::MEMORY, Severity::Warning, problem);
    Some(found.way_out("add memory. If Apache ZooKeeper serves this data now, Zoarium needs about a fifth of its memory"))
}

fn clock(newest_ms: Option<i64>, now: SystemTime) -> Option<Finding> {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let way_out = "set the clock: TTLs and new session ids depend on it";
    if since < EARLIEST {
        let problem = format!(
            "the clock is wrong: its date is only {} days after the beginning of 1970",
            since.as_secs() / 86_400
        );
        return Some(Finding::new(finding::CLOCK, Severity::Warning, problem).way_out(way_out));
    }
    let newest = u128::try_from(newest_ms?).ok()?;
    let behind = newest.checked_sub(since.as_millis())?;
    if behind < CLOCK_TOLERANCE_MS {
        return None;
    }
    let problem = format!(
        "the clock is {} s earlier than the newest transaction",
        behind / 1000
    );
    Some(Finding::new(finding::CLOCK, Severity::Warning, problem).way_out(way_out))
}

/// Returns the available memory of the machine, or of the control group if that is less, in bytes.
/// Returns `None` if the system does not report it.
pub(crate) fn available_memory() -> Option<u64> {
    let table = fs::read_to_string("/proc/meminfo").ok()?;
    let line = table
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    let of_machine = kib << 10;
    Some(of_group().map_or(of_machine, |of_group| of_group.min(of_machine)))
}

/// Returns the available memory of the control group, in bytes. Returns `None` if the group does
/// not have a limit.
fn of_group() -> Option<u64> {
    let number = |name: &str| -> Option<u64> {
        let path = Path::new("/sys/fs/cgroup").join(name);
        fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    Some(number("memory.max")?.saturating_sub(number("memory.current")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(ms)
    }

    #[test]
    fn a_clock_earlier_than_the_data_is_reported() {
        let now = 1_800_000_000_000;
        let newest = |ms: u64| Some(i64::try_from(ms).unwrap());
        assert_eq!(clock(newest(now), at(now)), None);
        assert_eq!(clock(newest(now + 59_000), at(now)), None);
        assert_eq!(clock(newest(now - 1), at(now)), None);
        let found = clock(newest(now + 3_600_000), at(now)).unwrap();
        assert!(
            found.problem.contains("3600 s earlier"),
            "{}",
            found.problem
        );
        assert_eq!(clock(None, at(now)), None);
        assert!(clock(None, at(0)).is_some());
    }

    #[test]
    fn memory_is_compared_with_the_size_of_the_tree() {
        let data = DataSummary {
            memory_bytes: 2 << 30,
            ..DataSummary::default()
        };
        assert_eq!(memory(&data, Some(3 << 30)), None);
        assert_eq!(memory(&data, None), None);
        let found = memory(&data, Some(1 << 30)).unwrap();
        assert!(
            found.problem.contains("1024 MiB of memory"),
            "{}",
            found.problem
        );
    }

    #[test]
    fn the_memory_of_this_machine_is_known() {
        assert!(available_memory().is_some_and(|bytes| bytes > 1 << 20));
    }
}
