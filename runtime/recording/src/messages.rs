//! The same in JSON, for plots: frames, stages and tasks as messages that Foxglove and other readers of MCAP show without us.
//!
//! Each channel has a JSON Schema, made from the types here. A field that has no value is left out: a plot shows nothing there.

use std::borrow::Cow;

use punctual_core::{Answer, Criticality, Failure, Instant, Nanos, Rejection, StageId, Verdict};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::Value;

use crate::entry::Entry;
use crate::frames::{Follower, Frame, FrameId, Item, Outcome, Run};
use crate::seconds::{Second, Seconds};
use crate::setting::{Names, Setting};

/// A channel of messages in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// One message a verdict, at its time.
    Frames,
    /// One message a run of a stage, at the time when the scheduler learned of its end.
    Stages,
    /// One message a task and second, at its end.
    Tasks,
}

impl Topic {
    pub const ALL: [Self; 3] = [Self::Frames, Self::Stages, Self::Tasks];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Frames => "/punctual/frames",
            Self::Stages => "/punctual/stages",
            Self::Tasks => "/punctual/tasks",
        }
    }

    #[must_use]
    pub const fn schema_name(self) -> &'static str {
        match self {
            Self::Frames => "punctual.Frame",
            Self::Stages => "punctual.Stage",
            Self::Tasks => "punctual.Task",
        }
    }

    /// The JSON Schema of its messages.
    #[must_use]
    pub fn schema(self) -> Value {
        match self {
            Self::Frames => schema::<FrameMessage>(),
            Self::Stages => schema::<StageMessage>(),
            Self::Tasks => schema::<TaskMessage>(),
        }
    }
}

/// Readers that plot know neither references nor alternatives of types.
pub(crate) fn schema<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::default().for_serialize();
    settings.inline_subschemas = true;
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut schema = Schema::to_value(schema);
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(serde_json::Map::values_mut) {
        if let Some(kind) = property.pointer("/type/0").cloned() {
            property["type"] = kind;
        }
    }
    schema
}

/// A message of a topic.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub topic: Topic,
    pub at: Instant,
    /// In JSON.
    pub data: Vec<u8>,
}

/// A frame that has its verdict. Times ending in `_ns` are those of the scheduler's monotonic clock.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct FrameMessage<'n> {
    task: Cow<'n, str>,
    client: u16,
    slot: u16,
    /// The client's own number of the frame.
    sequence: u64,
    /// `on-time`, `late`, `rejected` or `failed`.
    verdict: &'static str,
    /// Why it was rejected, or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// The task whose network answered it, if it was offloaded to another.
    #[serde(skip_serializing_if = "Option::is_none")]
    offloaded_to: Option<Cow<'n, str>>,
    captured_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_ns: Option<u64>,
    /// When the scheduler learned of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    arrived_ns: Option<u64>,
    /// When the scheduler gave the verdict.
    decided_ns: u64,
    /// From capture until the client had the answer (in a simulation: until it was given).
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_us: Option<f64>,
    /// From then until the deadline; negative: it was late.
    #[serde(skip_serializing_if = "Option::is_none")]
    margin_us: Option<f64>,
    /// From the order to prepare its input until the scheduler learned that it is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    preparation_us: Option<f64>,
    /// From its ready input until its first stage started.
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_us: Option<f64>,
    /// The time of its stages on the device, together.
    stages_us: f64,
    /// From the decision until the record was in the client's ring.
    #[serde(skip_serializing_if = "Option::is_none")]
    sending_us: Option<f64>,
    /// The exit of its answer: 0 is the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<u16>,
    /// From 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence: Option<f32>,
    /// Whether all that happened to it was recorded.
    whole: bool,
}

/// A stage that ran for a batch, or was ordered and did not.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct StageMessage<'n> {
    model: Cow<'n, str>,
    /// 0 is the first.
    stage: u8,
    partition: Cow<'n, str>,
    /// The compiled batch size.
    batch: u8,
    /// The frames in it, as `TASK/CLIENT/SEQUENCE`.
    members: Vec<String>,
    /// `real-time` or `best-effort`.
    criticality: &'static str,
    action: u64,
    /// `finished`, `not-run` (it could not start inside its window), `preempted`, `failed`, or `unknown`.
    outcome: &'static str,
    ordered_ns: u64,
    /// When the device started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    started_ns: Option<u64>,
    /// From the order until the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_us: Option<f64>,
    /// How long it ran on the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    measured_us: Option<f64>,
    /// How long the plan lets it run.
    #[serde(skip_serializing_if = "Option::is_none")]
    budget_us: Option<f64>,
}

/// A second of a task.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct TaskMessage<'n> {
    task: Cow<'n, str>,
    /// When the second began.
    from_ns: u64,
    /// Frames that arrived.
    submitted: u64,
    /// Verdicts of frames, as the three below.
    on_time: u64,
    late: u64,
    rejected: u64,
    failed: u64,
    /// The mean exit of its answers: 0 is the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    depth_mean: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_p50_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_p99_us: Option<f64>,
    /// The least time that was left to an answer until its deadline; negative: it was late.
    #[serde(skip_serializing_if = "Option::is_none")]
    margin_min_us: Option<f64>,
}

/// Makes the messages of a recording from its entries.
#[derive(Debug)]
pub struct Messages {
    names: Names,
    follower: Follower,
    seconds: Seconds,
}

impl Messages {
    #[must_use]
    pub fn of(setting: &Setting) -> Self {
        Self {
            names: setting.names.clone(),
            follower: Follower::new(&setting.config),
            seconds: Seconds::of(setting.config.tasks.len()),
        }
    }

    /// The messages that the next entry completes.
    pub fn entry(&mut self, entry: &Entry) -> Vec<Message> {
        let (names, seconds) = (&self.names, &mut self.seconds);
        let mut messages = Vec::new();
        if let Entry::Step(step) = entry {
            seconds.step(step);
        }
        let sink = &mut |item| take(names, seconds, item, &mut messages);
        self.follower.entry(entry, sink);
        let over = self.seconds.over();
        messages.extend(over.iter().flat_map(|second| tasks(names, second)));
        messages
    }

    /// The messages of what is left when the recording ends.
    #[must_use]
    pub fn finish(self) -> Vec<Message> {
        let (names, mut seconds) = (&self.names, self.seconds);
        let mut messages = Vec::new();
        let sink = &mut |item| take(names, &mut seconds, item, &mut messages);
        self.follower.finish(sink);
        let rest = seconds.finish();
        messages.extend(rest.iter().flat_map(|second| tasks(names, second)));
        messages
    }
}

fn take(names: &Names, seconds: &mut Seconds, item: Item, messages: &mut Vec<Message>) {
    match item {
        Item::Frame(frame) => {
            seconds.frame(&frame);
            let message = FrameMessage::of(names, &frame);
            messages.push(Message::of(Topic::Frames, frame.decided, &message));
        }
        Item::Run(run) => {
            let at = run.end.map_or(run.ordered, |end| end.learned);
            messages.push(Message::of(
                Topic::Stages,
                at,
                &StageMessage::of(names, &run),
            ));
        }
        Item::Open(_) | Item::Transfer(_) | Item::Note(_) => {}
    }
}

/// A second's message of each task.
fn tasks(names: &Names, second: &Second) -> impl Iterator<Item = Message> {
    second.tallies().map(|(task, tally)| {
        let latencies = tally.latencies();
        let message = TaskMessage {
            task: names.task(task).into(),
            from_ns: second.from().as_nanos(),
            submitted: tally.submitted,
            on_time: tally.on_time,
            late: tally.late,
            rejected: tally.rejected,
            failed: tally.failed,
            depth_mean: tally.depth_mean(),
            latency_p50_us: latencies.quantile(50).map(us),
            latency_p99_us: latencies.quantile(99).map(us),
            margin_min_us: tally.margin_min_ns.map(|ns| ns as f64 / 1e3),
        };
        Message::of(Topic::Tasks, second.until(), &message)
    })
}

impl Message {
    fn of(topic: Topic, at: Instant, message: &impl Serialize) -> Self {
        let data = serde_json::to_vec(message).expect("plain data always serialises");
        Self { topic, at, data }
    }
}

impl<'n> FrameMessage<'n> {
    fn of(names: &Names, frame: &Frame) -> Self {
        let submission = &frame.submission;
        let FrameId { task, ticket } = submission.id;
        let preparation = submission.preparation;
        let ready = preparation.and_then(|preparation| preparation.end);
        let spans = submission.runs.iter().filter_map(|share| share.run.span());
        let first = spans.clone().map(|(started, _)| started).min();
        let stages = spans.map(|(started, ended)| ended.since(started));
        let (exit, answer) = frame.reply.answer.unzip();
        Self {
            task: names.task(task).into(),
            client: ticket.client.0,
            slot: ticket.slot,
            sequence: ticket.sequence,
            verdict: verdict(frame.reply.verdict),
            reason: reason(frame.reply.verdict),
            offloaded_to: preparation
                .filter(|preparation| preparation.task != task)
                .map(|preparation| names.task(preparation.task).into()),
            captured_ns: frame.reply.captured.as_nanos(),
            deadline_ns: frame.due().map(Instant::as_nanos),
            arrived_ns: submission.arrived.map(Instant::as_nanos),
            decided_ns: frame.decided.as_nanos(),
            latency_us: frame.latency().map(us),
            margin_us: frame.margin_ns().map(|ns| ns as f64 / 1e3),
            preparation_us: preparation
                .zip(ready)
                .map(|(preparation, end)| us(end.learned.since(preparation.ordered))),
            wait_us: first
                .zip(ready)
                .map(|(first, ready)| us(first.since(ready.learned))),
            stages_us: us(stages.fold(Nanos::ZERO, |sum, stage| sum + stage)),
            sending_us: frame.sent.map(|sent| us(sent.ended.since(frame.decided))),
            exit: exit.map(|exit: StageId| exit.0),
            class: answer.map(|answer: Answer| answer.class),
            confidence: answer.map(|answer| answer.confidence.as_probability()),
            whole: submission.is_whole,
        }
    }
}

impl StageMessage<'_> {
    fn of(names: &Names, run: &Run) -> Self {
        let started = run.span().map(|(started, _)| started);
        Self {
            model: names.model(run.model).into(),
            stage: run.stage.0,
            partition: names.partition(run.partition).into(),
            batch: run.batch,
            members: run
                .members
                .iter()
                .map(|member| {
                    let frame = member.frame;
                    frame.map_or_else(|| "unknown".to_owned(), |frame| names.frame(frame))
                })
                .collect(),
            criticality: match run.criticality {
                Criticality::RealTime => "real-time",
                Criticality::BestEffort => "best-effort",
            },
            action: run.action.0,
            outcome: match run.end.map(|end| end.outcome) {
                Some(Outcome::Finished { .. }) => "finished",
                Some(Outcome::NotRun) => "not-run",
                Some(Outcome::Preempted) => "preempted",
                Some(Outcome::Failed) => "failed",
                None => "unknown",
            },
            ordered_ns: run.ordered.as_nanos(),
            started_ns: started.map(Instant::as_nanos),
            wait_us: started.map(|started| us(started.since(run.ordered))),
            measured_us: run.measured().map(us),
            budget_us: run.time.map(|time| us(time.budget)),
        }
    }
}

/// A verdict in one word.
#[must_use]
pub const fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::OnTime => "on-time",
        Verdict::Late => "late",
        Verdict::Rejected(_) => "rejected",
        Verdict::Failed(_) => "failed",
    }
}

/// Why a verdict is not an answer.
#[must_use]
pub const fn reason(verdict: Verdict) -> Option<&'static str> {
    match verdict {
        Verdict::OnTime | Verdict::Late => None,
        Verdict::Rejected(rejection) => Some(match rejection {
            Rejection::LateOnArrival => "late-on-arrival",
            Rejection::NoSlack => "no-slack",
            Rejection::QueueFull => "queue-full",
            Rejection::Draining => "draining",
            Rejection::Superseded => "superseded",
            Rejection::Shedding => "shedding",
            Rejection::NotReady => "not-ready",
        }),
        Verdict::Failed(failure) => Some(self::failure(failure)),
    }
}

/// A failure in one word.
#[must_use]
pub const fn failure(failure: Failure) -> &'static str {
    match failure {
        Failure::Device => "device",
        Failure::Payload => "payload",
        Failure::ClientGone => "client-gone",
        Failure::Shed => "shed",
        Failure::NotFinite => "not-finite",
        Failure::Vector => "vector",
        Failure::Starved => "starved",
    }
}

fn us(span: Nanos) -> f64 {
    span.as_nanos() as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_flat_and_name_a_type_for_each_field() {
        for topic in Topic::ALL {
            let schema = topic.schema();
            assert_eq!(schema["type"], "object", "{schema:#}");
            let properties = schema["properties"].as_object().expect("it has fields");
            assert!(properties.len() > 10);
            for (name, property) in properties {
                let kind = property["type"].as_str();
                assert!(kind.is_some(), "{name}: {property}");
                assert_eq!(property.get("$ref"), None);
            }
        }
    }
}
