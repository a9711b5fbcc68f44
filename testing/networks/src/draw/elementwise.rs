//! Functions of each value, of two, and choices.

use punctual_compile::schema::attribute::{float, int};
use punctual_compile::schema::data_type;

use super::{Drawing, Id};

/// Functions that stay finite wherever their operand is, each with the first operator set that has it.
const UNARY: &[(&str, i64)] = &[
    ("Relu", 1),
    ("Relu", 1),
    ("Sigmoid", 1),
    ("Tanh", 1),
    ("Sin", 7),
    ("Cos", 7),
    ("Neg", 1),
    ("Abs", 1),
    ("Erf", 9),
    ("Atan", 7),
    ("Asinh", 9),
    ("LeakyRelu", 1),
    ("Elu", 1),
    ("Selu", 1),
    ("Celu", 12),
    ("HardSigmoid", 1),
    ("HardSwish", 14),
    ("Softplus", 1),
    ("Softsign", 1),
    ("Mish", 18),
    ("Gelu", 20),
    ("ThresholdedRelu", 10),
    ("Sign", 9),
    ("Floor", 1),
    ("Ceil", 1),
    ("Round", 11),
];

/// Functions of what lies between -1 and 1.
const BOUNDED: &[&str] = &[
    "Exp", "Tan", "Asin", "Acos", "Sinh", "Cosh", "Acosh", "Atanh",
];
/// Functions of what is positive.
const POSITIVE: &[&str] = &["Sqrt", "Log", "Reciprocal"];

impl Drawing {
    pub(super) fn unary(&mut self) -> Option<()> {
        let from = self.any()?;
        let of = self.unary_of(from);
        if self.random.one_in(6) {
            self.apply_to(of, "Sigmoid");
            let bounded = self.values.len() - 1;
            let operator = if self.random.one_in(2) {
                self.one_of(BOUNDED)
            } else {
                self.one_of(POSITIVE)
            };
            match operator {
                // From one on.
                "Acosh" => {
                    let cosh = self.apply_to(bounded, "Cosh");
                    self.apply_to(cosh, operator);
                }
                // Below one.
                "Atanh" => {
                    let sine = self.apply_to(bounded, "Sin");
                    self.apply_to(sine, operator);
                }
                _ => {
                    self.apply_to(bounded, operator);
                }
            }
        }
        Some(())
    }

    pub(super) fn apply_to(&mut self, from: Id, operator: &str) -> Id {
        let dims = self.dims(from);
        let name = self.read(from);
        self.apply(operator, &[&name], vec![], dims)
    }

    pub(super) fn unary_of(&mut self, from: Id) -> Id {
        let known: Vec<&str> = UNARY
            .iter()
            .filter(|(_, since)| *since <= self.opset)
            .map(|(name, _)| *name)
            .collect();
        let operator = self.one_of(&known);
        self.apply_to(from, operator)
    }

    /// Functions one after the other, each of which could take the place of its operand.
    pub(super) fn chain(&mut self) -> Option<()> {
        let mut at = self.any()?;
        for _ in 0..self.random.within(2, 5) {
            at = match self.random.below(4) {
                0 => self.times_constant(at),
                _ => self.unary_of(at),
            };
        }
        Some(())
    }

    /// Two values of the same dimensions.
    pub(super) fn residual(&mut self) -> Option<()> {
        let first = self.any()?;
        let second = self.same_as(first);
        self.binary_of(first, second);
        Some(())
    }

    fn binary_of(&mut self, first: Id, second: Id) -> Id {
        let dims = broadcast(&self.dims(first), &self.dims(second));
        let all = [
            "Add", "Add", "Add", "Mul", "Mul", "Sub", "Sub", "Min", "Max",
        ];
        let operator = self.one_of(&all);
        let (first, second) = if self.random.one_in(2) {
            (first, second)
        } else {
            (second, first)
        };
        let names = [self.read(first), self.read(second)];
        self.apply(operator, &[&names[0], &names[1]], vec![], dims)
    }

    pub(super) fn with_constant(&mut self) -> Option<()> {
        let from = self.any()?;
        self.times_constant(from);
        Some(())
    }

    /// A constant of one value, one a channel, one a column, or of all.
    fn times_constant(&mut self, from: Id) -> Id {
        let dims = self.dims(from);
        let shape = match self.random.below(4) {
            0 => vec![1],
            1 => [vec![dims[0]], vec![1; dims.len() - 1]].concat(),
            2 => dims[dims.len() - 1..].to_vec(),
            _ => dims.clone(),
        };
        let operator = self.one_of(&["Add", "Mul", "Mul", "Sub", "Div"]);
        let constant = self.gains(&shape);
        let name = self.read(from);
        let inputs = if operator != "Div" && self.random.one_in(3) {
            [constant, name]
        } else {
            [name, constant]
        };
        self.apply(operator, &[&inputs[0], &inputs[1]], vec![], dims)
    }

    /// Two values of which one is repeated, or both are.
    pub(super) fn broadcast(&mut self) -> Option<()> {
        let first = self.any()?;
        let dims = self.dims(first);
        let second = self.pick(|value| {
            let sides = std::iter::zip(&value.dims, &dims);
            value.dims.len() == dims.len()
                && value.dims != dims
                && sides.clone().all(|(a, b)| a == b || *a == 1 || *b == 1)
        });
        let second = match second {
            Some(second) => second,
            None => self.one_per_channel(first)?,
        };
        self.binary_of(first, second);
        Some(())
    }

    /// The mean of each channel, as a gate of squeeze and excitation has it.
    fn one_per_channel(&mut self, from: Id) -> Option<Id> {
        let dims = self.dims(from);
        if dims.len() != 3 {
            return None;
        }
        let name = self.read(from);
        let to = vec![dims[0], 1, 1];
        let mean = self.apply("GlobalAveragePool", &[&name], vec![], to);
        let gate = if self.random.one_in(2) {
            self.pointwise(mean, dims[0])?
        } else {
            mean
        };
        Some(self.apply_to(gate, "Sigmoid"))
    }

    /// Compares two values and takes one or another where it holds.
    pub(super) fn choice(&mut self) -> Option<()> {
        let first = self.any()?;
        let dims = self.dims(first);
        let second = self.same_as(first);
        let names = [self.read(first), self.read(second)];
        let comparisons = ["Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal"];
        let comparison = self.one_of(&comparisons);
        let mut truth = self
            .node(comparison, &[&names[0], &names[1]], 1, vec![])
            .remove(0);
        truth = match self.random.below(6) {
            0 => self.node("Not", &[&truth], 1, vec![]).remove(0),
            1 => {
                let is_odd = self.one_of(&["IsNaN", "IsInf"]);
                let odd = self.node(is_odd, &[&names[0]], 1, vec![]).remove(0);
                let both = self.one_of(&["And", "Or", "Xor"]);
                self.node(both, &[&odd, &truth], 1, vec![]).remove(0)
            }
            _ => truth,
        };
        if self.random.one_in(3) {
            let to = vec![int("to", i64::from(data_type::FLOAT))];
            self.apply("Cast", &[&truth], to, dims);
            return Some(());
        }
        let others = [self.same_as(first), self.same_as(first)];
        let others = others.map(|other| self.read(other));
        self.apply(
            "Where",
            &[&truth, &others[0], &others[1]],
            vec![],
            dims.clone(),
        );
        if self.random.one_in(3) {
            let id = self.value(truth, dims);
            self.values[id].element = data_type::BOOL;
        }
        Some(())
    }

    /// Remainders and powers, of which one operand is a constant.
    pub(super) fn arithmetic(&mut self) -> Option<()> {
        let from = self.any()?;
        let dims = self.dims(from);
        let name = self.read(from);
        match self.random.below(4) {
            0 => {
                let divisor = self.floats(&[], &[0.75]);
                self.apply("Mod", &[&name, &divisor], vec![int("fmod", 1)], dims);
            }
            1 => {
                let power = self.one_of(&[2.0, 3.0]);
                let power = self.floats(&[], &[power]);
                self.apply("Pow", &[&name, &power], vec![], dims);
            }
            2 => {
                // A positive base, and a power of many values.
                let base = self.apply_to(from, "Softplus");
                let base = self.read(base);
                let powers = self.gains(&dims[dims.len() - 1..]);
                self.apply("Pow", &[&base, &powers], vec![], dims);
            }
            _ => {
                let operator = self.one_of(&["Dropout", "CastLike"]);
                let like = self.floats(&[], &[0.5]);
                let inputs = match operator {
                    "CastLike" if self.opset >= 15 => vec![name.as_str(), &like],
                    _ => vec![name.as_str()],
                };
                let operator = if inputs.len() > 1 {
                    operator
                } else {
                    "Dropout"
                };
                self.apply(operator, &inputs, vec![], dims);
            }
        }
        Some(())
    }

    pub(super) fn variadic(&mut self) -> Option<()> {
        let first = self.any()?;
        let dims = self.dims(first);
        let mut names = vec![self.read(first)];
        for _ in 0..self.random.within(1, 3) {
            let other = self.same_as(first);
            names.push(self.read(other));
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let operator = self.one_of(&["Sum", "Max", "Min", "Mean"]);
        self.apply(operator, &names, vec![], dims);
        Some(())
    }

    pub(super) fn clip(&mut self) -> Option<()> {
        let from = self.any()?;
        let dims = self.dims(from);
        let bounds = [(0.0, 6.0), (-1.0, 1.0), (0.0, 1.0)];
        let (low, high) = self.one_of(&bounds);
        let bounds = [low, high].map(|bound: f32| self.floats(&[], &[bound]));
        let name = self.read(from);
        self.apply("Clip", &[&name, &bounds[0], &bounds[1]], vec![], dims);
        Some(())
    }

    pub(super) fn p_relu(&mut self) -> Option<()> {
        let from = self.pick(|value| value.dims.len() == 3)?;
        let dims = self.dims(from);
        let slopes = if self.random.one_in(2) {
            self.weights(&[dims[0], 1, 1], 0.5)
        } else {
            let slope = vec![float("alpha", 0.25)];
            let name = self.read(from);
            self.apply("LeakyRelu", &[&name], slope, dims);
            return Some(());
        };
        let name = self.read(from);
        self.apply("PRelu", &[&name, &slopes], vec![], dims);
        Some(())
    }
}

/// The dimensions of what two tensors of as many dimensions give together.
fn broadcast(first: &[i64], second: &[i64]) -> Vec<i64> {
    let sides = std::iter::zip(first, second);
    sides.map(|(a, b)| *a.max(b)).collect()
}
