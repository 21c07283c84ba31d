//! What the operating system says about this process.

use std::fs;

/// File descriptors; -1 each where the system does not tell. Source: OSMXBean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptors {
    /// Open now.
    pub open: i64,
    /// The soft limit.
    pub max: i64,
}

impl Descriptors {
    /// Of this process, at the moment.
    pub fn of_this_process() -> Self {
        // The directory handle of the count itself is one of the entries.
        let open = fs::read_dir("/proc/self/fd").map_or(-1, |entries| {
            i64::try_from(entries.count()).map_or(i64::MAX, |count| count - 1)
        });
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        Self {
            open,
            max: soft_limit(&limits, "Max open files").unwrap_or(-1),
        }
    }
}

/// The soft limit of a row of `/proc/self/limits`.
fn soft_limit(limits: &str, name: &str) -> Option<i64> {
    let row = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match row.split_whitespace().next()? {
        "unlimited" => Some(i64::MAX),
        number => number.parse().ok(),
    }
}

/// Memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// What the machine could still give.
    pub free: u64,
    /// What the machine has.
    pub max: u64,
    /// What this process holds.
    pub total: u64,
}

impl Memory {
    /// Of this process, at the moment; 0 each where the system does not tell.
    pub fn of_this_process() -> Self {
        let machine = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let process = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self {
            free: kilobytes(&machine, "MemAvailable:").unwrap_or(0) << 10,
            max: kilobytes(&machine, "MemTotal:").unwrap_or(0) << 10,
            total: kilobytes(&process, "VmRSS:").unwrap_or(0) << 10,
        }
    }
}

fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let row = text.lines().find_map(|line| line.strip_prefix(name))?;
    let figure: u64 = row.split_whitespace().next()?.parse().ok()?;
    Some(figure.min(u64::MAX >> 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_file_is_counted() {
        // Other tests of the process open and close files meanwhile, so only bounds are sure.
        let file = fs::File::open("/proc/self/limits").expect("this test runs on Linux");
        let descriptors = Descriptors::of_this_process();
        assert!(
            descriptors.open >= 4 && descriptors.open <= descriptors.max,
            "{descriptors:?}"
        );
        drop(file);
    }

    #[test]
    fn limits_are_read_from_the_soft_column() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
             Max open files            1024                 4096                 files\n\
             Max file locks            unlimited            unlimited            locks\n";
        assert_eq!(soft_limit(limits, "Max open files"), Some(1024));
        assert_eq!(soft_limit(limits, "Max file locks"), Some(i64::MAX));
        assert_eq!(soft_limit(limits, "Max pipes"), None);
    }

    #[test]
    fn the_process_holds_some_of_the_machines_memory() {
        let memory = Memory::of_this_process();
        assert!(0 < memory.total && memory.total < memory.max, "{memory:?}");
        assert!(memory.free <= memory.max);
    }
}
