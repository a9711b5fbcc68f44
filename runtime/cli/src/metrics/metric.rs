//! What is declared of a metric.

use punctual_daemon::Report;

use crate::live::machine::Machine;

/// What begins each name.
pub const PREFIX: &str = "punctual";

/// What there is to tell at a moment.
#[derive(Debug)]
pub struct Seen {
    pub report: Report,
    pub machine: Machine,
}

#[derive(Debug)]
pub struct Metric {
    /// Between the [prefix](PREFIX) and the unit.
    pub name: &'static str,
    /// As OpenMetrics has it: a base unit, in the plural.
    pub unit: Option<&'static str>,
    pub labels: &'static [&'static str],
    /// In a sentence.
    pub help: &'static str,
    pub values: Values,
}

/// Where the values are from, which is also the metric's type.
#[derive(Debug)]
pub enum Values {
    /// Whether there is anything to tell: all others are left out if not.
    Up,
    Counter(fn(&Report) -> Vec<Sample>),
    Gauge(fn(&Seen) -> Vec<Sample>),
    Histogram(fn(&Report) -> Vec<Distribution>),
    /// Labels whose value is always 1.
    Info(fn(&Report) -> Vec<LabelValues>),
}

/// In the order of the declared labels.
pub type LabelValues = Vec<String>;

#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub labels: LabelValues,
    pub value: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    pub labels: LabelValues,
    pub sum: f64,
    /// The largest value of each bucket, rising, and how many are in it and in no lower one. The last is infinite.
    pub buckets: Vec<(f64, u64)>,
}

impl Metric {
    pub const fn up(name: &'static str, help: &'static str) -> Self {
        Self::new(name, &[], help, Values::Up)
    }

    pub const fn counter(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
        values: fn(&Report) -> Vec<Sample>,
    ) -> Self {
        Self::new(name, labels, help, Values::Counter(values))
    }

    pub const fn gauge(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
        values: fn(&Seen) -> Vec<Sample>,
    ) -> Self {
        Self::new(name, labels, help, Values::Gauge(values))
    }

    pub const fn histogram(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
        values: fn(&Report) -> Vec<Distribution>,
    ) -> Self {
        Self::new(name, labels, help, Values::Histogram(values))
    }

    pub const fn info(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
        values: fn(&Report) -> Vec<LabelValues>,
    ) -> Self {
        Self::new(name, labels, help, Values::Info(values))
    }

    const fn new(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
        values: Values,
    ) -> Self {
        Self {
            name,
            unit: None,
            labels,
            help,
            values,
        }
    }

    pub const fn in_unit(self, unit: &'static str) -> Self {
        Self {
            unit: Some(unit),
            ..self
        }
    }
}

impl Sample {
    pub fn of<const N: usize>(labels: [&str; N], value: f64) -> Self {
        Self {
            labels: labels.map(str::to_owned).into(),
            value,
        }
    }

    /// The only one of a metric without labels.
    pub fn alone(value: f64) -> Vec<Self> {
        vec![Self::of([], value)]
    }
}

impl AsRef<[String]> for Sample {
    fn as_ref(&self) -> &[String] {
        &self.labels
    }
}

impl AsRef<[String]> for Distribution {
    fn as_ref(&self) -> &[String] {
        &self.labels
    }
}
