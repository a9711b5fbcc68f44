//! Upper bounds on what a network takes on a device, whatever its tensor layout: channels in
//! blocks of [`CHANNEL_BLOCK`], rows rounded up likewise, a border wide enough for every operator.

use punctual_model::{Network, OperatorKind, Stage, Tensor, TensorId};

/// The widest vector register of a supported processor holds this many f32.
const CHANNEL_BLOCK: u64 = 16;

const F32: u64 = 4;

/// Bytes of the packed weights.
pub(crate) fn weights(network: &Network) -> u64 {
    let block = |count: u64| count.next_multiple_of(CHANNEL_BLOCK);
    let operators = network.stages.iter().flat_map(|stage| &stage.operators);
    let elements: u64 = operators
        .map(|operator| {
            let tensor = |id: TensorId| network.tensors[id.0 as usize];
            let (input, output) = (tensor(operator.input), tensor(operator.output));
            let outputs = block(u64::from(output.channels));
            match &operator.kind {
                OperatorKind::Conv2d { kernel, groups, .. } => {
                    let inputs = u64::from(input.channels / groups.max(&1));
                    let taps = u64::from(kernel.height) * u64::from(kernel.width);
                    outputs * block(inputs) * taps + outputs
                }
                OperatorKind::Linear { .. } => outputs * block(elements(input)) + outputs,
                // As one of floats: its bytes take less.
                OperatorKind::QuantisedConv2d { kernel, groups, .. } => {
                    let inputs = u64::from(input.channels / groups.max(&1));
                    let taps = u64::from(kernel.height) * u64::from(kernel.width);
                    outputs * block(inputs) * taps + 2 * outputs
                }
                _ => 0,
            }
        })
        .sum();
    elements * F32
}

/// Bytes of one request: the prepared input and everything that is carried between stages.
pub(crate) fn request(network: &Network) -> u64 {
    let border = border(network);
    let carried = network.stages.iter().flat_map(|stage| &stage.outputs);
    let input = network
        .stages
        .iter()
        .take(1)
        .flat_map(|stage| &stage.inputs);
    carried
        .chain(input)
        .map(|id| padded(network.tensors[id.0 as usize], border))
        .sum()
}

/// Bytes that one image takes in a stage's workspace, if no memory were used twice.
pub(crate) fn workspace(network: &Network, stage: &Stage) -> u64 {
    let border = border(network);
    let written = stage.operators.iter().map(|operator| operator.output);
    written
        .filter(|id| !stage.outputs.contains(id))
        .map(|id| padded(network.tensors[id.0 as usize], border))
        .sum()
}

fn elements(tensor: Tensor) -> u64 {
    u64::from(tensor.channels) * u64::from(tensor.height) * u64::from(tensor.width)
}

/// The widest padding of any operator.
fn border(network: &Network) -> u64 {
    let operators = network.stages.iter().flat_map(|stage| &stage.operators);
    let widest = operators.filter_map(|operator| match &operator.kind {
        OperatorKind::Conv2d { padding, .. }
        | OperatorKind::QuantisedConv2d { padding, .. }
        | OperatorKind::Pool { padding, .. } => {
            [padding.top, padding.left, padding.bottom, padding.right]
                .into_iter()
                .max()
        }
        _ => None,
    });
    u64::from(widest.max().unwrap_or(0))
}

fn padded(tensor: Tensor, border: u64) -> u64 {
    let channels = u64::from(tensor.channels).next_multiple_of(CHANNEL_BLOCK);
    let rows = u64::from(tensor.height) + 2 * border;
    let columns = (u64::from(tensor.width) + 2 * border).next_multiple_of(CHANNEL_BLOCK);
    // One vector more: kernels may read, never use, past the last row.
    (channels * rows * columns + CHANNEL_BLOCK) * F32
}
