//! A partition on the GPU: what its leader runs stages with.

use std::cell::Cell;
use std::sync::Arc;

use punctual_device::pool::CancelFlag;
use punctual_device::regions::BufferGuard;
use punctual_kernels::cuda::Arguments;
use punctual_kernels::cuda::params::Answer;
use punctual_platform::{Doorbell, clock};

use crate::counters::Counters;
use crate::driver::{CallError, Shape};
use crate::filling::{Filling, Leave, Planned};
use crate::health::Health;
use crate::installation::Installation;
use crate::lanes::{Errand, Lanes};
use crate::lower::{LaunchList, Place};
use crate::programs::Model;
use crate::queue::VirtualQueue;
use crate::spec::Wait;
use crate::trouble::Trouble;
use crate::weights::PageTable;

/// How often the driver is asked while a stage runs whether the device still works: faults of the
/// device show nowhere else.
const ASK_NS: u64 = 200_000;

/// Everything of a partition that is lost when the device is restarted.
pub(crate) struct Station {
    pub(crate) queue: VirtualQueue,
    pub(crate) lanes: Lanes,
    pub(crate) installation: Arc<Installation>,
    /// Why it was given up, if it was.
    pub(crate) trouble: Option<Trouble>,
}

/// What does not change when the device is restarted.
pub(crate) struct Surroundings {
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
    pub(crate) filling: Option<(Arc<Filling>, usize)>,
}

/// How a stage ended that went as it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Done,
    Interrupted,
}

/// A stage as it is carried out: where everything lies.
struct Run<'r> {
    errand: &'r Errand,
    list: &'r LaunchList,
    images: usize,
    workspace: u64,
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

impl Station {
    /// Carries a stage out for members whose buffers are claimed. After an error that needs no
    /// restart, nothing of it is in the driver any more.
    pub(crate) fn carry_out(
        &mut self,
        around: &Surroundings,
        (model, stage): (usize, usize),
        members: &mut [BufferGuard<'_>],
        (interrupt, limit_ns): (&CancelFlag, u64),
    ) -> Result<Ended, Trouble> {
        let errand = Errand::new(model, stage, members);
        let not_there = Trouble::NotThere { model, stage };
        let found = around.models.get(model);
        let found = found.and_then(|model| Some((model, model.list(stage, members.len())?)));
        let (program, (list, needs)) = found.ok_or(not_there)?;
        let pages = &program.program.stages[stage].pages;
        let slots = &self.installation.slots;
        if pages
            .iter()
            .any(|&page| around.table.address(model, page) == 0)
            || needs.reads_carried && !errand.buffers().all(|buffer| slots.is_written(buffer))
        {
            return Err(not_there);
        }
        if interrupt.is_set() {
            return Ok(Ended::Interrupted);
        }
        self.queue.stream().context().bind()?;
        let (lane, from) = self.lanes.choose(&errand, &around.counters);
        if needs.reads_input && from == 0 {
            let inputs = &self.installation.inputs;
            inputs.bring(self.queue.stream(), members)?;
        }
        let run = Run {
            errand: &errand,
            list,
            images: members.len(),
            workspace: self.lanes.address(lane),
            interrupt,
            limit_ns,
            due: Cell::new(clock::now_ns().saturating_add(limit_ns)),
        };
        let ended = match self.launch_all(around, &run, from) {
            Ok(None) => {
                if needs.writes_carried {
                    let slots = &self.installation.slots;
                    errand
                        .buffers()
                        .for_each(|buffer| slots.set_written(buffer));
                }
                Ok(Ended::Done)
            }
            Ok(Some(at)) => {
                self.lanes.pause(lane, errand, at);
                Ok(Ended::Interrupted)
            }
            Err(trouble) if trouble.needs_restart() => Err(trouble),
            Err(trouble) => self.clear(around).and(Err(trouble)),
        };
        around.leave();
        ended
    }

    /// The answer for a member of the stage that was last done.
    pub(crate) fn answer(&self, member: usize) -> Answer {
        self.queue.answer(member)
    }

    /// Launches from `from` on until the stage is done, or interrupted: then the launch to go on with.
    fn launch_all(
        &mut self,
        around: &Surroundings,
        run: &Run<'_>,
        from: u32,
    ) -> Result<Option<u32>, Trouble> {
        let end = run.list.steps.len() as u32;
        self.queue.begin(from, end);
        loop {
            match self.pass(around, run)? {
                Pass::Done => return Ok(None),
                Pass::Evicted => {
                    around.counters.evictions.add(1);
                    let at = self.empty(around)?;
                    around.leave();
                    if self.queue.is_done() {
                        return Ok(None);
                    }
                    if at == end {
                        return Err(run.silent());
                    }
                    if run.interrupt.is_set() {
                        return Ok(Some(at));
                    }
                    if clock::now_ns() >= run.due.get() {
                        return Err(run.overdue());
                    }
                    // Stopped by a wish that was meant for the action before: it goes on.
                    self.queue.go_on(at, end);
                }
            }
        }
    }

    /// Hands launches over until the stage is done or its epoch is past.
    fn pass(&mut self, around: &Surroundings, run: &Run<'_>) -> Result<Pass, Trouble> {
        let mut ask = clock::now_ns() + ASK_NS;
        loop {
            let seen = around.bell.count();
            while !self.queue.is_evicted()
                && self.has_leave(around, run)?
                && let Some(index) = self.queue.hand_over()
            {
                self.launch(around, run, index)?;
            }
            if self.queue.is_done() {
                return Ok(Pass::Done);
            }
            if self.queue.is_evicted() {
                return Ok(Pass::Evicted);
            }
            let now = clock::now_ns();
            if run.interrupt.is_set() || now >= run.due.get() || around.is_unwelcome() {
                self.queue.evict()?;
                return Ok(Pass::Evicted);
            }
            if around.health.is_down() {
                return Err(Trouble::Down);
            }
            if now >= ask {
                ask = now + ASK_NS;
                let idle = self.queue.is_idle()? && self.queue.all_handed_over();
                if idle && !self.queue.is_done() && !self.queue.is_evicted() {
                    return Err(run.silent());
                }
            }
            around.pause(seen, now);
        }
    }

    /// Whether the next launch may be made, where partitions fill.
    fn has_leave(&mut self, around: &Surroundings, run: &Run<'_>) -> Result<bool, CallError> {
        let Some((filling, partition)) = &around.filling else {
            return Ok(true);
        };
        let Some(index) = self.queue.next() else {
            return Ok(false);
        };
        let planned = Planned {
            model: run.errand.model,
            stage: run.errand.stage,
            list: run.list,
            images: run.images,
            index,
        };
        let counters = &around.counters;
        let leave = filling.leave_to_launch(*partition, &mut self.queue, &planned, counters)?;
        if leave == Leave::Refused {
            let due = clock::now_ns().saturating_add(run.limit_ns);
            run.due.set(due);
        }
        Ok(leave == Leave::Granted)
    }

    /// Waits until the driver has run empty after an eviction; the launch to go on with.
    fn empty(&self, around: &Surroundings) -> Result<u32, Trouble> {
        self.queue.close()?;
        let grace_ns = around.grace_ns;
        let give_up = clock::now_ns().saturating_add(grace_ns);
        loop {
            let seen = around.bell.count();
            if self.queue.is_drained()? {
                return Ok(self.queue.resume_at()?);
            }
            let now = clock::now_ns();
            if now >= give_up {
                return Err(Trouble::Hang { grace_ns });
            }
            if around.health.is_down() {
                return Err(Trouble::Down);
            }
            around.pause(seen, now);
        }
    }

    /// Takes what was handed over out of the driver again.
    fn clear(&self, around: &Surroundings) -> Result<(), Trouble> {
        let evicted = self.queue.evict().map_err(Trouble::Driver);
        match evicted.and_then(|()| self.empty(around)) {
            Ok(_) => Ok(()),
            Err(Trouble::Down) => Err(Trouble::Down),
            Err(trouble) if trouble.needs_restart() => Err(trouble),
            Err(_) => Err(Trouble::Unclear),
        }
    }

    fn launch(
        &mut self,
        around: &Surroundings,
        run: &Run<'_>,
        index: u32,
    ) -> Result<(), CallError> {
        let step = &run.list.steps[index as usize];
        let mut arguments = step.resolve(run.images, |place| self.address(around, run, place));
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
        around.counters.launches.add(1);
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
    fn address(&self, around: &Surroundings, run: &Run<'_>, place: Place) -> u64 {
        let here = &*self.installation;
        match place {
            Place::Nothing => 0,
            Place::Workspace { offset } => run.workspace + offset,
            Place::Weights { page, offset } => {
                around.table.address(run.errand.model, page) + u64::from(offset)
            }
            Place::Request { member, offset } => {
                here.slots.address(run.errand.buffer(usize::from(member))) + offset
            }
            Place::Input { member } => here.inputs.address(run.errand.buffer(usize::from(member))),
            Place::Answers => self.queue.answers_address(),
            Place::Done => self.queue.done_address(),
        }
    }
}

impl Run<'_> {
    fn silent(&self) -> Trouble {
        Trouble::Silent {
            model: self.errand.model,
            stage: self.errand.stage,
        }
    }

    fn overdue(&self) -> Trouble {
        Trouble::Overdue {
            model: self.errand.model,
            stage: self.errand.stage,
            limit_ns: self.limit_ns,
        }
    }
}

impl Surroundings {
    /// Whether this is a filler in the way of a real-time launch.
    fn is_unwelcome(&self) -> bool {
        let filling = self.filling.as_ref();
        filling.is_some_and(|(filling, partition)| filling.is_unwelcome(*partition))
    }

    /// Nothing of the partition is in the driver any more.
    fn leave(&self) {
        if let Some((filling, partition)) = &self.filling {
            filling.leave(*partition);
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
