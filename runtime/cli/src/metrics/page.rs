//! `docs/metrics.md`, which is made from the list, and the metrics that [monitoring](../../../../monitoring) names. For a wanted
//! change of the page, run with `PUNCTUAL_REWRITE=1` and read the difference.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use punctual_platform::read;
use punctual_report::{Column, Table};

use super::list::{GROUPS, Group};
use super::metric::{Metric, PREFIX, Values};

const INTRODUCTION: &str = "# Metrics

The tables are made from `runtime/cli/src/metrics/list.rs` by `cargo test -p punctual --lib metrics`, which compares them.

`punctual metrics` serves them to [Prometheus](https://prometheus.io), at <http://127.0.0.1:9464/metrics>, as
[OpenMetrics](https://prometheus.io/docs/specs/om/open_metrics_spec/). It is a process of its own, which asks the daemon for its
[report](deploying.md#status-and-log) when a scrape comes: HTTP never enters the daemon ([decision 25](decisions/0025-metrics.md)). A dashboard and
alerts are in [monitoring](../monitoring/README.md).

```sh
punctual metrics                             # of the daemon that runs here
punctual metrics --socket /tmp/punctual.sock --listen 127.0.0.1:9465
curl -s http://127.0.0.1:9464/metrics
```

- **While the daemon is away**, or takes more than a second for its report, a scrape succeeds with `punctual_up 0` and nothing else: no old figures.
- **Counters begin at 0 with the daemon.** `rate` and `increase` know that. `resets(punctual_uptime_seconds[1h])` is how often it was started again.
- **Labels are names of the manifest**: tasks, models, partitions. There is none for a client, so the number of series is that of the plan.
- **Sums of `punctual_latency_seconds` and `punctual_slack_seconds`** are of the upper edges of the daemon's buckets, which are 1/64 wide.
- **Scrapes within 0.1 s** get the same report. 16 connections are served at the same time, each for little more than 3 s at most; a request has at most 8 KiB.

Names, types and labels never change; new ones may come.
";

/// What samples of a metric are called, but for what buckets have in addition.
fn name(metric: &Metric) -> String {
    let unit = metric
        .unit
        .map_or_else(String::new, |unit| format!("_{unit}"));
    let kind = match metric.values {
        Values::Counter(_) => "_total",
        Values::Info(_) => "_info",
        Values::Up | Values::Gauge(_) | Values::Histogram(_) => "",
    };
    format!("{PREFIX}_{}{unit}{kind}", metric.name)
}

fn kind(metric: &Metric) -> &'static str {
    match metric.values {
        Values::Up | Values::Gauge(_) => "gauge",
        Values::Counter(_) => "counter",
        Values::Histogram(_) => "histogram",
        Values::Info(_) => "info",
    }
}

fn section(group: &Group) -> String {
    let code = |text: &str| format!("`{text}`");
    let mut table = Table::of(["metric", "type", "labels", "meaning"].map(Column::words));
    for metric in group.metrics {
        let labels: Vec<String> = metric.labels.iter().map(|label| code(label)).collect();
        table.row([
            code(&name(metric)),
            kind(metric).to_owned(),
            labels.join(", "),
            metric.help.to_owned(),
        ]);
    }
    format!("\n## {}\n\n{}", group.subject, table.markdown())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn all() -> impl Iterator<Item = &'static Metric> {
    GROUPS.iter().flat_map(|group| group.metrics)
}

#[test]
fn the_page_is_made_from_the_list() {
    let path = root().join("docs/metrics.md");
    let sections: String = GROUPS.iter().map(section).collect();
    let page = format!("{INTRODUCTION}{sections}");
    if std::env::var_os("PUNCTUAL_REWRITE").is_some() {
        std::fs::write(&path, &page).expect("the page can be written");
    }
    let found = read::text(&path, read::TEXT_BYTES_MAX).unwrap_or_default();
    assert!(
        found == page,
        "docs/metrics.md differs; see PUNCTUAL_REWRITE"
    );
}

#[test]
fn each_metric_has_a_name_of_its_own_and_a_sentence() {
    let mut names = BTreeSet::new();
    for metric in all() {
        let name = name(metric);
        let plain = |c: char| c.is_ascii_lowercase() || c == '_';
        assert!(name.chars().all(plain), "{name}");
        assert!(metric.help.ends_with('.'), "{name}: {}", metric.help);
        assert!(names.insert(name), "{metric:?} is there twice");
    }
}

/// Names of metrics in a text, as a query has them.
fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "_:".contains(c)));
    let ours = words.filter(|word| {
        word.strip_prefix(PREFIX)
            .is_some_and(|rest| rest.starts_with('_'))
    });
    ours.collect()
}

#[test]
fn the_dashboard_and_the_alerts_name_metrics_that_there_are() {
    let series: BTreeSet<String> = all()
        .flat_map(|metric| {
            let name = name(metric);
            let parts = match metric.values {
                Values::Histogram(_) => &["_bucket", "_sum", "_count"][..],
                _ => &[""],
            };
            parts.iter().map(move |part| format!("{name}{part}"))
        })
        .collect();
    for (file, least) in [
        ("dashboard.json", 20),
        ("alerts.yml", 8),
        ("alerts.test.yml", 8),
    ] {
        let path = root().join("monitoring").join(file);
        let text = read::text(&path, read::TEXT_BYTES_MAX).expect("it is there");
        let named = named(&text);
        let unknown = named.iter().filter(|name| !series.contains(**name));
        assert_eq!(unknown.collect::<Vec<_>>(), [] as [&&str; 0], "{file}");
        assert!(named.len() >= least, "{file}: {named:?}");
    }
}
