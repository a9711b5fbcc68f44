//! A partition on the GPU: what its leader runs stages with.

use std::cell::Cell;
use std::sync::Arc;

use punctual_device::pool::CancelFlag;
use punctual_device::regions::BufferGuard;
use punctual_kernels::cuda::Arguments;
use punctual_kernels::cuda::params::Answer;
use punctual_platform::{Doorbell, clock};

use crate::counters::Counters;
use crate::device_error::DeviceError;
use crate::driver::{CallError, Shape};
use crate::health::Health;
use crate::installation::Installation;
use crate::kernel_padding::{KernelPadding, Leave, Planned};
use crate::lower::{LaunchList, Place, StagedOutputs};
use crate::programs::Model;
use crate::queue::VirtualQueue;
use crate::spec::Wait;
use crate::weights::PageTable;
use crate::workspaces::{StageRun, Workspaces};

/// How often the driver is asked while a stage runs whether the device still works: faults of the
/// device show nowhere else.
const ASK_NS: u64 = 200_000;

/// Everything of a partition that is lost when the device is restarted.
pub(crate) struct PartitionExecutor {
    pub(crate) queue: VirtualQueue,
    pub(crate) workspaces: Workspaces,
    pub(crate) installation: Arc<Installation>,
    /// Why it was given up, if it was.
    pub(crate) error: Option<DeviceError>,
}

/// What does not change when the device is restarted.
pub(crate) struct ExecutorEnv {
    pub(crate) models: Arc<[Model]>,
    pub(crate) table: Arc<PageTable>,
    pub(crate) health: Arc<Health>,
    pub(crate) counters: Arc<Counters>,
    /// Rings when the leader is to look before its nap is over.
    pub(crate) bell: Arc<Doorbell>,
    pub(crate) wait: Wait,
    /// How long the device may take to run empty, in nanoseconds.
    pub(crate) grace_ns: u64,
    /// If partitions of the device fill: what all share, and the place of this one.
    pub(crate) kernel_padding: Option<(Arc<KernelPadding>, usize)>,
}

/// How a stage ended that went as it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Done,
    Interrupted,
}

/// A stage as it is carried out: where everything lies.
struct Run<'r> {
    stage_run: &'r StageRun,
    list: &'r LaunchList,
    images: usize,
    workspace: u64,
    /// The address that its exit's outputs are written to.
    outputs: u64,
    interrupt: &'r CancelFlag,
    limit_ns: u64,
    /// The time at which it is overdue. A filler that waits for others is not.
    due: Cell<u64>,
}

/// How launches of one epoch ended.
enum Pass {
    Done,
    Evicted,
}

impl PartitionExecutor {
    /// Carries a stage out for members whose buffers are claimed. After an error that needs no
    /// restart, nothing of it is in the driver any more.
    pub(crate) fn run(
        &mut self,
        env: &ExecutorEnv,
        (model, stage): (usize, usize),
        members: &mut [BufferGuard<'_>],
        (interrupt, limit_ns): (&CancelFlag, u64),
    ) -> Result<Ended, DeviceError> {
        let stage_run = StageRun::new(model, stage, members);
        let not_there = DeviceError::NotThere { model, stage };
        let found = env.models.get(model);
        let found = found.and_then(|model| Some((model, model.list(stage, members.len())?)));
        let (program, (list, needs)) = found.ok_or(not_there)?;
        let pages = &program.program.stages[stage].pages;
        let slots = &self.installation.slots;
        if pages
            .iter()
            .any(|&page| env.table.address(model, page) == 0)
            || needs.reads_carried && !stage_run.buffers().all(|buffer| slots.is_written(buffer))
        {
            return Err(not_there);
        }
        if interrupt.is_set() {
            return Ok(Ended::Interrupted);
        }
        self.queue.stream().context().bind()?;
        let (workspace, from) = self.workspaces.choose(&stage_run, &env.counters);
        if needs.reads_input && from == 0 {
            let inputs = &self.installation.inputs;
            inputs.bring(self.queue.stream(), members)?;
        }
        let run = Run {
            stage_run: &stage_run,
            list,
            images: members.len(),
            workspace: self.workspaces.address(workspace),
            outputs: self.workspaces.outputs(workspace).address(0),
            interrupt,
            limit_ns,
            due: Cell::new(clock::now_ns().saturating_add(limit_ns)),
        };
        let ended = match self.launch_all(env, &run, from) {
            Ok(None) => {
                if needs.writes_carried {
                    let slots = &self.installation.slots;
                    stage_run
                        .buffers()
                        .for_each(|buffer| slots.set_written(buffer));
                }
                if let Some(staged) = &program.program.stages[stage].outputs {
                    self.give_back(workspace, staged, members);
                }
                Ok(Ended::Done)
            }
            Ok(Some(at)) => {
                self.workspaces.pause(workspace, stage_run, at);
                Ok(Ended::Interrupted)
            }
            Err(error) if error.needs_restart() => Err(error),
            Err(error) => self.clear(env).and(Err(error)),
        };
        env.leave();
        ended
    }

    /// Copies the outputs of a completed stage to the areas of the members that have one.
    ///
    /// # Panics If an area is smaller than the model's.
    fn give_back(&self, workspace: usize, staged: &StagedOutputs, members: &mut [BufferGuard<'_>]) {
        let outputs = self.workspaces.outputs(workspace);
        for (member, claim) in members.iter_mut().enumerate() {
            let Some(area) = claim.area() else { continue };
            let area = area.as_mut_slice();
            let target = &mut area[staged.offset..][..staged.bytes];
            outputs.read(member * staged.pitch, target);
            let not_finite = self.queue.answer(member).not_finite.to_ne_bytes();
            area[staged.not_finite..][..4].copy_from_slice(&not_finite);
        }
    }

    /// The answer for a member of the stage that was last done.
    pub(crate) fn answer(&self, member: usize) -> Answer {
        self.queue.answer(member)
    }

    /// Launches from `from` on until the stage is done, or interrupted: then the launch to resume at.
    fn launch_all(
        &mut self,
        env: &ExecutorEnv,
        run: &Run<'_>,
        from: u32,
    ) -> Result<Option<u32>, DeviceError> {
        let end = run.list.steps.len() as u32;
        self.queue.begin(from, end);
        loop {
            match self.pass(env, run)? {
                Pass::Done => return Ok(None),
                Pass::Evicted => {
                    env.counters.evictions.add(1);
                    let at = self.empty(env)?;
                    env.leave();
                    // Its last launch may have ended before it could see the new epoch.
                    if self.queue.is_done() {
                        return Ok(None);
                    }
                    // Everything was carried out, and the last launch has not written that it is done.
                    if at == end {
                        return Err(run.silent());
                    }
                    if run.interrupt.is_set() {
                        return Ok(Some(at));
                    }
                    if clock::now_ns() >= run.due.get() {
                        return Err(run.overdue());
                    }
                    // Stopped by a preemption that was meant for the action before: it continues.
                    self.queue.go_on(at, end);
                }
            }
        }
    }

    /// Hands launches over until the stage is done or its epoch is past.
    fn pass(&mut self, env: &ExecutorEnv, run: &Run<'_>) -> Result<Pass, DeviceError> {
        let mut ask = clock::now_ns() + ASK_NS;
        loop {
            // Before all looks below: a ring in between ends the pause.
            let seen = env.bell.count();
            while !self.queue.is_evicted()
                && self.has_leave(env, run)?
                && let Some(index) = self.queue.hand_over()
            {
                self.launch(env, run, index)?;
            }
            if self.queue.is_done() {
                return Ok(Pass::Done);
            }
            if self.queue.is_evicted() {
                return Ok(Pass::Evicted);
            }
            let now = clock::now_ns();
            if run.interrupt.is_set() || now >= run.due.get() || env.is_unwelcome() {
                self.queue.evict()?;
                return Ok(Pass::Evicted);
            }
            if env.health.is_down() {
                return Err(DeviceError::Down);
            }
            if now >= ask {
                ask = now + ASK_NS;
                // The driver first, then the words again: a stage that ends in between is done and not silent.
                let idle = self.queue.is_idle()? && self.queue.all_handed_over();
                if idle && !self.queue.is_done() && !self.queue.is_evicted() {
                    return Err(run.silent());
                }
            }
            env.pause(seen, now);
        }
    }

    /// Whether the next launch may be made, where partitions fill.
    fn has_leave(&mut self, env: &ExecutorEnv, run: &Run<'_>) -> Result<bool, CallError> {
        let Some((kernel_padding, partition)) = &env.kernel_padding else {
            return Ok(true);
        };
        let Some(index) = self.queue.next() else {
            return Ok(false);
        };
        let planned = Planned {
            model: run.stage_run.model,
            stage: run.stage_run.stage,
            list: run.list,
            images: run.images,
            index,
        };
        let counters = &env.counters;
        let leave =
            kernel_padding.leave_to_launch(*partition, &mut self.queue, &planned, counters)?;
        if leave == Leave::Refused {
            let due = clock::now_ns().saturating_add(run.limit_ns);
            run.due.set(due);
        }
        Ok(leave == Leave::Granted)
    }

    /// Waits until the driver has run empty after an eviction; the launch to resume at.
    fn empty(&self, env: &ExecutorEnv) -> Result<u32, DeviceError> {
        self.queue.close()?;
        let grace_ns = env.grace_ns;
        let give_up = clock::now_ns().saturating_add(grace_ns);
        loop {
            let seen = env.bell.count();
            if self.queue.is_drained()? {
                return Ok(self.queue.resume_at()?);
            }
            let now = clock::now_ns();
            if now >= give_up {
                return Err(DeviceError::Hang { grace_ns });
            }
            if env.health.is_down() {
                return Err(DeviceError::Down);
            }
            env.pause(seen, now);
        }
    }

    /// Takes what was handed over out of the driver again.
    fn clear(&self, env: &ExecutorEnv) -> Result<(), DeviceError> {
        let evicted = self.queue.evict().map_err(DeviceError::Driver);
        match evicted.and_then(|()| self.empty(env)) {
            Ok(_) => Ok(()),
            Err(DeviceError::Down) => Err(DeviceError::Down),
            Err(error) if error.needs_restart() => Err(error),
            Err(_) => Err(DeviceError::Unclear),
        }
    }

    fn launch(&mut self, env: &ExecutorEnv, run: &Run<'_>, index: u32) -> Result<(), CallError> {
        let step = &run.list.steps[index as usize];
        let mut arguments = step.resolve(run.images, |place| self.address(env, run, place));
        if let Arguments::Answers(answers) = &mut arguments {
            answers.sequence = self.queue.sequence();
        }
        let kernels = &self.installation.kernels;
        let stand_in = step.stand_in();
        let (kernel, function, grid) = match kernels.get(step.kernel) {
            Some(function) => (step.kernel, function, step.grid(run.images)),
            None => match (kernels.get(stand_in), stand_in.grid(&arguments)) {
                (Some(function), Some(grid)) => (stand_in, function, grid),
                _ => return Err(CallError::not_loaded()),
            },
        };
        let shape = Shape {
            grid,
            block: kernel.block,
            shared_bytes: kernel.shared_bytes,
        };
        env.counters.launches.add(1);
        // SAFETY: a step's arguments are those of its kernel (and of its stand-in), and its places lie
        // within the workspace, pages, slots and inputs whose addresses `address` gives: that is how
        // lists are made. All of them stay until the driver has run empty: a leader returns before that
        // only when the device is restarted, which frees nothing before it ends everything.
        unsafe {
            self.queue
                .launch(index, function, shape, arguments.as_ptr())
        }
    }

    /// Where a place lies for this run.
    fn address(&self, env: &ExecutorEnv, run: &Run<'_>, place: Place) -> u64 {
        let here = &*self.installation;
        match place {
            Place::Nothing => 0,
            Place::Workspace { offset } => run.workspace + offset,
            Place::Weights { page, offset } => {
                env.table.address(run.stage_run.model, page) + u64::from(offset)
            }
            Place::Request { member, offset } => {
                here.slots
                    .address(run.stage_run.buffer(usize::from(member)))
                    + offset
            }
            Place::Input { member, offset } => {
                let buffer = run.stage_run.buffer(usize::from(member));
                here.inputs.address(buffer) + offset
            }
            Place::Outputs { offset } => run.outputs + offset,
            Place::Answers => self.queue.answers_address(),
            Place::Done => self.queue.done_address(),
        }
    }
}

impl Run<'_> {
    fn silent(&self) -> DeviceError {
        DeviceError::Silent {
            model: self.stage_run.model,
            stage: self.stage_run.stage,
        }
    }

    fn overdue(&self) -> DeviceError {
        DeviceError::Overdue {
            model: self.stage_run.model,
            stage: self.stage_run.stage,
            limit_ns: self.limit_ns,
        }
    }
}

impl ExecutorEnv {
    /// Whether this is a filler in the way of a real-time launch.
    fn is_unwelcome(&self) -> bool {
        let kernel_padding = self.kernel_padding.as_ref();
        kernel_padding
            .is_some_and(|(kernel_padding, partition)| kernel_padding.is_unwelcome(*partition))
    }

    /// Nothing of the partition is in the driver any more.
    fn leave(&self) {
        if let Some((kernel_padding, partition)) = &self.kernel_padding {
            kernel_padding.leave(*partition);
        }
    }

    /// Lets a little time pass, less if the bell was rung since `seen`.
    fn pause(&self, seen: u32, now: u64) {
        match self.wait {
            Wait::Spin => std::hint::spin_loop(),
            Wait::Nap { ns } => {
                self.bell.wait(seen, Some(now + ns));
            }
        }
    }
}
