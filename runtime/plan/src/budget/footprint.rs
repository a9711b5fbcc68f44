//! What a network takes on a device: as the device lays it out, if that is known, otherwise upper
//! bounds, whatever the layout: channels in blocks of [`CHANNEL_BLOCK`], rows rounded up likewise, a
//! border wide enough for every operator.

use punctual_model::{
    Conv2d, Network, OperatorKind, QuantisedConv2d, Stage, StageLayout, Tensor, TensorId,
};

use crate::resolve::Model;

/// The widest vector register of a supported processor holds this many f32.
const CHANNEL_BLOCK: u64 = 16;

const F32: u64 = 4;

/// Bytes of the packed weights.
pub(crate) fn weights(model: &Model<'_>) -> u64 {
    match model.layout {
        Some(layout) => layout.packed_floats() * F32,
        None => weights_max(model.package.network()),
    }
}

/// Bytes of one request: the prepared input and everything that is carried between stages.
pub(crate) fn request(model: &Model<'_>) -> u64 {
    match model.layout {
        Some(layout) => layout.request_floats * F32,
        None => request_max(model.package.network()),
    }
}

/// Bytes that one image takes in a workspace in the hungriest stage.
pub(crate) fn workspace(model: &Model<'_>) -> u64 {
    let network = model.package.network();
    let most = match model.layout {
        Some(layout) => layout.stages.iter().map(share).max(),
        None => {
            let stages = network.stages.iter();
            stages.map(|stage| workspace_max(network, stage)).max()
        }
    };
    most.unwrap_or(0)
}

fn share(stage: &StageLayout) -> u64 {
    stage.workspace_floats * F32
}

fn weights_max(network: &Network) -> u64 {
    let block = |count: u64| count.next_multiple_of(CHANNEL_BLOCK);
    let operators = network.stages.iter().flat_map(|stage| &stage.operators);
    let elements: u64 = operators
        .map(|operator| {
            let tensor = |id: TensorId| network.tensors[id.0 as usize];
            let (input, output) = (tensor(operator.input), tensor(operator.output));
            let outputs = block(u64::from(output.channels));
            match &operator.kind {
                OperatorKind::Linear(_) => outputs * block(input.elements()) + outputs,
                // Those of bytes as floats: they take less.
                OperatorKind::Conv2d(Conv2d { window, groups, .. })
                | OperatorKind::QuantisedConv2d(QuantisedConv2d { window, groups, .. }) => {
                    let inputs = u64::from(input.channels / groups.max(&1));
                    let taps = window.kernel.area() as u64;
                    outputs * block(inputs) * taps + 2 * outputs
                }
                _ => 0,
            }
        })
        .sum();
    elements * F32
}

fn request_max(network: &Network) -> u64 {
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

/// If no memory were used twice.
fn workspace_max(network: &Network, stage: &Stage) -> u64 {
    let border = border(network);
    let written = stage.operators.iter().map(|operator| operator.output);
    written
        .filter(|id| !stage.outputs.contains(id))
        .map(|id| padded(network.tensors[id.0 as usize], border))
        .sum()
}

/// The widest border of zeros that an operator wants around what it reads.
fn border(network: &Network) -> u64 {
    let operators = network.stages.iter().flat_map(|stage| &stage.operators);
    let widest = operators.map(|operator| match &operator.kind {
        OperatorKind::Pool(pool) => pool.padding.largest() as u32,
        kind => kind.border(),
    });
    widest.max().unwrap_or(0).into()
}

fn padded(tensor: Tensor, border: u64) -> u64 {
    let channels = u64::from(tensor.channels).next_multiple_of(CHANNEL_BLOCK);
    let rows = u64::from(tensor.height) + 2 * border;
    let columns = (u64::from(tensor.width) + 2 * border).next_multiple_of(CHANNEL_BLOCK);
    // One vector more: kernels may read, never use, past the last row.
    (channels * rows * columns + CHANNEL_BLOCK) * F32
}
