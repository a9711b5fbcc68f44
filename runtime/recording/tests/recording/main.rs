//! Runs in virtual time, recorded, read and replayed.

mod fuzzed;

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use punctual_core::{
    Action, Actions, Config, ConfigError, Contract, Counters, Event, Instant, Nanos, Policy,
    PolicySpec, PunctualConfig, Scheduler, TaskId,
};
use punctual_policy_testing::plans::random_plan;
use punctual_policy_testing::weather::Weather;
use punctual_policy_testing::world::World;
use punctual_recording::frames::{Follower, Item, Outcome};
use punctual_recording::messages::Topic;
use punctual_recording::replay::{ReplayError, Replayed, replay};
use punctual_recording::ring::{self, Told};
use punctual_recording::{
    CHANNEL, Collector, End, Entry, Names, ReadError, Recording, Sent, Setting, Step, Writer,
};
use punctual_types::Random;

/// The default policy, and all that it is told and decides.
#[derive(Clone, Debug, Default)]
struct Recorded(Arc<Mutex<Vec<Entry>>>);

/// Steps of a segment.
const SEGMENT: usize = 50;

#[derive(Debug)]
struct Recorder {
    policy: Box<dyn Policy>,
    entries: Arc<Mutex<Vec<Entry>>>,
    steps: usize,
}

impl PolicySpec for Recorded {
    fn name(&self) -> &'static str {
        "recorded"
    }

    fn summary(&self) -> &'static str {
        "as the default policy"
    }

    fn contract(&self) -> Contract {
        PunctualConfig::default().contract()
    }

    fn check(&self, config: &Config) -> Result<(), ConfigError> {
        PunctualConfig::default().check(config)
    }

    fn build(&self, config: &Config) -> Box<dyn Policy> {
        Box::new(Recorder {
            policy: PunctualConfig::default().build(config),
            entries: Arc::clone(&self.0),
            steps: 0,
        })
    }
}

impl Policy for Recorder {
    fn step(&mut self, now: Instant, event: &Event, actions: &mut Actions) {
        let mut entries = self.entries.lock().expect("no panic");
        if self.steps.is_multiple_of(SEGMENT) {
            let number = (self.steps / SEGMENT) as u64;
            let state = (number > 0).then(|| self.policy.state().expect("it keeps one"));
            entries.push(Entry::Segment { number, state });
        }
        self.policy.step(now, event, actions);
        self.steps += 1;
        entries.push(Entry::Step(Step {
            now,
            took: Nanos::ZERO,
            event: event.clone(),
            actions: actions.iter().cloned().collect(),
        }));
    }

    fn next_timer(&self) -> Option<Instant> {
        self.policy.next_timer()
    }

    fn drained(&self) -> bool {
        self.policy.drained()
    }

    fn counters(&self, task: TaskId) -> &Counters {
        self.policy.counters(task)
    }

    fn open(&self) -> usize {
        self.policy.open()
    }

    fn stale_events(&self) -> u64 {
        self.policy.stale_events()
    }
}

/// A run of a random plan, and what was recorded of it.
fn run(seed: u64) -> Option<(Config, Vec<Entry>)> {
    let mut random = Random::new(seed);
    let policy = Recorded::default();
    let config = random_plan(&policy, &mut random);
    Scheduler::new(&config, &policy).ok()?;
    let nature = Weather::foul(&config, random.clone());
    let mut world = World::under(config.clone(), &policy, nature);
    for (index, task) in (0..).zip(&config.tasks) {
        for frame in 0..40 {
            let at = Instant::ZERO + task.period.saturating_mul(frame);
            world.frame(index, at);
        }
    }
    // What the auditor finds of a world that keeps no bounds is not asked here.
    let _ = world.run_until(Instant::from_nanos(u64::MAX / 4));
    let entries = std::mem::take(&mut *policy.0.lock().expect("no panic"));
    (entries.len() > 4 * SEGMENT).then_some((config, entries))
}

fn first_run() -> (Config, Vec<Entry>) {
    (0..).find_map(run).expect("many")
}

/// Of no plan: the tests hand theirs over, which would be most of a file that is cut off at each byte.
fn setting() -> Setting {
    Setting {
        config: Config {
            tasks: Vec::new(),
            models: Vec::new(),
            partitions: Vec::new(),
            request_buffers: 0,
            pages: 0,
            dispatch_cost: Nanos::ZERO,
            egress_bound: Nanos::ZERO,
        },
        policy: serde_json::json!({"punctual": {}}),
        names: Names {
            tasks: vec!["front".to_owned()],
            ..Names::default()
        },
    }
}

fn file(entries: &[Entry]) -> Vec<u8> {
    let writer = Writer::bare(Cursor::new(Vec::new()), 0, &setting());
    written(writer.expect("memory"), entries)
}

fn written(mut writer: Writer<Cursor<Vec<u8>>>, entries: &[Entry]) -> Vec<u8> {
    writer
        .attach("plan.json", "application/json", b"{}")
        .expect("memory");
    let entries = entries.iter().cloned();
    writer.append(Instant::ZERO, entries).expect("memory");
    writer.finish().expect("memory").into_inner()
}

fn replayed(file: &[u8], config: &Config) -> Result<Replayed, ReplayError> {
    let recording = Recording::of(file)?;
    replay(recording.entries(), config, &PunctualConfig::default())
}

#[test]
fn recorded_runs_of_random_plans_decide_the_same_again() {
    let mut all = Replayed::default();
    for (config, entries) in (0..60).filter_map(run) {
        let file = file(&entries);
        let recording = Recording::of(&file).expect("a recording");
        let read: Vec<Entry> = recording.entries().map(Result::unwrap).collect();
        assert_eq!(read, entries);
        let attached = recording.attachment("plan.json");
        assert_eq!(attached.as_deref(), Some(&b"{}"[..]));
        assert_eq!(recording.setting().expect("it has one"), setting());
        let done = replayed(&file, &config).expect("it decides the same");
        assert_eq!((done.skipped, done.lost), (0, 0));
        all.steps += done.steps;
        all.segments += done.segments;
    }
    assert!(all.steps > 5_000 && all.segments > 100, "{all:?}");
}

#[test]
fn a_black_box_that_begins_in_the_middle_is_replayed_from_there() {
    let (config, entries) = first_run();
    let is_second = |entry: &Entry| matches!(entry, Entry::Segment { number: 2, .. });
    let from = entries.iter().position(is_second).expect("long enough");
    let done = replayed(&file(&entries[from..]), &config).expect("it decides the same");
    assert_eq!(
        done.steps as usize,
        entries.len() - from - done.segments as usize
    );
}

#[test]
fn after_lost_steps_the_state_is_unknown_until_the_next_segment() {
    let (config, mut entries) = first_run();
    // Of the first segment.
    entries.splice(20..30, [Entry::Lost { steps: 10 }]);
    let done = replayed(&file(&entries), &config).expect("the others decide the same");
    assert_eq!((done.lost, done.skipped), (10, SEGMENT as u64 - 29));
    assert!(done.steps > SEGMENT as u64);
}

/// Steps that a scheduler takes again into the recorder's ring, of which the recorder takes nothing out for a while.
fn collected(pause: std::ops::Range<usize>) -> (Config, Vec<u8>, Collector) {
    let (config, entries) = first_run();
    let policy = PunctualConfig::default();
    let mut scheduler = Scheduler::new(&config, &policy).expect("it was one");
    let mut actions = Actions::for_config(&config);
    let (mut sink, mut source) = ring::steps(64);
    let mut collector = Collector::new(&config, Arc::new(policy)).expect("it was one");
    let mut segments = Vec::new();
    let steps = entries.iter().filter_map(|entry| match entry {
        Entry::Step(step) => Some(step),
        _ => None,
    });
    for (position, step) in steps.enumerate() {
        actions.clear();
        scheduler.step(step.now, &step.event, &mut actions);
        sink.write(step.now, step.took, &step.event, &actions, &scheduler);
        while !pause.contains(&position)
            && let Some(told) = source.take()
        {
            segments.extend(collector.step(told));
        }
    }
    segments.push(collector.next(Instant::from_nanos(u64::MAX)));
    let mut writer = Writer::new(Cursor::new(Vec::new()), 0, &setting()).expect("memory");
    for segment in &segments {
        writer.whole(segment).expect("memory");
    }
    (
        config,
        writer.finish().expect("memory").into_inner(),
        collector,
    )
}

#[test]
fn what_is_collected_from_the_ring_decides_the_same() {
    let (config, file, collector) = collected(0..0);
    let done = replayed(&file, &config).expect("it decides the same");
    let steps = first_run().1.len() - done.segments as usize;
    assert!(done.steps > 4 * SEGMENT as u64 - 10, "{done:?} of {steps}");
    assert_eq!((done.skipped, done.lost, collector.differing()), (0, 0, 0));
}

#[test]
fn a_recorder_that_got_no_processor_for_a_while_knows_the_state_again() {
    let (config, file, collector) = collected(20..120);
    let done = replayed(&file, &config).expect("the others decide the same");
    assert!(done.lost > 0, "{done:?}");
    // A step that finds room again has the state with it.
    assert!(done.skipped < 5 && collector.differing() == 0, "{done:?}");
    assert!(done.steps > 100, "{done:?}");
}

#[test]
fn a_scheduler_that_decides_otherwise_than_its_twin_is_noticed() {
    let (config, entries) = first_run();
    let policy = Arc::new(PunctualConfig::default());
    let mut collector = Collector::new(&config, policy).expect("it was one");
    for entry in entries {
        if let Entry::Step(mut step) = entry {
            step.actions.clear();
            collector.step(Told {
                lost_before: 0,
                step,
                state: None,
            });
        }
    }
    // Once: what it would decide from another state is not known.
    assert_eq!(collector.differing(), 1);
}

#[test]
fn a_step_that_decides_otherwise_is_named() {
    let (config, mut entries) = first_run();
    let decides = |entry: &Entry| matches!(entry, Entry::Step(step) if !step.actions.is_empty());
    let at = entries.iter().position(decides).expect("it does something");
    if let Entry::Step(step) = &mut entries[at] {
        step.actions.clear();
    }
    let found = replayed(&file(&entries), &config);
    let Err(ReplayError::Differs {
        segment: 0,
        step,
        recorded,
        ..
    }) = found
    else {
        panic!("{found:?}");
    };
    assert_eq!((step as usize, recorded.len()), (at - 1, 0));
}

#[test]
fn what_was_whole_is_read_of_a_file_that_was_cut_off_anywhere() {
    let (config, entries) = first_run();
    let whole = file(&entries[..2 * SEGMENT]);
    let mut before = 0;
    for length in 0..whole.len() {
        let Ok(recording) = Recording::of(&whole[..length]) else {
            assert_eq!(before, 0, "what could be read can still be read");
            continue;
        };
        let mut read = recording.entries();
        let found: Vec<Entry> = read.by_ref().map(Result::unwrap).collect();
        assert!(
            found.len() >= before && entries.starts_with(&found),
            "{length}"
        );
        before = found.len();
        // The end of the data says that it is whole; behind it are only indices.
        let all = found.len() == 2 * SEGMENT;
        assert!(
            all || matches!(read.end(), Some(End::Cut { .. })),
            "{length}"
        );
        // What is read decides the same, as the beginning of a recording does.
        if length % 61 == 0 {
            assert!(replayed(&whole[..length], &config).is_ok(), "{length}");
        }
    }
    assert_eq!(before, 2 * SEGMENT);
}

#[test]
fn damaged_files_are_errors_or_other_recordings() {
    let (config, entries) = first_run();
    let whole = file(&entries[..2 * SEGMENT]);
    let mut random = Random::new(3);
    for _ in 0..2_000 {
        let mut damaged = whole.clone();
        for _ in 0..random.within(1, 3) {
            let at = random.below(damaged.len() as u64) as usize;
            damaged[at] = random.next_u64() as u8;
        }
        let _ = replayed(&damaged, &config);
    }
}

#[test]
fn other_files_are_refused_with_what_they_are() {
    let refused = |bytes: &[u8]| Recording::of(bytes).err().expect("no recording");
    assert!(matches!(
        refused(b""),
        ReadError::NoChannel | ReadError::NotMcap(_)
    ));
    assert!(matches!(
        refused(b"a text"),
        ReadError::NoChannel | ReadError::NotMcap(_)
    ));
    let with = |schema: &str, topic: &str| {
        let mut other = mcap::Writer::new(Cursor::new(Vec::new())).expect("memory");
        let id = other.add_schema(schema, "postcard", &[]).expect("memory");
        let map = Default::default();
        other
            .add_channel(id, topic, "postcard", &map)
            .expect("memory");
        other.finish().expect("memory");
        other.into_inner().into_inner()
    };
    assert!(matches!(
        refused(&with("image", "/camera")),
        ReadError::NoChannel
    ));
    let found = refused(&with("punctual.core.0", CHANNEL));
    assert!(found.to_string().contains("`punctual.core.0`"), "{found}");
}

fn followed<'e>(config: &Config, entries: impl IntoIterator<Item = &'e Entry>) -> Vec<Item> {
    let mut items = Vec::new();
    let mut follower = Follower::new(config);
    for entry in entries {
        follower.entry(entry, &mut |item| items.push(item));
    }
    follower.finish(&mut |item| items.push(item));
    items
}

fn actions(entries: &[Entry]) -> impl Iterator<Item = (Instant, &Action)> {
    entries.iter().flat_map(|entry| {
        let step = match entry {
            Entry::Step(step) => Some(step),
            _ => None,
        };
        step.into_iter()
            .flat_map(|step| step.actions.iter().map(|action| (step.now, action)))
    })
}

#[test]
fn each_frame_and_each_run_is_followed_to_its_end() {
    for (config, entries) in (0..60).filter_map(run) {
        let items = followed(&config, &entries);
        let is_reply = |(_, action): &(Instant, &Action)| matches!(action, Action::Reply(_));
        let is_infer = |(_, action): &(Instant, &Action)| matches!(action, Action::Infer(_));
        let frames = items.iter().filter_map(|item| match item {
            Item::Frame(frame) => Some(frame),
            _ => None,
        });
        let runs = items.iter().filter_map(|item| match item {
            Item::Run(run) => Some(run),
            _ => None,
        });
        assert_eq!(
            runs.clone().count(),
            actions(&entries).filter(is_infer).count()
        );
        assert_eq!(
            frames.clone().count(),
            actions(&entries).filter(is_reply).count()
        );
        assert!(frames.clone().is_sorted_by_key(|frame| frame.decided));
        for frame in frames {
            assert!(frame.submission.is_whole, "{frame:?}");
            assert_eq!(frame.submission.captured, frame.reply.captured);
            let answers = frame
                .submission
                .runs
                .iter()
                .filter_map(|share| share.answer);
            if let Some((_, answer)) = frame.reply.answer {
                assert!(answers.clone().any(|found| found == answer), "{frame:?}");
            }
        }
        for run in runs {
            assert!(run.time.is_some(), "the plan has it: {run:?}");
            assert!(run.members.iter().all(|member| member.frame.is_some()));
            let outcome = run.end.map(|end| end.outcome);
            if let Some(Outcome::Finished { started, .. }) = outcome {
                assert!(started >= run.ordered);
            }
        }
    }
}

#[test]
fn a_frame_whose_beginning_is_missing_says_so() {
    let (config, entries) = first_run();
    for from in [1, 30, 70, 150] {
        let lost = [Entry::Lost { steps: 3 }];
        let (begin, end) = entries[from..].split_at(40);
        let of = begin.iter().chain(&lost).chain(&end[3..]);
        let arrived = |entry: &&Entry| matches!(entry, Entry::Step(step) if matches!(step.event, Event::Arrived(_)));
        let seen = of.clone().filter(arrived).count();
        let (mut whole, mut partial, mut open) = (0, 0, 0);
        for item in followed(&config, of) {
            match item {
                Item::Frame(frame) if frame.submission.is_whole => whole += 1,
                Item::Frame(frame) => {
                    partial += usize::from(frame.submission.arrived.is_some());
                }
                Item::Open(submission) => {
                    assert!(!submission.is_whole);
                    open += 1;
                }
                _ => {}
            }
        }
        assert_eq!(whole + partial + open, seen);
        assert!(whole > 10);
    }
}

#[test]
fn what_a_port_sent_is_found_before_and_behind_its_step() {
    let (config, entries) = first_run();
    for distance in [-2_isize, 3] {
        let mut with = entries.clone();
        let replies = entries
            .iter()
            .enumerate()
            .rev()
            .filter_map(|(at, entry)| match entry {
                Entry::Step(step) => Some((at, step)),
                _ => None,
            });
        for (at, step) in replies {
            for action in &step.actions {
                let Action::Reply(reply) = action else {
                    continue;
                };
                let place = at.saturating_add_signed(distance).min(with.len());
                let [decided, began, ended] = [1, 2, 3].map(|us| step.now + Nanos::from_micros(us));
                let sent = Sent {
                    ticket: reply.ticket,
                    is_final: true,
                    decided,
                    began,
                    ended,
                };
                with.insert(place, Entry::Sent(sent));
            }
        }
        for item in followed(&config, &with) {
            if let Item::Frame(frame) = item {
                let sent = frame.sent.expect("it was sent");
                assert_eq!(sent.decided, frame.decided + Nanos::from_micros(1));
            }
        }
    }
}

/// A recording with the channels for plots, an hour behind the clocks of others.
fn plotted(config: &Config, entries: &[Entry]) -> Vec<u8> {
    let setting = Setting {
        config: config.clone(),
        ..setting()
    };
    let writer = Writer::new(Cursor::new(Vec::new()), 3_600_000_000_000, &setting);
    written(writer.expect("memory"), entries)
}

#[test]
fn plots_have_a_message_for_each_verdict_and_each_run_as_their_schema_says() {
    let (config, entries) = first_run();
    let file = plotted(&config, &entries);
    let read: Vec<Entry> = Recording::of(&file)
        .expect("it is one")
        .entries()
        .map(Result::unwrap)
        .collect();
    assert_eq!(read, entries, "the scheduler's channel is the same");

    let mut of: BTreeMap<String, Vec<serde_json::Value>> = BTreeMap::new();
    for message in mcap::MessageStream::new(&file).expect("it is one") {
        let message = message.expect("it is whole");
        assert!(message.log_time >= 3_600_000_000_000);
        if message.channel.message_encoding == "json" {
            let value = serde_json::from_slice(&message.data).expect("JSON");
            let topic = message.channel.topic.clone();
            of.entry(topic).or_default().push(value);
        }
    }
    for topic in Topic::ALL {
        let schema = topic.schema();
        let fields = schema["properties"].as_object().expect("it has fields");
        let required = schema["required"].as_array().expect("it has some");
        for message in &of[topic.name()] {
            for (name, value) in message.as_object().expect("an object") {
                let kind = fields[name]["type"].as_str().expect("one type");
                assert!(is_of(value, kind), "{name}: {value} is no {kind}");
            }
            let has = |name: &serde_json::Value| message.get(name.as_str().expect("a name"));
            assert!(required.iter().all(|name| has(name).is_some()), "{message}");
        }
    }
    let count =
        |is: fn(&Action) -> bool| actions(&entries).filter(|(_, action)| is(action)).count();
    assert_eq!(
        of["/punctual/frames"].len(),
        count(|action| matches!(action, Action::Reply(_)))
    );
    assert_eq!(
        of["/punctual/stages"].len(),
        count(|action| matches!(action, Action::Infer(_)))
    );
    let sum = |name: &str| -> u64 {
        let tasks = of["/punctual/tasks"].iter();
        tasks
            .map(|second| second[name].as_u64().expect("a number"))
            .sum()
    };
    let verdicts = ["on_time", "late", "rejected", "failed"].map(sum);
    assert_eq!(verdicts.iter().sum::<u64>(), sum("submitted"));
    assert_eq!(sum("submitted") as usize, of["/punctual/frames"].len());
}

fn is_of(value: &serde_json::Value, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        _ => false,
    }
}

/// Reads standard input by the package `mcap`, and prints each channel with its messages' fields.
const READER: &str = "
import io, json, sys
from mcap.reader import make_reader
reader = make_reader(io.BytesIO(sys.stdin.buffer.read()), validate_crcs=True)
for schema, channel, message in reader.iter_messages():
    if channel.message_encoding == 'json':
        assert schema.encoding == 'jsonschema', schema
        assert set(json.loads(message.data)) <= set(json.loads(schema.data)['properties'])
        print(channel.topic)
for attachment in reader.iter_attachments():
    print(attachment.name)
";

#[test]
fn the_reader_of_others_reads_a_recording() {
    let python = |code: &str| {
        // Where CI puts packages of Python.
        let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python");
        let mut python = Command::new("python3");
        python.args(["-c", code]).env("PYTHONPATH", packages);
        python.stdin(Stdio::piped());
        python.stdout(Stdio::piped()).stderr(Stdio::piped());
        python
    };
    let has = python("import mcap.reader").output();
    if !has.is_ok_and(|has| has.status.success()) {
        eprintln!(
            "skipped: `python3 -m pip install --target target/python mcap` brings the other reader"
        );
        return;
    }
    let (config, entries) = first_run();
    let file = plotted(&config, &entries);
    let mut child = python(READER).spawn().expect("it started before");
    let mut stdin = child.stdin.take().expect("it is piped");
    std::io::Write::write_all(&mut stdin, &file).expect("it reads all");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let found = String::from_utf8_lossy(&output.stdout);
    for topic in Topic::ALL {
        assert!(found.lines().any(|line| line == topic.name()), "{found}");
    }
    assert!(found.contains("setting.json"), "{found}");
}
