//! What it costs to lead partitions of a GPU by a thread that looks all the time, and by one that sleeps between looks: how
//! much later the end of a stage is seen, and how much of the core is used. Both ways take turns within one run.
//!
//!     cargo bench -p punctual-device --bench leader_wait [STAGES]
//!
//! A clock stands for the GPU: a stage is over a millisecond after it began. The leader is on the last core, FIFO 80 where it is
//! granted. Prints a table in Markdown, in microseconds, from the time at which the stage was over.

use std::sync::Arc;
use std::task::Poll;

use hdrhistogram::Histogram;
use punctual_core::{
    ActionId, Answer, Confidence, Criticality, Event, Infer, Instant, ModelId, PartitionId,
    StageId, Window,
};
use punctual_device::pool::{BufferGuard, CancelFlag, Engine, Outcome, Wait, WorkerPool};
use punctual_device::{InputBuffers, PartitionSpec};
use punctual_platform::clock::now_ns;
use punctual_platform::{Doorbell, affinity};

const STAGES: u64 = 10_000;
const STAGE_NS: u64 = 1_000_000;
const PRIORITY: u8 = 80;
/// Stages that take turns before the other way has its turn.
const BLOCK: u64 = 100;

/// A GPU of which only the time is known.
struct Clock {
    over_ns: u64,
    /// Of its leader.
    bell: Arc<Doorbell>,
}

impl Engine for Clock {
    fn begin(
        &mut self,
        _model: ModelId,
        _stage: StageId,
        members: &mut [BufferGuard<'_>],
        interrupt: &CancelFlag,
    ) -> Poll<Outcome> {
        self.over_ns = now_ns() + STAGE_NS;
        self.advance(members, interrupt)
    }

    fn advance(
        &mut self,
        _members: &mut [BufferGuard<'_>],
        _interrupt: &CancelFlag,
    ) -> Poll<Outcome> {
        if now_ns() >= self.over_ns {
            Poll::Ready(Outcome::Done)
        } else {
            Poll::Pending
        }
    }

    fn answer(
        &mut self,
        _model: ModelId,
        _stage: StageId,
        _member: usize,
        _claim: &mut BufferGuard<'_>,
    ) -> Answer {
        Answer {
            class: 0,
            confidence: Confidence::from_probability(0.0),
        }
    }

    fn bell(&self) -> Arc<Doorbell> {
        self.bell.clone()
    }
}

/// One way to wait, with `partitions` partitions of one leader.
struct Side {
    name: String,
    partitions: u16,
    pool: WorkerPool,
    bell: Arc<Doorbell>,
    late: Histogram<u64>,
    /// Time on the core, and time in all, in nanoseconds.
    used: (u64, u64),
    stages: u64,
}

impl Side {
    fn new(wait: Wait, partitions: u16) -> Self {
        let core = affinity::available_cores().unwrap_or_default();
        let core = core.last().copied().unwrap_or_default();
        let bell = Arc::new(Doorbell::new());
        let mut pool = WorkerPool::new(InputBuffers::new(1, 16, Box::new([])), bell.clone());
        let leader = |tpc: u16| PartitionSpec {
            tpcs: tpc..tpc + 1,
            ..PartitionSpec::on_cores("leader", vec![core], Some(PRIORITY))
        };
        let wakes = Arc::new(Doorbell::new());
        let clock = || Clock {
            over_ns: 0,
            bell: wakes.clone(),
        };
        let led = (0..partitions).map(|tpc| (leader(tpc), clock()));
        pool.add_partitions(led, wait).expect("a thread");
        let name = match wait {
            Wait::Spin => "spin".to_owned(),
            Wait::Sleep { ns } => format!("sleep {} us", ns / 1_000),
        };
        Self {
            name,
            partitions,
            pool,
            bell,
            late: Histogram::new(3).expect("three digits"),
            used: (0, 0),
            stages: 0,
        }
    }

    fn block(&mut self) {
        let (on_core, since) = (self.on_core_ns(), now_ns());
        for _ in 0..BLOCK {
            let seen = self.bell.count();
            for partition in 0..self.partitions {
                self.stages += 1;
                self.pool.submit(&action(self.stages, partition));
            }
            let (mut seen, mut left) = (seen, self.partitions);
            while left > 0 {
                self.bell.wait(seen, None);
                seen = self.bell.count();
                while let Some((_, event)) = self.pool.poll() {
                    let Event::Finished(finished) = event else {
                        panic!("{event:?}");
                    };
                    let late = finished.measured.as_nanos().saturating_sub(STAGE_NS);
                    self.late.record(late).expect("in range");
                    left -= 1;
                }
            }
        }
        self.used.0 += self.on_core_ns() - on_core;
        self.used.1 += now_ns() - since;
    }

    fn on_core_ns(&self) -> u64 {
        let tid = self.pool.tids().next().expect("a leader");
        let path = format!("/proc/self/task/{tid}/schedstat");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let first = text.split(' ').next().and_then(|word| word.parse().ok());
        first.unwrap_or(0)
    }

    fn row(&self) {
        let late = |quantile| self.late.value_at_quantile(quantile) as f64 / 1e3;
        let share = 100.0 * self.used.0 as f64 / self.used.1.max(1) as f64;
        println!(
            "| {} | {} | {} | {:.1} | {:.1} | {:.1} | {:.1} | {share:.1}% |",
            self.name,
            self.partitions,
            self.late.len(),
            late(0.5),
            late(0.99),
            late(0.999),
            self.late.max() as f64 / 1e3,
        );
    }
}

/// A stage for no requests, which may start at once.
fn action(id: u64, partition: u16) -> Infer {
    Infer {
        id: ActionId(id),
        partition: PartitionId(partition),
        model: ModelId(0),
        stage: StageId(0),
        batch: 1,
        members: heapless::Vec::new(),
        window: Window {
            earliest: Instant::from_nanos(0),
            latest: Instant::from_nanos(u64::MAX),
        },
        criticality: Criticality::RealTime,
    }
}

fn main() {
    // Cargo adds `--bench`.
    let stages = std::env::args().skip(1).find_map(|word| word.parse().ok());
    let blocks = stages.unwrap_or(STAGES).div_ceil(BLOCK);
    println!("| leader | stages at once | stages | p50 | p99 | p99.9 | max | of its core |");
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    for partitions in [1, 4] {
        let ways = [Wait::Spin, Wait::Sleep { ns: 50_000 }];
        let mut sides = ways.map(|wait| Side::new(wait, partitions));
        for side in &sides {
            if !side.pool.missing().is_empty() {
                eprintln!("not granted: {:?}", side.pool.missing());
            }
        }
        for _ in 0..blocks {
            sides.iter_mut().for_each(Side::block);
        }
        sides.iter().for_each(Side::row);
    }
}
