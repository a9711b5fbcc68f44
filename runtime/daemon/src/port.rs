//! One thread a client: the only one that takes its submissions, writes its verdicts and wakes it.
//!
//! A client can make accesses to its memory, wait queues and sockets slow. Only its own port waits for them then: ports share
//! nothing but counters, and the scheduler waits for no port.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_core::{Arrival, Instant, Nanos, TaskId, Ticket};
use punctual_device::pool::Leader;
use punctual_ipc::{ChannelFault, Descriptor, ResultRecord, Results, Submissions, Verdict};
use punctual_platform::clock;
use punctual_platform::heartbeat::Heartbeat;
use punctual_platform::poll::Waker;

use crate::channels::PortEnds;
use crate::describe::Facts;
use crate::drain::{DrainOrder, Flag};
use crate::egress::Egress;
use crate::messages::{Answered, Inbound, Outbound, Payload, Refusal, Refused};
use crate::metrics::Metrics;
use crate::pace::Pace;
use crate::record;
use crate::recorder::{RecordSent, SentLog};
use crate::rt_events::client_fault;
use crate::wake_budget::WakeBudget;
use crate::world::tell_first;

/// What the port of one client slot works with.
pub struct Port {
    pub ends: PortEnds,
    /// What its clients submit to, by the numbers that submissions have, from 1.
    pub tasks: Box<[TaskId]>,
    /// Who will run its frames' stages; none if its core is not asleep before.
    pub leader: Option<Leader>,
    /// Whether that is soon.
    pub is_brief: bool,
    /// How fast a client may submit.
    pub pace: Option<Pace>,
    /// The longest way of its answers that counts.
    pub egress_ns_max: u64,
    /// How fast submissions are read, whatever becomes of them: a client that is refused at once can submit again at once.
    pub reads: Pace,
    pub metrics: Arc<Metrics>,
    pub facts: Arc<Facts>,
    pub drain: Arc<DrainOrder>,
    pub stop: Arc<Flag>,
    pub heart: Arc<Heartbeat>,
    pub housekeeping: Waker,
    /// Whether the watchdog has found the port or the intake waiting for the client.
    pub overdrawn: Arc<Overdrawn>,
    pub client: PresentClient,
    /// What it sends is recorded there; none: nowhere.
    pub recorder: Option<Arc<SentLog>>,
}

/// The client that holds the slot now.
#[derive(Default)]
pub struct PresentClient {
    /// None once it is gone, though its last verdicts may follow.
    reading: Option<Reading>,
    results: Option<Results>,
    /// What it asked for.
    asked: TaskId,
    wakes: WakeBudget,
    egress: Egress,
    /// When it last submitted a frame that went to the scheduler.
    submitted_ns: u64,
}

/// A client's submissions as far as they are read: a client that is gone is not looked at again.
struct Reading {
    submissions: Submissions,
    /// If they were not read to the end: when they are looked at again.
    again_ns: Option<u64>,
}

impl PresentClient {
    fn again_ns(&self) -> Option<u64> {
        self.reading.as_ref()?.again_ns
    }
}

/// Housekeeping's order to a port to disconnect its client, for which a thread has waited longer than the watchdog allows.
#[derive(Debug, Default)]
pub struct Overdrawn(AtomicBool);

impl Overdrawn {
    pub fn order(&self) {
        // Relaxed: it orders nothing else, and the port is woken through the kernel; partner of the swap in `take`.
        self.0.store(true, Ordering::Relaxed);
    }

    fn take(&self) -> bool {
        // Relaxed: partner of the store in `order`. A load first, as there is hardly ever one.
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}

/// What the poller reports a client's bell and socket as.
const CLIENT: u64 = 0;

impl Port {
    /// Works until the stop flag is set. Returns itself, so that nothing is freed on this thread.
    pub fn serve(mut self) -> Self {
        loop {
            // Before the rings: what was pushed before the flag was raised is still delivered.
            let stopping = self.stop.is_raised();
            self.welcome();
            self.deliver();
            if stopping {
                // One last look: what it submitted gets its refusal.
                self.read_all();
                return self;
            }
            self.heart.waiting();
            let (mut rung, mut hung_up) = (false, false);
            // A client that was not read to the end has no new edge: the poller does not report it again.
            for ready in self.ends.poller.wait(self.client.again_ns()) {
                (rung, hung_up) = (rung | ready.readable, hung_up | ready.hung_up);
            }
            self.heart.working();
            self.hear(rung, hung_up);
        }
    }

    /// Takes in what the poller and the watchdog report about the client.
    fn hear(&mut self, rung: bool, hung_up: bool) {
        let overdrawn = self.overdrawn.take();
        let Some(reading) = self.client.reading.as_mut() else {
            return;
        };
        if overdrawn {
            return self.end(&ChannelFault::SlowMemory);
        }
        if rung && let Err(fault) = reading.submissions.rung() {
            return self.end(&fault);
        }
        if hung_up {
            // What it submitted before it closed the connection counts, and gets its verdict.
            self.read_all();
            self.dismiss();
        } else if rung || self.client.again_ns().is_some() {
            let again_ns = self.read();
            // It may have ended meanwhile.
            if let Some(reading) = self.client.reading.as_mut() {
                reading.again_ns = again_ns;
            }
        }
    }

    fn welcome(&mut self) {
        if self.client.results.is_some() {
            return;
        }
        let Ok(client) = self.ends.newcomers.pop() else {
            return;
        };
        let watched = client.submissions.watch(&self.ends.poller, CLIENT);
        self.client = PresentClient {
            reading: Some(Reading {
                submissions: client.submissions,
                again_ns: None,
            }),
            results: Some(client.results),
            asked: client.asked,
            wakes: WakeBudget::default(),
            egress: Egress::default(),
            submitted_ns: 0,
        };
        // What was said was about the last client.
        self.overdrawn.take();
        if let Some(pace) = &mut self.pace {
            pace.begin_anew();
        }
        self.reads.begin_anew();
        if watched.is_err() {
            // Out of kernel memory for one more descriptor: this client cannot be served.
            self.dismiss();
        }
    }

    /// Reads what the client has submitted, as many as it has slots, and no faster than it may be: one that submits as fast
    /// as it is refused delays neither its own verdicts nor other threads that need this core. When to read what is left; none
    /// if nothing is.
    fn read(&mut self) -> Option<u64> {
        for _ in 0..self.ends.slots {
            let now_ns = clock::now_ns();
            let next_ns = self.reads.next_ns();
            if next_ns > now_ns {
                return Some(next_ns);
            }
            if !self.read_one() {
                return None;
            }
            self.reads.came(now_ns);
            self.ends.scheduler_bell.relay();
        }
        Some(0)
    }

    /// Reads everything: as much as there are slots, for the last time.
    fn read_all(&mut self) {
        for _ in 0..self.ends.slots {
            if !self.read_one() {
                return;
            }
        }
    }

    /// Reads a submission; false if there is none, or no client any more.
    fn read_one(&mut self) -> bool {
        let Some(reading) = self.client.reading.as_mut() else {
            return false;
        };
        match reading.submissions.poll() {
            Ok(Some(descriptor)) => {
                self.submit(&descriptor);
                true
            }
            Ok(None) => false,
            Err(fault) => {
                self.end(&fault);
                false
            }
        }
    }

    fn submit(&mut self, descriptor: &Descriptor) {
        let now = clock::now_ns();
        self.client.egress.read(descriptor.egress_ns);
        let (task, ticket) = (self.task_of(descriptor), self.ticket(descriptor));
        if let Some(reason) = self.objection(descriptor, now) {
            return self.refuse(task, ticket, descriptor, reason);
        }
        let arrival = Arrival {
            task,
            ticket,
            captured: Instant::from_nanos(descriptor.captured_ns),
            deadline: descriptor.deadline_ns.map(Instant::from_nanos),
            egress: Nanos::new(self.client.egress.ns(self.egress_ns_max)),
        };
        let payload = Payload {
            slot: descriptor.slot,
            sequence: descriptor.sequence,
            task,
            crop_x: descriptor.crop.x,
            crop_y: descriptor.crop.y,
            size: None,
            captured_ns: descriptor.captured_ns,
        };
        self.announce(now);
        self.tell(Inbound::Arrived { arrival, payload });
    }

    /// Lets the leader's core leave its idle state while the frame is admitted and prepared: that takes longer than both of a small
    /// one. Behind a frame of a moment ago it is not asleep, and who submits without pause must not have it woken each time.
    fn announce(&mut self, now_ns: u64) {
        const PAUSE_NS: u64 = 1_000_000;
        let before_ns = std::mem::replace(&mut self.client.submitted_ns, now_ns);
        if now_ns.saturating_sub(before_ns) > PAUSE_NS
            && let Some(leader) = &self.leader
        {
            if self.is_brief {
                leader.announce();
            } else {
                leader.wake();
            }
        }
    }

    /// What the submission is for. The channel has checked its number.
    fn task_of(&self, descriptor: &Descriptor) -> TaskId {
        let named = usize::from(descriptor.task).checked_sub(1);
        named.map_or(self.client.asked, |at| self.tasks[at])
    }

    fn ticket(&self, descriptor: &Descriptor) -> Ticket {
        Ticket {
            client: self.ends.client,
            slot: descriptor.slot,
            part: 0,
            sequence: descriptor.sequence,
        }
    }

    /// Why a submission is none for the scheduler.
    fn objection(&mut self, descriptor: &Descriptor, now_ns: u64) -> Option<Refused> {
        if self.drain.bound_ns().is_some() {
            return Some(Refused::Draining);
        }
        // Without tolerance: client and daemon read the same clock, and the descriptor was written before it was read.
        if descriptor.captured_ns > now_ns {
            return Some(Refused::CaptureInFuture);
        }
        let is_in_pace = self.pace.as_mut().is_none_or(|pace| pace.admits(now_ns));
        (!is_in_pace).then_some(Refused::Quota)
    }

    fn refuse(&mut self, task: TaskId, ticket: Ticket, descriptor: &Descriptor, reason: Refused) {
        let client = ticket.client;
        self.metrics.submitted(task, client);
        if self.metrics.refused(task, client, reason) {
            tell_first(&ticket, reason.into());
        }
        let refusal = Refusal {
            task,
            ticket,
            reason,
            part: None,
            captured_ns: descriptor.captured_ns,
            deadline_ns: descriptor.deadline_ns.unwrap_or(0),
        };
        self.push(&record::of_refusal(&refusal, clock::now_ns()));
    }

    /// Tells the client what the scheduler has decided.
    fn deliver(&mut self) {
        while let Ok(outbound) = self.ends.outbound.pop() {
            match outbound {
                Outbound::Answer(answered) => self.answer(&answered),
                Outbound::Part(answered) => self.part(&answered),
                Outbound::Verdict(answered) => self.verdict(&answered),
                Outbound::Whole(answered) => self.whole(&answered),
                Outbound::Refused(refusal) => {
                    self.push(&record::of_refusal(&refusal, clock::now_ns()));
                }
                Outbound::Retire => self.retire(),
            }
            // An intake that attends this bell does not run meanwhile.
            self.ends.scheduler_bell.relay();
        }
    }

    /// An answer before the verdict.
    fn answer(&mut self, answered: &Answered) {
        let record = self.send(answered, false);
        self.note_sent(answered, false, record.sent_ns);
    }

    fn verdict(&mut self, answered: &Answered) {
        let record = self.send(answered, true);
        self.note_sent(answered, true, record.sent_ns);
        self.measure(answered, &record);
    }

    /// The frame itself, or a crop of it: to the scheduler a request of its own, with its verdict.
    fn part(&mut self, answered: &Answered) {
        let record = self.send(answered, false);
        self.note_sent(answered, true, record.sent_ns);
        if answered.part.is_some() {
            self.measure(answered, &record);
        }
    }

    /// Of which the scheduler knows the parts.
    fn whole(&mut self, answered: &Answered) {
        let record = self.send(answered, true);
        self.measure(answered, &record);
    }

    fn measure(&self, answered: &Answered, record: &ResultRecord) {
        let is_complete = matches!(record.verdict, Verdict::OnTime | Verdict::Late);
        if record.answer.is_some() && is_complete {
            let task = self.metrics.task(answered.reply.task);
            let latency_ns = record.finished_ns.saturating_sub(record.captured_ns);
            task.latency.record(latency_ns);
            if answered.reply.deadline != Instant::FAR_FUTURE {
                let slack_ns = record.deadline_ns.saturating_sub(record.finished_ns);
                task.slack.record(slack_ns);
            }
        }
    }

    fn send(&mut self, answered: &Answered, is_final: bool) -> ResultRecord {
        let now_ns = clock::now_ns();
        let exits = &self.facts[answered.reply.task.index()];
        let record = record::of_answered(answered, is_final, exits, now_ns);
        self.client.egress.sent(answered.decided_ns, now_ns);
        self.push(&record);
        record
    }

    /// Records what was sent: a verdict of a request of the scheduler's, or an answer before it.
    fn note_sent(&self, answered: &Answered, is_final: bool, sent_ns: u64) {
        if let Some(recorder) = &self.recorder {
            recorder.write(RecordSent {
                ticket: answered.reply.ticket,
                is_final,
                decided: Instant::from_nanos(answered.decided_ns),
                began: Instant::from_nanos(sent_ns),
            });
        }
    }

    fn push(&mut self, record: &ResultRecord) {
        // Verdicts of a client that closed its connection have no recipient.
        let Some(results) = &mut self.client.results else {
            return;
        };
        let pushed = self.client.wakes.measured(|| results.push(record));
        let fault = match pushed {
            Err(fault) => Some(fault),
            Ok(()) if self.client.wakes.is_overdrawn() => Some(ChannelFault::SlowWakeUps),
            Ok(()) => None,
        };
        if let Some(fault) = fault
            && self.client.reading.is_some()
        {
            self.end(&fault);
        }
    }

    /// Ends a client that broke the protocol or overdrew its budget.
    fn end(&mut self, fault: &ChannelFault) {
        client_fault(&self.metrics, self.ends.client, *fault);
        self.dismiss();
    }

    /// Ends a client: nothing more of it is read, and housekeeping and the scheduler learn that it is gone.
    fn dismiss(&mut self) {
        let Some(Reading { submissions, .. }) = self.client.reading.take() else {
            return;
        };
        submissions.unwatch(&self.ends.poller);
        self.ends
            .submissions_returned
            .push(submissions)
            .expect("housekeeping takes a client's pieces back before it gives its place away");
        self.housekeeping.wake();
        self.tell(Inbound::Gone);
    }

    fn retire(&mut self) {
        let Some(results) = self.client.results.take() else {
            return;
        };
        self.ends
            .results_returned
            .push(results)
            .expect("housekeeping takes a client's pieces back before it gives its place away");
        self.housekeeping.wake();
    }

    fn tell(&mut self, inbound: Inbound) {
        self.ends
            .inbound
            .push(inbound)
            .expect("the ring holds every slot's submission and the client's end");
        self.ends.scheduler_bell.ring();
    }
}
