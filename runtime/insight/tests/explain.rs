//! Explanations of simulated runs in which something goes wrong.

use std::io::Cursor;

use punctual_core::{
    Action, ClientId, Event, Instant, ModelId, Nanos, PolicySpec as _, PunctualConfig,
};
use punctual_insight::explain::{Ask, Explained, Story, explain};
use punctual_recording::{Entry, Names, Recording, Sent, Setting, Writer};
use punctual_simulator::faults::Fault;
use punctual_simulator::recording;
use punctual_simulator::run::{Settings, simulate};
use punctual_simulator::scenario::Scenario;
use punctual_simulator::testbed;
use punctual_types::Random;

const fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

/// The network `signs` for `front` and the best-effort task `spare`, and `streets` for `rear`, on one partition. Stages take 2 and
/// 3 ms; deadlines are 20 ms after the capture.
fn scenario() -> Scenario {
    let mut scenario = testbed::scenario();
    scenario.length = ms(2_000);
    scenario.models.push(scenario.models[0].clone());
    scenario.tasks[1].config.model = ModelId(1);
    scenario
}

/// Stages of `streets` take thirty times as long as their profile says.
fn slowed() -> Scenario {
    Scenario {
        faults: vec![Fault::ProfileLies {
            model: ModelId(1),
            factor: 30.0,
        }],
        ..scenario()
    }
}

/// What was recorded of a run at a load.
fn recorded(scenario: &Scenario, load: f64) -> (Setting, Vec<Entry>) {
    let policy = PunctualConfig::default();
    let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let setting = Setting {
        config: scenario.config(&policy),
        policy: serde_json::json!({policy.name(): {}}),
        names: Names {
            tasks: named(&["front", "rear", "spare"]),
            models: named(&["signs", "streets"]),
            partitions: named(&["cpu0"]),
        },
    };
    let settings = Settings {
        seed: 0,
        keep_requests: false,
    };
    let writer = Writer::bare(Cursor::new(Vec::new()), 0, &setting).expect("memory");
    let mut recorder = recording::Recording::begin(writer, Nanos::MAX).expect("memory");
    simulate(scenario, &policy, load, settings, &mut recorder).expect("it can run");
    let file = recorder.finish().expect("memory").into_inner();
    let entries = Recording::of(&file).expect("a recording").entries();
    (
        setting,
        entries.map(|entry| entry.expect("whole")).collect(),
    )
}

fn explained(setting: &Setting, entries: &[Entry], ask: &Ask) -> Explained {
    let entries = entries.iter().cloned().map(Ok);
    explain(entries, setting, ask).expect("all of it can be read")
}

#[test]
fn a_late_frame_names_the_stage_that_was_slow() {
    let (setting, entries) = recorded(&slowed(), 1.0);
    let found = explained(&setting, &entries, &Ask::Late);
    let of_rear = |story: &&Story| story.frame.starts_with("rear/");
    let story = found.stories.iter().find(of_rear).expect("it is late");
    let broken = story.broken().expect("a stage was slow");
    assert_eq!(broken.name, "stage 0 of streets");
    assert_eq!(broken.bound_ns, Some(ms(2)));
    assert_eq!(broken.over_ns, Some(ms(58)));

    let ask = Ask::Frame(story.frame.parse().expect("it is one"));
    let text = explained(&setting, &entries, &ask).text(&ask, 80);
    assert!(
        text.contains("stage 0 of streets: 60.000 ms, 58.000 ms more"),
        "{text}"
    );
    let wide = text.lines().find(|line| line.chars().count() > 80);
    assert_eq!(wide, None, "{text}");
}

#[test]
fn a_frame_that_waited_too_long_names_what_ran_instead() {
    let (setting, entries) = recorded(&slowed(), 1.0);
    let found = explained(&setting, &entries, &Ask::Failed);
    let of_front = found
        .stories
        .iter()
        .filter(|story| story.frame.starts_with("front/"));
    let mut broken = of_front.filter_map(Story::broken);
    let waited = broken.find(|part| part.name == "wait for stage 0");
    let longest = &waited.expect("`front` waits for `streets`").occupants[0];
    let tasks = longest.tasks.join(", ");
    assert_eq!((&*longest.model, &*tasks), ("streets", "rear"));
}

#[test]
fn parts_of_a_whole_frame_follow_each_other_from_capture_to_answer() {
    let (setting, entries) = recorded(&scenario(), 1.0);
    let found = explained(&setting, &entries, &Ask::Slowest(20));
    assert_eq!(found.stories.len(), 20);
    let latencies = found.stories.iter().map(|story| story.latency_ns);
    assert!(latencies.is_sorted_by(|slower, faster| slower >= faster));
    for story in &found.stories {
        assert!(story.whole && story.broke.is_none(), "{story:?}");
        let mut at = Nanos::ZERO;
        for part in &story.parts {
            assert_eq!(part.from_ns, at, "{story:?}");
            at = part.from_ns + part.took_ns;
        }
        assert_eq!(Some(at), story.latency_ns);
    }
}

#[test]
fn a_frame_without_slack_names_who_holds_it_and_what_was_missing() {
    let (setting, entries) = recorded(&scenario(), 24.0);
    let found = explained(&setting, &entries, &Ask::Rejected);
    let no_slack = |story: &&Story| story.reason == Some("no-slack");
    let no_slack_is_missing = found.stories.iter().filter(no_slack).map(|story| {
        let rejected = story.rejection.as_ref().expect("its arithmetic");
        let left = rejected.tightest_ns.expect("it has a deadline");
        let terms = rejected.work_ns + rejected.free_in_ns + rejected.promised_ns;
        let lacks = (terms + rejected.reserved_ns).as_nanos() as i64 - left;
        assert_eq!(lacks > 0, rejected.missing_ns.is_some(), "{story:?}");
        if let Some(missing) = rejected.missing_ns {
            assert_eq!(
                missing.as_nanos() as i64,
                lacks,
                "the terms add up: {story:?}"
            );
            assert!(!rejected.open.is_empty(), "{story:?}");
        }
        lacks > 0
    });
    let all: Vec<bool> = no_slack_is_missing.collect();
    let told = all.iter().filter(|is_missing| **is_missing).count();
    assert!(
        told > 20 && told * 10 > all.len() * 9,
        "{told} of {}",
        all.len()
    );

    let story = found.stories.iter().find(no_slack).expect("many");
    let ask = Ask::Frame(story.frame.parse().expect("it is one"));
    let text = explained(&setting, &entries, &ask).text(&ask, 80);
    assert!(
        text.contains("reserved") && text.contains("holds it"),
        "{text}"
    );
}

#[test]
fn a_summary_counts_each_frame_once_and_says_how_to_go_on() {
    let (setting, entries) = recorded(&slowed(), 2.0);
    let found = explained(&setting, &entries, &Ask::Summary);
    let summary = &found.summary;
    let actions = entries.iter().filter_map(|entry| match entry {
        Entry::Step(step) => Some(&step.actions),
        _ => None,
    });
    let is_reply = |action: &&Action| matches!(action, Action::Reply(_));
    let replies = actions.flatten().filter(is_reply);
    let frames: u64 = summary.tasks.iter().map(|task| task.frames).sum();
    assert_eq!(frames as usize, replies.count());
    let late: u64 = summary.tasks.iter().map(|task| task.late).sum();
    assert!(late > 0);
    assert_eq!(summary.broke.values().sum::<u64>(), late);
    let text = found.text(&Ask::Summary, 80);
    assert!(
        text.contains("--late") && text.contains("stage 0 of streets"),
        "{text}"
    );
}

#[test]
fn what_a_port_sent_too_late_is_named() {
    let (setting, mut entries) = recorded(&scenario(), 1.0);
    let verdicts = entries
        .iter()
        .enumerate()
        .filter_map(|(at, entry)| match entry {
            Entry::Step(step) => Some((at, step)),
            _ => None,
        });
    let mut sent = verdicts.flat_map(|(at, step)| {
        let is_answer =
            |action: &Action| matches!(action, Action::Reply(reply) if reply.answer.is_some());
        let answers = step.actions.iter().filter(move |action| is_answer(action));
        answers.filter_map(move |action| match action {
            Action::Reply(reply) => {
                let [began, ended] = [Nanos::from_micros(2), ms(5)].map(|span| step.now + span);
                let (ticket, decided) = (reply.ticket, step.now);
                let sent = Sent {
                    ticket,
                    is_final: true,
                    decided,
                    began,
                    ended,
                };
                Some((at, sent))
            }
            _ => None,
        })
    });
    let (at, sent) = sent.next().expect("many verdicts");
    entries.insert(at + 3, Entry::Sent(sent));
    let found = explained(&setting, &entries, &Ask::Slowest(1_000));
    let broken: Vec<_> = found.stories.iter().filter_map(Story::broken).collect();
    assert_eq!(broken.len(), 1);
    assert_eq!((&*broken[0].name, broken[0].took_ns), ("sending", ms(5)));
}

#[test]
fn a_frame_that_is_not_there_is_said_to_be_so() {
    let (setting, entries) = recorded(&scenario(), 1.0);
    let ask = Ask::Frame("front/7/1".parse().expect("a name"));
    let found = explained(&setting, &entries, &ask);
    assert!(found.stories.is_empty() && found.open.is_empty());
    assert!(found.text(&ask, 80).contains("no frame front/7/1"));
}

#[test]
fn reordered_lossy_and_foreign_entries_are_explained_without_a_panic() {
    let (setting, entries) = recorded(&slowed(), 4.0);
    let mut random = Random::new(7);
    let mut empty = setting.clone();
    empty.config.tasks.clear();
    empty.config.models.clear();
    empty.config.partitions.clear();
    for round in 0..40 {
        let mut broken = entries.clone();
        for _ in 0..random.within(1, 200) {
            let at = random.below(broken.len() as u64) as usize;
            let other = random.below(broken.len() as u64) as usize;
            match random.below(4) {
                0 => broken.swap(at, other),
                1 => broken[at] = Entry::Lost { steps: u64::MAX },
                2 => broken[at] = broken[other].clone(),
                _ => any_time(&mut broken[at], &mut random),
            }
        }
        let setting = if round % 2 == 0 { &setting } else { &empty };
        for ask in [Ask::Summary, Ask::Late, Ask::Rejected, Ask::Slowest(9)] {
            let text = explained(setting, &broken, &ask).text(&ask, 80);
            assert!(!text.is_empty());
        }
    }
}

/// Any time, and a client that is not there.
fn any_time(entry: &mut Entry, random: &mut Random) {
    if let Entry::Step(step) = entry {
        step.now = Instant::from_nanos(random.next_u64() >> random.below(64));
        if let Event::Arrived(arrival) = &mut step.event {
            arrival.ticket.client = ClientId(u16::MAX);
            arrival.captured = Instant::from_nanos(random.next_u64());
        }
    }
}

#[test]
fn damaged_files_are_errors_or_other_explanations() {
    let (setting, entries) = recorded(&slowed(), 2.0);
    let mut writer = Writer::bare(Cursor::new(Vec::new()), 0, &setting).expect("memory");
    writer.segment(0, Instant::ZERO, None).expect("memory");
    for entry in &entries[..400] {
        if let Entry::Step(step) = entry {
            writer.step(step.clone()).expect("memory");
        }
    }
    let whole = writer.finish().expect("memory").into_inner();
    let mut random = Random::new(11);
    for _ in 0..300 {
        let mut damaged = whole.clone();
        for _ in 0..random.within(1, 4) {
            let at = random.below(damaged.len() as u64) as usize;
            damaged[at] = random.next_u64() as u8;
        }
        let Ok(recording) = Recording::of(&damaged) else {
            continue;
        };
        let Ok(setting) = recording.setting() else {
            continue;
        };
        if let Ok(found) = explain(recording.entries(), &setting, &Ask::Late) {
            let _ = found.text(&Ask::Late, 80);
        }
    }
}
