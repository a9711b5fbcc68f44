//! The price of depth: which answers are worth a deeper stage, at each load. Off by default, as greedy
//! order by gain per time behind the slack gate measures better (decision 7).
//!
//! The table is the optimum of a fluid model, computed once. At a load, requests flow from exit to exit as
//! calibration predicts, and each stage takes its share of the partition for the requests that go deeper. The
//! price is the smallest gain per time at which the partition has time for the mandatory stages, the deeper
//! stages that gain at least as much, and a margin. It is the Lagrange multiplier of the highest expected
//! accuracy under the partition's time, so thresholds and batch sizes follow from one number. The table has
//! one bit for each (load, task, exit, bin of confidence). No promise depends on it, because slack gates
//! optional work in any case: a wrong price costs accuracy only.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::config::{ACCURACY_BINS, Config, Criticality, ModelConfig, TaskConfig};
use crate::ids::{Confidence, StageId, TaskId};
use crate::punctual::gain::best_gain;
use crate::punctual::load::{LOAD_STEPS_OF_WHOLE, LOADS};
use crate::punctual::tables::TaskTable;
use crate::time::Nanos;

/// The width of a bin of confidence.
const BIN_WIDTH: u64 = (1 << 16) / ACCURACY_BINS as u64;
/// Flows, shares and fractions are in 2^-32.
const ONE: u64 = 1 << 32;
/// Fractional bits that a price has in addition to those of a gain.
const PRICE_BITS: u32 = 20;
/// The bins of confidence from which requests go deeper, one bit each.
type Bins = u16;

const _: () = assert!(ACCURACY_BINS <= Bins::BITS as usize);

/// The answers that are worth a deeper stage.
#[derive(Clone, Debug)]
pub struct Prices {
    /// By load, then by exit of each task in turn.
    goes_on: Box<[Bins]>,
    /// By task: the position of its first exit.
    firsts: Box<[u32]>,
    /// The number of exits of all tasks.
    exits: usize,
}

impl Prices {
    /// The table for these tasks. It leaves `margin` thousandths of each partition free.
    pub fn new(config: &Config, placed: &[TaskTable], margin: u16) -> Self {
        let mut firsts = Vec::with_capacity(config.tasks.len());
        let mut exits = 0;
        for task in &config.tasks {
            firsts.push(exits as u32);
            exits += config.models[task.model.index()].stages.len();
        }
        let mut prices = Self {
            goes_on: alloc::vec![0; exits * LOADS].into(),
            firsts: firsts.into(),
            exits,
        };
        let capacity = ONE - ONE * u64::from(margin.min(1000)) / 1000;
        for partition in 0..config.partitions.len() {
            let here = |task: &usize| placed[*task].partition.index() == partition;
            let tasks: Vec<usize> = (0..config.tasks.len()).filter(here).collect();
            let mut streams: Vec<Stream<'_>> = tasks
                .iter()
                .filter_map(|&task| Stream::new(config, task, partition))
                .collect();
            let nominal: u128 = streams.iter().map(Stream::utilisation).sum();
            for load in 0..LOADS {
                // The plan's rates, all scaled by one factor, so that mandatory work alone is this load.
                let wanted = u128::from(ONE * load as u64 / LOAD_STEPS_OF_WHOLE);
                let scale = (wanted << 32) / nominal.max(1);
                for stream in &mut streams {
                    stream.scale = scale;
                }
                let price = price(&streams, u128::from(capacity));
                for stream in &streams {
                    prices.note(load, stream, price);
                }
            }
        }
        prices
    }

    fn note(&mut self, load: usize, stream: &Stream<'_>, price: u64) {
        let at = load * self.exits + self.firsts[stream.task] as usize;
        // Without calibration of confidence no flow can be computed. Then every gain is worth its time.
        let price = if stream.is_known() { price } else { 1 };
        for exit in stream.deepened() {
            self.goes_on[at + exit] = stream.bins_worth(exit, price);
        }
    }

    /// Whether an answer of this confidence at `exit`, which is not the last, is worth the next stage at this load.
    pub fn goes_on(
        &self,
        load: usize,
        task: TaskId,
        exit: StageId,
        confidence: Confidence,
    ) -> bool {
        let at = load * self.exits + self.firsts[task.index()] as usize + exit.index();
        let bin = u64::from(confidence.0) / BIN_WIDTH;
        self.goes_on[at] >> bin & 1 == 1
    }
}

/// The smallest price at which all demands fit into `capacity`. At least 1: a stage that gains nothing is not
/// worth even free time, which a request that arrives meanwhile may need.
fn price(streams: &[Stream<'_>], capacity: u128) -> u64 {
    let demand = |price| -> u128 { streams.iter().map(|s| s.demand(price)).sum() };
    let mut rates: Vec<u64> = streams.iter().flat_map(Stream::rates).collect();
    rates.sort_unstable();
    rates.dedup();
    // The demand falls as the price rises, and changes only at the rates. So a binary search over them finds
    // the last rate that does not fit; the price is one above.
    let too_low = rates.partition_point(|&rate| demand(rate.max(1)) > capacity);
    let last = too_low.checked_sub(1).map(|last| rates[last]);
    last.map_or(1, |rate| rate.saturating_add(1))
}

/// A task in the fluid model: its requests arrive evenly, at a load, and run in batches.
struct Stream<'a> {
    task: usize,
    plan: &'a TaskConfig,
    model: &'a ModelConfig,
    partition: usize,
    /// The factor on the plan's rate, in 2^-32.
    scale: u128,
    dispatch_cost: Nanos,
}

impl<'a> Stream<'a> {
    /// `None` for best-effort tasks, which run in the time that is left.
    fn new(config: &'a Config, task: usize, partition: usize) -> Option<Self> {
        let plan = &config.tasks[task];
        (plan.criticality == Criticality::RealTime).then(|| Self {
            task,
            plan,
            model: &config.models[plan.model.index()],
            partition,
            scale: 0,
            dispatch_cost: config.dispatch_cost,
        })
    }

    fn is_known(&self) -> bool {
        let first = &self.model.stages[0].follows;
        first.iter().flatten().any(|&share| share > 0)
    }

    /// The exits from which requests may go deeper.
    fn deepened(&self) -> core::ops::Range<usize> {
        self.plan.mandatory_exit.index()..self.model.stages.len() - 1
    }

    /// The number of requests that arrive close enough to each other to share a batch. That is within half of
    /// the time that a deadline leaves after jitter and mandatory work.
    fn together(&self) -> u64 {
        let left = self.plan.deadline.unwrap_or(Nanos::ZERO);
        let left = left.saturating_sub(self.plan.jitter + self.mandatory());
        let left = left.as_nanos() / 2;
        let coming = (u128::from(left) * self.scale / self.period()) >> 32;
        1 + coming.min(u128::from(u8::MAX)) as u64
    }

    /// C: the mandatory work of a request alone.
    fn mandatory(&self) -> Nanos {
        let stages = &self.model.stages[..=self.plan.mandatory_exit.index()];
        let alone = stages
            .iter()
            .map(|stage| stage.times[0].on[self.partition].budget);
        alone.fold(Nanos::ZERO, |sum, budget| sum + budget + self.dispatch_cost)
    }

    /// C/T as the plan says, in 2^-32.
    fn utilisation(&self) -> u128 {
        (u128::from(self.mandatory().as_nanos()) << 32) / self.period()
    }

    fn period(&self) -> u128 {
        u128::from(self.plan.period.as_nanos().max(1))
    }

    /// The time of a stage, at the largest batch that fills, and its members.
    fn batch(&self, stage: usize) -> (u64, u64) {
        let most = self.together().min(u64::from(self.plan.batch_max));
        let times = &self.model.stages[stage].times;
        let size = times
            .iter()
            .rev()
            .find(|time| u64::from(time.batch) <= most);
        let time = size.unwrap_or(&times[0]);
        let cost = time.on[self.partition].budget + self.dispatch_cost;
        (cost.as_nanos().max(1), u64::from(time.batch))
    }

    /// The part of the partition's time, in 2^-32, that a stage takes when `flow` of the requests run it.
    fn share(&self, stage: usize, flow: u64) -> u128 {
        let (cost, members) = self.batch(stage);
        let busy = u128::from(cost) * u128::from(flow);
        (busy / (self.period() * u128::from(members)) * self.scale) >> 32
    }

    /// The gain per time of a stage, for an answer in `bin` at the exit before.
    fn rate(&self, stage: usize, bin: usize) -> u64 {
        let (cost, members) = self.batch(stage);
        let gain = u128::from(best_gain(self.model, stage, self.partition, bin));
        let worth = gain * u128::from(self.plan.weight) * u128::from(members);
        u64::try_from((worth << PRICE_BITS) / u128::from(cost)).unwrap_or(u64::MAX)
    }

    fn rates(&self) -> impl Iterator<Item = u64> + '_ {
        self.deepened()
            .flat_map(move |exit| (0..ACCURACY_BINS).map(move |bin| self.rate(exit + 1, bin)))
    }

    fn bins_worth(&self, exit: usize, price: u64) -> Bins {
        (0..ACCURACY_BINS)
            .filter(|&bin| self.rate(exit + 1, bin) >= price)
            .fold(0, |bins, bin| bins | 1 << bin)
    }

    /// The part of the partition's time that the task takes at a price, in 2^-32.
    fn demand(&self, price: u64) -> u128 {
        let mut flow = [0; ACCURACY_BINS];
        flow[0] = ONE;
        let mut demand = 0;
        for (stage, config) in self.model.stages.iter().enumerate() {
            demand += self.share(stage, flow.iter().sum());
            flow = followed(&flow, &config.follows);
            if self.deepened().contains(&stage) {
                let worth = self.bins_worth(stage, price);
                for (bin, flow) in flow.iter_mut().enumerate() {
                    *flow = *flow * self.unfinished(bin, worth >> bin & 1 == 1) / BIN_WIDTH;
                }
            }
        }
        demand
    }

    /// The part of a bin, in [`BIN_WIDTH`], from which requests go deeper: below the least threshold always,
    /// up to the highest threshold if the bin is worth it.
    fn unfinished(&self, bin: usize, worth: bool) -> u64 {
        let stops_at = if worth {
            self.plan.threshold
        } else {
            self.plan.threshold_min
        };
        let start = bin as u64 * BIN_WIDTH;
        u64::from(stops_at.0).saturating_sub(start).min(BIN_WIDTH)
    }
}

/// The distribution of a flow over the bins of the next exit.
fn followed(
    flow: &[u64; ACCURACY_BINS],
    follows: &[[u16; ACCURACY_BINS]; ACCURACY_BINS],
) -> [u64; ACCURACY_BINS] {
    core::array::from_fn(|to| {
        let arriving = flow.iter().zip(follows);
        let arriving = arriving.map(|(from, row)| from * u64::from(row[to]) / u64::from(u16::MAX));
        arriving.sum()
    })
}
