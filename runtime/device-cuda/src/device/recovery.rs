//! Recovery of a device: restarts it after a fault, on a thread of its own, so that a fault of the
//! GPU is a few failed actions wherever the driver lets us go on.
//!
//! A leader that meets a fault reports its action as failed and wakes the recovery thread. From then on every
//! leader answers at once that its action failed, until the recovery thread has ended everything on the device
//! (a reset of the context) and made it again: modules, memory, weights. All of it, also where a start in turn had not come
//! to its end: what was said to be there stays there.
//! What requests carried is gone; their further stages fail, and their clients get verdicts.
//!
//! After most errors of kernels the driver refuses everything until the process ends ([`Code::loss`]). No reset is tried
//! then: the device is *lost* ([`Loss`]), and stays down. It is lost too if the driver does not return from a reset, which it
//! need not do while a kernel hangs, after two restarts that failed, and at the first fault where others use the context
//! ([`CudaSpec::shares_context`](crate::CudaSpec::shares_context)), as a reset would take it from them. What becomes of the process is decided by
//! its owner, which asks `Health::loss` now and then: this thread may wait for the driver for ever, and no thread waits for it.
//! (emulated)
//!
//! [`Code::loss`]: crate::driver::Code::loss

use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use punctual_device::weights::{Complaints, LoadFailure};
use punctual_platform::thread::{ThreadError, spawn_ordinary};
use punctual_platform::{Doorbell, clock};

use crate::counters::Counters;
use crate::driver::{Context, ResetError};
use crate::engine::Executors;
use crate::executor::StreamExecutor;
use crate::faults::{DeviceError, Health, Loss};
use crate::frames::Stations;
use crate::queue::StopFlag;
use crate::start::{Board, DevicePlan, First, InTurn, InTurnError, InstallError, LeftOut, Next};

/// Restarts that may fail one after the other.
const RESTARTS_FAILED_MAX: u32 = 2;
/// Before the next try, in nanoseconds.
const PATIENCE_NS: u64 = 10_000_000;

/// How long the driver may take to end everything on the device, in milliseconds.
const END_MS: u64 = 2_000;
/// How long it may take to make it again: code, memory, weights.
const MAKE_MS: u64 = 60_000;
/// How long everything may take to be given back one by one, when the device is dropped.
const GIVE_BACK_MS: u64 = 10_000;

/// Between two looks for a gap in which a module can be loaded, in nanoseconds.
const LATER_NS: u64 = 2_000_000;

/// Most faults that are remembered.
const REMEMBERED: usize = 64;

/// What the recovery thread works on.
pub(crate) struct Recovery {
    pub(crate) device_plan: DevicePlan,
    pub(crate) executors: Executors,
    pub(crate) stations: Arc<Stations>,
    /// By stream.
    pub(crate) stops: Vec<StopFlag>,
    pub(crate) health: Arc<Health>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) faults: Arc<Mutex<Vec<DeviceError>>>,
    pub(crate) context: Option<Arc<Context>>,
    /// What comes in turn while the device runs, and what is reported about it.
    pub(crate) in_turn: Option<InTurn>,
    pub(crate) board: Option<Arc<Board>>,
    pub(crate) left_out: LeftOut,
    /// Who is told what cannot be loaded.
    pub(crate) complaints: Option<Complaints>,
    /// Restarts that failed since a stage was last completed.
    pub(crate) failed: u32,
}

/// The recovery thread, ended with this.
pub(crate) struct RecoveryThread {
    health: Arc<Health>,
    over: Arc<Doorbell>,
    handle: Option<JoinHandle<()>>,
}

impl Drop for RecoveryThread {
    /// Waits for the thread, but not longer than a driver takes that will return.
    fn drop(&mut self) {
        self.health.end();
        let limit_ms = if self.health.is_down() {
            END_MS
        } else {
            GIVE_BACK_MS
        };
        let until_ns = clock::now_ns() + 1_000_000 * limit_ms;
        let is_over = self.over.wait(0, Some(until_ns)) != 0;
        if let Some(handle) = self.handle.take().filter(|_| is_over) {
            // One that panicked has said so.
            let _ = handle.join();
        }
    }
}

/// Rings when the thread is over, after a panic too.
struct Over(Arc<Doorbell>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.ring();
    }
}

impl Recovery {
    pub(crate) fn start(self) -> Result<RecoveryThread, ThreadError> {
        let (health, over) = (self.health.clone(), Arc::new(Doorbell::new()));
        let end = Over(over.clone());
        let handle = spawn_ordinary("cuda/recovery", move || {
            let _end = end;
            self.serve();
        })?;
        Ok(RecoveryThread {
            health,
            over,
            handle: Some(handle),
        })
    }

    fn serve(mut self) {
        loop {
            let seen = self.health.bell().count();
            if self.health.is_ended() {
                break;
            }
            if self.health.is_lost().is_some() {
                self.health.bell().wait(seen, None);
            } else if self.health.is_down() {
                if let Err(loss) = self.restart() {
                    self.health.lose(loss);
                }
            } else {
                match self.load_next() {
                    Next::Loaded => {}
                    Next::Waits => {
                        let until = clock::now_ns() + LATER_NS;
                        self.health.bell().wait(seen, Some(until));
                    }
                    Next::Over => {
                        self.health.bell().wait(seen, None);
                    }
                }
            }
        }
        // Leaders are gone: what is left is given back one by one, or by a reset if that may help.
        if self.health.is_down() {
            self.abandon();
        }
        self.drop_everything();
        if self.health.is_down() && self.health.is_lost().is_none() {
            let _ = self.reset();
        }
    }

    /// Loads what comes next in turn.
    fn load_next(&mut self) -> Next {
        let Some(in_turn) = &mut self.in_turn else {
            return Next::Over;
        };
        self.health.allow(MAKE_MS);
        let next = in_turn.next(self.health.is_idle(), clock::now_ns());
        self.health.allow(0);
        self.left_out = in_turn.left_out().clone();
        let (model, error) = match next {
            Ok(Next::Over) => {
                self.in_turn = None;
                return Next::Over;
            }
            Ok(next) => return next,
            Err(failed) => failed,
        };
        if let Some(fault) = error.fault().filter(DeviceError::needs_restart) {
            self.health.fail(fault);
        } else if let Some(complaints) = &self.complaints {
            complaints.say(LoadFailure {
                model,
                stays_general: matches!(error, InTurnError::Replacement(_)),
                reason: error.into(),
            });
        }
        Next::Loaded
    }

    /// Restarts the device, if the driver lets us.
    fn restart(&mut self) -> Result<(), Loss> {
        self.counters.faults.add(1);
        self.health.allow(END_MS);
        let shares_context = self.device_plan.spec.shares_context;
        let fatal = self.remember(|fault| shares_context || fault.is_fatal());
        self.abandon();
        if let Some(fault) = fatal {
            return Err(Loss::Fault(fault));
        }
        // One after which no stage was completed has failed, too: otherwise a device that only seems to come up
        // would be restarted for ever.
        self.failed = if self.health.take_proof() {
            0
        } else {
            self.failed + 1
        };
        self.may_go_on()?;
        self.drop_everything();
        self.reset()?;
        let executors = self.executors.clone();
        // Held all the while, so that leaders answer at once.
        let mut places: Vec<_> = executors.iter().map(executor).collect();
        while !self.health.is_ended() && self.health.is_lost().is_none() {
            self.health.allow(MAKE_MS);
            if let Some(made) = self.make()? {
                for ((place, stop), executor) in places.iter_mut().zip(&self.stops).zip(made) {
                    stop.set(executor.queue.epoch_flag());
                    **place = Some(executor);
                }
                // In this order: a leader that finds the device up must find its executor free, and who sees the
                // count may submit.
                drop(places);
                self.health.allow(0);
                if self.health.is_lost().is_none() {
                    self.health.come_up();
                    self.counters.restarts.add(1);
                }
                if let Some(board) = &self.board {
                    self.left_out.say_all_others(&self.device_plan.needs, board);
                }
                return Ok(());
            }
            self.counters.restarts_failed.add(1);
            self.failed += 1;
            self.health.allow(0);
            self.may_go_on()?;
            let seen = self.health.bell().count();
            if !self.health.is_ended() {
                let until = clock::now_ns() + PATIENCE_NS;
                self.health.bell().wait(seen, Some(until));
            }
        }
        Ok(())
    }

    fn may_go_on(&self) -> Result<(), Loss> {
        match self.failed {
            times @ RESTARTS_FAILED_MAX.. => Err(Loss::Restarts { times }),
            _ => Ok(()),
        }
    }

    /// Everything on the device once more; none if the device does not let us.
    fn make(&mut self) -> Result<Option<Vec<StreamExecutor>>, Loss> {
        let context = match Context::retain(self.device_plan.gpu) {
            Ok(context) => context,
            Err(error) => return unless_fatal(error.into()).map(|()| None),
        };
        match self.install_on(&context) {
            Ok(executors) => {
                self.context = Some(context);
                Ok(Some(executors))
            }
            Err(error) => {
                context.abandon();
                self.stations.let_go();
                self.device_plan.weights.let_go();
                if let Some(error) = error.call() {
                    unless_fatal(error.into())?;
                }
                self.context = Some(context);
                self.reset()?;
                Ok(None)
            }
        }
    }

    fn install_on(&self, context: &Arc<Context>) -> Result<Vec<StreamExecutor>, InstallError> {
        let but = &self.left_out;
        let first = First::Everything { but };
        let executors = self.device_plan.install(context, first)?;
        if let Some(executor) = executors.first() {
            self.stations.install(context, &executor.installation)?;
        }
        Ok(executors)
    }

    /// Notes why each stream was given up; the first reason that `is_fatal`.
    fn remember(&self, is_fatal: impl Fn(&DeviceError) -> bool) -> Option<DeviceError> {
        let met = self.executors.iter().map(|place| {
            // Waits for a step of the leader's, which never waits itself.
            let poisoned = place.is_poisoned();
            let mut executor = executor(place);
            let error = executor.as_mut().and_then(|executor| executor.error.take());
            error.or(poisoned.then_some(DeviceError::Panic))
        });
        let met = met.chain([self.health.take_fault()]).flatten();
        let met: Vec<DeviceError> = met.chain(self.stations.errors()).collect();
        let mut faults = self.faults.lock().unwrap_or_else(|p| p.into_inner());
        let room = REMEMBERED.saturating_sub(faults.len());
        faults.extend(met.iter().take(room));
        met.into_iter().find(is_fatal)
    }

    /// Before anything is dropped: the driver would wait for the device, which may hang.
    fn abandon(&self) {
        if let Some(context) = &self.context {
            context.abandon();
        }
    }

    /// All that holds the context goes before its reset, which refuses otherwise: modules, the words behind the
    /// stop flags, executors, weights.
    fn drop_everything(&mut self) {
        self.in_turn = None;
        for stop in &self.stops {
            stop.set(None);
        }
        for place in self.executors.iter() {
            *executor(place) = None;
        }
        self.stations.let_go();
        self.device_plan.weights.let_go();
    }

    /// Ends everything in the context, within the time for it. Of most errors it is seen later whether that helped: when
    /// everything is made again.
    fn reset(&mut self) -> Result<(), Loss> {
        self.health.allow(END_MS);
        let ended = self.context.take().map(Context::reset);
        self.health.allow(0);
        match ended {
            Some(Err(ResetError::Call(error))) => unless_fatal(error.into()),
            Some(Ok(_)) => {
                // Only now nothing that hung can write to them.
                self.device_plan.inputs.regions().give_back_withheld();
                Ok(())
            }
            Some(Err(ResetError::InUse(_))) | None => Ok(()),
        }
    }
}

fn unless_fatal(error: DeviceError) -> Result<(), Loss> {
    if error.is_fatal() {
        Err(Loss::Fault(error))
    } else {
        Ok(())
    }
}

/// A stream's executor, also after a leader panicked in it: it is about to be replaced.
fn executor(place: &Mutex<Option<StreamExecutor>>) -> MutexGuard<'_, Option<StreamExecutor>> {
    let executor = place.lock().unwrap_or_else(|poison| poison.into_inner());
    place.clear_poison();
    executor
}
