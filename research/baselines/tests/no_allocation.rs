//! `step` allocates and frees nothing, with all queues full, whichever policy decides.

use punctual_baselines::ClockworkConfig;
use punctual_core::PolicySpec;
use punctual_platform::thread::{ThreadSpec, spawn_realtime};
use punctual_platform::{SealedAllocator, allocator};
use punctual_policy_testing::emulated::{Emulated, Setting};
use punctual_policy_testing::load::Load;

#[global_allocator]
static ALLOCATOR: SealedAllocator = SealedAllocator;

const STEPS: u64 = 20_000;

/// Runs a load on a thread whose allocations are counted; the requests open at the end.
fn run(mut load: Load, what: &str) -> usize {
    // The allocator counts real-time threads apart, so the test's own do not disturb.
    let counted = move || {
        let before = allocator::counts();
        for _ in 0..STEPS {
            let due = load.next_step();
            load.decide(&due);
            load.carry_out();
        }
        (before, allocator::counts(), load)
    };
    let thread = spawn_realtime(ThreadSpec::new("scheduler", None, None), counted);
    let (before, after, load) = thread.expect("starts").join().expect("no panic");
    assert_eq!(after.realtime - before.realtime, 0, "{what}");
    assert_eq!(after.realtime_frees - before.realtime_frees, 0, "{what}");
    load.open()
}

#[test]
fn a_decision_neither_allocates_nor_frees() {
    assert!(allocator::is_installed());
    allocator::seal();
    for tasks in [4, 16, 64] {
        let open = run(Load::new(tasks), &format!("{tasks} tasks"));
        assert!(open > 2 * tasks, "the queues are full");
    }
    for tasks in [16, 64] {
        let open = run(Load::on_places(tasks), &format!("{tasks} tasks, places"));
        assert!(open > 2 * tasks, "the queues are full");
    }
    for policy in punctual_baselines::all().iter() {
        let name = policy.name();
        let open = run(Load::of(16, policy), name);
        assert!(open > 16, "{name}: the queues are full");
    }
}

#[test]
fn a_controller_of_thousands_of_models_neither_allocates_nor_frees() {
    assert!(allocator::is_installed());
    let setting = Setting {
        models: 4_026,
        workers: 2,
        pages: 1_000,
        rate: 2_000.0,
    };
    let mut emulated = Emulated::new(setting, &ClockworkConfig::default());
    let counted = move || {
        let before = allocator::counts();
        for _ in 0..STEPS {
            let event = emulated.next_event();
            emulated.decide(&event);
            emulated.carry_out();
        }
        (before, allocator::counts(), emulated)
    };
    allocator::seal();
    let thread = spawn_realtime(ThreadSpec::new("scheduler", None, None), counted);
    let (before, after, emulated) = thread.expect("starts").join().expect("no panic");
    let (replies, on_time) = emulated.replies();
    assert!(replies > on_time && on_time > 0, "served, and overloaded");
    assert_eq!(after.realtime - before.realtime, 0);
    assert_eq!(after.realtime_frees - before.realtime_frees, 0);
}
