//! A node's operands by role, with errors that say which operand is what.

use std::fmt::Write;

use punctual_model::TensorId;

use super::{Lowering, Value};
use crate::fold::{Dim, Dims};
use crate::graph::{Data, Node};
use crate::problem::Problem;

/// A constant tensor of floats.
pub(super) struct Floats {
    pub dims: Vec<usize>,
    pub data: Vec<f32>,
}

impl Lowering<'_> {
    /// The operand at `position`, if it is there.
    pub(super) fn operand(&self, node: &Node, position: usize) -> Option<&Value> {
        let id = node.inputs.get(position).copied().flatten()?;
        Some(self.value(id))
    }

    pub(super) fn required(
        &self,
        node: &Node,
        position: usize,
        what: &'static str,
    ) -> Result<&Value, Problem> {
        self.operand(node, position)
            .ok_or(Problem::MissingInput { position, what })
    }

    /// A tensor as an image.
    pub(super) fn image(&self, node: &Node) -> Result<TensorId, Problem> {
        match self.required(node, 0, "data")? {
            Value::Image(id) => Ok(*id),
            other => Err(self.wrong(0, "data", other, "an image computed from the input")),
        }
    }

    /// A tensor as features.
    pub(super) fn features(&self, node: &Node) -> Result<TensorId, Problem> {
        match self.required(node, 0, "data")? {
            Value::Features(id) => Ok(*id),
            other => Err(self.wrong(0, "data", other, "a vector of features for each image")),
        }
    }

    /// A tensor, however it is seen.
    pub(super) fn tensor(&self, node: &Node) -> Result<TensorId, Problem> {
        match self.required(node, 0, "data")? {
            Value::Image(id) | Value::Features(id) => Ok(*id),
            other => Err(self.wrong(0, "data", other, "a tensor computed from the input")),
        }
    }

    pub(super) fn floats(
        &self,
        node: &Node,
        position: usize,
        what: &'static str,
    ) -> Result<Floats, Problem> {
        let value = self.required(node, position, what)?;
        if let Value::Constant(constant) = value
            && let Data::Floats(data) = &constant.data
        {
            return Ok(Floats {
                dims: constant.dims.clone(),
                data: data.clone(),
            });
        }
        Err(self.wrong(position, what, value, "a float32 constant"))
    }

    pub(super) fn optional_floats(
        &self,
        node: &Node,
        position: usize,
        what: &'static str,
    ) -> Result<Option<Floats>, Problem> {
        match self.operand(node, position) {
            None => Ok(None),
            Some(_) => self.floats(node, position, what).map(Some),
        }
    }

    /// Integers known when compiling.
    pub(super) fn optional_ints(
        &self,
        node: &Node,
        position: usize,
        what: &'static str,
    ) -> Result<Option<Vec<i64>>, Problem> {
        let Some(value) = self.operand(node, position) else {
            return Ok(None);
        };
        let dims = self.dims(node.inputs[position].expect("it is there"), false);
        let known = dims.and_then(|Dims { elements, .. }| {
            let known = elements.into_iter().map(|dim| match dim {
                Dim::Known(value) => Some(value),
                Dim::Batch => None,
            });
            known.collect::<Option<Vec<i64>>>()
        });
        match known {
            Some(values) => Ok(Some(values)),
            None => Err(self.wrong(position, what, value, "constant integers")),
        }
    }

    /// No more operands or results than the operator is supported with.
    pub(super) fn limit(&self, node: &Node, inputs: usize, outputs: usize) -> Result<(), Problem> {
        let present = node
            .outputs
            .iter()
            .rposition(Option::is_some)
            .map_or(0, |last| last + 1);
        for (what, found, limit) in [
            ("inputs", node.inputs.len(), inputs),
            ("outputs", present, outputs),
        ] {
            if found > limit {
                return Err(Problem::TooMany { what, found, limit });
            }
        }
        Ok(())
    }

    pub(super) fn wrong(
        &self,
        position: usize,
        what: &'static str,
        found: &Value,
        expected: &'static str,
    ) -> Problem {
        Problem::Input {
            position,
            what,
            found: self.describe(found),
            expected,
        }
    }

    /// A value in words.
    pub(super) fn describe(&self, value: &Value) -> String {
        let shape = || describe_dims(&self.tensor_dims(value));
        match value {
            Value::Nothing => "a result that is not computed".to_owned(),
            Value::Image(_) => format!("an image {}", shape()),
            Value::Features(_) => format!("a vector of features {}", shape()),
            Value::Softmax(_) => format!("a softmax {}", shape()),
            Value::Constant(constant) => match &constant.data {
                Data::Floats(_) => format!("a float32 constant of shape {:?}", constant.dims),
                Data::Ints(_) => format!("an integer constant of shape {:?}", constant.dims),
                Data::Other(kind) => format!("a constant of ONNX element type {kind}"),
            },
            Value::Dims(dims) => format!("the shape {}", describe_dims(&dims.elements)),
        }
    }
}

/// E.g. `(N, 64, 1, 1)`.
pub(super) fn describe_dims(dims: &[Dim]) -> String {
    let mut text = "(".to_owned();
    for (at, dim) in dims.iter().enumerate() {
        let comma = if at > 0 { ", " } else { "" };
        let written = match dim {
            Dim::Known(value) => write!(text, "{comma}{value}"),
            Dim::Batch => write!(text, "{comma}N"),
        };
        written.expect("writing to a String never fails");
    }
    text.push(')');
    text
}

/// Whether the axes of an image, counted from either end, are its rows and its columns.
pub(super) fn are_rows_and_columns(axes: &[i64]) -> bool {
    let from_start = |&axis: &i64| match axis {
        ..0 => axis.saturating_add(4),
        _ => axis,
    };
    let mut axes: Vec<i64> = axes.iter().map(from_start).collect();
    axes.sort_unstable();
    axes == [2, 3]
}
