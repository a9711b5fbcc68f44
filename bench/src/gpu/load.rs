//! Stages that run over and over at the same time as one that is measured.

use punctual_core::{ActionId, Criticality, Event};
use punctual_device_cuda::CudaDevice;
use punctual_platform::clock;

use super::rig::{Rig, StageRun};
use super::step::StepError;

/// What runs over and over: the first of its buffers, and as many behind them, are its own.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub stage_run: StageRun,
    pub criticality: Criticality,
}

/// What runs at the same time, two actions deep, so that the device never waits for the next one.
pub struct Load {
    criticality: Criticality,
    open: Vec<(ActionId, StageRun)>,
}

impl Load {
    /// Without `work` nothing else runs at the same time.
    pub fn begin(rig: &mut Rig<CudaDevice>, work: Option<Work>) -> Result<Self, StepError> {
        let mut load = Self {
            criticality: work.map_or(Criticality::BestEffort, |work| work.criticality),
            open: Vec::new(),
        };
        let Some(Work { stage_run, .. }) = work else {
            return Ok(load);
        };
        for turn in [0, 1] {
            let first = stage_run.first + turn * u16::from(stage_run.batch);
            load.submit(rig, StageRun { first, ..stage_run })?;
        }
        Ok(load)
    }

    fn submit(&mut self, rig: &mut Rig<CudaDevice>, stage_run: StageRun) -> Result<(), StepError> {
        let id = rig.submit(stage_run, self.criticality)?;
        self.open.push((id, stage_run));
        Ok(())
    }

    /// Runs a promised stage under the load: from its order to its event, in nanoseconds.
    pub fn run(
        &mut self,
        rig: &mut Rig<CudaDevice>,
        stage_run: StageRun,
    ) -> Result<u64, StepError> {
        let start = clock::now_ns();
        let id = rig.submit(stage_run, Criticality::RealTime)?;
        loop {
            let finished = match rig.event()? {
                Event::Finished(finished) => finished,
                other => return Err(StepError::Unexpected(Box::new(other))),
            };
            if finished.action == id {
                return Ok(clock::now_ns() - start);
            }
            if let Some(stage_run) = self.over(finished.action) {
                self.submit(rig, stage_run)?;
            }
        }
    }

    /// The stage of an action of the load that is over.
    fn over(&mut self, action: ActionId) -> Option<StageRun> {
        let at = self.open.iter().position(|(id, _)| *id == action)?;
        Some(self.open.swap_remove(at).1)
    }

    pub fn end(mut self, rig: &mut Rig<CudaDevice>) -> Result<(), StepError> {
        while !self.open.is_empty() {
            match rig.event()? {
                Event::Finished(finished) => drop(self.over(finished.action)),
                other => return Err(StepError::Unexpected(Box::new(other))),
            }
        }
        Ok(())
    }
}
