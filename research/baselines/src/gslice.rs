//! `gslice`: GSLICE (Dhakal, Kulkarni, Ramakrishnan: "GSLICE: Controlled Spatial Sharing of GPUs for
//! a Scalable Inference Platform", SoCC 2020).
//!
//! Each model has an instance on a share of the compute units of its own, and runs its queue there
//! in order of arrival, in batches of up to b, each network at full depth. At the end of an epoch,
//! which begins with its first request, the instances adapt:
//!
//! 1. An instance whose slowest response of the epoch left over `slack` of its SLO gives units back,
//!    at most `step`, but keeps what its latency needs (the *knee*).
//! 2. An instance that missed its SLO gets up to `step` more units, those with the highest rate of
//!    requests first; if none are left, its batch is lowered one size instead.
//! 3. An instance that missed nothing may use the next larger batch again.
//!
//! b is the largest compiled batch, up to what 2. and 3. allow, whose latency on the share is within
//! `budget` of the SLO. An instance that is moved or resized stands still for `gap`.
//!
//! The source publishes no figures for `step`, `epoch`, the knee's test and `budget`: they are
//! parameters. The knee is the least share from which `step` more units would make a batch faster by
//! less than `knee`. Shares begin equal. Ranges are contiguous, in order of the models, so resizing
//! one moves the next ones; an instance starts on its new range once nothing else runs there. If
//! there are fewer units than models, their ranges overlap and they take turns, oldest request first.

use serde::{Deserialize, Serialize};

use punctual_core::bounded::List;
use punctual_core::{
    Actions, Config, ConfigError, Contract, Instant, ModelId, Nanos, PartitionId, Partitioning,
    Policy, PolicySpec, Rejection, Units,
};
use punctual_policy_seeb::batch_runner::{
    Baseline, BaselineRules, BatchRunner, Ended, Job, Members, largest_batch,
};
use punctual_policy_seeb::ranges::Ranges;

/// Parameters of `gslice`. Fractions are in thousandths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct GsliceConfig {
    pub epoch: Nanos,
    /// Most units that a share grows or shrinks by in an epoch.
    pub step: u16,
    /// Of the SLO: what has to be left over for a share to shrink.
    pub slack: u16,
    /// Least gain in latency for `step` more units; below it they are not worth having.
    pub knee: u16,
    /// Of the SLO: what a batch may take; the rest is for waiting until the batch before is done.
    pub budget: u16,
    /// How long an instance stands still when its share changes.
    pub gap: Nanos,
}

impl Default for GsliceConfig {
    fn default() -> Self {
        Self {
            epoch: Nanos::from_millis(1000),
            step: 2,
            slack: 100,
            knee: 50,
            budget: 500,
            gap: Nanos::from_micros(100),
        }
    }
}

impl PolicySpec for GsliceConfig {
    fn name(&self) -> &'static str {
        "gslice"
    }

    fn summary(&self) -> &'static str {
        "a share of the device a model, adapted each epoch (GSLICE)"
    }

    fn contract(&self) -> Contract {
        Contract::best_effort(Partitioning::Ranges)
    }

    fn check(&self, config: &Config) -> Result<(), ConfigError> {
        Ranges::new(config).check(self.name())?;
        self.obeys(self.broken_rule())
    }

    fn build(&self, config: &Config) -> Box<dyn Policy> {
        Baseline::boxed(config, self, Gslice::new(config, self))
    }
}

impl GsliceConfig {
    /// What a parameter must be, if one is not.
    fn broken_rule(&self) -> Option<&'static str> {
        if self.epoch == Nanos::ZERO {
            return Some("epoch must be longer than 0");
        }
        if self.slack > 1000 || self.knee > 1000 || self.budget > 1000 {
            return Some("slack, knee and budget are in thousandths, at most 1000");
        }
        None
    }
}

/// A model's share of the device and what happened to its requests in this epoch.
#[derive(Debug)]
struct Instance {
    model: ModelId,
    /// The smallest relative deadline among the model's tasks.
    slo: Option<Nanos>,
    /// How many units it is to have, ...
    count: u16,
    /// ... and which it has been given.
    share: Units,
    /// The largest batch that adaptation allows.
    cap: usize,
    batch: usize,
    /// Stands still until then.
    ready: Instant,
    queue: List<u16>,
    running: Option<Running>,
    arrivals: u64,
    missed: u64,
    slowest: Nanos,
}

/// The batch that an instance runs.
#[derive(Clone, Copy, Debug)]
struct Running {
    units: Units,
    /// When the first of its members was captured.
    oldest: Instant,
    due: Instant,
}

#[derive(Debug)]
struct Gslice {
    rules: GsliceConfig,
    ranges: Ranges,
    instances: Box<[Instance]>,
    /// None: no request has come since the last epoch.
    epoch_ends: Option<Instant>,
    /// Scratch: instances by falling rate of requests.
    order: List<usize>,
}

impl Gslice {
    fn new(config: &Config, rules: &GsliceConfig) -> Self {
        let ranges = Ranges::new(config);
        let models = (0..config.models.len()).map(|model| ModelId(model as u16));
        let mut instances: Box<[Instance]> =
            models.filter_map(|model| instance(config, model)).collect();
        let count = instances.len();
        let fair = (ranges.all() / count.max(1) as u16).max(1);
        for instance in &mut instances {
            instance.count = fair;
        }
        let mut gslice = Self {
            epoch_ends: None,
            rules: rules.clone(),
            instances,
            order: List::with_capacity(count),
            ranges,
        };
        gslice.lay_out(config, Instant::ZERO);
        // The first shares are there from the start.
        for instance in &mut gslice.instances {
            instance.ready = Instant::ZERO;
        }
        gslice
    }

    fn instance_of(&mut self, runner: &BatchRunner, buffer: u16) -> &mut Instance {
        let task = runner.request(buffer).task.index();
        let model = runner.config.tasks[task].model;
        let found = self.instances.iter_mut().find(|i| i.model == model);
        found.expect("each model that a task asks has an instance")
    }

    fn adapt(&mut self, config: &Config, now: Instant) {
        let (slack, step) = (u64::from(self.rules.slack), self.rules.step);
        for index in 0..self.instances.len() {
            let instance = &self.instances[index];
            let idle = |slo: Nanos| slo.as_nanos() / 1000 * (1000 - slack.min(1000));
            let has_slack = instance
                .slo
                .is_none_or(|slo| instance.slowest.as_nanos() < idle(slo));
            if instance.missed == 0 && has_slack {
                let keeps = self.knee(config, instance).min(instance.count);
                let least = instance.count.saturating_sub(step).max(keeps);
                self.instances[index].count = least;
            }
        }
        let used: u16 = self.instances.iter().map(|i| i.count).sum();
        let mut spare = self.ranges.all().saturating_sub(used);
        self.sort_by_rate();
        for at in 0..self.order.len() {
            let instance = &mut self.instances[self.order[at]];
            if instance.missed == 0 {
                instance.cap = next_size(config, instance.model, instance.cap);
            } else if spare > 0 {
                let more = step.min(spare);
                instance.count += more;
                spare -= more;
            } else {
                instance.cap = previous_size(config, instance.model, instance.batch);
            }
            (instance.arrivals, instance.missed, instance.slowest) = (0, 0, Nanos::ZERO);
        }
        self.lay_out(config, now);
    }

    fn sort_by_rate(&mut self) {
        self.order.clear();
        for index in 0..self.instances.len() {
            self.order.push(index);
        }
        let instances = &self.instances;
        self.order
            .sort_unstable_by_key(|&i| (u64::MAX - instances[i].arrivals, i));
    }

    /// Places the shares side by side and chooses batch sizes for them.
    fn lay_out(&mut self, config: &Config, now: Instant) {
        let mut first = 0;
        for index in 0..self.instances.len() {
            let instance = &mut self.instances[index];
            let count = instance.count;
            let share = Units {
                first: u16::min(first, self.ranges.all() - count),
                count,
            };
            first += count;
            if share != instance.share {
                instance.share = share;
                instance.ready = now + self.rules.gap;
            }
            let batch = self.batch(config, &self.instances[index]);
            self.instances[index].batch = batch;
        }
    }

    /// b: the largest batch in budget on the present share, 1 if none is.
    fn batch(&self, config: &Config, instance: &Instance) -> usize {
        let budget = instance.slo.map_or(u64::MAX, |slo| {
            slo.as_nanos() / 1000 * u64::from(self.rules.budget)
        });
        let fits = |size: &usize| {
            let latency = self.latency(config, instance.model, *size, instance.share.count);
            *size <= instance.cap && latency.as_nanos() <= budget
        };
        sizes(config, instance.model)
            .filter(fits)
            .max()
            .unwrap_or(1)
    }

    /// The least share from which `step` more units gain less than the parameter `knee`.
    fn knee(&self, config: &Config, instance: &Instance) -> u16 {
        let all = self.ranges.all();
        let latency = |units: u16| {
            let units = units.min(all);
            u128::from(
                self.latency(config, instance.model, instance.batch, units)
                    .as_nanos(),
            )
        };
        let enough = |units: &u16| {
            let gain =
                latency(*units).saturating_sub(latency(units.saturating_add(self.rules.step)));
            gain * 1000 < latency(*units) * u128::from(self.rules.knee)
        };
        (1..=all).find(enough).unwrap_or(all)
    }

    /// L(b, g): all stages of a batch on that many units.
    fn latency(&self, config: &Config, model: ModelId, batch: usize, units: u16) -> Nanos {
        let range = Units {
            first: 0,
            count: units,
        };
        let partition = self.ranges.partition(range).index();
        let stages = &config.models[model.index()].stages;
        stages.iter().fold(Nanos::ZERO, |sum, stage| {
            let time = stage.times.iter().find(|t| usize::from(t.batch) >= batch);
            let time = time.or(stage.times.last()).expect("a stage has times");
            sum + time.on[partition].budget + config.dispatch_cost
        })
    }

    fn can_start(&self, now: Instant, instance: &Instance) -> bool {
        let blocked = self.instances.iter().filter_map(|i| i.running);
        !instance.queue.is_empty()
            && instance.running.is_none()
            && instance.ready <= now
            && blocked
                .into_iter()
                .all(|running| !running.units.overlaps(instance.share))
    }

    fn start(&mut self, runner: &mut BatchRunner, index: usize, actions: &mut Actions) {
        let instance = &mut self.instances[index];
        let mut members = Members::new();
        while members.len() < instance.batch && !instance.queue.is_empty() {
            let buffer = instance.queue.remove(0);
            members.push(buffer).expect("a batch is at most BATCH_MAX");
        }
        let requests = || members.iter().map(|&buffer| runner.request(buffer));
        instance.running = Some(Running {
            units: instance.share,
            oldest: requests().map(|r| r.captured).min().unwrap_or(runner.now),
            due: requests()
                .map(|r| r.due)
                .min()
                .unwrap_or(Instant::FAR_FUTURE),
        });
        let partition: PartitionId = self.ranges.partition(instance.share);
        runner.start(partition, members, true, Instant::FAR_FUTURE, actions);
    }
}

impl BaselineRules for Gslice {
    fn enqueue(&mut self, runner: &BatchRunner, buffer: u16) -> Result<(), Rejection> {
        self.epoch_ends.get_or_insert(runner.now + self.rules.epoch);
        let instance = self.instance_of(runner, buffer);
        instance.arrivals += 1;
        instance.queue.push(buffer);
        Ok(())
    }

    fn forget(&mut self, runner: &BatchRunner, buffer: u16) {
        let queue = &mut self.instance_of(runner, buffer).queue;
        if let Some(at) = queue.iter().position(|&queued| queued == buffer) {
            queue.remove(at);
        }
    }

    fn ended(&mut self, runner: &mut BatchRunner, job: &Job, how: Ended) {
        let found = self.instances.iter_mut().find(|i| i.model == job.model);
        let instance = found.expect("the job is an instance's");
        let Some(running) = instance.running.take() else {
            return;
        };
        if how == Ended::Finished {
            instance.missed += u64::from(runner.now > running.due);
            instance.slowest = instance.slowest.max(runner.now.since(running.oldest));
        }
    }

    fn dispatch(&mut self, runner: &mut BatchRunner, actions: &mut Actions) {
        if self.epoch_ends.is_some_and(|end| end <= runner.now) {
            self.adapt(&runner.config, runner.now);
            self.epoch_ends = None;
        }
        loop {
            let able = (0..self.instances.len())
                .filter(|&index| self.can_start(runner.now, &self.instances[index]));
            let order = |&index: &usize| runner.request(self.instances[index].queue[0]).order;
            let Some(index) = able.min_by_key(order) else {
                return;
            };
            self.start(runner, index, actions);
        }
    }

    fn next_timer(&self, runner: &BatchRunner) -> Option<Instant> {
        let waiting = self.instances.iter().filter(|i| !i.queue.is_empty());
        let ready = waiting.map(|i| i.ready).filter(|ready| *ready > runner.now);
        ready.chain(self.epoch_ends).min()
    }
}

/// The instance of a model that tasks ask, with an empty share.
fn instance(config: &Config, model: ModelId) -> Option<Instance> {
    let mut asked = config
        .tasks
        .iter()
        .filter(|task| task.model == model)
        .peekable();
    asked.peek()?;
    Some(Instance {
        model,
        slo: asked.filter_map(|task| task.deadline).min(),
        count: 0,
        share: Units { first: 0, count: 0 },
        cap: largest_batch(config, model),
        batch: 1,
        ready: Instant::ZERO,
        queue: List::with_capacity(usize::from(config.request_buffers)),
        running: None,
        arrivals: 0,
        missed: 0,
        slowest: Nanos::ZERO,
    })
}

/// The compiled batch sizes that a model's tasks allow, rising.
fn sizes(config: &Config, model: ModelId) -> impl Iterator<Item = usize> + '_ {
    let most = largest_batch(config, model);
    let times = config.models[model.index()].stages[0].times.iter();
    let sizes = times.map(|time| usize::from(time.batch));
    sizes.filter(move |&size| size <= most)
}

fn next_size(config: &Config, model: ModelId, size: usize) -> usize {
    let larger = sizes(config, model).find(|&larger| larger > size);
    larger.unwrap_or(size)
}

fn previous_size(config: &Config, model: ModelId, size: usize) -> usize {
    let smaller = sizes(config, model).filter(|&smaller| smaller < size);
    smaller.max().unwrap_or(1)
}

#[cfg(test)]
mod tests {

    use super::*;
    use punctual_core::Confidence;
    use punctual_policy_testing::timeline::{self, Network};

    /// Model 0 takes 80 ms divided by its units, model 1 always 2 ms, a batch of two half more.
    /// Eight units; SLOs of 15 and 20 ms; epochs of 100 ms, steps of two units.
    fn plan() -> Config {
        let scales =
            |_, batch: u8, units| (160 + 80 * (u64::from(batch) - 1)) / 2 / u64::from(units);
        let constant = |_, batch: u8, _| 1 + u64::from(batch);
        let network = |time| Network {
            stages: 1,
            batches: &[1, 2],
            time,
        };
        let tasks = vec![timeline::task(0, 15), timeline::task(1, 20)];
        let ranges = timeline::all_ranges(8);
        timeline::plan(&ranges, &[network(&scales), network(&constant)], tasks)
    }

    /// What ran, as (at, model, first unit, units, members).
    fn ran(rules: GsliceConfig, arrivals: &[(u64, u16)]) -> Vec<(u64, u16, u16, u16, usize)> {
        let config = plan();
        let played = timeline::play(&config, &rules, arrivals, &|_, _| Confidence::ONE);
        let row = |ran: &timeline::Ran| {
            let units = config.partitions[ran.infer.partition.index()].units;
            (
                ran.at,
                ran.infer.model.0,
                units.first,
                units.count,
                ran.members.len(),
            )
        };
        played.ran.iter().map(row).collect()
    }

    fn rules() -> GsliceConfig {
        GsliceConfig {
            epoch: Nanos::from_millis(100),
            ..GsliceConfig::default()
        }
    }

    /// | epoch | model 0 | model 1 |
    /// |---|---|---|
    /// | 1 | 4 units: 20 ms > 15, missed | 4 units: 2 ms, slack |
    /// | 2 | 6 units: 13 ms, not missed; its knee is at 8, so it keeps them | 2 units (knee at 1) |
    /// | 3 | 6 units | 1 unit |
    #[test]
    fn a_share_that_misses_grows_by_what_one_with_slack_gives_back() {
        let arrivals = [(10, 0), (10, 1), (120, 0), (120, 1), (230, 0), (230, 1)];
        let expected = [
            (10, 0, 0, 4, 1),
            (10, 1, 4, 4, 1),
            (120, 0, 0, 6, 1),
            (120, 1, 6, 2, 1),
            (230, 0, 0, 6, 1),
            (230, 1, 6, 1, 1),
        ];
        assert_eq!(ran(rules(), &arrivals), expected);
    }

    /// Model 1 has 4 units and a budget of half of 20 ms: batches of two. Requests 1 and 2 wait while request 0 runs.
    #[test]
    fn an_instance_takes_what_waits_up_to_the_batch_that_its_budget_allows() {
        let arrivals = [(10, 1), (11, 1), (11, 1), (11, 1)];
        let expected = [(10, 1, 4, 4, 1), (12, 1, 4, 4, 2), (15, 1, 4, 4, 1)];
        assert_eq!(ran(rules(), &arrivals), expected);
    }

    #[test]
    fn a_resized_instance_stands_still_for_the_gap() {
        let slow = GsliceConfig {
            gap: Nanos::from_millis(50),
            ..rules()
        };
        let began = ran(slow, &[(10, 0), (130, 0)]);
        // The epoch ends at 110.
        assert_eq!(began, [(10, 0, 0, 4, 1), (160, 0, 0, 6, 1)]);
    }
}
