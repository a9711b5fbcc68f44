//! Concat of tensors along their channels.

use std::collections::BTreeMap;

use punctual_model::{ChannelRun, Tensor, TensorId};

use super::views::position;
use super::{Lowering, Value};
use crate::draft::DraftKind;
use crate::graph::{Attribute, Attributes, Node};
use crate::problem::Problem;

/// Most operands: a run names its source by a byte. Devices take fewer; [`gather`](crate::gather) sees to that.
const OPERANDS_MAX: usize = 255;

impl Lowering<'_> {
    pub(super) fn concat(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, OPERANDS_MAX, 1)?;
        let mut attributes = Attributes::of(node);
        let axis = attributes.int("axis", 1)?;
        attributes.finish()?;
        let rank = self.view(node, 0)?.dims.len();
        if position("axis", axis, rank)? != 1 {
            let found = Attribute::Int(axis);
            return Err(Problem::attribute("axis", &found, "1, the channels"));
        }
        let mut sources: Vec<TensorId> = Vec::new();
        let mut places: BTreeMap<TensorId, u8> = BTreeMap::new();
        let mut runs = Vec::new();
        for operand in 0..node.inputs.len() {
            let view = self.view(node, operand)?;
            let shape = self.shape(view.tensor);
            let same = |first: &TensorId| pixels(self.shape(*first)) == pixels(shape);
            let channels = view.channel_runs(shape).filter(|_| view.dims.len() == rank);
            let (Some(channels), true) = (channels, sources.first().is_none_or(same)) else {
                let value = Value::View(view.clone());
                let expected = "channels of a tensor of the same rows and columns as the first";
                return Err(self.wrong(operand, "data", &value, expected));
            };
            let source = *places.entry(view.tensor).or_insert(sources.len() as u8);
            if usize::from(source) == sources.len() {
                sources.push(view.tensor);
            }
            runs.extend(channels.into_iter().map(|run| ChannelRun {
                source,
                first: run.start,
                count: run.end - run.start,
            }));
        }
        let channels = runs
            .iter()
            .fold(0, |sum: u32, run| sum.saturating_add(run.count));
        let shape = Tensor {
            channels,
            ..self.shape(sources[0])
        };
        let kind = DraftKind::Gather { runs };
        let output = self.emit(node, kind, sources[0], &sources[1..], shape)?;
        if rank == 2 {
            self.set_features(node, output)
        } else {
            self.set_image(node, output)
        }
    }
}

fn pixels(shape: Tensor) -> (u32, u32) {
    (shape.height, shape.width)
}
