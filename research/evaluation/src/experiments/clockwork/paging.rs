//! 3,601 networks on a GPU that holds 201.

use std::collections::BTreeMap;

use punctual_core::{Action, ActionId, Event, Instant, ModelId, Nanos, TaskId, Verdict};

use super::{ms, outcome, policy};
use crate::workloads::clockwork::many_models;
use punctual_report::{Table, percent};
use punctual_simulator::observer::{Observer, Span};
use punctual_simulator::scenario::Scenario;

const MINUTE_NS: u64 = 60_000_000_000;
/// The minute in which the first network of the major workload joins: the paper's t = 0.
const START: usize = 5;
/// Minutes of the paper's clock that are shown.
const SHOWN: [i64; 13] = [-5, -1, 0, 1, 2, 3, 5, 10, 20, 30, 40, 50, 59];

pub(super) fn run() -> String {
    let scenario = many_models(Nanos::new(65 * MINUTE_NS));
    let mut watch = Watch::new(&scenario, 66);
    let outcome = outcome(&scenario, &policy("clockwork"), 1, &mut watch);
    let headings = [
        "minute",
        "networks",
        "minor in time/s",
        "minor mean ms",
        "major in time/s",
        "cold starts",
        "transfers/s",
        "GPU busy",
        "bus busy",
        "longest ms",
        "late",
    ];
    let mut table = Table::new(&headings, 0);
    for minute in SHOWN {
        let index = (minute + START as i64) as usize;
        let joined = (minute.max(-1) + 1) * 60;
        table.row(watch.minutes[index].cells(minute, joined));
    }
    let total = &outcome.total;
    format!(
        "{}\nIn all {} requests, {} answers in time, {} late, {} rejected, {} failed, {} lost; the longest answer \
         took {} ms. {} transfers.\n",
        table.markdown(),
        total.submitted,
        total.on_time,
        total.late,
        total.rejected.sum(),
        total.failed.sum(),
        total.lost,
        ms(total.latencies.max()),
        outcome.effort.loads,
    )
}

/// A minute of the run, by the time of the verdict or event.
#[derive(Clone, Debug, Default)]
struct Minute {
    minor: Class,
    major: Class,
    arrivals: u64,
    cold: u64,
    /// Requests of this minute that were not answered in time.
    missed: u64,
    transfers: u64,
    gpu_ns: u64,
    bus_ns: u64,
}

#[derive(Clone, Debug, Default)]
struct Class {
    on_time: u64,
    late: u64,
    latency_sum: u64,
    latency_max: u64,
}

impl Minute {
    fn cells(&self, minute: i64, joined: i64) -> Vec<String> {
        let answers = (self.minor.on_time + self.minor.late).max(1);
        let share = |part: u64, whole: u64| percent(part as f64 / whole.max(1) as f64);
        vec![
            minute.to_string(),
            joined.to_string(),
            format!("{:.0}", self.minor.on_time as f64 / 60.0),
            ms(self.minor.latency_sum / answers),
            format!("{:.0}", self.major.on_time as f64 / 60.0),
            share(self.cold, self.arrivals),
            format!("{:.0}", self.transfers as f64 / 60.0),
            share(self.gpu_ns, MINUTE_NS),
            share(self.bus_ns, MINUTE_NS),
            ms(self.minor.latency_max.max(self.major.latency_max)),
            (self.minor.late + self.major.late).to_string(),
        ]
    }
}

impl Class {
    fn answered(&mut self, verdict: Verdict, latency: u64) {
        self.on_time += u64::from(verdict == Verdict::OnTime);
        self.late += u64::from(verdict == Verdict::Late);
        self.latency_sum += latency;
        self.latency_max = self.latency_max.max(latency);
    }
}

/// Watches which weights are there, and counts by the minute.
#[derive(Debug)]
pub(super) struct Watch {
    model_of: Vec<ModelId>,
    resident: Vec<bool>,
    transfers: BTreeMap<u64, (ModelId, Instant)>,
    minor: TaskId,
    minutes: Vec<Minute>,
}

impl Watch {
    /// For a scenario whose last task is the minor workload.
    pub(super) fn new(scenario: &Scenario, minutes: usize) -> Self {
        let model_of: Vec<ModelId> = scenario
            .tasks
            .iter()
            .map(|task| task.config.model)
            .collect();
        Self {
            minor: TaskId(model_of.len() as u16 - 1),
            model_of,
            resident: vec![false; scenario.models.len()],
            transfers: BTreeMap::new(),
            minutes: vec![Minute::default(); minutes],
        }
    }

    fn minute(&mut self, at: Instant) -> &mut Minute {
        let last = self.minutes.len() - 1;
        &mut self.minutes[((at.as_nanos() / MINUTE_NS) as usize).min(last)]
    }

    fn loaded(&mut self, now: Instant, action: ActionId) {
        let Some((model, ordered)) = self.transfers.remove(&action.0) else {
            return;
        };
        self.resident[model.index()] = true;
        let minute = self.minute(now);
        minute.transfers += 1;
        minute.bus_ns += now.since(ordered).as_nanos();
    }

    /// Requests that were not answered in time, after the first minute.
    pub(super) fn missed_warm(&self) -> u64 {
        self.minutes[1..].iter().map(|minute| minute.missed).sum()
    }

    /// Requests that came when their weights were not there, and all.
    pub(super) fn cold_starts(&self) -> (u64, u64) {
        let cold = self.minutes.iter().map(|minute| minute.cold).sum();
        (
            cold,
            self.minutes.iter().map(|minute| minute.arrivals).sum(),
        )
    }
}

impl Observer for Watch {
    fn event(&mut self, now: Instant, event: &Event) {
        match event {
            Event::Arrived(arrival) => {
                let model = self.model_of[arrival.task.index()];
                let cold = !self.resident[model.index()];
                let minute = self.minute(now);
                minute.arrivals += 1;
                minute.cold += u64::from(cold);
            }
            Event::Loaded { action, .. } => self.loaded(now, *action),
            _ => {}
        }
    }

    fn action(&mut self, now: Instant, action: &Action) {
        match action {
            Action::Load { id, model } => {
                self.transfers.insert(id.0, (*model, now));
            }
            Action::Unload { model } => self.resident[model.index()] = false,
            Action::Reply(reply) if reply.answer.is_none() => {
                self.minute(reply.captured).missed += 1;
            }
            Action::Reply(reply) => {
                let late = reply.verdict != Verdict::OnTime;
                self.minute(reply.captured).missed += u64::from(late);
                let latency = now.since(reply.captured).as_nanos();
                let minor = reply.task == self.minor;
                let minute = self.minute(now);
                let class = if minor {
                    &mut minute.minor
                } else {
                    &mut minute.major
                };
                class.answered(reply.verdict, latency);
            }
            _ => {}
        }
    }

    fn ran(&mut self, span: &Span) {
        self.minute(span.to).gpu_ns += span.to.since(span.from).as_nanos();
    }
}
