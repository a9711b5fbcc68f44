//! Kernels that only take time, so that their number and length can be chosen (REEF, Figures 13 and 15).

use std::sync::Arc;

use punctual_cuda_measuring::holding::{Holding, Load};
use punctual_device_cuda::driver::{Attribute, Context};
use punctual_device_cuda::queue::{FlagPlace, QueueSpec};
use punctual_report::{Axis, Lines, Series};
use punctual_types::Random;

use super::super::super::result::{Latency, Sheet, StepResult};
use super::super::super::rig;
use super::super::super::step::{Session, StepError};
use super::Way;

/// Between two looks of a kernel that looks: about what a tile of a convolution takes.
const LOOK_NS: u32 = 5_000;

#[derive(Clone, Copy)]
struct Case {
    way: Way,
    bound: u32,
    flag: FlagPlace,
    kernels: u32,
    stay_us: u32,
}

impl Case {
    fn load(&self, blocks: u32) -> Load {
        Load {
            kernels: self.kernels,
            stay_ns: self.stay_us * 1000,
            check_ns: if self.way.looks() { LOOK_NS } else { 0 },
            blocks,
        }
    }
}

/// Measures and adds what was found.
pub fn measure(session: &Session<'_>, result: &mut StepResult) -> Result<(), StepError> {
    let gpu = session.gpu()?;
    let context = Context::retain(gpu)?;
    let blocks = gpu.attribute(Attribute::Multiprocessors)?;
    let usual = rig::queue(gpu)?;
    let mut bench = Bench {
        session,
        context,
        blocks,
        random: Random::new(1).stream("preemption", 0),
    };
    long(&mut bench, usual, result)?;
    knobs(&mut bench, usual, result)?;
    properties(&mut bench, usual, result)
}

struct Bench<'b> {
    session: &'b Session<'b>,
    context: Arc<Context>,
    blocks: u32,
    random: Random,
}

impl Bench<'_> {
    /// Latencies of each case; all cases in turn, round by round.
    fn run(
        &mut self,
        cases: &[Case],
        rounds: (usize, usize),
        permille: u64,
    ) -> Result<Vec<Latency>, StepError> {
        let mut queues = Vec::new();
        for case in cases {
            let spec = QueueSpec {
                bound: case.bound,
                flag: case.flag,
                ..QueueSpec::default()
            };
            queues.push(Holding::new(&self.context, spec)?);
        }
        let mut durations = vec![Vec::new(); cases.len()];
        for () in self.session.rounds(rounds.0, rounds.1, permille) {
            for ((case, queue), durations) in cases.iter().zip(&mut queues).zip(&mut durations) {
                // Anywhere in its second and third kernel, where the queue is as full as it gets.
                let kernel_ns = f64::from(case.stay_us) * 1e3;
                let after = kernel_ns * (1.0 + 2.0 * self.random.unit());
                let preempted = queue.preempt(case.load(self.blocks), after as u64)?;
                durations.push(preempted.latency_ns);
            }
        }
        Ok(durations.into_iter().map(Latency::of).collect())
    }
}

/// Kernels of a millisecond: what the bound is about.
fn long(bench: &mut Bench<'_>, usual: QueueSpec, result: &mut StepResult) -> Result<(), StepError> {
    let stay_us = bench.session.size(1000, 2000);
    let cases = Way::ALL.map(|way| Case {
        way,
        bound: way.bound(usual.bound),
        flag: usual.flag,
        kernels: 20,
        stay_us,
    });
    let found = bench.run(&cases, (1500, 2), 200)?;
    let title = "From the wish to a free GPU, kernels of 1 ms in flight";
    let mut sheet = Sheet::of_latencies(title, &["way", "launches in the driver"], &[]);
    for (case, latency) in cases.iter().zip(&found) {
        let launches = case.bound.min(case.kernels).to_string();
        sheet.latency([case.way.name().to_owned(), launches], latency, []);
    }
    result.tables.push(sheet);
    result.figure("preemption", "", found[0].p99_us);
    Ok(())
}

/// How many launches are in the driver, and where the epoch lies (REEF, Figure 15).
fn knobs(
    bench: &mut Bench<'_>,
    usual: QueueSpec,
    result: &mut StepResult,
) -> Result<(), StepError> {
    let bounds: &[u32] = bench.session.size(&[1, 2, 4, 8, 16], &[1, 4]);
    let mut cases = Vec::new();
    for flag in [FlagPlace::Host, FlagPlace::Device] {
        for &bound in bounds {
            cases.push(Case {
                way: Way::Ours,
                bound,
                flag,
                kernels: 40,
                stay_us: 100,
            });
        }
    }
    let found = bench.run(&cases, (400, 1), 150)?;
    let before = ["epoch in", "launches in the driver"];
    let mut sheet = Sheet::of_latencies("Knobs: kernels of 0.1 ms", &before, &[]);
    for (case, latency) in cases.iter().zip(&found) {
        let what = [place(case.flag).to_owned(), case.bound.to_string()];
        sheet.latency(what, latency, []);
    }
    result.tables.push(sheet);
    let series = [FlagPlace::Host, FlagPlace::Device].map(|flag| Series {
        name: format!("epoch in {}", place(flag)),
        points: points(&cases, &found, |case| case.flag == flag, |case| case.bound),
    });
    result.plots.push(Lines {
        title: "Launches in the driver against preemption latency".into(),
        x: Axis::log("launches in the driver"),
        y: Axis::linear("p99, us"),
        series: series.to_vec(),
    });
    result.note(format!(
        "Used elsewhere in this report: at most {} launches in the driver, the epoch in {}.",
        usual.bound,
        place(usual.flag)
    ));
    Ok(())
}

/// Number and length of kernels (REEF, Figure 13: 100 kernels of 0.1 ms by default).
fn properties(
    bench: &mut Bench<'_>,
    usual: QueueSpec,
    result: &mut StepResult,
) -> Result<(), StepError> {
    let case = |way: Way, kernels, stay_us| Case {
        way,
        bound: way.bound(usual.bound),
        flag: usual.flag,
        kernels,
        stay_us,
    };
    let numbers: &[u32] = bench.session.size(&[10, 50, 100, 200, 400], &[10]);
    let lengths: &[u32] = bench.session.size(&[20, 50, 100, 200, 500, 1000], &[100]);
    let by_number: Vec<Case> = Way::ALL
        .iter()
        .flat_map(|&way| numbers.iter().map(move |&kernels| case(way, kernels, 100)))
        .collect();
    let by_length: Vec<Case> = Way::ALL
        .iter()
        .flat_map(|&way| lengths.iter().map(move |&stay_us| case(way, 100, stay_us)))
        .collect();
    let found = bench.run(&by_number, (100, 1), 150)?;
    let of = |way| move |case: &Case| case.way == way;
    let plot = |title: &str, x, series: [Series; 3]| Lines {
        title: title.to_owned(),
        x,
        y: Axis::log("p99, us"),
        series: series.to_vec(),
    };
    let series = Way::ALL.map(|way| Series {
        name: way.name().into(),
        points: points(&by_number, &found, of(way), |case| case.kernels),
    });
    result.plots.push(plot(
        "Kernels of 0.1 ms, by their number",
        Axis::linear("kernels"),
        series,
    ));
    let found = bench.run(&by_length, (100, 1), 250)?;
    let series = Way::ALL.map(|way| Series {
        name: way.name().into(),
        points: points(&by_length, &found, of(way), |case| case.stay_us),
    });
    result.plots.push(plot(
        "100 kernels, by their length",
        Axis::log("length, us"),
        series,
    ));
    Ok(())
}

fn points(
    cases: &[Case],
    found: &[Latency],
    wanted: impl Fn(&Case) -> bool,
    x: impl Fn(&Case) -> u32,
) -> Vec<[f64; 2]> {
    let both = cases.iter().zip(found).filter(|(case, _)| wanted(case));
    both.map(|(case, latency)| [f64::from(x(case)), latency.p99_us])
        .collect()
}

const fn place(flag: FlagPlace) -> &'static str {
    match flag {
        FlagPlace::Host => "host memory",
        FlagPlace::Device => "device memory",
    }
}
