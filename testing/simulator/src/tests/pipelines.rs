//! Frames whose replies bring parts to other tasks.

use std::collections::BTreeMap;

use punctual_core::{Action, Event, Instant, PunctualConfig, StageId, TaskId, Verdict};

use crate::arrivals::{Parts, Pattern, PatternError};
use crate::outcome::Outcome;
use crate::run::{RunError, Settings, simulate};
use crate::scenario::Scenario;
use crate::testbed::{Record, at, ms, pipeline};

const ROOT: TaskId = TaskId(0);
const FOLLOWER: TaskId = TaskId(1);
const SETTINGS: Settings = Settings {
    seed: 5,
    keep_requests: true,
};

fn run(scenario: &Scenario) -> (Outcome, Record) {
    let mut record = Record::default();
    let policy = PunctualConfig::default();
    let outcome = simulate(scenario, &policy, 1.0, SETTINGS, &mut record);
    (outcome.expect("a valid plan"), record)
}

/// When the frames of the root were captured, and when they were replied to, in that order.
fn replies(record: &Record) -> Vec<(Instant, Instant, Verdict)> {
    let of_root = record
        .actions
        .iter()
        .filter_map(|(at, action)| match action {
            Action::Reply(reply) if reply.task == ROOT => {
                Some((reply.captured, *at, reply.verdict))
            }
            _ => None,
        });
    of_root.collect()
}

/// What the follower was told, by capture time: when, and how many parts; and how many came then.
fn bursts(record: &Record) -> BTreeMap<Instant, (Instant, u8, u8)> {
    let mut bursts = BTreeMap::new();
    for (at, event) in &record.events {
        match event {
            Event::Burst {
                task: FOLLOWER,
                captured,
                requests,
            } => {
                let earlier = bursts.insert(*captured, (*at, *requests, 0));
                assert_eq!(earlier, None, "announced once");
            }
            Event::Arrived(part) if part.task == FOLLOWER => {
                let (announced, _, came) = bursts.get_mut(&part.captured).expect("announced first");
                assert_eq!(announced, at);
                *came += 1;
            }
            _ => {}
        }
    }
    bursts
}

#[test]
fn a_reply_brings_parts_with_the_capture_time_of_its_frame_after_they_were_announced() {
    let (outcome, record) = run(&pipeline(None));
    let (replies, bursts) = (replies(&record), bursts(&record));
    assert_eq!(replies.len(), bursts.len());
    let mut sizes = BTreeMap::new();
    for (captured, replied, _) in replies {
        let (announced, parts, came) = bursts[&captured];
        assert_eq!(announced.since(replied).as_nanos(), 100_000);
        assert_eq!(parts, came);
        *sizes.entry(parts).or_insert(0) += 1;
    }
    // Each number about as often.
    assert_eq!(sizes.keys().copied().collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(
        sizes.values().all(|count| (55..100).contains(count)),
        "{sizes:?}"
    );
    let parts = outcome.tasks[1].submitted;
    let [queries] = outcome.queries[..] else {
        panic!("one pipeline: {:?}", outcome.queries);
    };
    assert_eq!((queries.root, queries.submitted), (ROOT, 304));
    assert_eq!(queries.on_time, 304);
    // Those of the best-effort follower do not count.
    assert_eq!((queries.parts, queries.parts_on_time), (parts, parts));
}

#[test]
fn a_frame_without_an_answer_has_no_parts_and_its_query_is_not_on_time() {
    let mut scenario = pipeline(Some(3.0));
    // Every second frame is one too many.
    let Pattern::Periodic { rate_hz, .. } = &mut scenario.tasks[0].pattern else {
        panic!("a camera");
    };
    *rate_hz *= 12.0;
    let (outcome, record) = run(&scenario);
    let bursts = bursts(&record);
    let (mut answered, mut refused) = (0, 0);
    for (captured, _, verdict) in replies(&record) {
        let (_, parts, came) = bursts[&captured];
        assert_eq!(parts, came);
        if verdict == Verdict::OnTime {
            answered += 1;
            assert_eq!(parts, 3);
        } else {
            refused += 1;
            assert_eq!(parts, 0);
        }
    }
    assert!(answered > 100 && refused > 100, "{answered}, {refused}");
    let queries = outcome.queries[0];
    assert_eq!(queries.submitted, answered + refused);
    assert!(
        queries.on_time > 0 && queries.on_time < answered,
        "{queries:?}"
    );
    assert_eq!(queries.parts, 3 * answered);
    assert!(queries.parts_on_time < queries.parts);
}

#[test]
fn frames_are_handed_over_in_the_order_in_which_they_arrived() {
    let mut scenario = pipeline(Some(1.0));
    // A frame that goes deeper is overtaken by the next, which does not.
    scenario.tasks.truncate(2);
    scenario.planned[0].1.truncate(2);
    scenario.tasks[0].config.deadline = Some(ms(25));
    scenario.tasks[0].config.mandatory_exit = StageId(0);
    scenario.tasks[1].config.jitter = ms(27);
    scenario.tasks[1].config.deadline = Some(ms(60));
    let Pattern::Periodic { rate_hz, .. } = &mut scenario.tasks[0].pattern else {
        panic!("a camera");
    };
    *rate_hz *= 8.0;
    let (_, record) = run(&scenario);
    let by_reply = replies(&record);
    let overtaken = |pair: &&[(Instant, Instant, Verdict)]| pair[0].0 > pair[1].0;
    assert!(by_reply.windows(2).filter(overtaken).count() > 10);
    let told = record.events.iter().filter_map(|(_, event)| match event {
        Event::Burst { captured, .. } => Some(*captured),
        _ => None,
    });
    let told: Vec<Instant> = told.collect();
    assert!(told.is_sorted(), "{told:?}");
    assert_eq!(told.len(), by_reply.len());
}

#[test]
fn the_fan_out_is_a_frames_own_whenever_it_is_answered() {
    let sizes = |scenario: &Scenario| {
        let (_, record) = run(scenario);
        let bursts = bursts(&record).into_iter();
        let sizes = bursts.map(|(captured, (_, parts, _))| (captured, parts));
        sizes.collect::<BTreeMap<_, _>>()
    };
    let mut slower = pipeline(Some(1.5));
    slower.durations.preparation_least = 0.5;
    slower.tasks[0].config.mandatory_exit = StageId(1);
    let sizes = [sizes(&pipeline(Some(1.5))), sizes(&slower)];
    assert_eq!(sizes[0], sizes[1]);
    let parts: u32 = sizes[0].values().map(|parts| u32::from(*parts)).sum();
    let mean = f64::from(parts) / sizes[0].len() as f64;
    assert!((mean - 1.5).abs() < 0.1, "{mean}");
    assert!(sizes[0].contains_key(&at(0)));
}

#[test]
fn a_pipeline_of_a_pipeline_is_refused() {
    let mut scenario = pipeline(None);
    if let Pattern::Parts(parts) = &mut scenario.tasks[2].pattern {
        *parts = Parts {
            of: FOLLOWER,
            ..*parts
        };
    }
    let policy = PunctualConfig::default();
    let refused = simulate(&scenario, &policy, 1.0, SETTINGS, &mut ());
    let reason = PatternError::PartsOfParts { task: 2, of: 1 };
    assert_eq!(refused, Err(RunError::Arrivals { load: 1.0, reason }));
}
