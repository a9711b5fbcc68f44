//! What one step of a recurrent layer makes of its state.

use serde::{Deserialize, Serialize};

/// Most hidden units of a recurrent layer.
pub const HIDDEN_UNITS_MAX: u32 = 1024;

/// A recurrent layer's cell. Each of its gates has one value for each hidden unit; the gates are in ONNX's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cell {
    /// Gates `z`, `r`, `n`: `h' = (1 - z) n + z h`.
    Gru {
        /// Whether `r` multiplies the state's product, bias included, as in PyTorch; otherwise it multiplies the state.
        resets_product: bool,
    },
    /// Gates `i`, `o`, `f`, `c`: `c' = f c + i tanh(..)`, `h' = o tanh(c')`. The state is `h`, then `c`.
    Lstm,
    /// One gate: `h' = tanh(..)`.
    Tanh,
    /// One gate: `h' = max(.., 0)`.
    Relu,
}

impl Cell {
    pub const ALL: [Self; 5] = [
        Self::Gru {
            resets_product: true,
        },
        Self::Gru {
            resets_product: false,
        },
        Self::Lstm,
        Self::Tanh,
        Self::Relu,
    ];

    #[must_use]
    pub const fn gates(self) -> u32 {
        match self {
            Self::Gru { .. } => 3,
            Self::Lstm => 4,
            Self::Tanh | Self::Relu => 1,
        }
    }

    /// How many values of the state each hidden unit has.
    #[must_use]
    pub const fn values(self) -> u32 {
        match self {
            Self::Lstm => 2,
            _ => 1,
        }
    }

    /// The state after a step, in f64: the reference for devices and kernels. `input` is what the step's input adds to
    /// each gate, `[gate][unit]`; `weights` are `[gate][unit][unit before]`, `bias` `[gate][unit]`.
    #[must_use]
    pub fn step(self, input: &[f64], weights: &[f32], bias: &[f32], state: &[f64]) -> Vec<f64> {
        let hidden = state.len() / self.values() as usize;
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let product = |gate: usize, unit: usize, state: &[f64]| {
            let at = gate * hidden + unit;
            let row = weights[at * hidden..].iter().zip(&state[..hidden]);
            let sum: f64 = row.map(|(&weight, value)| f64::from(weight) * value).sum();
            sum + f64::from(bias[at])
        };
        let gate =
            |gate: usize, unit: usize| input[gate * hidden + unit] + product(gate, unit, state);
        let units = 0..hidden;
        match self {
            Self::Gru { resets_product } => {
                let reset: Vec<f64> = units.clone().map(|unit| sigmoid(gate(1, unit))).collect();
                let kept: Vec<f64> = state.iter().zip(&reset).map(|(h, r)| h * r).collect();
                let next = |unit: usize| {
                    let inner = if resets_product {
                        reset[unit] * product(2, unit, state)
                    } else {
                        product(2, unit, &kept)
                    };
                    let (z, n) = (
                        sigmoid(gate(0, unit)),
                        (input[2 * hidden + unit] + inner).tanh(),
                    );
                    (1.0 - z) * n + z * state[unit]
                };
                units.map(next).collect()
            }
            Self::Lstm => {
                let cell = |unit: usize| {
                    let kept = sigmoid(gate(2, unit)) * state[hidden + unit];
                    kept + sigmoid(gate(0, unit)) * gate(3, unit).tanh()
                };
                let cells: Vec<f64> = units.clone().map(cell).collect();
                let shown = units.map(|unit| sigmoid(gate(1, unit)) * cells[unit].tanh());
                shown.chain(cells.iter().copied()).collect()
            }
            Self::Tanh => units.map(|unit| gate(0, unit).tanh()).collect(),
            Self::Relu => units.map(|unit| gate(0, unit).max(0.0)).collect(),
        }
    }

    /// The states after all steps, `[value][step]`, of planar gates `[gate and unit][step]`.
    #[must_use]
    pub fn run(
        self,
        gates: &[f32],
        weights: &[f32],
        bias: &[f32],
        initial: Option<&[f32]>,
        backwards: bool,
    ) -> Vec<f32> {
        let width = bias.len();
        let steps = gates.len() / width;
        let values = width / self.gates() as usize * self.values() as usize;
        let mut state: Vec<f64> = match initial {
            Some(initial) => initial.iter().copied().map(f64::from).collect(),
            None => vec![0.0; values],
        };
        let mut result = vec![0.0; values * steps];
        for at in 0..steps {
            let step = if backwards { steps - 1 - at } else { at };
            let input: Vec<f64> = (0..width)
                .map(|gate| f64::from(gates[gate * steps + step]))
                .collect();
            state = self.step(&input, weights, bias, &state);
            for (value, row) in state.iter().zip(result.chunks_exact_mut(steps)) {
                row[step] = *value as f32;
            }
        }
        result
    }
}
