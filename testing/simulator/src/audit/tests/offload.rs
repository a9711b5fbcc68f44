//! Frames that another task takes on, and what must be found about them.

use punctual_core::{Action, Config, ModelConfig, PartitionId, TaskConfig, TaskId, Units};

use super::bench::{Bench, at, model, ms, plan, task};
use crate::audit::{Findings, Violation};

const TAKER: TaskId = TaskId(1);

/// A task without a reservation on a partition of its own, which offloads frames to another.
fn config() -> Config {
    let mut config = plan();
    let own = TaskConfig {
        reserved: false,
        queue_max: 1,
        offload_to: Some(TAKER),
        ..task(0, ms(12))
    };
    let taker = TaskConfig {
        queue_max: 4,
        offload_to: None,
        partition: PartitionId(1),
        ..own.clone()
    };
    config.tasks = vec![own, taker];
    let mut second = config.partitions[0].clone();
    second.units = Units { first: 1, count: 1 };
    config.partitions.push(second);
    config.models = vec![on_both(model(ms(2), ms(3)))];
    config
}

fn on_both(mut model: ModelConfig) -> ModelConfig {
    for time in model.stages.iter_mut().flat_map(|stage| &mut stage.times) {
        time.on.push(time.on[0]);
    }
    model
}

/// What the auditor finds about three frames that come at once, more than the own task has places for.
fn findings(
    believed: &Config,
    real: &Config,
    orders: impl FnMut(Action) -> Vec<Action> + 'static,
) -> Findings {
    let mut bench = Bench::new(real);
    bench.orders = Box::new(orders);
    for _ in 0..3 {
        bench.frame(0, at(1));
    }
    bench.run(believed, at(100));
    bench.auditor.findings().clone()
}

#[test]
fn nothing_is_found_about_frames_that_spill_as_planned() {
    let taken = std::rc::Rc::new(std::cell::Cell::new(0));
    let count = std::rc::Rc::clone(&taken);
    let found = findings(&config(), &config(), move |action| {
        let offloaded = matches!(action, Action::Prepare { task, .. } if task == TAKER);
        count.set(count.get() + u32::from(offloaded));
        vec![action]
    });
    assert_eq!(found.first(), None);
    assert_eq!(taken.get(), 2);
}

#[test]
fn a_preparation_for_a_task_that_is_no_spill_is_found() {
    let mut real = config();
    real.tasks[0].offload_to = None;
    let found = findings(&config(), &real, |action| vec![action]);
    let first = found.first().expect("found").violation;
    assert!(
        matches!(first, Violation::UnaskedPreparation { task: TAKER }),
        "{first}"
    );
}

#[test]
fn more_spilled_frames_than_the_takers_queue_holds_are_found() {
    let mut real = config();
    real.tasks[1].queue_max = 1;
    let found = findings(&config(), &real, |action| vec![action]);
    let first = found.first().expect("found").violation;
    assert!(
        matches!(first, Violation::QueueBound { task: TAKER, .. }),
        "{first}"
    );
}

#[test]
fn a_spilled_frame_that_is_late_on_the_takers_partition_breaks_its_promise() {
    // On the second partition a stage takes 7 ms, and it is believed to take 2.
    let mut real = config();
    for time in real.models[0].stages.iter_mut().flat_map(|s| &mut s.times) {
        (time.on[1].budget, time.on[1].max_seen) = (ms(7), ms(7));
    }
    let found = findings(&config(), &real, |action| vec![action]);
    let broken = found.first().expect("found").violation;
    assert!(
        matches!(broken, Violation::PromiseBroken { task: TAKER, .. }),
        "{broken}"
    );
}

#[test]
fn a_verdict_in_the_takers_name_is_found() {
    let found = findings(&config(), &config(), |mut action| {
        if let Action::Reply(reply) = &mut action {
            reply.task = TAKER;
        }
        vec![action]
    });
    let first = found.first().expect("found").violation;
    assert!(
        matches!(first, Violation::VerdictWithoutSubmission { .. }),
        "{first}"
    );
}
