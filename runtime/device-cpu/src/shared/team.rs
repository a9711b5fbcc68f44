//! The workers of one partition, running a stage's operators together.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, Ordering};

use heapless::Vec;
use punctual_core::{Answer, BATCH_MAX, Instant, ModelId, StageId};
use punctual_kernels::{Image, Inputs, Part};
use punctual_platform::{Doorbell, clock};

use super::barrier::{Barrier, wait_spinning};
use super::weights::{WeightClaim, Weights};
use punctual_device::regions::{BufferGuard, ClaimedRegions, LINE, Region};

use super::{Space, Span};
use crate::executable::{Executable, LoadedModel, Step};
use punctual_device::pool::{CancelFlag, Outcome, answer_of};
use punctual_model::ScoreForm;

/// The worker that takes the actions. There is one a team.
pub(crate) struct Leader {
    team: Arc<Team>,
}

/// A worker that follows its leader.
pub(crate) struct Helper {
    team: Arc<Team>,
    seat: usize,
    started: u32,
}

struct Team {
    size: usize,
    models: Arc<[LoadedModel]>,
    weights: Arc<Weights>,
    requests: Arc<ClaimedRegions>,
    workspace: Region,
    /// A piece for each seat.
    scratch: Region,
    scratch_stride: usize,
    job: Job,
    /// Rings when a job is there, or the team ends.
    start: Doorbell,
    barrier: Barrier,
    fault: AtomicBool,
    ended: AtomicBool,
}

/// What to run. Written by the leader while the mates wait; the ring of `start` publishes it
/// (release; the mates' wait acquires: label START), so each field may be relaxed.
#[derive(Default)]
struct Job {
    model: AtomicU16,
    stage: AtomicU8,
    members: AtomicU8,
    buffers: [AtomicU16; BATCH_MAX],
}

/// Floats of workspace that a stage needs for a batch.
fn workspace_floats(stage: &Executable, batch: usize) -> usize {
    member_stride(stage) * batch
}

/// Floats from one member's share to the next. One line more than needed: shares whose distance is
/// a power of two would fight for the same cache sets.
pub(crate) fn member_stride(stage: &Executable) -> usize {
    stage.workspace_floats.next_multiple_of(LINE) + LINE
}

/// Floats from one core's scratch memory to the next's, of which it needs `floats`. One line more
/// than needed, as between members' shares.
pub(crate) const fn scratch_stride(floats: usize) -> usize {
    match floats {
        0 => 0,
        floats => floats.next_multiple_of(LINE) + LINE,
    }
}

/// Makes the team of a partition: a leader and `size - 1` mates.
///
/// # Panics
/// If a step's parts do not tile its output: two workers would write the same floats.
pub(crate) fn team(
    size: usize,
    models: &Arc<[LoadedModel]>,
    weights: &Arc<Weights>,
    requests: &Arc<ClaimedRegions>,
    batch_max: usize,
) -> (Leader, std::vec::Vec<Helper>) {
    let stages = || models.iter().flat_map(|model| &model.stages);
    for step in stages().flat_map(|stage| &stage.steps) {
        assert_parts_tile(step, size);
    }
    let workspace = stages().map(|stage| workspace_floats(stage, batch_max));
    let steps = stages().flat_map(|stage| &stage.steps);
    let scratch = steps.map(|step| step.specialised.scratch_len(batch_max));
    let scratch_stride = scratch_stride(scratch.max().unwrap_or(0));
    let team = Arc::new(Team {
        size,
        models: models.clone(),
        weights: weights.clone(),
        requests: requests.clone(),
        workspace: Region::zeroed(workspace.max().unwrap_or(0)),
        scratch: Region::zeroed(scratch_stride * size),
        scratch_stride,
        job: Job::default(),
        start: Doorbell::new(),
        barrier: Barrier::new(size),
        fault: AtomicBool::new(false),
        ended: AtomicBool::new(false),
    });
    let mate = |seat| Helper {
        team: team.clone(),
        seat,
        started: team.start.count(),
    };
    let mates = (1..size).map(mate).collect();
    (Leader { team }, mates)
}

fn assert_parts_tile(step: &Step, size: usize) {
    let mut end = 0;
    for index in 0..size {
        let part = step.output.part(Part::new(index, size));
        assert_eq!(part.start, end, "part {index} of `{}`", step.name);
        end = part.end;
    }
    assert_eq!(end, step.operands.output().len, "parts of `{}`", step.name);
}

impl Leader {
    /// Runs a stage for the members whose request buffers are claimed, with weights that are claimed.
    /// `interrupt` is looked at between operators. A team of one waits for weights that are not ready yet.
    ///
    /// # Panics
    /// If the stage does not exist, there are more members than the team was made for, or a claim
    /// is on something else.
    pub(crate) fn run(
        &mut self,
        model: ModelId,
        stage: StageId,
        weights: &WeightClaim<'_>,
        members: &mut [BufferGuard<'_>],
        interrupt: &CancelFlag,
    ) -> Outcome {
        let team = &*self.team;
        assert!(
            weights.is_of(&team.weights, model),
            "a claim of others' weights"
        );
        assert!(weights.is_whole() || team.size == 1, "weights are missing");
        let job = &team.job;
        job.model.store(model.0, Ordering::Relaxed);
        job.stage.store(stage.0, Ordering::Relaxed);
        job.members.store(members.len() as u8, Ordering::Relaxed);
        for (slot, claim) in job.buffers.iter().zip(members.iter()) {
            assert!(claim.is_of(&team.requests), "a claim of other buffers");
            slot.store(claim.index() as u16, Ordering::Relaxed);
        }
        team.fault.store(false, Ordering::Relaxed);
        team.barrier.reset();
        if team.size > 1 {
            team.start.ring();
        }
        // SAFETY: the members' claims are exclusive, theirs and that on the weights are borrowed
        // until the job ends, and the mates run this job only between the ring above and the job's
        // last meeting, in which the leader takes part.
        unsafe { team.run_job(0, Some(interrupt)) }
    }

    /// Bytes of the team's workspace, scratch memory included.
    pub(crate) fn workspace_bytes(&self) -> usize {
        (self.team.workspace.floats() + self.team.scratch.floats()) * size_of::<f32>()
    }

    /// What one of the members of the stage that was last [`Outcome::Done`] is.
    ///
    /// # Panics
    /// If `claim` is not that member's.
    pub(crate) fn answer(
        &mut self,
        (model, stage): (ModelId, StageId),
        member: usize,
        claim: &mut BufferGuard<'_>,
    ) -> Answer {
        let stage = self.done(model, stage, member, claim);
        let Some(exit) = &stage.exit else {
            return Answer::default();
        };
        let scores = exit.scores.map(|(span, form)| {
            // SAFETY: `done` says so.
            (unsafe { self.team.floats(stage, member, span) }, form)
        });
        // SAFETY: as above.
        let confidence = exit
            .confidence
            .map(|span| unsafe { self.team.floats(stage, member, span) }[0]);
        answer_of(scores, confidence)
    }

    /// Its class scores; empty if its answer has none.
    ///
    /// # Panics
    /// As [`answer`](Self::answer).
    pub(crate) fn scores<'a>(
        &'a mut self,
        (model, stage): (ModelId, StageId),
        member: usize,
        claim: &'a mut BufferGuard<'_>,
    ) -> &'a [f32] {
        let stage = self.done(model, stage, member, claim);
        let scores = stage.exit.as_ref().and_then(|exit| exit.scores);
        let (span, _) = scores.unwrap_or((Span::NOTHING, ScoreForm::Softmax));
        // SAFETY: `done` says so.
        unsafe { self.team.floats(stage, member, span) }
    }

    /// The confidence that its network gives.
    ///
    /// # Panics
    /// As [`answer`](Self::answer).
    pub(crate) fn confidence(
        &mut self,
        (model, stage): (ModelId, StageId),
        member: usize,
        claim: &mut BufferGuard<'_>,
    ) -> Option<f32> {
        let stage = self.done(model, stage, member, claim);
        let span = stage.exit.as_ref()?.confidence?;
        // SAFETY: `done` says so.
        Some(unsafe { self.team.floats(stage, member, span) }[0])
    }

    /// Writes the outputs of its exit to its area.
    ///
    /// # Panics
    /// As [`answer`](Self::answer), and if the area is not one of the model's.
    pub(crate) fn deliver(
        &mut self,
        (model, stage): (ModelId, StageId),
        member: usize,
        claim: &mut BufferGuard<'_>,
        area: &mut [u8],
    ) {
        let stage = self.done(model, stage, member, claim);
        let Some(exit) = &stage.exit else {
            return;
        };
        let mut not_finite = 0_u32;
        for output in &exit.outputs {
            // SAFETY: `done` says so.
            let tensor = unsafe { self.team.floats(stage, member, output.span) };
            let found = output.writer.write(tensor, &mut area[output.bytes.clone()]);
            not_finite = not_finite.saturating_add(found);
        }
        if !exit.outputs.is_empty() {
            area[exit.not_finite..][..4].copy_from_slice(&not_finite.to_ne_bytes());
        }
    }

    /// The stage that was last done. While `&mut self` and the claim are borrowed no job runs, as there is one leader a
    /// team, so that no worker writes to the workspace, or to the request buffer of `claim`.
    fn done(
        &self,
        model: ModelId,
        stage: StageId,
        member: usize,
        claim: &BufferGuard<'_>,
    ) -> &Executable {
        let team = &*self.team;
        let buffer = team.job.buffers[member].load(Ordering::Relaxed);
        assert!(claim.is_of(&team.requests) && claim.index() == usize::from(buffer));
        &team.models[model.index()].stages[stage.index()]
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        // Relaxed: partner of the load in `Helper::serve`; the ring publishes it (label START).
        self.team.ended.store(true, Ordering::Relaxed);
        self.team.start.ring();
    }
}

impl Helper {
    /// Runs this seat's part of job after job, until the leader is dropped.
    pub(crate) fn serve(mut self) {
        loop {
            self.started = wait_spinning(&self.team.start, self.started);
            // Relaxed: partner of the store in `Leader::drop` (label START).
            if self.team.ended.load(Ordering::Relaxed) {
                return;
            }
            // SAFETY: the leader rang for a job, holds its claims until the job's last meeting,
            // and writes the next job only after it.
            unsafe { self.team.run_job(self.seat, None) };
        }
    }
}

impl Team {
    /// A span of a member of the stage that was last done.
    ///
    /// # Safety
    /// No job runs while the slice lives.
    unsafe fn floats(&self, stage: &Executable, member: usize, span: Span) -> &[f32] {
        let (region, range) = self.place(stage, member, span);
        // SAFETY: the caller's promise: nobody writes.
        unsafe { region.read(range) }
    }

    /// One seat's share of the job.
    ///
    /// # Safety
    /// Each seat of the team runs the job once, at the same time; the members' request buffers and the
    /// model's weights are claimed for it, and no other thread uses the workspace, until all have returned.
    unsafe fn run_job(&self, seat: usize, interrupt: Option<&CancelFlag>) -> Outcome {
        let job = &self.job;
        let id = ModelId(job.model.load(Ordering::Relaxed));
        let model = &self.models[id.index()];
        let stage = &model.stages[usize::from(job.stage.load(Ordering::Relaxed))];
        let part = Part::new(seat, self.size);
        let mut before = now();
        let last = stage.steps.len() - 1;
        for (index, step) in stage.steps.iter().enumerate() {
            if !self.weights.wait_for(id, step.weights.end) {
                // Of a team of one: the weights of larger ones are all there.
                return Outcome::Fault;
            }
            let ran = catch_unwind(AssertUnwindSafe(|| {
                // SAFETY: this function's own promise, and the meeting below: all seats are in
                // this same step.
                let mut images = unsafe { self.images(stage, step, part) };
                // SAFETY: a seat's scratch memory is its own.
                let scratch = unsafe { self.scratch.write(self.scratch_range(seat)) };
                // SAFETY: this function's own promise.
                let packed = unsafe { self.weights.read(id, step.weights.clone()) };
                step.run(packed, &model.specialised, part, &mut images, scratch);
            }));
            if ran.is_err() {
                // Relaxed: the meeting publishes it.
                self.fault.store(true, Ordering::Relaxed);
                self.barrier.wish_to_stop();
            }
            // Relaxed: a wish, seen now or at the next operator.
            if interrupt.is_some_and(CancelFlag::is_set) && index < last {
                self.barrier.wish_to_stop();
            }
            let stop = self.barrier.meet();
            if interrupt.is_some() {
                let after = now();
                step.time.record(after.since(before));
                before = after;
            }
            if stop {
                // Relaxed: partner of the store above; the meeting ordered both.
                return if self.fault.load(Ordering::Relaxed) {
                    Outcome::Fault
                } else {
                    Outcome::Interrupted
                };
            }
        }
        Outcome::Done
    }

    /// The members' tensors for one seat's part of one step.
    ///
    /// # Safety
    /// As for [`run_job`](Self::run_job); and no seat is in another step.
    unsafe fn images(
        &self,
        stage: &Executable,
        step: &Step,
        part: Part,
    ) -> Vec<Image<'_>, BATCH_MAX> {
        let written = step.output.part(part);
        let members = usize::from(self.job.members.load(Ordering::Relaxed));
        (0..members)
            .map(|member| {
                let inputs = step.operands.inputs().iter().map(|&input| {
                    let (region, input) = self.place(stage, member, input);
                    // SAFETY: an input shares nothing with the step's output (`Operands`), and in
                    // this step nothing else is written. Other members' tensors are in other
                    // buffers or shares.
                    unsafe { region.read(input) }
                });
                let inputs = Inputs::new(inputs);
                let (region, output) = self.place(stage, member, step.operands.output());
                let output = output.start + written.start..output.start + written.end;
                // SAFETY: the parts of a step are disjoint (checked in `team`), one a seat, and
                // no seat reads the output during the step.
                let output = unsafe { region.write(output) };
                Image { inputs, output }
            })
            .collect()
    }

    fn place(&self, stage: &Executable, member: usize, span: Span) -> (&Region, Range<usize>) {
        match span.space {
            Space::Workspace => (&self.workspace, self.workspace_range(stage, member, span)),
            Space::Request => {
                let buffer = self.job.buffers[member].load(Ordering::Relaxed);
                (self.requests.region(usize::from(buffer)), span.range())
            }
        }
    }

    fn scratch_range(&self, seat: usize) -> Range<usize> {
        seat * self.scratch_stride..(seat + 1) * self.scratch_stride
    }

    fn workspace_range(&self, stage: &Executable, member: usize, span: Span) -> Range<usize> {
        assert!(span.start + span.len <= stage.workspace_floats);
        let share = member * member_stride(stage);
        share + span.start..share + span.start + span.len
    }
}

fn now() -> Instant {
    Instant::from_nanos(clock::now_ns())
}
