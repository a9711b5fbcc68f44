//! What the daemon needs of the system and does not get.

use super::attack_run::{Attack, AttackRun, BESIDE, Start, case, note, start};
use crate::bed::{CameraPlan, Daemon, DaemonPlan, End, TestBed};
use crate::case::Case;
use crate::facts::{Feature, Need};
use crate::manifest::Task;
use crate::outcome::Failure;
use crate::target::Script;

pub const CASES: &[Case] = &[
    case(
        "descriptors-run-out",
        "Silent connections take every descriptor that the daemon may have: that costs nothing, and honest clients are admitted.",
        BESIDE,
        descriptors_run_out,
    ),
    case(
        "descriptors-too-few",
        "With ever fewer descriptors the daemon starts and ends well, or says what it lacks and ends with its code for that.",
        &[],
        descriptors_too_few,
    ),
    case(
        "address-space-too-small",
        "With an ever smaller address space the daemon starts and ends well, or says what it lacks and ends with its code for that.",
        &[],
        address_space_too_small,
    ),
    case(
        "memory-group-too-small",
        "A daemon whose control group may have less memory than its plan needs reports it and does not start.",
        &[Need::Has(Feature::Root), Need::Has(Feature::MemoryGroups)],
        memory_group_too_small,
    ),
];

/// `punctuald --help`: resources unavailable.
const RESOURCES: i32 = 5;

/// `punctuald --help`: the plan is invalid.
const INVALID: i32 = 3;

/// How long a client tries its luck with a daemon that has little.
const CLIENT_S: f64 = 0.3;

/// Memory of a group that no plan of the rig's fits in.
const GROUP_BYTES: u64 = 64 << 20;

/// A daemon must refuse to start, with one of these codes and this word.
fn refused(
    bed: &mut TestBed<'_>,
    plan: &DaemonPlan<'_>,
    codes: &[i32],
    word: &str,
) -> Result<(), Failure> {
    match start(bed, plan)? {
        Start::Ready(daemon) => {
            bed.end_daemon(&daemon)?;
            Err(Failure::Missing {
                what: "the daemon refused to start",
            })
        }
        Start::Ended(end, words, daemon) => refused_well(bed, &daemon, end, words, codes, word),
    }
}

fn refused_well(
    bed: &mut TestBed<'_>,
    daemon: &Daemon,
    end: End,
    words: String,
    codes: &[i32],
    word: &str,
) -> Result<(), Failure> {
    if !end.code.is_some_and(|code| codes.contains(&code)) {
        return Err(bed.bad_end(daemon, Some(end), "the code of a refusal"));
    }
    if !words.to_lowercase().contains(word) {
        return Err(Failure::Words {
            who: "punctuald",
            said: words,
            wanted: word.to_owned(),
        });
    }
    let last = words.trim().lines().last().unwrap_or_default();
    bed.effect(1, format!("start refused: {last}"));
    Ok(())
}

/// With the fewest descriptors that it starts with; less must be refused.
fn descriptors_run_out(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    for limit in [32, 40, 48, 64, 96, 128, 192, 256] {
        let plan = DaemonPlan::serving(&Task::ATTACKED).after(&format!("ulimit -n {limit}"));
        match start(bed, &plan)? {
            Start::Ready(daemon) => {
                bed.effect(limit, "descriptors that the daemon may have");
                return run_out(bed, daemon);
            }
            Start::Ended(end, words, daemon) => {
                refused_well(bed, &daemon, end, words, &[RESOURCES], "descriptor")?;
            }
        }
    }
    Err(Failure::Missing {
        what: "256 descriptors are enough for 20 clients",
    })
}

fn run_out(bed: &mut TestBed<'_>, daemon: Daemon) -> Result<(), Failure> {
    let mut run = AttackRun::with_daemon(bed, daemon)?;
    run.attack(bed, &Attack::of("silent").with(400))?;
    let done = run.wait_for_attackers(bed)?;
    note(bed, &done, "silent connections")?;
    bed.measure("idle_attack_cpu_share", run.attack_shares().0);
    run.finish(bed).map(drop)
}

fn descriptors_too_few(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    ever_less(bed, "ulimit -n", &[24, 16, 14, 12, 10, 8, 6, 4])
}

fn address_space_too_small(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let kib = [
        200_000, 150_000, 100_000, 80_000, 60_000, 50_000, 40_000, 30_000,
    ];
    ever_less(bed, "ulimit -v", &kib)
}

/// Starts with less and less: each is a start and a good end, or a refusal with a reason.
fn ever_less(bed: &mut TestBed<'_>, limits: &str, values: &[u64]) -> Result<(), Failure> {
    let mut refusals = 0;
    for value in values {
        let name = format!("daemon-{value}");
        let plan = DaemonPlan {
            name: &name,
            ..DaemonPlan::serving(&[Task::Front, Task::Fast])
        };
        match start(bed, &plan.after(&format!("{limits} {value}")))? {
            Start::Ready(daemon) => {
                // Whether there is room for a client or not.
                let camera = CameraPlan::of(Task::Fast).named(format!("camera-{value}"));
                let camera = bed.camera(&daemon, &camera)?;
                bed.let_pass(CLIENT_S)?;
                bed.strike(camera.process.pid, "KILL")?;
                bed.end_daemon(&daemon)?;
            }
            Start::Ended(end, words, daemon) => {
                refused_well(bed, &daemon, end, words, &[RESOURCES], "punctuald: ")?;
                refusals += 1;
            }
        }
    }
    if refusals == 0 {
        return Err(Failure::Missing {
            what: "the least of them was too little",
        });
    }
    Ok(())
}

fn memory_group_too_small(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    // Both layouts of control groups; `$group` is printed.
    let text = "for base in /sys/fs/cgroup/memory /sys/fs/cgroup; do
            group=$base/punctual-hil-$1
            mkdir \"$group\" 2>/dev/null || continue
            for limit in memory.limit_in_bytes memory.max; do
                [ -e \"$group/$limit\" ] && echo \"$2\" >\"$group/$limit\" && echo \"$group\" && exit 0
            done
            rmdir \"$group\"
        done; echo 'no memory controller takes a limit' >&2; exit 1";
    let made = Script::new("make a group with a limit of memory", text);
    let bytes = GROUP_BYTES.to_string();
    let made = made.with([bed.stage.mark.as_str(), &bytes]);
    let group = bed.run(&made)?.text();
    let plan = DaemonPlan::serving(&Task::ATTACKED)
        .after(&format!("echo $$ >'{group}/cgroup.procs' || exit"));
    let outcome = refused(bed, &plan, &[INVALID, RESOURCES], "memory");
    // Whatever came of it: a group would stay behind for good.
    let text = "for turn in 1 2 3 4 5 6 7 8 9 10; do
            while read -r pid; do kill -9 \"$pid\"; done <\"$1/cgroup.procs\"
            rmdir \"$1\" 2>/dev/null && exit 0; sleep 0.2
        done; rmdir \"$1\"";
    let removed = bed.run(&Script::new("remove the group", text).with([group.as_str()]));
    outcome.and(removed.map(drop).map_err(Failure::from))
}
