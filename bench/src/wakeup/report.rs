//! What was measured, as a table, as JSON, as a page.

use hdrhistogram::Histogram;
use punctual_report::{Column, Page, Table};
use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The processor, and the kernel.
    pub machine: String,
    pub kernel: String,
    pub command: String,
    /// What the ratios are to: cyclictest, or our own sleep where that is not installed.
    pub floor: &'static str,
    /// What the machine did not grant.
    pub missing: Vec<String>,
    /// Exit latency that cores were held to, in us; none: idle states as the machine has them.
    pub idle_latency_us: Option<u32>,
    pub rows: Vec<Row>,
}

/// One way of waking under one load. Latencies in us.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub load: &'static str,
    pub way: &'static str,
    pub wakes: u64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
    /// To the floor's under the same load, in the same run; none for the floor itself.
    pub p50_ratio: Option<f64>,
    pub p99_ratio: Option<f64>,
}

impl Row {
    /// Quantiles of a histogram of nanoseconds.
    pub fn of(load: &'static str, way: &'static str, latencies: &Histogram<u64>) -> Self {
        let us = |quantile| latencies.value_at_quantile(quantile) as f64 / 1_000.0;
        Self {
            load,
            way,
            wakes: latencies.len(),
            p50_us: us(0.5),
            p99_us: us(0.99),
            p999_us: us(0.999),
            max_us: latencies.max() as f64 / 1_000.0,
            p50_ratio: None,
            p99_ratio: None,
        }
    }

    /// Compared with the floor under the same load.
    pub fn against(mut self, floor: &Self) -> Self {
        let ratio = |ours: f64, floor: f64| (floor > 0.0).then(|| ours / floor);
        self.p50_ratio = ratio(self.p50_us, floor.p50_us);
        self.p99_ratio = ratio(self.p99_us, floor.p99_us);
        self
    }
}

impl Report {
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data serialises") + "\n"
    }

    /// For people; a Markdown table.
    pub fn text(&self) -> String {
        format!("{}\n\n{}", self.head().join("\n"), self.table().markdown())
    }

    /// One page with everything in it.
    pub fn page(&self) -> String {
        let mut page = Page::new("Wake-up latency");
        for line in self.head() {
            page.paragraph(line);
        }
        page.table(&self.table());
        page.html()
    }

    fn table(&self) -> Table {
        let us = |heading| Column::number(heading).unit("us");
        let mut table = Table::of([
            Column::words("load"),
            Column::words("woken by"),
            Column::number("wakes"),
            us("p50"),
            us("p99"),
            us("p99.9"),
            us("max"),
            Column::number("p50 / floor"),
            Column::number("p99 / floor"),
        ]);
        self.rows.iter().for_each(|row| table.row(cells(row)));
        table
    }

    fn head(&self) -> Vec<String> {
        let mut lines = vec![
            format!("{}, Linux {}", self.machine, self.kernel),
            format!("command: {}", self.command),
            format!(
                "floor: {}, in the same run, in turns of each way",
                self.floor
            ),
        ];
        lines.push(match self.idle_latency_us {
            Some(us) => format!("idle states: held to {us} us by /dev/cpu_dma_latency"),
            None => "idle states: as the machine has them".to_owned(),
        });
        if !self.missing.is_empty() {
            lines.push(format!("not granted: {}", self.missing.join(", ")));
        }
        lines
    }
}

fn cells(row: &Row) -> [String; 9] {
    let us = |value: f64| format!("{value:.1}");
    let ratio = |value: Option<f64>| value.map_or_else(|| "1".to_owned(), |v| format!("{v:.2}"));
    [
        row.load.to_owned(),
        row.way.to_owned(),
        row.wakes.to_string(),
        us(row.p50_us),
        us(row.p99_us),
        us(row.p999_us),
        us(row.max_us),
        ratio(row.p50_ratio),
        ratio(row.p99_ratio),
    ]
}
