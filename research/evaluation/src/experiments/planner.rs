//! The planner of fleets: how far its packing is from the optimum, and what dividing a query's
//! deadline gains over equal parts (Nexus, sections 4.2, 6.1, 6.2 and Figure 17).

use std::fmt::Write as _;

use punctual_core::Nanos;
use punctual_fleet::packing::{
    BatchTimes, Bin, Choice, Flow, Load, Merging, Packing, Rate, Session, Shelf, Split, StageCost,
    even_split, fewest_nodes, pack, split,
};

use punctual_types::Random;

use super::Experiment;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "planner",
    about: "fleets: packing against the optimum, divided deadlines against equal parts",
    results: "docs/results/planner.md",
    run: || {
        [
            packings(200),
            figure_4(),
            figure_17(&[300, 350, 400, 450, 500]),
        ]
        .join("\n")
    },
};

/// Numbers of sessions in a random case; the last is the most that the exact solver takes.
const SESSIONS: [usize; 5] = [4, 6, 8, 10, 12];

const FAN_OUTS: [f64; 3] = [0.1, 1.0, 10.0];

fn ms(ms: f64) -> Nanos {
    Nanos::new((ms * 1e6) as u64)
}

/// L(b) = each b + fixed, for every batch size to `most`.
fn linear(fixed_ms: f64, each_ms: f64, most: u32) -> BatchTimes {
    let point = |size| (size, ms(fixed_ms + each_ms * f64::from(size)));
    BatchTimes::new((1..=most).map(point).collect()).expect("rising sizes, times above 0")
}

/// This number of boards of one partition, with room for all weights.
fn shelf(boards: usize) -> Shelf {
    Shelf {
        bins: (0..boards).map(|board| Bin { kind: 0, board }).collect(),
        memory: vec![0; boards],
        weights: Vec::new(),
    }
}

/// Sessions that each need 5% to 65% of a node, with deadlines of 50 to 450 ms, fixed costs of 2 to
/// 22 ms and 1 to 6 ms for each request.
fn random_sessions(count: usize, random: &mut Random) -> Vec<Session> {
    let mut between = |low: f64, high: f64| low + (high - low) * random.unit();
    let mut session = || {
        let (fixed, each) = (between(2.0, 22.0), between(1.0, 6.0));
        let times = linear(fixed, each, 32);
        // Never so short that three single requests do not fit.
        let deadline = ms(between(50.0, 450.0).max(3.0 * (fixed + each)));
        let half = Nanos::new(deadline.as_nanos() / 2);
        let (size, time) = times.most_efficient(half).expect("one fits thrice");
        Session {
            deadline,
            rate: Rate::from_hz(Rate::of(size, time).hz() * between(0.05, 0.65)),
            times: vec![Some(times)],
            weights: Vec::new(),
        }
    };
    (0..count).map(|_| session()).collect()
}

/// Nodes over all cases, and in how many cases they were more than the fewest.
#[derive(Default)]
struct Count {
    nodes: usize,
    worse: usize,
}

impl Count {
    fn add(&mut self, packing: &Packing, fewest: usize) {
        self.nodes += packing.nodes.len();
        self.worse += usize::from(packing.nodes.len() > fewest);
    }
}

fn packings(cases: u64) -> String {
    let mut text = format!(
        "Packing: nodes over {cases} random cases of sessions that each need 5% to 65% of a node, and the \
         share of cases with more nodes than the optimum. \"published\" is the greedy algorithm with the \
         shorter of two duty cycles, \"any cycle\" what `punctual plan` does.\n\n\
         | sessions | optimum | published | over the optimum | in | any cycle | over the optimum | in |\n\
         |---|---|---|---|---|---|---|---|\n"
    );
    for count in SESSIONS {
        let mut optimum = 0;
        let (mut published, mut any) = (Count::default(), Count::default());
        for case in 0..cases {
            let mut random = Random::new(case).stream("sessions", count as u64);
            let sessions = random_sessions(count, &mut random);
            let load = |(session, s): (usize, &Session)| Load {
                session,
                rate: s.rate,
            };
            let loads: Vec<Load> = sessions.iter().enumerate().map(load).collect();
            let fewest = fewest_nodes(&loads, &sessions, 0).expect("each fits alone");
            optimum += fewest;
            let shelf = shelf(count);
            published.add(&pack(&sessions, &shelf, Merging::ShorterCycle), fewest);
            any.add(&pack(&sessions, &shelf, Merging::AnyCycle), fewest);
        }
        let over = |count: &Count| (count.nodes as f64 / optimum as f64 - 1.0) * 100.0;
        let share = |count: &Count| count.worse as f64 / cases as f64 * 100.0;
        let _ = writeln!(
            text,
            "| {count} | {optimum} | {} | {:.1}% | {:.1}% | {} | {:.1}% | {:.1}% |",
            published.nodes,
            over(&published),
            share(&published),
            any.nodes,
            over(&any),
            share(&any)
        );
    }
    text
}

/// Models X and Y of Figure 3: latency in milliseconds, requests a second.
const FIGURE_3: [[(f64, f64); 3]; 2] = [
    [(40.0, 200.0), (50.0, 250.0), (60.0, 300.0)],
    [(40.0, 300.0), (50.0, 400.0), (60.0, 500.0)],
];

fn chain() -> Flow {
    Flow::of(&[vec![], vec![0]]).expect("a chain")
}

fn figure_4() -> String {
    let mut text = String::from(
        "Query of two models, X and for each result Y, 100 ms in all (Figures 3 and 4): queries a second \
         for each device.\n\n\
         | fan-out | X 40, Y 60 ms | X 50, Y 50 ms | X 60, Y 40 ms | the planner's division | its |\n\
         |---|---|---|---|---|---|\n",
    );
    for fan_out in FAN_OUTS {
        let stage = |points: &[(f64, f64)], rate| StageCost {
            rate: Rate::from_hz(rate),
            choices: points
                .iter()
                .map(|&(latency, hz)| Choice {
                    latency: ms(latency),
                    work_ns: 1e9 / hz,
                })
                .collect(),
        };
        let in_all = |stages: &[StageCost]| {
            let devices = |stage: usize, budget| stages[stage].devices(budget);
            split(&chain(), devices, ms(100.0), 10).expect("40 and 60 are 100")
        };
        // As if X and Y had only the one choice.
        let fixed = |x: usize, y: usize| {
            let stages = [
                stage(&FIGURE_3[0][x..=x], 1_000.0),
                stage(&FIGURE_3[1][y..=y], 1_000.0 * fan_out),
            ];
            1_000.0 / in_all(&stages).devices
        };
        let Split { budgets, devices } = in_all(&[
            stage(&FIGURE_3[0], 1_000.0),
            stage(&FIGURE_3[1], 1_000.0 * fan_out),
        ]);
        let _ = writeln!(
            text,
            "| {fan_out} | {:.1} | {:.1} | {:.1} | {}, {} | {:.1} |",
            fixed(0, 2),
            fixed(1, 1),
            fixed(2, 0),
            budgets[0],
            budgets[1],
            1_000.0 / devices
        );
    }
    text
}

/// SSD, and Inception. SSD takes 47 ms alone (section 7.3.2); 20 ms for each further image are fitted to
/// what is published there: 534 queries a second on 16 devices with 345 ms of 400 for SSD, and 433 with
/// 200. Inception takes 7 ms alone (Table 1) and has 4.7 times the throughput at batch 32 (section 2.2).
fn figure_17_models() -> [BatchTimes; 2] {
    [linear(27.0, 20.0, 32), linear(5.69, 1.31, 32)]
}

fn sessions(models: &[BatchTimes; 2], budgets: &[Nanos], hz: f64, fan_out: f64) -> Vec<Session> {
    let stages = models.iter().zip(budgets).zip([hz, hz * fan_out]);
    stages
        .map(|((times, deadline), hz)| Session {
            deadline: *deadline,
            rate: Rate::from_hz(hz),
            times: vec![Some(times.clone())],
            weights: Vec::new(),
        })
        .collect()
}

/// Devices for a whole batch after the other, as published.
fn when_saturated(models: &[BatchTimes; 2], fan_out: f64) -> impl Fn(usize, Nanos) -> f64 {
    move |stage, budget| {
        let half = Nanos::new(budget.as_nanos() / 2);
        let best = models[stage].most_efficient(half);
        let calls = [1.0, fan_out][stage];
        best.map_or(f64::INFINITY, |(size, time)| {
            calls * time.as_nanos() as f64 / f64::from(size)
        })
    }
}

/// Devices at the rate itself, as `punctual plan` counts them.
fn at_the_rate(models: &[BatchTimes; 2], fan_out: f64, hz: f64) -> impl Fn(usize, Nanos) -> f64 {
    move |stage, budget| {
        let session = &sessions(models, &[budget; 2], hz, fan_out)[stage];
        session.busy_alone(0).unwrap_or(f64::INFINITY)
    }
}

/// The highest rate of queries, in whole hertz, that has a place on 8 devices when their deadline is
/// divided by `divide`, which is told the rate.
fn highest_rate(
    models: &[BatchTimes; 2],
    fan_out: f64,
    divide: impl Fn(f64) -> Option<Split>,
) -> (u32, Vec<Nanos>) {
    let fits = |hz: u32| {
        let budgets = divide(f64::from(hz))?.budgets;
        let sessions = sessions(models, &budgets, f64::from(hz), fan_out);
        let packing = pack(&sessions, &shelf(8), Merging::AnyCycle);
        packing.unplaced.is_empty().then_some(budgets)
    };
    let (mut good, mut too_much, mut best) = (0, 2_000, Vec::new());
    while too_much - good > 1 {
        let middle = (good + too_much) / 2;
        match fits(middle) {
            Some(budgets) => (good, best) = (middle, budgets),
            None => too_much = middle,
        }
    }
    (good, best)
}

fn figure_17(deadlines_ms: &[u64]) -> String {
    const SEGMENTS: u32 = 100;
    let mut text = String::from(
        "SSD, and for each of its results Inception, on 8 devices (Figure 17; published: 13% to 55% more \
         than with equal parts): the most queries a second that have a place. \"Published\" divides for \
         saturated devices, \"at the rate\" as `punctual plan` does.\n\n\
         | fan-out | deadline | equal parts | published | more | at the rate | more | divided as |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    let models = figure_17_models();
    for fan_out in FAN_OUTS {
        for &deadline_ms in deadlines_ms {
            let deadline = Nanos::from_millis(deadline_ms);
            let saturated = when_saturated(&models, fan_out);
            let even = Some(even_split(&chain(), &saturated, deadline));
            let published = split(&chain(), &saturated, deadline, SEGMENTS);
            let (equal, _) = highest_rate(&models, fan_out, |_| even.clone());
            let (published, _) = highest_rate(&models, fan_out, |_| published.clone());
            let (rate, budgets) = highest_rate(&models, fan_out, |hz| {
                split(
                    &chain(),
                    at_the_rate(&models, fan_out, hz),
                    deadline,
                    SEGMENTS,
                )
            });
            let more = |planned| (f64::from(planned) / f64::from(equal) - 1.0) * 100.0;
            let _ = writeln!(
                text,
                "| {fan_out} | {deadline_ms} ms | {equal} | {published} | {:+.0}% | {rate} | {:+.0}% | {}, {} |",
                more(published),
                more(rate),
                budgets[0],
                budgets[1]
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers in a row of a table.
    fn numbers(row: &str) -> Vec<f64> {
        let cells = row.split('|').map(|cell| cell.trim().trim_end_matches('%'));
        cells.filter_map(|cell| cell.parse().ok()).collect()
    }

    #[test]
    fn packings_of_small_cases_are_within_a_tenth_of_the_optimum() {
        for count in SESSIONS.into_iter().take(2) {
            let (mut optimum, mut published, mut any) = (0, 0, 0);
            for case in 0..40 {
                let mut random = Random::new(case).stream("sessions", count as u64);
                let sessions = random_sessions(count, &mut random);
                let load = |(session, s): (usize, &Session)| Load {
                    session,
                    rate: s.rate,
                };
                let loads: Vec<Load> = sessions.iter().enumerate().map(load).collect();
                optimum += fewest_nodes(&loads, &sessions, 0).expect("each fits alone");
                let of = |merging| {
                    let packing = pack(&sessions, &shelf(count), merging);
                    assert!(packing.unplaced.is_empty());
                    packing.nodes.len()
                };
                published += of(Merging::ShorterCycle);
                any += of(Merging::AnyCycle);
            }
            assert!(
                optimum <= any && any <= published,
                "{optimum} {any} {published}"
            );
            assert!(published * 10 <= optimum * 11, "{published} over {optimum}");
        }
    }

    #[test]
    fn the_planner_finds_the_best_column_of_figure_4() {
        for row in figure_4()
            .lines()
            .filter(|line| line.starts_with("| 0") || line.starts_with("| 1"))
        {
            let row = numbers(row);
            let best = row[1..4].iter().copied().fold(0.0, f64::max);
            assert_eq!(row.last(), Some(&best), "{row:?}");
        }
    }

    #[test]
    fn dividing_a_deadline_at_the_rate_gains_over_equal_parts() {
        let text = figure_17(&[400]);
        let rows: Vec<Vec<f64>> = text
            .lines()
            .map(numbers)
            .filter(|row| row.len() > 5)
            .collect();
        assert_eq!(rows.len(), FAN_OUTS.len(), "{text}");
        for row in &rows {
            // Fan-out, equal parts, published, more, at the rate, more.
            assert!(row[5] >= 0.0, "{text}");
        }
        assert!(rows.iter().any(|row| row[5] >= 13.0), "{text}");
    }
}
