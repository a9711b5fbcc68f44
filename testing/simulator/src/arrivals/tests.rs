use std::collections::BTreeMap;

use punctual_core::{Confidence, Instant, Nanos, Rejection, Reply, TaskId, Ticket, Verdict};
use punctual_types::Random;

use super::*;

const SECOND: Nanos = Nanos::from_millis(1_000);

fn arrivals(patterns: &[Pattern], load: f64, seconds: u64, seed: u64) -> Arrivals {
    let tasks: Vec<(&Pattern, u16)> = patterns.iter().map(|pattern| (pattern, 1)).collect();
    let span = SECOND.saturating_mul(seconds);
    Arrivals::new(&tasks, load, span, &Random::new(seed)).expect("patterns that can be played")
}

fn poisson(rate_hz: f64) -> Pattern {
    Pattern::Poisson { rate_hz }
}

fn reply(submission: &Submission, verdict: Verdict) -> Reply {
    Reply {
        request: None,
        task: submission.task,
        ticket: Ticket::default(),
        verdict,
        answer: Some((
            punctual_core::StageId(0),
            punctual_core::Answer {
                class: 0,
                confidence: Confidence(0),
            },
        )),
        captured: submission.captured,
        deadline: Instant::FAR_FUTURE,
        delivered: None,
    }
}

/// All submissions, each answered `service` later, before anything else happens.
fn play(source: &mut Arrivals, service: Nanos, verdict: Verdict) -> Vec<Submission> {
    let mut open: BTreeMap<(Instant, u64), Submission> = BTreeMap::new();
    let mut all = Vec::new();
    loop {
        let answered = open.first_key_value().map(|((at, _), _)| *at);
        let due = source.peek();
        match (due, answered) {
            (None, None) => return all,
            (Some(due), answered) if answered.is_none_or(|at| due < at) => {
                let submission = source.take().expect("peek spoke of it");
                assert_eq!(submission.submitted, due);
                open.insert((due + service, submission.tag), submission);
                all.push(submission);
            }
            _ => {
                let ((at, tag), submission) = open.pop_first().expect("there is one");
                source.replied(at, tag, &reply(&submission, verdict));
            }
        }
    }
}

fn of_task(all: &[Submission], task: u16) -> Vec<&Submission> {
    all.iter().filter(|s| s.task == TaskId(task)).collect()
}

#[test]
fn submissions_come_in_order_of_time_and_the_same_again_for_the_same_seed() {
    let patterns = [
        poisson(300.0),
        Pattern::Gamma {
            rate_hz: 200.0,
            shape: 0.3,
        },
        Pattern::Periodic {
            rate_hz: 30.0,
            phase: Nanos::from_millis(3),
            jitter: Nanos::from_millis(2),
        },
    ];
    let run = |seed| {
        play(
            &mut arrivals(&patterns, 1.0, 10, seed),
            Nanos::ZERO,
            Verdict::OnTime,
        )
    };
    let all = run(5);
    assert!(
        all.windows(2)
            .all(|pair| pair[0].submitted <= pair[1].submitted)
    );
    assert_eq!(all, run(5));
    assert_ne!(all, run(6));
    for (task, expected) in [(0, 3_000.0), (1, 2_000.0), (2, 300.0)] {
        let found = of_task(&all, task).len() as f64;
        assert!((found / expected - 1.0).abs() < 0.1, "{task}: {found}");
    }
}

#[test]
fn a_stream_does_not_change_when_another_task_does() {
    let one = [poisson(100.0), poisson(10.0)];
    let other = [poisson(100.0), Pattern::Continuous];
    let times = |patterns: &[Pattern]| {
        let all = play(
            &mut arrivals(patterns, 1.0, 2, 5),
            Nanos::from_millis(7),
            Verdict::OnTime,
        );
        of_task(&all, 0)
            .iter()
            .map(|s| s.intended)
            .collect::<Vec<_>>()
    };
    assert_eq!(times(&one), times(&other));
}

#[test]
fn the_load_factor_multiplies_the_rates() {
    let trace = Pattern::Trace {
        entries: [0, 100, 400]
            .map(|ms| TraceEntry {
                at: Nanos::from_millis(ms),
                deadline: None,
            })
            .to_vec(),
        span: Some(SECOND),
    };
    let shape = Shape::Sustained;
    let patterns = [
        poisson(50.0),
        trace,
        Pattern::Minutes {
            rate_hz: 20.0,
            shape,
        },
    ];
    for load in [0.5, 1.0, 4.0] {
        let all = play(
            &mut arrivals(&patterns, load, 100, 5),
            Nanos::ZERO,
            Verdict::OnTime,
        );
        for (task, rate) in [(0, 50.0), (1, 3.0), (2, 20.0)] {
            let found = of_task(&all, task).len() as f64 / 100.0;
            assert!(
                (found / (rate * load) - 1.0).abs() < 0.1,
                "{task} at {load}: {found}"
            );
        }
    }
}

#[test]
fn jitter_delays_the_submission_and_not_what_was_meant() {
    let pattern = Pattern::Periodic {
        rate_hz: 10.0,
        phase: Nanos::ZERO,
        jitter: Nanos::from_millis(5),
    };
    let all = play(
        &mut arrivals(&[pattern], 1.0, 5, 5),
        Nanos::ZERO,
        Verdict::OnTime,
    );
    for (turn, submission) in all.iter().enumerate() {
        let intended = Instant::ZERO + Nanos::from_millis(100 * turn as u64);
        assert_eq!(
            (submission.intended, submission.captured),
            (intended, intended)
        );
        assert!(submission.submitted.since(intended) < Nanos::from_millis(5));
    }
    assert!(all.iter().any(|s| s.submitted > s.intended));
}

#[test]
fn a_closed_loop_keeps_its_requests_open_and_pauses_after_a_refusal() {
    let closed = Pattern::ClosedLoop {
        outstanding: 4,
        think: Nanos::ZERO,
        retry: Nanos::from_millis(10),
    };
    let (service, patterns) = (Nanos::from_millis(5), [closed]);
    let answered = play(
        &mut arrivals(&patterns, 1.0, 1, 5),
        service,
        Verdict::OnTime,
    );
    assert_eq!(answered.len(), 4 * 200);
    let doubled = play(
        &mut arrivals(&patterns, 2.0, 1, 5),
        service,
        Verdict::OnTime,
    );
    assert_eq!(doubled.len(), 8 * 200);
    let refused = Verdict::Rejected(Rejection::NoSlack);
    let refused = play(&mut arrivals(&patterns, 1.0, 1, 5), Nanos::ZERO, refused);
    assert_eq!(refused.len(), 4 * 100);
}

#[test]
fn a_continuous_client_is_the_same_at_every_load() {
    let run = |load| {
        let mut source = arrivals(&[Pattern::Continuous], load, 1, 5);
        play(&mut source, Nanos::from_millis(4), Verdict::Late)
    };
    assert_eq!(run(1.0).len(), 250);
    assert_eq!(run(1.0), run(4.0));
}

#[test]
fn a_dependent_task_asks_when_all_it_waits_for_have_answered() {
    let periodic = |rate_hz, ms| Pattern::Periodic {
        rate_hz,
        phase: Nanos::from_millis(ms),
        jitter: Nanos::ZERO,
    };
    let after = vec![TaskId(0), TaskId(1)];
    let patterns = [
        periodic(10.0, 0),
        periodic(10.0, 30),
        Pattern::Dependent { after },
    ];
    let all = play(
        &mut arrivals(&patterns, 1.0, 1, 5),
        Nanos::from_millis(5),
        Verdict::OnTime,
    );
    let dependent: Vec<Instant> = of_task(&all, 2).iter().map(|s| s.submitted).collect();
    let expected = (0..10).map(|turn| Instant::ZERO + Nanos::from_millis(100 * turn + 35));
    assert_eq!(dependent, expected.collect::<Vec<_>>());
}

#[test]
fn a_query_brings_its_fan_out_and_none_for_a_refusal() {
    for fan_out in [0.1, 1.0, 10.0, 2.5] {
        let after = TaskId(0);
        let patterns = [poisson(100.0), Pattern::Query { after, fan_out }];
        let run = |service, verdict| play(&mut arrivals(&patterns, 1.0, 40, 5), service, verdict);
        let all = run(Nanos::from_millis(2), Verdict::OnTime);
        let (first, second) = (of_task(&all, 0).len() as f64, of_task(&all, 1).len() as f64);
        assert!(
            (second / first / fan_out - 1.0).abs() < 0.15,
            "{fan_out}: {second} of {first}"
        );
        // The fan-out belongs to the query, not to the moment of its answer.
        let slower = of_task(&run(Nanos::from_millis(1), Verdict::OnTime), 1).len();
        assert!(
            slower.abs_diff(second as usize) <= 10,
            "{slower} and {second}"
        );
        let refused = run(Nanos::ZERO, Verdict::Rejected(Rejection::NoSlack));
        assert_eq!(of_task(&refused, 1).len(), 0);
    }
}

#[test]
fn the_images_of_a_burst_arrive_at_once_with_the_deadline_of_its_size() {
    let deadlines: Vec<Nanos> = (1..=8).map(Nanos::from_millis).collect();
    let bursts = Pattern::Bursts(Bursts {
        groups_hz: 5.0,
        median: 4.0,
        sigma: 0.8,
        most: 12,
        deadlines,
    });
    let all = play(
        &mut arrivals(&[bursts], 1.0, 100, 5),
        Nanos::ZERO,
        Verdict::OnTime,
    );
    let mut sizes = BTreeMap::new();
    for group in all.chunk_by(|a, b| a.submitted == b.submitted) {
        let relative = group[0].deadline.expect("by size").since(group[0].intended);
        assert_eq!(relative, Nanos::from_millis(group.len().min(8) as u64));
        *sizes.entry(group.len()).or_insert(0) += 1;
    }
    assert!(sizes.len() > 8 && sizes.last_key_value().is_some_and(|(size, _)| *size == 12));
}

#[test]
fn a_collection_window_releases_at_its_end_with_the_deadline_of_its_number() {
    let window = Nanos::from_millis(100);
    let collected = Pattern::Collected {
        window,
        deadlines: (1..=3).map(Nanos::from_millis).collect(),
        of: Box::new(poisson(20.0)),
    };
    let run = |pattern| {
        let mut source = arrivals(&[pattern], 1.0, 10, 5);
        play(&mut source, Nanos::ZERO, Verdict::OnTime)
    };
    let (collected, plain) = (run(collected), run(poisson(20.0)));
    let released = |s: &Submission| s.submitted.as_nanos().div_ceil(window.as_nanos());
    // What falls into the last window would be released when the run has ended.
    let before_end = plain.iter().filter(|s| released(s) < 100).count();
    assert_eq!(collected.len(), before_end);
    for (collected, plain) in collected.iter().zip(&plain) {
        assert_eq!(collected.captured, collected.submitted);
        assert_eq!(collected.submitted.as_nanos() % window.as_nanos(), 0);
        assert!(collected.submitted.since(plain.submitted) < window);
    }
    for group in collected.chunk_by(|a, b| a.submitted == b.submitted) {
        let expected = Nanos::from_millis(group.len().min(3) as u64);
        for request in group {
            let relative = request.deadline.expect("by number").since(request.captured);
            assert_eq!(relative, expected);
        }
    }
}

#[test]
fn models_that_join_share_the_rate() {
    let patterns: Vec<Pattern> = (0..50)
        .map(|before| Pattern::Shared {
            total_hz: 200.0,
            before,
            models: 50,
            every: SECOND,
            start: SECOND,
        })
        .collect();
    let all = play(
        &mut arrivals(&patterns, 1.0, 100, 5),
        Nanos::ZERO,
        Verdict::OnTime,
    );
    for second in (5..95).step_by(10) {
        let inside = all
            .iter()
            .filter(|s| s.submitted.as_nanos() / SECOND.as_nanos() == second);
        let total = inside.count() as f64;
        assert!(
            (total / 200.0 - 1.0).abs() < 0.25,
            "second {second}: {total}"
        );
    }
    for (task, from) in [(0u16, 1), (20, 21), (49, 50)] {
        let first = of_task(&all, task)[0].submitted;
        assert!(
            first >= Instant::ZERO + SECOND.saturating_mul(from),
            "{task}: {first:?}"
        );
    }
}

#[test]
fn clients_take_turns_and_have_ids_of_their_own() {
    let pattern = poisson(100.0);
    let tasks = [(&pattern, 3), (&pattern, 2)];
    let mut source = Arrivals::new(&tasks, 1.0, SECOND, &Random::new(5)).expect("fine");
    assert_eq!(source.clients(), 5);
    let all = play(&mut source, Nanos::ZERO, Verdict::OnTime);
    let clients = |task| {
        of_task(&all, task)
            .iter()
            .map(|s| s.client.0)
            .take(6)
            .collect::<Vec<_>>()
    };
    assert_eq!(clients(0), [0, 1, 2, 0, 1, 2]);
    assert_eq!(clients(1), [3, 4, 3, 4, 3, 4]);
}

#[test]
fn what_cannot_be_played_is_refused_with_its_number() {
    let check = |pattern: Pattern| pattern.check().expect_err("refused").to_string();
    assert!(check(poisson(0.0)).contains("rate is 0"));
    assert!(check(poisson(f64::NAN)).contains("rate is NaN"));
    assert!(check(Pattern::Dependent { after: vec![] }).contains("0 tasks"));
    let collected = Pattern::Collected {
        window: SECOND,
        deadlines: vec![],
        of: Box::new(Pattern::Continuous),
    };
    assert!(check(collected).contains("only an open-loop pattern"));
    let entries = [5, 4].map(|ms| TraceEntry {
        at: Nanos::from_millis(ms),
        deadline: None,
    });
    let (unsorted, sorted) = (entries.to_vec(), vec![entries[1], entries[0]]);
    let trace = |entries, span| Pattern::Trace { entries, span };
    assert!(check(trace(unsorted, None)).contains("entry 1"));
    assert!(check(trace(sorted, Some(Nanos::from_millis(5)))).contains("repeats after 5000.0 us"));
    let waits = Pattern::Query {
        after: TaskId(9),
        fan_out: 1.0,
    };
    let error = Arrivals::new(&[(&waits, 1)], 1.0, SECOND, &Random::new(5)).expect_err("no task 9");
    assert!(error.to_string().contains("waits for task 9"), "{error}");
}
