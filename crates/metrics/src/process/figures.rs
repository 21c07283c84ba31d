//! Information from the operating system about this process.

use std::fs;

/// Numbers of file descriptors. Unknown values are -1. Source: OSMXBean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptors {
    /// Number of open descriptors.
    pub open: i64,
    /// Soft limit on open descriptors.
    pub max: i64,
}

impl Descriptors {
    /// Returns the current values of this process.
    pub fn of_this_process() -> Self {
        // The count includes the descriptor of the directory itself.
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

/// Returns the soft limit in the row `name` of `/proc/self/limits`. `i64::MAX` means unlimited.
fn soft_limit(limits: &str, name: &str) -> Option<i64> {
    let row = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match row.split_whitespace().next()? {
        "unlimited" => Some(i64::MAX),
        number => number.parse().ok(),
    }
}

/// Amounts of memory, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// Memory that the machine can still provide.
    pub free: u64,
    /// Total memory of the machine.
    pub max: u64,
    /// Resident memory of this process.
    pub total: u64,
}

impl Memory {
    /// Returns the current values of this process. Unknown values are 0.
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

/// Process metrics for exporters, with the names used by simpleclient's DefaultExports.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProcessFigures {
    descriptors: Descriptors,
    memory: Memory,
    virtual_bytes: u64,
    threads: u64,
    cpu_s: f64,
    started_s: f64,
}

/// Number of clock ticks per second in `/proc/<pid>/stat`. It is always 100 on Linux, independent
/// of the kernel's tick rate.
const TICKS_PER_S: f64 = 100.0;

/// Family of metrics: its name, its kind, and its values, each with the text (such as labels) that
/// follows the name.
type Family = (&'static str, &'static str, Vec<(&'static str, f64)>);

impl ProcessFigures {
    /// Returns the current values of this process. Unknown values are 0, but -1 for descriptors.
    pub fn of_this_process() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let machine = fs::read_to_string("/proc/stat").unwrap_or_default();
        // The process name before these fields may contain any character, including `)`.
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
        let ticks = |place: usize| -> f64 {
            let field = fields.split(' ').nth(place);
            field.and_then(|field| field.parse().ok()).unwrap_or(0.0)
        };
        let booted_s = machine
            .lines()
            .find_map(|line| line.strip_prefix("btime "))
            .and_then(|text| text.trim().parse::<f64>().ok());
        Self {
            descriptors: Descriptors::of_this_process(),
            memory: Memory::of_this_process(),
            virtual_bytes: kilobytes(&status, "VmSize:").unwrap_or(0) << 10,
            threads: kilobytes(&status, "Threads:").unwrap_or(0),
            cpu_s: (ticks(UTIME) + ticks(STIME)) / TICKS_PER_S,
            started_s: booted_s.unwrap_or(0.0) + ticks(STARTED) / TICKS_PER_S,
        }
    }

    /// Returns the values as families. They include the JVM metrics that dashboards use and that
    /// have an equivalent in this process. The memory of the process replaces the heap.
    pub fn families(&self) -> Vec<Family> {
        let one = |name, kind, value| (name, kind, vec![("", value)]);
        let heap = |name, value| (name, "gauge", vec![("{area=\"heap\",}", value)]);
        let (used, max) = (self.memory.total as f64, self.memory.max as f64);
        vec![
            one("process_cpu_seconds_total", "counter", self.cpu_s),
            one("process_start_time_seconds", "gauge", self.started_s),
            one("process_open_fds", "gauge", self.descriptors.open as f64),
            one("process_max_fds", "gauge", self.descriptors.max as f64),
            one(
                "process_virtual_memory_bytes",
                "gauge",
                self.virtual_bytes as f64,
            ),
            one("process_resident_memory_bytes", "gauge", used),
            heap("jvm_memory_bytes_used", used),
            heap("jvm_memory_bytes_committed", used),
            heap("jvm_memory_bytes_max", max),
            one("jvm_threads_current", "gauge", self.threads as f64),
        ]
    }
}

/// Indexes of fields in `/proc/<pid>/stat`, counted from the field after the process name.
const UTIME: usize = 11;
const STIME: usize = 12;
const STARTED: usize = 19;

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
        // Other tests in the process open and close files concurrently, so only bounds are certain.
        let file = fs::File::open("/proc/self/limits").expect("this test runs on Linux");
        let descriptors = Descriptors::of_this_process();
        assert!(
            descriptors.open >= 4 && descriptors.open <= descriptors.max,
            "{descriptors:?}"
        );
        drop(file);
    }

    #[test]
    fn a_process_began_after_its_machine_and_has_used_its_processor() {
        let figures = ProcessFigures::of_this_process();
        assert!(figures.started_s > 1_000_000_000.0, "{figures:?}");
        assert!(
            figures.threads >= 2 && figures.cpu_s < 3600.0,
            "{figures:?}"
        );
        assert!(figures.virtual_bytes > figures.memory.total, "{figures:?}");
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
    fn the_process_uses_memory_of_the_machine() {
        let memory = Memory::of_this_process();
        assert!(0 < memory.total && memory.total < memory.max, "{memory:?}");
        assert!(memory.free <= memory.max);
    }
}
