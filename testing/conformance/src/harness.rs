//! Submits actions and checks that each is answered by one event, in order.

use std::collections::VecDeque;
use std::sync::Arc;

use heapless::Vec;
use punctual_core::{
    ActionId, Answer, BATCH_MAX, Confidence, Criticality, Event, Infer, Instant, ModelId, Nanos,
    PartitionId, RequestId, StageId, Window,
};
use punctual_model::{Network, reference};
use punctual_platform::Doorbell;

use super::{Subject, Testable};
use punctual_device::{Device, DeviceSpec};

/// Longer than any action here takes, even on a busy machine. A device that is still silent then is stuck.
const STUCK: Nanos = Nanos::from_millis(30_000);

/// At any time.
pub(super) const ALWAYS: Window = Window {
    earliest: Instant::ZERO,
    latest: Instant::FAR_FUTURE,
};

/// A device, and what it still owes.
pub(super) struct Harness<S: Subject> {
    pub(super) device: S::Device,
    bell: Arc<Doorbell>,
    /// The bell's count before the last look.
    seen: u32,
    owed: std::vec::Vec<VecDeque<ActionId>>,
    actions: u64,
}

impl<S: Subject> Harness<S> {
    pub(super) fn start(subject: &S, spec: &DeviceSpec<'_>) -> Self {
        let bell = Arc::new(Doorbell::new());
        let owed = |_| VecDeque::with_capacity(2);
        Self {
            device: subject.start(spec, bell.clone()),
            bell,
            seen: 0,
            owed: spec.partitions.iter().map(owed).collect(),
            actions: 0,
        }
    }

    pub(super) fn now(&self) -> Instant {
        self.device.now()
    }

    /// Waits until the device may have an event, or `limit` on its clock.
    pub(super) fn wait(&mut self, limit: Instant) {
        self.device.wait(&self.bell, self.seen, limit);
    }

    pub(super) fn pass(&mut self, until: Instant) {
        self.device.pass(until);
    }

    pub(super) fn write_input(&mut self, buffer: u16, model: ModelId, image: &[f32]) {
        self.device.write_input(buffer, model, image);
    }

    pub(super) fn poll(&mut self) -> Option<Event> {
        // Read before looking: an event that comes afterwards ends the next wait.
        self.seen = self.bell.count();
        self.device.poll()
    }

    /// An action of model 0 on partition 0, to run at any time.
    pub(super) fn action(&mut self, stage: u8, batch: u8, buffers: &[u16]) -> Infer {
        self.actions += 1;
        Infer {
            id: ActionId(self.actions),
            partition: PartitionId(0),
            model: ModelId(0),
            stage: StageId(stage),
            batch,
            members: members(buffers),
            window: ALWAYS,
            criticality: Criticality::RealTime,
        }
    }

    pub(super) fn submit(&mut self, infer: &Infer) {
        if let Err(refusal) = self.device.submit(infer) {
            panic!("refused {infer:?}: {refusal}");
        }
        self.owed[infer.partition.index()].push_back(infer.id);
    }

    /// Whether a partition can take another action.
    pub(super) fn has_room(&self, partition: usize) -> bool {
        self.owed[partition].len() < 2
    }

    pub(super) fn owes(&self) -> bool {
        self.owed.iter().any(|owed| !owed.is_empty())
    }

    /// The next event, checked to be owed and in its partition's order.
    pub(super) fn event(&mut self) -> Event {
        let limit = self.now() + STUCK;
        loop {
            if let Some(event) = self.poll() {
                let action = action_of(&event);
                let mut owed = self.owed.iter_mut();
                let Some(owed) = owed.find(|owed| owed.front() == Some(&action)) else {
                    panic!("{event:?} answers no action that is due");
                };
                owed.pop_front();
                return event;
            }
            assert!(self.now() < limit, "owed and silent");
            self.wait(limit);
        }
    }

    /// Runs all stages of a model on an image, in buffer 0; the answers are those of its network.
    pub(super) fn run(&mut self, model: ModelId, network: &Network, image: &[f32], what: &str) {
        self.write_input(0, model, image);
        for (exit, scores) in scores::<S>(network, image).iter().enumerate() {
            let mut infer = self.action(exit as u8, 1, &[0]);
            infer.model = model;
            let answers = self.answers(&infer);
            assert_answer::<S>(answers[0], scores, &format!("{what}, exit {exit}"));
        }
    }

    /// Submits an action and returns its answers.
    pub(super) fn answers(&mut self, infer: &Infer) -> Vec<Answer, BATCH_MAX> {
        self.submit(infer);
        match self.event() {
            Event::Finished(finished) => {
                assert!(finished.started >= infer.window.earliest);
                assert!(finished.started <= infer.window.latest);
                assert!(finished.measured > Nanos::ZERO);
                assert_eq!(finished.members.len(), infer.members.len());
                finished.members
            }
            other => panic!("{other:?} for {infer:?}"),
        }
    }
}

type Scores = std::vec::Vec<f32>;

pub(super) fn members(buffers: &[u16]) -> Vec<RequestId, BATCH_MAX> {
    let member = |&buffer: &u16| RequestId {
        buffer,
        generation: 7,
    };
    buffers.iter().map(member).collect()
}

/// The action that a device's event answers.
fn action_of(event: &Event) -> ActionId {
    match event {
        Event::Finished(finished) => finished.action,
        Event::NotRun { action } | Event::Preempted { action } | Event::Failed { action } => {
            *action
        }
        other => panic!("{other:?} is no event of a device"),
    }
}

/// The class scores that the reference gives at each exit.
pub(super) fn scores<S: Subject>(network: &Network, image: &[f32]) -> std::vec::Vec<Scores> {
    if S::COMPUTES {
        reference::run(network, image)
    } else {
        vec![Scores::new(); network.stages.len()]
    }
}

/// Checks an answer against the class scores that the reference gives.
pub(super) fn assert_answer<S: Subject>(found: Answer, scores: &[f32], what: &str) {
    if !S::COMPUTES {
        return;
    }
    let (class, confidence) = reference::classify(scores);
    let error = (found.confidence.as_probability() - confidence).abs();
    assert!(
        error <= S::CONFIDENCE_TOLERANCE,
        "{what}: confidence {:?} instead of {:?}",
        found.confidence,
        Confidence::from_probability(confidence)
    );
    // Two classes may score the same within the tolerance.
    let behind = scores[class] - scores[usize::from(found.class)];
    assert!(
        behind <= S::SCORE_TOLERANCE,
        "{what}: class {} instead of {class}",
        found.class
    );
}
