//! How long answers take when nothing is in the way, compared with how late a bare thread wakes here.

use crate::bed::{CameraPlan, DaemonPlan, TestBed};
use crate::case::Case;
use crate::facts::Need;
use crate::manifest::Task;
use crate::outcome::Failure;
use crate::records::{self, Latencies};

/// How long the floor is measured, before and after the cameras.
const FLOOR_S: f64 = 3.0;

const CAPTURE_S: f64 = 10.0;

pub const CASES: &[Case] = &[Case {
    suite: "latency",
    name: "at-the-promised-rates",
    about: "Two real-time cameras at their promised rates are answered within the board's bounds, capture to answer.",
    needs: &[Need::Cores(2)],
    limit_s: 120,
    measures: &[
        ("front_p50_us", "us"),
        ("front_p99_us", "us"),
        ("front_p999_us", "us"),
        ("front_max_us", "us"),
        ("fast_p50_us", "us"),
        ("fast_p99_us", "us"),
        ("fast_p999_us", "us"),
        ("fast_max_us", "us"),
        ("missed_share", ""),
        ("floor_p99_us", "us"),
        ("floor_max_us", "us"),
        ("spread_over_floor", "times"),
    ],
    body: at_the_promised_rates,
}];

fn at_the_promised_rates(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let before = floor(bed)?;
    let daemon = bed.daemon(&DaemonPlan::serving(&[Task::Front, Task::Fast]))?;
    let front = bed.camera(&daemon, &CameraPlan::of(Task::Front).for_seconds(CAPTURE_S))?;
    let fast = bed.camera(&daemon, &CameraPlan::of(Task::Fast).for_seconds(CAPTURE_S))?;
    let (front, fast) = (bed.finish(&front)?, bed.finish(&fast)?);
    let account = bed.stop_daemon(&daemon)?;
    let after = floor(bed)?;
    account.agrees_with("front", &[&front])?;
    account.agrees_with("fast", &[&fast])?;

    let keys = [
        "front_p50_us",
        "front_p99_us",
        "front_p999_us",
        "front_max_us",
    ];
    quantiles(bed, keys, &front.latency_us);
    let keys = ["fast_p50_us", "fast_p99_us", "fast_p999_us", "fast_max_us"];
    quantiles(bed, keys, &fast.latency_us);
    let missed = account
        .missed_share(&front)
        .max(account.missed_share(&fast));
    bed.measure("missed_share", missed);
    // The worse of two measurements: what the machine itself did meanwhile.
    let floor_p99 = before.p99.max(after.p99);
    bed.measure("floor_p99_us", floor_p99 as f64);
    bed.measure("floor_max_us", before.max.max(after.max) as f64);
    let spread = fast.latency_us.p99.saturating_sub(fast.latency_us.p50);
    bed.measure("spread_over_floor", spread as f64 / floor_p99.max(1) as f64);
    for (name, latencies) in [
        ("front", &front.latency_us),
        ("fast", &fast.latency_us),
        ("floor before: a thread's wake-up", &before),
        ("floor after", &after),
    ] {
        bed.picture(name, latencies);
    }
    let stalls = &account.host_stalls;
    bed.effect(
        stalls.count,
        format!(
            "stalls of the machine over 1 ms, the longest {} us",
            stalls.longest_us
        ),
    );
    Ok(())
}

fn quantiles(bed: &mut TestBed<'_>, keys: [&'static str; 4], of: &Latencies) {
    for (key, value) in keys.into_iter().zip([of.p50, of.p99, of.p999, of.max]) {
        bed.measure(key, value as f64);
    }
}

/// The floor, at a priority above the daemon's.
fn floor(bed: &TestBed<'_>) -> Result<Latencies, Failure> {
    let seconds = FLOOR_S.to_string();
    let mut command = bed.priority(80);
    command.extend(
        [
            bed.stage.agent.as_str(),
            "agent",
            "floor",
            "--seconds",
            &seconds,
        ]
        .map(str::to_owned),
    );
    let command: Vec<_> = command.iter().map(String::as_str).collect();
    let output = bed.try_command("measure the floor", 20, &command)?;
    records::last(&output.stdout).ok_or_else(|| Failure::Form {
        who: "the agent's floor".to_owned(),
        said: output.stderr,
    })
}
