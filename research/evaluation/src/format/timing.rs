//! `[timing]`: how long things really take; `[[fault]]`: what goes wrong.

use punctual_core::{ClientId, Instant, ModelId, Nanos};

use super::document::Section;
use super::task::first_clients;
use punctual_simulator::faults::Fault;
use punctual_simulator::scenario::Task;
use punctual_simulator::timing::{Durations, Overruns, Quantile, SlowPhase, Tail};

pub(super) fn read(root: &Section<'_>) -> Durations {
    let mut durations = Durations::default();
    let Some(section) = root.section("timing") else {
        return durations;
    };
    let points = section.pairs("quantiles");
    let rising = points
        .windows(2)
        .all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
    let in_range =
        |(share, factor): &(f64, f64)| (0.0..=1.0).contains(share) && (1e-3..=1e3).contains(factor);
    if !rising || !points.iter().all(in_range) {
        let rule =
            "pairs of a share (0 to 1) and a multiple of the budget (0.001 to 1000), both rising";
        section.wrong("quantiles", rule);
    }
    durations.quantiles = points
        .into_iter()
        .map(|(share, factor)| Quantile { share, factor })
        .collect();
    if let Some(tail) = section.section("tail") {
        durations.tail = Some(Tail {
            from: tail.number("from", 0.5..=0.999_999, Some(0.99)),
            shape: tail.number("shape", 0.1..=100.0, None),
            most: tail.number("most", 1.0..=1e4, None),
        });
        tail.end();
    }
    if let Some(overruns) = section.section("overruns") {
        durations.overruns = Some(Overruns {
            probability: overruns.number("probability", 0.0..=1.0, None),
            factor: overruns.number("factor", 1.0..=1e4, None),
        });
        overruns.end();
    }
    for slow in section.sections("slow") {
        let from = at(&slow, "from_s");
        durations.slow.push(SlowPhase {
            from,
            until: at(&slow, "until_s").max(from),
            ramp: Nanos::new((slow.number("ramp_s", 0.0..=1e6, Some(0.0)) * 1e9) as u64),
            factor: slow.number("factor", 0.01..=100.0, None),
        });
        slow.end();
    }
    durations.failures = section.number("failures", 0.0..=1.0, Some(0.0));
    durations.stopping_least = section.number("stopping_least", 0.0..=1.0, Some(1.0));
    durations.preparation_least = section.number("preparation_least", 0.0..=1.0, Some(1.0));
    section.end();
    durations
}

fn at(section: &Section<'_>, key: &'static str) -> Instant {
    Instant::from_nanos((section.number(key, 0.0..=1e7, None) * 1e9) as u64)
}

const FAULTS: [&str; 9] = [
    "client-gone",
    "client-stalled",
    "payload-unreadable",
    "clock-step",
    "completion-lost",
    "transfer-lost",
    "device-fails",
    "best-effort-shed",
    "profile-lies",
];

pub(super) fn faults(root: &Section<'_>, tasks: &[Task], models: &[String]) -> Vec<Fault> {
    let names: Vec<&str> = tasks.iter().map(|task| task.name.as_str()).collect();
    let first = first_clients(tasks);
    let mut faults = Vec::new();
    for section in root.sections("fault") {
        let client = || {
            let task = section.one_of("task", &names);
            let most = tasks.get(task).map_or(1, |task| task.clients) - 1;
            let own = section.whole("client", 0..=u32::from(most), Some(0)) as u16;
            ClientId(first.get(task).copied().unwrap_or(0) + own)
        };
        faults.push(match FAULTS[section.one_of("kind", &FAULTS)] {
            "client-gone" => Fault::ClientGone {
                client: client(),
                at: at(&section, "at_s"),
            },
            "client-stalled" => Fault::ClientStalled {
                client: client(),
                from: at(&section, "from_s"),
                until: at(&section, "until_s"),
            },
            "payload-unreadable" => Fault::PayloadUnreadable {
                client: client(),
                from: at(&section, "from_s"),
                until: at(&section, "until_s"),
            },
            "clock-step" => Fault::ClockStep {
                client: client(),
                at: at(&section, "at_s"),
                by_ns: (section.number("by_ms", -1e9..=1e9, None) * 1e6) as i64,
            },
            "completion-lost" => Fault::CompletionLost {
                nth: u64::from(section.whole("nth", 0..=u32::MAX, None)),
            },
            "transfer-lost" => Fault::TransferLost {
                nth: u64::from(section.whole("nth", 0..=u32::MAX, None)),
            },
            "device-fails" => Fault::DeviceFails {
                from: at(&section, "from_s"),
                until: at(&section, "until_s"),
            },
            "best-effort-shed" => Fault::BestEffortShed {
                from: at(&section, "from_s"),
                until: at(&section, "until_s"),
            },
            _ => Fault::ProfileLies {
                model: ModelId(section.one_of("model", models) as u16),
                factor: section.number("factor", 0.01..=100.0, None),
            },
        });
        section.end();
    }
    faults
}
