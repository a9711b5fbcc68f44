//! Operators by kind: where a network's work lies.

use std::collections::BTreeMap;

use punctual_model::{Network, Operator, OperatorKind, TensorId};
use punctual_report::Table;
use punctual_types::{Extent, Filter, PoolKind};
use serde::Serialize;

use super::{Metric, share};

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KindReport {
    /// E.g. `convolution 3x3`.
    pub kind: String,
    pub operators: usize,
    /// Their multiply-accumulates for one image.
    pub multiplications: u64,
}

pub(super) fn count(network: &Network) -> Vec<KindReport> {
    let shape = |id: TensorId| network.tensors[id.index()];
    let mut found: BTreeMap<String, (usize, u64)> = BTreeMap::new();
    for operator in network.stages.iter().flat_map(|stage| &stage.operators) {
        let (input, output) = (shape(operator.input), shape(operator.output));
        let mut kind = kind(operator, input.channels);
        if network.quantisation(operator.input).is_some() {
            kind.push_str(", int8");
        }
        let (operators, multiplications) = found.entry(kind).or_default();
        *operators += 1;
        *multiplications += operator.kind.multiplications(input, output);
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

fn kind(operator: &Operator, channels: u32) -> String {
    let name = match &operator.kind {
        OperatorKind::Conv2d { window, groups, .. }
        | OperatorKind::QuantisedConv2d { window, groups, .. } => {
            let form = match *groups {
                1 => "convolution",
                groups if groups == channels => "depthwise convolution",
                _ => "grouped convolution",
            };
            let Extent { height, width } = window.kernel;
            let apart = if window.is_dilated() { "dilated " } else { "" };
            return format!("{apart}{form} {height}x{width}");
        }
        OperatorKind::Pool { kind, kernel, .. } => {
            let form = match kind {
                PoolKind::Max => "max pool",
                PoolKind::Average { .. } => "average pool",
            };
            return format!("{form} {}x{}", kernel.height, kernel.width);
        }
        OperatorKind::GlobalAveragePool => "global average pool",
        OperatorKind::Linear { .. } => "linear",
        OperatorKind::Add { .. } => "add",
        OperatorKind::Multiply { .. } => "multiply",
        OperatorKind::Gather { .. } => "gather channels",
        OperatorKind::Convert => "convert",
        OperatorKind::LayerNorm { .. } => "layer norm",
        OperatorKind::Attention { .. } => "attention",
        OperatorKind::Product { .. } => "product of matrices",
        OperatorKind::Embedding { .. } => "embedding",
        OperatorKind::Tokens { .. } => "tokens",
        OperatorKind::Token { .. } => "one token",
        OperatorKind::Recurrent { .. } => "recurrent layer",
        OperatorKind::Copy { .. } => "copy",
        OperatorKind::Binary { .. } => "arithmetic",
        OperatorKind::Unary { .. } => "function of each value",
        OperatorKind::Softmax { .. } => "softmax",
        OperatorKind::Resize { resampling } => match resampling.filter {
            Filter::Nearest(_) => "nearest resize",
            Filter::Linear => "linear resize",
        },
        OperatorKind::GridSample { .. } => "grid sample",
        OperatorKind::TopK { .. } => "top k",
        OperatorKind::Take { .. } => "values at computed positions",
        OperatorKind::BestScore { .. } => "best score",
        OperatorKind::Detections { .. } => "detections",
    };
    name.to_owned()
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
