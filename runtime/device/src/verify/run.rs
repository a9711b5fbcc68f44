//! A device whose answers are compared.

use std::sync::Arc;

use punctual_core::{
    ActionId, Answer, Confidence, Criticality, Event, Finished, Infer, Instant, ModelId,
    PartitionId, RequestId, StageId, Window,
};
use punctual_model::reference::agreement::{
    Compared, ExpectedExit, Mismatch, Precision, agrees_with_more_noise,
};
use punctual_model::{Disagreement, Network, OutputLayout};
use punctual_platform::Doorbell;

use super::{Case, Outcome};
use crate::device::Device;
use crate::profile::{MeasureError, Subject, all_outputs, give_areas};
use crate::provider::Provider;
use crate::shell::HostedDevice;
use crate::spec::{DeviceSpec, ModelSpec, Start};

const MODEL: ModelId = ModelId(0);

/// What a client gets of outputs that were not written.
const UNWRITTEN: u8 = 0xff;

/// A device with one partition and a request buffer for each member of the largest batch.
pub(super) struct Bench<'a, D> {
    device: D,
    bell: Arc<Doorbell>,
    network: &'a Network,
    layout: OutputLayout,
    units: u8,
    precision: Precision,
    actions: u64,
}

impl<'a, D: HostedDevice> Bench<'a, D> {
    pub(super) fn start<P: Provider<Device = D>>(
        provider: &P,
        subject: Subject<'a>,
        batches: &[u8],
        units: u8,
    ) -> Result<Self, MeasureError<P::Error>> {
        let network = subject.package.network();
        let layout = all_outputs(network);
        let buffers = batches.iter().copied().max().unwrap_or(1).into();
        let model = ModelSpec {
            outputs: Some(&layout),
            solutions: subject.solutions,
            poisoned: true,
            ..ModelSpec::resident(network, batches)
        };
        let spec = DeviceSpec {
            models: &[model],
            partitions: &provider.partitions(&[units]).map_err(MeasureError::Start)?,
            request_buffers: buffers,
            cache: None,
            start: Start::Whole,
        };
        let bell = Arc::new(Doorbell::new());
        let device = provider.start(&spec, bell.clone());
        let device = device.map_err(MeasureError::Start)?;
        give_areas(&device.shell().input_buffers(), 0..buffers, &layout);
        Ok(Self {
            device,
            bell,
            network,
            layout,
            units,
            precision: P::PRECISION,
            actions: 0,
        })
    }

    /// Runs all stages for a batch whose members have the inputs from `first` on, again from the first behind the last.
    pub(super) fn batch<E>(
        &mut self,
        cases: &[Case],
        first: usize,
        batch: u8,
    ) -> Result<Outcome, MeasureError<E>> {
        let case_of = |buffer: u16| (first + usize::from(buffer)) % cases.len();
        for buffer in 0..batch.into() {
            self.prepare(buffer, &cases[case_of(buffer)]);
        }
        let mut compared = Compared::default();
        for stage in 0..self.network.stages.len() as u8 {
            let mut members: Vec<u16> = (0..batch.into()).collect();
            if stage % 2 == 1 {
                members.reverse();
            }
            let finished = self.run(stage, &members)?;
            for (member, &buffer) in (0..).zip(&members) {
                let case = case_of(buffer);
                let Some(expected) = &cases[case].expected[usize::from(stage)] else {
                    continue;
                };
                let answer = finished.members[usize::from(member)];
                match self.compare(stage, buffer, answer, expected) {
                    Ok(more) => compared.add(more),
                    Err(_) if self.agrees_otherwise(stage, buffer, answer, &cases[case]) => {}
                    Err(mismatch) => {
                        let input = case as u32;
                        let found = self.disagreement(stage, batch, member, input, &mismatch);
                        return Ok(Err(found));
                    }
                }
            }
        }
        Ok(Ok(compared))
    }

    /// Writes a request's input, and over its area.
    fn prepare(&self, buffer: u16, case: &Case) {
        let inputs = self.device.shell().input_buffers();
        let writer = inputs.claim(buffer, MODEL);
        let mut writer = writer.expect("there is no other claim");
        let (image, vectors) = case.inputs.split_first().expect("there is an input");
        writer.write_planar(image);
        for (at, vector) in vectors.iter().enumerate() {
            writer.vector(at).copy_from_slice(vector);
        }
        drop(writer);
        let claim = inputs.regions().claim(buffer.into());
        let mut claim = claim.expect("there is no other claim");
        if let Some(area) = claim.area() {
            area.as_mut_slice().fill(UNWRITTEN);
        }
    }

    fn run<E>(&mut self, stage: u8, buffers: &[u16]) -> Result<Finished, MeasureError<E>> {
        self.actions += 1;
        let batch = buffers.len() as u8;
        let member = |&buffer: &u16| RequestId {
            buffer,
            generation: 0,
        };
        let infer = Infer {
            id: ActionId(self.actions),
            partition: PartitionId(0),
            model: MODEL,
            stage: StageId(stage),
            batch,
            members: buffers.iter().map(member).collect(),
            window: Window {
                earliest: Instant::ZERO,
                latest: Instant::FAR_FUTURE,
            },
            criticality: Criticality::RealTime,
        };
        self.device
            .submit(&infer)
            .expect("the device was started for this action, and holds no other");
        let mut seen = self.bell.count();
        loop {
            match self.device.poll() {
                Some(Event::Finished(finished)) => return Ok(finished),
                Some(_) => return Err(MeasureError::Failed { stage, batch }),
                None => seen = self.bell.wait(seen, None),
            }
        }
    }

    /// Compares what a request got of a stage.
    fn compare(
        &self,
        stage: u8,
        buffer: u16,
        answer: Answer,
        expected: &ExpectedExit,
    ) -> Result<Compared, Mismatch> {
        let mut compared = Compared::default();
        let exit = self.network.stages[usize::from(stage)].exit.as_ref();
        let declared = &exit.expect("something is expected of it").outputs;
        let inputs = self.device.shell().input_buffers();
        let claim = inputs.regions().claim(buffer.into());
        let mut claim = claim.expect("the stage is over");
        let area = claim.area().map_or(&[][..], |area| area.as_slice());
        let placed = self.layout.stage(stage.into());
        for placed in placed.into_iter().flat_map(|placed| &placed.outputs) {
            let bytes = &area[placed.offset as usize..][..placed.bytes as usize];
            let found: Vec<f32> = declared[placed.output].element.read(bytes).collect();
            compared.add(expected.outputs[placed.output].compare(&found)?);
        }
        let (sure, step) = (
            answer.confidence.as_probability(),
            Confidence(1).as_probability(),
        );
        compared.add(expected.compare_answer(answer.class, sure, step)?);
        Ok(compared)
    }

    /// Whether what a request got of a stage agrees with what other noise expects.
    fn agrees_otherwise(&self, stage: u8, buffer: u16, answer: Answer, case: &Case) -> bool {
        let inputs: Vec<&[f32]> = case.inputs.iter().map(Vec::as_slice).collect();
        agrees_with_more_noise(self.network, &inputs, self.precision, case.seed, |exits| {
            let expected = exits[usize::from(stage)].as_ref();
            expected.is_none_or(|expected| self.compare(stage, buffer, answer, expected).is_ok())
        })
    }

    fn disagreement(
        &self,
        stage: u8,
        batch: u8,
        member: u8,
        input: u32,
        mismatch: &Mismatch,
    ) -> Disagreement {
        let (output, position, [found, expected, tolerance]) = match mismatch {
            Mismatch::Value {
                output,
                position,
                found,
                expected,
                tolerance,
            } => (
                output.clone(),
                Some(*position as u64),
                [found, expected, tolerance].map(f32::to_string),
            ),
            Mismatch::Best { found, expected } => {
                let classes = [found, expected].map(usize::to_string);
                let [found, expected] = classes;
                (
                    "the best class".to_owned(),
                    None,
                    [found, expected, 0.to_string()],
                )
            }
            Mismatch::Length {
                output,
                found,
                expected,
            } => {
                let [found, expected] = [found, expected].map(|count| format!("{count} elements"));
                (output.clone(), None, [found, expected, 0.to_string()])
            }
            Mismatch::Outputs { found, expected } => {
                let [found, expected] = [found, expected].map(|count| format!("{count} outputs"));
                (
                    "the exit".to_owned(),
                    None,
                    [found, expected, 0.to_string()],
                )
            }
        };
        Disagreement {
            stage,
            batch,
            units: self.units,
            member,
            input,
            output,
            position,
            found,
            expected,
            tolerance,
            solution: None,
        }
    }
}
