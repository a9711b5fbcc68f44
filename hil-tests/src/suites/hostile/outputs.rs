//! Where the daemon writes: standard streams that are closed or blocked, reports onto what is no
//! file, a disk that is full.

use super::attack_run::{Attack, AttackRun, BESIDE, case, note, refusal};
use crate::bed::{CameraPlan, DaemonPlan, TestBed};
use crate::case::Case;
use crate::facts::{Feature, Need};
use crate::manifest::Task;
use crate::outcome::Failure;
use crate::target::Script;

pub const CASES: &[Case] = &[
    case(
        "standard-error-blocked",
        "Standard error is a full pipe that nobody reads, while an attack makes the daemon complain.",
        BESIDE,
        blocked,
    ),
    case(
        "standard-streams-closed",
        "Standard input, output and error are closed, while an attack makes the daemon complain.",
        BESIDE,
        closed,
    ),
    case(
        "report-onto-a-device",
        "The report goes to a device: it is a device afterwards, and the daemon ends in time.",
        &[Need::Has(Feature::Root)],
        onto_a_device,
    ),
    case(
        "report-onto-a-pipe",
        "The report goes to a named pipe that nobody reads: it is one afterwards, and the daemon ends in time.",
        &[],
        onto_a_pipe,
    ),
    case(
        "report-onto-a-full-disk",
        "The report goes to a full disk, under attack: frames are answered as ever, and the daemon says what it could not write.",
        &[
            Need::Cores(2),
            Need::Has(Feature::Root),
            Need::Has(Feature::Mount),
        ],
        onto_a_full_disk,
    ),
];

fn blocked(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    // Opened for both, so that there is a reader, who never reads.
    let pipe = "mkfifo stderr && exec 2<>stderr || exit";
    let plan = DaemonPlan::serving(&Task::ATTACKED).after(pipe);
    let mut run = AttackRun::start(bed, &plan)?;
    let text = "cd \"$1\" && { dd if=/dev/zero of=stderr bs=1 count=1 2>/dev/null
        dd if=/dev/zero of=stderr bs=4096 count=1000 oflag=nonblock 2>/dev/null; true; }";
    let text_of_bytes = Script::new("fill the daemon's standard error", text);
    bed.run(&text_of_bytes.with([bed.stage.case.as_str()]))?;
    run.attack(bed, &Attack::of("garbage"))?;
    let done = run.wait_for_attackers(bed)?;
    note(bed, &done, "openings that were none, each a complaint")?;
    run.finish(bed).map(drop)
}

fn closed(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let plan = DaemonPlan::serving(&Task::ATTACKED).after("exec <&- >&- 2>&-");
    let mut run = AttackRun::start(bed, &plan)?;
    run.attack(bed, &Attack::of("garbage"))?;
    let done = run.wait_for_attackers(bed)?;
    note(bed, &done, "openings that were none, each a complaint")?;
    run.finish(bed).map(drop)
}

/// How long a daemon may take to end, whether or not its report can be written.
const END_S: u64 = 10;

fn onto_a_device(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    // As /dev/full, which is not risked here.
    onto(bed, "mknod \"$1\" c 1 7", "-c")
}

fn onto_a_pipe(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    onto(bed, "mkfifo \"$1\"", "-p")
}

fn onto(bed: &mut TestBed<'_>, make: &'static str, test: &str) -> Result<(), Failure> {
    let report = bed.path("special");
    bed.run(&Script::new("make a special file", make).with([report.as_str()]))?;
    let plan = DaemonPlan {
        report: Some(report.clone()),
        ..DaemonPlan::serving(&Task::ALL)
    };
    let daemon = bed.launch(&plan)?;
    // A daemon that refuses to start has refused, which is as good.
    match bed.ready(&daemon, 1) {
        Ok(_) => {
            let camera = bed.camera(&daemon, &CameraPlan::of(Task::Fast))?;
            bed.answered(&camera, 30)?;
            bed.stop_camera(&camera)?;
            let until_ns = bed.within(END_S);
            bed.target.signal(daemon.service, "TERM", false, until_ns)?;
        }
        Err(Failure::NotReady { .. }) => {
            refusal(bed, &daemon)?;
        }
        Err(failure) => return Err(failure),
    }
    bed.ended("the daemon", daemon.service, END_S)?;
    let text = "test \"$2\" \"$1\" && echo same || true";
    let kept = Script::new("look at the special file", text).with([report.as_str(), test]);
    if bed.run(&kept)?.text() != "same" {
        return Err(Failure::Missing {
            what: "the file that the report went to is still what it was",
        });
    }
    Ok(())
}

fn onto_a_full_disk(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let disk = bed.path("disk");
    let text = "mkdir \"$1\" && mount -t tmpfs -o size=64k punctual-hil \"$1\" \\
        && { dd if=/dev/zero of=\"$1/fill\" bs=4k 2>/dev/null || true; }";
    bed.run(&Script::new("make a full disk", text).with([disk.as_str()]))?;
    let plan = DaemonPlan {
        report: Some(format!("{disk}/report.json")),
        ..DaemonPlan::serving(&Task::ATTACKED)
    };
    let mut run = AttackRun::start(bed, &plan)?;
    run.attack(bed, &Attack::of("garbage"))?;
    let done = run.wait_for_attackers(bed)?;
    note(bed, &done, "openings that were none")?;
    run.answers(bed, |run, bed| {
        let account = bed.live(&run.daemon)?;
        // How it ends is for the service manager to see; that it ends, and says why, is tested.
        let service = run.daemon.service;
        bed.target.signal(service, "TERM", false, bed.within(5))?;
        bed.ended("the daemon", service, END_S)?;
        let said = bed.last_words(&run.daemon)?;
        if said.contains("report.json") {
            Ok(account)
        } else {
            Err(Failure::Words {
                who: "punctuald",
                said,
                wanted: "report.json".to_owned(),
            })
        }
    })?;
    let text = "umount \"$1\"";
    bed.run(&Script::new("unmount the full disk", text).with([disk.as_str()]))?;
    Ok(())
}
