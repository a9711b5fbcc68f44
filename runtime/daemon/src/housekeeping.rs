//! The ordinary thread: clients in and out, metrics, log, signals, and the end.

use std::os::unix::process::parent_id;
use std::path::PathBuf;
use std::sync::Arc;

use punctual_device::LoadFailures;
use punctual_device_cuda::Loss;
use punctual_events::{DaemonEvent, Declared, say, say_later};
use punctual_platform::idle::IdleHold;
use punctual_platform::poll::Poller;
use punctual_platform::rivals;
use punctual_platform::service;
use punctual_platform::signals::{Signal, TerminationSignals};
use punctual_platform::{clock, logging, thread};

use crate::Termination;
use crate::acceptor::Acceptor;
use crate::drain::DrainOrder;
use crate::gpu_watch::GpuWatch;
use crate::last_good::LastGood;
use crate::manager::{Manager, serving};
use crate::metrics_socket::MetricsSocket;
use crate::observer::Observer;
use crate::rate_limit::RateLimit;
use crate::recorder::Trigger;
use crate::report::{LatencyReport, ReportError, State, TaskReport};
use crate::rt_events;
use crate::start::{Moment, NAMED_MAX};
use crate::startup;
use crate::threads::Threads;
use crate::watchdog::Health;

/// The poller's tokens; the acceptor's follow.
pub const SIGNALS: u64 = 0;
pub const METRICS: u64 = 1;
pub const ACCEPTOR: u64 = 2;

/// How often this thread checks what does not wake it, in ns.
const TICK_NS: u64 = 100_000_000;

/// How long the scheduler may take to notice that the drain's bound is over, in ns. After that it is stuck, and a
/// thread that waited for it would be stuck as well.
const GRACE_NS: u64 = 2_000_000_000;

/// Everything that an ordinary thread does while the real-time threads serve.
pub struct Housekeeping {
    pub poller: Poller,
    pub signals: TerminationSignals,
    pub metrics_socket: MetricsSocket,
    pub acceptor: Acceptor,
    pub threads: Threads,
    pub observer: Observer,
    pub drain: Arc<DrainOrder>,
    pub manager: Manager,
    /// The process that must live on for this one to; none: it does not matter.
    pub parent: Option<u32>,
    pub report: Option<PathBuf>,
    /// Where the last good configuration is kept.
    pub last_good: Option<PathBuf>,
    pub state: State,
    /// Why weights could not be loaded.
    pub load_failures: LoadFailures,
    /// Cores stay out of deep idle states while it is there.
    pub idle: Option<IdleHold>,
    pub log: RateLimit,
    pub signalled: u32,
    /// Whether real-time threads of others were looked for.
    pub rivals_sought: bool,
}

/// Why serving ends.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Reason {
    Signal,
    ParentGone,
    ThreadEnded,
    GpuLost(Loss),
    /// A network could not be loaded before any task was ready.
    CannotStart(String),
}

impl Reason {
    fn event(&self) -> DaemonEvent {
        match self {
            Self::Signal => DaemonEvent::Stopping,
            Self::ParentGone => DaemonEvent::ParentGone,
            Self::ThreadEnded => DaemonEvent::ThreadEnded,
            Self::GpuLost(loss) => DaemonEvent::GpuLost {
                reason: loss.to_string(),
            },
            Self::CannotStart(error) => DaemonEvent::NotStarted {
                error: error.clone(),
            },
        }
    }
}

impl Housekeeping {
    /// Serves until told to terminate, drains, ends all threads, reports.
    pub fn run(mut self) -> Termination {
        let reason = loop {
            self.turn();
            if let Some(reason) = self.reason_to_end() {
                break reason;
            }
        };
        let interrupted = self.drain(&reason);
        self.finish(&reason, interrupted)
    }

    fn reason_to_end(&self) -> Option<Reason> {
        if self.threads.any_ended() {
            return Some(Reason::ThreadEnded);
        }
        if self.signalled > 0 {
            return Some(Reason::Signal);
        }
        let orphaned = self.parent.is_some_and(|parent| parent_id() != parent);
        if orphaned {
            return Some(Reason::ParentGone);
        }
        let failure = self.observer.start.failure(&self.observer.plan);
        failure
            .map(Reason::CannotStart)
            .or_else(|| self.gpu_loss().map(Reason::GpuLost))
    }

    /// Why this process can no longer use its GPU, if so.
    fn gpu_loss(&self) -> Option<Loss> {
        self.observer.gpu.as_ref().and_then(GpuWatch::loss)
    }

    /// Whether nothing may wait for the GPU's driver: it may never return. What is open after the drain may be open because
    /// the GPU hangs.
    fn must_leave_gpu(&self) -> bool {
        let report = || self.observer.report(self.state, self.acceptor.report());
        let is_open = || report().tasks.iter().any(|task| task.open > 0);
        self.observer.gpu.is_some() && (self.gpu_loss().is_some() || is_open())
    }

    /// One wait, and the work that it found.
    fn turn(&mut self) {
        let tick_ns = TICK_NS.min(self.observer.watchdog.period_ns());
        let tokens: Vec<u64> = self
            .poller
            .wait(Some(clock::now_ns() + tick_ns))
            .map(|ready| ready.token)
            .collect();
        if tokens.is_empty() {
            self.tell_rivals();
        }
        for token in tokens {
            match token {
                SIGNALS => self.obey_signals(),
                METRICS => {
                    let (observer, state) = (&self.observer, self.state);
                    let clients = self.acceptor.report();
                    let report = move || observer.report(state, clients);
                    self.metrics_socket.answer(&mut self.acceptor.pools, report);
                }
                token if self.acceptor.owns(token) => self.acceptor.answer(token, &self.poller),
                _ => {}
            }
        }
        self.acceptor.look_after(&self.poller);
        self.metrics_socket
            .attend(&self.poller, &self.acceptor.pools);
        tell_events(&mut self.log, &self.acceptor);
        self.tell_load_failures();
        self.tell_start();
        if let Some(gpu) = &mut self.observer.gpu {
            gpu.tell_faults(|event| self.log.say(event));
        }
        self.watch();
        let (observer, acceptor) = (&self.observer, &self.acceptor);
        let status = || observer.status(self.state, &acceptor.report());
        self.manager.tell(clock::now_ns(), status);
    }

    /// Says once which real-time threads of others there are; when there is nothing else to do, as what the kernel tells of all
    /// threads of a machine takes as long as a part of the start.
    fn tell_rivals(&mut self) {
        let is_due = self.state == State::Serving && !self.rivals_sought;
        if is_due {
            self.rivals_sought = true;
            startup::tell_rivals(&self.observer.plan, &rivals::here());
        }
    }

    fn obey_signals(&mut self) {
        while let Some(signal) = self.signals.next(Some(0)) {
            match signal {
                Signal::Report => self.report_now(),
                Signal::Record => self.record_now(),
                Signal::Terminate | Signal::Interrupt | Signal::HangUp | Signal::Quit => {
                    self.signalled += 1;
                }
            }
        }
    }

    /// Has what is recorded written.
    fn record_now(&mut self) {
        match &self.observer.recorder {
            Some(recorder) => recorder.dump(Trigger::Requested),
            None => self.log.say(&DaemonEvent::RecordingUnwanted),
        }
    }

    /// Writes the report's present state to where the last one will be.
    fn report_now(&mut self) {
        let event = match &self.report {
            Some(path) => {
                let report = self.observer.report(self.state, self.acceptor.report());
                match report.write(path) {
                    Ok(()) => DaemonEvent::ReportWritten {
                        path: path.display().to_string(),
                    },
                    Err(error) => report_failed(&error),
                }
            }
            None => DaemonEvent::ReportUnwanted,
        };
        self.log.say(&event);
    }

    /// Checks the real-time threads; the service manager gets a keep-alive from a process whose threads are
    /// well, and from no other. Does not return if one is stuck.
    fn watch(&mut self) {
        let (now_ns, manager) = (clock::now_ns(), &mut self.manager);
        if !self.observer.watchdog.is_due(now_ns) {
            return;
        }
        let threads = &self.threads;
        let told = |event: DaemonEvent| {
            say(&event);
            manager.notifier.status(&event.text(&()));
        };
        let overdrawn = |client| threads.end_overdrawn(client);
        let health = self.observer.watchdog.look(now_ns, told, overdrawn);
        self.drain.starved.are(self.observer.watchdog.starved());
        match health {
            Health::Well => {
                manager.alive(now_ns);
                self.shed(false);
            }
            // It is ready, and a restart would give it no processor.
            Health::Starved => {
                manager.alive(now_ns);
                self.shed(true);
                self.record(Trigger::Starved);
            }
            Health::Silent => self.shed(true),
            Health::Stuck => self.end_stuck(),
        }
    }

    fn record(&self, trigger: Trigger) {
        if let Some(recorder) = &self.observer.recorder {
            recorder.dump(trigger);
        }
    }

    /// Rejects best-effort work while a thread is silent or starved: that work may be the cause.
    fn shed(&self, hold: bool) {
        if self.drain.shed.give(hold) {
            self.threads.scheduler.wakeup.send();
            say(if hold {
                &DaemonEvent::ShedBegun
            } else {
                &DaemonEvent::ShedEnded
            });
        }
    }

    /// The final report. No thread waits for the stuck one, nor for those that may wait for it.
    fn end_stuck(&mut self) -> ! {
        for silent in self.observer.watchdog.report().silent {
            let thread = silent.thread.clone();
            let state = silent.event().text(&());
            self.manager.notifier.stopping(&state);
            say(&DaemonEvent::Stuck { thread, state });
        }
        if let Some(recorder) = &self.observer.recorder {
            recorder.dump_and_wait(Trigger::Stuck);
        }
        say(&DaemonEvent::StuckEnding);
        let report = self
            .observer
            .report(State::Terminated, self.acceptor.report());
        if let Some(Err(error)) = self.report.as_ref().map(|path| report.write(path)) {
            say(&report_failed(&error));
        }
        logging::flush();
        thread::let_go_all();
        service::end_now(Termination::Stuck.code())
    }

    /// Says why loads failed; that they did is in the report.
    fn tell_load_failures(&mut self) {
        let Observer { plan, start, .. } = &mut self.observer;
        for failure in self.load_failures.since_last() {
            let model = failure.model.index();
            if plan.scheduler.models[model].weights.is_none() {
                say(&start.failed(plan, &failure));
                continue;
            }
            self.log.say(&DaemonEvent::WeightsNotLoaded {
                model: plan.models[model].name.clone(),
                reason: failure.reason.to_string(),
            });
        }
    }

    /// Says which tasks have become ready, and that the daemon is with the first of them.
    fn tell_start(&mut self) {
        let now_ns = clock::now_ns();
        let Observer {
            plan,
            start,
            metrics,
            ..
        } = &mut self.observer;
        let was_over = start.is_over();
        for event in start.news(plan, metrics, now_ns) {
            say(&event);
        }
        let becomes_ready = start.becomes_ready(plan, now_ns);
        if becomes_ready {
            self.observer.ready_ns = now_ns;
            self.announce();
            self.observer.start.tell(Moment::Ready);
        }
        if self.observer.start.is_over() && !was_over {
            self.observer.start.tell(Moment::Over);
        }
    }

    /// Says that frames are answered.
    fn announce(&mut self) {
        if self.state == State::Starting {
            self.state = State::Serving;
        }
        let Observer {
            plan,
            start,
            is_last_good,
            ..
        } = &self.observer;
        let status = serving(plan, start.words().as_deref(), *is_last_good);
        say(&DaemonEvent::Started {
            status: status.clone(),
        });
        self.manager.notifier.ready(&status);
    }

    /// Answers what was accepted; true if a second signal ended that.
    fn drain(&mut self, reason: &Reason) -> bool {
        self.state = State::Draining;
        self.manager.notifier.stopping("draining");
        let drain_bound_ns = self.observer.plan.drain_bound.as_nanos();
        let patience_us = (drain_bound_ns + GRACE_NS) / 1_000;
        self.manager.notifier.extend_timeout(patience_us);
        say(&reason.event());
        self.acceptor.close(&self.poller);
        let mut bound = clock::now_ns() + drain_bound_ns;
        self.order_drain(bound);
        // A drain that no signal began is interrupted by the first.
        let asked = u32::from(*reason == Reason::Signal);
        let mut interrupted = false;
        while !self.threads.drained.is_raised() {
            self.turn();
            if self.signalled > asked && !interrupted {
                interrupted = true;
                bound = clock::now_ns();
                self.order_drain(bound);
            }
            if clock::now_ns() > bound + GRACE_NS {
                break;
            }
        }
        interrupted
    }

    fn order_drain(&self, bound_ns: u64) {
        self.drain.give(bound_ns);
        self.threads.scheduler.wakeup.send();
    }

    fn finish(mut self, reason: &Reason, interrupted: bool) -> Termination {
        if matches!(reason, Reason::CannotStart(_))
            && let Some(folder) = &self.last_good
        {
            LastGood::in_folder(folder).doubt();
        }
        let drained = self.threads.drained.is_raised();
        let leave_gpu = self.must_leave_gpu();
        self.observer.page_faults.freeze();
        // On a pool: dropping it closes connections that were not accepted, and a reader can make that slow.
        let metrics_socket = self.metrics_socket;
        self.acceptor.pools.strangers.run(move || {
            drop(metrics_socket);
            None
        });
        self.acceptor.settle(&mut self.poller);
        // Joining a stuck thread would never return; the end of the process ends it.
        let sound = drained && self.threads.stop_and_join(leave_gpu);
        tell_events(&mut self.log, &self.acceptor);
        let report = self
            .observer
            .report(State::Terminated, self.acceptor.report());
        if let Some(recorder) = self.observer.recorder.take() {
            recorder.end();
        }
        let lost: u64 = report.tasks.iter().map(|task| task.lost).sum();
        let written = self.report.as_ref().is_none_or(|path| {
            let outcome = report.write(path);
            if let Err(error) = &outcome {
                say(&report_failed(error));
            }
            outcome.is_ok()
        });
        if lost > 0 {
            say(&DaemonEvent::RequestsLost { count: lost });
        }
        let status = self
            .observer
            .status(State::Terminated, &self.acceptor.report());
        if !matches!(reason, Reason::CannotStart(_)) {
            // Of the thousands that a pattern of packages may be, most were not asked.
            let asked = |task: &&TaskReport| report.tasks.len() <= NAMED_MAX || task.submitted > 0;
            for task in report.tasks.iter().filter(asked) {
                say(&summary(task));
            }
            say(&DaemonEvent::Stopped { status });
        }
        let termination = match () {
            () if matches!(reason, Reason::GpuLost(_)) => Termination::DeviceLost,
            () if matches!(reason, Reason::CannotStart(_)) => Termination::Resources,
            () if !sound => Termination::Internal,
            () if interrupted && lost > 0 => Termination::Interrupted,
            () if lost > 0 => Termination::DrainExceeded,
            () if !written => Termination::Resources,
            () => Termination::Clean,
        };
        if !leave_gpu {
            return termination;
        }
        if termination == Termination::DeviceLost && !self.manager.notifier.has_manager() {
            say(&DaemonEvent::NotRestarted);
        }
        // Not by returning: the driver's own handler for the end of the process may wait for the device.
        logging::flush();
        service::end_now(termination.code())
    }
}

/// Says what real-time threads had to say.
fn tell_events(log: &mut RateLimit, acceptor: &Acceptor) {
    while let Some(event) = rt_events::take() {
        if log.permits(event.value.declaration().level) {
            say_later(&event.value, event.at_ns, &acceptor.places);
        }
    }
}

/// How a task's frames ended, for people who stop a daemon at a terminal.
fn summary(task: &TaskReport) -> DaemonEvent {
    let lost = match task.lost {
        0 => String::new(),
        lost => format!(", {lost} lost"),
    };
    let exits = task.exits.iter().map(u64::to_string).collect::<Vec<_>>();
    let latency = match task.latency_us {
        LatencyReport { count: 0, .. } => String::new(),
        LatencyReport { p50, p99, max, .. } => {
            let [p50, p99, max] = [p50, p99, max].map(|us| us as f64 / 1e3);
            let exits = exits.join("/");
            format!("; by exit {exits}; latency p50 {p50:.1}, p99 {p99:.1}, max {max:.1} ms")
        }
    };
    DaemonEvent::TaskSummary {
        task: task.name.clone(),
        submitted: task.submitted,
        on_time: task.on_time,
        late: task.late,
        rejected: task.rejected.total(),
        failed: task.failed.total(),
        more: format!("{lost}{latency}"),
    }
}

fn report_failed(error: &ReportError) -> DaemonEvent {
    let error = error.to_string();
    DaemonEvent::ReportFailed { error }
}
