//! Hours at a third of the promised rates, with clients that come and go: nothing may grow, nothing be lost.

use crate::bed::{CameraPlan, DaemonPlan, TestBed};
use crate::case::Case;
use crate::facts::Need;
use crate::manifest::Task;
use crate::outcome::Failure;
use crate::records::{self, Sample};
use crate::suites::torture;

/// How many samples a soak of any length has, about.
const SAMPLES: f64 = 600.0;

pub const CASES: &[Case] = &[
    Case {
        suite: "soak",
        name: "tortured",
        about: "`channel-torture` has ten million frames of its clients answered and kills ten thousand of these: nothing is lost, doubled or another frame's.",
        needs: &[Need::Asked, Need::Cores(2), Need::Torture],
        limit_s: torture::LONG_S + 60,
        measures: &[("tortured_missed_share", "")],
        body: torture::for_long,
    },
    Case {
        suite: "soak",
        name: "steady",
        about: "For --hours, at a third of the promised rates, with clients that come and go: nothing is lost, and memory, descriptors and threads do not grow.",
        needs: &[Need::Asked],
        limit_s: 180,
        measures: &[
            ("rss_growth_kib", "KiB"),
            ("descriptors_growth", ""),
            ("threads_growth", ""),
            ("missed_share", ""),
        ],
        body: steady,
    },
];

fn steady(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let seconds = bed.hours * 3600.0;
    let daemon = bed.daemon(&DaemonPlan::serving(&Task::ALL))?;
    let plans = [
        // Leaks go with frames and time, not with load; and the board can do other work meanwhile.
        CameraPlan::of(Task::Front).at(10.0),
        CameraPlan::of(Task::Fast).at(20.0),
        CameraPlan::of(Task::Watch).at(5.0),
        CameraPlan::of(Task::Watch)
            .named("visitor")
            .at(20.0)
            .staying(2.0),
    ];
    let mut cameras = Vec::new();
    for plan in plans {
        cameras.push(bed.camera(&daemon, &plan.for_seconds(seconds))?);
    }
    let pid = bed.pid(&daemon)?.to_string();
    let every_ms = (seconds * 1000.0 / SAMPLES).max(100.0) as u64;
    let every_ms = every_ms.to_string();
    let agent = bed.stage.agent.as_str();
    let sampler = [
        agent,
        "agent",
        "sample",
        "--pid",
        &pid,
        "--every-ms",
        &every_ms,
    ];
    let sampler = bed.start("sampler", &[], sampler.map(str::to_owned).to_vec())?;
    bed.let_pass(seconds)?;
    // First what the hours showed, whatever the counts say in the end.
    bed.stop("the sampler", sampler)?;
    growths(bed)?;
    let mut counts = Vec::new();
    for camera in &cameras {
        counts.push(bed.finish(camera)?);
    }
    let account = bed.stop_daemon(&daemon)?;
    let [front, fast, watch, visitor] = &counts[..] else {
        return Err(Failure::Missing {
            what: "all cameras kept their counts",
        });
    };
    account.agrees_with("front", &[front])?;
    account.agrees_with("fast", &[fast])?;
    account.agrees_with("watch", &[watch, visitor])?;
    let missed = account.missed_share(front).max(account.missed_share(fast));
    bed.measure("missed_share", missed);
    bed.picture("front", &front.latency_us);
    bed.picture("fast", &fast.latency_us);
    let submitted = counts.iter().map(|counts| counts.submitted).sum();
    bed.effect(
        submitted,
        format!("frames in {:.2} hours, each with one verdict", bed.hours),
    );
    bed.effect(
        visitor.connected,
        "connections of a client that comes and goes",
    );
    bed.effect(account.host_stalls.count, "stalls of the machine over 1 ms");
    Ok(())
}

fn growths(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let samples: Vec<Sample> = records::all(&bed.read("sampler.out")?);
    bed.measure("rss_growth_kib", growth(&samples, |sample| sample.rss_kib));
    bed.measure(
        "descriptors_growth",
        growth(&samples, |sample| sample.descriptors),
    );
    bed.measure("threads_growth", growth(&samples, |sample| sample.threads));
    bed.effect(
        samples.len() as u64,
        "samples of the daemon's memory, descriptors and threads",
    );
    let memory =
        |pick: fn(u64, u64) -> u64| samples.iter().map(|sample| sample.rss_kib).reduce(pick);
    if let (Some(least), Some(most)) = (memory(u64::min), memory(u64::max)) {
        bed.effect(
            most,
            format!("KiB resident at the most, {least} at the least"),
        );
    }
    Ok(())
}

/// By how much a figure grew over the second half of the samples, by the line that fits them best:
/// the first half is for caches and the allocator to settle. No number with fewer than four.
fn growth(samples: &[Sample], figure: fn(&Sample) -> u64) -> f64 {
    let half = &samples[samples.len() / 2..];
    if half.len() < 2 {
        return f64::NAN;
    }
    let origin_ns = half[0].at_ns;
    let points: Vec<(f64, f64)> = half
        .iter()
        .map(|sample| {
            (
                ((sample.at_ns - origin_ns) as f64) / 1e9,
                figure(sample) as f64,
            )
        })
        .collect();
    let n = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / n;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / n;
    let covariance: f64 = points
        .iter()
        .map(|(x, y)| (x - mean_x) * (y - mean_y))
        .sum();
    let variance: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let span = points[points.len() - 1].0;
    covariance / variance * span
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(figure: impl Fn(u64) -> u64) -> Vec<Sample> {
        let sample = |n: u64| Sample {
            at_ns: n * 1_000_000_000,
            rss_kib: figure(n),
            ..Sample::default()
        };
        (0..100).map(sample).collect()
    }

    #[test]
    fn a_leak_shows_and_a_start_that_settles_does_not() {
        let leak = growth(&samples(|n| 1000 + 10 * n), |sample| sample.rss_kib);
        assert!((leak - 490.0).abs() < 1.0, "{leak}");
        let settled = growth(&samples(|n| 1000 + 10 * n.min(40)), |sample| sample.rss_kib);
        assert!(settled.abs() < 1e-6, "{settled}");
    }

    #[test]
    fn noise_is_no_growth() {
        let noise = growth(&samples(|n| 1000 + n % 7), |sample| sample.rss_kib);
        assert!(noise.abs() < 1.0, "{noise}");
    }

    #[test]
    fn too_few_samples_prove_nothing() {
        assert!(growth(&samples(|n| n)[..2], |sample| sample.rss_kib).is_nan());
    }
}
