//! What the manifest says about the daemon's own threads, and cores that are kept for them.

use punctual_core::Nanos;
use punctual_plan::{Plan, Reservation, Role, Scheduling, ThreadPlan};

const MANIFEST: &str = r#"
[daemon]
board = "host"
KEYS

[[model]]
name = "signs"
package = "signs.punctual"

[[partition]]
name = "front"
units = 1

[[task]]
name = "camera"
model = "signs"
partition = "front"
criticality = "real-time"
rate_hz = 20
deadline_ms = 50
frame = { format = "rgb8", width = 640, height = 480, crop = [320, 320] }
"#;

/// With the partition's core named.
fn on_core_3() -> String {
    MANIFEST.replace("units = 1", "cores = [3]")
}

fn plan(keys: &str, isolated: &[u16]) -> Result<Plan, punctual_plan::Diagnostics> {
    let mut inputs = crate::fixture::inputs(&MANIFEST.replace("KEYS", keys), "manifest.toml");
    inputs.host.cores.isolated = isolated.to_vec();
    Plan::build(&inputs)
}

fn threads(plan: &Plan, role: Role) -> Vec<&ThreadPlan> {
    plan.threads.iter().filter(|t| t.role == role).collect()
}

#[test]
fn the_daemon_s_threads_get_reservations_by_the_documented_formula() {
    // Every core is the daemon's, and one of them the partition's too.
    let keys = "scheduling = \"deadline\"\ncores = [0, 1, 2, 3]";
    let text = on_core_3().replace("KEYS", keys);
    let plan = Plan::build(&crate::fixture::inputs(&text, "manifest.toml")).expect("a plan");
    // One client, a frame in 50 ms; three exits; 100 us a decision, 300 us a reply.
    for (role, runtime_ns) in [
        (Role::Scheduler, 500_000),
        (Role::Port { client: 0 }, 400_000),
    ] {
        let period_ns = 50_000_000;
        let reserved = Reservation {
            runtime_ns,
            period_ns,
        };
        assert_eq!(threads(&plan, role)[0].reservation, Some(reserved));
    }
    let others = plan.threads.iter().filter(|t| t.reservation.is_some());
    assert_eq!(
        others.count(),
        2,
        "workers and intakes stay with SCHED_FIFO"
    );
}

#[test]
fn without_the_key_and_without_the_privilege_there_are_no_reservations() {
    let fifo = plan("", &[]).expect("a plan");
    assert_eq!(Scheduling::default(), Scheduling::Fifo);
    assert!(fifo.threads.iter().all(|t| t.reservation.is_none()));
    let text = MANIFEST.replace("KEYS", "scheduling = \"deadline\"");
    let mut inputs = crate::fixture::inputs(&text, "manifest.toml");
    inputs.host.realtime = false;
    let plan = Plan::build(&inputs).expect("a plan");
    assert!(plan.threads.iter().all(|t| t.reservation.is_none()));
}

#[test]
fn words_and_numbers_that_make_no_sense_are_refused_by_name() {
    for (keys, words) in [
        ("scheduling = \"rr\"", "deadline"),
        ("scheduling = 3", "scheduling"),
        ("watchdog_ms = 5", "watchdog_ms"),
        ("idle_latency_us = 1_000_000", "idle_latency_us"),
        ("start_mb_per_s = 0", "choose 1 to 1000000 MB/s"),
        ("start_mb_per_s = 1_000_001", "start_mb_per_s"),
    ] {
        let errors = plan(keys, &[]).expect_err(keys).to_string();
        assert!(errors.contains(words), "{keys}: {errors}");
    }
    let plan = plan("watchdog_ms = 250\nidle_latency_us = 10", &[]).expect("a plan");
    assert_eq!(plan.watchdog, Nanos::from_millis(250));
    assert_eq!(plan.idle_latency, Some(Nanos::from_micros(10)));
}

#[test]
fn isolated_cores_are_for_partitions_and_the_others_for_the_daemon() {
    let cores = |isolated: &[u16]| {
        let plan = plan("", isolated).expect("a plan");
        (
            plan.housekeeping_cores.clone(),
            plan.partitions[0].cores.clone(),
        )
    };
    assert_eq!(cores(&[]), (vec![0], vec![1]));
    assert_eq!(cores(&[3]), (vec![0], vec![3]));
    assert_eq!(cores(&[0, 1]), (vec![2], vec![0]));
    // With all of them isolated the daemon has to sit on one.
    assert_eq!(cores(&[0, 1, 2, 3]), (vec![0], vec![1]));
}
