//! Frames that make way to newer ones, and what must be found about them.

use std::sync::Arc;

use punctual_core::{
    Action, Config, Criticality, Delivery, Event, PolicySpec, PunctualConfig, Rejection, Reply,
    TaskConfig, TaskId, Verdict,
};

use super::bench::{Bench, at, ms, plan, shipped, task};
use crate::audit::{Invariant, Violation};

const SUPERSEDED: Verdict = Verdict::Rejected(Rejection::Superseded);

/// A task that wants the latest frame (2 ms, due in 40), and one that keeps the partition busy.
fn config() -> Config {
    let latest = TaskConfig {
        delivery: Delivery::LatestFrame,
        queue_max: 8,
        deadline: Some(ms(40)),
        reserved: false,
        batch_max: 1,
        ..task(0, ms(40))
    };
    let busy = TaskConfig {
        reserved: false,
        deadline: Some(ms(60)),
        ..task(1, ms(60))
    };
    Config {
        tasks: vec![busy, latest],
        ..plan()
    }
}

/// What is found about six frames that come while the partition is busy, and how many made way.
fn found(
    real: &Config,
    believed: &Config,
    orders: impl FnMut(Action) -> Vec<Action> + 'static,
) -> (Vec<Violation>, usize) {
    found_under(Arc::new(PunctualConfig::default()), real, believed, orders)
}

fn found_under(
    policy: Arc<dyn PolicySpec>,
    real: &Config,
    believed: &Config,
    orders: impl FnMut(Action) -> Vec<Action> + 'static,
) -> (Vec<Violation>, usize) {
    let mut bench = Bench::under(real, policy);
    let superseded = std::rc::Rc::new(std::cell::Cell::new(0));
    let count = std::rc::Rc::clone(&superseded);
    let mut orders = orders;
    bench.orders = Box::new(move |action| {
        let made_way = matches!(&action, Action::Reply(reply) if reply.verdict == SUPERSEDED);
        count.set(count.get() + usize::from(made_way));
        orders(action)
    });
    bench.frame(0, at(0));
    for n in 1..=6 {
        bench.frame(1, at(n));
    }
    bench.run(believed, at(200));
    let list = bench.auditor.findings().list().iter();
    (list.map(|f| f.violation).collect(), superseded.get())
}

#[test]
fn nothing_is_found_about_frames_that_make_way_under_any_policy() {
    for policy in shipped() {
        let name = policy.name();
        let config = config();
        let (found, made_way) = found_under(policy, &config, &config, |action| vec![action]);
        assert_eq!(found, [], "{name}");
        assert!(made_way > 0 || name != "punctual", "{name}");
    }
}

#[test]
fn a_frame_that_makes_way_although_every_frame_is_wanted_is_found() {
    let believed = config();
    let mut real = believed.clone();
    real.tasks[1].delivery = Delivery::EveryFrame;
    let (found, _) = found(&real, &believed, |action| vec![action]);
    let wrong = |v: &Violation| matches!(v, Violation::WrongVerdict { verdict, .. } if *verdict == SUPERSEDED);
    assert!(found.iter().any(wrong), "{found:#?}");
}

#[test]
fn a_frame_that_makes_way_to_nobody_is_found() {
    let config = config();
    let mut done = false;
    // The answer of the other task's frame, of which there is one only, is withheld so.
    let (found, _) = found(&config, &config, move |mut action| {
        if let Action::Reply(reply) = &mut action
            && reply.task == TaskId(1)
            && !done
            && reply.verdict == Verdict::OnTime
        {
            done = true;
            *reply = Reply {
                verdict: SUPERSEDED,
                answer: None,
                ..*reply
            };
        }
        vec![action]
    });
    let nobody = found
        .iter()
        .find(|v| matches!(v, Violation::SupersededByNobody { .. }));
    let nobody = nobody.unwrap_or_else(|| panic!("{found:#?}"));
    assert_eq!(nobody.invariant(), Invariant::Promises);
}

#[test]
fn a_place_that_is_not_kept_is_found() {
    let config = config();
    let mut bench = Bench::new(&config);
    // The device does the frame that took the place only after the older one's deadline, and says
    // that it started in time and took what was planned.
    let mut late = None;
    bench.orders = Box::new(move |action| {
        if let Action::Infer(infer) = &action
            && infer.model.0 == 0
            && late.is_none()
        {
            late = Some(infer.id);
            let mut infer = infer.clone();
            infer.window.latest = at(55);
            infer.window.earliest = at(55);
            return vec![Action::Infer(infer)];
        }
        vec![action]
    });
    bench.starts_at_window = true;
    bench.frame(0, at(0));
    bench.frame(1, at(1));
    bench.frame(1, at(3));
    bench.run(&config, at(200));
    let found = bench.auditor.findings().list().iter();
    let found: Vec<Violation> = found.map(|f| f.violation).collect();
    let late = |v: &Violation| matches!(v, Violation::PlaceLate { .. });
    assert!(found.iter().any(late), "{found:#?}");
}

#[test]
fn best_effort_work_that_runs_on_while_it_is_to_be_given_up_is_found() {
    let config = plan();
    let run = |keeps_going: bool| {
        let mut bench = Bench::new(&config);
        bench.orders = Box::new(move |action| match &action {
            Action::Preempt { .. } if keeps_going => Vec::new(),
            _ => vec![action],
        });
        bench.frame(2, at(0));
        bench.schedule(at(1), Event::Shed { hold: true });
        bench.run(&config, at(200));
        let found = bench.auditor.findings().list().iter();
        found.map(|f| f.violation).collect::<Vec<_>>()
    };
    assert_eq!(run(false), []);
    let found = run(true);
    let named = |v: &&Violation| matches!(v, Violation::NotShed { .. });
    let named = found.iter().find(named);
    let named = named.unwrap_or_else(|| panic!("{found:#?}"));
    assert_eq!(named.invariant(), Invariant::BestEffort);
}

#[test]
fn a_real_time_frame_refused_as_best_effort_work_is_found() {
    let config = plan();
    let mut bench = Bench::new(&config);
    bench.orders = Box::new(|mut action| {
        if let Action::Reply(reply) = &mut action
            && config_is_real_time(reply.task)
        {
            reply.verdict = Verdict::Rejected(Rejection::Shedding);
            reply.answer = None;
        }
        vec![action]
    });
    bench.schedule(at(0), Event::Shed { hold: true });
    bench.frame(0, at(1));
    bench.run(&config, at(200));
    let wrong = |v: &Violation| matches!(v, Violation::WrongVerdict { .. });
    let mut found = bench.auditor.findings().list().iter();
    assert!(found.any(|f| wrong(&f.violation)));
}

fn config_is_real_time(task: TaskId) -> bool {
    plan().tasks[task.index()].criticality == Criticality::RealTime
}
