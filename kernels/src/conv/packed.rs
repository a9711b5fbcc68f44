//! Weights in the order in which the kernels read them.

use core::ops::Range;

use super::spec::Conv2dSpec;

/// What a block of output channels reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sources {
    /// The first input block (or plane).
    pub first: usize,
    /// Input blocks (or planes).
    pub count: usize,
    /// Where the block's weights start.
    pub weights: usize,
}

/// The order of a convolution's packed weights: an output block after the other, then the biases.
///
/// A block's weights are `[input block][kernel row][kernel column][input lane][output lane]`, for the input
/// blocks that its groups read; where a group does not read a lane of such a block, and in surplus lanes, the
/// weights are zero. Depthwise: `[kernel row][kernel column][lane]`. The biases are `[output block][lane]`.
#[derive(Clone, Debug)]
pub(super) struct Packing {
    pub sources: Box<[Sources]>,
    /// Where the biases start: behind all weights.
    pub bias: usize,
    pub len: usize,
}

/// Where some rows and columns of a kernel's taps lie in a block's weights.
pub(super) struct Taps {
    /// The first one's.
    pub first: usize,
    /// From the last of a row to the first of the next, and the same at the end of an input block.
    pub skip_row: usize,
    pub skip_block: usize,
}

impl Packing {
    /// The order for a spec that has been checked.
    pub fn new(spec: &Conv2dSpec) -> Packing {
        let sources = sources(spec);
        let last = sources[sources.len() - 1];
        let bias = last.weights + block_weights(spec, last.count);
        Packing {
            sources,
            bias,
            len: bias + spec.output.blocks() * spec.output.lanes(),
        }
    }

    /// Writes `[output][input / groups][kernel row][kernel column]` and the biases in this order.
    pub fn pack(&self, spec: &Conv2dSpec, weights: &[f32], bias: &[f32], packed: &mut [f32]) {
        let lanes = spec.output.lanes();
        packed.fill(0.0);
        packed[self.bias..][..bias.len()].copy_from_slice(bias);
        let (taps, tap_weights) = (spec.window.kernel.area(), tap_weights(spec));
        let inputs = spec.input.sizes().channels / spec.groups;
        let outputs_a_group = spec.output.channels() / spec.groups;
        for (output, weights) in weights.chunks_exact(inputs * taps).enumerate() {
            let block = self.sources[output / lanes];
            let first_input = output / outputs_a_group * inputs;
            for (input, weights) in (first_input..).zip(weights.chunks_exact(taps)) {
                let at = place(spec, &block, output, input);
                for (tap, &weight) in weights.iter().enumerate() {
                    packed[at + tap * tap_weights] = weight;
                }
            }
        }
    }

    /// Where these taps' weights are.
    pub fn taps(&self, spec: &Conv2dSpec, rows: &Range<usize>, columns: &Range<usize>) -> Taps {
        let (height, width) = (spec.window.kernel.height as usize, spec.window.kernel.width);
        let (width, tap) = (width as usize, tap_weights(spec));
        Taps {
            first: (rows.start * width + columns.start) * tap,
            skip_row: (width - columns.len()) * tap,
            skip_block: (height - rows.len()) * width * tap,
        }
    }

    /// Elements from a block's weights to the next one's, if that has the same sources.
    pub fn block_stride(&self, block: usize) -> usize {
        match self.sources.get(block + 1) {
            Some(next) => next.weights - self.sources[block].weights,
            None => 0,
        }
    }
}

/// Where the weight of `output` for `input` and the first tap goes.
fn place(spec: &Conv2dSpec, block: &Sources, output: usize, input: usize) -> usize {
    let lanes = spec.output.lanes();
    if spec.is_depthwise() {
        return block.weights + output % lanes;
    }
    let inner = spec.inner_lanes();
    let step = (input / inner - block.first) * spec.window.kernel.area() * inner + input % inner;
    block.weights + step * lanes + output % lanes
}

/// Elements of an output block's weights that reads `count` input blocks.
fn block_weights(spec: &Conv2dSpec, count: usize) -> usize {
    count * spec.window.kernel.area() * tap_weights(spec)
}

/// Elements of one tap's weights for one input block.
fn tap_weights(spec: &Conv2dSpec) -> usize {
    let inner = if spec.is_depthwise() {
        1
    } else {
        spec.inner_lanes()
    };
    inner * spec.output.lanes()
}

fn sources(spec: &Conv2dSpec) -> Box<[Sources]> {
    let (lanes, outputs) = (spec.output.lanes(), spec.output.channels());
    let inputs = spec.input.sizes().channels;
    let inner = spec.inner_lanes();
    let mut weights = 0;
    let sources = (0..spec.output.blocks()).map(|block| {
        let (first, count) = if spec.is_depthwise() {
            (block, 1)
        } else {
            let outputs_a_group = outputs / spec.groups;
            let inputs_a_group = inputs / spec.groups;
            let last_output = ((block + 1) * lanes).min(outputs) - 1;
            let first_input = block * lanes / outputs_a_group * inputs_a_group;
            let last_input = (last_output / outputs_a_group + 1) * inputs_a_group - 1;
            (
                first_input / inner,
                last_input / inner - first_input / inner + 1,
            )
        };
        let sources = Sources {
            first,
            count,
            weights,
        };
        weights += block_weights(spec, count);
        sources
    });
    sources.collect()
}
