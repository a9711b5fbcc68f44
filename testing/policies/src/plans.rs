//! Random small plans, with the partitions that a policy expects.

use punctual_core::{
    ACCURACY_BINS, Answers, BatchTime, Confidence, Config, Criticality, Delivery, ModelConfig,
    ModelId, Nanos, PartitionConfig, PartitionId, Partitioning, PolicySpec, StageConfig, StageId,
    StageTime, TaskConfig, Units, Weights,
};
use punctual_types::Random;

const UNITS: u16 = 4;
/// Pages of weights, where the policy pages them; every model alone fits.
const PAGES: u32 = 4;

const fn us(n: u64) -> Nanos {
    Nanos::from_micros(n)
}

/// A plan that any policy of this kind must cope with.
pub fn random_plan(policy: &dyn PolicySpec, random: &mut Random) -> Config {
    let contract = policy.contract();
    let tasks = random.within(1, 5) as u16;
    let partitions = partitions(contract.partitioning, tasks, random);
    let paged = contract.pages_weights && random.one_in(2);
    let models: Vec<ModelConfig> = (0..random.within(1, 3))
        .map(|_| model(&partitions, paged, random))
        .collect();
    let tasks = (0..tasks).map(|index| {
        let model = ModelId(random.within(0, models.len() as u64 - 1) as u16);
        let stages = models[model.index()].stages.len() as u64;
        let partition = match contract.partitioning {
            Partitioning::Planned => random.within(0, partitions.len() as u64 - 1) as u16,
            Partitioning::Whole => 0,
            Partitioning::Ranges => whole_range(&partitions),
            Partitioning::PerTask => index,
        };
        let mandatory_exit = StageId(random.within(0, stages - 1) as u8);
        task(model, PartitionId(partition), mandatory_exit, random)
    });
    Config {
        tasks: tasks.collect(),
        models,
        partitions,
        request_buffers: random.within(2, 24) as u16,
        pages: if paged { PAGES } else { 0 },
        dispatch_cost: us(random.within(0, 50)),
        egress_bound: us(random.within(0, 100)),
    }
}

fn partitions(kind: Partitioning, tasks: u16, random: &mut Random) -> Vec<PartitionConfig> {
    let units: Vec<Units> = match kind {
        Partitioning::Planned if random.one_in(2) => vec![units(0, 2), units(2, UNITS - 2)],
        Partitioning::Planned | Partitioning::Whole => vec![units(0, UNITS)],
        Partitioning::PerTask => vec![units(0, UNITS); usize::from(tasks)],
        Partitioning::Ranges => (0..UNITS)
            .flat_map(|first| (1..=UNITS - first).map(move |count| units(first, count)))
            .collect(),
    };
    let preemption_bound = us(random.within(0, 500));
    let partition = |units| PartitionConfig {
        units,
        preemption_bound,
        share_max: 1000,
    };
    units.into_iter().map(partition).collect()
}

const fn units(first: u16, count: u16) -> Units {
    Units { first, count }
}

fn whole_range(partitions: &[PartitionConfig]) -> u16 {
    let whole = partitions.iter().position(|p| p.units.count == UNITS);
    whole.expect("the whole device is a range of itself") as u16
}

fn model(partitions: &[PartitionConfig], paged: bool, random: &mut Random) -> ModelConfig {
    let stages = random.within(1, 3) as usize;
    // Every batch size, or powers of two.
    let sizes: &[u8] = if random.one_in(3) {
        &[1, 2, 3, 4, 5, 6, 7, 8]
    } else {
        &[1, 2, 4, 8]
    };
    let accuracy = |exit: usize| [40_000 + 5_000 * exit as u16; ACCURACY_BINS];
    let stage = |exit: usize| {
        let (fixed, each) = (random.within(50, 1_000), random.within(20, 500));
        let on = |batch: u8, count: u16| {
            let budget = us((fixed + each * u64::from(batch)) * u64::from(UNITS / count));
            let max_seen = budget.saturating_mul(2);
            StageTime { budget, max_seen }
        };
        let time = |&batch: &u8| BatchTime {
            batch,
            on: partitions
                .iter()
                .map(|p| on(batch, p.units.count))
                .collect(),
        };
        StageConfig {
            times: sizes.iter().map(time).collect(),
            accuracy: accuracy(exit),
            deeper: (exit + 1..stages).map(accuracy).collect(),
            follows: [[u16::MAX / ACCURACY_BINS as u16; ACCURACY_BINS]; ACCURACY_BINS],
            answers: true,
            runs_as: None,
        }
    };
    let stages = (0..stages).map(stage).collect();
    let weights = paged.then(|| Weights {
        pages: random.within(1, u64::from(PAGES)) as u32,
        load: us(random.within(100, 5_000)),
    });
    ModelConfig {
        stages,
        weights,
        places: Vec::new(),
    }
}

fn task(
    model: ModelId,
    partition: PartitionId,
    mandatory_exit: StageId,
    random: &mut Random,
) -> TaskConfig {
    let real_time = !random.one_in(4);
    let deadline = real_time || random.one_in(2);
    TaskConfig {
        model,
        partition,
        criticality: if real_time {
            Criticality::RealTime
        } else {
            Criticality::BestEffort
        },
        deadline: deadline.then(|| us(random.within(2_000, 60_000))),
        period: us(random.within(1_000, 20_000)),
        burst: 1,
        jitter: us(random.within(0, 1_000)),
        prepare: us(random.within(0, 200)),
        mandatory_exit,
        threshold: Confidence(random.within(20_000, 65_535) as u16),
        threshold_min: Confidence(20_000),
        batch_max: random.within(1, 8) as u8,
        queue_max: random.within(1, 10) as u16,
        reserved: false,
        answers: [Answers::Final, Answers::Early, Answers::EachExit][random.below(3) as usize],
        weight: 1,
        offload_to: None,
        delivery: Delivery::EveryFrame,
    }
}
