//! `[timing]`: how long things really take; `[[fault]]`: what goes wrong.

use punctual_core::{ClientId, Instant, ModelId, Nanos, Readiness, STAGES_MAX};
use punctual_diagnostics::{Problems, Rule, Section, Spanned};
use punctual_simulator::faults::Fault;
use punctual_simulator::scenario::Task;
use punctual_simulator::timing::{Durations, Overruns, Quantile, SlowPhase, Tail};
use thiserror::Error;

use super::names;
use super::task::first_clients;

/// Points that are no distribution of times.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("these are no quantiles of a multiple of the budget")]
#[non_exhaustive]
pub struct QuantilesOutOfOrder;

impl Rule for QuantilesOutOfOrder {
    fn rule(&self) -> &'static str {
        "pairs of a share (0 to 1) and a multiple of the budget (0.001 to 1000), both rising"
    }

    fn help(&self) -> String {
        "write pairs such as [[0.5, 0.8], [1.0, 1.0]]".into()
    }
}

pub(super) fn read(root: &mut Section<'_, '_>, problems: &mut Problems<'_>) -> Durations {
    let mut durations = Durations::default();
    let mut section = root.table_or_empty("timing", problems);
    if let Some(points) = section.optional::<Vec<Vec<f64>>>("quantiles", problems) {
        durations.quantiles = quantiles(points, problems);
    }
    if let Some(mut tail) = section.table("tail", problems) {
        durations.tail = Some(Tail {
            from: tail.number("from", 0.99, 0.5..=0.999_999, "", problems),
            shape: tail.required_number("shape", 0.1..=100.0, "", problems),
            most: tail.required_number("most", 1.0..=1e4, "", problems),
        });
        tail.finish(problems);
    }
    if let Some(mut overruns) = section.table("overruns", problems) {
        durations.overruns = Some(Overruns {
            probability: overruns.required_number("probability", 0.0..=1.0, "", problems),
            factor: overruns.required_number("factor", 1.0..=1e4, "", problems),
        });
        overruns.finish(problems);
    }
    let all = 0..=usize::MAX;
    durations.slow = section.list("slow", all, problems, |mut slow, problems| {
        let (from, until) = from_until(&mut slow, problems);
        let ramp_s = slow.number("ramp_s", 0.0, 0.0..=1e6, " s", problems);
        let factor = slow.required_number("factor", 0.01..=100.0, "", problems);
        slow.finish(problems);
        Some(SlowPhase {
            from,
            until: until.max(from),
            ramp: Nanos::new((ramp_s * 1e9) as u64),
            factor,
        })
    });
    let mut share = |key, default| section.number(key, default, 0.0..=1.0, "", problems);
    durations.failures = share("failures", 0.0);
    durations.stopping_least = share("stopping_least", 1.0);
    durations.preparation_least = share("preparation_least", 1.0);
    section.finish(problems);
    durations
}

fn quantiles(points: Spanned<Vec<Vec<f64>>>, problems: &mut Problems<'_>) -> Vec<Quantile> {
    let pair = |point: &Vec<f64>| match point[..] {
        [share, factor] => Some(Quantile { share, factor }),
        _ => None,
    };
    let pairs: Option<Vec<Quantile>> = points.value.iter().map(pair).collect();
    let in_range =
        |q: &Quantile| (0.0..=1.0).contains(&q.share) && (1e-3..=1e3).contains(&q.factor);
    let rises = |two: &[Quantile]| two[0].share < two[1].share && two[0].factor <= two[1].factor;
    let good = pairs.filter(|pairs| pairs.iter().all(in_range) && pairs.windows(2).all(rises));
    if good.is_none() {
        problems.add(&points.place, QuantilesOutOfOrder);
    }
    good.unwrap_or_default()
}

fn at(section: &mut Section<'_, '_>, key: &'static str, problems: &mut Problems<'_>) -> Instant {
    let seconds = section.required_number(key, 0.0..=1e7, " s", problems);
    Instant::from_nanos((seconds * 1e9) as u64)
}

fn from_until(section: &mut Section<'_, '_>, problems: &mut Problems<'_>) -> (Instant, Instant) {
    let from = at(section, "from_s", problems);
    (from, at(section, "until_s", problems))
}

#[derive(Clone, Copy)]
enum Kind {
    ClientGone,
    ClientStalled,
    PayloadUnreadable,
    ClockStep,
    SlowClient,
    CompletionLost,
    TransferLost,
    DeviceFails,
    BestEffortShed,
    ProfileLies,
    Loading,
}

const KINDS: [(&str, Kind); 11] = [
    ("client-gone", Kind::ClientGone),
    ("client-stalled", Kind::ClientStalled),
    ("payload-unreadable", Kind::PayloadUnreadable),
    ("clock-step", Kind::ClockStep),
    ("slow-client", Kind::SlowClient),
    ("completion-lost", Kind::CompletionLost),
    ("transfer-lost", Kind::TransferLost),
    ("device-fails", Kind::DeviceFails),
    ("best-effort-shed", Kind::BestEffortShed),
    ("profile-lies", Kind::ProfileLies),
    ("loading", Kind::Loading),
];

pub(super) fn faults(
    root: &mut Section<'_, '_>,
    tasks: &[Task],
    models: &[String],
    problems: &mut Problems<'_>,
) -> Vec<Fault> {
    let all = 0..=usize::MAX;
    root.list("fault", all, problems, |mut section, problems| {
        // If the kind is unknown, the other keys cannot be judged.
        let kind = section.word("kind", &KINDS, problems)?;
        let fault = fault(kind, &mut section, tasks, models, problems);
        section.finish(problems);
        Some(fault)
    })
}

fn fault(
    kind: Kind,
    s: &mut Section<'_, '_>,
    tasks: &[Task],
    models: &[String],
    problems: &mut Problems<'_>,
) -> Fault {
    match kind {
        Kind::ClientGone => Fault::ClientGone {
            client: client(s, tasks, problems),
            at: at(s, "at_s", problems),
        },
        Kind::ClientStalled => {
            let client = client(s, tasks, problems);
            let (from, until) = from_until(s, problems);
            Fault::ClientStalled {
                client,
                from,
                until,
            }
        }
        Kind::PayloadUnreadable => {
            let client = client(s, tasks, problems);
            let (from, until) = from_until(s, problems);
            Fault::PayloadUnreadable {
                client,
                from,
                until,
            }
        }
        Kind::ClockStep => Fault::ClockStep {
            client: client(s, tasks, problems),
            at: at(s, "at_s", problems),
            by_ns: (s.required_number("by_ms", -1e9..=1e9, " ms", problems) * 1e6) as i64,
        },
        Kind::SlowClient => Fault::SlowClient {
            client: client(s, tasks, problems),
            takes: Nanos::new(
                (s.required_number("takes_ms", 0.0..=1e9, " ms", problems) * 1e6) as u64,
            ),
        },
        Kind::CompletionLost => Fault::CompletionLost {
            nth: s.required_whole("nth", 0..=u64::from(u32::MAX), problems),
        },
        Kind::TransferLost => Fault::TransferLost {
            nth: s.required_whole("nth", 0..=u64::from(u32::MAX), problems),
        },
        Kind::DeviceFails => {
            let (from, until) = from_until(s, problems);
            Fault::DeviceFails { from, until }
        }
        Kind::BestEffortShed => {
            let (from, until) = from_until(s, problems);
            Fault::BestEffortShed { from, until }
        }
        Kind::ProfileLies => Fault::ProfileLies {
            model: ModelId(names::index(s, "model", "model", models, problems) as u16),
            factor: s.required_number("factor", 0.01..=100.0, "", problems),
        },
        Kind::Loading => Fault::Loading {
            at: at(s, "at_s", problems),
            said: Readiness {
                model: ModelId(names::index(s, "model", "model", models, problems) as u16),
                stages: s.required_whole("stages", 0..=STAGES_MAX as u64, problems) as u8,
                as_measured: s.or("as_measured", true, problems).value,
                stays_general: s.or("stays_general", false, problems).value,
            },
        },
    }
}

/// A client of a task, counted from 0 among that task's own.
fn client(s: &mut Section<'_, '_>, tasks: &[Task], problems: &mut Problems<'_>) -> ClientId {
    let names: Vec<String> = tasks.iter().map(|task| task.name.clone()).collect();
    let task = names::index(s, "task", "task", &names, problems);
    let most = tasks.get(task).map_or(1, |task| task.clients) - 1;
    let own = s.whole("client", 0, 0..=u64::from(most), problems).value as u16;
    let first = first_clients(tasks).get(task).copied();
    ClientId(first.unwrap_or(0) + own)
}
