//! The device without threads of leaders: its caller advances them, on a virtual clock. For simulations on a driver whose
//! launches take virtual time: leaders, executors, queues, masks and padding are those of [`CudaDevice`].

use punctual_core::{Infer, Instant, ModelId};
use punctual_device::DeviceSpec;
use punctual_device::pool::SteppedLeader;
use punctual_platform::clock::Clock;

use crate::device::CudaDevice;
use crate::driver::Driver;
use crate::engine::Leader;
use crate::spec::CudaSpec;
use crate::start::{InTurn, InTurnError, Next, StartError};

/// See the module.
pub struct SteppedDevice {
    /// Before the device: what their engines use is freed with it.
    leaders: Vec<SteppedLeader<Leader>>,
    device: CudaDevice,
    /// By partition, the handle of the stream that it launches into.
    streams: Box<[u64]>,
    /// What comes in turn; none: everything is there.
    in_turn: Option<InTurn>,
}

impl SteppedDevice {
    /// As [`CudaDevice::start`].
    ///
    /// # Errors
    /// As it.
    pub fn start(
        driver: Driver,
        spec: &DeviceSpec<'_>,
        cuda: &CudaSpec,
        clock: &Clock,
    ) -> Result<Self, StartError> {
        let stepped = CudaDevice::start_stepped(driver, spec, cuda, clock)?;
        Ok(Self {
            leaders: stepped.leaders,
            device: stepped.device,
            streams: stepped.streams,
            in_turn: stepped.in_turn,
        })
    }

    /// Loads the next page or module of a start in turn, as the recovery thread does otherwise.
    ///
    /// # Errors
    /// What cannot be loaded, and a model that waits for it.
    pub fn load_next(&mut self, now: Instant) -> Result<Next, (ModelId, InTurnError)> {
        let is_idle = self
            .leaders
            .iter()
            .all(|leader| leader.running().next().is_none());
        let Some(in_turn) = &mut self.in_turn else {
            return Ok(Next::Over);
        };
        in_turn.next(is_idle, now.as_nanos())
    }

    /// Lets every leader do what needs no waiting. Says whether an action began or ended, and when the next window opens.
    pub fn carry_on(&mut self) -> (bool, Option<Instant>) {
        let mut all: (bool, Option<Instant>) = (false, None);
        for leader in &mut self.leaders {
            let (changed, opens) = leader.carry_on();
            all.0 |= changed;
            all.1 = all.1.into_iter().chain(opens).min();
        }
        all
    }

    /// The action whose launches are in the stream of this handle.
    #[must_use]
    pub fn running_in(&self, stream: u64) -> Option<&Infer> {
        let mut running = self.leaders.iter().flat_map(SteppedLeader::running);
        running.find(|infer| self.streams[infer.partition.index()] == stream)
    }

    /// Where actions are submitted.
    pub fn device_mut(&mut self) -> &mut CudaDevice {
        &mut self.device
    }

    #[must_use]
    pub fn device(&self) -> &CudaDevice {
        &self.device
    }
}
