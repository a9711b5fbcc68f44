//! Memory for lowered programs, and their launches on the emulated kernels.
#![allow(dead_code, reason = "each test uses its part")]

use emulated_cuda::{Shape, Source, Target};
use punctual_cuda_kernels::params::{Answer, Guard};
use punctual_cuda_kernels::{Arguments, KERNELS, Kernel, Module};
use punctual_device_cuda::lower::{Packer, Place, Program, Step};
use punctual_model::{Exit, Network, ScoreForm};
use punctual_ptx::{Arithmetic, Region, Space};

/// What pages and workspaces are aligned to.
#[derive(Clone, Copy)]
#[repr(C, align(256))]
struct Line([u8; 256]);

/// Bytes that begin at a multiple of 256. Only kernels write them, by address.
struct Bytes(Box<[Line]>);

impl Bytes {
    fn filled(bytes: usize, with: u8) -> Self {
        Self(vec![Line([with; 256]); bytes.div_ceil(256).max(1)].into())
    }

    fn address(&mut self) -> u64 {
        self.0.as_mut_ptr() as u64
    }

    fn bytes(&self) -> u64 {
        256 * self.0.len() as u64
    }

    /// Memory that was not written yet.
    fn fresh(&mut self) -> Region {
        Region::fresh(self.address(), self.bytes())
    }
}

/// The kernel of the module `general` that computes the same from the same arguments as one of a tile, from the same weights.
fn general(kernel: &'static Kernel) -> &'static Kernel {
    let same = |other: &&Kernel| {
        other.module == Module::General && kernel.tile.is_some() && other.pattern == kernel.pattern
    };
    KERNELS.iter().find(same).unwrap_or(kernel)
}

/// All that a program's launches touch, for some requests.
pub struct Memory {
    /// What kernels may access of the following.
    space: Space,
    workspace: Bytes,
    pages: Vec<Bytes>,
    slots: Vec<Bytes>,
    outputs: Bytes,
    /// Each image has its vectors behind it.
    images: Vec<Vec<f32>>,
    answers: Vec<Answer>,
    exits: Vec<Option<Exit>>,
    done: u32,
    epoch: u32,
    /// Whether general kernels replace tiles.
    pub stand_in: bool,
    pub stood_in: usize,
}

impl Memory {
    pub fn new(network: &Network, program: &Program, images: &[Vec<f32>]) -> Self {
        let packer = Packer::new(network, &program.pages);
        let page_bytes = program.pages.page_bytes() as usize;
        let pack = |page| {
            let mut bytes = vec![0; page_bytes];
            packer.pack(page, &mut bytes).expect("halves hold it");
            let mut packed = Bytes::filled(page_bytes, 0);
            for (line, bytes) in packed.0.iter_mut().zip(bytes.chunks(256)) {
                line.0[..bytes.len()].copy_from_slice(bytes);
            }
            packed
        };
        let slot = |_: &Vec<f32>| Bytes::filled(program.request_bytes as usize, 0xff);
        let mut memory = Self {
            space: Space::new(),
            workspace: Bytes::filled(program.workspace_bytes() as usize, 0xff),
            pages: (0..program.pages.count()).map(pack).collect(),
            slots: images.iter().map(slot).collect(),
            outputs: Bytes::filled(program.output_bytes(), 0xff),
            images: images.to_vec(),
            answers: vec![Answer::default(); images.len()],
            exits: network.stages.iter().map(|s| s.exit.clone()).collect(),
            done: 0,
            epoch: 1,
            stand_in: false,
            stood_in: 0,
        };
        memory.share();
        memory
    }

    /// Lists what kernels may access. Requests carry what is in their slots from stage to stage.
    fn share(&mut self) {
        let space = &self.space;
        for page in &mut self.pages {
            space.add(Region::written(page.address(), page.bytes()));
        }
        for slot in &mut self.slots {
            space.add(slot.fresh());
        }
        for image in &self.images {
            space.add(Region::written(
                image.as_ptr() as u64,
                size_of_val(&**image) as u64,
            ));
        }
        let answers = self.answers.as_mut_ptr() as u64;
        space.add(Region::written(answers, size_of_val(&*self.answers) as u64));
        space.add(self.workspace.fresh());
        space.add(self.outputs.fresh());
    }

    pub fn damage(&mut self, page: usize, half: usize) {
        let line = &mut self.pages[page].0[half / 128].0;
        // The sign and the highest bit of the exponent.
        line[half % 128 * 2 + 1] ^= 0xc0;
    }

    /// Runs a stage for all requests and returns each one's class scores.
    pub fn run(&mut self, program: &Program, stage: usize, batch: u8) -> Vec<Vec<f32>> {
        let list = program.list(stage, batch).expect("prepared");
        let members = self.images.len();
        // Unwritten memory is NaN.
        self.workspace.0.fill(Line([0xff; 256]));
        for memory in [&mut self.workspace, &mut self.outputs] {
            self.space.remove(memory.address());
            self.space.add(memory.fresh());
        }
        self.done = 0;
        let mut scores = Vec::new();
        for step in &list.steps {
            let mut arguments = step.resolve(members, |place| self.address(place));
            if let Arguments::Answers(answers) = &mut arguments {
                answers.sequence = 7;
                let classes = program.stages[stage].classes.unwrap_or(0) as usize;
                scores = (0..members)
                    .map(|member| self.floats(answers.scores, member, answers.pitch, classes))
                    .collect();
            }
            let kernel = if self.stand_in {
                general(step.kernel)
            } else {
                step.kernel
            };
            self.stood_in += usize::from(kernel.name != step.kernel.name);
            self.launch(kernel, step, &arguments);
        }
        assert_eq!(self.done, 7, "the stage said that it is done");
        let is_softmax = |exit: &Exit| {
            let scores = exit.scores.as_ref();
            exit.confidence.is_none() && scores.is_some_and(|s| s.form == ScoreForm::Softmax)
        };
        let is_softmax = self.exits[stage].as_ref().is_some_and(is_softmax);
        for (answer, scores) in self.answers.iter().zip(&scores) {
            if is_softmax && !scores.is_empty() {
                if scores.iter().any(|score| !score.is_finite()) {
                    assert_eq!(answer.confidence, 0.0);
                    continue;
                }
                let (class, confidence) = punctual_model::reference::classify(scores);
                assert_eq!(answer.class_index as usize, class);
                assert!((answer.confidence - confidence).abs() < 1e-5);
            }
        }
        scores
    }

    /// The outputs of the stage that ran last, as they lie in a member's area from the first output on.
    pub fn outputs(&self, program: &Program, stage: usize, member: usize) -> Vec<u8> {
        let Some(staged) = &program.stages[stage].outputs else {
            return Vec::new();
        };
        let all = self.outputs.0.iter().flat_map(|line| line.0);
        all.skip(member * staged.pitch).take(staged.bytes).collect()
    }

    /// The answer for a member of the stage that ran last.
    pub fn answer(&self, member: usize) -> Answer {
        self.answers[member]
    }

    fn launch(&self, kernel: &Kernel, step: &Step, arguments: &Arguments) {
        let mut first_evicted = u32::MAX;
        let guard = Guard {
            epoch_now: &raw const self.epoch as u64,
            first_evicted: &raw mut first_evicted as u64,
            epoch: self.epoch,
            check_stride: 1,
            ..Guard::default()
        };
        let shape = Shape {
            grid: kernel.grid(arguments).expect("its own arguments"),
            block: [kernel.block, 1, 1],
            shared_bytes: kernel.shared_bytes as usize,
        };
        let words = [
            guard.epoch_now,
            guard.first_evicted,
            &raw const self.done as u64,
        ];
        for word in words {
            self.space.add(Region::written(word, 4));
        }
        let target = Target {
            space: &self.space,
            source: Source::Image("sm_87"),
            arithmetic: Arithmetic::Exact,
            seed: 0,
        };
        let ran = target.run(kernel.name, shape, &[&guard, arguments], |_| {});
        for word in words {
            self.space.remove(word);
        }
        if let Err(error) = ran {
            panic!("{}: {error}", step.name);
        }
        assert_eq!(first_evicted, u32::MAX);
    }

    fn address(&mut self, place: Place) -> u64 {
        match place {
            Place::Nothing => 0,
            Place::Workspace { offset } => self.workspace.address() + offset,
            Place::Weights { page, offset } => {
                self.pages[page as usize].address() + u64::from(offset)
            }
            Place::Request { member, offset } => self.slots[usize::from(member)].address() + offset,
            Place::Input { member, offset } => {
                self.images[usize::from(member)].as_ptr() as u64 + offset
            }
            Place::Outputs { offset } => self.outputs.address() + offset,
            Place::Answers => self.answers.as_mut_ptr() as u64,
            Place::Done => &raw mut self.done as u64,
        }
    }

    /// An image's class scores: floats in the workspace.
    fn floats(&mut self, scores: u64, member: usize, pitch: u32, classes: usize) -> Vec<f32> {
        if scores == 0 {
            return Vec::new();
        }
        let first = (scores - self.workspace.address()) as usize + 4 * member * pitch as usize;
        let bytes = self.workspace.0.iter().flat_map(|line| line.0);
        let bytes: Vec<u8> = bytes.skip(first).take(4 * classes).collect();
        let words = bytes.as_chunks().0.iter();
        words.map(|word| f32::from_ne_bytes(*word)).collect()
    }
}

/// Checks class scores that were computed in halves.
///
/// Each of `layers` operators rounds its weights and its result to halves, relative errors of at
/// most 2^-11 each. Errors of different signs add up like the root of their number; four times
/// that, of the largest score, is allowed.
pub fn assert_scores(found: &[f32], expected: &[f32], layers: usize, what: &str) {
    assert_within(found, expected, layers, 0.0, what);
}

/// As [`assert_scores`], and `more` besides: of a network with tensors of bytes a few of their steps, since a value
/// between two bytes may become either.
pub fn assert_within(found: &[f32], expected: &[f32], layers: usize, more: f32, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = expected
        .iter()
        .fold(0.0_f32, |largest, x| largest.max(x.abs()));
    let tolerance = 4.0 * (2.0 * layers as f32).sqrt() / 2048.0 * largest + more;
    for (class, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(
            (found - expected).abs() <= tolerance,
            "{what}, class {class}: {found} instead of {expected}, tolerance {tolerance}"
        );
    }
}
