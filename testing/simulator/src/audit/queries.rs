//! Pipelines: whether the parts of each query are those of its frame, and whether a query is answered that was promised.

use std::collections::BTreeMap;

use punctual_core::{Config, Failure, Instant, Nanos, Rejection, Reply, TaskId, Verdict};

use super::auditor::Auditor;
use super::claims::is_real_time;
use super::request_log::{Key, Submission, key};
use super::violation::Violation;
use crate::summary::Queries;

/// A pipeline, as it is meant to be.
#[derive(Clone, Debug)]
pub struct Pipeline {
    pub root: TaskId,
    pub followers: Vec<Follower>,
}

#[derive(Clone, Copy, Debug)]
pub struct Follower {
    pub task: TaskId,
    /// The most parts of a frame.
    pub at_most: u8,
}

/// What became of the queries of a pipeline so far.
#[derive(Clone, Debug)]
pub(super) struct Audited {
    pipeline: Pipeline,
    /// The followers whose parts count, and the deadline of a query, if any do.
    counting: Vec<TaskId>,
    deadline: Option<Nanos>,
    /// By number.
    open: BTreeMap<u64, Query>,
    tally: Queries,
    /// By follower: how many queries were announced to it.
    announced: Vec<u64>,
    contract: Contract,
}

/// How the frames of a root have kept to its reservation.
#[derive(Clone, Copy, Debug)]
struct Contract {
    /// All frames and parts were prepared in time and in order, and no frame that conforms failed before.
    regular: bool,
    /// When the next frame that conforms may be captured.
    next: Instant,
    last_prepared: Option<Instant>,
}

#[derive(Clone, Debug)]
struct Query {
    key: Key,
    captured: Instant,
    conforms: bool,
    is_prepared: bool,
    /// Whether its frame was answered, and by the deadline of the query.
    root: Option<Answered>,
    /// By follower.
    bursts: Vec<Option<Burst>>,
    /// Something that is no fault of the scheduler kept a part of it from an answer.
    is_excused: bool,
    is_gone: bool,
}

#[derive(Clone, Copy, Debug)]
struct Answered {
    at_all: bool,
    in_time: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Burst {
    announced: u8,
    came: u8,
    over: u8,
    on_time: u8,
}

/// The frame of a query or, with the position of its follower, a part of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pipeline: usize,
    query: u64,
    follower: Option<usize>,
}

impl Audited {
    pub(super) fn new(pipeline: Pipeline, config: &Config) -> Self {
        let root = &config.tasks[pipeline.root.index()];
        let tasks = pipeline.followers.iter().map(|follower| follower.task);
        let counts =
            |task: &TaskId| is_real_time(&config.tasks[task.index()]) || !is_real_time(root);
        let counting: Vec<TaskId> = tasks.filter(counts).collect();
        let deadlines = counting.iter();
        let deadlines = deadlines.filter_map(|task| config.tasks[task.index()].deadline);
        Self {
            deadline: deadlines.max(),
            counting,
            open: BTreeMap::new(),
            tally: Queries::of(pipeline.root),
            announced: vec![0; pipeline.followers.len()],
            contract: Contract {
                regular: root.reserved,
                next: Instant::ZERO,
                last_prepared: None,
            },
            pipeline,
        }
    }

    fn position(&self, task: TaskId) -> Option<usize> {
        let mut followers = self.pipeline.followers.iter();
        followers.position(|follower| follower.task == task)
    }

    /// A frame of the root. One that wants an earlier answer does not conform.
    fn frame(&mut self, key: Key, captured: Instant, period: Nanos, own_deadline: bool) -> u64 {
        let contract = &mut self.contract;
        let has_place = captured >= contract.next;
        if has_place {
            contract.next = captured + period;
        }
        let number = self.tally.submitted;
        self.tally.submitted += 1;
        let query = Query {
            key,
            captured,
            conforms: has_place,
            is_prepared: false,
            root: None,
            bursts: vec![None; self.pipeline.followers.len()],
            is_excused: own_deadline,
            is_gone: false,
        };
        self.open.insert(number, query);
        number
    }

    /// A follower is told of parts: they are of the oldest frame that it was not told of.
    fn announce(
        &mut self,
        follower: usize,
        captured: Instant,
        parts: u8,
    ) -> Result<u64, Violation> {
        let Follower { task, at_most } = self.pipeline.followers[follower];
        let number = self.announced[follower];
        let wrong = Violation::WrongAnnouncement { task, captured };
        let query = self.open.get_mut(&number).ok_or(wrong)?;
        let root = query.root.ok_or(wrong)?;
        let fits = query.captured == captured
            && parts <= at_most
            && (parts == 0 || root.at_all)
            && query.bursts[follower].is_none();
        if !fits {
            return Err(wrong);
        }
        query.bursts[follower] = Some(Burst {
            announced: parts,
            ..Burst::default()
        });
        self.announced[follower] += 1;
        if self.counting.contains(&task) {
            self.tally.parts += u64::from(parts);
        }
        Ok(number)
    }

    /// A part comes: of the frame that was announced last.
    fn part(&mut self, follower: usize, key: Key, captured: Instant) -> Option<u64> {
        let number = self.announced[follower].checked_sub(1)?;
        let query = self.open.get_mut(&number)?;
        let burst = query.bursts[follower].as_mut()?;
        let fits =
            burst.came < burst.announced && query.captured == captured && query.key.0 == key.0;
        burst.came += u8::from(fits);
        fits.then_some(number)
    }

    fn prepared(&mut self, member: Member, now: Instant, jitter: Nanos) {
        let Some(query) = self.open.get_mut(&member.query) else {
            return;
        };
        let in_time = now <= query.captured + jitter;
        self.contract.regular &= in_time;
        if member.follower.is_some() {
            return;
        }
        query.is_prepared = true;
        let in_order = self.contract.last_prepared < Some(query.captured);
        self.contract.regular &= in_order;
        self.contract.last_prepared = self.contract.last_prepared.max(Some(query.captured));
    }

    /// Whether all of a query is over.
    fn is_over(&self, number: u64) -> bool {
        self.open.get(&number).is_some_and(|query| {
            let over = |burst: &Option<Burst>| burst.is_some_and(|of| of.over == of.announced);
            query.root.is_some() && query.bursts.iter().all(over)
        })
    }

    fn is_on_time(&self, query: &Query) -> bool {
        let counts = |position: usize| {
            let task = self.pipeline.followers[position].task;
            self.counting.contains(&task)
        };
        let mut counting = query
            .bursts
            .iter()
            .enumerate()
            .filter(|(of, _)| counts(*of));
        let on_time = |burst: &Option<Burst>| burst.is_some_and(|of| of.on_time == of.announced);
        query.root.is_some_and(|root| root.in_time) && counting.all(|(_, burst)| on_time(burst))
    }
}

impl Auditor {
    /// Holds the run to these pipelines, too.
    #[must_use]
    pub fn with_pipelines(mut self, pipelines: Vec<Pipeline>) -> Self {
        let audited = pipelines.into_iter();
        let audited = audited.map(|pipeline| Audited::new(pipeline, &self.config));
        self.pipelines = audited.collect();
        self
    }

    /// What became of the queries of each pipeline.
    #[must_use]
    pub fn queries(&self) -> Vec<Queries> {
        self.pipelines.iter().map(|audited| audited.tally).collect()
    }

    /// A submission arrived: the frame of a query, or a part.
    pub(super) fn query_arrived(&mut self, key: Key, task: TaskId, captured: Instant) {
        let config = &self.config.tasks[task.index()];
        let own = config
            .deadline
            .map_or(Instant::FAR_FUTURE, |d| captured + d);
        let asked = self.log.open.get(&key).map_or(own, |open| open.deadline);
        let unmeasured = self.is_unmeasured(task);
        let mut stray = None;
        for (pipeline, audited) in self.pipelines.iter_mut().enumerate() {
            let follower = audited.position(task);
            let query = match follower {
                Some(position) => audited.part(position, key, captured),
                None if audited.pipeline.root == task => {
                    Some(audited.frame(key, captured, config.period, asked < own))
                }
                None => continue,
            };
            let Some(query) = query else {
                stray = Some(Violation::StrayPart {
                    task,
                    sequence: key.2,
                });
                continue;
            };
            if let Some(query) = audited.open.get_mut(&query) {
                query.is_excused |= unmeasured;
            }
            let member = Member {
                pipeline,
                query,
                follower,
            };
            self.members.insert(key, member);
        }
        if let Some(stray) = stray {
            self.found(stray);
        }
    }

    pub(super) fn parts_announced(&mut self, task: TaskId, captured: Instant, parts: u8) {
        for pipeline in 0..self.pipelines.len() {
            let audited = &mut self.pipelines[pipeline];
            let Some(follower) = audited.position(task) else {
                continue;
            };
            match audited.announce(follower, captured, parts) {
                Ok(query) => self.close_query(pipeline, query),
                Err(wrong) => self.found(wrong),
            }
        }
    }

    pub(super) fn query_prepared(&mut self, key: Key, jitter: Nanos) {
        if let Some(member) = self.members.get(&key).copied() {
            self.pipelines[member.pipeline].prepared(member, self.now, jitter);
        }
    }

    pub(super) fn query_client_gone(&mut self, client: u16) {
        let open = self
            .pipelines
            .iter_mut()
            .flat_map(|of| of.open.values_mut());
        for query in open.filter(|query| query.key.0 == client) {
            query.is_gone = true;
        }
    }

    /// A frame or a part has its verdict.
    pub(super) fn query_verdict(&mut self, reply: &Reply, submission: &Submission) {
        let Some(member) = self.members.remove(&key(reply.ticket)) else {
            return;
        };
        let unmeasured = self.is_unmeasured(submission.origin);
        let Member {
            pipeline,
            query: number,
            follower,
        } = member;
        let audited = &mut self.pipelines[pipeline];
        let Some(query) = audited.open.get_mut(&number) else {
            return;
        };
        let failed = matches!(reply.verdict, Verdict::Failed(failure) if failure != Failure::Shed);
        let made_way = [Rejection::Draining, Rejection::Superseded].map(Verdict::Rejected);
        query.is_excused |= unmeasured || failed || made_way.contains(&reply.verdict);
        let on_time = reply.verdict == Verdict::OnTime;
        if let Some(burst) = follower.and_then(|position| query.bursts[position].as_mut()) {
            burst.over += 1;
            burst.on_time += u8::from(on_time);
            if audited.counting.contains(&submission.origin) {
                audited.tally.parts_on_time += u64::from(on_time);
            }
        } else {
            let at_all = matches!(reply.verdict, Verdict::OnTime | Verdict::Late);
            let due = audited.deadline.map(|deadline| query.captured + deadline);
            let has = self.now + self.config.egress_bound;
            let in_time = on_time || at_all && due.is_some_and(|due| has <= due);
            query.root = Some(Answered { at_all, in_time });
            audited.contract.regular &= query.is_prepared || !query.conforms;
        }
        self.close_query(pipeline, number);
    }

    fn close_query(&mut self, pipeline: usize, number: u64) {
        if !self.pipelines[pipeline].is_over(number) {
            return;
        }
        let audited = &mut self.pipelines[pipeline];
        let Some(query) = audited.open.remove(&number) else {
            return;
        };
        let on_time = audited.is_on_time(&query);
        audited.tally.on_time += u64::from(on_time);
        let promised = query.conforms && audited.contract.regular;
        let excused = query.is_excused || query.is_gone;
        let root = audited.pipeline.root;
        let mut tasks = audited.counting.clone();
        tasks.push(root);
        // An older frame may be lost there, and this one waits for it.
        let elsewhere = self.config.tasks[root.index()].offload_to;
        let taker = elsewhere.map(|taker| self.config.tasks[taker.index()].partition);
        let taken = taker.is_none_or(|partition| self.claims.is_unbroken(partition));
        let claimed = taken
            && tasks.iter().all(|task| {
                let config = &self.config.tasks[task.index()];
                config.reserved && self.claims.is_unbroken(config.partition)
            });
        if !on_time && promised && !excused && claimed && self.punctual {
            let sequence = query.key.2;
            self.found(Violation::QueryMissed {
                task: root,
                sequence,
            });
        }
    }

    /// At the end of the run: queries of which something is still to come.
    pub(super) fn finish_queries(&mut self) {
        for audited in &mut self.pipelines {
            // Of a client that is gone, parts that do not count may be missing.
            let open = audited.open.values();
            let on_time = open.filter(|query| audited.is_on_time(query)).count();
            audited.tally.on_time += on_time as u64;
        }
        let open = self.pipelines.iter().flat_map(|audited| {
            let open = audited.open.values().filter(|query| !query.is_gone);
            open.map(|query| Violation::QueryOpen {
                task: audited.pipeline.root,
                sequence: query.key.2,
            })
        });
        let open: Vec<Violation> = open.collect();
        for violation in open {
            self.found(violation);
        }
    }
}
