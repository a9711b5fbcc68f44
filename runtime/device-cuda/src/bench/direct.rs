//! A network on the GPU, launch by launch, without queues: its class scores.

use std::sync::Arc;

use punctual_cuda_kernels::params::{Answer, Guard};
use punctual_cuda_kernels::{Arguments, IMAGES_MAX, Module as Unit};
use punctual_model::Network;
use thiserror::Error;

use crate::driver::{Attribute, CallError, Context, DeviceMemory, MappedMemory, Shape, Stream};
use crate::kernels::{KernelError, Kernels};
use crate::lower::{LowerError, PackError, Packer, Place, Program, Step, Target};
use crate::partition::StreamError;

/// A network and everything that its launches touch.
pub struct Direct {
    pub(super) program: Program,
    /// The largest that it is lowered for.
    pub(super) batch: u8,
    pub(super) kernels: Kernels,
    pub(super) stream: Stream,
    pages: Vec<DeviceMemory>,
    workspace: DeviceMemory,
    slots: DeviceMemory,
    /// One behind the other, as long as the input's span.
    inputs: DeviceMemory,
    words: MappedMemory,
}

/// Why a network has no class scores.
#[derive(Debug, Error)]
pub enum DirectError {
    #[error(transparent)]
    Call(#[from] CallError),
    /// It has no form on the device.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// There is no code for the device.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// Its weights do not fit halves.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// The device cannot grant the TPCs.
    #[error(transparent)]
    Divide(#[from] StreamError),
}

/// Of the words: answers, then the word that says that a stage is done.
const DONE: usize = IMAGES_MAX * size_of::<Answer>();

impl Direct {
    /// The network for up to `batch` images.
    pub fn new(context: &Arc<Context>, network: &Network, batch: u8) -> Result<Self, DirectError> {
        let program = lower(context, network, batch)?;
        Self::of(Stream::new(context, 0)?, network, program)
    }

    /// A program of the network, in a stream.
    pub(super) fn of(
        stream: Stream,
        network: &Network,
        program: Program,
    ) -> Result<Self, DirectError> {
        let context = stream.context().clone();
        let kernels = Kernels::new();
        for unit in units(&program) {
            kernels.load(&context, unit)?;
        }
        let packer = Packer::new(network, &program.pages);
        let mut bytes = vec![0; program.pages.page_bytes() as usize];
        let mut pages = Vec::new();
        for page in 0..program.pages.count() {
            bytes.fill(0);
            packer.pack(page, &mut bytes)?;
            let memory = DeviceMemory::take(&context, bytes.len())?;
            memory.write(0, &bytes)?;
            pages.push(memory);
        }
        let lists = program.stages.iter().flat_map(|stage| &stage.lists);
        let batch = lists.map(|list| list.batch).max().unwrap_or(0);
        let images = usize::from(batch);
        let take = |bytes: usize| DeviceMemory::take(&context, bytes.max(4));
        Ok(Self {
            stream,
            workspace: take(program.workspace_bytes() as usize)?,
            slots: take(program.request_bytes as usize * images)?,
            inputs: take(program.input_floats() * size_of::<f32>() * images)?,
            words: MappedMemory::take(&context, DONE + size_of::<u32>())?,
            program,
            batch,
            kernels,
            pages,
        })
    }

    /// The class scores of each image after each stage: `scores[stage][image][class]`, without classes
    /// where the stage ends in no exit. An image is `[channel][row][column]`, normalised.
    ///
    /// # Panics
    /// If there are no images or too many, or one has the wrong length.
    pub fn scores(&self, images: &[&[f32]]) -> Result<Vec<Vec<Vec<f32>>>, CallError> {
        assert!((1..=usize::from(self.batch)).contains(&images.len()));
        let floats = self.program.input_floats();
        for (member, image) in images.iter().enumerate() {
            assert_eq!(image.len(), floats, "floats of image {member}");
            let to = (&self.inputs, member * floats * size_of::<f32>());
            self.stream.copy_floats_in(image, to)?;
        }
        (0..self.program.stages.len())
            .map(|stage| self.stage(stage, images.len()))
            .collect()
    }

    fn stage(&self, stage: usize, images: usize) -> Result<Vec<Vec<f32>>, CallError> {
        let list = self.program.list(stage, self.batch);
        let list = list.expect("the batch that it was lowered for");
        for step in &list.steps {
            self.launch(step, images)?;
        }
        self.stream.synchronize()?;
        let classes = self.program.stages[stage].classes.unwrap_or(0) as usize;
        let scores = list.steps.last().map(|step| step.arguments());
        let Some(Arguments::Answers(answers)) = scores else {
            return Ok(vec![Vec::new(); images]);
        };
        let Place::Workspace { offset } = Place::decode(answers.scores) else {
            return Ok(vec![Vec::new(); images]);
        };
        let mut bytes = vec![0; classes * size_of::<f32>()];
        let of_image = |image: usize| {
            let at = offset as usize + image * answers.pitch as usize * size_of::<f32>();
            self.workspace.read(at, &mut bytes)?;
            let floats = bytes.chunks_exact(4);
            let float =
                |bytes: &[u8]| f32::from_ne_bytes(bytes.try_into().expect("chunks of four bytes"));
            Ok(floats.map(float).collect())
        };
        (0..images).map(of_image).collect()
    }

    pub(super) fn launch(&self, step: &Step, images: usize) -> Result<(), CallError> {
        let arguments = step.resolve(images, |place| self.address(place));
        let function = self.kernels.get(step.kernel);
        let function = function.ok_or(CallError::not_loaded())?;
        let shape = Shape {
            grid: step.grid(images),
            block: step.kernel.block,
            shared_bytes: step.kernel.shared_bytes,
        };
        let guard = Guard::default();
        // SAFETY: a step's arguments are those of its kernel, and its places lie within the memory
        // whose addresses `address` gives, which outlives the launch: whoever launched waits.
        unsafe {
            let guard = (&raw const guard).cast();
            let arguments = [guard, arguments.as_ptr()];
            self.stream.launch(function, shape, arguments)
        }
    }

    fn address(&self, place: Place) -> u64 {
        match place {
            Place::Nothing => 0,
            Place::Workspace { offset } => self.workspace.address() + offset,
            Place::Weights { page, offset } => {
                self.pages[page as usize].address() + u64::from(offset)
            }
            Place::Request { member, offset } => {
                self.slots.address() + u64::from(member) * self.program.request_bytes + offset
            }
            Place::Input { member, offset } => {
                let floats = u64::from(member) * self.program.input_floats() as u64;
                self.inputs.address() + floats * size_of::<f32>() as u64 + offset
            }
            // No outputs are asked for.
            Place::Outputs { .. } => 0,
            Place::Answers => self.words.address(0),
            Place::Done => self.words.address(DONE),
        }
    }
}

fn lower(context: &Context, network: &Network, batch: u8) -> Result<Program, DirectError> {
    let gpu = context.gpu();
    let target = Target {
        multiprocessors: gpu.attribute(Attribute::Multiprocessors)?,
        compute_capability: gpu.compute_capability()?,
        page_bytes: crate::PAGE_BYTES,
    };
    Ok(Program::lower(network, &[batch], &target, &[])?)
}

/// The modules that a program's launches are in.
fn units(program: &Program) -> std::collections::BTreeSet<Unit> {
    let lists = program.stages.iter().flat_map(|stage| &stage.lists);
    let steps = lists.flat_map(|list| &list.steps);
    steps.map(|step| step.kernel.module).collect()
}
