//! Complete run with one target, or with several targets in turns.

use std::time::Duration;

use crate::error::Result;
use crate::report::progress::Progress;
use crate::rounds::process::Memory;
use crate::rounds::round::{self, Job, Round};
use crate::rounds::stats::Stats;
use crate::rounds::threads;
use crate::target::Target;

/// Results of one target, which is one side of a comparison.
#[derive(Debug)]
pub struct Side {
    pub(crate) name: String,
    pub(crate) rounds: Vec<Round>,
}

impl Side {
    /// Returns the statistics of all rounds combined.
    pub(crate) fn stats(&self) -> Stats {
        let mut all = Stats::new();
        for round in &self.rounds {
            all.add(&round.stats);
        }
        all
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.rounds.iter().map(|round| round.elapsed).sum()
    }

    /// Returns the number of successful operations per second.
    pub fn ops_per_second(&self) -> f64 {
        per_second(self.stats().ops(), self.elapsed())
    }

    /// Returns the latency within which `percent` of the operations completed.
    pub fn percentile(&self, percent: f64) -> Duration {
        self.stats().percentile(percent)
    }

    /// Returns the refused operations, lost sessions and missing replies, one kind per line.
    pub fn complaints(&self) -> Vec<String> {
        self.stats().complaints()
    }

    /// Returns the CPU seconds of the server per million operations, or `None` if its processes are
    /// not measured or no operation succeeded.
    pub fn server_cpu_per_million(&self) -> Option<f64> {
        let cpu: Option<Duration> = self.rounds.iter().map(|round| round.server_cpu).sum();
        self.per_million(cpu?)
    }

    /// Returns the CPU seconds of the generator per million operations, or `None` if they are
    /// unknown or no operation succeeded.
    pub(crate) fn own_cpu_per_million(&self) -> Option<f64> {
        let cpu: Option<Duration> = self.rounds.iter().map(|round| round.own_cpu).sum();
        self.per_million(cpu?)
    }

    fn per_million(&self, cpu: Duration) -> Option<f64> {
        let ops = self.stats().ops();
        (ops > 0).then(|| cpu.as_secs_f64() / ops as f64 * 1e6)
    }

    /// Returns the memory of the server at the end of the last round.
    pub(crate) fn memory(&self) -> Option<Memory> {
        self.rounds.last()?.memory
    }

    /// Returns the resident bytes of the server before the first round, or `None` if its processes
    /// are not measured.
    pub fn resident_before(&self) -> Option<u64> {
        Some(self.rounds.first()?.memory_before?.resident)
    }

    /// Returns the resident bytes of the server at the end of the last round, or `None` if its
    /// processes are not measured.
    pub fn resident_after(&self) -> Option<u64> {
        Some(self.memory()?.resident)
    }

    /// Returns the growth of the server's resident memory in the first round, divided by `count`,
    /// in bytes.
    pub(crate) fn growth_per(&self, count: u64) -> Option<f64> {
        let round = self.rounds.first()?;
        let (before, after) = (round.memory_before?.resident, round.memory?.resident);
        (count > 0).then(|| after.saturating_sub(before) as f64 / count as f64)
    }
}

impl Round {
    pub(crate) fn ops_per_second(&self) -> f64 {
        per_second(self.stats.ops(), self.elapsed)
    }
}

fn per_second(ops: u64, elapsed: Duration) -> f64 {
    if elapsed.is_zero() {
        0.0
    } else {
        ops as f64 / elapsed.as_secs_f64()
    }
}

/// Ratios of the first side to the second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ratios {
    pub(crate) throughput: f64,
    /// Median of the throughput ratios of the rounds. A single disturbed round hardly affects it.
    pub(crate) throughput_median: f64,
    /// 95 % confidence interval of the throughput ratio. `None` for a single round, or if a ratio
    /// is not a positive number.
    pub(crate) throughput_interval: Option<(f64, f64)>,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// Median of the rounds' ratios of the 99.9th percentile.
    pub(crate) p999_median: f64,
    pub(crate) server_cpu: Option<f64>,
    pub(crate) memory: Option<f64>,
}

impl Ratios {
    pub(crate) fn of(first: &Side, second: &Side) -> Self {
        let (stats_1, stats_2) = (first.stats(), second.stats());
        let percentile = |percent| {
            let of = |stats: &Stats| stats.percentile(percent).as_secs_f64();
            ratio(of(&stats_1), of(&stats_2))
        };
        let by_round = |of: fn(&Round) -> f64| -> Vec<f64> {
            let pairs = first.rounds.iter().zip(&second.rounds);
            pairs.map(|(one, two)| ratio(of(one), of(two))).collect()
        };
        let mut rounds = by_round(Round::ops_per_second);
        let mut tails = by_round(|round| round.stats.percentile(99.9).as_secs_f64());
        let cpu = first
            .server_cpu_per_million()
            .zip(second.server_cpu_per_million());
        let memory = first.memory().zip(second.memory());
        Self {
            throughput: ratio(first.ops_per_second(), second.ops_per_second()),
            throughput_interval: interval(&rounds),
            throughput_median: median(&mut rounds),
            p50: percentile(50.0),
            p99: percentile(99.0),
            p999_median: median(&mut tails),
            server_cpu: cpu.map(|(one, two)| ratio(one, two)),
            memory: memory.map(|(one, two)| ratio(one.resident as f64, two.resident as f64)),
        }
    }
}

pub(crate) fn ratio(one: f64, two: f64) -> f64 {
    if two == 0.0 { f64::NAN } else { one / two }
}

/// Sorts the values, and returns their median, or NaN for an empty list.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => at(count / 2),
        count => f64::midpoint(at(count / 2 - 1), at(count / 2)),
    }
}

/// Student's t for a two-sided 95 % interval, by degrees of freedom from 1 on. Higher degrees use
/// the last entry.
const STUDENT_T: [f64; 20] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
];

/// Returns the 95 % confidence interval of the geometric mean of `ratios`, from Student's
/// distribution of their logarithms. Returns `None` for fewer than two ratios, or if a ratio is not
/// a positive number.
fn interval(ratios: &[f64]) -> Option<(f64, f64)> {
    let is_usable = |ratio: &f64| ratio.is_finite() && *ratio > 0.0;
    if ratios.len() < 2 || !ratios.iter().all(is_usable) {
        return None;
    }
    let freedom = ratios.len() - 1;
    let count = ratios.len() as f64;
    let logarithms: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    let mean = logarithms.iter().sum::<f64>() / count;
    let squares = logarithms.iter().map(|value| (value - mean).powi(2));
    let deviation = (squares.sum::<f64>() / freedom as f64).sqrt();
    let student_t = STUDENT_T.get(freedom - 1).or(STUDENT_T.last())?;
    let half = student_t * deviation / count.sqrt();
    Some(((mean - half).exp(), (mean + half).exp()))
}

/// Number of rounds, and whether their znodes are kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    pub(crate) rounds: u32,
    /// Whether the created znodes are kept.
    pub(crate) keep: bool,
}

/// Measures all targets in turn in each round. Cleans up afterwards, unless znodes are kept.
pub(crate) fn run(
    job: &Job,
    targets: &[Target],
    schedule: Schedule,
    progress: &Progress,
) -> Result<Vec<Side>> {
    let each: Vec<_> = targets.iter().map(|target| (job, target)).collect();
    run_each(&each, schedule, progress)
}

/// Measures targets in turn, each with a separate job. Cleans up afterwards, unless znodes are
/// kept.
pub(crate) fn run_each(
    targets: &[(&Job, &Target)],
    schedule: Schedule,
    progress: &Progress,
) -> Result<Vec<Side>> {
    let runtime = threads::runtime()?;
    let mut sides: Vec<Side> = targets
        .iter()
        .map(|(_, target)| Side {
            name: target.name(),
            rounds: Vec::new(),
        })
        .collect();
    for (job, target) in targets {
        progress.stage(&format!("{}: prepare", target.name()));
        runtime.block_on(target.prepare(&job.plan))?;
    }
    let measured = rounds(targets, schedule, &mut sides, &runtime, progress);
    if !schedule.keep {
        for (job, target) in targets {
            progress.stage(&format!("{}: clean up", target.name()));
            let cleaned = runtime.block_on(target.clean(&job.plan.root));
            // The error of the measurement is more useful than the error of the clean-up.
            if measured.is_ok() {
                cleaned?;
            }
        }
    }
    measured.map(|()| sides)
}

fn rounds(
    targets: &[(&Job, &Target)],
    schedule: Schedule,
    sides: &mut [Side],
    runtime: &tokio::runtime::Runtime,
    progress: &Progress,
) -> Result<()> {
    for round in 0..schedule.rounds {
        for ((job, target), side) in targets.iter().zip(sides.iter_mut()) {
            let count = schedule.rounds;
            progress.stage(&format!(
                "{}: round {} of {count}",
                target.name(),
                round + 1
            ));
            runtime.block_on(target.prepare_round(&job.plan, round))?;
            side.rounds.push(round::run(job, target, round, progress)?);
            if !schedule.keep {
                runtime.block_on(target.clean_round(&job.plan, round))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::snapshots::SnapshotResults;

    fn side(name: &str, rounds: &[(u64, u64)]) -> Side {
        let rounds = rounds.iter().map(|(ops, latency_us)| {
            let mut stats = Stats::new();
            stats.record(latency_us * 1000, *ops);
            Round {
                stats,
                elapsed: Duration::from_secs(2),
                server_cpu: Some(Duration::from_secs(1)),
                own_cpu: None,
                memory_before: Some(Memory {
                    resident: 0,
                    peak: 0,
                }),
                memory: Some(Memory {
                    resident: latency_us << 20,
                    peak: 0,
                }),
                in_snapshots: SnapshotResults::none(),
            }
        });
        Side {
            name: name.to_owned(),
            rounds: rounds.collect(),
        }
    }

    #[test]
    fn sides_are_compared_by_totals_and_by_rounds() {
        let first = side("a", &[(4000, 100), (4000, 100), (1000, 100)]);
        let second = side("b", &[(1000, 400), (1000, 400), (1000, 400)]);
        assert_eq!(first.ops_per_second(), 1500.0);
        assert_eq!(second.server_cpu_per_million(), Some(1000.0));
        let ratios = Ratios::of(&first, &second);
        assert_eq!((ratios.throughput, ratios.throughput_median), (3.0, 4.0));
        assert!((ratios.p99 - 0.25).abs() < 0.001);
        assert!((ratios.p999_median - 0.25).abs() < 0.001);
        let (low, high) = ratios.throughput_interval.unwrap();
        assert!(low < 1.0 && high > 4.0, "{low} {high}");
        assert!((ratios.server_cpu.unwrap() - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(ratios.memory, Some(0.25));
        assert_eq!(first.growth_per(100), Some(f64::from(1 << 20)));
    }

    #[test]
    fn an_interval_covers_what_the_rounds_differ_by() {
        assert_eq!(interval(&[1.0]), None);
        assert_eq!(interval(&[1.0, f64::NAN]), None);
        assert_eq!(interval(&[1.0, 0.0]), None);
        assert_eq!(
            interval(&[2.0, 2.0, 2.0]).map(|(low, high)| (low.round(), high.round())),
            Some((2.0, 2.0))
        );
        // The logarithms are -0.1, 0 and 0.1. Their mean is 0, and half the interval is 4.303 * 0.1
        // / sqrt(3).
        let (low, high) = interval(&[(-0.1f64).exp(), 1.0, 0.1f64.exp()]).unwrap();
        let half = (4.303 * 0.1 / 3.0f64.sqrt()).exp();
        assert!((high - half).abs() < 1e-9 && (low - 1.0 / half).abs() < 1e-9);
        // There are more rounds than the table has entries.
        assert!(interval(&[1.0; 40]).is_some());
    }

    #[test]
    fn medians() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0]), 2.5);
        assert!(median(&mut []).is_nan());
    }
}
