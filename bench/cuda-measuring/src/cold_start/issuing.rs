//! Launches, and answers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_cuda_kernels::Arguments;
use punctual_cuda_kernels::params::{Answer, Answers, Guard};
use punctual_device_cuda::driver::{CallError, DeviceMemory, MappedMemory};
use punctual_device_cuda::lower::Place;
use punctual_platform::clock;

use super::loading::Ready;
use super::{BATCH, ColdStartError, FirstAnswer, Shared, now};
use crate::scores;

/// Where the answer lies in mapped memory; the word that says that a stage is done is at its start.
const ANSWER: usize = 64;
const MAPPED_BYTES: usize = 128;
/// How often the driver is asked whether the device still works.
const ASK_NS: u64 = 200_000;

pub(super) struct Issuing {
    shared: Arc<Shared>,
    pages: Arc<DeviceMemory>,
    slot: DeviceMemory,
    input: DeviceMemory,
    words: MappedMemory,
    workspace: DeviceMemory,
    limit_ns: u64,
}

impl Issuing {
    pub(super) fn new(
        shared: Arc<Shared>,
        pages: Arc<DeviceMemory>,
        input: &[f32],
        limit_ns: u64,
    ) -> Result<Self, CallError> {
        let (context, program) = (&shared.context, &shared.program);
        let on_device = DeviceMemory::take(context, size_of_val(input))?;
        shared.stream.copy_floats_in(input, (&on_device, 0))?;
        Ok(Self {
            slot: DeviceMemory::take(context, program.request_bytes as usize)?,
            input: on_device,
            words: MappedMemory::take(context, MAPPED_BYTES)?,
            workspace: DeviceMemory::take(context, program.workspace_bytes() as usize)?,
            shared,
            pages,
            limit_ns,
        })
    }

    /// Launches what comes, in order, and waits for the answer of each stage.
    pub(super) fn run(
        &mut self,
        ready: impl Iterator<Item = Result<Ready, ColdStartError>>,
    ) -> Result<Vec<FirstAnswer>, ColdStartError> {
        self.shared.context.bind()?;
        let mut exits = Vec::new();
        for ready in ready {
            let ready = ready?;
            if let Some(answers) = self.launch(&ready)? {
                let answer = self.answer(ready.stage, &answers);
                if matches!(answer, Err(ColdStartError::Hang { .. })) {
                    // Giving anything back would wait for the device.
                    self.shared.context.abandon();
                }
                exits.push(answer?);
            }
        }
        Ok(exits)
    }

    /// Launches; what was launched, if that ends the stage.
    fn launch(&mut self, ready: &Ready) -> Result<Option<Answers>, CallError> {
        let Shared {
            stream, program, ..
        } = &*self.shared;
        if let Some(after) = &ready.after {
            stream.wait_for(after)?;
        }
        let step = &program.stages[ready.stage].lists[0].steps[ready.step];
        let mut arguments = step.resolve(BATCH.into(), |place| self.address(place));
        let last = match &mut arguments {
            Arguments::Answers(answers) => {
                answers.sequence = ready.stage as u32 + 1;
                Some(*answers)
            }
            _ => None,
        };
        let grid = ready.kernel.grid(&arguments);
        let of = (ready.kernel, grid.expect("a step's arguments have a grid"));
        // Never evicted.
        let guard = Guard::default();
        // SAFETY: a step's arguments are those of its kernel, and of every other one of its pattern;
        // its places lie within the workspace, pages, slot and input whose addresses `address` gives,
        // which live until the device has done everything, or is abandoned.
        unsafe { self.shared.kernels.launch(stream, of, &guard, &arguments)? };
        // Relaxed: see the milestone.
        self.shared.issued.fetch_add(1, Ordering::Relaxed);
        Ok(last)
    }

    fn address(&self, place: Place) -> u64 {
        match place {
            // No outputs are asked for.
            Place::Nothing | Place::Outputs { .. } => 0,
            Place::Workspace { offset } => self.workspace.address() + offset,
            Place::Weights { page, offset } => {
                let page_bytes = self.shared.program.pages.page_bytes();
                self.pages.address() + u64::from(page) * u64::from(page_bytes) + u64::from(offset)
            }
            Place::Request { offset, .. } => self.slot.address() + offset,
            Place::Input { offset, .. } => self.input.address() + offset,
            Place::Answers => self.words.address(ANSWER),
            Place::Done => self.words.address(0),
        }
    }

    /// Waits until the stage is done.
    fn answer(&self, stage: usize, answers: &Answers) -> Result<FirstAnswer, ColdStartError> {
        let done = self.words.word(0);
        let begun = clock::now_ns();
        let mut ask = begun + ASK_NS;
        // Acquire: pairs with the device's fence before it writes the word (label DONE).
        while done.load(Ordering::Acquire) != answers.sequence {
            std::hint::spin_loop();
            let now = clock::now_ns();
            if now - begun > self.limit_ns {
                return Err(ColdStartError::Hang {
                    stage,
                    limit_ns: self.limit_ns,
                });
            }
            if now >= ask {
                ask = now + ASK_NS;
                // Only for its error: a device that failed never writes the word.
                self.shared.stream.is_idle()?;
            }
        }
        let at = now();
        let mut bytes = [0; size_of::<Answer>()];
        self.words.read(ANSWER, &mut bytes);
        let [a, b, c, d, e, f, g, h, ..] = bytes;
        let classes = self.shared.program.stages[stage].classes.unwrap_or(0);
        let offset = answers.scores.saturating_sub(self.workspace.address());
        Ok(FirstAnswer {
            at,
            class: u32::from_le_bytes([a, b, c, d]),
            confidence: f32::from_le_bytes([e, f, g, h]),
            scores: scores::floats(&self.workspace, offset, classes)?,
        })
    }
}
