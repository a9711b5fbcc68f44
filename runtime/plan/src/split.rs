//! How much of a query's deadline each of its parts gets (Nexus, section 6.2).

use punctual_core::Nanos;

use crate::flow::Flow;

#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    /// Of each stage. On the longest way through the query they sum up to the deadline.
    pub budgets: Vec<Nanos>,
    /// How many devices it takes in all, if each is always busy.
    pub devices: f64,
}

/// The split that takes the fewest devices, among those in whole `segments` of the deadline; of
/// several the one that gives more to later stages. `None` if there is no way to be on time.
/// `devices` says what a stage takes within a budget, infinite if it cannot.
///
/// Dynamic programming over flow and budget, quadratic in `segments` for each stage: for a series the
/// best division between its parts, for parallel parts the same budget each. Published for trees;
/// a join is a further part of a series.
///
/// # Panics
/// If there are no segments.
#[must_use]
pub fn split(
    flow: &Flow,
    devices: impl Fn(usize, Nanos) -> f64,
    deadline: Nanos,
    segments: u32,
) -> Option<Split> {
    assert!(segments > 0, "a deadline of no segments");
    let grid = Grid { deadline, segments };
    let solved = Solved::of(flow, &devices, grid);
    let devices = *solved.cost.last()?;
    let mut budgets = vec![Nanos::ZERO; flow.stages()];
    solved.assign(segments as usize, grid, &mut budgets);
    devices.is_finite().then_some(Split { budgets, devices })
}

/// The same deadline for each stage on the longest way: what is done without a planner.
#[must_use]
pub fn even_split(flow: &Flow, devices: impl Fn(usize, Nanos) -> f64, deadline: Nanos) -> Split {
    let mut budgets = vec![Nanos::ZERO; flow.stages()];
    divide_evenly(flow, deadline, &mut budgets);
    let each = budgets.iter().enumerate();
    let devices = each.map(|(stage, budget)| devices(stage, *budget)).sum();
    Split { budgets, devices }
}

fn divide_evenly(flow: &Flow, budget: Nanos, budgets: &mut [Nanos]) {
    match flow {
        Flow::Stage(stage) => budgets[*stage] = budget,
        Flow::Parallel(parts) => {
            for part in parts {
                divide_evenly(part, budget, budgets);
            }
        }
        Flow::Series(parts) => {
            let all = flow.length().max(1) as u64;
            for part in parts {
                let share = budget.as_nanos() / all * part.length() as u64;
                divide_evenly(part, Nanos::new(share), budgets);
            }
        }
    }
}

/// Budgets in whole segments of the deadline.
#[derive(Clone, Copy)]
struct Grid {
    deadline: Nanos,
    segments: u32,
}

impl Grid {
    fn budget(self, segments: usize) -> Nanos {
        let product = u128::from(self.deadline.as_nanos()) * segments as u128;
        Nanos::new((product / u128::from(self.segments)) as u64)
    }
}

/// The fewest devices of a part of the flow for each budget, and how they are reached.
struct Solved {
    cost: Vec<f64>,
    way: Way,
}

enum Way {
    Stage(usize),
    Parallel(Vec<Solved>),
    /// The parts, and for each but the first, by the budget of it and all before it, its own.
    Series(Vec<Solved>, Vec<Vec<usize>>),
}

impl Solved {
    fn of(flow: &Flow, devices: &impl Fn(usize, Nanos) -> f64, grid: Grid) -> Self {
        let all = |parts: &[Flow]| -> Vec<Self> {
            parts
                .iter()
                .map(|part| Self::of(part, devices, grid))
                .collect()
        };
        let budgets = 0..=grid.segments as usize;
        match flow {
            Flow::Stage(stage) => Self {
                cost: budgets.map(|k| devices(*stage, grid.budget(k))).collect(),
                way: Way::Stage(*stage),
            },
            Flow::Parallel(parts) => {
                let parts = all(parts);
                let sum = |k: usize| parts.iter().map(|part| part.cost[k]).sum();
                Self {
                    cost: budgets.map(sum).collect(),
                    way: Way::Parallel(parts),
                }
            }
            Flow::Series(parts) => Self::series(all(parts), grid),
        }
    }

    fn series(parts: Vec<Self>, grid: Grid) -> Self {
        let mut sums = vec![0.0; grid.segments as usize + 1];
        let mut shares = Vec::new();
        for (position, part) in parts.iter().enumerate() {
            if position == 0 {
                sums.clone_from(&part.cost);
                continue;
            }
            let best = |budget: usize| {
                let of = |own: usize| sums[budget - own] + part.cost[own];
                let more_for_later = (0..=budget).rev();
                let (mut share, mut least) = (budget, f64::INFINITY);
                for own in more_for_later {
                    if of(own) < least {
                        (share, least) = (own, of(own));
                    }
                }
                (share, least)
            };
            let (own, cost): (Vec<usize>, Vec<f64>) =
                (0..=grid.segments as usize).map(best).unzip();
            sums = cost;
            shares.push(own);
        }
        Self {
            cost: sums,
            way: Way::Series(parts, shares),
        }
    }

    fn assign(&self, budget: usize, grid: Grid, budgets: &mut [Nanos]) {
        match &self.way {
            Way::Stage(stage) => budgets[*stage] = grid.budget(budget),
            Way::Parallel(parts) => {
                for part in parts {
                    part.assign(budget, grid, budgets);
                }
            }
            Way::Series(parts, shares) => {
                let mut left = budget;
                for (part, own) in parts[1..].iter().zip(shares).rev() {
                    part.assign(own[left], grid, budgets);
                    left -= own[left];
                }
                if let Some(first) = parts.first() {
                    first.assign(left, grid, budgets);
                }
            }
        }
    }
}
