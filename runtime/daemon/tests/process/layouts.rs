//! The layout follows the load: on cores, and on the TPCs of the emulated GPU.

use std::process::Stdio;

use emulated_cuda::LoggedLaunch;
use punctual_daemon::Report;
use punctual_ipc::{ClientChannel, PixelFormat, Verdict};
use punctual_platform::clock;

use crate::division::{assert_apart, launches, logging};
use crate::emulated_gpu::{folder, profiled, turn};
use crate::support::{Daemon, Folder, LIMIT, assert_accounts, connect, result, submit};

/// Each task has a frame as often, in ns, whether the frames before were answered or not: the load stays high on a machine
/// that is slow.
const EVERY_NS: u64 = 100_000_000;

/// Of each client: one more than its task's queue holds.
const SLOTS: usize = 9;

/// A frame is not counted any longer after this number of seconds.
const FORGOTTEN: f64 = 1.2;

/// Two tasks with deadlines that any machine keeps, whatever else it does.
fn tasks(model: &str, partitions: [&str; 2], frame: &str) -> String {
    let task = |(name, partition): (&str, &str)| {
        format!(
            "[[task]]\nname = \"{name}\"\nmodel = \"{model}\"\npartition = \"{partition}\"\ncriticality = \"real-time\"\n\
             rate_hz = 0.1\ndeadline_ms = 25_000\nthreshold = 1.0\nqueue_depth = 8\nframe = {{ {frame} }}\n\n"
        )
    };
    ["near", "far"]
        .into_iter()
        .zip(partitions)
        .map(task)
        .collect()
}

/// One core does while little is asked; each task has its own when much is.
fn on_cores() -> String {
    let frame = "format = \"rgb8\", width = 320, height = 240, crop = [192, 192]";
    let layout = r#"
[daemon]
board = "host"

[[model]]
name = "signs"
package = "signs.punctual"

[[partition]]
name = "both"
cores = [0]

[[layout]]
name = "busy"
load = [1.0, inf]

[[layout.partition]]
name = "near-alone"
cores = [0]
tasks = ["near"]

[[layout.partition]]
name = "far-alone"
cores = [1]
tasks = ["far"]

"#;
    layout.to_owned() + &tasks("signs", ["both"; 2], frame)
}

/// Two TPCs each while little is asked, and four when much is: of ten frames of a task within a second.
fn on_tpcs(policy: &str) -> String {
    let frame = "format = \"rgb8\", width = 64, height = 48, crop = [24, 24]";
    let layout = r#"
[[model]]
name = "small"
package = "small.punctual"

[[partition]]
name = "first-two"
tpcs = 2
cores = [1]

[[partition]]
name = "next-two"
tpcs = 2
cores = [0]

[[layout]]
name = "busy"
load = [6.0, inf]

[[layout.partition]]
name = "first-half"
tpcs = [0, 4]
tasks = ["near"]

[[layout.partition]]
name = "second-half"
tpcs = [4, 4]
tasks = ["far"]

"#;
    let daemon =
        format!("[daemon]\nboard = \"emulated\"\ncores = [0]\nleader_wait = \"sleep\"\n{policy}\n");
    daemon + layout + &tasks("small", ["first-two", "next-two"], frame)
}

fn present(report: &Report) -> &str {
    let layouts = report.layouts.as_ref().expect("the plan has two");
    &layouts.present
}

/// What the daemon says about itself, once it comes to that: its ordinary threads may wait for a core longer than a report
/// may take.
fn report(daemon: &Daemon) -> Report {
    let limit = clock::now_ns() + LIMIT.as_nanos() as u64;
    loop {
        match Report::live(&daemon.socket()) {
            Ok(report) => return report,
            Err(error) => assert!(clock::now_ns() < limit, "{error}"),
        }
    }
}

/// Frames of all tasks until a partition of the layout for many frames has worked.
fn rush(daemon: &Daemon, clients: &mut [ClientChannel], partition: &str) {
    let finished = || {
        let report = report(daemon);
        let mut partitions = report.partitions.iter();
        let found = partitions.find(|found| found.name == partition);
        found.expect("one of the plan").finished
    };
    let (before, begin) = (finished(), clock::now_ns());
    let (mut open, mut due) = (vec![0_usize; clients.len()], begin);
    while finished() == before {
        let late = clock::now_ns() - begin > LIMIT.as_nanos() as u64;
        assert!(!late, "{:#?}", report(daemon));
        for (client, open) in clients.iter_mut().zip(&mut open) {
            if *open < SLOTS {
                submit(client);
                *open += 1;
            }
        }
        due += EVERY_NS;
        for (client, open) in clients.iter_mut().zip(&mut open) {
            *open -= answers_until(due, client);
        }
    }
    for (client, open) in clients.iter_mut().zip(open) {
        (0..open).for_each(|_| {
            is_answered(client);
        });
    }
}

/// How many frames had their verdicts by then.
fn answers_until(due: u64, client: &mut ClientChannel) -> usize {
    let mut answers = 0;
    loop {
        let seen = client.bell();
        while let Some(record) = client.take().expect("the daemon lives") {
            is_kept(record.verdict);
            answers += 1;
        }
        if clock::now_ns() >= due {
            return answers;
        }
        let _ = client.wait(seen, Some(due));
    }
}

/// Whether the next frame was answered, on time. Frames beyond the promised rate may be rejected: a busy machine leaves no
/// time for them.
fn is_answered(client: &mut ClientChannel) -> bool {
    is_kept(result(client).verdict)
}

fn is_kept(verdict: Verdict) -> bool {
    let kept = matches!(verdict, Verdict::OnTime | Verdict::Rejected(_));
    assert!(kept, "a promise was broken: {verdict:?}");
    verdict == Verdict::OnTime
}

/// Single frames, each after all others were forgotten, until one is answered in the first layout.
fn calm(daemon: &Daemon, client: &mut ClientChannel) {
    let limit = clock::now_ns() + LIMIT.as_nanos() as u64;
    let mut is_calm = false;
    while !is_calm {
        assert!(clock::now_ns() < limit, "{:#?}", report(daemon));
        let now = report(daemon);
        while report(daemon).seconds < now.seconds + FORGOTTEN {}
        submit(client);
        is_calm = is_answered(client) && present(&now) == "first";
    }
}

/// That no promise was broken, and the counts of changes agree.
fn assert_changed(report: &Report) {
    assert_accounts(report);
    for task in &report.tasks {
        assert_eq!((task.late, task.failed.total()), (0, 0), "{report:#?}");
    }
    let layouts = report.layouts.as_ref().expect("the plan has two");
    let [first, busy] = &layouts.layouts[..] else {
        panic!("{layouts:?}");
    };
    assert_eq!((&first.name[..], &busy.name[..]), ("first", "busy"));
    assert_eq!(layouts.present, "first");
    assert!(
        busy.entered > 0 && first.entered == busy.entered,
        "{layouts:?}"
    );
    assert_eq!(layouts.changes, first.entered + busy.entered);
}

fn clients(daemon: &Daemon) -> [ClientChannel; 2] {
    ["near", "far"].map(|name| connect(&daemon.socket(), name, PixelFormat::Rgb8))
}

#[test]
fn on_cores_the_layout_follows_the_load_and_returns_and_no_promise_is_broken() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("skipped: a machine with one core has one layout");
        return;
    }
    let folder = Folder::with_profile(&on_cores(), |profile, _| {
        for stage in &mut profile.stages {
            // So that few frames are much, and a busy machine keeps them.
            (stage.p50_ns, stage.p99_ns) = (50_000_000, 50_000_000);
            stage.max_ns = 2_000_000_000;
        }
    });
    let daemon = Daemon::start_as(folder, |command| {
        command.stderr(Stdio::piped());
    });
    assert_eq!(present(&report(&daemon)), "first");
    let mut both = clients(&daemon);
    for _ in 0..2 {
        rush(&daemon, &mut both, "far-alone");
        calm(&daemon, &mut both[0]);
    }
    drop(both);
    daemon.signal("TERM");
    let (status, words, report) = daemon.end_with_words();
    assert_eq!(status.code(), Some(0), "{words}");
    assert_changed(&report);
    for name in ["both", "far-alone"] {
        let mut partitions = report.partitions.iter();
        let worked = partitions.any(|found| found.name == name && found.finished > 0);
        assert!(worked, "{name}: {report:#?}");
    }
    for line in [
        "layout busy instead of first",
        "layout first instead of busy",
    ] {
        assert!(words.contains(line), "{words}");
    }
}

/// The layouts in which a launch may run where it ran: the first, the busy one. The partitions that begin at the first TPC
/// share a stream; each of the others has its own.
fn allowed(launch: &LoggedLaunch, all: &[LoggedLaunch]) -> [bool; 2] {
    let within = |low, high| launch.sms.iter().all(|sm| (low..high).contains(sm));
    let of_stream = all.iter().filter(|other| other.stream == launch.stream);
    let lowest = of_stream.flat_map(|other| &other.sms).min();
    match lowest.expect("of this launch") {
        0..4 => [within(0, 4), within(0, 8)],
        4..8 => [within(4, 8), false],
        _ => [false, within(8, 16)],
    }
}

/// How often the layout changed, as far as launches show it.
fn changes_seen(launches: &[LoggedLaunch]) -> u64 {
    let (mut changes, mut possible) = (0, [true, false]);
    for launch in launches {
        let allowed = allowed(launch, launches);
        assert!(
            allowed.contains(&true),
            "{launch:?} is where no mask allows"
        );
        let both = [possible[0] && allowed[0], possible[1] && allowed[1]];
        if both.contains(&true) {
            possible = both;
        } else {
            possible = allowed;
            changes += 1;
        }
    }
    changes
}

#[test]
fn on_tpcs_every_block_of_each_layout_is_where_its_mask_allows_and_no_promise_is_broken() {
    let _turn = turn();
    let (driver, log) = logging("layouts");
    let daemon = Daemon::start_in(profiled(&on_tpcs(""), &driver));
    let process = daemon.pid();
    let mut both = clients(&daemon);
    // A frame alone, in the first layout.
    for client in &mut both {
        submit(client);
        assert!(is_answered(client), "its rate is promised");
    }
    rush(&daemon, &mut both, "second-half");
    // Only in the first layout it runs where it runs then.
    calm(&daemon, &mut both[1]);
    drop(both);
    let report = daemon.stop();
    assert_changed(&report);
    let gpu = report.gpu.as_ref().expect("a GPU");
    assert_eq!(gpu.tpcs, 4, "those of the first layout");
    let launches = launches(&log, process);
    assert_apart(&launches);
    let layouts = report.layouts.expect("the plan has two");
    let seen = changes_seen(&launches);
    assert!(
        seen >= 2 && seen <= layouts.changes,
        "{seen} of {layouts:?}"
    );
}

#[test]
fn layouts_are_refused_under_a_policy_that_divides_tpcs_itself() {
    let _turn = turn();
    let (driver, _) = logging("layouts-of-seeb");
    let manifest = on_tpcs("policy = \"seeb\"");
    let (code, words) = folder(&manifest, &driver).refusal(&[]);
    assert_eq!(code, Some(3), "{words}");
    let expected = "policy \"seeb\" does not change layouts";
    assert!(words.contains(expected), "{words}");
}
