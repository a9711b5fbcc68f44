//! Recurrent layers: a launch for as many steps as one may take.

use punctual_cuda_kernels::padded;
use punctual_cuda_kernels::params::{CellCode, Kept, Pattern, Recurrent};
use punctual_model::{self as model, Operator, TensorId};
use punctual_types::Cell;

use super::error::LowerError;
use super::list::Of;
use super::pages::{Content, Matrix, Pack, Packed};
use super::stage::{Launches, Lower};
use super::traffic::Role::{Between, Operand as Read, Result as Made};
use super::traffic::{FLOAT, Launch, Part, Span, Traffic, value_bytes};

/// What a block reads in about a millisecond, at 64 bytes a cycle and a GHz. A launch that was cut is run again from its
/// start, so none is much longer.
const LAUNCH_BYTES: u64 = 64 << 20;
/// What a block could read while a step waits: for barriers, and for memory.
const STEP_BYTES: u64 = 64 << 10;

/// Threads of a warp.
const LANES_MAX: u32 = 32;

impl Pack for model::Recurrent {
    fn content(&self, of: &Packed<'_>) -> Option<Content> {
        let [weights, bias] = [of.operator.weights[0], of.operator.weights[1]];
        Some(Content::StateMatrix(Matrix {
            pattern: Pattern::Dense,
            outputs: bias.len,
            inputs: weights.len / bias.len,
            taps: 1,
            weights,
            bias,
        }))
    }
}

impl Lower for model::Recurrent {
    fn has_state(&self) -> bool {
        true
    }

    fn launch<'l>(
        &self,
        launches: &mut Launches<'l>,
        of: Of<'_>,
        operator: &'l Operator,
    ) -> Result<(), LowerError> {
        let &model::Recurrent { cell, backwards } = self;
        let Some(&piece) = launches.lowering.pieces(of.operator).first() else {
            return Ok(());
        };
        let gates = launches.read(operator.input);
        let state = operator.others.first();
        let (state, kept) = state.map_or((0, Kept::Halves), |&initial| launches.state(initial));
        let output = launches.write(operator.output);
        let hidden = gates.channels / cell.gates();
        let mut layer = Recurrent {
            gates,
            output,
            weights: piece.weights().encode(),
            bias: piece.bias().encode(),
            state,
            images: u32::from(launches.batch),
            cell: CellCode::from(cell) as u32,
            hidden,
            lanes: (padded(hidden) / 8).next_power_of_two().min(LANES_MAX),
            backwards: u32::from(backwards),
            kept: kept as u32,
            ..Recurrent::default()
        };
        let most = steps_of_launch(cell, hidden);
        while layer.first_step < gates.width {
            layer.steps = most.min(gates.width - layer.first_step);
            let goes_on = layer.first_step + layer.steps < gates.width;
            // What this launch hands to the next one.
            layer.carried = if goes_on {
                launches.draft.buffer().encode()
            } else {
                0
            };
            launches.push(of, "recurrent", layer);
            layer.first_step += layer.steps;
            (layer.state, layer.kept) = (layer.carried, Kept::Floats as u32);
        }
        Ok(())
    }
}

impl Launches<'_> {
    /// The state before the first step, as floats if it is there as such.
    fn state(&mut self, initial: TensorId) -> (u64, Kept) {
        match self.floats_here(initial) {
            Some(floats) => (floats.address, Kept::Floats),
            None => (self.read(initial).address, Kept::Halves),
        }
    }
}

impl Launch for Recurrent {
    fn traffic(&self) -> Traffic {
        let state = u64::from(self.images) * u64::from(self.output.pitch);
        // Only the first steps read what the operator does; the others what the launch before them left.
        let from = if self.first_step == 0 {
            Read(1)
        } else {
            Between
        };
        Traffic::new(
            [
                Span::tensor(Read(0), &self.gates, self.images),
                Span::at(from, self.state, state * value_bytes(self.kept)),
                Span::weights(self.weights),
                Span::weights(self.bias),
            ],
            [
                Span::tensor(Made, &self.output, self.images),
                Span::at(Between, self.carried, state * FLOAT),
            ],
        )
    }

    fn weight_bytes(&self) -> u64 {
        let hidden = u64::from(self.hidden);
        let gates = u64::from(self.gates.channels);
        2 * gates * hidden.next_multiple_of(8) + 4 * gates
    }

    fn part(&self) -> Option<Part> {
        Some(Part::steps(self.first_step, self.steps))
    }
}

fn steps_of_launch(cell: Cell, hidden: u32) -> u32 {
    let weights = cell.gates() * hidden * padded(hidden) * Kept::Halves.bytes();
    (LAUNCH_BYTES / (u64::from(weights) + STEP_BYTES)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_types::HIDDEN_UNITS_MAX;

    #[test]
    fn a_launch_takes_fewer_steps_of_larger_layers_and_never_none() {
        assert_eq!(steps_of_launch(Cell::Lstm, HIDDEN_UNITS_MAX), 7);
        assert_eq!(steps_of_launch(Cell::Tanh, 1), 1023);
    }
}
