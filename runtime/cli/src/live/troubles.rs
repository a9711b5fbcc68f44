//! What is not well with a daemon, by its report: each with its value, its limit and what to do.

use punctual_daemon::{Report, State, TaskReport};
use serde::Serialize;

/// Of the answers of a real-time task, the share that may be late: beyond it something is wrong.
const LATE_SHARE_MAX: f64 = 0.01;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gravity {
    /// All that is promised is kept, with less margin.
    Minor,
    /// Something that is promised is not kept, or may not be.
    Grave,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trouble {
    pub gravity: Gravity,
    /// In a line.
    pub what: String,
    pub remedy: String,
}

fn grave(what: String, remedy: &str) -> Trouble {
    Trouble {
        gravity: Gravity::Grave,
        what,
        remedy: remedy.to_owned(),
    }
}

fn minor(what: String, remedy: &str) -> Trouble {
    Trouble {
        gravity: Gravity::Minor,
        ..grave(what, remedy)
    }
}

/// All of them, the grave ones first.
pub fn of(report: &Report) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    if matches!(report.state, State::Draining | State::Terminated) {
        troubles.push(grave(
            "the daemon serves no more: it ends".to_owned(),
            "wait for the next one, or look at its log",
        ));
    }
    troubles.extend(start(report));
    if report.last_good {
        troubles.push(grave(
            "the last good configuration is served, as the present one cannot be".to_owned(),
            "`punctual check` says why; correct it and restart the daemon",
        ));
    }
    troubles.extend(threads(report));
    for task in &report.tasks {
        troubles.extend(of_task(task));
    }
    troubles.extend(of_parts(report));
    troubles.extend(of_machine(report));
    troubles.sort_by_key(|trouble| trouble.gravity == Gravity::Minor);
    troubles
}

/// Whether there is nothing grave.
pub fn is_well(troubles: &[Trouble]) -> bool {
    troubles
        .iter()
        .all(|trouble| trouble.gravity == Gravity::Minor)
}

/// In a line.
pub fn words(troubles: &[Trouble]) -> String {
    let minor = troubles
        .iter()
        .filter(|trouble| trouble.gravity == Gravity::Minor);
    let minor = minor.count();
    match (troubles.len() - minor, minor) {
        (0, 0) => "all is well".to_owned(),
        (0, minor) => format!("all is well, but for {minor} minor troubles:"),
        (grave, _) => format!("NOT WELL: {grave} of {} troubles are grave:", grave + minor),
    }
}

/// What is not loaded yet, and what will not be.
fn start(report: &Report) -> impl Iterator<Item = Trouble> + '_ {
    let start = &report.start;
    let failures = start.failures.iter().map(|failure| {
        grave(
            format!(
                "model {} could not be loaded: {}",
                failure.model, failure.reason
            ),
            "copy or compile its package again and restart the daemon",
        )
    });
    let loading = start.loading && report.state != State::Terminated;
    let loading = loading.then(|| {
        minor(
            format!(
                "the start goes on: {} of {} tasks are ready",
                start.tasks_ready,
                report.tasks.len()
            ),
            "wait: frames of the others are rejected as not ready until then",
        )
    });
    failures.chain(loading)
}

fn threads(report: &Report) -> impl Iterator<Item = Trouble> + '_ {
    report.watchdog.silent.iter().map(|silent| {
        let thread = &silent.thread;
        if silent.starved_ms > silent.silent_ms {
            grave(
                format!(
                    "thread {thread} got no processor for {} ms (at {} ms the daemon ends): {}",
                    silent.starved_ms, silent.starved_bound_ms, silent.who
                ),
                "keep real-time programs of others off the daemon's cores",
            )
        } else {
            grave(
                format!(
                    "thread {thread} is silent for {} ms (at {} ms the daemon ends)",
                    silent.silent_ms, silent.bound_ms
                ),
                "the daemon ends by itself and says what the thread did; please report it",
            )
        }
    })
}

fn of_task(task: &TaskReport) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    let name = &task.name;
    if task.demoted {
        troubles.push(grave(
            format!(
                "task {name} is promised nothing: a stage of {} took {:.2} times its budget",
                task.model,
                task.overrun_worst as f64 / 1e3
            ),
            "measure the model again on this machine, or find what slows it down",
        ));
    }
    let answers = task.on_time + task.late;
    let share = task.late as f64 / answers.max(1) as f64;
    if task.late > 0 {
        let what = format!(
            "task {name}: {} of {answers} answers were late ({:.2}%, {} of them while the machine stood still)",
            task.late,
            100.0 * share,
            task.late_in_host_stall
        );
        let remedy = "`punctual explain --socket --late` says why";
        let is_much = share > LATE_SHARE_MAX && task.criticality == "real-time";
        troubles.push(if is_much {
            grave(what, remedy)
        } else {
            minor(what, remedy)
        });
    }
    if task.failed.device + task.failed.starved > 0 {
        troubles.push(grave(
            format!(
                "task {name}: {} frames failed by the device, {} as threads got no processor",
                task.failed.device, task.failed.starved
            ),
            "look at the daemon's log",
        ));
    }
    if task.overruns > 0 && !task.demoted {
        troubles.push(minor(
            format!(
                "task {name}: stages took longer than their budgets {} times, at worst {:.2} times as long",
                task.overruns,
                task.overrun_worst as f64 / 1e3
            ),
            "`punctual doctor` finds settings that cost latency; measure again, or raise budget_factor",
        ));
    }
    troubles
}

fn of_parts(report: &Report) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    if let Some(gpu) = &report.gpu
        && gpu.faults > 0
    {
        troubles.push(grave(
            format!("the GPU had {} faults", gpu.faults),
            "look at the daemon's log, and at the driver's",
        ));
    }
    if let Some(recorder) = &report.recorder {
        if recorder.failed > 0 {
            troubles.push(minor(
                format!(
                    "{} recordings could not be written into {}",
                    recorder.failed,
                    recorder.directory.display()
                ),
                "look for room and permissions there; the daemon's log says why",
            ));
        }
        if recorder.steps_lost > 0 {
            troubles.push(minor(
                format!("the recorder lost {} steps", recorder.steps_lost),
                "give ordinary threads a core of their own (`[daemon] cores`)",
            ));
        }
    }
    if report.paging.failed > 0 {
        troubles.push(grave(
            format!("weights could not be loaded {} times", report.paging.failed),
            "look at the daemon's log: the package's file changed or is damaged",
        ));
    }
    if report.channel_faults > 0 {
        troubles.push(minor(
            format!(
                "{} clients were disconnected as they broke the protocol",
                report.channel_faults
            ),
            "the daemon's log has their processes",
        ));
    }
    troubles
}

fn of_machine(report: &Report) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    for facility in &report.missing {
        troubles.push(minor(
            format!("the system does not grant {facility}"),
            "the daemon's log says how to grant it",
        ));
    }
    let stalls = &report.host_stalls;
    if stalls.count > 0 {
        troubles.push(minor(
            format!(
                "the machine stood still {} times over 1 ms, at most {:.1} ms",
                stalls.count,
                stalls.longest_us as f64 / 1e3
            ),
            "`punctual doctor` finds what costs latency",
        ));
    }
    if report.allocations_after_ready > 0 {
        troubles.push(grave(
            format!(
                "real-time threads allocated memory {} times",
                report.allocations_after_ready
            ),
            "this is a defect of Punctual; please report it",
        ));
    }
    let memory = &report.memory;
    if memory.planned_bytes > 0
        && memory.peak_bytes > memory.planned_bytes
        && memory.locked_bytes > 0
    {
        troubles.push(minor(
            format!(
                "{} MiB of memory were resident, and the plan has {} MiB",
                memory.peak_bytes >> 20,
                memory.planned_bytes >> 20
            ),
            "please report it with the manifest",
        ));
    }
    troubles
}

#[cfg(test)]
mod tests {
    use punctual_daemon::{ModelFailureReport, SilentReport};

    use super::*;

    fn well() -> Report {
        Report {
            tasks: vec![TaskReport {
                name: "front".into(),
                criticality: "real-time".into(),
                on_time: 990,
                ..TaskReport::default()
            }],
            ..Report::default()
        }
    }

    #[test]
    fn a_daemon_without_troubles_is_well() {
        assert_eq!(of(&well()), []);
        assert!(is_well(&[]));
    }

    #[test]
    fn a_start_that_goes_on_is_minor_and_a_network_that_is_not_loaded_is_grave() {
        let mut report = well();
        report.start.loading = true;
        assert!(is_well(&of(&report)) && of(&report).len() == 1);
        report.start.failures.push(ModelFailureReport::default());
        assert!(!is_well(&of(&report)));
    }

    #[test]
    fn a_few_late_answers_are_minor_and_many_are_grave() {
        let late = |late| {
            let mut report = well();
            report.tasks[0].late = late;
            of(&report)
        };
        assert!(is_well(&late(9)) && late(9).len() == 1);
        assert!(!is_well(&late(11)));
        assert!(
            late(11)[0].what.contains("11 of 1001 answers were late"),
            "{:?}",
            late(11)
        );
    }

    #[test]
    fn what_is_grave_comes_first_and_everything_has_a_remedy() {
        let mut report = well();
        report.missing.push("real-time scheduling".into());
        report.last_good = true;
        report.tasks[0].demoted = true;
        report.watchdog.silent.push(SilentReport {
            thread: "port/0".into(),
            starved_ms: 300,
            silent_ms: 2,
            ..SilentReport::default()
        });
        let troubles = of(&report);
        assert_eq!(troubles.len(), 4);
        assert_eq!(troubles[3].gravity, Gravity::Minor, "{troubles:?}");
        assert!(troubles.iter().all(|trouble| !trouble.remedy.is_empty()));
        assert!(!is_well(&troubles));
    }
}
