//! Metrics in the format of `mntr` and of the admin server's `monitor`, with one name per figure.

use std::fmt::{self, Write};

use super::gauges::Number;
use super::rows::{Metric, Reading};
use crate::counters::percentiles::Distribution;
use crate::counters::summary::Moments;

/// Calls `each` with every name (without `zk_`) of a metric and the figure for the name.
///
/// A summary has the names `avg_` to `sum_`, and an advanced summary also has `p50_` to `p999_`.
/// The key of a set comes between the statistic and the metric. Source: DefaultMetricsProvider.
///
/// # Errors
/// If `each` returns an error.
pub fn figures(
    metric: &Metric,
    reading: &Reading,
    each: &mut dyn FnMut(&str, Number) -> fmt::Result,
) -> fmt::Result {
    let mut line = MntrWriter {
        metric: metric.name,
        name: String::new(),
        each,
    };
    match reading {
        Reading::Number(number) => (line.each)(metric.name, *number),
        Reading::Numbers(numbers) => numbers
            .iter()
            .try_for_each(|(key, number)| line.figure("", key, *number)),
        Reading::Summary(moments) => line.summary("", moments),
        Reading::Percentiles(distribution) => line.percentiles("", distribution),
        Reading::Summaries(summaries) => summaries
            .iter()
            .try_for_each(|(key, moments)| line.summary(key, moments)),
        Reading::PercentilesPerKey(all) => all
            .iter()
            .try_for_each(|(key, distribution)| line.percentiles(key, distribution)),
    }
}

/// Name prefixes of the percentiles of an advanced summary, each with its quantile.
const PERCENTILES: [(&str, f64); 4] = [
    ("p50_", 0.5),
    ("p95_", 0.95),
    ("p99_", 0.99),
    ("p999_", 0.999),
];

struct MntrWriter<'a> {
    metric: &'static str,
    name: String,
    each: &'a mut dyn FnMut(&str, Number) -> fmt::Result,
}

impl MntrWriter<'_> {
    fn figure(&mut self, statistic: &str, key: &str, figure: impl Into<Number>) -> fmt::Result {
        self.name.clear();
        self.name.push_str(statistic);
        if !key.is_empty() {
            write!(self.name, "{key}_")?;
        }
        self.name.push_str(self.metric);
        (self.each)(&self.name, figure.into())
    }

    fn summary(&mut self, key: &str, moments: &Moments) -> fmt::Result {
        self.figure("avg_", key, moments.average())?;
        self.figure("min_", key, moments.min())?;
        self.figure("max_", key, moments.max())?;
        self.figure("cnt_", key, moments.count)?;
        self.figure("sum_", key, moments.sum)
    }

    fn percentiles(&mut self, key: &str, distribution: &Distribution) -> fmt::Result {
        self.summary(key, distribution.moments())?;
        PERCENTILES.iter().try_for_each(|(statistic, share)| {
            self.figure(statistic, key, distribution.quantile(*share))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::TABLE;

    fn shown(name: &str, reading: &Reading) -> Vec<String> {
        let metric = TABLE
            .iter()
            .find(|metric| metric.name == name)
            .expect("in the table");
        let mut lines = Vec::new();
        let mut each = |name: &str, number: Number| {
            lines.push(format!("{name}={number}"));
            Ok(())
        };
        figures(metric, reading, &mut each).expect("nothing fails");
        lines
    }

    #[test]
    fn a_summary_is_five_figures_and_an_advanced_one_nine() {
        let mut moments = Moments::default();
        [1, 2].into_iter().for_each(|ms| moments.record(ms));
        let lines = shown("fsynctime", &Reading::Summary(moments));
        assert_eq!(
            lines,
            [
                "avg_fsynctime=1.5",
                "min_fsynctime=1",
                "max_fsynctime=2",
                "cnt_fsynctime=2",
                "sum_fsynctime=3"
            ]
        );

        let mut distribution = Distribution::default();
        (0..=50).for_each(|ms| distribution.record(ms));
        let lines = shown("readlatency", &Reading::Percentiles(distribution));
        assert_eq!(
            lines[5..],
            [
                "p50_readlatency=25",
                "p95_readlatency=48",
                "p99_readlatency=50",
                "p999_readlatency=50"
            ]
        );
    }

    #[test]
    fn the_key_of_a_set_is_between_statistic_and_metric() {
        let mut moments = Moments::default();
        moments.record(7);
        let summaries = [("app".to_owned(), moments)].into();
        let lines = shown("read_per_namespace", &Reading::Summaries(summaries));
        assert_eq!(lines[0], "avg_app_read_per_namespace=7.0");

        let numbers = [("app".to_owned(), Number::Integer(3))].into();
        let lines = shown(
            "quota_exceeded_error_per_namespace",
            &Reading::Numbers(numbers),
        );
        assert_eq!(lines, ["app_quota_exceeded_error_per_namespace=3"]);
    }
}
