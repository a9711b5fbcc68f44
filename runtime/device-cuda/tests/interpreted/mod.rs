//! Lowered networks on the emulated kernels, compared with the reference interpreter within what halves may round.

use punctual_device_cuda::lower::Program;
use punctual_model::reference::Exited;
use punctual_model::reference::agreement::{
    ExpectedExit, Precision, agrees_with_more_noise, expected,
};
use punctual_model::{Exit, Network, OutputLayout};

use crate::emulation::Memory;

/// The first input and the vectors of an image.
pub type Inputs = Vec<Vec<f32>>;

/// What is wrong with what the launches give for these images in a batch of that size, if anything is.
pub fn difference(
    network: &Network,
    layout: &OutputLayout,
    program: &Program,
    batch: u8,
    images: &[Inputs],
) -> Option<String> {
    let slices: Vec<Vec<&[f32]>> = images
        .iter()
        .map(|image| image.iter().map(Vec::as_slice).collect())
        .collect();
    let first = slices.iter();
    let first: Vec<_> = first
        .map(|image| expected(network, image, Precision::Half, 0))
        .collect();
    let flat: Vec<Vec<f32>> = images.iter().map(|image| image.concat()).collect();
    let mut memory = Memory::new(network, program, &flat);
    for (stage, own) in network.stages.iter().enumerate() {
        let scores = memory.run(program, stage, batch);
        let Some(exit) = &own.exit else {
            continue;
        };
        for (member, scores) in scores.into_iter().enumerate() {
            let found = Exited {
                outputs: outputs(&memory, program, exit, layout, stage, member),
                scores,
                confidence: exit.confidence.map(|_| memory.answer(member).confidence),
            };
            let compare = |exits: &[Option<ExpectedExit>]| {
                let wanted = exits[stage].as_ref().expect("an exit");
                wanted.compare(&found)
            };
            let inputs = &slices[member];
            if let Err(mismatch) = compare(&first[member])
                && !agrees_with_more_noise(network, inputs, Precision::Half, 0, |exits| {
                    compare(exits).is_ok()
                })
            {
                let members = images.len();
                return Some(format!(
                    "member {member} of {members}, exit {stage}: {mismatch}"
                ));
            }
        }
    }
    None
}

/// A member's outputs of the stage that ran last.
fn outputs(
    memory: &Memory,
    program: &Program,
    exit: &Exit,
    layout: &OutputLayout,
    stage: usize,
    member: usize,
) -> Vec<Vec<f32>> {
    let bytes = memory.outputs(program, stage, member);
    let placed = layout.stage(stage).expect("all outputs are wanted");
    let first = placed.range().start;
    let outputs = placed.outputs.iter().map(|placed| {
        let own = &bytes[(placed.offset - first) as usize..][..placed.bytes as usize];
        exit.outputs[placed.output].element.read(own).collect()
    });
    outputs.collect()
}
