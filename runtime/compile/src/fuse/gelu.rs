//! GELU as exporters write it: `x * (1 + erf(x / sqrt 2)) / 2`, its factors in any order.

use std::f32::consts::FRAC_1_SQRT_2;

use punctual_model::{OperatorKind, TensorId, Unary};
use punctual_types::{Activation, UnaryFunction};

use super::Fusion;
use crate::draft::{Affine, Computation, Drafted};

/// Most products that are looked at: those of `x`, the gate and a constant.
const PRODUCTS_MAX: usize = 3;

/// What a product multiplies.
struct Factors {
    constant: f32,
    tensors: Vec<TensorId>,
    /// Positions of the products whose results only other ones of them read.
    inner: Vec<usize>,
}

/// `s * (1 + erf(x / sqrt 2))`.
struct Gate {
    /// Positions of its operators.
    operators: [usize; 3],
    factor: f32,
    channels: u32,
}

impl Fusion {
    /// Makes the operator at `at` a GELU, if it is the last product of one.
    pub(super) fn recognise_gelu(&mut self, at: usize) {
        let mut product = Factors {
            constant: 1.0,
            tensors: Vec::new(),
            inner: Vec::new(),
        };
        self.multiply(at, &mut product);
        let &[left, right] = &product.tensors[..] else {
            return;
        };
        let ways = [(left, right), (right, left)];
        let found = ways
            .into_iter()
            .find_map(|(x, gate)| Some((x, self.gate_of(x, gate)?)));
        let Some((x, gate)) = found.filter(|(_, gate)| gate.factor * product.constant == 0.5)
        else {
            return;
        };
        for gone in product.inner.into_iter().chain(gate.operators) {
            self.operators[gone] = None;
        }
        let gelu = Computation::activation(Activation::Gelu, gate.channels);
        self.replace(at, x, gelu);
        // The gate read it, too.
        self.readers[x.index()] -= 1;
    }

    /// Adds the factors of the operator at `at`, none if it is no product.
    fn multiply(&self, at: usize, product: &mut Factors) {
        let Some(operator) = &self.operators[at] else {
            return;
        };
        let factors = match (self.product(at), operator.affine()) {
            (Some(factors), _) => factors.to_vec(),
            (None, Some(Affine { scale, shift })) if is_all(shift, 0.0) => {
                match scale.first() {
                    Some(&first) if is_all(scale, first) => product.constant *= first,
                    _ => return,
                }
                vec![operator.input]
            }
            _ => return,
        };
        for factor in factors {
            let before = product.tensors.len();
            if let Some(writer) = self.exclusive_writer(factor)
                && product.inner.len() < PRODUCTS_MAX
            {
                product.inner.push(writer);
                self.multiply(writer, product);
                if product.tensors.len() > before {
                    continue;
                }
                product.inner.pop();
            }
            product.tensors.push(factor);
        }
    }

    /// The gate that writes `tensor` from `x`, if nothing else reads what it computes.
    fn gate_of(&self, x: TensorId, tensor: TensorId) -> Option<Gate> {
        let sum = self.exclusive_writer(tensor)?;
        let Affine { scale, shift } = self.operator(sum).affine()?;
        let factor = *scale.first()?;
        let curve = self.exclusive_writer(self.operators[sum].as_ref()?.input)?;
        let function = UnaryFunction::ErrorFunction;
        let is_erf = self.operator(curve).kind == OperatorKind::Unary(Unary { function });
        let root = self.exclusive_writer(self.operators[curve].as_ref()?.input)?;
        let Affine {
            scale: root_scale,
            shift: root_shift,
        } = self.operator(root).affine()?;
        let is_root = root_scale
            .iter()
            .all(|scale| (scale / FRAC_1_SQRT_2 - 1.0).abs() < 1e-6);
        let from_x = self.operators[root].as_ref()?.input == x;
        let is_sum = is_all(scale, factor) && is_all(shift, factor);
        (is_erf && is_root && is_all(root_shift, 0.0) && from_x && is_sum).then_some(Gate {
            operators: [sum, curve, root],
            factor,
            channels: scale.len() as u32,
        })
    }
}

fn is_all(values: &[f32], wanted: f32) -> bool {
    values.iter().all(|&value| value == wanted)
}
