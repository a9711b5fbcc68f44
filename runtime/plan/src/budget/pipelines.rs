//! How the time of a frame is divided between the parts of its pipeline.
//!
//! The dynamic programme of Nexus ([`split`]) looks for the division that takes the least: here, of the density of each task, its
//! work of a frame over the time that is left for it (or its period, if that is shorter). EDF keeps all promises on a partition whose
//! densities sum up to one, so the least sum leaves the most room; whether they are kept is for the offline test to say.

use punctual_core::{Config, Nanos, OPEN_BURSTS, SPAN_MAX};
use punctual_diagnostics::Problems;

use super::arrival::ArrivalBound;
use super::promises::PromiseRule;
use crate::flow::Flow;
use crate::resolve::Task;
use crate::split::split;

/// The steps in which time is divided.
const SEGMENTS: u32 = 256;

/// Gives each first task of a pipeline its part of the time, and its parts theirs. Whether there are any.
pub(super) fn divide(
    tasks: &mut [Task],
    arrivals: &[ArrivalBound],
    config: &Config,
    problems: &mut Problems<'_>,
) -> bool {
    let mut first = 0;
    let mut any = false;
    for group in tasks.chunk_by_mut(|one, other| one.group == other.group) {
        let here = first..first + group.len();
        first = here.end;
        let Some(deadline) = group[0]
            .frame_deadline
            .filter(|_| group.iter().any(Task::is_part))
        else {
            continue;
        };
        any = true;
        let parts: Vec<Part> = here
            .zip(&*group)
            .map(|(at, task)| Part::of(task, at, &arrivals[at], config))
            .collect();
        let flow = Flow::Series(vec![
            Flow::Stage(0),
            Flow::Parallel((1..parts.len()).map(Flow::Stage).collect()),
        ]);
        // More frames than that at a time have no reservation for their parts.
        let period = group[0].period.unwrap_or(SPAN_MAX);
        let ready = parts[1..].iter().map(|part| part.arrival).max();
        let latest = period.saturating_mul(OPEN_BURSTS as u64 - 1);
        let latest = latest.saturating_sub(ready.unwrap_or_default());
        let density = |part: usize, time: Nanos| match part {
            0 if time > latest => f64::INFINITY,
            _ => parts[part].density(time),
        };
        let Some(found) = split(&flow, density, deadline, SEGMENTS) else {
            let least = |part: &Part| part.arrival + part.work;
            let after = parts[1..].iter().map(least).max().unwrap_or_default();
            let cause = PromiseRule::PipelineUnreachable {
                first: least(&parts[0]),
                after,
                deadline,
            };
            problems.add(&group[0].deadline_place, cause);
            continue;
        };
        let own = found.budgets[0];
        group[0].deadline = Some(own);
        for part in &mut group[1..] {
            part.first_deadline = Some(own);
        }
    }
    any
}

/// What a task of a pipeline needs for a frame.
struct Part {
    /// Until its inputs are ready, and after its answers.
    arrival: Nanos,
    /// The mandatory stages of all of its requests.
    work: Nanos,
    /// None: as often as it likes.
    period: Option<Nanos>,
}

impl Part {
    fn of(task: &Task, position: usize, arrival: &ArrivalBound, config: &Config) -> Self {
        let settings = &config.tasks[position];
        let stages = &config.models[task.model].stages[..=usize::from(task.mandatory_exit)];
        let of_request = stages.iter().fold(Nanos::ZERO, |sum, stage| {
            sum + stage.times[0].on[settings.partition.index()].budget + config.dispatch_cost
        });
        // Of best-effort crops none is promised.
        let requests = if task.is_best_effort() { 1 } else { task.burst };
        Self {
            arrival: arrival.channel + arrival.prepare_worst + config.egress_bound,
            work: of_request.saturating_mul(requests.into()),
            period: task.period,
        }
    }

    fn density(&self, time: Nanos) -> f64 {
        let window = time.saturating_sub(self.arrival);
        if window < self.work {
            return f64::INFINITY;
        }
        let window = self.period.map_or(window, |period| period.min(window));
        self.work.as_nanos() as f64 / window.as_nanos().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(arrival_us: u64, work_us: u64, period_us: u64) -> Part {
        Part {
            arrival: Nanos::from_micros(arrival_us),
            work: Nanos::from_micros(work_us),
            period: Some(Nanos::from_micros(period_us)),
        }
    }

    #[test]
    fn a_part_takes_less_of_a_core_the_more_time_it_has_until_that_is_its_period() {
        let part = part(200, 1_000, 5_000);
        let at = |us| part.density(Nanos::from_micros(us));
        assert!(at(1_199).is_infinite());
        assert_eq!(at(1_200), 1.0);
        assert_eq!(at(2_200), 0.5);
        assert_eq!(at(5_200), 0.2);
        assert_eq!(at(9_000), 0.2);
    }
}
