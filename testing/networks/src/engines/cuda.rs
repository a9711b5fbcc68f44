//! The CUDA device's programs, their kernels interpreted launch by launch. Memory that was never written cannot be read there.

use punctual_device_cuda::lower::{Program, Target};
use punctual_model::OutputLayout;
use punctual_model::reference::Exited;

use super::emulation::Memory;
use super::run::{Answers, Run, RunError, Subject};
use crate::requests::Request;

const TARGET: Target = Target {
    multiprocessors: 8,
    compute_capability: (8, 7),
    page_bytes: 1 << 20,
};

pub(super) struct Cuda<'a> {
    subject: &'a Subject<'a>,
    program: Program,
    layout: OutputLayout,
}

impl<'a> Cuda<'a> {
    pub fn start(subject: &'a Subject<'_>, batch_max: usize) -> Result<Self, RunError> {
        let network = subject.network();
        let layout = OutputLayout::of(network, |_| true);
        let batches = [1, batch_max as u8];
        let program = Program::with_outputs(network, Some(&layout), &batches, &TARGET, &[])?;
        Ok(Self {
            subject,
            program,
            layout,
        })
    }

    /// What the stage that ran last gives a member.
    fn exited(
        &self,
        memory: &Memory,
        stage: usize,
        member: usize,
        scores: Vec<f32>,
    ) -> Option<Exited> {
        let exit = self.subject.network().stages[stage].exit.as_ref()?;
        let bytes = memory.outputs(&self.program, stage, member);
        let placed = self
            .layout
            .stage(stage)
            .map_or(&[][..], |placed| &placed.outputs);
        let first = placed.iter().map(|output| output.offset).min().unwrap_or(0);
        let outputs = placed.iter().map(|placed| {
            let own = &bytes[(placed.offset - first) as usize..][..placed.bytes as usize];
            exit.outputs[placed.output].element.read(own).collect()
        });
        let answer = memory.answer(member);
        Some(Exited {
            outputs: outputs.collect(),
            scores,
            confidence: exit.confidence.map(|_| answer.confidence),
        })
    }
}

impl Run for Cuda<'_> {
    fn run(&mut self, requests: &[&Request]) -> Result<Answers, RunError> {
        let network = self.subject.network();
        let images: Vec<Vec<f32>> = requests.iter().map(|inputs| inputs.concat()).collect();
        let mut memory = Memory::new(network, &self.program, &images);
        let mut answers = vec![Vec::new(); requests.len()];
        for stage in 0..network.stages.len() {
            let scores = memory.run(&self.program, stage, requests.len() as u8);
            let scores = scores.into_iter().chain(std::iter::repeat(Vec::new()));
            for (member, (answers, scores)) in answers.iter_mut().zip(scores).enumerate() {
                answers.extend(self.exited(&memory, stage, member, scores));
            }
        }
        Ok(answers)
    }
}
