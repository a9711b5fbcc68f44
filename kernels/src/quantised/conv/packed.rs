//! Weights in the order in which the kernels read them, in memory of floats.

use punctual_types::Quantisation;

use super::spec::Conv2dSpec;
use crate::quantised::bytes_mut;
use crate::quantised::sums::offset;

/// Bytes of a cache line: where each part of the packed weights starts.
const LINE: usize = 64;

/// What a block of output channels reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sources {
    /// The first input block.
    pub first: usize,
    pub count: usize,
    /// Quads of the last of them.
    pub last_quads: usize,
    /// Where the block's weights start, in bytes.
    pub weights: usize,
}

/// Where a convolution's weights, the i32 that its sums start with, and the f32 by which they are
/// multiplied lie in its packed weights.
///
/// A block's weights are `[input block][kernel row][kernel column][quad][output lane][4]`, for the
/// input blocks that its groups read; where a group does not read an input channel, and in surplus
/// lanes, they are zero. Depthwise: `[kernel row][kernel column][lane][4]`, of which the first counts.
#[derive(Clone, Debug)]
pub(super) struct Packing {
    pub sources: Box<[Sources]>,
    /// Where the sums' first values start, in bytes.
    pub bias: usize,
    /// Where the scales start, in bytes.
    pub scales: usize,
    /// All of it, in floats.
    pub len: usize,
}

impl Packing {
    pub fn new(spec: &Conv2dSpec) -> Packing {
        let mut weights = 0;
        let sources: Box<[Sources]> = (0..spec.output.blocks())
            .map(|block| {
                let sources = sources(spec, block, weights);
                weights += steps(spec, &sources) * 4 * spec.output.lanes();
                sources
            })
            .collect();
        let bias = weights.next_multiple_of(LINE);
        let lanes = (4 * spec.output.blocks() * spec.output.lanes()).next_multiple_of(LINE);
        Packing {
            sources,
            bias,
            scales: bias + lanes,
            len: (bias + 2 * lanes) / size_of::<f32>(),
        }
    }

    /// Packs `[output][input / groups][kernel row][kernel column]`; `step` is what a product of two
    /// integers is worth, for each output, and `packed` is `len` floats. All has been checked.
    pub fn pack(
        &self,
        spec: &Conv2dSpec,
        input: Quantisation,
        weights: &[i8],
        steps: &[f32],
        bias: &[f32],
        packed: &mut [f32],
    ) {
        packed.fill(0.0);
        let packed = bytes_mut(packed);
        let lanes = spec.output.lanes();
        let a_channel = weights.len() / spec.output.channels();
        let missing = i32::from(offset(lanes)) - i32::from(input.zero);
        for (output, weights) in weights.chunks_exact(a_channel).enumerate() {
            let sources = &self.sources[output / lanes];
            let mut sum = 0_i32;
            let taps = spec.taps();
            for (at, &weight) in weights.iter().enumerate() {
                let place = place(spec, sources, output, at / taps, at % taps);
                packed[place] = weight.cast_unsigned();
                sum += i32::from(weight);
            }
            // The zero point is taken from the sum as a whole, not from each byte, and so is what
            // the kernel takes from each byte itself given back.
            let bias = f64::from(bias[output]) / f64::from(steps[output]);
            let first = (bias.round_ties_even() as i32).wrapping_add(sum.wrapping_mul(missing));
            let scale = match spec.output_quantisation() {
                Some(to) => f64::from(steps[output]) / f64::from(to.scale),
                None => f64::from(steps[output]),
            };
            let word = |start: usize| start + 4 * output..start + 4 * output + 4;
            packed[word(self.bias)].copy_from_slice(&first.to_ne_bytes());
            packed[word(self.scales)].copy_from_slice(&(scale as f32).to_ne_bytes());
        }
    }

    /// Bytes from a block's weights to the next one's, if that has the same sources.
    pub fn block_stride(&self, block: usize) -> usize {
        match self.sources.get(block + 1) {
            Some(next) => next.weights - self.sources[block].weights,
            None => 0,
        }
    }
}

/// Where the weight of `output` for the group's `input` and the tap goes.
fn place(spec: &Conv2dSpec, block: &Sources, output: usize, input: usize, tap: usize) -> usize {
    let lanes = spec.output.lanes();
    if spec.is_depthwise() {
        return block.weights + (tap * lanes + output % lanes) * 4;
    }
    let (inputs, outputs) = (spec.input.channels(), spec.output.channels());
    let group = output / (outputs / spec.groups);
    let input = group * (inputs / spec.groups) + input;
    let source = input / lanes - block.first;
    let quads = if source + 1 == block.count {
        block.last_quads
    } else {
        lanes / 4
    };
    let step = source * spec.taps() * (lanes / 4) + tap * quads + input % lanes / 4;
    block.weights + (step * lanes + output % lanes) * 4 + input % 4
}

/// Steps of a block's sums: taps, each a quad, or each a channel.
fn steps(spec: &Conv2dSpec, sources: &Sources) -> usize {
    if spec.is_depthwise() {
        spec.taps()
    } else {
        let quads = (sources.count - 1) * (spec.output.lanes() / 4) + sources.last_quads;
        quads * spec.taps()
    }
}

fn sources(spec: &Conv2dSpec, block: usize, weights: usize) -> Sources {
    let (lanes, outputs) = (spec.output.lanes(), spec.output.channels());
    let outputs_a_group = outputs / spec.groups;
    let inputs_a_group = spec.input.channels() / spec.groups;
    let last_output = ((block + 1) * lanes).min(outputs) - 1;
    let first_input = block * lanes / outputs_a_group * inputs_a_group;
    let last_input = (last_output / outputs_a_group + 1) * inputs_a_group - 1;
    Sources {
        first: first_input / lanes,
        count: last_input / lanes - first_input / lanes + 1,
        last_quads: last_input % lanes / 4 + 1,
        weights,
    }
}
