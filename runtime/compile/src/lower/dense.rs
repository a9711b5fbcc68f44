//! Fully connected layers.

use punctual_model::{Linear, Operator};
use punctual_types::Activation;

use super::lowering::Lowering;
use super::value::Value;
use super::view_algebra::BATCH;
use super::vocabulary::{OnnxOperator, family};
use crate::draft::Computation;
use crate::graph::{Attributes, Floats, Node};
use crate::problem::Problem;
use crate::schema::attribute::int;
use crate::write::{Writer, Written, tensor_name};

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "Gemm" => lower gemm() fold reduced::general_product,
    "MatMul" => lower mat_mul() fold reduced::product_of_matrices,
};

impl Lowering<'_> {
    /// `alpha * A * B + beta * C`.
    fn gemm(&mut self, node: &Node) -> Result<(), Problem> {
        self.general_product(node)?;
        let alpha = Attributes::of(node).float("alpha", 1.0)?;
        self.note_steps(node, alpha);
        Ok(())
    }

    fn general_product(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 3, 1)?;
        let mut attributes = Attributes::of(node);
        let (alpha, beta) = (
            attributes.float("alpha", 1.0)?,
            attributes.float("beta", 1.0)?,
        );
        attributes.only("transA", 0, "0")?;
        let transposed = attributes.int("transB", 0)? != 0;
        attributes.finish()?;
        let (mut weights, outputs) = self.matrix(node, transposed)?;
        weights.iter_mut().for_each(|weight| *weight *= alpha);
        let mut bias = match self.optional_floats(node, 2, "bias")? {
            None => vec![0.0; outputs],
            Some(Floats { dims, data }) => match dims[..] {
                [] | [1] | [1, 1] => vec![data[0]; outputs],
                [count] | [1, count] if count == outputs => data,
                _ => {
                    let found = self.required(node, 2, "bias")?;
                    return Err(self.wrong(2, "bias", found, "one value an output"));
                }
            },
        };
        bias.iter_mut().for_each(|bias| *bias *= beta);
        self.linear(node, weights, bias)
    }

    /// By a matrix that is known, or of two that are computed.
    fn mat_mul(&mut self, node: &Node) -> Result<(), Problem> {
        if !self.is_dense(node) {
            return self.product(node);
        }
        self.dense_mat_mul(node)?;
        self.note_steps(node, 1.0);
        Ok(())
    }

    fn dense_mat_mul(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 2, 1)?;
        Attributes::of(node).finish()?;
        self.gather_windows(node)?;
        let (weights, outputs) = self.matrix(node, false)?;
        self.linear(node, weights, vec![0.0; outputs])?;
        if self.floats(node, 1, "weights")?.dims.len() == 1 {
            self.drop_last_dimension(node);
        }
        Ok(())
    }

    /// A vector is multiplied as a matrix of one column, which the result does not keep.
    fn drop_last_dimension(&mut self, node: &Node) {
        if let Some(Some(id)) = node.outputs.first()
            && let Value::View(view) = &mut self.values[id.0]
        {
            view.dims.pop();
        }
    }

    /// Brings tokens into the order of their windows before a layer that makes query, key and value of them: an
    /// attention would move all three.
    fn gather_windows(&mut self, node: &Node) -> Result<(), Problem> {
        let (Some(Value::View(view)), Some(Value::Constant(weights))) =
            (self.operand(node, 0), self.operand(node, 1))
        else {
            return Ok(());
        };
        let makes_three = matches!(weights.dims[..], [inputs, outputs] if outputs == 3 * inputs);
        let outer = view.dims.iter().rev().skip(2).flatten();
        let has_windows = outer.copied().any(|digit| digit != BATCH);
        if !makes_three || !has_windows || !self.are_tokens(view) {
            return Ok(());
        }
        let view = view.clone();
        let copy = self.copied_as_tokens(node, &view)?;
        self.replace(node, 0, &copy);
        Ok(())
    }

    /// The second operand as `[output][input]` with its number of outputs. `transposed`: it lies so in the file.
    fn matrix(&mut self, node: &Node, transposed: bool) -> Result<(Vec<f32>, usize), Problem> {
        let inputs = match self.tokens_of(node)? {
            Some(view) => u64::from(self.shape(view.tensor).channels),
            None => {
                let input = self.features(node)?;
                self.shape(input).elements()
            }
        };
        let Floats { dims, data } = self.floats(node, 1, "weights")?;
        let (outputs, found) = match dims[..] {
            [outputs, inputs] if transposed => (outputs, inputs),
            [inputs, outputs] if !transposed => (outputs, inputs),
            [inputs] if node.operator == "MatMul" => (1, inputs),
            _ => (0, 0),
        };
        if found as u64 != inputs || outputs == 0 {
            let value = self.required(node, 1, "weights")?;
            let expected = "a matrix of (features, outputs), or the reverse with transB";
            return Err(self.wrong(1, "weights", value, expected));
        }
        if transposed {
            return Ok((data, outputs));
        }
        let column = |output: usize| data.iter().skip(output).step_by(outputs).copied();
        Ok(((0..outputs).flat_map(column).collect(), outputs))
    }

    fn linear(&mut self, node: &Node, weights: Vec<f32>, bias: Vec<f32>) -> Result<(), Problem> {
        if let Some(view) = self.tokens_of(node)? {
            return self.each_token(node, &view, weights, bias);
        }
        let input = self.features(node)?;
        let activation = Activation::None;
        let linear = Computation::new(Linear { activation }, [weights, bias]);
        let output = self.emit(node, linear, input, &[])?;
        self.set_features(node, output)
    }
}

impl Written for Linear {
    /// A matrix product, with the shape of an image of one pixel.
    fn write(&self, writer: &mut Writer<'_>, operator: &Operator) -> bool {
        let &[weights, bias] = &operator.weights[..] else {
            unreachable!("a fully connected layer has weights and biases")
        };
        let features = i64::from(bias.len);
        let inputs = i64::from(weights.len) / features;
        let weights = writer.weights(weights, &[features, inputs]);
        let bias = writer.weights(bias, &[features]);
        let input = tensor_name(operator.input);
        let flat = writer.node("Flatten", &[&input], vec![int("axis", 1)]);
        let product = writer.node("Gemm", &[&flat, &weights, &bias], vec![int("transB", 1)]);
        let axes = writer.integers(&[2, 3]);
        let sum = writer.node("Unsqueeze", &[&product, &axes], Vec::new());
        writer.activate(self.activation, &sum, operator.output)
    }
}
