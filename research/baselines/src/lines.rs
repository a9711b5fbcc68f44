//! Queues in order of arrival, for the policies that need no more than that.
use std::collections::VecDeque;

use punctual_core::{
    Actions, BATCH_MAX, BatchTime, Config, Instant, ModelId, Nanos, PartitionId, Rejection,
    StageConfig, TaskConfig, TaskId,
};
use punctual_policy_seeb::batch_runner::{BatchRunner, Members};

/// Requests that may run in one batch, first come first.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) partition: PartitionId,
    pub(crate) model: ModelId,
    /// The largest batch: compiled for every stage, and allowed by every task of the line.
    pub(crate) batch_max: usize,
    /// The smallest relative deadline of its tasks.
    pub(crate) deadline: Option<Nanos>,
    /// L(b) at index b - 1: profiled time of the whole network for b members.
    times: Box<[Nanos]>,
    queue: VecDeque<u16>,
}

impl Line {
    fn new(config: &Config, task: &TaskConfig) -> Self {
        let stages = &config.models[task.model.index()].stages;
        let largest = |stage: &StageConfig| {
            let sizes = stage.times.iter().map(|time| time.batch);
            sizes.filter(|&size| size <= task.batch_max).max()
        };
        let batch_max = stages.iter().filter_map(largest).min();
        let batch_max = usize::from(batch_max.expect("batch size 1 is compiled"));
        let time = |members: usize| {
            stages.iter().fold(Nanos::ZERO, |sum, stage| {
                let holds = |time: &&BatchTime| usize::from(time.batch) >= members;
                let time = stage.times.iter().find(holds).expect("up to batch_max");
                sum + time.on[task.partition.index()].budget + config.dispatch_cost
            })
        };
        Self {
            partition: task.partition,
            model: task.model,
            batch_max,
            deadline: task.deadline,
            times: (1..=batch_max).map(time).collect(),
            queue: VecDeque::with_capacity(usize::from(config.request_buffers)),
        }
    }

    /// Another task shares the line: a batch must suit both.
    fn share(&mut self, other: &Self) {
        self.batch_max = self.batch_max.min(other.batch_max);
        self.deadline = self.deadline.into_iter().chain(other.deadline).min();
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Those who wait, first come first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.queue.iter().copied()
    }

    pub(crate) fn head(&self) -> Option<u16> {
        self.queue.front().copied()
    }

    /// L(b): profiled time of the whole network for `members`, at most `batch_max`.
    pub(crate) fn time(&self, members: usize) -> Nanos {
        self.times[members - 1]
    }

    /// Takes the first off the line.
    pub(crate) fn pop(&mut self) -> Option<u16> {
        self.queue.pop_front()
    }

    /// Takes the first `count` off the line, or as many as an action holds.
    pub(crate) fn take(&mut self, count: usize) -> Members {
        let count = count.min(self.queue.len()).min(BATCH_MAX);
        self.queue.drain(..count).collect()
    }

    /// Takes off the line one who can be on time no more, if there is one.
    pub(crate) fn pop_late(&mut self, runner: &BatchRunner) -> Option<u16> {
        let late = |&buffer: &u16| runner.request(buffer).due < runner.now;
        let at = self.queue.iter().position(late)?;
        self.queue.remove(at)
    }
}

#[derive(Debug)]
pub(crate) struct Lines {
    lines: Box<[Line]>,
    of_task: Box<[usize]>,
}

impl Lines {
    /// One line for all tasks of equal `key`. Requests of a line that are to share a batch must be
    /// of one model and partition: that is the key's business.
    pub(crate) fn by<K: PartialEq>(config: &Config, key: impl Fn(&TaskConfig) -> K) -> Self {
        let mut lines = Vec::<Line>::new();
        let mut keys = Vec::new();
        let mut of_task = Vec::new();
        for task in &config.tasks {
            let (line, key) = (Line::new(config, task), key(task));
            let at = keys.iter().position(|k| *k == key);
            of_task.push(at.unwrap_or(lines.len()));
            match at {
                Some(at) => lines[at].share(&line),
                None => {
                    lines.push(line);
                    keys.push(key);
                }
            }
        }
        Self {
            lines: lines.into(),
            of_task: of_task.into(),
        }
    }

    /// One a model, on each partition where it runs.
    pub(crate) fn by_model(config: &Config) -> Self {
        Self::by(config, |task| (task.partition, task.model))
    }

    /// The position of a task's line.
    pub(crate) fn of(&self, task: TaskId) -> usize {
        self.of_task[task.index()]
    }

    /// The position of the line whose batches are of a model on a partition.
    pub(crate) fn position(&self, partition: PartitionId, model: ModelId) -> Option<usize> {
        let is = |line: &Line| line.partition == partition && line.model == model;
        self.lines.iter().position(is)
    }

    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    pub(crate) fn iter(&self) -> core::slice::Iter<'_, Line> {
        self.lines.iter()
    }

    pub(crate) fn get(&self, line: usize) -> &Line {
        &self.lines[line]
    }

    pub(crate) fn get_mut(&mut self, line: usize) -> &mut Line {
        &mut self.lines[line]
    }

    /// Queues a request at its place in the order of arrival: the last, unless it comes back from
    /// a job that was not run.
    pub(crate) fn insert(&mut self, runner: &BatchRunner, buffer: u16) {
        let request = runner.request(buffer);
        let queue = &mut self.lines[self.of_task[request.task.index()]].queue;
        assert!(queue.len() < queue.capacity(), "all buffers fit a line");
        let at = queue.partition_point(|&other| runner.request(other).order < request.order);
        queue.insert(at, buffer);
    }

    /// Takes a request off its line.
    pub(crate) fn remove(&mut self, runner: &BatchRunner, buffer: u16) {
        let queue = &mut self.lines[self.of(runner.request(buffer).task)].queue;
        let at = queue.iter().position(|&queued| queued == buffer);
        queue.remove(at.expect("a queued request is in its line"));
    }

    /// Of the lines on a free partition for which `send` names a number of members, the one whose
    /// head came first, with that number.
    pub(crate) fn oldest(
        &self,
        runner: &BatchRunner,
        partition: PartitionId,
        send: impl Fn(usize, &Line) -> Option<usize>,
    ) -> Option<(usize, usize)> {
        let here = self.lines.iter().enumerate();
        let here = here.filter(|(_, line)| line.partition == partition);
        here.filter_map(|(index, line)| {
            let order = runner.request(line.head()?).order;
            Some((order, index, send(index, line)?))
        })
        .min()
        .map(|(_, index, members)| (index, members))
    }

    /// Drops those whose deadline has passed, and only those (lazy drop: Nexus, section 4.3).
    pub(crate) fn reject_late(&mut self, runner: &mut BatchRunner, actions: &mut Actions) {
        for line in &mut self.lines {
            while let Some(buffer) = line.pop_late(runner) {
                runner.reject(buffer, Rejection::NoSlack, actions);
            }
        }
    }

    /// Gives every free partition the batch that `choose` names: a line, and the number of requests to take from its front.
    pub(crate) fn serve(
        &mut self,
        runner: &mut BatchRunner,
        compacts: bool,
        actions: &mut Actions,
        mut choose: impl FnMut(&Self, &BatchRunner, PartitionId) -> Option<(usize, usize)>,
    ) {
        for index in 0..runner.config.partitions.len() {
            let partition = PartitionId(index as u16);
            if !runner.is_free(partition) {
                continue;
            }
            if let Some((line, count)) = choose(self, runner, partition) {
                let members = self.lines[line].take(count);
                runner.start(partition, members, compacts, Instant::FAR_FUTURE, actions);
            }
        }
    }
}
