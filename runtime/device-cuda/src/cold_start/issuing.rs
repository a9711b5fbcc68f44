//! The issuing thread: launches, and answers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_cuda_kernels::Arguments;
use punctual_cuda_kernels::params::{Answer, Answers, Guard};
use punctual_platform::clock;

use super::loading::Ready;
use super::{BATCH, ColdStartError, FirstAnswer, Progress, now};
use crate::driver::{CallError, Context, DeviceMemory, MappedMemory, Shape, Stream};
use crate::kernels::Kernels;
use crate::lower::Place;

/// Where the answer lies in mapped memory; the word that says that a stage is done is at its start.
const ANSWER: usize = 64;
const MAPPED_BYTES: usize = 128;
/// How often the driver is asked whether the device still works.
const ASK_NS: u64 = 200_000;

pub(super) struct Issuing {
    stream: Arc<Stream>,
    kernels: Arc<Kernels>,
    pages: (Arc<DeviceMemory>, u32),
    slot: DeviceMemory,
    input: DeviceMemory,
    words: MappedMemory,
    /// The largest is in use; smaller ones are kept, as giving memory back may wait for the device.
    workspaces: Vec<DeviceMemory>,
    progress: Arc<Progress>,
    limit_ns: u64,
}

impl Issuing {
    pub(super) fn new(
        stream: Arc<Stream>,
        kernels: Arc<Kernels>,
        pages: (Arc<DeviceMemory>, u32),
        (request_bytes, input): (u64, &[f32]),
        (progress, limit_ns): (Arc<Progress>, u64),
    ) -> Result<Self, CallError> {
        let context: &Arc<Context> = stream.context();
        let on_device = DeviceMemory::take(context, size_of_val(input))?;
        stream.copy_floats_in(input, (&on_device, 0))?;
        Ok(Self {
            slot: DeviceMemory::take(context, request_bytes as usize)?,
            input: on_device,
            words: MappedMemory::take(context, MAPPED_BYTES)?,
            workspaces: Vec::new(),
            stream,
            kernels,
            pages,
            progress,
            limit_ns,
        })
    }

    /// Launches what comes, in order, and waits for the answer of each stage.
    pub(super) fn run(
        &mut self,
        ready: impl Iterator<Item = Result<Ready, ColdStartError>>,
    ) -> Result<Vec<FirstAnswer>, ColdStartError> {
        let context = self.stream.context().clone();
        context.bind()?;
        let mut exits = Vec::new();
        for ready in ready {
            let ready = ready?;
            if let Some(answers) = self.launch(&ready)? {
                let answer = self.answer(&ready, &answers);
                if matches!(answer, Err(ColdStartError::Hang { .. })) {
                    // Giving anything back would wait for the device.
                    context.abandon();
                }
                exits.push(answer?);
            }
        }
        Ok(exits)
    }

    /// Launches; what was launched, if that ends the stage.
    fn launch(&mut self, ready: &Ready) -> Result<Option<Answers>, ColdStartError> {
        self.make_room(ready.list.workspace_bytes)?;
        if let Some(after) = &ready.after {
            self.stream.wait_for(after)?;
        }
        let step = &ready.list.steps[ready.step];
        let mut arguments = step.resolve(BATCH.into(), |place| self.address(place));
        let last = match &mut arguments {
            Arguments::Answers(answers) => {
                answers.sequence = ready.stage as u32 + 1;
                Some(*answers)
            }
            _ => None,
        };
        let grid = ready.kernel.grid(&arguments);
        let function = self.kernels.get(ready.kernel);
        let (Some(grid), Some(function)) = (grid, function) else {
            return Err(CallError::not_loaded().into());
        };
        let shape = Shape {
            grid,
            block: ready.kernel.block,
            shared_bytes: ready.kernel.shared_bytes,
        };
        // Never evicted.
        let guard = Guard::default();
        let launched = [(&raw const guard).cast(), arguments.as_ptr()];
        // SAFETY: a step's arguments are those of its kernel, and of every other one of its pattern;
        // its places lie within the workspace, pages, slot and input whose addresses `address` gives,
        // which live until the device has done everything, or is abandoned.
        unsafe { self.stream.launch(function, shape, launched)? };
        // Relaxed: see the milestone.
        self.progress.issued.fetch_add(1, Ordering::Relaxed);
        Ok(last)
    }

    fn make_room(&mut self, bytes: u64) -> Result<(), CallError> {
        let largest = self.workspaces.last();
        if largest.is_none_or(|largest| (largest.bytes() as u64) < bytes) {
            let context = self.stream.context();
            self.workspaces
                .push(DeviceMemory::take(context, bytes as usize)?);
        }
        Ok(())
    }

    fn address(&self, place: Place) -> u64 {
        let workspace = self.workspaces.last().map_or(0, DeviceMemory::address);
        match place {
            Place::Nothing => 0,
            Place::Workspace { offset } => workspace + offset,
            Place::Weights { page, offset } => {
                let (pages, page_bytes) = &self.pages;
                pages.address() + u64::from(page) * u64::from(*page_bytes) + u64::from(offset)
            }
            Place::Request { offset, .. } => self.slot.address() + offset,
            Place::Input { offset, .. } => self.input.address() + offset,
            // No outputs are asked for.
            Place::Outputs { .. } => 0,
            Place::Answers => self.words.address(ANSWER),
            Place::Done => self.words.address(0),
        }
    }

    /// Waits until the stage is done.
    fn answer(&self, ready: &Ready, answers: &Answers) -> Result<FirstAnswer, ColdStartError> {
        let done = self.words.word(0);
        let begun = clock::now_ns();
        let mut ask = begun + ASK_NS;
        // Acquire: pairs with the device's fence before it writes the word (label DONE).
        while done.load(Ordering::Acquire) != answers.sequence {
            std::hint::spin_loop();
            let now = clock::now_ns();
            if now - begun > self.limit_ns {
                return Err(ColdStartError::Hang {
                    stage: ready.stage,
                    limit_ns: self.limit_ns,
                });
            }
            if now >= ask {
                ask = now + ASK_NS;
                // Only for its error: a device that failed never writes the word.
                self.stream.is_idle()?;
            }
        }
        let at = now();
        let mut bytes = [0; size_of::<Answer>()];
        self.words.read(ANSWER, &mut bytes);
        let [a, b, c, d, e, f, g, h, ..] = bytes;
        Ok(FirstAnswer {
            at,
            class: u32::from_le_bytes([a, b, c, d]),
            confidence: f32::from_le_bytes([e, f, g, h]),
            scores: self.scores(answers, ready.classes)?,
        })
    }

    fn scores(&self, answers: &Answers, classes: Option<u32>) -> Result<Vec<f32>, CallError> {
        let workspace = self.workspaces.last();
        let (Some(classes), Some(workspace)) = (classes, workspace) else {
            return Ok(Vec::new());
        };
        let mut bytes = vec![0; classes as usize * size_of::<f32>()];
        let offset = answers.scores - workspace.address();
        workspace.read(offset as usize, &mut bytes)?;
        let floats = bytes.chunks_exact(4);
        let floats =
            floats.map(|float| f32::from_le_bytes([float[0], float[1], float[2], float[3]]));
        Ok(floats.collect())
    }
}
