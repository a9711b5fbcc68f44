//! Recurrent layers: a launch for as many steps as one may take.

use punctual_kernels::cuda::params::{CellCode, Kept, Recurrent};
use punctual_kernels::cuda::{Arguments, padded};
use punctual_model::{Operator, OperatorKind, TensorId};
use punctual_types::Cell;

use super::list::Of;
use super::stage::{Launches, known};

/// What a block reads in about a millisecond, at 64 bytes a cycle and a GHz. A launch that was cut is run again from its
/// start, so none is much longer.
const LAUNCH_BYTES: u64 = 64 << 20;
/// What a block could read while a step waits: for barriers, and for memory.
const STEP_BYTES: u64 = 64 << 10;

/// Threads of a warp.
const LANES_MAX: u32 = 32;

impl Launches<'_> {
    pub(super) fn recurrent(&mut self, of: Of<'_>, operator: &Operator) {
        let &OperatorKind::Recurrent {
            cell,
            initial,
            backwards,
            ..
        } = &operator.kind
        else {
            return;
        };
        let Some(&piece) = self.lowering.pieces(of.operator).first() else {
            return;
        };
        let gates = self.read(operator.input);
        let (state, kept) = initial.map_or((0, Kept::Halves), |initial| self.state(initial));
        let output = self.write(operator.output);
        let hidden = gates.channels / cell.gates();
        let mut layer = Recurrent {
            gates,
            output,
            weights: piece.weights().encode(),
            bias: piece.bias().encode(),
            state,
            images: u32::from(self.batch),
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
                self.draft.buffer().encode()
            } else {
                0
            };
            let kernel = known("recurrent");
            self.draft.push(of, kernel, Arguments::Recurrent(layer));
            layer.first_step += layer.steps;
            (layer.state, layer.kept) = (layer.carried, Kept::Floats as u32);
        }
    }

    /// The state before the first step, as floats if it is there as such.
    fn state(&mut self, initial: TensorId) -> (u64, Kept) {
        match self.floats_here(initial) {
            Some(floats) => (floats.address, Kept::Floats),
            None => (self.read(initial).address, Kept::Halves),
        }
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
