//! Makes reports: gathers what the real-time threads counted, on an ordinary thread.

mod lending;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use punctual_core::{Criticality, TaskId};
use punctual_plan::Plan;
use punctual_platform::memory::Usage;
use punctual_platform::stall::{Stall, StallProbe};
use punctual_platform::{allocator, clock, logging};

use crate::gpu_watch::GpuWatch;
use crate::granted::ThreadReport;
use crate::manager::last_good_words;
use crate::metrics::{Metrics, PagingMetrics, Quantiles, TaskMetrics};
use crate::page_faults::PageFaults;
use crate::recorder::Recorder;
use crate::report::{
    ClientsReport, DecisionReport, LatencyReport, LendingReport, MemoryReport, PagingReport,
    PartitionReport, REPORT_FORMAT, Report, StallReport, StallsReport, State, TaskReport,
};
use crate::rt_events;
use crate::watchdog::Watchdog;
pub use lending::words as lending_words;

/// Everything a report is made of.
pub struct Observer {
    pub plan: Arc<Plan>,
    pub metrics: Arc<Metrics>,
    pub probes: Vec<StallProbe>,
    pub page_faults: PageFaults,
    pub ready_ns: u64,
    pub missing: Vec<String>,
    pub device: String,
    pub watchdog: Watchdog,
    /// How the threads were scheduled at the start.
    pub threads: Vec<ThreadReport>,
    /// None if there is none to watch.
    pub gpu: Option<GpuWatch>,
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
            last_good: self.is_last_good,
            state,
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
            log_dropped: rt_events::dropped(),
            lines_dropped: logging::dropped(),
            missing: self.missing.clone(),
        }
    }

    /// One line about now, for the service manager.
    pub fn status(&self, state: State, clients: ClientsReport) -> String {
        let sum =
            |count: fn(&TaskMetrics) -> u64| self.metrics.tasks.iter().map(count).sum::<u64>();
        let state = match state {
            State::Serving => "serving",
            State::Draining => "answering what was accepted",
            State::Terminated => "done",
        };
        let mut line = format!(
            "{state}: plan {:.8}, {} of {} clients; {} frames, {} on time, {} late, {} rejected, {} failed",
            self.plan.hash.to_string(),
            clients.in_use,
            clients.slots,
            sum(|task| task.submitted.load(Relaxed)),
            sum(|task| task.on_time.load(Relaxed)),
            sum(|task| task.late.load(Relaxed)),
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
        let tasks = self.plan.tasks.iter().zip(&self.metrics.tasks);
        let mut reports: Vec<TaskReport> = tasks
            .map(|(plan, metrics)| {
                let exits = usize::from(self.plan.models[plan.model.index()].stages);
                task(&plan.name, plan.criticality, exits, state, metrics)
            })
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
            })
            .collect()
    }
}

fn task(
    name: &str,
    criticality: Criticality,
    exits: usize,
    state: State,
    metrics: &TaskMetrics,
) -> TaskReport {
    // Verdicts before submissions: what arrives in between counts as open, never as negative.
    let rejected = metrics.rejected();
    let failed = metrics.failed();
    let on_time = metrics.on_time.load(Relaxed);
    let late = metrics.late.load(Relaxed);
    let submitted = metrics.submitted.load(Relaxed);
    let unanswered = submitted.saturating_sub(on_time + late + rejected.total() + failed.total());
    let (open, lost) = match state {
        State::Serving | State::Draining => (unanswered, 0),
        State::Terminated => (0, unanswered),
    };
    TaskReport {
        name: name.into(),
        criticality: match criticality {
            Criticality::RealTime => "real-time",
            Criticality::BestEffort => "best-effort",
        }
        .into(),
        submitted,
        on_time,
        late,
        late_in_host_stall: 0,
        rejected,
        failed,
        offloaded: metrics.offloaded.load(Relaxed),
        overruns: metrics.overruns.load(Relaxed),
        overrun_worst: metrics.overrun_worst.load(Relaxed),
        demotions: metrics.demotions.load(Relaxed),
        demoted: metrics.demotions.load(Relaxed) > metrics.reinstatements.load(Relaxed),
        open,
        lost,
        exits: metrics.exits[..exits]
            .iter()
            .map(|n| n.load(Relaxed))
            .collect(),
        not_finite: metrics.not_finite.load(Relaxed),
        latency_us: latency(metrics.latency.quantiles()),
    }
}

fn paging(metrics: &PagingMetrics) -> PagingReport {
    PagingReport {
        hits: metrics.hits.load(Relaxed),
        misses: metrics.misses.load(Relaxed),
        evictions: metrics.evictions.load(Relaxed),
        failed: metrics.failed.load(Relaxed),
        load_us: latency(metrics.loads.quantiles()),
    }
}

fn latency(ns: Quantiles) -> LatencyReport {
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
