//! Makes reports: gathers what the real-time threads counted, on an ordinary thread.

mod lending;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use punctual_core::{Criticality, PolicySpec as _, TaskId};
use punctual_events::{Note, recent};
use punctual_plan::Plan;
use punctual_platform::memory::Usage;
use punctual_platform::stall::{Stall, StallProbe};
use punctual_platform::{allocator, clock, logging};

use crate::gpu_watch::GpuWatch;
use crate::granted::ThreadReport;
use crate::manager::last_good_words;
use crate::metrics::{
    Counted, Metrics, Outcome, PagingMetrics, Quantiles, RunningStage, StageKey, StageTimes,
    TaskMetrics,
};
use crate::page_faults::PageFaults;
use crate::recorder::Recorder;
use crate::report::{
    ClientsReport, DecisionReport, LatencyReport, LendingReport, MemoryReport, NoteReport,
    PagingReport, PartitionReport, REPORT_FORMAT, Report, RunningReport, SlackReport, StageReport,
    StallReport, StallsReport, State, TaskReport,
};
use crate::rt_events;
use crate::start::Start;
use crate::watchdog::Watchdog;
pub use lending::words as lending_words;

/// Everything a report is made of.
pub struct Observer {
    pub plan: Arc<Plan>,
    pub metrics: Arc<Metrics>,
    pub probes: Vec<StallProbe>,
    pub page_faults: PageFaults,
    pub start: Start,
    pub ready_ns: u64,
    pub missing: Vec<String>,
    pub device: String,
    pub watchdog: Watchdog,
    /// How the threads were scheduled at the start.
    pub threads: Vec<ThreadReport>,
    /// None if there is none to watch.
    pub gpu: Option<GpuWatch>,
    /// Where clients connect.
    pub socket: PathBuf,
    /// Whether the present configuration could not be served, and the last good one is.
    pub is_last_good: bool,
    /// None: nothing is recorded.
    pub recorder: Option<Recorder>,
}

impl Observer {
    pub fn report(&self, state: State, clients: ClientsReport) -> Report {
        let stalls = self.stalls();
        let allocations = allocator::counts();
        let memory = Usage::now();
        Report {
            format: REPORT_FORMAT,
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            board: self.plan.board.clone(),
            device: self.device.clone(),
            plan: self.plan.hash.to_string(),
            manifest: self.plan.manifest.display().to_string(),
            policy: self.plan.policy.name().into(),
            socket: self.socket.display().to_string(),
            last_good: self.is_last_good,
            state,
            start: self.start.report(&self.plan),
            ready_ns: self.ready_ns,
            seconds: clock::now_ns().saturating_sub(self.ready_ns) as f64 / 1e9,
            tasks: self.tasks(state, &stalls),
            clients,
            channel_faults: self.metrics.channel_faults.load(Relaxed),
            allocations_after_ready: allocations.realtime,
            allocations_elsewhere: allocations.elsewhere,
            page_faults_after_ready: self.page_faults.since_ready(),
            decision_us: decision(self.metrics.decisions.quantiles()),
            host_stalls: stalls,
            partitions: self.partitions(),
            stages: self.stages(),
            lending: self.lending(),
            gpu: self.gpu.as_ref().map(GpuWatch::report),
            paging: paging(&self.metrics.paging),
            memory: MemoryReport {
                planned_bytes: self.plan.memory.total_bytes(),
                peak_bytes: memory.peak_bytes,
                resident_bytes: memory.resident_bytes,
                locked_bytes: memory.locked_bytes,
            },
            threads: self.threads.clone(),
            watchdog: self.watchdog.report(),
            recorder: self.recorder.as_ref().map(Recorder::report),
            notes: recent().iter().map(note).collect(),
            log_dropped: rt_events::dropped(),
            lines_dropped: logging::dropped(),
            missing: self.missing.clone(),
        }
    }

    /// One line about now, for the service manager.
    pub fn status(&self, state: State, clients: &ClientsReport) -> String {
        let counted: Vec<Counted> = self
            .metrics
            .tasks
            .iter()
            .map(|task| task.outcomes.now())
            .collect();
        let sum = |count: fn(&Counted) -> u64| counted.iter().map(count).sum::<u64>();
        let state = match state {
            State::Starting => "starting",
            State::Serving => "serving",
            State::Draining => "answering what was accepted",
            State::Terminated => "done",
        };
        let start = self.start.words();
        let start = start.map_or(String::new(), |words| format!(", {words}"));
        let mut line = format!(
            "{state}{start}: plan {:.8}, {} of {} clients; {} frames, {} on time, {} late, {} rejected, {} failed",
            self.plan.hash.to_string(),
            clients.in_use,
            clients.slots,
            sum(|task| task.submitted),
            sum(|task| task.of(Outcome::OnTime)),
            sum(|task| task.of(Outcome::Late)),
            sum(|task| task.rejected().total()),
            sum(|task| task.failed().total()),
        );
        if let Some(lending) = lending::status(&self.plan, &self.metrics) {
            line.push_str("; ");
            line.push_str(&lending);
        }
        if !self.missing.is_empty() {
            line.push_str("; without ");
            line.push_str(&self.missing.join(", "));
        }
        line.push_str(last_good_words(self.is_last_good));
        line
    }

    fn tasks(&self, state: State, stalls: &StallsReport) -> Vec<TaskReport> {
        let tasks = (0..).map(TaskId).zip(&self.metrics.tasks);
        let mut reports: Vec<TaskReport> = tasks
            .map(|(task, metrics)| self.task(task, metrics, state))
            .collect();
        for span in self.metrics.late.iter() {
            let overlaps = |stall: &StallReport| {
                stall.start_ns <= span.end_ns && span.start_ns <= stall.end_ns
            };
            if stalls.list.iter().any(overlaps) {
                reports[TaskId::index(span.task)].late_in_host_stall += 1;
            }
        }
        reports
    }

    fn task(&self, task: TaskId, metrics: &TaskMetrics, state: State) -> TaskReport {
        let plan = self.plan.task(task);
        let counted = metrics.outcomes.now();
        let (open, lost) = match state {
            State::Starting | State::Serving | State::Draining => (counted.open(), 0),
            State::Terminated => (0, counted.open()),
        };
        let model = &self.plan.models[plan.model.index()];
        let exits = &metrics.exits[..usize::from(model.stages)];
        let (latency, slack) = (metrics.latency.now(), metrics.slack.now());
        TaskReport {
            name: plan.name.clone(),
            model: model.name.clone(),
            partition: self.plan.partitions[plan.partition.index()].name.clone(),
            after: plan
                .after
                .as_ref()
                .map(|after| self.plan.task(after.first).name.clone()),
            deadline_us: plan.deadline.map(|deadline| deadline.as_nanos() / 1_000),
            rate_hz: plan.hz(),
            clients: plan.client_slots.len() as u64,
            reserved_hz: self.reserved_hz(task),
            criticality: match plan.criticality {
                Criticality::RealTime => "real-time",
                Criticality::BestEffort => "best-effort",
            }
            .into(),
            start: self.start.task_report(metrics),
            submitted: counted.submitted,
            on_time: counted.of(Outcome::OnTime),
            late: counted.of(Outcome::Late),
            late_in_host_stall: 0,
            rejected: counted.rejected(),
            failed: counted.failed(),
            offloaded: metrics.offloaded.load(Relaxed),
            prepared: metrics.prepared.load(Relaxed),
            copied_bytes: metrics.copied_bytes.load(Relaxed),
            prepared_by_gpu: metrics.prepared_by_gpu.load(Relaxed),
            overruns: metrics.overruns.load(Relaxed),
            overrun_worst: metrics.overrun_worst.load(Relaxed),
            demotions: metrics.demotions.load(Relaxed),
            demoted: metrics.demotions.load(Relaxed) > metrics.reinstatements.load(Relaxed),
            open,
            lost,
            exits: exits.iter().map(|n| n.load(Relaxed)).collect(),
            not_finite: metrics.not_finite.load(Relaxed),
            latency_us: latency_report(metrics.latency.quantiles()),
            latency_buckets: latency.buckets_us(),
            slack_us: SlackReport {
                count: slack.count(),
                p50: slack.at(500) / 1_000,
                p1: slack.at(10) / 1_000,
                p01: slack.at(1) / 1_000,
            },
            slack_buckets: slack.buckets_us(),
        }
    }

    fn reserved_hz(&self, task: TaskId) -> Option<f64> {
        let is_reserved = self.plan.scheduler.tasks[task.index()].reserved;
        self.plan.task(task).hz().filter(|_| is_reserved)
    }

    fn stages(&self) -> Vec<StageReport> {
        let report = |(key, times): (StageKey, StageTimes)| StageReport {
            model: self.plan.models[key.model.index()].name.clone(),
            stage: key.stage.0.into(),
            batch: key.batch.into(),
            partition: self.plan.partitions[key.partition.index()].name.clone(),
            budget_us: self.budget_us(&key),
            count: times.count,
            sum_us: times.sum_ns / 1_000,
            max_us: times.max_ns / 1_000,
        };
        self.metrics.stages.iter().map(report).collect()
    }

    fn budget_us(&self, key: &StageKey) -> u64 {
        let stage = &self.plan.scheduler.models[key.model.index()].stages[key.stage.index()];
        let mut times = stage.times.iter();
        let time = times.find(|time| time.batch == key.batch);
        let time = time.and_then(|time| time.on.get(key.partition.index()));
        time.map_or(0, |time| time.budget.as_nanos() / 1_000)
    }

    fn running(&self, stage: RunningStage) -> RunningReport {
        RunningReport {
            model: self.plan.models[stage.model.index()].name.clone(),
            stage: stage.stage.0.into(),
            batch: stage.batch.into(),
            best_effort: stage.criticality == Criticality::BestEffort,
        }
    }

    fn stalls(&self) -> StallsReport {
        let after_ready = |stall: &Stall| stall.start_ns >= self.ready_ns;
        let mut list: Vec<StallReport> = self
            .probes
            .iter()
            .flat_map(StallProbe::stalls)
            .filter(after_ready)
            .map(|stall| StallReport {
                start_ns: stall.start_ns,
                end_ns: stall.end_ns,
            })
            .collect();
        list.sort_unstable_by_key(|stall| stall.start_ns);
        let lengths = || {
            list.iter()
                .map(|stall| (stall.end_ns - stall.start_ns) / 1_000)
        };
        StallsReport {
            count: list.len() as u64,
            total_us: lengths().sum(),
            longest_us: lengths().max().unwrap_or(0),
            unlisted: self.unlisted(),
            list,
        }
    }

    /// Stalls that found the probes' lists full.
    fn unlisted(&self) -> u64 {
        let beyond = |probe: &StallProbe| probe.count().saturating_sub(probe.stalls().len() as u64);
        self.probes.iter().map(beyond).sum()
    }

    fn lending(&self) -> Option<LendingReport> {
        let metrics = self.metrics.lending.as_ref()?;
        Some(lending::report(&self.plan, metrics))
    }

    fn partitions(&self) -> Vec<PartitionReport> {
        let partitions = self.plan.partitions.iter().zip(&self.metrics.partitions);
        partitions
            .map(|(plan, metrics)| PartitionReport {
                name: plan.name.clone(),
                device: plan.device.name().into(),
                units: plan.units() as u64,
                actions: metrics.actions.load(Relaxed),
                members: metrics.members.load(Relaxed),
                finished: metrics.finished.load(Relaxed),
                preempted: metrics.preempted.load(Relaxed),
                not_run: metrics.not_run.load(Relaxed),
                failed: metrics.failed.load(Relaxed),
                busy_us: metrics.busy_ns.load(Relaxed) / 1_000,
                best_effort_us: metrics.best_effort_ns.load(Relaxed) / 1_000,
                cores: plan.cores.clone(),
                running: metrics.running.now().map(|stage| self.running(stage)),
            })
            .collect()
    }
}

fn note(note: &Note) -> NoteReport {
    NoteReport {
        at_ns: note.at_ns,
        event: note.declaration.name.into(),
        level: note.declaration.level.as_str().to_ascii_lowercase(),
        text: note.text.clone(),
    }
}

fn paging(metrics: &PagingMetrics) -> PagingReport {
    PagingReport {
        hits: metrics.hits.load(Relaxed),
        misses: metrics.misses.load(Relaxed),
        evictions: metrics.evictions.load(Relaxed),
        failed: metrics.failed.load(Relaxed),
        load_us: latency_report(metrics.loads.quantiles()),
    }
}

fn latency_report(ns: Quantiles) -> LatencyReport {
    LatencyReport {
        count: ns.count,
        p50: ns.p50 / 1_000,
        p99: ns.p99 / 1_000,
        p999: ns.p999 / 1_000,
        max: ns.max / 1_000,
    }
}

fn decision(ns: Quantiles) -> DecisionReport {
    let us = |ns: u64| ns as f64 / 1e3;
    DecisionReport {
        count: ns.count,
        p50: us(ns.p50),
        p99: us(ns.p99),
        p999: us(ns.p999),
        max: us(ns.max),
    }
}
