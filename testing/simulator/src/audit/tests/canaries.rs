//! Faults planted between the scheduler and the world, each of which the auditor must name: an
//! auditor that finds nothing proves nothing.

use punctual_core::{
    Action, ActionId, Answers, Config, Event, Failure, Instant, ModelId, Nanos, PartitionId,
    PolicySpec, Rejection, Reply, StageId, Ticket, Verdict, Weights,
};
use punctual_policy_seeb::SeebConfig;

use super::bench::{Bench, at, model, ms, plan, shipped};
use crate::audit::{Auditor, Invariant, Violation};

/// What is found in a run of `plan` whose orders pass through `fault`.
fn with_orders(fault: impl FnMut(Action) -> Vec<Action> + 'static) -> Vec<Violation> {
    let config = plan();
    let mut bench = Bench::new(&config);
    bench.orders = Box::new(fault);
    bench.frames();
    bench.run(&config, at(2_000));
    violations(&bench)
}

fn with_reports(fault: impl FnMut(&mut Event) + 'static) -> Vec<Violation> {
    let config = plan();
    let mut bench = Bench::new(&config);
    bench.reports = Box::new(fault);
    bench.frames();
    bench.run(&config, at(2_000));
    violations(&bench)
}

/// What is found if the scheduler believes in another plan than is true.
fn with_belief(believed: &Config, real: &Config) -> Vec<Violation> {
    let mut bench = Bench::new(real);
    bench.frames();
    // A burst beyond the reservations.
    for _ in 0..3 {
        bench.frame(0, at(50));
    }
    bench.run(believed, at(2_000));
    violations(&bench)
}

fn violations(bench: &Bench) -> Vec<Violation> {
    let list = bench.auditor.findings().list().iter();
    list.map(|finding| finding.violation).collect()
}

/// Applies a change to the first order that it applies to.
fn once<F: FnMut(&Action) -> Option<Vec<Action>> + 'static>(
    mut fault: F,
) -> impl FnMut(Action) -> Vec<Action> + 'static {
    let mut done = false;
    move |action| {
        if done {
            return vec![action];
        }
        let changed = fault(&action);
        done = changed.is_some();
        changed.unwrap_or_else(|| vec![action])
    }
}

fn infers(mut change: impl FnMut(&mut punctual_core::Infer)) -> impl FnMut(Action) -> Vec<Action> {
    move |mut action| {
        if let Action::Infer(infer) = &mut action {
            change(infer);
        }
        vec![action]
    }
}

fn replies(mut change: impl FnMut(&mut Reply)) -> impl FnMut(Action) -> Vec<Action> {
    move |mut action| {
        if let Action::Reply(reply) = &mut action {
            change(reply);
        }
        vec![action]
    }
}

macro_rules! assert_found {
    ($found:expr, $pattern:pat, $invariant:expr) => {
        let found = $found;
        let named = found.iter().find(|v| matches!(v, $pattern));
        let named = named.unwrap_or_else(|| panic!("not {} but {found:#?}", stringify!($pattern)));
        assert_eq!(named.invariant(), $invariant);
    };
}

#[test]
fn without_a_fault_nothing_is_found_under_any_policy() {
    for policy in shipped() {
        let name = policy.name();
        let config = plan();
        let mut bench = Bench::under(&config, policy);
        bench.frames();
        bench.run(&config, at(2_000));
        assert_eq!(violations(&bench), [], "{name}");
        assert_eq!(bench.auditor.gaps(), [], "{name}");
    }
}

#[test]
fn a_verdict_that_is_dropped_is_found_when_its_bound_passes_and_at_the_end() {
    let drop_one = || once(|a| matches!(a, Action::Reply(_)).then(Vec::new));
    assert_found!(
        with_orders(drop_one()),
        Violation::Overdue { .. },
        Invariant::Verdicts
    );
    assert_found!(
        with_orders(drop_one()),
        Violation::Lost { .. },
        Invariant::Verdicts
    );
}

#[test]
fn a_second_verdict_is_found() {
    let twice = once(|a| matches!(a, Action::Reply(_)).then(|| vec![a.clone(), a.clone()]));
    let found = with_orders(twice);
    assert_found!(
        found,
        Violation::VerdictWithoutSubmission { .. },
        Invariant::Verdicts
    );
}

#[test]
fn an_arrival_that_is_ignored_is_found() {
    let ignore = once(|a| matches!(a, Action::Prepare { .. }).then(Vec::new));
    assert_found!(
        with_orders(ignore),
        Violation::Undecided { .. },
        Invariant::Verdicts
    );
}

#[test]
fn a_slot_that_comes_back_as_another_is_found() {
    let found = with_orders(replies(|reply| reply.ticket.slot = 7));
    assert_found!(
        found,
        Violation::VerdictWithoutSubmission { .. },
        Invariant::Verdicts
    );
}

#[test]
fn a_window_in_the_past_is_found() {
    let found = with_orders(infers(|infer| infer.window.latest = Instant::ZERO));
    assert_found!(found, Violation::WrongWindow { .. }, Invariant::Windows);
}

#[test]
fn a_start_outside_the_window_is_found() {
    let found = with_reports(|event| {
        if let Event::Finished(finished) = event {
            finished.started = finished.started + ms(1);
        }
    });
    assert_found!(
        found,
        Violation::StartedOutsideWindow { .. },
        Invariant::Windows
    );
}

#[test]
fn a_partition_with_two_actions_is_found() {
    let twice = once(|action| {
        let Action::Infer(infer) = action else {
            return None;
        };
        let mut again = infer.clone();
        again.id = ActionId(infer.id.0 + 1_000);
        Some(vec![action.clone(), Action::Infer(again)])
    });
    assert_found!(
        with_orders(twice),
        Violation::UnitsHeld { .. },
        Invariant::Resources
    );
}

#[test]
fn actions_that_ran_at_the_same_time_are_found() {
    let mut first = true;
    let found = with_reports(move |event| {
        if let Event::Finished(finished) = event
            && std::mem::take(&mut first)
        {
            finished.measured += ms(9);
        }
    });
    assert_found!(found, Violation::RanTogether { .. }, Invariant::Resources);
}

#[test]
fn a_buffer_in_two_hands_is_found() {
    let found = with_orders(|mut action| {
        if let Action::Prepare { request, .. } = &mut action {
            request.buffer = 5;
        }
        vec![action]
    });
    assert_found!(found, Violation::BufferInUse { .. }, Invariant::Resources);
}

#[test]
fn a_name_that_comes_again_is_found() {
    let found = with_orders(|mut action| {
        if let Action::Prepare { request, .. } = &mut action {
            request.generation = 1;
        }
        vec![action]
    });
    assert_found!(found, Violation::StaleName { .. }, Invariant::Resources);
}

#[test]
fn a_verdict_while_the_device_writes_is_found() {
    let mut asked = None;
    let found = with_orders(move |action| match &action {
        Action::Prepare {
            request,
            task,
            ticket,
        } => {
            asked = asked.or(Some((*request, *task, *ticket)));
            vec![action]
        }
        Action::Infer(_) => {
            let early = asked.take().map(|(request, task, ticket)| {
                Action::Reply(Reply {
                    request: Some(request),
                    task,
                    ticket,
                    verdict: Verdict::Failed(Failure::Device),
                    answer: None,
                    captured: Instant::ZERO,
                    deadline: Instant::FAR_FUTURE,
                    delivered: None,
                })
            });
            [Some(action), early].into_iter().flatten().collect()
        }
        _ => vec![action],
    });
    assert_found!(found, Violation::BufferTouched { .. }, Invariant::Resources);
}

#[test]
fn a_queue_longer_than_planned_is_found() {
    let real = plan();
    let mut believed = real.clone();
    believed.tasks[0].queue_max = 8;
    let mut real = real;
    real.tasks[0].queue_max = 1;
    let found = with_belief(&believed, &real);
    assert_found!(found, Violation::QueueBound { .. }, Invariant::Resources);
}

#[test]
fn a_leaked_buffer_is_found_when_somebody_is_refused_for_it() {
    let leak = once(|action| {
        let Action::Prepare { task, ticket, .. } = action else {
            return None;
        };
        (task.0 == 2).then(|| vec![refused(*ticket, task.0, Rejection::QueueFull)])
    });
    assert_found!(
        with_orders(leak),
        Violation::RoomDenied { .. },
        Invariant::Resources
    );
}

fn refused(ticket: Ticket, task: u16, reason: Rejection) -> Action {
    // The frames of task 0 and 1 come at 1 ms first.
    let deadlines = [at(13), at(21), Instant::FAR_FUTURE];
    Action::Reply(Reply {
        request: None,
        task: punctual_core::TaskId(task),
        ticket,
        verdict: Verdict::Rejected(reason),
        answer: None,
        captured: Instant::ZERO,
        deadline: deadlines[usize::from(task)],
        delivered: None,
    })
}

#[test]
fn more_weights_than_pages_and_weights_that_are_not_there_are_found() {
    let mut config = plan();
    config.pages = 3;
    for model in &mut config.models {
        model.weights = Some(Weights {
            pages: 2,
            load: ms(1),
        });
    }
    let mut auditor = Auditor::new(&config, SeebConfig::default().contract());
    let load = |id, model| Action::Load {
        id: ActionId(id),
        model: ModelId(model),
    };
    auditor.action(at(0), &load(0, 0));
    auditor.action(at(0), &Action::Unload { model: ModelId(0) });
    auditor.action(at(0), &load(1, 1));
    let found: Vec<Violation> = auditor
        .findings()
        .list()
        .iter()
        .map(|f| f.violation)
        .collect();
    assert_eq!(
        found,
        [
            Violation::WrongWeights { model: ModelId(0) },
            Violation::PagesExceeded {
                model: ModelId(1),
                taken: 4,
                pages: 3
            },
        ]
    );
    assert!(found.iter().all(|v| v.invariant() == Invariant::Resources));
}

#[test]
fn a_scheduler_that_promises_more_than_fits_is_found() {
    let real = plan();
    // It believes that stages take a third of what they take.
    let mut believed = real.clone();
    believed.models[0] = model(Nanos::from_micros(600), Nanos::from_micros(700));
    let mut real = real;
    real.models[0] = model(ms(5), ms(9));
    let found = with_belief(&believed, &real);
    assert_found!(found, Violation::PromiseBroken { .. }, Invariant::Promises);
}

#[test]
fn a_reservation_that_is_not_honoured_is_found() {
    let deny = once(|action| {
        let Action::Prepare { task, ticket, .. } = action else {
            return None;
        };
        (task.0 == 0).then(|| vec![refused(*ticket, 0, Rejection::NoSlack)])
    });
    assert_found!(
        with_orders(deny),
        Violation::ReservationDenied { .. },
        Invariant::Promises
    );
}

#[test]
fn a_refusal_of_a_frame_in_time_after_one_that_came_late_is_found() {
    let found = |denied: usize| {
        let config = plan();
        let mut bench = Bench::new(&config);
        let mut prepared = 0;
        bench.orders = Box::new(move |action| match &action {
            Action::Prepare { ticket, .. } => {
                prepared += 1;
                if prepared == denied {
                    vec![refused(*ticket, 0, Rejection::NoSlack)]
                } else {
                    vec![action]
                }
            }
            _ => vec![action],
        });
        bench.frame_captured(0, at(4), at(1));
        bench.frame(0, at(13));
        bench.frame(0, at(25));
        bench.run(&config, at(2_000));
        violations(&bench)
    };
    // The late one itself was not reserved for.
    assert!(
        !found(1)
            .iter()
            .any(|v| matches!(v, Violation::ReservationDenied { .. }))
    );
    for denied in [2, 3] {
        assert_found!(
            found(denied),
            Violation::ReservationDenied { .. },
            Invariant::Promises
        );
    }
}

#[test]
fn best_effort_work_that_is_not_stopped_is_found() {
    let found = with_orders(|action| match action {
        Action::Preempt { .. } => Vec::new(),
        action => vec![action],
    });
    assert_found!(
        found,
        Violation::BestEffortInTheWay { .. },
        Invariant::BestEffort
    );
}

#[test]
fn a_place_that_there_is_not_is_found() {
    let found = with_orders(once(|action| {
        let Action::Infer(infer) = action else {
            return None;
        };
        let mut elsewhere = infer.clone();
        elsewhere.id = ActionId(1_000);
        elsewhere.partition = PartitionId(9);
        // The world would not know what to do with it.
        elsewhere.members.clear();
        Some(vec![Action::Infer(elsewhere), action.clone()])
    }));
    assert_found!(found, Violation::UnknownPlace { .. }, Invariant::WellFormed);
}

#[test]
fn a_preparation_that_nobody_asked_for_is_found() {
    let twice = once(|action| {
        let Action::Prepare { task, ticket, .. } = action else {
            return None;
        };
        let request = punctual_core::RequestId {
            buffer: 9,
            generation: 9,
        };
        let again = Action::Prepare {
            request,
            task: *task,
            ticket: *ticket,
        };
        Some(vec![action.clone(), again])
    });
    assert_found!(
        with_orders(twice),
        Violation::UnaskedPreparation { .. },
        Invariant::WellFormed
    );
}

#[test]
fn a_member_named_twice_is_found() {
    let found = with_orders(infers(|infer| {
        if infer.members.len() == 1 {
            let member = infer.members[0];
            infer.members.push(member).expect("there is room");
            infer.batch = 2;
        }
    }));
    assert_found!(
        found,
        Violation::MemberNotReady { .. },
        Invariant::WellFormed
    );
}

#[test]
fn a_stage_out_of_turn_is_found() {
    let found = with_orders(infers(|infer| infer.stage = StageId(1)));
    assert_found!(found, Violation::WrongMember { .. }, Invariant::WellFormed);
}

#[test]
fn a_batch_larger_than_its_members_need_is_found() {
    let found = with_orders(infers(|infer| infer.batch = 2));
    assert_found!(found, Violation::WrongBatch { .. }, Invariant::WellFormed);
}

#[test]
fn an_order_to_stop_what_was_told_already_is_found() {
    let twice = once(|a| matches!(a, Action::Preempt { .. }).then(|| vec![a.clone(), a.clone()]));
    assert_found!(
        with_orders(twice),
        Violation::WrongPreemption { .. },
        Invariant::WellFormed
    );
}

#[test]
fn an_on_time_answer_called_late_is_found() {
    let found = with_orders(replies(|reply| reply.verdict = Verdict::Late));
    assert_found!(found, Violation::WrongVerdict { .. }, Invariant::WellFormed);
}

#[test]
fn an_answer_of_another_request_is_found() {
    let found = with_orders(replies(|reply| {
        if let Some((_, answer)) = &mut reply.answer {
            answer.class = 2;
        }
    }));
    assert_found!(found, Violation::WrongAnswer { .. }, Invariant::WellFormed);
}

/// Delivers each answer of the first task, with faults in its orders.
fn with_deliveries(fault: impl FnMut(Action) -> Vec<Action> + 'static) -> Vec<Violation> {
    let mut config = plan();
    config.tasks[0].answers = Answers::EachExit;
    let mut bench = Bench::new(&config);
    bench.orders = Box::new(fault);
    bench.frames();
    bench.run(&config, at(2_000));
    violations(&bench)
}

#[test]
fn each_answer_at_once_is_right() {
    assert_eq!(with_deliveries(|action| vec![action]), []);
}

#[test]
fn an_answer_that_is_kept_back_twice_or_not_wanted_is_found() {
    let delivery = |action: &Action| matches!(action, Action::Deliver(_));
    let none = once(move |a| delivery(a).then(Vec::new));
    let twice = once(move |a| delivery(a).then(|| vec![a.clone(), a.clone()]));
    for found in [with_deliveries(none), with_deliveries(twice)] {
        assert_found!(
            found,
            Violation::WrongDelivery { .. },
            Invariant::WellFormed
        );
    }
    let unwanted = once(|action| match action {
        Action::Reply(reply) if reply.answer.is_some() => {
            Some(vec![Action::Deliver(*reply), action.clone()])
        }
        _ => None,
    });
    assert_found!(
        with_orders(unwanted),
        Violation::WrongDelivery { .. },
        Invariant::WellFormed
    );
}

#[test]
fn a_verdict_that_takes_back_what_was_delivered_is_found() {
    let mut delivered = None;
    let found = with_deliveries(move |mut action| {
        match &mut action {
            Action::Deliver(reply) => delivered = Some(reply.ticket),
            Action::Reply(reply) if delivered == Some(reply.ticket) => {
                (reply.verdict, reply.answer) = (Verdict::Failed(Failure::Device), None);
            }
            _ => {}
        }
        vec![action]
    });
    assert_found!(
        found,
        Violation::WrongDelivery { .. },
        Invariant::WellFormed
    );
}
