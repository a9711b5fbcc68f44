//! The thread that collects: takes what real-time threads wrote, makes segments, and looks for incidents.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, select, tick};
use punctual_core::{Instant, Ticket};
use punctual_events::{DaemonEvent, say};
use punctual_platform::clock;
use punctual_platform::rt_log::RtLog;
use punctual_recording::ring::{StepSource, Told};
use punctual_recording::{BlackBox, Collector, Note, Segment, Sent};

use super::counts::Counts;
use super::disk::Work;
use super::encoding::OnPicture;
use super::triggers::{Trigger, Triggers};

/// How often it looks. No real-time thread wakes it: that would be a system call.
const LOOK: Duration = Duration::from_millis(100);

/// From one black box that is written to the next, at least.
const DUMPS_APART_NS: u64 = 10_000_000_000;

/// How much a black box has of the time after its incident.
const AFTER_NS: u64 = 1_000_000_000;

/// Records that were sent between two looks.
const SENT_MAX: usize = 4096;

/// What ports write when a record went to its client.
pub type SentLog = RtLog<RecordSent, SENT_MAX>;

/// A record that went to a client; the log has the time at which it was there.
#[derive(Clone, Copy, Debug)]
pub struct RecordSent {
    pub ticket: Ticket,
    pub is_final: bool,
    pub decided: Instant,
    pub began: Instant,
}

impl RecordSent {
    fn ended_at(self, ns: u64) -> Sent {
        Sent {
            ticket: self.ticket,
            is_final: self.is_final,
            decided: self.decided,
            began: self.began,
            ended: Instant::from_nanos(ns),
        }
    }
}

/// What others ask for.
pub enum Order {
    /// To write what there is, and to say when it is on the disk.
    Dump(Trigger, Option<Sender<()>>),
}

/// Where complete segments go.
pub enum Kept {
    BlackBox(BlackBox),
    /// To the disk at once.
    All,
}

/// A black box that will be written.
struct Pending {
    trigger: Trigger,
    due_ns: u64,
    done: Option<Sender<()>>,
}

/// What the collector takes from, where it puts it, and what it does with it.
pub struct Collecting {
    pub sources: Sources,
    pub collector: Collector,
    pub triggers: Triggers,
    pub kept: Kept,
    pub disk: Sender<Work>,
    pub counts: Arc<Counts>,
    pub pace: Pace,
}

/// What others write.
pub struct Sources {
    pub steps: StepSource,
    pub sent: Arc<SentLog>,
    /// What the log says.
    pub notes: Receiver<Note>,
    pub pictures: Receiver<OnPicture>,
}

/// When black boxes are written.
#[derive(Default)]
pub struct Pace {
    pending: Option<Pending>,
    /// Whether steps were lost before the last look.
    loses: bool,
    /// The next black box is not written before.
    not_before_ns: u64,
}

impl Collecting {
    /// Works until housekeeping lets go of its end; the disk's thread ends behind it.
    pub fn serve(mut self, orders: &Receiver<Order>) {
        let looks = tick(LOOK);
        loop {
            select! {
                recv(looks) -> _ => self.look(),
                recv(orders) -> order => {
                    self.look();
                    let Ok(Order::Dump(trigger, done)) = order else {
                        break;
                    };
                    self.ask(trigger, done);
                }
            }
            self.write_what_is_due();
        }
        self.end();
    }

    /// Takes out what real-time threads wrote since the last time.
    fn look(&mut self) {
        while let Some(told) = self.sources.steps.take() {
            self.step(told);
        }
        while let Some(record) = self.sources.sent.take() {
            self.collector.sent(record.value.ended_at(record.at_ns));
        }
        self.sources
            .notes
            .try_iter()
            .for_each(|note| self.collector.note(note));
        let counts = &self.counts;
        for picture in self.sources.pictures.try_iter() {
            match picture {
                OnPicture::Picture(picture) => {
                    self.collector.picture(picture);
                    counts.pictures.fetch_add(1, Relaxed);
                }
                OnPicture::Boxes(boxes) => self.collector.boxes(boxes),
            }
        }
        let lost = self.sources.steps.lost();
        let loses = lost > counts.steps_lost.swap(lost, Relaxed);
        if loses && !self.pace.loses {
            say(&DaemonEvent::RecordsLost { count: lost });
        }
        self.pace.loses = loses;
        counts.sent_lost.store(self.sources.sent.dropped(), Relaxed);
    }

    fn step(&mut self, told: Told) {
        let incident = self.triggers.look(&told.step);
        let differed = self.collector.differing();
        let complete = self.collector.step(told);
        let differs = self.collector.differing() > differed;
        self.counts.steps.fetch_add(1, Relaxed);
        if let Some(segment) = complete {
            self.keep(segment);
        }
        if differs {
            self.counts.differing.fetch_add(1, Relaxed);
        }
        if let Some(trigger) = incident.or(differs.then_some(Trigger::Differs)) {
            self.ask(trigger, None);
        }
    }

    fn keep(&mut self, segment: Segment) {
        let segment = Arc::new(segment);
        match &mut self.kept {
            Kept::BlackBox(black_box) => black_box.push(segment),
            // A disk that is too slow costs the file these steps.
            Kept::All => {
                if self.disk.try_send(Work::Segment(segment)).is_err() {
                    self.counts.unwritten.fetch_add(1, Relaxed);
                }
            }
        }
    }

    /// Has the black box written soon; several incidents are in one file. Of everything, a file is completed on request and at the
    /// end: incidents are in it anyway.
    fn ask(&mut self, trigger: Trigger, done: Option<Sender<()>>) {
        if matches!(self.kept, Kept::All) && trigger.has_consequences() {
            return;
        }
        let after_ns = if trigger.has_consequences() {
            AFTER_NS
        } else {
            0
        };
        let now_ns = clock::now_ns();
        let due_ns = match trigger {
            Trigger::Stuck => now_ns,
            _ => (now_ns + after_ns).max(self.pace.not_before_ns),
        };
        let is_sooner = |pending: &Pending| due_ns < pending.due_ns || trigger == Trigger::Stuck;
        if self.pace.pending.as_ref().is_none_or(is_sooner) {
            self.pace.pending = Some(Pending {
                trigger,
                due_ns,
                done,
            });
        }
    }

    fn write_what_is_due(&mut self) {
        let now_ns = clock::now_ns();
        let Some(pending) = self
            .pace
            .pending
            .take_if(|pending| pending.due_ns <= now_ns)
        else {
            return;
        };
        self.pace.not_before_ns = now_ns + DUMPS_APART_NS;
        let segment = self.collector.next(Instant::from_nanos(now_ns));
        self.keep(segment);
        let Pending { trigger, done, .. } = pending;
        let work = match &self.kept {
            Kept::BlackBox(black_box) => Work::Dump {
                trigger,
                segments: black_box.contents(),
                done,
            },
            Kept::All => Work::Close,
        };
        if self.disk.try_send(work).is_err() {
            self.counts.failed.fetch_add(1, Relaxed);
        }
    }

    /// The last segment, and a black box that is still to be written.
    fn end(mut self) {
        if let Some(pending) = &mut self.pace.pending {
            pending.due_ns = 0;
            self.write_what_is_due();
        } else {
            let segment = self.collector.next(Instant::from_nanos(clock::now_ns()));
            if !segment.is_empty() {
                self.keep(segment);
            }
        }
    }
}
