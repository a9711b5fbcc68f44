//! The workers of one partition, running a stage's operators together.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, Ordering};

use heapless::Vec;
use punctual_core::{Answer, BATCH_MAX, Instant, ModelId, StageId};
use punctual_kernels::{Image, Inputs, Part};
use punctual_platform::{Doorbell, clock};

use super::barrier::{Barrier, wait_spinning};
use super::weights::{WeightClaim, Weights};
use punctual_device::regions::{BufferGuard, ClaimedRegions, LINE, Region};

use super::{Space, Span};
use crate::executable::{Executable, OutputPlan, Step};
use crate::model::LoadedModel;
use crate::specialised::scratch_stride;
use punctual_device::pool::{CancelFlag, Outcome, answer_of};
use punctual_model::ScoreForm;

/// The worker that takes the actions. There is one a team.
pub(crate) struct Leader {
    team: Arc<Team>,
    /// Whether it overwrites memory before each job.
    poisons: bool,
}

/// A worker that follows its leader.
pub(crate) struct Helper {
    team: Arc<Team>,
    seat: Seat,
    started: u32,
}

/// The place of a worker among those that run a job.
#[derive(Clone, Copy)]
struct Seat {
    index: usize,
    of: usize,
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
    /// Whether the solutions that were chosen run, or else the general ones.
    specialised: AtomicBool,
    members: AtomicU8,
    buffers: [AtomicU16; BATCH_MAX],
    /// Where the members' outputs go; null if they are not wanted.
    areas: [AtomicPtr<u8>; BATCH_MAX],
    /// How many values of the outputs are not finite, so far.
    not_finite: [AtomicU32; BATCH_MAX],
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
        assert_parts_tile(step, 1);
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
        barrier: Barrier::default(),
        fault: AtomicBool::new(false),
        ended: AtomicBool::new(false),
    });
    let mate = |index| Helper {
        team: team.clone(),
        seat: Seat { index, of: size },
        started: team.start.count(),
    };
    let mates = (1..size).map(mate).collect();
    let poisons = false;
    (Leader { team, poisons }, mates)
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

/// What memory holds before it is written: as a float a NaN, as bytes none that an engine would make by itself.
const POISON: f32 = f32::from_bits(u32::MAX);

impl Leader {
    /// From now on all memory that a stage has to write before it reads it is overwritten before each run.
    pub(crate) fn poison(&mut self) {
        self.poisons = true;
    }

    /// Runs a stage for the members whose request buffers are claimed, with weights that are claimed.
    /// `interrupt` is looked at between operators.
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
        let executable = &team.models[model.index()].stages[stage.index()];
        let reads = executable.weights_end;
        assert!(weights.reaches(reads), "weights are missing");
        let job = &team.job;
        job.model.store(model.0, Ordering::Relaxed);
        job.stage.store(stage.0, Ordering::Relaxed);
        job.members.store(members.len() as u8, Ordering::Relaxed);
        for (slot, claim) in job.buffers.iter().zip(members.iter()) {
            assert!(claim.is_of(&team.requests), "a claim of other buffers");
            slot.store(claim.index() as u16, Ordering::Relaxed);
        }
        // Once for all cores and the whole stage, whatever is prepared meanwhile.
        let specialised = executable.prepared.is_set();
        job.specialised.store(specialised, Ordering::Relaxed);
        job.lend_areas(executable, members);
        if self.poisons {
            // SAFETY: the members' claims are exclusive and borrowed, and no job runs before the ring below.
            unsafe { team.overwrite(executable, members.len()) };
        }
        team.fault.store(false, Ordering::Relaxed);
        team.barrier.reset();
        let seat = Seat {
            index: 0,
            of: executable.cores(members.len(), team.size),
        };
        if seat.of > 1 {
            team.start.ring();
        }
        // SAFETY: the members' claims are exclusive, theirs and that on the weights are borrowed
        // until the job ends, and the mates, if they are called, run this job only between the ring above
        // and the job's last meeting, in which the leader takes part.
        let outcome = unsafe { team.run_job(seat, Some(interrupt)) };
        if outcome == Outcome::Done {
            job.head_areas(executable, members);
        }
        outcome
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
        model: ModelId,
        stage: StageId,
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
        model: ModelId,
        stage: StageId,
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
        model: ModelId,
        stage: StageId,
        member: usize,
        claim: &mut BufferGuard<'_>,
    ) -> Option<f32> {
        let stage = self.done(model, stage, member, claim);
        let span = stage.exit.as_ref()?.confidence?;
        // SAFETY: `done` says so.
        Some(unsafe { self.team.floats(stage, member, span) }[0])
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

impl Job {
    /// Lends the mates the members' areas until the job ends.
    ///
    /// # Panics
    /// If an area is too small: it is not one of the model's.
    fn lend_areas(&self, stage: &Executable, members: &mut [BufferGuard<'_>]) {
        let outputs = || stage.exit.iter().flat_map(|exit| &exit.outputs);
        let bytes = outputs().map(OutputPlan::end).max().unwrap_or(0);
        for (member, claim) in members.iter_mut().enumerate() {
            let area = claim.area().map_or(&mut [][..], |area| area.as_mut_slice());
            assert!(
                bytes == 0 || area.is_empty() || area.len() >= bytes,
                "an area of other outputs"
            );
            let place = match bytes.min(area.len()) {
                0 => ptr::null_mut(),
                _ => area.as_mut_ptr(),
            };
            self.areas[member].store(place, Ordering::Relaxed);
            self.not_finite[member].store(0, Ordering::Relaxed);
        }
    }

    /// Where a member's outputs go, if anybody wants them.
    fn area(&self, member: usize) -> Option<NonNull<u8>> {
        // Relaxed: as of all of a job.
        NonNull::new(self.areas[member].load(Ordering::Relaxed))
    }

    /// Writes to the heads of the areas how many values are not finite.
    fn head_areas(&self, stage: &Executable, members: &mut [BufferGuard<'_>]) {
        let Some(exit) = stage.exit.as_ref().filter(|exit| !exit.outputs.is_empty()) else {
            return;
        };
        for (claim, not_finite) in members.iter_mut().zip(&self.not_finite) {
            if let Some(area) = claim.area() {
                // Relaxed: ordered by the job's last meeting.
                let not_finite = not_finite.load(Ordering::Relaxed).to_ne_bytes();
                area.as_mut_slice()[exit.not_finite..][..4].copy_from_slice(&not_finite);
            }
        }
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

impl Seat {
    /// Piece `piece` of the `pieces` of its share.
    fn piece(self, piece: usize, pieces: usize) -> Part {
        Part::new(self.index * pieces + piece, self.of * pieces)
    }
}

impl Team {
    /// Overwrites the workspace, scratch memory, and what the stage of the job carries over.
    ///
    /// # Safety
    /// The request buffers of the job's members are claimed for it, and no seat runs it.
    unsafe fn overwrite(&self, stage: &Executable, members: usize) {
        for region in [&self.workspace, &self.scratch] {
            // SAFETY: outside of a job nothing else uses them.
            unsafe { region.write(0..region.floats()) }.fill(POISON);
        }
        let outputs = stage.steps.iter().map(|step| step.operands.output());
        for carried in outputs.filter(|output| output.space == Space::Request) {
            for member in 0..members {
                let (region, range) = self.place(stage, member, carried);
                // SAFETY: the caller's promise.
                unsafe { region.write(range) }.fill(POISON);
            }
        }
    }

    /// A span of a member of the stage that was last done.
    ///
    /// # Safety
    /// No job runs while the slice lives.
    unsafe fn floats(&self, stage: &Executable, member: usize, span: Span) -> &[f32] {
        let (region, range) = self.place(stage, member, span);
        // SAFETY: the caller's promise: nothing writes.
        unsafe { region.read(range) }
    }

    /// One seat's share of the job.
    ///
    /// # Safety
    /// Each of the `seat.of` seats runs the job once, no other does, at the same time; the members' request buffers and the
    /// model's weights are claimed for it, and no other thread uses the workspace, until all have returned.
    unsafe fn run_job(&self, seat: Seat, interrupt: Option<&CancelFlag>) -> Outcome {
        let job = &self.job;
        let id = ModelId(job.model.load(Ordering::Relaxed));
        let model = &self.models[id.index()];
        let stage = &model.stages[usize::from(job.stage.load(Ordering::Relaxed))];
        // Before the steps: after the last meeting the leader may write the next job.
        let writes_late = self.writes_late(stage);
        // In one place for all steps: it is almost 5 KiB, which would be copied for each.
        let mut images = Vec::new();
        let mut before = now();
        let last = stage.steps.len() - 1;
        for (index, step) in stage.steps.iter().enumerate() {
            let ran = catch_unwind(AssertUnwindSafe(|| {
                // SAFETY: this function's own promise.
                let packed = unsafe { self.weights.read(id, step.weights.clone()) };
                // SAFETY: as above, and the meeting below: all seats are in this same step.
                unsafe { self.run_step(seat, model, stage, index, packed, &mut images) };
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
            let stop = self.barrier.meet(seat.of);
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
        // SAFETY: this function's own promise: all seats have run all steps.
        if !writes_late || unsafe { self.write_late(seat, stage) } {
            Outcome::Done
        } else {
            Outcome::Fault
        }
    }

    /// Runs a seat's part of a step, and writes the outputs that are written from its rows. `images` is room for the
    /// members' tensors, empty before and after.
    ///
    /// # Safety
    /// As for [`run_job`](Self::run_job); and no seat is in another step.
    unsafe fn run_step<'a>(
        &'a self,
        seat: Seat,
        model: &LoadedModel,
        stage: &Executable,
        index: usize,
        packed: &[f32],
        images: &mut Vec<Image<'a>, BATCH_MAX>,
    ) {
        let step = &stage.steps[index];
        let members = usize::from(self.job.members.load(Ordering::Relaxed));
        let specialised = self.job.specialised.load(Ordering::Relaxed);
        let derived = specialised.then_some(&*model.derived);
        let by_rows = step
            .by_rows
            .filter(|_| !(specialised && step.specialised.runs(members, seat.of)));
        let pieces = by_rows.map_or(1, |by_rows| by_rows.pieces(&step.output, seat.of));
        let is_kept = pieces == 1 || by_rows.is_none_or(|by_rows| by_rows.is_kept);
        let whole = step.output.part(seat.piece(0, 1));
        for piece in 0..pieces {
            let part = seat.piece(piece, pieces);
            let written = step.output.part(part);
            let written = if is_kept {
                written
            } else {
                // The core's pieces take the same memory, one after the other.
                whole.start..whole.start + written.len()
            };
            assert!(written.start >= whole.start && written.end <= whole.end);
            // SAFETY: the caller's promise; what is written is inside the seat's own part.
            unsafe { self.lend_images(stage, step, written, images) };
            // SAFETY: a seat's scratch memory is its own.
            let scratch = unsafe { self.scratch.write(self.scratch_range(seat.index)) };
            step.run(packed, derived, part, seat.of, images, scratch);
            for output in stage.outputs_of(index) {
                for (member, image) in images.iter().enumerate() {
                    self.write_output(output, member, |to| {
                        // SAFETY: the area is lent to this job for as many bytes; parts are disjoint.
                        unsafe { output.copy.run_rows(part, image.output, to) }
                    });
                }
            }
            images.clear();
        }
    }

    /// Whether somebody wants outputs that are written when all steps are over.
    fn writes_late(&self, stage: &Executable) -> bool {
        let members = usize::from(self.job.members.load(Ordering::Relaxed));
        let mut outputs = stage.exit.iter().flat_map(|exit| &exit.outputs);
        outputs.any(|output| output.step.is_none())
            && (0..members).any(|member| self.job.area(member).is_some())
    }

    /// Writes a seat's share of the outputs that are written when all steps are over, and waits until all have;
    /// false if one could not.
    ///
    /// # Safety
    /// As for [`run_job`](Self::run_job); and no seat is in a step.
    unsafe fn write_late(&self, seat: Seat, stage: &Executable) -> bool {
        let outputs = || stage.exit.iter().flat_map(|exit| &exit.outputs);
        let late = || outputs().filter(|output| output.step.is_none());
        let members = usize::from(self.job.members.load(Ordering::Relaxed));
        let ran = catch_unwind(AssertUnwindSafe(|| {
            for (output, member) in late().flat_map(|late| (0..members).map(move |at| (late, at))) {
                // SAFETY: no seat writes tensors here.
                let tensor = unsafe { self.floats(stage, member, output.span) };
                self.write_output(output, member, |to| {
                    // SAFETY: the area is lent to this job for as many bytes; parts are disjoint.
                    unsafe { output.copy.run_part(seat.piece(0, 1), tensor, to) }
                });
            }
        }));
        if ran.is_err() {
            // Relaxed: the meeting publishes it.
            self.fault.store(true, Ordering::Relaxed);
        }
        self.barrier.meet(seat.of);
        // Relaxed: partner of the store above; the meeting ordered both.
        !self.fault.load(Ordering::Relaxed)
    }

    /// Writes to an output's place in a member's area, if it has one.
    fn write_output(
        &self,
        output: &OutputPlan,
        member: usize,
        write: impl FnOnce(NonNull<u8>) -> usize,
    ) {
        if let Some(area) = self.job.area(member) {
            // SAFETY: `lend_areas` saw that the area is as long as all outputs.
            let not_finite = write(unsafe { area.add(output.offset) });
            if not_finite > 0 {
                // Relaxed: as of all of a job. Areas have fewer bytes than this can count.
                self.job.not_finite[member].fetch_add(not_finite as u32, Ordering::Relaxed);
            }
        }
    }

    /// Puts the members' tensors for some of what one step writes into `images`, in place of what was there.
    ///
    /// # Safety
    /// As for [`run_job`](Self::run_job); no seat is in another step, and no other writes that, until `images` are
    /// cleared.
    unsafe fn lend_images<'a>(
        &'a self,
        stage: &Executable,
        step: &Step,
        written: Range<usize>,
        images: &mut Vec<Image<'a>, BATCH_MAX>,
    ) {
        images.clear();
        let members = usize::from(self.job.members.load(Ordering::Relaxed));
        images.extend((0..members).map(|member| {
            let inputs = step.operands.inputs().iter().map(|input| {
                let (region, input) = self.place(stage, member, input.span);
                // SAFETY: an input shares nothing with the step's output (`Operands`), and in
                // this step nothing else is written. Other members' tensors are in other
                // buffers or shares.
                unsafe { region.read(input) }
            });
            let inputs = Inputs::new(inputs);
            let (region, output) = self.place(stage, member, step.operands.output());
            let output = output.start + written.start..output.start + written.end;
            // SAFETY: the parts of a step are disjoint (checked in `team`), one a seat, and no
            // other seat reads the output during the step.
            let output = unsafe { region.write(output) };
            Image { inputs, output }
        }));
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
