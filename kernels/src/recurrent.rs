//! Recurrent layers: the state is carried from column to column.
//!
//! Each step needs the whole state of the step before, and cores synchronise only between operators: so every part
//! computes the whole state, and writes its own channels of it. The weights are read once for each step, from the
//! nearest cache that holds them.

use punctual_types::{Cell, HIDDEN_UNITS_MAX};

use crate::functions::{sigmoid, tanh};
use crate::simd::{Vector, compiled_for};
use crate::spec::{check_equal, check_room, check_weights};
use crate::{BlockedLayout, Image, Isa, Kernel, KernelError, Part, Weights};

/// States lie on the stack while a layer runs.
const UNITS_MAX: usize = HIDDEN_UNITS_MAX as usize;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecurrentSpec {
    pub cell: Cell,
    /// What the inputs add to each gate: channels (gate, unit), one row, one column for each step.
    pub gates: BlockedLayout,
    /// The state before the first step, one pixel; zeros without it.
    pub initial: Option<BlockedLayout>,
    /// The states: channels (value, unit), as many columns as steps.
    pub output: BlockedLayout,
    /// Whether the last column is the first step.
    pub backwards: bool,
}

/// A recurrent layer for one instruction set.
#[derive(Clone, Debug)]
pub struct Recurrent {
    spec: RecurrentSpec,
    hidden: usize,
    kernel: unsafe fn(&Step),
}

impl Recurrent {
    pub fn new(isa: Isa, spec: &RecurrentSpec) -> Result<Recurrent, KernelError> {
        if !isa.is_available() {
            return Err(KernelError::IsaUnavailable { isa });
        }
        let RecurrentSpec {
            cell,
            gates,
            initial,
            output,
            ..
        } = spec;
        gates.check_lanes("gates", isa)?;
        output.check_lanes("output", isa)?;
        let [of_gates, values] = [cell.gates(), cell.values()].map(|count| count as usize);
        let hidden = gates.channels() / of_gates;
        check_equal("the gates' channels", gates.channels(), of_gates * hidden)?;
        check_equal("the output's channels", output.channels(), values * hidden)?;
        check_equal("the gates' height", gates.height(), 1)?;
        check_equal("the output's height", output.height(), 1)?;
        check_equal("the output's width", output.width(), gates.width())?;
        if let Some(initial) = initial {
            initial.check_lanes("initial state", isa)?;
            check_equal("the state's channels", initial.channels(), values * hidden)?;
            check_equal("the state's pixels", initial.height() * initial.width(), 1)?;
        }
        if hidden > UNITS_MAX {
            return Err(KernelError::TooLarge {
                what: "the hidden units",
                found: hidden,
                limit: UNITS_MAX,
            });
        }
        let kernel = match cell {
            Cell::Gru {
                resets_product: true,
            } => compiled_for!(isa, gru_of_product, Step),
            Cell::Gru { .. } => compiled_for!(isa, gru_of_state, Step),
            Cell::Lstm => compiled_for!(isa, lstm, Step),
            Cell::Tanh => compiled_for!(isa, plain_tanh, Step),
            Cell::Relu => compiled_for!(isa, plain_relu, Step),
        };
        Ok(Recurrent {
            spec: *spec,
            hidden,
            kernel,
        })
    }

    fn blocks(&self) -> usize {
        self.hidden.div_ceil(self.spec.output.lanes())
    }

    pub fn spec(&self) -> &RecurrentSpec {
        &self.spec
    }

    fn run_image(&self, packed: &[f32], part: Part, image: &mut Image<'_>) {
        let RecurrentSpec {
            gates,
            initial,
            output,
            backwards,
            ..
        } = &self.spec;
        let (hidden, lanes, start) = (self.hidden, output.lanes(), output.part(part).start);
        let mut state = State::new();
        if let (Some(layout), Some(values)) = (initial, image.second()) {
            for channel in 0..layout.channels() {
                let value = values[layout.index(channel, 0, 0)];
                if channel < hidden {
                    state.shown[channel] = value
                } else {
                    state.cells[channel - hidden] = value
                }
            }
        }
        let first = gates.row_start(0, 0);
        for step in 0..gates.width() {
            let column = if *backwards {
                gates.width() - 1 - step
            } else {
                step
            };
            let arguments = Step {
                input: image.input()[first + column * lanes..].as_ptr(),
                input_block: gates.block_stride(),
                hidden,
                packed: packed.as_ptr(),
                shown: state.shown.as_ptr(),
                next: state.next.as_mut_ptr(),
                cells: state.cells.as_mut_ptr(),
                kept: state.kept.as_mut_ptr(),
            };
            // SAFETY: the constructor saw that the instruction set is available. The column's pixel of each block of
            // the gates lies in the input, and the lengths of input and packed weights were checked. The state's lists
            // have room for all hidden units in whole blocks, as `UNITS_MAX` is a multiple of every vector's lanes.
            unsafe { (self.kernel)(&arguments) };
            core::mem::swap(&mut state.shown, &mut state.next);
            for (block, row) in output.block_rows(part) {
                let to = output.row_start(block, row) + column * lanes - start;
                for (lane, value) in image.output[to..to + lanes].iter_mut().enumerate() {
                    let channel = block * lanes + lane;
                    *value = match channel {
                        _ if channel < hidden => state.shown[channel],
                        _ if channel < output.channels() => state.cells[channel - hidden],
                        _ => 0.0,
                    };
                }
            }
        }
    }
}

impl Kernel for Recurrent {
    fn packed_len(&self) -> usize {
        let block = self.spec.cell.gates() as usize * self.spec.output.lanes();
        self.blocks() * block * (1 + self.hidden)
    }

    /// Weights `[gate][unit][unit before]` and biases `[gate][unit]`, as `[block of units][bias, then unit before][gate][lane]`.
    fn pack(&self, weights: &Weights<'_>, packed: &mut [f32]) -> Result<(), KernelError> {
        let (weights, bias) = (weights.floats[0], weights.floats[1]);
        check_room(packed.len(), self.packed_len());
        let (gates, hidden) = (self.spec.cell.gates() as usize, self.hidden);
        let lanes = self.spec.output.lanes();
        check_weights(weights, gates * hidden * hidden, bias, gates * hidden)?;
        packed.fill(0.0);
        let block_len = (1 + hidden) * gates * lanes;
        for unit in 0..hidden {
            let block = &mut packed[unit / lanes * block_len..][..block_len];
            for gate in 0..gates {
                let row = gate * hidden + unit;
                let before = weights[row * hidden..][..hidden].iter();
                let all = [bias[row]].into_iter().chain(before.copied());
                for (at, value) in all.enumerate() {
                    block[(at * gates + gate) * lanes + unit % lanes] = value;
                }
            }
        }
        Ok(())
    }

    fn run(&self, packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        assert_eq!(packed.len(), self.packed_len(), "the packed weights");
        let RecurrentSpec {
            gates,
            initial,
            output,
            ..
        } = &self.spec;
        let lens = [Some(gates.len()), initial.map(|initial| initial.len())];
        for image in images {
            image.prepare(lens.into_iter().flatten(), output, part);
            if !output.rows(part).is_empty() {
                self.run_image(packed, part, image);
            }
        }
    }

    fn packing(&self) -> Option<Vec<usize>> {
        Some(vec![self.spec.cell.gates() as usize])
    }
}

/// The state carried from step to step, and the buffers of a step.
struct State {
    shown: [f32; UNITS_MAX],
    next: [f32; UNITS_MAX],
    /// The cell states of an LSTM, whose hidden states are `shown`.
    cells: [f32; UNITS_MAX],
    /// The state multiplied by a GRU's reset gate.
    kept: [f32; UNITS_MAX],
}

impl State {
    fn new() -> State {
        State {
            shown: [0.0; UNITS_MAX],
            next: [0.0; UNITS_MAX],
            cells: [0.0; UNITS_MAX],
            kept: [0.0; UNITS_MAX],
        }
    }
}

struct Step {
    /// The step's pixel of the first block of gates.
    input: *const f32,
    input_block: usize,
    hidden: usize,
    packed: *const f32,
    shown: *const f32,
    next: *mut f32,
    cells: *mut f32,
    kept: *mut f32,
}

impl Step {
    const fn blocks<V: Vector>(&self) -> usize {
        self.hidden.div_ceil(V::LANES)
    }

    /// What the input adds to a gate of a block of units; lanes behind the last unit hold finite values.
    ///
    /// # Safety For this and all functions below: the processor has the instruction set, the step's pointers are valid
    /// for its hidden units in whole blocks, and nothing aliases what is written.
    #[inline(always)]
    unsafe fn input<V: Vector>(&self, gate: usize, block: usize) -> V {
        let channel = gate * self.hidden + block * V::LANES;
        // SAFETY: the caller's promise; only channels of the gates are read.
        unsafe {
            if self.hidden.is_multiple_of(V::LANES) {
                return V::load(self.input.add(channel / V::LANES * self.input_block));
            }
            let mut lanes = [0.0; 16];
            let count = V::LANES.min(self.hidden - block * V::LANES);
            for (lane, value) in lanes.iter_mut().enumerate().take(count) {
                let at = channel + lane;
                let from = at / V::LANES * self.input_block + at % V::LANES;
                *value = *self.input.add(from);
            }
            V::load(lanes.as_ptr())
        }
    }

    /// The bias plus the state's product, for a block of units and `COUNT` of `GATES` gates from `first` on.
    ///
    /// # Safety
    /// See [`input`](Self::input); `state` is valid for the hidden units.
    #[allow(
        clippy::needless_range_loop,
        reason = "a gate's place in several lists"
    )]
    #[inline(always)]
    unsafe fn products<V: Vector, const GATES: usize, const COUNT: usize>(
        &self,
        block: usize,
        first: usize,
        state: *const f32,
    ) -> [V; COUNT] {
        let row = GATES * V::LANES;
        // SAFETY: the caller's promise.
        unsafe {
            let bias = self
                .packed
                .add(block * (1 + self.hidden) * row + first * V::LANES);
            let mut weights = bias.add(row);
            let mut sums = [V::splat(0.0); COUNT];
            // A second chain of sums hides the latency of the first.
            let mut others = [V::splat(0.0); COUNT];
            let mut unit = 0;
            while unit + 2 <= self.hidden {
                let (a, b) = (V::splat(*state.add(unit)), V::splat(*state.add(unit + 1)));
                for gate in 0..COUNT {
                    let from = weights.add(gate * V::LANES);
                    sums[gate] = sums[gate].mul_add(V::load(from), a);
                    others[gate] = others[gate].mul_add(V::load(from.add(row)), b);
                }
                weights = weights.add(2 * row);
                unit += 2;
            }
            if unit < self.hidden {
                let a = V::splat(*state.add(unit));
                for gate in 0..COUNT {
                    sums[gate] = sums[gate].mul_add(V::load(weights.add(gate * V::LANES)), a);
                }
            }
            for gate in 0..COUNT {
                let bias = V::load(bias.add(gate * V::LANES));
                sums[gate] = sums[gate].add(others[gate]).add(bias);
            }
            sums
        }
    }
}

/// `n + z (h - n)`.
///
/// # Safety
/// The processor has the instruction set.
#[inline(always)]
unsafe fn between<V: Vector>(n: V, h: V, z: V) -> V {
    // SAFETY: the caller's promise.
    unsafe { n.mul_add(z, h.sub(n)) }
}

/// # Safety
/// See [`Step::input`].
#[inline(always)]
unsafe fn gru_of_product<V: Vector>(s: &Step) {
    for block in 0..s.blocks::<V>() {
        // SAFETY: the caller's promise.
        unsafe {
            let [z, r, product] = s.products::<V, 3, 3>(block, 0, s.shown);
            let z = sigmoid(z.add(s.input(0, block)));
            let r = sigmoid(r.add(s.input(1, block)));
            let n = tanh(s.input::<V>(2, block).mul_add(r, product));
            let h = V::load(s.shown.add(block * V::LANES));
            between(n, h, z).store(s.next.add(block * V::LANES));
        }
    }
}

/// # Safety
/// See [`Step::input`].
#[inline(always)]
unsafe fn gru_of_state<V: Vector>(s: &Step) {
    // SAFETY: the caller's promise. The next state holds z until n is there.
    unsafe {
        for block in 0..s.blocks::<V>() {
            let at = block * V::LANES;
            let [z, r] = s.products::<V, 3, 2>(block, 0, s.shown);
            sigmoid(z.add(s.input(0, block))).store(s.next.add(at));
            let r = sigmoid(r.add(s.input(1, block)));
            r.mul(V::load(s.shown.add(at))).store(s.kept.add(at));
        }
        for block in 0..s.blocks::<V>() {
            let at = block * V::LANES;
            let [product] = s.products::<V, 3, 1>(block, 2, s.kept);
            let n = tanh(s.input::<V>(2, block).add(product));
            let (h, z) = (V::load(s.shown.add(at)), V::load(s.next.add(at)));
            between(n, h, z).store(s.next.add(at));
        }
    }
}

/// # Safety
/// See [`Step::input`].
#[inline(always)]
unsafe fn lstm<V: Vector>(s: &Step) {
    for block in 0..s.blocks::<V>() {
        let at = block * V::LANES;
        // SAFETY: the caller's promise.
        unsafe {
            let [i, o, f, c] = s.products::<V, 4, 4>(block, 0, s.shown);
            let i = sigmoid(i.add(s.input(0, block)));
            let o = sigmoid(o.add(s.input(1, block)));
            let f = sigmoid(f.add(s.input(2, block)));
            let c = tanh(c.add(s.input(3, block)));
            let cell = i.mul(c).mul_add(f, V::load(s.cells.add(at)));
            cell.store(s.cells.add(at));
            o.mul(tanh(cell)).store(s.next.add(at));
        }
    }
}

/// # Safety
/// See [`Step::input`].
#[inline(always)]
unsafe fn plain_tanh<V: Vector>(s: &Step) {
    for block in 0..s.blocks::<V>() {
        // SAFETY: the caller's promise.
        unsafe {
            let [sum] = s.products::<V, 1, 1>(block, 0, s.shown);
            tanh(sum.add(s.input(0, block))).store(s.next.add(block * V::LANES));
        }
    }
}

/// # Safety
/// See [`Step::input`].
#[inline(always)]
unsafe fn plain_relu<V: Vector>(s: &Step) {
    for block in 0..s.blocks::<V>() {
        // SAFETY: the caller's promise.
        unsafe {
            let [sum] = s.products::<V, 1, 1>(block, 0, s.shown);
            let sum = sum.add(s.input(0, block));
            let positive = sum.clamp(V::splat(0.0), V::splat(f32::INFINITY));
            positive.store(s.next.add(block * V::LANES));
        }
    }
}
