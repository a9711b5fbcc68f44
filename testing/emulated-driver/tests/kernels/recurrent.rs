//! Recurrent layers, in one launch and in several.
use crate::buffer::Buffer;
use crate::error;
use crate::launch::launch;
use crate::tensor::{Tensor, halves, pitch, shape};
use punctual_cuda_kernels::params::{CellCode, Kept, Recurrent};
use punctual_cuda_kernels::{Arguments, padded};
use punctual_types::{Cell, HIDDEN_UNITS_MAX, Random, half};

const IMAGES: usize = 2;

struct Layer {
    cell: Cell,
    hidden: usize,
    steps: usize,
    backwards: bool,
    /// Where the state before the first step comes from.
    initial: Option<Kept>,
    gates: Tensor,
    inputs: Vec<Vec<f32>>,
    weights: Vec<f32>,
    bias: Vec<f32>,
    states: Vec<Vec<f32>>,
}

impl Layer {
    fn new(
        cell: Cell,
        hidden: usize,
        steps: usize,
        initial: Option<Kept>,
        backwards: bool,
    ) -> Self {
        let mut random = Random::new(41);
        let [of_gates, values] = [cell.gates(), cell.values()].map(|n| n as usize * hidden);
        let (gates, inputs) = Tensor::random(shape(of_gates, 1, steps), IMAGES, &mut random);
        let size = 1.0 / (hidden as f32).sqrt();
        Self {
            cell,
            hidden,
            steps,
            backwards,
            initial,
            gates,
            inputs,
            weights: halves(&mut random, of_gates * hidden, size),
            bias: halves(&mut random, of_gates, 1.0),
            states: (0..IMAGES)
                .map(|_| halves(&mut random, values, 1.0))
                .collect(),
        }
    }

    /// `[gate][unit][padded unit before]`.
    fn packed(&self) -> Buffer {
        let padding = padded(self.hidden as u32) as usize - self.hidden;
        let rows = self.weights.chunks(self.hidden);
        let halves = rows.flat_map(|row| {
            let row = row.iter().map(|&weight| half::from_f32(weight));
            row.chain(std::iter::repeat_n(0, padding))
        });
        Buffer::of_halves(&halves.collect::<Vec<u16>>())
    }

    /// The states of all images, by launches of at most `most` steps.
    fn run(&mut self, most: usize) -> Vec<Vec<f32>> {
        let of_output = shape(self.hidden * self.cell.values() as usize, 1, self.steps);
        let of_state = shape(of_output.channels, 1, 1);
        let (mut weights, mut bias) = (self.packed(), Buffer::of_f32(&self.bias));
        let mut output = Tensor::unwritten(of_output, IMAGES);
        let states = self.states.iter();
        let mut state = match self.initial {
            Some(Kept::Floats) => {
                let padding = pitch(of_state) - of_state.channels;
                let nothing = || std::iter::repeat_n(f32::NAN, padding);
                let all = states.flat_map(|state| state.iter().copied().chain(nothing()));
                Buffer::of_f32(&all.collect::<Vec<f32>>())
            }
            _ => Tensor::of(of_state, &self.states).buffer,
        };
        let mut kept = self.initial;
        for first in (0..self.steps).step_by(most) {
            let mut carried = Buffer::of_bytes(IMAGES * pitch(of_state) * 4);
            launch(
                "recurrent",
                Arguments::Recurrent(Recurrent {
                    gates: self.gates.view(),
                    output: output.view(),
                    weights: weights.address(),
                    bias: bias.address(),
                    state: kept.map_or(0, |_| state.address()),
                    carried: carried.address(),
                    images: IMAGES as u32,
                    cell: CellCode::from(self.cell) as u32,
                    hidden: self.hidden as u32,
                    lanes: self.hidden.div_ceil(8).next_power_of_two().min(32) as u32,
                    first_step: first as u32,
                    steps: most.min(self.steps - first) as u32,
                    backwards: u32::from(self.backwards),
                    kept: kept.unwrap_or_default() as u32,
                }),
            );
            (state, kept) = (carried, Some(Kept::Floats));
        }
        output.planar()
    }

    fn check(&mut self) {
        let found = self.run(self.steps);
        for ((found, inputs), state) in found.iter().zip(&self.inputs).zip(&self.states) {
            let initial = self.initial.map(|_| &state[..]);
            let expected =
                self.cell
                    .run(inputs, &self.weights, &self.bias, initial, self.backwards);
            let what = format!("{:?} of {}, {} steps", self.cell, self.hidden, self.steps);
            let summands = self.hidden * self.steps;
            error::check(&what, found, &expected, summands, &vec![4.0; found.len()]);
        }
    }
}

#[test]
fn recurrent_layers_equal_their_reference() {
    for cell in Cell::ALL {
        for hidden in [1, 5, 8, 40, 130] {
            Layer::new(cell, hidden, 7, None, false).check();
            Layer::new(cell, hidden, 5, Some(Kept::Halves), true).check();
        }
        Layer::new(cell, 12, 1, Some(Kept::Floats), false).check();
    }
}

/// Several units a thread, and several vectors of each.
#[test]
fn the_largest_recurrent_layer_equals_its_reference() {
    let hidden = HIDDEN_UNITS_MAX as usize;
    Layer::new(Cell::Lstm, hidden, 2, Some(Kept::Halves), false).check();
}

#[test]
fn a_recurrent_layer_in_several_launches_has_the_same_states() {
    for cell in Cell::ALL {
        for backwards in [false, true] {
            let mut layer = Layer::new(cell, 19, 11, Some(Kept::Halves), backwards);
            assert_eq!(layer.run(4), layer.run(11), "{cell:?}");
        }
    }
}
