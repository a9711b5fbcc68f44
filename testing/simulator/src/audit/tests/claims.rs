//! What is claimed when an assumption breaks, and from when it is claimed again.

use punctual_core::{Action, Event, Nanos, PolicySpec, PunctualConfig, Verdict};

use super::bench::{Bench, at, ms, plan};
use crate::audit::{Broken, Finding, Gap, Violation};

/// The first stage ordered after 40 ms takes five times its budget.
fn with_an_overrun() -> Bench {
    let mut bench = Bench::new(&plan());
    bench.takes = |infer, budget| {
        let slow = (at(49)..at(52)).contains(&infer.window.earliest);
        if slow {
            budget.saturating_mul(5)
        } else {
            budget
        }
    };
    bench.frames();
    bench
}

#[test]
fn an_overrun_voids_the_promises_made_until_nothing_is_left_over() {
    let mut bench = with_an_overrun();
    bench.run(&plan(), at(2_000));
    assert_eq!(bench.auditor.findings().list(), []);
    let [gap] = bench.auditor.gaps() else {
        panic!("one gap, not {:?}", bench.auditor.gaps());
    };
    assert_eq!((gap.partition, gap.cause), (0, Broken::Overrun));
    // Noticed with the first event past its budget; over when it ended and all late work is done.
    assert!((at(51)..at(60)).contains(&gap.from), "{gap:?}");
    let until = gap.until.expect("the claim holds again");
    assert!(until > at(59) && until <= at(85), "{gap:?}");
}

#[test]
fn promises_made_after_a_gap_are_claimed_again() {
    let mut bench = with_an_overrun();
    // Answers to the frames of task 0 that are due after 100 ms are kept until they are late.
    let mut kept = Vec::new();
    bench.orders = Box::new(move |action| match action {
        Action::Reply(mut reply) if reply.deadline > at(100) && reply.task.0 == 0 => {
            reply.verdict = Verdict::Late;
            kept.push(Action::Reply(reply));
            Vec::new()
        }
        Action::Prepare { .. } => [vec![action], std::mem::take(&mut kept)].concat(),
        action => vec![action],
    });
    bench.run(&plan(), at(2_000));
    let found = bench.auditor.findings().list().iter();
    let broken = found.filter(|f| matches!(f.violation, Violation::PromiseBroken { .. }));
    let (before, after): (Vec<&Finding>, Vec<&Finding>) = broken.partition(|f| f.at < at(100));
    assert_eq!(before, Vec::<&Finding>::new());
    assert!(!after.is_empty());
    assert_eq!(bench.auditor.gaps().len(), 1);
}

#[test]
fn a_failed_action_and_one_not_started_break_an_assumption_too() {
    for (cause, broken) in [(0, Broken::DeviceFailed), (1, Broken::NotStarted)] {
        let config = plan();
        let mut bench = Bench::new(&config);
        let mut first = true;
        bench.reports = Box::new(move |event| {
            if let Event::Finished(finished) = &event
                && std::mem::take(&mut first)
            {
                let action = finished.action;
                *event = if cause == 0 {
                    Event::Failed { action }
                } else {
                    Event::NotRun { action }
                };
            }
        });
        for n in 0..4 {
            bench.frame(0, at(1 + 12 * n));
        }
        bench.run(&config, at(100));
        assert_eq!(bench.auditor.findings().list(), []);
        let gap = Gap {
            partition: 0,
            cause: broken,
            from: at(3),
            until: bench.auditor.gaps()[0].until,
        };
        assert_eq!(bench.auditor.gaps(), [gap]);
        assert!(gap.until.is_some());
    }
}

#[test]
fn what_the_device_takes_beyond_its_bound_is_not_the_schedulers() {
    let config = plan();
    let mut real = config.clone();
    // The device stops best-effort work ten times as late as the plan says.
    real.partitions[0].preemption_bound = ms(10);
    let mut bench = Bench::new(&real);
    bench.auditor = crate::audit::Auditor::new(&config, PunctualConfig::default().contract());
    bench.takes = |infer, budget| if infer.model.0 == 1 { ms(50) } else { budget };
    bench.frame(2, at(0));
    bench.frame(0, at(1));
    bench.run(&config, at(200));
    assert_eq!(bench.auditor.findings().list(), []);
    assert_eq!(bench.auditor.gaps().len(), 1);
    assert!(bench.auditor.gaps()[0].until > Some(at(0) + Nanos::from_millis(11)));
}
