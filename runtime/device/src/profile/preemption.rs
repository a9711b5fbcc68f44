//! How long a best-effort stage keeps its partition when it is preempted, by stage and batch size.
//!
//! Each stage is stopped at times that are drawn uniformly from how long it usually takes, from a fixed seed. A sample is the time
//! from [`Device::preempt`] to the event that ends the action, which the measuring thread waits for without sleeping. A stage that
//! ended before it should be stopped gives none; it is tried again, as often as there are samples.
//!
//! Where a device says how long its longest operator took ([`HostedDevice::longest_step`]), that is a sample, too: a stop at random
//! seldom meets the begin of the longest operator.

use punctual_core::{Criticality, Event, Nanos};
use punctual_model::{PreemptionProfile, Samples};
use punctual_platform::clock;
use punctual_types::Random;

use super::MeasureError;
use super::stages::{Bench, MEASURED, SUBJECT, Step};
use crate::device::Device;
use crate::shell::HostedDevice;

/// Of a stage at a batch size.
pub(super) struct Stopped {
    stage: u8,
    batch: u8,
    samples: Samples,
}

/// Stops each stage `count` times.
pub(super) fn measure<D: HostedDevice, E>(
    bench: &mut Bench<D>,
    count: usize,
    until_ns: u64,
) -> Result<Vec<Stopped>, MeasureError<E>> {
    let mut random = Random::new(1);
    let mut stopped: Vec<Stopped> = Vec::new();
    for (stage, batch, _) in bench.typical() {
        stopped.push(Stopped {
            stage,
            batch,
            samples: Samples::with_capacity(2 * count),
        });
    }
    for round in 0..count {
        // One round at least, so that every stage has a figure.
        if round > 0 && clock::now_ns() > until_ns {
            break;
        }
        for (figure, (stage, batch, typical_ns)) in stopped.iter_mut().zip(bench.typical()) {
            let longest = bench.longest_operator(figure.stage, figure.batch);
            longest
                .into_iter()
                .for_each(|longest| figure.samples.add(longest));
            for _ in 0..count {
                bench.prepare(stage, batch)?;
                let after_ns = random.below(typical_ns.max(1));
                if let Some(waited_ns) = stop(bench, stage, batch, after_ns)? {
                    figure.samples.add(Nanos::new(waited_ns));
                    break;
                }
            }
        }
        bench.rest()?;
    }
    Ok(stopped)
}

/// Begins a best-effort stage and stops it after a time; how long that took, unless it had ended by itself.
fn stop<D: HostedDevice, E>(
    bench: &mut Bench<D>,
    stage: u8,
    batch: u8,
    after_ns: u64,
) -> Result<Option<u64>, MeasureError<E>> {
    let step = Step {
        partition: MEASURED,
        model: SUBJECT,
        stage,
        batch,
        first: 0,
    };
    let action = bench.submit_as(step, Criticality::BestEffort);
    let stop_ns = clock::now_ns() + after_ns;
    let mut told_ns = None;
    loop {
        match bench.device.poll() {
            Some(Event::Finished(finished)) => {
                bench.ended(finished.action);
                break;
            }
            Some(Event::Preempted { action }) => {
                bench.ended(action);
                break;
            }
            Some(_) => {
                bench.ended(action);
                return Err(MeasureError::Failed { stage, batch });
            }
            None if told_ns.is_none() && clock::now_ns() >= stop_ns => {
                told_ns = Some(clock::now_ns());
                bench.device.preempt(MEASURED, action);
            }
            None => std::hint::spin_loop(),
        }
    }
    let now_ns = clock::now_ns();
    Ok(told_ns.map(|told_ns| now_ns - told_ns))
}

impl Stopped {
    /// None if the stage always ended by itself: then no longer than the stage.
    pub(super) fn profile(&self, units: u8) -> Option<PreemptionProfile> {
        if self.samples.is_empty() {
            return None;
        }
        let quantiles = self.samples.quantiles();
        Some(PreemptionProfile {
            stage: self.stage,
            batch: self.batch,
            units,
            samples: quantiles.samples,
            p99_ns: quantiles.p99_ns,
            max_ns: quantiles.max_ns,
        })
    }
}
