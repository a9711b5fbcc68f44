//! What is measured while a daemon is under attack.

use crate::account::Account;
use crate::bed::TestBed;
use crate::outcome::Failure;
use crate::records::{self, CameraCounts, Probe, Sample};

pub const MEASURES: &[(&str, &str)] = &[
    ("healthy_late", "frames"),
    ("healthy_unserved", "frames"),
    ("healthy_lost", "frames"),
    ("answer_ms_max", "ms"),
    ("unanswered", "questions"),
    ("admission_ms_max", "ms"),
    ("refused_clients", "clients"),
    ("descriptors_growth", ""),
    ("threads_growth", ""),
    ("rss_growth_kib", "KiB"),
    ("attack_cpu_share", "cores"),
    ("idle_attack_cpu_share", "cores"),
    ("rung_cpu_share", "cores"),
    ("ports_cpu_share", "cores"),
    ("refusals_cpu_share", "cores"),
    ("collapsed_outputs", ""),
    ("holes_in_use", ""),
    ("admitted_hz", "1/s"),
    ("stop_ms", "ms"),
];

/// The daemon's process as it is now.
pub fn sample(bed: &TestBed<'_>, pid: u32) -> Result<Sample, Failure> {
    let pid = pid.to_string();
    let said = bed.agent("look at the daemon", &["sample", "--once", "--pid", &pid])?;
    records::last(&said).ok_or(Failure::Missing {
        what: "the daemon's process is there",
    })
}

/// Cores that the process and its clients' ports took between two samples.
pub fn shares(began: &Sample, ended: &Sample) -> (f64, f64) {
    let span_ms = ended.at_ns.saturating_sub(began.at_ns) as f64 / 1e6;
    let share = |cpu: fn(&Sample) -> u64| cpu(ended).saturating_sub(cpu(began)) as f64 / span_ms;
    (
        share(|sample| sample.cpu_ms),
        share(|sample| sample.ports_cpu_ms),
    )
}

/// The verdicts of the healthy cameras' frames.
pub fn frames(bed: &mut TestBed<'_>, account: &Account, counts: &[CameraCounts]) {
    let sum = |count: &dyn Fn(&CameraCounts) -> u64| counts.iter().map(count).sum::<u64>();
    let late = sum(&|counts| account.late_unexplained(counts));
    let unserved = sum(&|counts| account.unserved_unexplained(counts));
    // Without a daemon there is no verdict either.
    let lost = sum(&|counts| counts.lost() + counts.gone + counts.offline);
    bed.measure("healthy_late", late as f64);
    bed.measure("healthy_unserved", unserved as f64);
    bed.measure("healthy_lost", lost as f64);
    let submitted = sum(&|counts| counts.submitted);
    bed.effect(submitted, "frames of the healthy cameras");
    let troubled = sum(&|counts| counts.late + counts.rejected_total() + counts.failed_total());
    let words = "of them late, refused or failed in a stall of the machine or its wake";
    bed.effect(troubled - late - unserved, words);
    for counts in counts {
        bed.note_unserved(counts);
        bed.picture(&counts.task, &counts.latency_us);
    }
}

/// How fast the daemon answered queries and admitted clients.
pub fn housekeeping(bed: &mut TestBed<'_>, account: &Account, probe: &Probe) {
    // Less the time in which the machine stood still: no process could have answered then.
    let slowest_ms = |slow: &[[u64; 2]], all_us: u64| {
        let took_ns = |span: &[u64; 2]| (span[1] - span[0]) - account.stalled_ns(span);
        let longest_ns = slow.iter().map(took_ns).max();
        longest_ns.map_or(all_us as f64 / 1e3, |ns| ns as f64 / 1e6)
    };
    bed.measure(
        "answer_ms_max",
        slowest_ms(&probe.slow_ns, probe.answer_us.max),
    );
    bed.measure("unanswered", probe.unanswered as f64);
    bed.measure(
        "admission_ms_max",
        slowest_ms(&probe.slow_visits_ns, probe.admission_us.max),
    );
    bed.measure("refused_clients", probe.refused_clients as f64);
    bed.effect(probe.asked, "questions at the metrics socket");
    bed.effect(probe.admitted, "honest clients admitted");
    bed.picture("answers of housekeeping", &probe.answer_us);
}
