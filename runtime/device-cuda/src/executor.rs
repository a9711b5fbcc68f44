//! What a leader runs stages with on one stream of the GPU: a stage is a state that it carries on by steps which never wait.

use std::sync::Arc;
use std::task::Poll;

use punctual_core::Instant;
use punctual_cuda_kernels::Arguments;
use punctual_cuda_kernels::params::Answer;
use punctual_device::pool::CancelFlag;
use punctual_device::regions::BufferGuard;
use punctual_platform::clock::Clock;

use crate::confinement::Confinement;
use crate::counters::Counters;
use crate::driver::{CallError, Shape};
use crate::faults::{DeviceError, Health};
use crate::installation::Installation;
use crate::kernel_padding::{KernelPadding, Leave, Planned};
use crate::lower::{LaunchList, Place, StagedOutputs};
use crate::padding::InDriver;
use crate::programs::Model;
use crate::queue::VirtualQueue;
use crate::weights::PageTable;
use crate::workspaces::{StageRun, Workspaces};

/// How often the driver is asked while a stage runs whether the device still works: faults of the
/// device show nowhere else.
const ASK_NS: u64 = 200_000;

/// Everything of a stream that is lost when the device is restarted.
pub(crate) struct StreamExecutor {
    pub(crate) queue: VirtualQueue,
    pub(crate) workspaces: Workspaces,
    pub(crate) installation: Arc<Installation>,
    /// The partition to whose TPCs the stream is kept.
    pub(crate) confined_to: usize,
    /// What is in the driver, where partitions fill.
    pub(crate) in_driver: InDriver,
    /// The stage that has begun and is not over.
    pub(crate) run: Option<Run>,
    /// Why it was given up, if it was.
    pub(crate) error: Option<DeviceError>,
}

/// What does not change when the device is restarted, of one partition.
pub(crate) struct ExecutorEnv {
    pub(crate) partition: usize,
    pub(crate) models: Arc<[Model]>,
    pub(crate) table: Arc<PageTable>,
    pub(crate) health: Arc<Health>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) confinement: Arc<Confinement>,
    pub(crate) clock: Clock,
    /// How long the device may take to run empty, in nanoseconds.
    pub(crate) grace_ns: u64,
    /// If partitions of the device fill: what all share.
    pub(crate) kernel_padding: Option<Arc<KernelPadding>>,
    /// Whether a workspace is overwritten before a stage begins in it: for verification.
    pub(crate) poisons: bool,
}

/// How a stage ended that went as it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Done,
    Interrupted,
}

/// A stage as it is carried out: where everything lies, and how far it has come.
pub(crate) struct Run {
    stage_run: StageRun,
    images: usize,
    workspace: usize,
    limit_ns: u64,
    /// The time at which it is overdue. A filler that waits for others is not.
    due: u64,
    phase: Phase,
}

#[derive(Clone, Copy)]
enum Phase {
    /// Launches are handed over. The driver is asked at that time whether the device still works.
    Launching { ask: u64 },
    /// The epoch has moved on, and the driver must have run empty by then.
    Evicting { give_up: u64 },
    /// The stage failed for this reason, and the driver must have run empty by then.
    Clearing { give_up: u64, error: DeviceError },
}

/// How a stage ended; none if it is not over.
type Step = Result<Option<Ended>, DeviceError>;

impl StreamExecutor {
    /// Begins a stage for members whose buffers are claimed, and carries it on as far as that needs no waiting. After an
    /// error that needs no restart, nothing of it is in the driver any more.
    pub(crate) fn begin(
        &mut self,
        env: &ExecutorEnv,
        model: usize,
        stage: usize,
        members: &mut [BufferGuard<'_>],
        interrupt: &CancelFlag,
        limit_ns: u64,
    ) -> Poll<Result<Ended, DeviceError>> {
        if interrupt.is_set() {
            return Poll::Ready(Ok(Ended::Interrupted));
        }
        let stage_run = StageRun::new(env.partition, model, stage, members);
        match self.prepare(env, stage_run, members, limit_ns) {
            Ok(()) => self.advance(env, members, interrupt),
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// Checks that the stage can run, keeps the stream to the partition's TPCs, and chooses where the stage works.
    fn prepare(
        &mut self,
        env: &ExecutorEnv,
        stage_run: StageRun,
        members: &mut [BufferGuard<'_>],
        limit_ns: u64,
    ) -> Result<(), DeviceError> {
        let (model, stage) = (stage_run.model, stage_run.stage);
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
        self.queue.stream().context().bind()?;
        // Between two stages the stream is idle: the next one's launches have the new mask.
        if self.confined_to != env.partition {
            let confined = env.confinement.confine(env.partition, &mut self.queue);
            confined.map_err(|_| CallError::not_masked())?;
            self.confined_to = env.partition;
        }
        let (workspace, from) = self.workspaces.choose(&stage_run, &env.counters);
        if env.poisons && from == 0 {
            self.workspaces.poison(workspace, self.queue.stream())?;
        }
        if needs.reads_input && from == 0 {
            let inputs = &self.installation.inputs;
            inputs.bring(self.queue.stream(), members)?;
        }
        let now = env.clock.now_ns();
        self.in_driver.clear();
        self.queue.begin(from, list.steps.len() as u32);
        self.run = Some(Run {
            images: members.len(),
            workspace,
            limit_ns,
            due: now.saturating_add(limit_ns),
            phase: Phase::Launching { ask: now + ASK_NS },
            stage_run,
        });
        Ok(())
    }

    /// Carries the stage on as far as that needs no waiting.
    pub(crate) fn advance(
        &mut self,
        env: &ExecutorEnv,
        members: &mut [BufferGuard<'_>],
        interrupt: &CancelFlag,
    ) -> Poll<Result<Ended, DeviceError>> {
        // Not there any more: it was lost with everything else when the device was restarted.
        let Some(mut run) = self.run.take() else {
            return Poll::Ready(Err(DeviceError::Down));
        };
        let step = match run.phase {
            Phase::Launching { ask } => self.launch_next(env, &mut run, interrupt, ask),
            Phase::Evicting { give_up } => self.resume_or_end(env, &mut run, interrupt, give_up),
            Phase::Clearing { give_up, error } => match self.emptied(env, give_up) {
                Ok(None) => Ok(None),
                Ok(Some(_)) => Err(error),
                Err(DeviceError::Down) => Err(DeviceError::Down),
                Err(other) if other.needs_restart() => Err(other),
                Err(_) => Err(DeviceError::Unclear),
            },
        };
        let cleared = matches!(run.phase, Phase::Clearing { .. });
        let step = match step {
            Err(error) if !cleared => self.clear(env, &mut run, error),
            step => step,
        };
        let ended = match step {
            Ok(None) => {
                self.run = Some(run);
                return Poll::Pending;
            }
            Ok(Some(Ended::Done)) => {
                self.complete(env, &run, members);
                Ok(Ended::Done)
            }
            Ok(Some(Ended::Interrupted)) => Ok(Ended::Interrupted),
            Err(error) => Err(error),
        };
        env.leave();
        Poll::Ready(ended)
    }

    /// The stage is done: what it wrote counts.
    fn complete(&self, env: &ExecutorEnv, run: &Run, members: &mut [BufferGuard<'_>]) {
        let (model, stage) = (run.stage_run.model, run.stage_run.stage);
        let program = &env.models[model];
        if program
            .list(stage, run.images)
            .is_some_and(|(_, needs)| needs.writes_carried)
        {
            let slots = &self.installation.slots;
            run.stage_run
                .buffers()
                .for_each(|buffer| slots.set_written(buffer));
        }
        if let Some(staged) = &program.program.stages[stage].outputs {
            self.give_back(run.workspace, staged, members);
        }
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

    /// Hands launches over, as many as may be now, and looks whether the stage is done or its epoch is past.
    fn launch_next(
        &mut self,
        env: &ExecutorEnv,
        run: &mut Run,
        interrupt: &CancelFlag,
        ask: u64,
    ) -> Step {
        while !self.queue.is_evicted()
            && self.has_leave(env, run)?
            && let Some(index) = self.queue.hand_over()
        {
            self.launch(env, run, index)?;
        }
        if self.queue.is_done() {
            return Ok(Some(Ended::Done));
        }
        let now = env.clock.now_ns();
        if self.queue.is_evicted() {
            return self.evict(env, run);
        }
        if interrupt.is_set() || now >= run.due || env.is_unwelcome() {
            self.queue.evict()?;
            return self.evict(env, run);
        }
        if env.health.is_down() {
            return Err(DeviceError::Down);
        }
        if now >= ask {
            run.phase = Phase::Launching { ask: now + ASK_NS };
            // The driver first, then the words again: a stage that ends in between is done and not silent.
            let idle = self.queue.is_idle()? && self.queue.all_handed_over();
            if idle && !self.queue.is_done() && !self.queue.is_evicted() {
                return Err(run.silent());
            }
        }
        Ok(None)
    }

    /// Whether the next launch may be made, where partitions fill.
    fn has_leave(&mut self, env: &ExecutorEnv, run: &mut Run) -> Result<bool, CallError> {
        let Some(kernel_padding) = &env.kernel_padding else {
            return Ok(true);
        };
        let (partition, counters) = (env.partition, &env.counters);
        let now = Instant::from_nanos(env.clock.now_ns());
        let Some(index) = self.queue.next() else {
            let in_driver = &mut self.in_driver;
            kernel_padding.look_again(partition, &self.queue, in_driver, now, counters);
            return Ok(false);
        };
        let planned = Planned {
            model: run.stage_run.model,
            stage: run.stage_run.stage,
            batch: env.list(run).batch,
            index,
        };
        let (queue, in_driver) = (&mut self.queue, &mut self.in_driver);
        let leave =
            kernel_padding.leave_to_launch(partition, queue, in_driver, &planned, now, counters)?;
        if leave == Leave::Refused {
            run.due = env.clock.now_ns().saturating_add(run.limit_ns);
        }
        Ok(matches!(leave, Leave::Granted(_)))
    }

    /// Has the driver run empty: the epoch has moved on.
    fn evict(&self, env: &ExecutorEnv, run: &mut Run) -> Step {
        env.counters.evictions.add(1);
        self.queue.close()?;
        let give_up = env.clock.now_ns().saturating_add(env.grace_ns);
        run.phase = Phase::Evicting { give_up };
        Ok(None)
    }

    /// Once the driver has run empty, the launch to resume at.
    fn emptied(&self, env: &ExecutorEnv, give_up: u64) -> Result<Option<u32>, DeviceError> {
        if self.queue.is_drained()? {
            return Ok(Some(self.queue.resume_at()?));
        }
        if env.clock.now_ns() >= give_up {
            let grace_ns = env.grace_ns;
            return Err(DeviceError::Hang { grace_ns });
        }
        if env.health.is_down() {
            Err(DeviceError::Down)
        } else {
            Ok(None)
        }
    }

    /// Once the driver has run empty: resumes the stage, or ends it.
    fn resume_or_end(
        &mut self,
        env: &ExecutorEnv,
        run: &mut Run,
        interrupt: &CancelFlag,
        give_up: u64,
    ) -> Step {
        let Some(at) = self.emptied(env, give_up)? else {
            return Ok(None);
        };
        env.leave();
        // Its last launch may have ended before it could see the new epoch.
        if self.queue.is_done() {
            return Ok(Some(Ended::Done));
        }
        let end = env.list(run).steps.len() as u32;
        // Everything was carried out, and the last launch has not written that it is done.
        if at == end {
            return Err(run.silent());
        }
        if interrupt.is_set() {
            let stage_run = run.stage_run.clone();
            self.workspaces.pause(run.workspace, stage_run, at);
            return Ok(Some(Ended::Interrupted));
        }
        let now = env.clock.now_ns();
        if now >= run.due {
            return Err(run.overdue());
        }
        // Stopped by a preemption that was meant for the action before: it continues.
        self.in_driver.clear();
        self.queue.go_on(at, end);
        run.phase = Phase::Launching { ask: now + ASK_NS };
        Ok(None)
    }

    /// After an error: takes what was handed over out of the driver again, unless the device is restarted.
    fn clear(&mut self, env: &ExecutorEnv, run: &mut Run, error: DeviceError) -> Step {
        if error.needs_restart() || error == DeviceError::Down {
            return Err(error);
        }
        let closed = self.queue.evict().and_then(|()| self.queue.close());
        match closed.map_err(DeviceError::Driver) {
            Ok(()) => {
                let give_up = env.clock.now_ns().saturating_add(env.grace_ns);
                run.phase = Phase::Clearing { give_up, error };
                Ok(None)
            }
            Err(error) if error.needs_restart() => Err(error),
            Err(_) => Err(DeviceError::Unclear),
        }
    }

    fn launch(&mut self, env: &ExecutorEnv, run: &Run, index: u32) -> Result<(), CallError> {
        let step = &env.list(run).steps[index as usize];
        let mut arguments = step.resolve(run.images, |place| self.address(env, run, place));
        if let Arguments::Answers(answers) = &mut arguments {
            answers.sequence = self.queue.sequence();
        }
        let kernels = &self.installation.kernels;
        let found = kernels.get_or_similar(step.kernel);
        let (kernel, function) = found.ok_or_else(CallError::not_loaded)?;
        let grid = if std::ptr::eq(kernel, step.kernel) {
            step.grid(run.images)
        } else {
            kernel.grid(&arguments).ok_or_else(CallError::not_loaded)?
        };
        let shape = Shape::of(kernel, grid);
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
    fn address(&self, env: &ExecutorEnv, run: &Run, place: Place) -> u64 {
        let here = &*self.installation;
        match place {
            Place::Nothing => 0,
            Place::Workspace { offset } => self.workspaces.address(run.workspace) + offset,
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
            Place::Outputs { offset } => self.workspaces.outputs(run.workspace).address(0) + offset,
            Place::Answers => self.queue.answers_address(),
            Place::Done => self.queue.done_address(),
        }
    }
}

impl Run {
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
    /// The launches of a stage that runs.
    ///
    /// # Panics
    /// If there is no such list: one that runs was found when it began.
    fn list(&self, run: &Run) -> &LaunchList {
        let list = self.models[run.stage_run.model].list(run.stage_run.stage, run.images);
        list.expect("a stage that runs has its list").0
    }

    /// Whether this is a filler in the way of a real-time launch.
    fn is_unwelcome(&self) -> bool {
        let kernel_padding = self.kernel_padding.as_ref();
        kernel_padding.is_some_and(|kernel_padding| kernel_padding.is_unwelcome(self.partition))
    }

    /// Nothing of the partition is in the driver any more.
    fn leave(&self) {
        if let Some(kernel_padding) = &self.kernel_padding {
            kernel_padding.leave(self.partition);
        }
    }
}
