//! Class scores, where the launch that answers reads them: a device reports class and confidence alone.

use std::sync::Arc;

use punctual_cuda_kernels::Arguments;
use punctual_device_cuda::driver::{Attribute, CallError, Context, DeviceMemory, Stream};
use punctual_device_cuda::launch_times::Direct;
use punctual_device_cuda::lower::{Place, Program, Target};
use punctual_device_cuda::{PAGE_BYTES, StartError};
use punctual_model::Network;

/// A network that runs launch by launch, for batches of `batch` images.
pub fn direct(context: &Arc<Context>, network: &Network, batch: u8) -> Result<Direct, StartError> {
    let gpu = context.gpu();
    let target = Target {
        multiprocessors: gpu.attribute(Attribute::Multiprocessors)?,
        compute_capability: gpu.compute_capability()?,
        page_bytes: PAGE_BYTES,
    };
    let program = Program::lower(network, &[batch], &target, &[])?;
    Direct::new(Stream::new(context, 0)?, network, program)
}

/// The class scores of each image after each stage: `scores[stage][image][class]`, without classes
/// where the stage ends in no exit. An image is `[channel][row][column]`, normalised.
///
/// # Panics
/// If the network is not lowered for this number of images, or one has the wrong length.
pub fn of_every_exit(direct: &Direct, images: &[&[f32]]) -> Result<Vec<Vec<Vec<f32>>>, CallError> {
    direct.bring(images)?;
    let stages = direct.program().stages.iter();
    let scores = stages.map(|stage| {
        let mut lists = stage.lists.iter();
        let list = lists.find(|list| usize::from(list.batch) == images.len());
        let list = list.expect("it is lowered for this batch");
        direct.run(&list.steps, images.len())?;
        let answers = list.steps.last().map(|step| step.arguments());
        let (Some(Arguments::Answers(answers)), Some(classes)) = (answers, stage.classes) else {
            return Ok(vec![Vec::new(); images.len()]);
        };
        let Place::Workspace { offset } = Place::decode(answers.scores) else {
            return Ok(vec![Vec::new(); images.len()]);
        };
        let pitch = u64::from(answers.pitch) * size_of::<f32>() as u64;
        let images = 0..images.len() as u64;
        let of_image = |image| floats(direct.workspace(), offset + image * pitch, classes);
        images.map(of_image).collect()
    });
    scores.collect()
}

/// `count` floats of a workspace, from byte `from` on.
fn floats(workspace: &DeviceMemory, from: u64, count: u32) -> Result<Vec<f32>, CallError> {
    let mut bytes = vec![0; count as usize * size_of::<f32>()];
    workspace.read(from as usize, &mut bytes)?;
    let floats = bytes.as_chunks::<4>().0.iter().copied();
    Ok(floats.map(f32::from_ne_bytes).collect())
}
