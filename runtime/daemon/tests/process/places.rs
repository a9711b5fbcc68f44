//! Stages on idle compute units of another partition.
use crate::support::{Daemon, Folder, LIMIT, assert_accounts, connect, result, submit};
use punctual_daemon::Report;
use punctual_ipc::PixelFormat;
use punctual_platform::clock;

/// Frames sent at once: more than one partition runs at once.
const BURST: usize = 6;

/// Two tasks on a core each, which lend them to each other.
fn manifest() -> String {
    let task = |name: &str| {
        format!(
            "[[task]]\nname = \"{name}\"\nmodel = \"signs\"\npartition = \"{name}\"\ncriticality = \
             \"real-time\"\nrate_hz = 10\ndeadline_ms = 500\nqueue_depth = 8\nslots = 8\nframe = {{ format \
             = \"rgb8\", width = 320, height = 240, crop = [192, 192] }}\n\n"
        )
    };
    let partition =
        |name: &str, core| format!("[[partition]]\nname = \"{name}\"\ncores = [{core}]\n\n");
    format!(
        "[daemon]\nboard = \"host\"\nplaces = \"cells\"\ncell = 1\n\n[[model]]\nname = \"signs\"\npackage = \
         \"signs.punctual\"\n\n{}{}{}{}",
        partition("one", 0),
        partition("other", 1),
        task("one"),
        task("other"),
    )
}

/// That the report's sums by home agree with its partitions: only the first task had frames.
fn assert_lending(report: &Report) {
    let lending = report.lending.as_ref().expect("the plan has places");
    let [one, other] = &lending.homes[..] else {
        panic!("{:?}", lending.homes);
    };
    let finished = |names: &[&str]| -> u64 {
        let partitions = report.partitions.iter();
        let partitions = partitions.filter(|partition| names.contains(&partition.name.as_str()));
        partitions.map(|partition| partition.finished).sum()
    };
    let places = report.partitions.len() as u64 - 2;
    assert_eq!(lending.places, places, "{lending:?}");
    // The first cell has exactly the units of the home.
    assert_eq!(one.own.stages, finished(&["one", "cell-0"]));
    assert_eq!(one.borrowed.stages, finished(&["other", "cell-1", "all"]));
    assert_eq!(one.cells.stages, 0);
    let stages = [other.own, other.cells, other.borrowed].map(|ran| ran.stages);
    assert_eq!((stages, one.lent_unit_us), ([0; 3], 0));
    let [loan] = &lending.loans[..] else {
        panic!("{:?}", lending.loans);
    };
    assert_eq!((&loan.owner[..], &loan.borrower[..]), ("other", "one"));
    assert_eq!(loan.stages, one.borrowed.stages);
    // One core of the owner, whatever the width.
    assert_eq!(loan.unit_us, loan.busy_us);
    assert_eq!(other.lent_unit_us, loan.unit_us);
    let members = lending.tasks[0].widths.iter().map(|width| width.members);
    let partitions = report.partitions.iter();
    let started: u64 = partitions.map(|partition| partition.members).sum();
    let ended = one.own.stages + one.borrowed.stages;
    assert!((ended..=started).contains(&members.sum()), "{lending:?}");
    assert!(lending.tasks[1].widths.is_empty());
}

#[test]
fn a_burst_of_one_task_also_runs_on_the_idle_core_of_another_and_the_report_counts_it_there() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("skipped: a machine with one core has nothing to lend");
        return;
    }
    let folder = Folder::with_profile(&manifest(), |profile, _| {
        profile.beside.clone_from(&profile.stages);
    });
    let daemon = Daemon::start_in(folder);
    let mut client = connect(&daemon.socket(), "one", PixelFormat::Rgb8);
    let limit = clock::now_ns() + LIMIT.as_nanos() as u64;
    let lent = |daemon: &Daemon| {
        let report = daemon.report();
        let mut partitions = report.partitions.into_iter();
        let place = partitions.find(|partition| partition.name == "cell-1");
        place.expect("the core of the other").actions
    };
    let mut answered = 0;
    while lent(&daemon) == 0 {
        assert!(
            clock::now_ns() < limit,
            "nothing lent: {:#?}",
            daemon.report()
        );
        for _ in 0..BURST {
            submit(&mut client);
        }
        let results = (0..BURST).map(|_| result(&mut client));
        answered += results.filter(|record| record.answer.is_some()).count();
    }
    drop(client);
    let report = daemon.stop();
    assert_accounts(&report);
    let one = &report.tasks[0];
    assert_eq!(one.on_time + one.late, answered as u64);
    assert_lending(&report);
}
