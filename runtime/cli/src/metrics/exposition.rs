//! The text of all metrics at a moment, written by `prometheus-client`.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, MetricEncoder, NoLabelSet, prometheus_text, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::list::GROUPS;
use super::metric::{Distribution, LabelValues, Metric, PREFIX, Sample, Seen, Values};

/// A text format of Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// What Prometheus asks for.
    OpenMetrics,
    /// Prometheus's own, for readers that do not ask for the other: `promtool check metrics` is one.
    Plain,
}

impl Format {
    const OPEN_METRICS: &str = "application/openmetrics-text";

    /// By the `Accept` of a request.
    pub fn accepted(accept: &str) -> Self {
        if accept.contains(Self::OPEN_METRICS) {
            return Self::OpenMetrics;
        }
        Self::Plain
    }

    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Plain => prometheus_text::CONTENT_TYPE,
        }
    }

    /// The text of what is seen; none: the daemon is away.
    pub fn text(self, seen: Option<Arc<Seen>>) -> String {
        let mut registry = Registry::with_prefix(PREFIX);
        registry.register_collector(Box::new(Moment(seen)));
        let mut written = String::new();
        let result = match self {
            Self::OpenMetrics => text::encode(&mut written, &registry),
            Self::Plain => prometheus_text::encode(&mut written, &registry),
        };
        result.expect("a string takes any text");
        written
    }
}

#[derive(Debug)]
struct Moment(Option<Arc<Seen>>);

impl Collector for Moment {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for metric in GROUPS.iter().flat_map(|group| group.metrics) {
            metric.encode(self.0.as_deref(), &mut encoder)?;
        }
        Ok(())
    }
}

/// Of metrics whose labels are all declared.
const NO_LABELS: [(&str, &str); 0] = [];

impl Metric {
    /// Nothing if it has no values.
    fn encode(&self, seen: Option<&Seen>, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let gauge = |sample: &Sample, mut to: MetricEncoder<'_>| to.encode_gauge(&sample.value);
        let counter = |sample: &Sample, mut to: MetricEncoder<'_>| {
            to.encode_counter::<NoLabelSet, _, f64>(&sample.value, None)
        };
        let histogram = |found: &Distribution, mut to: MetricEncoder<'_>| {
            let count = found.buckets.iter().map(|(_, count)| count).sum();
            to.encode_histogram::<NoLabelSet>(found.sum, count, &found.buckets, None)
        };
        let info = |_: &LabelValues, mut to: MetricEncoder<'_>| to.encode_info(&NO_LABELS);
        match (&self.values, seen) {
            (Values::Up, seen) => {
                let is_up = Sample::alone(seen.is_some().into());
                self.each(encoder, MetricType::Gauge, is_up, gauge)
            }
            (_, None) => Ok(()),
            (Values::Counter(of), Some(seen)) => {
                self.each(encoder, MetricType::Counter, of(&seen.report), counter)
            }
            (Values::Gauge(of), Some(seen)) => {
                self.each(encoder, MetricType::Gauge, of(seen), gauge)
            }
            (Values::Histogram(of), Some(seen)) => {
                self.each(encoder, MetricType::Histogram, of(&seen.report), histogram)
            }
            (Values::Info(of), Some(seen)) => {
                self.each(encoder, MetricType::Info, of(&seen.report), info)
            }
        }
    }

    fn each<V: AsRef<[String]>>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        kind: MetricType,
        values: Vec<V>,
        write: impl Fn(&V, MetricEncoder<'_>) -> fmt::Result,
    ) -> fmt::Result {
        if values.is_empty() {
            return Ok(());
        }
        let unit = self.unit.map(|unit| Unit::Other(unit.to_owned()));
        let mut encoder = encoder.encode_descriptor(self.name, self.help, unit.as_ref(), kind)?;
        for value in &values {
            assert_eq!(value.as_ref().len(), self.labels.len(), "{}", self.name);
            let labels = self.labels.iter().zip(value.as_ref());
            let labels: Vec<(&str, &str)> = labels.map(|(name, value)| (*name, &**value)).collect();
            write(value, encoder.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use punctual_daemon::{
        ClientsReport, FailedReport, GpuReport, PartitionReport, RecorderReport, RejectedReport,
        Report, StageReport, StallsReport, StartReport, TaskReport, TaskStartReport,
    };

    use super::*;
    use crate::live::machine::Machine;

    fn report() -> Report {
        Report {
            version: "0.1.0".into(),
            board: "host".into(),
            plan: "c0ffee".into(),
            policy: "punctual".into(),
            start: StartReport {
                ready_ms: Some(120.0),
                whole_ms: Some(340.0),
                tasks_ready: 2,
                ..StartReport::default()
            },
            seconds: 61.5,
            tasks: vec![
                TaskReport {
                    name: "front \"left\"".into(),
                    model: "signs".into(),
                    partition: "main".into(),
                    criticality: "real-time".into(),
                    start: TaskStartReport {
                        ready_ms: Some(110.0),
                        answered_ms: Some(150.5),
                        ..TaskStartReport::default()
                    },
                    deadline_us: Some(33_000),
                    reserved_hz: Some(30.0),
                    submitted: 110,
                    on_time: 100,
                    late: 2,
                    late_in_host_stall: 1,
                    rejected: RejectedReport {
                        no_slack: 5,
                        ..RejectedReport::default()
                    },
                    failed: FailedReport {
                        starved: 1,
                        ..FailedReport::default()
                    },
                    open: 2,
                    exits: vec![40, 62],
                    overruns: 3,
                    overrun_worst: 1_250,
                    latency_buckets: vec![(499.0, 1), (2_000.0, 50), (40_000.0, 50), (2e6, 1)],
                    slack_buckets: vec![(0.0, 2), (9_000.0, 100)],
                    ..TaskReport::default()
                },
                TaskReport {
                    name: "watch".into(),
                    model: "signs".into(),
                    partition: "main".into(),
                    criticality: "best-effort".into(),
                    exits: vec![0],
                    ..TaskReport::default()
                },
            ],
            clients: ClientsReport {
                slots: 4,
                in_use: 1,
                accepted: 3,
                refused: 1,
                gone: 2,
                connected: Vec::new(),
            },
            host_stalls: StallsReport {
                count: 2,
                total_us: 7_500,
                longest_us: 5_000,
                unlisted: 1,
                list: Vec::new(),
            },
            partitions: vec![PartitionReport {
                name: "main".into(),
                device: "cpu".into(),
                units: 2,
                actions: 90,
                members: 120,
                finished: 80,
                preempted: 6,
                not_run: 3,
                failed: 1,
                busy_us: 3_000_000,
                best_effort_us: 500_000,
                ..PartitionReport::default()
            }],
            stages: vec![StageReport {
                model: "signs".into(),
                stage: 1,
                batch: 4,
                partition: "main".into(),
                budget_us: 2_500,
                count: 10,
                sum_us: 15_000,
                max_us: 2_400,
            }],
            gpu: Some(GpuReport::default()),
            recorder: Some(RecorderReport::default()),
            ..Report::default()
        }
    }

    fn seen() -> Option<Arc<Seen>> {
        let mut machine = Machine::look(0, 0);
        machine.celsius = Some(48.5);
        machine.mhz = Some(1_500.0);
        let report = report();
        Some(Arc::new(Seen { report, machine }))
    }

    #[test]
    fn a_report_is_the_text_that_is_kept_of_it() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exposition.txt");
        let text = Format::OpenMetrics.text(seen());
        if std::env::var_os("PUNCTUAL_REWRITE").is_some() {
            std::fs::write(&path, &text).expect("the text can be written");
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(text, kept, "see PUNCTUAL_REWRITE");
        let all = GROUPS.iter().flat_map(|group| group.metrics);
        for metric in all.filter(|metric| !metric.name.starts_with("memory_")) {
            let name = format!("# TYPE {PREFIX}_{}", metric.name);
            assert!(
                text.contains(&name),
                "{name}: the report has no such figure"
            );
        }
    }

    #[test]
    fn of_a_daemon_that_is_away_there_is_nothing_but_that() {
        let text = Format::OpenMetrics.text(None);
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with("# "))
            .collect();
        assert_eq!(lines, ["punctual_up 0.0"]);
        assert!(text.ends_with("# EOF\n"), "{text}");
    }

    /// `le` is written in another place and with another number of zeros.
    #[test]
    fn the_plain_format_has_the_same_samples() {
        let values = |format: Format| {
            let text = format.text(seen());
            let samples = text.lines().filter(|line| !line.starts_with('#'));
            let sample = |line: &str| {
                let name = line.split(['{', ' ']).next().unwrap_or_default().to_owned();
                (name, line.rsplit(' ').next().unwrap_or_default().to_owned())
            };
            let mut values: Vec<(String, String)> = samples.map(sample).collect();
            values.sort();
            values
        };
        let plain = Format::Plain.text(seen());
        assert!(
            plain.contains("# TYPE punctual_overruns_total counter\n"),
            "{plain}"
        );
        assert_eq!(values(Format::Plain), values(Format::OpenMetrics));
    }
}
