//! Frames that a pipeline answers: from the first part's answer, whose boxes become crops, to the verdict on all of them.
//!
//! A frame is told to the scheduler as requests of several tasks with one capture time: the frame itself for the first task, and
//! later a burst of crops for each task after it. Its slot stays the daemon's until the last of them has its verdict.

use std::collections::VecDeque;

use punctual_core::{
    Arrival, ClientId, Event, Failure, Instant, Nanos, Rejection, TaskId, Ticket, Verdict,
};
use punctual_ipc::{Crop, Part, PartCrop};

use crate::crops::{After, FoundCrop, FoundCrops, Pipeline};
use crate::messages::{Answered, Payload};

/// What one client slot has of its frames.
pub struct Queries {
    pipeline: Pipeline,
    /// By slot.
    frames: Box<[Frame]>,
}

/// Frames of a pipeline, of all its clients, of whose crops the scheduler does not know all: in the order in which they arrived, in
/// which it must learn of them. What it hears of a later capture ends what it keeps for an earlier one.
pub struct Turns(VecDeque<Turn>);

/// A frame in a client's slot.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    pub client: ClientId,
    pub slot: u16,
    /// Later frames wait for its first answer until then.
    due: Instant,
}

impl Turns {
    /// For clients with this number of slots together.
    pub fn with_capacity(slots: usize) -> Self {
        Self(VecDeque::with_capacity(slots))
    }

    pub fn push(&mut self, turn: Turn) {
        self.0.push_back(turn);
    }

    /// Whose turn it is, by what is `known` of a frame: the first of which its crops are, behind those that are overdue.
    pub fn next(&self, now: Instant, known: impl Fn(&Turn) -> bool) -> Option<Turn> {
        for turn in &self.0 {
            if known(turn) {
                return Some(*turn);
            }
            if turn.due >= now {
                return None;
            }
        }
        None
    }

    /// It is told.
    pub fn remove(&mut self, client: ClientId, slot: u16) {
        let is_told = |turn: &Turn| (turn.client, turn.slot) == (client, slot);
        if let Some(at) = self.0.iter().position(is_told) {
            self.0.remove(at);
        }
    }

    pub fn pop(&mut self) -> Option<Turn> {
        self.0.pop_front()
    }
}

/// A frame on its way through the pipeline.
struct Frame {
    /// As it arrived.
    arrival: Option<Arrival>,
    /// Of all of it.
    deadline: Instant,
    /// The first part's answer, or why there is none.
    first: Option<Answered>,
    crops: FoundCrops,
    left_out: u16,
    /// Tasks whose number of crops the scheduler knows.
    announced: usize,
    /// Crops that it was told of.
    told: usize,
    /// Of these, how many have their verdict.
    over: usize,
    /// Of the promised parts and the first, what is worst.
    verdict: Verdict,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    /// The first part has no verdict.
    First,
    /// A stage may still write to the area that its boxes are in.
    Boxes,
    /// Its parts are known.
    Parts,
}

/// The next thing to do for a client's frames.
pub enum News {
    /// To the scheduler, as it is.
    Burst(Event),
    /// To the scheduler, once it has what it needs.
    Part(Arrival),
    /// Nothing: the scheduler knows all.
    Told,
}

impl Queries {
    pub fn new(pipeline: Pipeline, slots: u16) -> Self {
        Self {
            pipeline,
            frames: (0..slots).map(|_| Frame::free()).collect(),
        }
    }

    /// A frame arrived: its first part is due before the rest. With its turn.
    pub fn begin(&mut self, arrival: Arrival) -> (Arrival, Turn) {
        let pipeline = &self.pipeline;
        let own = pipeline
            .deadline_ns
            .map(|ns| arrival.captured + Nanos::new(ns));
        let deadline = own.into_iter().chain(arrival.deadline).min();
        let frame = &mut self.frames[usize::from(arrival.ticket.slot)];
        let mut crops = std::mem::take(&mut frame.crops);
        crops.clear();
        *frame = Frame {
            arrival: Some(arrival),
            deadline: deadline.unwrap_or(Instant::FAR_FUTURE),
            crops,
            state: State::First,
            ..Frame::free()
        };
        let rest = Nanos::new(pipeline.rest_ns);
        let turn = Turn {
            client: arrival.ticket.client,
            slot: arrival.ticket.slot,
            due: frame.deadline - rest,
        };
        let first = Arrival {
            deadline: arrival.deadline.map(|deadline| deadline - rest),
            ..arrival
        };
        (first, turn)
    }

    /// The first part's answer as its client is told: by the frame's deadline.
    pub fn answered(&mut self, mut answered: Answered) -> Answered {
        let frame = &mut self.frames[usize::from(answered.reply.ticket.slot)];
        let reply = &mut answered.reply;
        reply.deadline = frame.deadline;
        if reply.answer.is_some() {
            let now = Instant::from_nanos(answered.decided_ns);
            let at = reply.delivered.unwrap_or(now);
            reply.verdict = if at > frame.deadline {
                Verdict::Late
            } else {
                Verdict::OnTime
            };
        }
        frame.verdict = reply.verdict;
        frame.first = Some(answered);
        frame.state = State::Boxes;
        answered
    }

    /// What lies in the area of a frame whose first part is answered; none: nothing that is of use.
    /// Tells `left_out` the task of each box beyond its bound.
    pub fn look(
        &mut self,
        ticket: Ticket,
        payload: &Payload,
        area: Option<&[u8]>,
        mut left_out: impl FnMut(TaskId),
    ) {
        let frame = &mut self.frames[usize::from(ticket.slot)];
        let is_this = frame
            .arrival
            .is_some_and(|arrival| arrival.ticket == ticket);
        if frame.state != State::Boxes || !is_this {
            return;
        }
        let exit = frame.first.and_then(|first| first.reply.answer);
        if let Some(((exit, _), area)) = exit.zip(area) {
            let corner = Crop {
                x: payload.crop_x,
                y: payload.crop_y,
            };
            let mut count = 0_u16;
            let crops = &mut frame.crops;
            self.pipeline.find(exit, corner, area, crops, |task| {
                count = count.saturating_add(1);
                left_out(task);
            });
            frame.left_out = count;
        }
        frame.state = State::Parts;
    }

    /// Whether the crops of the frame in this slot are known.
    pub fn is_known(&self, slot: u16) -> bool {
        self.frames[usize::from(slot)].state == State::Parts
    }

    /// The next piece of news of a frame whose crops are known. With a client that is `gone`, no more parts come.
    pub fn news(&mut self, slot: u16, gone: bool) -> News {
        let frame = &mut self.frames[usize::from(slot)];
        let Some(arrival) = frame.arrival else {
            return News::Told;
        };
        if gone {
            frame.crops.truncate(frame.told);
        }
        let after = &self.pipeline.after;
        // Each task's crops are together, and announced before the first of them.
        if let Some(task) = after.get(frame.announced)
            && frame.of_task_told(frame.announced)
        {
            let position = frame.announced;
            frame.announced += 1;
            let requests = if gone { 0 } else { frame.count(position) };
            return News::Burst(Event::Burst {
                task: task.task,
                captured: arrival.captured,
                requests,
            });
        }
        if let Some(found) = frame.crops.get(frame.told) {
            frame.told += 1;
            let number = frame.told as u8;
            return News::Part(Arrival {
                task: after[usize::from(found.after)].task,
                ticket: Ticket {
                    part: number,
                    ..arrival.ticket
                },
                deadline: (frame.deadline != Instant::FAR_FUTURE).then_some(frame.deadline),
                ..arrival
            });
        }
        News::Told
    }

    /// A part has its verdict.
    pub fn part_over(&mut self, ticket: &Ticket, verdict: Verdict) {
        let is_promised = self.after(ticket).is_some_and(|after| after.is_promised);
        let frame = &mut self.frames[usize::from(ticket.slot)];
        frame.over += 1;
        if is_promised && severity(verdict) > severity(frame.verdict) {
            frame.verdict = verdict;
        }
    }

    /// Nothing of a frame goes to the scheduler any more, as it is drained.
    pub fn give_up(&mut self, slot: u16) {
        let frame = &mut self.frames[usize::from(slot)];
        if frame.state == State::Boxes {
            frame.state = State::Parts;
        }
        if frame.told < frame.crops.len() {
            frame.crops.truncate(frame.told);
            let rejected = Verdict::Rejected(Rejection::Draining);
            if severity(rejected) > severity(frame.verdict) {
                frame.verdict = rejected;
            }
        }
        frame.announced = self.pipeline.after.len();
    }

    /// Whether all parts of the frame in this slot have their verdicts.
    pub fn is_over(&self, slot: u16) -> bool {
        let frame = &self.frames[usize::from(slot)];
        let is_told = frame.state == State::Parts
            && frame.announced == self.pipeline.after.len()
            && frame.told == frame.crops.len();
        is_told && frame.over == frame.told
    }

    /// Ends a frame that is over: the verdict on all of it.
    pub fn conclude(&mut self, slot: u16, now_ns: u64) -> Option<Answered> {
        let frame = &mut self.frames[usize::from(slot)];
        let mut answered = frame.first.take()?;
        answered.reply.verdict = frame.verdict;
        // Now, not when the first part was.
        answered.reply.delivered = None;
        answered.decided_ns = now_ns;
        answered.left_out = frame.left_out;
        frame.state = State::Free;
        frame.arrival = None;
        Some(answered)
    }

    /// What a part looks at; none of a frame.
    pub fn part(&self, ticket: &Ticket) -> Option<Part> {
        let after = self.after(ticket)?;
        Some(Part {
            task: after.number,
            number: ticket.part,
            crop: self.found(ticket)?.crop,
        })
    }

    /// The payload of a part of this frame.
    pub fn payload(&self, ticket: &Ticket, task: TaskId, frame: Payload) -> Payload {
        let found = self.found(ticket);
        found.map_or(frame, |FoundCrop { crop, .. }| {
            let PartCrop {
                x,
                y,
                width,
                height,
            } = crop;
            Payload {
                task,
                crop_x: x.into(),
                crop_y: y.into(),
                size: Some(punctual_types::Size {
                    width: width.into(),
                    height: height.into(),
                }),
                ..frame
            }
        })
    }

    fn found(&self, ticket: &Ticket) -> Option<FoundCrop> {
        let at = usize::from(ticket.part).checked_sub(1)?;
        let frame = self.frames.get(usize::from(ticket.slot))?;
        frame.crops.get(at).copied()
    }

    fn after(&self, ticket: &Ticket) -> Option<&After> {
        let found = self.found(ticket)?;
        self.pipeline.after.get(usize::from(found.after))
    }
}

impl Frame {
    fn free() -> Self {
        Self {
            arrival: None,
            deadline: Instant::FAR_FUTURE,
            first: None,
            crops: FoundCrops::new(),
            left_out: 0,
            announced: 0,
            told: 0,
            over: 0,
            verdict: Verdict::OnTime,
            state: State::Free,
        }
    }

    /// How many crops a task has.
    fn count(&self, after: usize) -> u8 {
        let of = |found: &&FoundCrop| usize::from(found.after) == after;
        self.crops.iter().filter(of).count() as u8
    }

    /// Whether all crops of the tasks before this are told.
    fn of_task_told(&self, after: usize) -> bool {
        let next = self.crops.get(self.told);
        next.is_none_or(|found| usize::from(found.after) >= after)
    }
}

/// Which of two verdicts says more of a frame.
const fn severity(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::OnTime => 0,
        Verdict::Rejected(_) => 1,
        Verdict::Late => 2,
        Verdict::Failed(Failure::ClientGone) => 3,
        Verdict::Failed(_) => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crops_wait_for_those_of_older_frames_until_these_are_overdue() {
        let turn = |client, due| Turn {
            client: ClientId(client),
            slot: 0,
            due: Instant::from_nanos(due),
        };
        let mut turns = Turns::with_capacity(3);
        turns.push(turn(0, 100));
        turns.push(turn(1, 200));
        turns.push(turn(2, 300));
        let next = |turns: &Turns, now, known: &[u16]| {
            let is_known = |turn: &Turn| known.contains(&turn.client.0);
            let turn = turns.next(Instant::from_nanos(now), is_known);
            turn.map(|turn| turn.client.0)
        };
        assert_eq!(next(&turns, 50, &[1, 2]), None, "the first may still come");
        assert_eq!(next(&turns, 101, &[1, 2]), Some(1));
        assert_eq!(next(&turns, 101, &[2]), None);
        assert_eq!(next(&turns, 50, &[0, 1]), Some(0));
        turns.remove(ClientId(0), 0);
        assert_eq!(next(&turns, 50, &[1]), Some(1));
    }

    #[test]
    fn the_worst_of_a_frames_parts_is_its_verdict() {
        let verdicts = [
            Verdict::OnTime,
            Verdict::Rejected(Rejection::NoSlack),
            Verdict::Late,
            Verdict::Failed(Failure::Device),
        ];
        assert!(verdicts.map(severity).is_sorted());
    }
}
