//! A device, started for a measurement, and one thread that has it run stages.

use std::sync::Arc;

use punctual_core::{
    ActionId, Criticality, Event, Finished, Infer, Instant, ModelId, PartitionId, RequestId,
    StageId, Window,
};
use punctual_device::pool::Wait;
use punctual_device::{
    CacheSpec, Device, DeviceSpec, HostedDevice, InputBuffers, ModelSpec, PartitionSpec, Start,
};
use punctual_device_cuda::driver::{Attribute, Gpu};
use punctual_device_cuda::kernel_padding::KernelPaddingSpec;
use punctual_device_cuda::queue::{FlagPlace, QueueSpec};
use punctual_device_cuda::{CudaDevice, CudaSpec, Division, Watchdog};
use punctual_model::Network;
use punctual_platform::{Doorbell, affinity, clock};

use super::step::{Session, StepError};

/// Longer than anything here takes. A device that says nothing for so long is stuck.
const STUCK_NS: u64 = 20_000_000_000;

/// A network and the batch sizes to prepare it for.
pub type Loaded<'n> = (&'n Network, &'n [u8]);

/// What a device is started with.
pub struct Setup<'s> {
    /// By model id.
    pub models: &'s [Loaded<'s>],
    /// Which part of the GPU each partition is; [`Division::Whole`]: one partition that is all of it.
    pub division: Division,
    /// How launches are handed over and evicted.
    pub queue: QueueSpec,
}

pub struct Rig<D> {
    pub device: D,
    pub inputs: InputBuffers,
    bell: Arc<Doorbell>,
    actions: u64,
}

/// A stage for a batch on a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageRun {
    pub partition: u16,
    pub model: u16,
    pub stage: u8,
    /// How many images; request buffers `first..first + batch` are theirs.
    pub batch: u8,
    pub first: u16,
}

/// Request buffers of every rig: two batches of the largest size.
pub const BUFFERS: u16 = 64;

impl Rig<CudaDevice> {
    /// A CUDA device. Leaders are on cores of their own as far as there are any, at ordinary priority: a
    /// real-time thread that spins for seconds would be stopped by the kernel every second.
    pub fn cuda(session: &Session<'_>, setup: &Setup<'_>) -> Result<Self, StepError> {
        Self::with_padding(session, setup, &KernelPaddingSpec::default())
    }

    /// [`cuda`](Self::cuda), with partitions that fill.
    pub fn with_padding(
        session: &Session<'_>,
        setup: &Setup<'_>,
        kernel_padding: &KernelPaddingSpec,
    ) -> Result<Self, StepError> {
        Self::start(session, setup, kernel_padding, 0)
    }

    /// [`cuda`](Self::cuda), with paged models but the first, and a cache of `pages` pages for them.
    pub fn paged(session: &Session<'_>, setup: &Setup<'_>, pages: u32) -> Result<Self, StepError> {
        Self::start(session, setup, &KernelPaddingSpec::default(), pages)
    }

    fn start(
        session: &Session<'_>,
        setup: &Setup<'_>,
        kernel_padding: &KernelPaddingSpec,
        pages: u32,
    ) -> Result<Self, StepError> {
        let bell = Arc::new(Doorbell::new());
        let gpu = session.gpu()?;
        let models = setup.models.iter().enumerate();
        let models: Vec<ModelSpec<'_>> = models
            .map(|(at, &(network, batches))| ModelSpec {
                paged: pages > 0 && at > 0,
                ..ModelSpec::resident(network, batches)
            })
            .collect();
        let spec = DeviceSpec {
            models: &models,
            partitions: &partitions(setup.partitions()),
            request_buffers: BUFFERS,
            cache: (pages > 0).then_some(CacheSpec {
                pages,
                core: None,
                priority: None,
            }),
            start: Start::Whole,
        };
        let cuda = CudaSpec {
            division: setup.division.clone(),
            queue: setup.queue,
            kernel_padding: kernel_padding.clone(),
            ..cuda_spec(session)
        };
        let device = CudaDevice::start(gpu.driver(), &spec, &cuda, bell.clone())?;
        let inputs = device.shell().input_buffers();
        Ok(Self::of(device, inputs, bell))
    }
}

/// A device for each way to hand launches over, each with one partition that is all of the GPU, to be compared
/// in turn.
pub fn whole(
    session: &Session<'_>,
    models: &[Loaded<'_>],
    queues: impl IntoIterator<Item = QueueSpec>,
) -> Result<Vec<Rig<CudaDevice>>, StepError> {
    let start = |queue| {
        let division = Division::Whole;
        let setup = Setup {
            models,
            division,
            queue,
        };
        Rig::cuda(session, &setup)
    };
    queues.into_iter().map(start).collect()
}

impl Setup<'_> {
    fn partitions(&self) -> usize {
        match &self.division {
            Division::Whole => 1,
            Division::Tpcs { ranges, .. } => ranges.len(),
        }
    }
}

/// How devices are started that are measured.
pub fn cuda_spec(session: &Session<'_>) -> CudaSpec {
    let spec = CudaSpec {
        ordinal: session.device,
        ..CudaSpec::default()
    };
    if !session.quick {
        return spec;
    }
    // Where everything is tiny, the device may be the processor itself.
    CudaSpec {
        page_bytes: 256 << 10,
        wait: Wait::Sleep { ns: 100_000 },
        watchdog: Watchdog {
            unknown_ns: STUCK_NS,
            grace_ns: STUCK_NS,
            ..Watchdog::default()
        },
        ..spec
    }
}

/// The knobs of queues for a GPU: the epoch lies where looking at it crosses no bus.
pub fn queue(gpu: Gpu) -> Result<QueueSpec, StepError> {
    let flag = if gpu.can(Attribute::Integrated)? {
        FlagPlace::Host
    } else {
        FlagPlace::Device
    };
    Ok(QueueSpec {
        flag,
        ..QueueSpec::default()
    })
}

pub fn partitions(count: usize) -> Vec<PartitionSpec> {
    let mut cores = affinity::available_cores().unwrap_or_default();
    // The first one serves most of a machine's interrupts, and the thread that measures.
    if cores.len() > count {
        cores.remove(0);
    }
    let partition = |index: usize| {
        PartitionSpec::on_cores(
            format!("p{index}"),
            vec![cores.get(index % cores.len().max(1)).copied().unwrap_or(0)],
            None,
        )
    };
    (0..count).map(partition).collect()
}

impl<D: Device> Rig<D> {
    /// A device that was started with `bell`.
    pub fn of(device: D, inputs: InputBuffers, bell: Arc<Doorbell>) -> Self {
        Self {
            device,
            inputs,
            bell,
            actions: 0,
        }
    }

    /// What rings after each event.
    pub fn bell(&self) -> Arc<Doorbell> {
        self.bell.clone()
    }

    /// Writes the inputs of a model's requests: of buffers `first..first + count`.
    pub fn write(
        &self,
        model: u16,
        first: u16,
        count: u16,
        image: impl Fn(u16) -> Vec<f32>,
    ) -> Result<(), StepError> {
        for buffer in first..first + count {
            let mut input = self.inputs.claim(buffer, ModelId(model))?;
            input.write_planar(&image(buffer));
        }
        Ok(())
    }

    /// Gives the device a stage to run.
    pub fn submit(
        &mut self,
        stage_run: StageRun,
        criticality: Criticality,
    ) -> Result<ActionId, StepError> {
        self.actions += 1;
        let id = ActionId(self.actions);
        let member = |buffer| RequestId {
            buffer,
            generation: 0,
        };
        self.device.submit(&Infer {
            id,
            partition: PartitionId(stage_run.partition),
            model: ModelId(stage_run.model),
            stage: StageId(stage_run.stage),
            batch: stage_run.batch,
            members: (stage_run.first..stage_run.first + u16::from(stage_run.batch))
                .map(member)
                .collect(),
            window: Window {
                earliest: Instant::ZERO,
                latest: Instant::FAR_FUTURE,
            },
            criticality,
        })?;
        Ok(id)
    }

    /// Has a paged model's weights loaded.
    pub fn load(&mut self, model: u16) -> Result<ActionId, StepError> {
        self.actions += 1;
        let id = ActionId(self.actions);
        self.device.load(id, ModelId(model))?;
        Ok(id)
    }

    pub fn event(&mut self) -> Result<Event, StepError> {
        let event = self.event_until(clock::now_ns() + STUCK_NS);
        event.ok_or(StepError::Silent {
            seconds: STUCK_NS / 1_000_000_000,
        })
    }

    /// The next event, if one comes until then.
    pub fn event_until(&mut self, until_ns: u64) -> Option<Event> {
        loop {
            let seen = self.bell.count();
            if let Some(event) = self.device.poll() {
                return Some(event);
            }
            if clock::now_ns() >= until_ns {
                return None;
            }
            self.bell.wait(seen, Some(until_ns));
        }
    }

    /// Runs a stage on an idle device.
    pub fn run(&mut self, stage_run: StageRun) -> Result<Finished, StepError> {
        let id = self.submit(stage_run, Criticality::RealTime)?;
        match self.event()? {
            Event::Finished(finished) if finished.action == id => Ok(finished),
            other => Err(StepError::Unexpected(Box::new(other))),
        }
    }

    /// Gives the device a stage and takes it back after so long: from that wish to the device's word, in nanoseconds. None if
    /// the stage was over before.
    pub fn preempt(
        &mut self,
        stage_run: StageRun,
        after_ns: u64,
    ) -> Result<Option<u64>, StepError> {
        let id = self.submit(stage_run, Criticality::BestEffort)?;
        let begun = clock::now_ns();
        while clock::now_ns() - begun < after_ns {
            std::hint::spin_loop();
        }
        let wished = clock::now_ns();
        self.device.preempt(PartitionId(stage_run.partition), id);
        match self.event()? {
            Event::Preempted { action } if action == id => Ok(Some(clock::now_ns() - wished)),
            Event::Finished(finished) if finished.action == id => Ok(None),
            other => Err(StepError::Unexpected(Box::new(other))),
        }
    }

    /// Runs all `stages` of a model, one after the other; the time of all together.
    pub fn run_through(&mut self, stage_run: StageRun, stages: usize) -> Result<u64, StepError> {
        let start = clock::now_ns();
        for stage in 0..stages {
            let stage = stage as u8;
            self.run(StageRun { stage, ..stage_run })?;
        }
        Ok(clock::now_ns() - start)
    }
}

/// Values like normalised pixels, different for each `seed`.
pub fn picture(network: &Network, seed: u16) -> Vec<f32> {
    let shape = network.tensors[network.input_tensor().index()];
    let len = (shape.channels * shape.height * shape.width) as usize;
    let mut state = 0x9e37_79b9_u32 ^ u32::from(seed).wrapping_mul(0x85eb_ca6b);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::cpu;
    use super::*;
    use punctual_conformance::networks;

    #[test]
    fn a_stage_is_run_for_its_batch_and_one_that_is_not_there_is_refused() {
        let network = networks::residual(1);
        let mut rig = cpu(&network, 1);
        rig.write(0, 0, 2, |seed| picture(&network, seed))
            .expect("free buffers");
        let stage_run = StageRun {
            partition: 0,
            model: 0,
            stage: 0,
            batch: 2,
            first: 0,
        };
        let ran = rig.run(stage_run).expect("it runs");
        assert_eq!(ran.members.len(), 2);
        assert!(ran.measured.as_nanos() > 0, "{ran:?}");
        let through = rig.run_through(stage_run, 2).expect("both stages");
        assert!(through > 0);
        let refused = rig.run(StageRun {
            stage: 7,
            ..stage_run
        });
        assert!(matches!(refused, Err(StepError::Refused(_))), "{refused:?}");
    }
}
