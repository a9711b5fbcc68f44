//! SEEB's latency model, L = α + β1·batch + β2·θ + β3/TPCs (Algorithm 2, line 13), fitted to the plan's tables.
//!
//! The paper fits it to latencies profiled over batch sizes, thresholds and TPC counts. Here the
//! latency at threshold θ is the expected one: the sum over the stages of the share of requests
//! that calibration says get there at θ, times the stage's budget at that batch size and TPC count.
//!
//! Floating point, unlike the rest of the core: the source decides by a fitted real-valued formula,
//! and a fit in integers would be another one. Only `+ - * /` and comparisons are used, which are
//! exactly defined, so decisions stay the same on every machine.

use alloc::vec::Vec;

use punctual_core::{ACCURACY_BINS, Confidence, Config, StageConfig, StageId, TaskConfig, TaskId};

/// The fitted model of a task's network, with what the fit is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyModel {
    /// α, in ns.
    pub base: f64,
    /// β1, in ns an image of the batch.
    pub per_image: f64,
    /// β2, in ns from threshold 0 to threshold 1.
    pub per_threshold: f64,
    /// β3, in ns times TPCs.
    pub per_unit: f64,
    /// Share of the variance that the model explains, 1 being all of it; points weigh as in the fit.
    pub r_squared: f64,
    /// Mean of |L − profiled| / profiled.
    pub error_mean: f64,
    pub error_max: f64,
}

impl LatencyModel {
    /// L in ns, for a batch of `batch` images at `threshold` on `units` TPCs.
    #[must_use]
    pub fn latency(&self, batch: usize, threshold: Confidence, units: u16) -> f64 {
        let [image, threshold, unit] = features(batch, threshold, units);
        self.base + self.per_image * image + self.per_threshold * threshold + self.per_unit * unit
    }
}

/// What L depends on, without the constant.
fn features(batch: usize, threshold: Confidence, units: u16) -> [f64; 3] {
    [
        batch as f64,
        probability(threshold),
        1.0 / f64::from(units.max(1)),
    ]
}

/// Not [`Confidence::as_probability`]: that one is an `f32`.
fn probability(threshold: Confidence) -> f64 {
    f64::from(threshold.0) / f64::from(u16::MAX)
}

struct Point {
    x: [f64; 3],
    latency: f64,
}

impl Point {
    /// Its weight in the fit. A latency of nothing is taken for a nanosecond.
    fn weight(&self) -> f64 {
        let latency = self.latency.max(1.0);
        1.0 / (latency * latency)
    }
}

/// Fits the latency model of a task's network by least relative squares, over all compiled batch sizes, the
/// thresholds given, and the TPC counts of the plan's partitions.
///
/// What does not vary (a plan with one size of partition, say) gets the coefficient 0.
///
/// # Panics
/// If there is no such task.
#[must_use]
pub fn fit(config: &Config, task: TaskId, thresholds: &[Confidence]) -> LatencyModel {
    let points = profiled(config, &config.tasks[task.index()], thresholds);
    let mut fitted = least_squares(&points);
    judge(&mut fitted, &points);
    fitted
}

fn profiled(config: &Config, task: &TaskConfig, thresholds: &[Confidence]) -> Vec<Point> {
    let mut counts: Vec<(u16, usize)> = Vec::new();
    for (index, partition) in config.partitions.iter().enumerate() {
        if !counts
            .iter()
            .any(|(count, _)| *count == partition.units.count)
        {
            counts.push((partition.units.count, index));
        }
    }
    let stages = &config.models[task.model.index()].stages;
    let mut points = Vec::new();
    for &threshold in thresholds {
        let reached = reached(stages, task.mandatory_exit, threshold);
        for size in &stages[0].times {
            for &(units, partition) in &counts {
                let times = stages
                    .iter()
                    .map(|stage| budget(stage, size.batch, partition));
                let latency = times.zip(&reached).map(|(time, share)| time * share);
                points.push(Point {
                    x: features(usize::from(size.batch), threshold, units),
                    latency: latency.sum(),
                });
            }
        }
    }
    points
}

/// A stage's budget in ns at a batch size, or at the next larger one that it has.
fn budget(stage: &StageConfig, batch: u8, partition: usize) -> f64 {
    let time = stage.times.iter().find(|t| t.batch >= batch);
    let time = time.or(stage.times.last());
    time.map_or(0.0, |t| t.on[partition].budget.as_nanos() as f64)
}

/// The share of requests that reach each stage if they leave at the first exit, from `mandatory`
/// on, whose confidence is at least `threshold`.
///
/// Calibration says how confidence moves from one exit to the next, in bins; inside its bin a
/// confidence is taken to be anywhere with equal chance. Without calibration all go to the end.
fn reached(stages: &[StageConfig], mandatory: StageId, threshold: Confidence) -> Vec<f64> {
    let known = stages[0].follows[0].iter().any(|&share| share > 0);
    let mut reached = alloc::vec![1.0];
    let mut going: [f64; ACCURACY_BINS] = [1.0 / ACCURACY_BINS as f64; ACCURACY_BINS];
    for (exit, stage) in stages.iter().enumerate().take(stages.len() - 1) {
        let mut here = [0.0; ACCURACY_BINS];
        for (share, row) in going.iter().zip(&stage.follows) {
            for (bin, &moves) in here.iter_mut().zip(row) {
                *bin += share * f64::from(moves) / f64::from(u16::MAX);
            }
        }
        if exit >= mandatory.index() {
            for (bin, share) in here.iter_mut().enumerate() {
                let below = probability(threshold) * ACCURACY_BINS as f64 - bin as f64;
                *share *= below.clamp(0.0, 1.0);
            }
        }
        going = here;
        reached.push(if known { going.iter().sum() } else { 1.0 });
    }
    reached
}

/// Least squares of the relative errors: the normal equations of the centred features, each point
/// weighing 1 / latency². (The source does not say which errors it minimises; those of a batch of 32
/// on one TPC would otherwise outweigh all that matters near a deadline.)
fn least_squares(points: &[Point]) -> LatencyModel {
    let whole = points.iter().fold(0.0, |sum, point| sum + point.weight());
    let mut mean = [0.0; 4];
    for point in points {
        let share = point.weight() / whole;
        for (sum, x) in mean.iter_mut().zip(point.x.iter().chain([&point.latency])) {
            *sum += x * share;
        }
    }
    // Three equations; the last column is their right side.
    let mut rows = [[0.0; 4]; 3];
    for point in points {
        let centred: [f64; 4] = core::array::from_fn(|i| match i {
            3 => point.latency - mean[3],
            _ => point.x[i] - mean[i],
        });
        let share = point.weight() / whole;
        for (row, left) in rows.iter_mut().zip(centred) {
            for (cell, right) in row.iter_mut().zip(centred) {
                *cell += left * right * share;
            }
        }
    }
    let [per_image, per_threshold, per_unit] = solve(rows);
    LatencyModel {
        base: mean[3] - per_image * mean[0] - per_threshold * mean[1] - per_unit * mean[2],
        per_image,
        per_threshold,
        per_unit,
        r_squared: 0.0,
        error_mean: 0.0,
        error_max: 0.0,
    }
}

/// Gauss-Jordan elimination of a positive semi-definite system. A pivot that elimination has reduced
/// to rounding errors belongs to a feature that does not vary (by itself); its coefficient is 0.
fn solve(mut rows: [[f64; 4]; 3]) -> [f64; 3] {
    const ROUNDING: f64 = 1e-9;
    let scale: [f64; 3] = core::array::from_fn(|i| rows[i][i]);
    let mut usable = [false; 3];
    for pivot in 0..3 {
        if rows[pivot][pivot] <= scale[pivot] * ROUNDING {
            continue;
        }
        usable[pivot] = true;
        let by = rows[pivot];
        for (index, row) in rows.iter_mut().enumerate() {
            if index == pivot {
                continue;
            }
            let factor = row[pivot] / by[pivot];
            for (cell, above) in row.iter_mut().zip(by) {
                *cell -= factor * above;
            }
        }
    }
    core::array::from_fn(|i| {
        if usable[i] {
            rows[i][3] / rows[i][i]
        } else {
            0.0
        }
    })
}

/// How well the model says what was profiled.
fn judge(model: &mut LatencyModel, points: &[Point]) {
    let count = points.len().max(1) as f64;
    let whole = points.iter().fold(0.0, |sum, p| sum + p.weight());
    let mean = points
        .iter()
        .fold(0.0, |sum, p| sum + p.latency * p.weight() / whole);
    let (mut unexplained, mut variance) = (0.0, 0.0);
    for point in points {
        let [image, threshold, unit] = point.x;
        let said = model.base
            + model.per_image * image
            + model.per_threshold * threshold
            + model.per_unit * unit;
        let (off, spread) = (said - point.latency, point.latency - mean);
        unexplained += off * off * point.weight();
        variance += spread * spread * point.weight();
        let off = if off < 0.0 { -off } else { off };
        let relative = if point.latency > 0.0 {
            off / point.latency
        } else {
            0.0
        };
        model.error_mean += relative / count;
        model.error_max = model.error_max.max(relative);
    }
    model.r_squared = if variance > 0.0 {
        1.0 - unexplained / variance
    } else {
        1.0
    };
}
