//! How long stages and loads take here: what a benchmark's plan is made of.

use std::sync::Arc;

use punctual_core::{
    ActionId, Criticality, Event, Infer, Instant, ModelId, Nanos, PartitionId, RequestId, StageId,
    Window,
};
use punctual_device::{Device, SubmitError};
use punctual_device_cpu::CpuDevice;
use punctual_platform::Doorbell;

const ROUNDS: u64 = 20;

/// What budgets are above the longest that was measured, in percent.
const MARGIN_PERCENT: u64 = 150;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Of each stage, for one image.
    pub stages: Vec<Nanos>,
    pub load: Nanos,
}

/// The device did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotMeasured {
    #[error("the device refused an action of the measurement: {0}")]
    Refused(#[from] SubmitError),
    #[error("an action of the measurement failed with {0:?}")]
    Failed(Box<Event>),
}

/// Loads some of the models, which are all alike and paged, runs the stages of the first, and unloads them.
pub fn stages_and_loads(
    device: &mut CpuDevice,
    bell: &Arc<Doorbell>,
    stages: usize,
    models: u16,
) -> Result<Measured, NotMeasured> {
    let mut name = 0;
    let mut id = || {
        name += 1;
        // Far from the names that the scheduler will give.
        ActionId(u64::MAX / 2 + name)
    };
    let mut load = Nanos::ZERO;
    for model in 0..models {
        device.load(id(), ModelId(model))?;
        match next(device, bell) {
            Event::Loaded { measured, .. } => load = load.max(measured),
            other => return Err(NotMeasured::Failed(Box::new(other))),
        }
        if model > 0 {
            device.unload(ModelId(model))?;
        }
    }
    let mut longest = vec![Nanos::ZERO; stages];
    for _ in 0..ROUNDS {
        for (stage, longest) in longest.iter_mut().enumerate() {
            device.submit(&infer(id(), StageId(stage as u8)))?;
            match next(device, bell) {
                Event::Finished(finished) => *longest = (*longest).max(finished.measured),
                other => return Err(NotMeasured::Failed(Box::new(other))),
            }
        }
    }
    device.unload(ModelId(0))?;
    let with_margin = |time: Nanos| Nanos::new(time.as_nanos() * MARGIN_PERCENT / 100);
    Ok(Measured {
        stages: longest.into_iter().map(with_margin).collect(),
        load: with_margin(load),
    })
}

fn infer(id: ActionId, stage: StageId) -> Infer {
    let request = RequestId {
        buffer: 0,
        generation: 0,
    };
    Infer {
        id,
        partition: PartitionId(0),
        model: ModelId(0),
        stage,
        batch: 1,
        members: [request].into_iter().collect(),
        window: Window {
            earliest: Instant::ZERO,
            latest: Instant::FAR_FUTURE,
        },
        criticality: Criticality::RealTime,
    }
}

fn next(device: &mut CpuDevice, bell: &Doorbell) -> Event {
    loop {
        let seen = bell.count();
        match device.poll() {
            Some(event) => return event,
            None => bell.wait(seen, None),
        };
    }
}
