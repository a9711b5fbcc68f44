//! The table, the JSON, the picture.

use hdrhistogram::Histogram;
use punctual_report::{Anchor, Drawing, Style, Table};
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
    /// From the moment at which a message should be sent until the server had it, checked.
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
        let heading = "us, p50 / p99 / p99.9 / max";
        let mut table = Table::new(&[heading, "way", "one way", "round trip"], 4);
        let cell = |t: &Times| {
            format!(
                "{:.1} / {:.1} / {:.1} / {:.0}",
                t.p50_us, t.p99_us, t.p999_us, t.max_us
            )
        };
        for row in &self.rows {
            let (there, back) = (cell(&row.one_way), cell(&row.round_trip));
            table.row([row.mode(), row.way.name().to_owned(), there, back]);
        }
        table.markdown()
    }

    /// Round trips: a bar to the median, a line to the 99th percentile, on a logarithmic scale.
    pub fn svg(&self) -> String {
        const LEFT: f64 = 330.0;
        const DECADE: f64 = 130.0;
        const LINE: f64 = 18.0;
        let x = |us: f64| LEFT + DECADE * us.max(0.3).log10().max(-0.5) + DECADE / 2.0;
        let height = LINE * (self.rows.len() as f64 + 3.0);
        let title = "Round trip, us: bar to p50, line to p99";
        let mut drawing = Drawing::new(LEFT + 5.0 * DECADE, height, title);
        drawing.background("#ffffff");
        drawing.text((8.0, 14.0), Anchor::Start, title);
        for us in [1.0, 10.0, 100.0, 1000.0] {
            drawing.line((x(us), 20.0), (x(us), height), "#dddddd");
            drawing.text((x(us), 32.0), Anchor::Start, &us.to_string());
        }
        for (at, row) in self.rows.iter().enumerate() {
            let y = LINE * (at as f64 + 2.0);
            let fill = match row.way {
                Way::Channel => "#1b6ca8",
                Way::Iceoryx2 => "#c0562b",
                Way::Seqpacket | Way::Eventfd => "#999999",
            };
            let (p50, p99) = (x(row.round_trip.p50_us), x(row.round_trip.p99_us));
            let name = format!("{} | {}", row.mode(), row.way.name());
            let style = Style {
                fill,
                ..Style::default()
            };
            drawing.text((8.0, y + 11.0), Anchor::Start, &name);
            drawing.rect((LEFT, y), (p50 - LEFT, 12.0), &style);
            drawing.line((p50, y + 6.0), (p99, y + 6.0), fill);
        }
        drawing.svg().as_str().to_owned() + "\n"
    }
}
