//! The table, the JSON, the picture.

use std::fmt::Write;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::child::Wait;
use crate::ways::{HEADER_BYTES, Way};

/// A distribution of times, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Times {
    pub count: u64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
}

impl From<&Histogram<u64>> for Times {
    fn from(histogram: &Histogram<u64>) -> Self {
        let us = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Self {
            count: histogram.len(),
            p50_us: us(0.5),
            p99_us: us(0.99),
            p999_us: us(0.999),
            max_us: histogram.max() as f64 / 1e3,
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub way: Way,
    pub bytes: usize,
    pub wait: Wait,
    pub clients: usize,
    /// From the moment at which a message was to be sent until the server had it, checked.
    pub one_way: Times,
    /// Until its client had the answer.
    pub round_trip: Times,
}

impl Row {
    fn mode(&self) -> String {
        let what = if self.bytes > HEADER_BYTES {
            "900 kB frame"
        } else {
            "header"
        };
        let wait = if self.wait == Wait::Spin {
            "spin"
        } else {
            "sleep"
        };
        let plural = if self.clients == 1 { "" } else { "s" };
        format!("{what}, {wait}, {} client{plural}", self.clients)
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Messages of each client and way.
    pub messages: u64,
    pub cores: usize,
    /// Whether `/dev/cpu_dma_latency` was held at 0.
    pub held_awake: bool,
    pub rows: Vec<Row>,
}

impl Report {
    pub fn new(messages: u64, cores: usize, held_awake: bool) -> Self {
        Self {
            messages,
            cores,
            held_awake,
            rows: Vec::new(),
        }
    }

    pub fn table(&self) -> String {
        let mut table = String::from(
            "| us, p50 / p99 / p99.9 / max | way | one way | round trip |\n|---|---|---|---|\n",
        );
        let cell = |t: &Times| {
            format!(
                "{:.1} / {:.1} / {:.1} / {:.0}",
                t.p50_us, t.p99_us, t.p999_us, t.max_us
            )
        };
        for row in &self.rows {
            let (there, back) = (cell(&row.one_way), cell(&row.round_trip));
            let _ = writeln!(
                table,
                "| {} | {} | {there} | {back} |",
                row.mode(),
                row.way.name()
            );
        }
        table
    }

    /// Round trips: a bar to the median, a line to the 99th percentile, on a logarithmic scale.
    pub fn svg(&self) -> String {
        const LEFT: f64 = 330.0;
        const DECADE: f64 = 130.0;
        const LINE: f64 = 18.0;
        let x = |us: f64| LEFT + DECADE * us.max(0.3).log10().max(-0.5) + DECADE / 2.0;
        let height = LINE * (self.rows.len() as f64 + 3.0);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{height}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" \
             fill=\"white\"/>\n<text x=\"8\" y=\"14\">Round trip, us: bar to p50, line to p99</text>\n",
            LEFT + 5.0 * DECADE
        );
        for us in [1.0, 10.0, 100.0, 1000.0] {
            let at = x(us);
            let _ = writeln!(
                svg,
                "<line x1=\"{at}\" y1=\"20\" x2=\"{at}\" y2=\"{height}\" stroke=\"#ddd\"/>\
                 <text x=\"{at}\" y=\"32\" fill=\"#666\">{us}</text>"
            );
        }
        for (at, row) in self.rows.iter().enumerate() {
            let y = LINE * (at as f64 + 2.0);
            let colour = match row.way {
                Way::Channel => "#1b6ca8",
                Way::Iceoryx2 => "#c0562b",
                Way::Seqpacket | Way::Eventfd => "#999",
            };
            let (p50, p99) = (x(row.round_trip.p50_us), x(row.round_trip.p99_us));
            let _ = writeln!(
                svg,
                "<text x=\"8\" y=\"{}\">{} | {}</text>\
                 <rect x=\"{LEFT}\" y=\"{y}\" width=\"{}\" height=\"12\" fill=\"{colour}\"/>\
                 <line x1=\"{p50}\" y1=\"{}\" x2=\"{p99}\" y2=\"{}\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                y + 11.0,
                row.mode(),
                row.way.name(),
                p50 - LEFT,
                y + 6.0,
                y + 6.0
            );
        }
        svg.push_str("</svg>\n");
        svg
    }
}
