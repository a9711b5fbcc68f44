//! Best-effort stages that run over and over at the same time as one that is measured.

use punctual_core::{ActionId, Criticality, Event};
use punctual_device::Device;
use punctual_platform::clock;

use super::rig::{Rig, StageRun};
use super::step::StepError;

/// What runs over and over: the first of its buffers, and as many behind them for each further action, are its own.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// The first of its stages.
    pub stage_run: StageRun,
    /// How many, one after the other.
    pub stages: u8,
}

/// Actions that the device has at once, so that it never waits for the next one.
pub const DEEP: u16 = 2;

pub struct Load {
    stages: u8,
    open: Vec<(ActionId, StageRun)>,
    /// Stages that ended.
    pub ended: u64,
}

impl Load {
    /// Without `work` nothing else runs at the same time.
    pub fn begin<D: Device>(rig: &mut Rig<D>, work: Option<Work>) -> Result<Self, StepError> {
        let mut load = Self {
            stages: work.map_or(1, |work| work.stages),
            open: Vec::new(),
            ended: 0,
        };
        if let Some(Work { stage_run, .. }) = work {
            for turn in 0..DEEP {
                let first = stage_run.first + turn * u16::from(stage_run.batch);
                load.submit(rig, StageRun { first, ..stage_run })?;
            }
        }
        Ok(load)
    }

    fn submit<D: Device>(
        &mut self,
        rig: &mut Rig<D>,
        stage_run: StageRun,
    ) -> Result<(), StepError> {
        let id = rig.submit(stage_run, Criticality::BestEffort)?;
        self.open.push((id, stage_run));
        Ok(())
    }

    /// Runs a promised stage under the load: from its order to its event, in nanoseconds.
    pub fn run<D: Device>(
        &mut self,
        rig: &mut Rig<D>,
        stage_run: StageRun,
    ) -> Result<u64, StepError> {
        let start = clock::now_ns();
        let id = rig.submit(stage_run, Criticality::RealTime)?;
        loop {
            match rig.event()? {
                Event::Finished(finished) if finished.action == id => {
                    return Ok(clock::now_ns() - start);
                }
                other => self.go_on(rig, other)?,
            }
        }
    }

    /// Runs the load alone until then.
    pub fn until<D: Device>(&mut self, rig: &mut Rig<D>, due_ns: u64) -> Result<(), StepError> {
        while let Some(event) = rig.event_until(due_ns) {
            self.go_on(rig, event)?;
        }
        Ok(())
    }

    /// The next stage follows one that has ended.
    fn go_on<D: Device>(&mut self, rig: &mut Rig<D>, event: Event) -> Result<(), StepError> {
        let stage_run = self.over(event)?;
        let stage = (stage_run.stage + 1) % self.stages;
        self.submit(rig, StageRun { stage, ..stage_run })
    }

    /// The stage of the load that an event says is over.
    fn over(&mut self, event: Event) -> Result<StageRun, StepError> {
        let of_load = |finished: ActionId| self.open.iter().position(|(id, _)| *id == finished);
        let at = match &event {
            Event::Finished(finished) => of_load(finished.action),
            _ => None,
        };
        let at = at.ok_or_else(|| StepError::Unexpected(Box::new(event)))?;
        self.ended += 1;
        Ok(self.open.swap_remove(at).1)
    }

    /// Waits for what the device still has.
    pub fn end<D: Device>(mut self, rig: &mut Rig<D>) -> Result<(), StepError> {
        while !self.open.is_empty() {
            let event = rig.event()?;
            self.over(event)?;
        }
        Ok(())
    }
}
