//! Operators by kind: where a network's work lies.

use std::collections::BTreeMap;
use std::fmt;

use punctual_model::Network;
use punctual_report::Table;
use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KindReport {
    /// E.g. `convolution 3x3`.
    pub kind: String,
    pub operators: usize,
    /// Their multiply-accumulates for one image.
    pub multiplications: u64,
}

pub(super) fn count(network: &Network) -> Vec<KindReport> {
    let mut found: BTreeMap<String, (usize, u64)> = BTreeMap::new();
    for operator in network.stages.iter().flat_map(|stage| &stage.operators) {
        let mut kind = network.label(operator);
        if network.quantisation(operator.input).is_some() {
            kind.push_str(", int8");
        }
        let (operators, multiplications) = found.entry(kind).or_default();
        *operators += 1;
        *multiplications += network.multiplications_of(operator);
    }
    let report = |(kind, (operators, multiplications))| KindReport {
        kind,
        operators,
        multiplications,
    };
    let mut kinds: Vec<KindReport> = found.into_iter().map(report).collect();
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.multiplications));
    kinds
}

pub(super) fn table(kinds: &[KindReport], total: u64) -> Table {
    let mut table = Table::new(&["kind", "operators", "MACs", "share"], 1);
    for kind in kinds {
        table.row([
            kind.kind.clone(),
            kind.operators.to_string(),
            Metric(kind.multiplications).to_string(),
            share(kind.multiplications, total),
        ]);
    }
    table
}

/// Of all multiply-accumulates.
pub(super) fn share(multiplications: u64, total: u64) -> String {
    let share = 100.0 * multiplications as f64 / total.max(1) as f64;
    format!("{share:.0} %")
}

/// A count with three digits and a unit prefix.
pub(super) struct Metric(pub u64);

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n < 1_000 => write!(f, "{n}"),
            n if n < 1_000_000 => write!(f, "{:.1} k", n as f64 / 1e3),
            n if n < 1_000_000_000 => write!(f, "{:.1} M", n as f64 / 1e6),
            n => write!(f, "{:.1} G", n as f64 / 1e9),
        }
    }
}
