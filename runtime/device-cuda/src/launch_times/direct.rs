//! A network's launches on memory of their own, one after the other and without a queue: so that each can be measured.

use punctual_cuda_kernels::params::{Answer, Guard};
use punctual_cuda_kernels::{IMAGES_MAX, Module as Unit};
use punctual_model::Network;

use crate::StartError;
use crate::driver::{CallError, DeviceMemory, MappedMemory, Stream};
use crate::kernels::Kernels;
use crate::lower::{Packer, Place, Program, Step};

/// A network and everything that its launches touch.
pub struct Direct {
    pub(super) stream: Stream,
    pub(super) kernels: Kernels,
    program: Program,
    pages: Vec<DeviceMemory>,
    workspace: DeviceMemory,
    slots: DeviceMemory,
    /// One behind the other, as long as the input's span.
    inputs: DeviceMemory,
    words: MappedMemory,
}

/// Of the words: answers, then the word that says that a stage is done.
const DONE: usize = IMAGES_MAX * size_of::<Answer>();

impl Direct {
    /// A program of the network, which launches into `stream`.
    pub fn new(stream: Stream, network: &Network, program: Program) -> Result<Self, StartError> {
        let context = stream.context().clone();
        let kernels = Kernels::default();
        let lists = || program.stages.iter().flat_map(|stage| &stage.lists);
        let steps = lists().flat_map(|list| &list.steps);
        let units: std::collections::BTreeSet<Unit> =
            steps.map(|step| step.kernel.module).collect();
        for unit in units {
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
        let images = lists().map(|list| usize::from(list.batch)).max();
        let images = images.unwrap_or(0);
        let take = |bytes: usize| DeviceMemory::take(&context, bytes.max(4));
        Ok(Self {
            workspace: take(program.workspace_bytes() as usize)?,
            slots: take(program.request_bytes as usize * images)?,
            inputs: take(program.input_floats() * size_of::<f32>() * images)?,
            words: MappedMemory::take(&context, DONE + size_of::<u32>())?,
            stream,
            kernels,
            program,
            pages,
        })
    }

    #[must_use]
    pub const fn program(&self) -> &Program {
        &self.program
    }

    /// Where values of a stage lie until the next one is run.
    #[must_use]
    pub const fn workspace(&self) -> &DeviceMemory {
        &self.workspace
    }

    /// Brings the inputs of all members: `[channel][row][column]`, normalised.
    ///
    /// # Panics
    /// If one has the wrong length, or there are more than the largest batch.
    pub fn bring(&self, images: &[&[f32]]) -> Result<(), CallError> {
        let floats = self.program.input_floats();
        for (member, image) in images.iter().enumerate() {
            assert_eq!(image.len(), floats, "floats of image {member}");
            let to = member * floats * size_of::<f32>();
            self.stream.copy_floats_in(image, &self.inputs, to)?;
        }
        Ok(())
    }

    /// Runs the launches of a list for `images` members, and waits for them.
    pub fn run(&self, steps: &[Step], images: usize) -> Result<(), CallError> {
        for step in steps {
            self.launch(step, images)?;
        }
        self.stream.synchronize()
    }

    pub(super) fn launch(&self, step: &Step, images: usize) -> Result<(), CallError> {
        let arguments = step.resolve(images, |place| self.address(place));
        let grid = step.grid(images);
        // SAFETY: a step's arguments are those of its kernel, and its places lie within the memory
        // whose addresses `address` gives, which outlives the launch: freeing memory waits for the device.
        unsafe {
            let guard = &Guard::default();
            self.kernels
                .launch(&self.stream, step.kernel, grid, guard, &arguments)
        }
    }

    fn address(&self, place: Place) -> u64 {
        match place {
            // No outputs are asked for.
            Place::Nothing | Place::Outputs { .. } => 0,
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
            Place::Answers => self.words.address(0),
            Place::Done => self.words.address(DONE),
        }
    }
}
