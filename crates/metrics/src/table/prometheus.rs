//! Metrics in Prometheus' text format. Source: PrometheusMetricsProvider, simpleclient's
//! TextFormat.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Write};

use super::gauges::Number;
use super::rows::{Kind, Metric, Reading};
use super::text::Decimal;
use crate::counters::percentiles::Distribution;
use crate::counters::summary::Moments;
use crate::process::figures::ProcessFigures;

/// Content type of the response.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Filter for the requested families.
#[derive(Debug, Clone, Default)]
pub struct FamilyFilter(Option<BTreeSet<String>>);

impl FamilyFilter {
    /// Creates the filter from the values of the parameter `name[]`. If there are none, all
    /// families are requested.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let names: BTreeSet<String> = names.into_iter().collect();
        Self((!names.is_empty()).then_some(names))
    }

    fn has(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|names| names.contains(name))
    }
}

/// Metrics to export, at one time.
#[derive(Debug)]
pub struct Export<'a> {
    /// ZooKeeper's metrics, in the order of the table. Empty before the server is created.
    pub readings: &'a [(&'static Metric, Reading)],
    /// Metrics of the process, unless they are disabled.
    pub process: Option<ProcessFigures>,
}

impl Export<'_> {
    /// Formats the metrics, each family with its kind and its values.
    pub fn print(&self, wanted: &FamilyFilter) -> String {
        let mut out = String::with_capacity(TEXT_BYTES);
        // Writing to a `String` cannot fail.
        let _ = self.write(wanted, &mut out);
        out
    }

    fn write(&self, wanted: &FamilyFilter, out: &mut String) -> fmt::Result {
        for (metric, reading) in self.readings.iter().filter(|(of, _)| wanted.has(of.name)) {
            family(metric.name, kind(metric.kind), out)?;
            write_reading(metric.name, reading, out)?;
        }
        if wanted.has(STAGES) && !self.readings.is_empty() {
            self.write_stages(out)?;
        }
        if let Some(process) = &self.process {
            for (name, kind, samples) in process.families() {
                if wanted.has(name) {
                    family(name, kind, out)?;
                    for (rest, value) in samples {
                        writeln!(out, "{name}{rest} {}", Decimal(value))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes a histogram of each stage of a request, in addition to Java's metrics.
    fn write_stages(&self, out: &mut String) -> fmt::Result {
        writeln!(
            out,
            "# HELP {STAGES} Time of a request in a stage of the pipeline."
        )?;
        writeln!(out, "# TYPE {STAGES} histogram")?;
        for (metric, stage) in STAGE_METRICS {
            let reading = self.readings.iter().find(|(of, _)| of.name == metric);
            if let Some((_, Reading::Percentiles(distribution))) = reading {
                write_stage(stage, distribution, out)?;
            }
        }
        Ok(())
    }
}

/// Approximate size of the response, to avoid reallocations, bytes.
const TEXT_BYTES: usize = 32 << 10;

/// Name of the family with the histograms of the stages.
const STAGES: &str = "zoarium_stage_seconds";

/// Metrics of the stages, in the order of the pipeline.
const STAGE_METRICS: [(&str, &str); 8] = [
    ("request_throttle_queue_time_ms", "throttle"),
    ("prep_processor_queue_time_ms", "wait_for_preparation"),
    ("sync_processor_queue_time_ms", "wait_for_log"),
    ("sync_processor_queue_flush_time_ms", "fsync"),
    ("quorum_ack_latency", "quorum"),
    ("propagation_latency", "propagation"),
    ("readlatency", "read"),
    ("updatelatency", "update"),
];

/// Upper bounds of the histogram buckets, ms. The stages are measured in whole milliseconds.
const BOUNDS_MS: [u64; 14] = [
    0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000,
];

fn write_stage(stage: &str, distribution: &Distribution, out: &mut String) -> fmt::Result {
    let counts = distribution.up_to(&BOUNDS_MS);
    for (bound, count) in BOUNDS_MS.iter().zip(counts) {
        let seconds = Decimal(*bound as f64 / 1000.0);
        writeln!(
            out,
            "{STAGES}_bucket{{stage=\"{stage}\",le=\"{seconds}\",}} {}",
            float(count)
        )?;
    }
    let moments = distribution.moments();
    let (count, sum) = (float(moments.count), Decimal(moments.sum as f64 / 1000.0));
    writeln!(
        out,
        "{STAGES}_bucket{{stage=\"{stage}\",le=\"+Inf\",}} {count}"
    )?;
    writeln!(out, "{STAGES}_count{{stage=\"{stage}\",}} {count}")?;
    writeln!(out, "{STAGES}_sum{{stage=\"{stage}\",}} {sum}")
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Gauge | Kind::GaugeSet => "gauge",
        Kind::Counter | Kind::CounterSet => "counter",
        Kind::Summary | Kind::Percentiles | Kind::SummarySet | Kind::PercentilesSet => "summary",
    }
}

/// Writes the head of a family. As in Java, the help text repeats the name.
fn family(name: &str, kind: &str, out: &mut String) -> fmt::Result {
    writeln!(out, "# HELP {name} {name}")?;
    writeln!(out, "# TYPE {name} {kind}")
}

/// Quantiles of advanced summaries. Source: PrometheusMetricsProvider.
const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

fn write_reading(name: &str, reading: &Reading, out: &mut String) -> fmt::Result {
    match reading {
        Reading::Number(number) => writeln!(out, "{name} {}", as_float(*number)),
        Reading::Numbers(numbers) => numbers.iter().try_for_each(|(key, number)| {
            writeln!(out, "{name}{{{}}} {}", Key(Some(key)), as_float(*number))
        }),
        Reading::Summary(moments) => summary(name, None, moments, out),
        Reading::Summaries(all) => all
            .iter()
            .try_for_each(|(key, moments)| summary(name, Some(key), moments, out)),
        Reading::Percentiles(distribution) => advanced(name, None, distribution, out),
        Reading::PercentilesPerKey(all) => all
            .iter()
            .try_for_each(|(key, distribution)| advanced(name, Some(key), distribution, out)),
    }
}

fn summary(name: &str, key: Option<&str>, moments: &Moments, out: &mut String) -> fmt::Result {
    let median = moments.median().map_or(Decimal(f64::NAN), float);
    writeln!(out, "{name}{{{}quantile=\"0.5\",}} {median}", Key(key))?;
    totals(name, key, moments, out)
}

fn advanced(
    name: &str,
    key: Option<&str>,
    distribution: &Distribution,
    out: &mut String,
) -> fmt::Result {
    let moments = distribution.moments();
    for quantile in QUANTILES {
        let value = match moments.count {
            0 => Decimal(f64::NAN),
            _ => float(distribution.quantile(quantile)),
        };
        writeln!(
            out,
            "{name}{{{}quantile=\"{quantile}\",}} {value}",
            Key(key)
        )?;
    }
    totals(name, key, moments, out)
}

fn totals(name: &str, key: Option<&str>, moments: &Moments, out: &mut String) -> fmt::Result {
    let labels = match key {
        Some(_) => format!("{{{}}}", Key(key)),
        None => String::new(),
    };
    writeln!(out, "{name}_count{labels} {}", float(moments.count))?;
    writeln!(out, "{name}_sum{labels} {}", float(moments.sum))
}

/// Label of a key, followed by a comma; empty without a key. Special characters are escaped,
/// because clients choose the names of namespaces.
struct Key<'a>(Option<&'a str>);

impl Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(key) = self.0 else { return Ok(()) };
        f.write_str("key=\"")?;
        for c in key.chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                c => f.write_char(c)?,
            }
        }
        f.write_str("\",")
    }
}

fn as_float(number: Number) -> Decimal {
    match number {
        Number::Integer(number) => Decimal(number as f64),
        Number::Decimal(number) => number,
    }
}

fn float(count: u64) -> Decimal {
    Decimal(count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::TABLE;

    fn reading(name: &str, reading: Reading) -> (&'static Metric, Reading) {
        let metric = TABLE.iter().find(|metric| metric.name == name);
        (metric.expect("in the table"), reading)
    }

    fn print(readings: &[(&'static Metric, Reading)], wanted: &FamilyFilter) -> String {
        let export = Export {
            readings,
            process: None,
        };
        export.print(wanted)
    }

    #[test]
    fn the_text_equals_the_recordings() {
        let mut distribution = Distribution::default();
        (0..=100).for_each(|ms| distribution.record(ms / 10));
        let mut moments = Moments::default();
        moments.record(948);
        let readings = [
            reading("znode_count", Reading::Number(14_i64.into())),
            reading("leader_unavailable_time", Reading::Summary(moments)),
            reading("follower_sync_time", Reading::Summary(Moments::default())),
            reading("readlatency", Reading::Percentiles(distribution)),
            reading(
                "quota_bytes_limit_per_namespace",
                Reading::Numbers([("a\"\\b".to_owned(), 1000_i64.into())].into()),
            ),
            reading(
                "read_per_namespace",
                Reading::Summaries([("app".to_owned(), moments)].into()),
            ),
        ];
        let text = print(&readings, &FamilyFilter::default());
        let ours = text.find("# HELP zoarium").expect("our own");
        assert_eq!(
            &text[..ours],
            "# HELP znode_count znode_count\n\
             # TYPE znode_count gauge\n\
             znode_count 14.0\n\
             # HELP leader_unavailable_time leader_unavailable_time\n\
             # TYPE leader_unavailable_time summary\n\
             leader_unavailable_time{quantile=\"0.5\",} 948.0\n\
             leader_unavailable_time_count 1.0\n\
             leader_unavailable_time_sum 948.0\n\
             # HELP follower_sync_time follower_sync_time\n\
             # TYPE follower_sync_time summary\n\
             follower_sync_time{quantile=\"0.5\",} NaN\n\
             follower_sync_time_count 0.0\n\
             follower_sync_time_sum 0.0\n\
             # HELP readlatency readlatency\n\
             # TYPE readlatency summary\n\
             readlatency{quantile=\"0.5\",} 5.0\n\
             readlatency{quantile=\"0.9\",} 9.0\n\
             readlatency{quantile=\"0.99\",} 9.0\n\
             readlatency_count 101.0\n\
             readlatency_sum 460.0\n\
             # HELP quota_bytes_limit_per_namespace quota_bytes_limit_per_namespace\n\
             # TYPE quota_bytes_limit_per_namespace gauge\n\
             quota_bytes_limit_per_namespace{key=\"a\\\"\\\\b\",} 1000.0\n\
             # HELP read_per_namespace read_per_namespace\n\
             # TYPE read_per_namespace summary\n\
             read_per_namespace{key=\"app\",quantile=\"0.5\",} 948.0\n\
             read_per_namespace_count{key=\"app\",} 1.0\n\
             read_per_namespace_sum{key=\"app\",} 948.0\n"
        );
        let stage = text.lines().filter(|line| line.contains("stage=\"read\""));
        let stage: Vec<&str> = stage.collect();
        assert_eq!(
            stage[0],
            "zoarium_stage_seconds_bucket{stage=\"read\",le=\"0.0\",} 10.0"
        );
        assert_eq!(
            stage[4],
            "zoarium_stage_seconds_bucket{stage=\"read\",le=\"0.01\",} 101.0"
        );
        assert_eq!(
            stage[14..],
            [
                "zoarium_stage_seconds_bucket{stage=\"read\",le=\"+Inf\",} 101.0",
                "zoarium_stage_seconds_count{stage=\"read\",} 101.0",
                "zoarium_stage_seconds_sum{stage=\"read\",} 0.46",
            ]
        );
    }

    #[test]
    fn only_requested_families_are_printed() {
        let readings = [
            reading("znode_count", Reading::Number(14_i64.into())),
            reading("watch_count", Reading::Number(1_i64.into())),
        ];
        let wanted = FamilyFilter::new(["znode_count".to_owned(), "nosuch".to_owned()]);
        let text = print(&readings, &wanted);
        assert_eq!(
            text,
            "# HELP znode_count znode_count\n# TYPE znode_count gauge\nznode_count 14.0\n"
        );
        assert_eq!(
            print(&readings, &FamilyFilter::new(["nosuch".to_owned()])),
            ""
        );
    }
}
