//! Operators with what was before or after them taken in, as onnxruntime's optimiser writes them, and activations of
//! newer versions of ONNX.

use super::Row;
use crate::graph::{Attribute, Node, ValueId};
use crate::lower::lowering::Lowering;
use crate::lower::vocabulary::{OnnxOperator, family};
use crate::problem::Problem;

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "SimplifiedLayerNormalization" => compose layer_normalised(Shift::None),
    "SwiGLU" => compose gated(),
    "Swish" => compose swish(1.0),
};

pub(super) const OPERATORS_OF_MICROSOFT: &[OnnxOperator] = family! {
    "BiasGelu" => compose biased_gelu("none"),
    "FastGelu" => compose biased_gelu("tanh"),
    "FusedConv" => compose fused_conv(),
    "FusedGemm" => compose fused_gemm(),
    "FusedMatMul" => compose fused_mat_mul(),
    "Gelu" => compose biased_gelu("none"),
    "LayerNormalization" => compose layer_normalised(Shift::Operand),
    "QuickGelu" => compose swish(1.702),
    "SimplifiedLayerNormalization" => compose layer_normalised(Shift::None),
    "SkipLayerNormalization" => compose skipping(Shift::Operand),
    "SkipSimplifiedLayerNormalization" => compose skipping(Shift::None),
};

/// Whether a normalisation subtracts the mean and has an operand that is added in the end.
#[derive(Clone, Copy)]
enum Shift {
    Operand,
    None,
}

impl Lowering<'_> {
    fn biased_gelu(&mut self, node: &Node, approximate: &str) -> Result<(), Problem> {
        let mut row = self.row(node, 2, 1)?;
        row.attributes().finish()?;
        let mut data = row.operand(0, "data")?;
        if let Some(bias) = row.optional(1) {
            data = row.of("Add", &[data, bias])?;
        }
        let approximate = Attribute::Text(approximate.to_owned());
        let result = row.with("Gelu", &[data], [("approximate", approximate)])?;
        row.give(0, result);
        Ok(())
    }

    fn swish(&mut self, node: &Node, alpha: f32) -> Result<(), Problem> {
        let mut row = self.row(node, 1, 1)?;
        let result = row.swish_of(alpha)?;
        row.give(0, result);
        Ok(())
    }

    fn gated(&mut self, node: &Node) -> Result<(), Problem> {
        let mut row = self.row(node, 2, 1)?;
        let linear = row.operand(1, "linear")?;
        let gate = row.swish_of(1.0)?;
        let result = row.of("Mul", &[gate, linear])?;
        row.give(0, result);
        Ok(())
    }

    fn layer_normalised(&mut self, node: &Node, shift: Shift) -> Result<(), Problem> {
        let mut row = self.row(node, 3, 1)?;
        let mut attributes = row.attributes();
        let axis = attributes.int("axis", -1)?;
        let epsilon = attributes.float("epsilon", 1e-5)?;
        attributes.ignore("stash_type"); // f32 throughout.
        attributes.finish()?;
        let data = row.operand(0, "data")?;
        let shift = match shift {
            Shift::Operand => Some(row.optional(2)),
            Shift::None => None,
        };
        let result = row.normal(data, shift, epsilon, axis, 1)?;
        row.give(0, result);
        Ok(())
    }

    /// A normalisation of a sum of two or three.
    fn skipping(&mut self, node: &Node, shift: Shift) -> Result<(), Problem> {
        let mut row = self.row(node, 5, 4)?;
        let mut attributes = row.attributes();
        let epsilon = attributes.float("epsilon", 1e-12)?;
        attributes.finish()?;
        if node.outputs.iter().skip(1).take(2).any(Option::is_some) {
            let (what, limit) = ("outputs but for the first and the fourth", 0);
            return Err(Problem::TooMany {
                what,
                found: 1,
                limit,
            });
        }
        let (shift, bias) = match shift {
            Shift::Operand => (Some(row.optional(3)), row.optional(4)),
            Shift::None => (None, row.optional(3)),
        };
        let mut sum = [row.operand(0, "data")?, row.operand(1, "skip")?];
        if let Some(bias) = bias {
            sum[0] = row.of("Add", &[sum[0], bias])?;
        }
        let sum = row.of("Add", &sum)?;
        let result = row.normal(sum, shift, epsilon, -1, 2)?;
        row.give(0, result);
        row.give(3, sum);
        Ok(())
    }

    fn fused_mat_mul(&mut self, node: &Node) -> Result<(), Problem> {
        let mut row = self.row(node, 2, 1)?;
        let mut attributes = row.attributes();
        let alpha = attributes.float("alpha", 1.0)?;
        let mut operands = [row.operand(0, "first")?, row.operand(1, "second")?];
        for (position, [rows, batch]) in [["transA", "transBatchA"], ["transB", "transBatchB"]]
            .into_iter()
            .enumerate()
        {
            let rank = row.sizes(position, "matrix")?.len();
            let mut order: Vec<i64> = (0..rank as i64).collect();
            if attributes.int(batch, 0)? != 0 && rank > 2 {
                // The rows lie before the batch.
                order[..rank - 1].rotate_left(1);
            }
            if attributes.int(rows, 0)? != 0 && rank > 1 {
                order.swap(rank - 2, rank - 1);
            }
            if !order.is_sorted() {
                operands[position] = row.transpose(operands[position], &order)?;
            }
        }
        attributes.finish()?;
        let product = row.of("MatMul", &operands)?;
        let result = row.times(product, alpha)?;
        row.give(0, result);
        Ok(())
    }

    fn fused_gemm(&mut self, node: &Node) -> Result<(), Problem> {
        let row = self.row(node, 3, 1)?;
        let operands = row.node.inputs.clone();
        let parameters = ["activation_alpha", "activation_beta", "activation_gamma"];
        row.activated("Gemm", operands, None, &parameters)
    }

    fn fused_conv(&mut self, node: &Node) -> Result<(), Problem> {
        let row = self.row(node, 4, 1)?;
        let operands = row.node.inputs.iter().copied().take(3).collect();
        let addend = row.optional(3);
        row.activated("Conv", operands, addend, &["activation_params"])
    }
}

impl Row<'_, '_, '_> {
    /// `x sigmoid(alpha x)` of the first operand.
    fn swish_of(&mut self, alpha: f32) -> Result<ValueId, Problem> {
        let mut attributes = self.attributes();
        let alpha = attributes.float("alpha", alpha)?;
        attributes.finish()?;
        let data = self.operand(0, "data")?;
        let steep = self.times(data, alpha)?;
        let share = self.of("Sigmoid", &[steep])?;
        self.of("Mul", &[data, share])
    }

    /// A layer normalisation, or one by the root of the mean square where there is no shift at all.
    fn normal(
        &mut self,
        data: ValueId,
        shift: Option<Option<ValueId>>,
        epsilon: f32,
        axis: i64,
        scale: usize,
    ) -> Result<ValueId, Problem> {
        let scale = self.operand(scale, "scale")?;
        let attributes = [
            ("epsilon", Attribute::Float(epsilon)),
            ("axis", Attribute::Int(axis)),
        ];
        let Some(shift) = shift else {
            return self.with("RMSNormalization", &[data, scale], attributes);
        };
        let operands = [Some(data), Some(scale), shift];
        let operands: Vec<ValueId> = operands.into_iter().flatten().collect();
        self.with("LayerNormalization", &operands, attributes)
    }

    /// An operator with the node's attributes but for its activation, which comes after it and an addend.
    fn activated(
        mut self,
        operator: &str,
        inputs: Vec<Option<ValueId>>,
        addend: Option<ValueId>,
        parameters: &[&str],
    ) -> Result<(), Problem> {
        let mut attributes = self.node.attributes.clone();
        let activation = attributes.remove("activation");
        let parameters = parameters
            .iter()
            .filter_map(|name| attributes.remove(*name));
        let parameters: Vec<f32> = parameters.flat_map(numbers).collect();
        let mut result = self.lowering.temporary(crate::lower::Value::Nothing);
        self.lower(Node {
            operator: operator.to_owned(),
            inputs,
            outputs: vec![Some(result)],
            attributes,
            ..Node::of_exit(&self.node.name)
        })?;
        if let Some(addend) = addend {
            result = self.of("Add", &[result, addend])?;
        }
        if let Some(activation) = activation {
            result = self.activation(result, &activation, &parameters)?;
        }
        self.give(0, result);
        Ok(())
    }

    fn activation(
        &mut self,
        value: ValueId,
        activation: &Attribute,
        parameters: &[f32],
    ) -> Result<ValueId, Problem> {
        let name = match activation {
            Attribute::Text(name) => name.as_str(),
            _ => "",
        };
        let number = |(name, value): (&'static str, &f32)| (name, Attribute::Float(*value));
        match name {
            "Relu" | "Sigmoid" | "Softplus" | "Softsign" | "Tanh" => self.of(name, &[value]),
            "Elu" | "HardSigmoid" | "LeakyRelu" | "Selu" | "ThresholdedRelu" => {
                let second = if name == "Selu" { "gamma" } else { "beta" };
                let names = ["alpha", second].into_iter();
                self.with(name, &[value], names.zip(parameters).map(number))
            }
            "Clip" if parameters.len() == 2 => {
                let bounds = [self.number(parameters[0]), self.number(parameters[1])];
                self.of(name, &[value, bounds[0], bounds[1]])
            }
            _ => {
                let supported = "Clip, Elu, HardSigmoid, LeakyRelu, Relu, Selu, Sigmoid, Softplus, Softsign, Tanh or \
                                 ThresholdedRelu";
                Err(Problem::attribute("activation", activation, supported))
            }
        }
    }
}

fn numbers(attribute: Attribute) -> Vec<f32> {
    match attribute {
        Attribute::Float(value) => vec![value],
        Attribute::Floats(values) => values,
        _ => Vec::new(),
    }
}
