//! Records of a pipeline, each altered in one place, and what must be found in it.

use punctual_core::{
    Action, ClientId, Event, Instant, Nanos, PolicySpec as _, PunctualConfig, Rejection, TaskId,
    Verdict,
};

use crate::arrivals::Pattern;
use crate::audit::{Auditor, Invariant, Violation};
use crate::observer::Observer;
use crate::run::{Settings, simulate};
use crate::scenario::Scenario;
use crate::summary::Queries;
use crate::testbed::pipeline;
use crate::timing::Overruns;

/// The follower whose parts count.
const FOLLOWER: TaskId = TaskId(1);

#[derive(Clone, Debug)]
enum Entry {
    Event(Event),
    Action(Action),
}

/// What an auditor sees of a run, in order.
#[derive(Debug, Default)]
struct Tape(Vec<(Instant, Entry)>);

impl Observer for Tape {
    fn event(&mut self, now: Instant, event: &Event) {
        self.0.push((now, Entry::Event(event.clone())));
    }

    fn action(&mut self, now: Instant, action: &Action) {
        self.0.push((now, Entry::Action(action.clone())));
    }
}

impl Tape {
    fn events(&mut self) -> impl DoubleEndedIterator<Item = (usize, &mut Event)> {
        let entries = self.0.iter_mut().enumerate();
        entries.filter_map(|(position, (_, entry))| match entry {
            Entry::Event(event) => Some((position, event)),
            Entry::Action(_) => None,
        })
    }

    /// Where the follower is told of `parts`.
    fn announcements(&mut self, parts: u8) -> Vec<usize> {
        let told = self.events().filter_map(|(position, event)| match event {
            Event::Burst { task, requests, .. } if *task == FOLLOWER && *requests == parts => {
                Some(position)
            }
            _ => None,
        });
        told.collect()
    }

    /// The first part of the follower.
    fn part(&mut self) -> (usize, &mut punctual_core::Arrival) {
        let mut parts = self.events().filter_map(|(position, event)| match event {
            Event::Arrived(part) if part.task == FOLLOWER => Some((position, part)),
            _ => None,
        });
        parts.next().expect("there are some")
    }

    fn audited(&self, scenario: &Scenario) -> Auditor {
        let policy = PunctualConfig::default();
        let auditor = Auditor::new(&scenario.config(&policy), policy.contract());
        let mut auditor = auditor.with_pipelines(scenario.pipelines());
        for (now, entry) in &self.0 {
            match entry {
                Entry::Event(event) => auditor.event(*now, event),
                Entry::Action(action) => auditor.action(*now, action),
            }
        }
        auditor.finish(self.0.last().expect("something happened").0);
        auditor
    }
}

/// A run of a scenario, and what became of its queries.
fn recorded(scenario: &Scenario) -> (Tape, Vec<Queries>) {
    let mut tape = Tape::default();
    let settings = Settings {
        seed: 3,
        keep_requests: false,
    };
    let policy = PunctualConfig::default();
    let outcome = simulate(scenario, &policy, 1.0, settings, &mut tape);
    (tape, outcome.expect("a valid plan").queries)
}

/// What is found in the record of a pipeline that `alter` changes.
fn found(alter: impl FnOnce(&mut Tape)) -> Vec<Violation> {
    let scenario = pipeline(None);
    let (mut tape, _) = recorded(&scenario);
    alter(&mut tape);
    let auditor = tape.audited(&scenario);
    let list = auditor.findings().list().iter();
    list.map(|finding| finding.violation).collect()
}

fn assert_found(found: &[Violation], which: fn(&Violation) -> bool, invariant: Invariant) {
    let named = found.iter().find(|violation| which(violation));
    let named = named.unwrap_or_else(|| panic!("{found:#?}"));
    assert_eq!(named.invariant(), invariant);
}

const fn wrong_announcement(violation: &Violation) -> bool {
    matches!(violation, Violation::WrongAnnouncement { .. })
}

const fn stray_part(violation: &Violation) -> bool {
    matches!(violation, Violation::StrayPart { .. })
}

const fn query_open(violation: &Violation) -> bool {
    matches!(violation, Violation::QueryOpen { .. })
}

const fn query_missed(violation: &Violation) -> bool {
    matches!(violation, Violation::QueryMissed { .. })
}

#[test]
fn nothing_is_found_in_a_pipeline_whose_queries_are_counted_alike() {
    let scenario = pipeline(None);
    let (tape, queries) = recorded(&scenario);
    let auditor = tape.audited(&scenario);
    assert_eq!(auditor.findings().list(), []);
    assert_eq!(auditor.queries(), queries);
    assert_eq!(queries[0].submitted, queries[0].on_time);
}

#[test]
fn a_frame_of_which_a_follower_is_never_told_is_found() {
    let without = |announcement: fn(Vec<usize>) -> Option<usize>| {
        found(move |tape| {
            let announcements = tape.announcements(0);
            tape.0
                .remove(announcement(announcements).expect("some have no parts"));
        })
    };
    // The next one is not of the next frame.
    let first = without(|all| all.first().copied());
    assert_found(&first, wrong_announcement, Invariant::WellFormed);
    let last = without(|all| all.last().copied());
    assert_found(&last, query_open, Invariant::Verdicts);
}

#[test]
fn a_frame_that_is_announced_twice_is_found() {
    let found = found(|tape| {
        let first = tape.announcements(2)[0];
        tape.0.insert(first, tape.0[first].clone());
    });
    assert_found(&found, wrong_announcement, Invariant::WellFormed);
}

#[test]
fn parts_of_a_frame_that_is_not_answered_yet_are_found() {
    let found = found(|tape| {
        let first = tape.announcements(2)[0];
        let entry = tape.0.remove(first);
        // Before everything but its own arrival.
        let Entry::Event(Event::Burst { captured, .. }) = entry.1 else {
            panic!("an announcement");
        };
        let arrived = tape.events().find_map(|(position, event)| match event {
            Event::Arrived(frame) if frame.captured == captured => Some(position),
            _ => None,
        });
        let arrived = arrived.expect("it arrived");
        let prepared = arrived + 2;
        tape.0.insert(prepared, (tape.0[arrived].0, entry.1));
    });
    assert_found(&found, wrong_announcement, Invariant::WellFormed);
}

#[test]
fn a_part_that_was_captured_at_another_time_than_its_frame_is_found() {
    let found = found(|tape| {
        let part = tape.part().1;
        part.captured = part.captured + Nanos::from_millis(1);
    });
    assert_found(&found, stray_part, Invariant::WellFormed);
}

#[test]
fn a_part_of_another_client_is_found() {
    let found = found(|tape| tape.part().1.ticket.client = ClientId(7));
    assert_found(&found, stray_part, Invariant::WellFormed);
}

#[test]
fn one_part_more_or_fewer_than_announced_is_found() {
    let announced = |change: fn(&mut u8)| {
        found(move |tape| {
            let first = tape.announcements(2)[0];
            if let Entry::Event(Event::Burst { requests, .. }) = &mut tape.0[first].1 {
                change(requests);
            }
        })
    };
    assert_found(
        &announced(|parts| *parts -= 1),
        stray_part,
        Invariant::WellFormed,
    );
    assert_found(
        &announced(|parts| *parts += 1),
        query_open,
        Invariant::Verdicts,
    );
}

/// Lets the `nth` part of the follower be refused.
fn refuse(tape: &mut Tape, nth: usize) {
    let replies = tape.0.iter_mut().filter_map(|(_, entry)| match entry {
        Entry::Action(Action::Reply(reply)) if reply.task == FOLLOWER => Some(reply),
        _ => None,
    });
    let reply = replies.into_iter().nth(nth).expect("there are so many");
    reply.verdict = Verdict::Rejected(Rejection::NoSlack);
    reply.answer = None;
}

#[test]
fn a_conforming_query_of_which_a_part_is_refused_is_found() {
    let found = found(|tape| refuse(tape, 5));
    assert_found(&found, query_missed, Invariant::Promises);
}

#[test]
fn nothing_is_claimed_of_queries_beyond_the_rate_of_the_root_or_after_an_overrun() {
    let missed = |scenario: &Scenario| {
        let (mut tape, _) = recorded(scenario);
        refuse(&mut tape, 60);
        let auditor = tape.audited(scenario);
        let list = auditor.findings().list().iter();
        list.filter(|found| query_missed(&found.violation)).count()
    };
    let mut faster = pipeline(Some(3.0));
    if let Pattern::Periodic { rate_hz, .. } = &mut faster.tasks[0].pattern {
        *rate_hz *= 2.0;
    }
    // The 20th query, of parts three by three, is the second of a period.
    assert_eq!(missed(&faster), 0);
    let mut overrun = pipeline(None);
    assert_eq!(missed(&overrun), 1);
    overrun.durations.overruns = Some(Overruns {
        probability: 0.2,
        factor: 2.0,
    });
    assert_eq!(missed(&overrun), 0);
}

#[test]
fn of_the_frames_at_twice_the_rate_those_that_conform_are_claimed() {
    let mut faster = pipeline(Some(3.0));
    if let Pattern::Periodic { rate_hz, .. } = &mut faster.tasks[0].pattern {
        *rate_hz *= 2.0;
    }
    let (mut tape, _) = recorded(&faster);
    refuse(&mut tape, 63);
    let auditor = tape.audited(&faster);
    let list = auditor.findings().list().iter();
    assert!(list.into_iter().any(|found| query_missed(&found.violation)));
}
