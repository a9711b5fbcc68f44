//! Pipelines: what the daemon makes of the replies of a root, and what became of each query.
//!
//! The reply to a frame of the root is handed over to each follower: an announcement of how many parts there are, and
//! the parts, captured when the frame was. A frame without an answer has none. Frames are handed over in the order in which
//! they arrived: a reply waits for those of older frames, since a follower's reservation is used in that order. That delays
//! no promised query, as the older frames are due before.

use std::collections::BTreeMap;

use punctual_core::{ClientId, Criticality, Instant, Nanos, Reply, TaskConfig, TaskId, Verdict};
use punctual_types::Random;

use crate::arrivals::{Parts, Pattern, Submission, rounded, tag};
use crate::scenario::Task;
use crate::summary::Queries;

/// What reaches a follower.
#[derive(Clone, Copy, Debug)]
pub enum HandedOver {
    /// The number of parts with this capture time.
    Announcement {
        task: TaskId,
        captured: Instant,
        parts: u8,
    },
    Part(Submission),
}

#[derive(Debug)]
pub struct Pipelines {
    pipelines: Vec<Pipeline>,
    /// By time, then in the order in which they were made.
    due: BTreeMap<(Instant, u64), HandedOver>,
    ordered: u64,
    /// The frames and parts without a verdict, by their tags.
    open: BTreeMap<u64, Member>,
    /// Of a verdict, until its client has it.
    egress_bound: Nanos,
    random: Random,
}

#[derive(Debug)]
struct Pipeline {
    root: TaskId,
    followers: Vec<Follower>,
    /// Of a query, from its capture; none: that of the root alone.
    deadline: Option<Nanos>,
    /// Those that are not over, by number.
    open: BTreeMap<u64, Query>,
    /// How many frames of the root arrived, and how many of them were handed over.
    arrived: u64,
    handed_over: u64,
    tally: Queries,
}

#[derive(Debug)]
struct Follower {
    task: TaskId,
    parts: Parts,
    /// The query is not in time without them.
    counts: bool,
    made: u64,
}

#[derive(Debug)]
struct Query {
    client: ClientId,
    reply: Option<Replied>,
    /// Nothing that counts was late or is missing.
    in_time: bool,
    /// Parts that count and have no verdict.
    parts_left: u32,
}

#[derive(Clone, Copy, Debug)]
struct Replied {
    captured: Instant,
    answered: bool,
}

/// The frame of a query, or a part of it.
#[derive(Clone, Copy, Debug)]
struct Member {
    pipeline: usize,
    query: u64,
    is_part: bool,
    counts: bool,
}

impl Pipelines {
    /// Those of a scenario's tasks, as the plan has them.
    pub fn new(tasks: &[Task], plan: &[TaskConfig], egress_bound: Nanos, seed: u64) -> Self {
        let mut pipelines = Vec::new();
        for root in 0..tasks.len() as u16 {
            let root = TaskId(root);
            let real_time = |task: TaskId| plan[task.index()].criticality == Criticality::RealTime;
            let follower = |(index, task): (usize, &Task)| match task.pattern {
                Pattern::Parts(parts) if parts.of == root => Some(Follower {
                    task: TaskId(index as u16),
                    parts,
                    counts: real_time(TaskId(index as u16)) || !real_time(root),
                    made: 0,
                }),
                _ => None,
            };
            let followers: Vec<_> = tasks.iter().enumerate().filter_map(follower).collect();
            if followers.is_empty() {
                continue;
            }
            let counting = followers.iter().filter(|follower| follower.counts);
            let deadlines = counting.filter_map(|follower| plan[follower.task.index()].deadline);
            pipelines.push(Pipeline {
                root,
                deadline: deadlines.max(),
                followers,
                open: BTreeMap::new(),
                arrived: 0,
                handed_over: 0,
                tally: Queries::of(root),
            });
        }
        Self {
            pipelines,
            due: BTreeMap::new(),
            ordered: 0,
            open: BTreeMap::new(),
            egress_bound,
            random: Random::new(seed),
        }
    }

    pub fn has_follower(&self, task: TaskId) -> bool {
        let followers = self.pipelines.iter().flat_map(|of| &of.followers);
        followers.into_iter().any(|follower| follower.task == task)
    }

    /// When the next announcement or part reaches its task.
    pub fn peek(&self) -> Option<Instant> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    pub fn take(&mut self) -> Option<HandedOver> {
        self.due.pop_first().map(|(_, handed_over)| handed_over)
    }

    /// A frame arrives: a query, if it is for a root.
    pub fn arrived(&mut self, frame: &Submission) {
        let of_root = |pipeline: &Pipeline| pipeline.root == frame.task;
        let Some(index) = self.pipelines.iter().position(of_root) else {
            return;
        };
        let pipeline = &mut self.pipelines[index];
        let query = pipeline.arrived;
        pipeline.arrived += 1;
        pipeline.tally.submitted += 1;
        let new = Query {
            client: frame.client,
            reply: None,
            in_time: true,
            parts_left: 0,
        };
        pipeline.open.insert(query, new);
        let member = Member {
            pipeline: index,
            query,
            is_part: false,
            counts: true,
        };
        self.open.insert(frame.tag, member);
    }

    /// A frame or a part has its verdict.
    pub fn replied(&mut self, now: Instant, tag: u64, reply: &Reply) {
        let Some(member) = self.open.remove(&tag) else {
            return;
        };
        if member.is_part {
            return self.end_part(member, reply.verdict == Verdict::OnTime);
        }
        let pipeline = &mut self.pipelines[member.pipeline];
        let query = pipeline.open.get_mut(&member.query);
        let query = query.expect("it is open until its frame is handed over");
        let answered = matches!(reply.verdict, Verdict::OnTime | Verdict::Late);
        let due = pipeline.deadline.map(|deadline| reply.captured + deadline);
        let by_deadline = answered && due.is_some_and(|due| now + self.egress_bound <= due);
        query.in_time = reply.verdict == Verdict::OnTime || by_deadline;
        query.reply = Some(Replied {
            captured: reply.captured,
            answered,
        });
        self.hand_over(now, member.pipeline);
    }

    /// A part that does not arrive, as its client is gone.
    pub fn dropped(&mut self, tag: u64) {
        if let Some(part) = self.open.remove(&tag) {
            self.end_part(part, false);
        }
    }

    fn end_part(&mut self, part: Member, on_time: bool) {
        if !part.counts {
            return;
        }
        let pipeline = &mut self.pipelines[part.pipeline];
        pipeline.tally.parts_on_time += u64::from(on_time);
        let query = pipeline.open.get_mut(&part.query);
        let query = query.expect("a query is open until its parts are over");
        query.in_time &= on_time;
        query.parts_left -= 1;
        pipeline.close(part.query);
    }

    /// Hands over what was replied to, up to the oldest frame that was not.
    fn hand_over(&mut self, now: Instant, pipeline: usize) {
        loop {
            let of = &self.pipelines[pipeline];
            let number = of.handed_over;
            let Some(reply) = of.open.get(&number).and_then(|query| query.reply) else {
                return;
            };
            for follower in 0..of.followers.len() {
                self.hand_over_to(now, Position { pipeline, follower }, number, reply);
            }
            let of = &mut self.pipelines[pipeline];
            of.handed_over += 1;
            of.close(number);
        }
    }

    fn hand_over_to(&mut self, now: Instant, to: Position, number: u64, reply: Replied) {
        let pipeline = &mut self.pipelines[to.pipeline];
        let follower = &mut pipeline.followers[to.follower];
        let task = follower.task;
        let parts = if reply.answered {
            let of_follower = self.random.stream("fan-out", u64::from(task.0));
            follower.draw(&mut of_follower.stream("query", number))
        } else {
            0
        };
        let query = pipeline.open.get_mut(&number);
        let query = query.expect("it is open until it is handed over");
        let client = query.client;
        if follower.counts {
            query.parts_left += u32::from(parts);
            pipeline.tally.parts += u64::from(parts);
        }
        let (first, counts) = (follower.made, follower.counts);
        follower.made += u64::from(parts);
        let at = now + follower.parts.hand_over;
        let by_client = follower.parts.by_client;
        let captured = if by_client { at } else { reply.captured };
        if !by_client {
            let announcement = HandedOver::Announcement {
                task,
                captured,
                parts,
            };
            self.order(at, announcement);
        }
        for made in first..first + u64::from(parts) {
            let part = Submission {
                task,
                client,
                intended: captured,
                submitted: at,
                captured,
                deadline: None,
                egress: Nanos::ZERO,
                tag: tag(task, made),
                known: None,
            };
            let member = Member {
                pipeline: to.pipeline,
                query: number,
                is_part: true,
                counts,
            };
            self.open.insert(part.tag, member);
            self.order(at, HandedOver::Part(part));
        }
    }

    fn order(&mut self, at: Instant, what: HandedOver) {
        self.due.insert((at, self.ordered), what);
        self.ordered += 1;
    }

    /// What became of the queries of each pipeline. Those that are not over are not in time.
    pub fn into_tallies(self) -> Vec<Queries> {
        self.pipelines.into_iter().map(|of| of.tally).collect()
    }
}

/// A follower of a pipeline.
#[derive(Clone, Copy)]
struct Position {
    pipeline: usize,
    follower: usize,
}

impl Pipeline {
    /// Counts a query whose frame was handed over and whose parts are over.
    fn close(&mut self, number: u64) {
        let over = |query: &Query| number < self.handed_over && query.parts_left == 0;
        if self.open.get(&number).is_some_and(over)
            && let Some(query) = self.open.remove(&number)
        {
            self.tally.on_time += u64::from(query.in_time);
        }
    }
}

impl Follower {
    fn draw(&self, random: &mut Random) -> u8 {
        let at_most = self.parts.at_most;
        match self.parts.fan_out {
            Some(mean) => rounded(random, mean).min(u32::from(at_most)) as u8,
            None => random.below(u64::from(at_most) + 1) as u8,
        }
    }
}
