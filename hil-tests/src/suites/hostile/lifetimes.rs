//! Clients that are stopped, by whatever can stop a process, and killed at moments of chance.

use super::attack_run::{AttackRun, BESIDE, case};
use crate::bed::{CameraPlan, DaemonPlan, TestBed};
use crate::case::Case;
use crate::manifest::Task;
use crate::outcome::Failure;
use crate::suites::drawn;
use crate::target::Script;

/// Clients that are struck, one after the other.
const STRIKES: u64 = 12;

pub const CASES: &[Case] = &[
    case(
        "clients-struck",
        "Clients are stopped, woken and killed at moments of chance.",
        BESIDE,
        struck,
    ),
    case("clients-traced", "The same, by a debugger.", BESIDE, traced),
    case(
        "clients-frozen",
        "The same, by their control group.",
        BESIDE,
        frozen,
    ),
    case(
        "clients-cramped",
        "The same, by a limit of memory that they have reached.",
        BESIDE,
        cramped,
    ),
];

/// The group for clients that are frozen; both layouts of control groups.
const MAKE_GROUP: &str =
    "for base in /sys/fs/cgroup/freezer /sys/fs/cgroup/unified /sys/fs/cgroup; do
        group=$base/punctual-hil-frozen-$1
        mkdir \"$group\" 2>/dev/null || continue
        for key in freezer.state cgroup.freeze; do
            [ -e \"$group/$key\" ] && echo \"$group\" && exit 0
        done
        rmdir \"$group\"
    done; echo 'no control group can be frozen' >&2; exit 1";

const FREEZE: &str = "echo \"$2\" >\"$1/cgroup.procs\" || exit
    [ -e \"$1/freezer.state\" ] && echo FROZEN >\"$1/freezer.state\" || echo 1 >\"$1/cgroup.freeze\"";

const THAW: &str = "[ -e \"$1/freezer.state\" ] && echo THAWED >\"$1/freezer.state\" || echo 0 >\"$1/cgroup.freeze\"";

/// The group for clients that may have no more memory than they have.
const MAKE_CRAMPED: &str = "for base in /sys/fs/cgroup/memory /sys/fs/cgroup; do
        group=$base/punctual-hil-cramped-$1
        mkdir \"$group\" 2>/dev/null || continue
        for limit in memory.limit_in_bytes memory.max; do
            [ -e \"$group/$limit\" ] && echo 262144 >\"$group/$limit\" && echo \"$group\" && exit 0
        done
        rmdir \"$group\"
    done; echo 'no memory controller takes a limit' >&2; exit 1";

const MOVE: &str = "echo \"$2\" >\"$1/cgroup.procs\"";

/// The kernel may have been first.
const KILL: &str = "kill -9 \"$1\" 2>/dev/null; true";

/// A killed process leaves its group a moment later.
const REMOVE_GROUP: &str = "for turn in 1 2 3 4 5 6 7 8 9 10; do
        rmdir \"$1\" 2>/dev/null && exit 0; sleep 0.2
    done; rmdir \"$1\"";

fn struck(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    strike_all(bed, |bed, pid, ms, dies| {
        bed.strike(pid, "STOP")?;
        bed.let_pass(ms as f64 / 1e3)?;
        if !dies {
            bed.strike(pid, "CONT")?;
        }
        Ok(Fate::Open)
    })
}

fn traced(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    strike_all(bed, |bed, pid, ms, _| {
        let (pid, ms) = (pid.to_string(), ms.to_string());
        let arguments = ["trace", "--pid", &pid, "--ms", &ms];
        bed.agent("trace a client", &arguments)?;
        Ok(Fate::Open)
    })
}

fn frozen(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let mark = bed.stage.mark.clone();
    let make = Script::new("make a group that can be frozen", MAKE_GROUP).with([mark.as_str()]);
    let group = bed.run(&make)?.text();
    let outcome = strike_all(bed, |bed, pid, ms, dies| {
        let pid_text = pid.to_string();
        let freeze = Script::new("freeze a client", FREEZE);
        bed.run(&freeze.with([group.as_str(), &pid_text]))?;
        bed.let_pass(ms as f64 / 1e3)?;
        if dies {
            bed.strike(pid, "KILL")?;
        }
        // The older layout keeps even a killed one frozen.
        let thaw = Script::new("thaw a client", THAW).with([group.as_str()]);
        bed.run(&thaw)?;
        Ok(if dies { Fate::Killed } else { Fate::Open })
    });
    // Whatever came of it: a group would stay behind for good.
    let remove = Script::new("remove the group", REMOVE_GROUP).with([group.as_str()]);
    let removed = bed.run(&remove);
    outcome.and(removed.map(drop).map_err(Failure::from))
}

fn cramped(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let mark = bed.stage.mark.clone();
    let make = Script::new("make a group with a limit of memory", MAKE_CRAMPED);
    let group = bed.run(&make.with([mark.as_str()]))?.text();
    let outcome = strike_all(bed, |bed, pid, ms, _| {
        let pid = pid.to_string();
        let cramp = Script::new("leave a client no memory", MOVE);
        bed.run(&cramp.with([group.as_str(), &pid]))?;
        bed.let_pass(ms as f64 / 1e3)?;
        bed.run(&Script::new("kill a client", KILL).with([pid.as_str()]))?;
        Ok(Fate::Killed)
    });
    // Whatever came of it: a group would stay behind for good.
    let remove = Script::new("remove the group", REMOVE_GROUP).with([group.as_str()]);
    let removed = bed.run(&remove);
    outcome.and(removed.map(drop).map_err(Failure::from))
}

/// What has become of a client that was stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Killed,
    Open,
}

/// Has clients come one after the other, half of them stopped by `stop` for some milliseconds, and kills each; `stop` is told whether
/// it is killed in that state.
fn strike_all(
    bed: &mut TestBed<'_>,
    stop: impl Fn(&mut TestBed<'_>, u32, u64, bool) -> Result<Fate, Failure>,
) -> Result<(), Failure> {
    let run = AttackRun::start(bed, &DaemonPlan::serving(&Task::ATTACKED))?;
    for turn in 0..STRIKES {
        let plan = CameraPlan::of(Task::Watch).named(format!("victim-{turn}"));
        let victim = bed.camera(&run.daemon, &plan)?;
        let seed = bed.seed;
        let draw = |number, below| drawn(seed, 8 * turn + number, below);
        bed.let_pass(draw(0, 150) as f64 / 1e3)?;
        let pid = victim.process.pid;
        let mut fate = Fate::Open;
        if draw(1, 2) == 0 {
            fate = stop(bed, pid, draw(2, 150), draw(3, 2) == 0)?;
            bed.let_pass(draw(4, 50) as f64 / 1e3)?;
        }
        if fate == Fate::Open {
            bed.strike(pid, "KILL")?;
        }
        bed.ended("a killed client", victim.process, 5)?;
    }
    run.serves(bed)?;
    bed.effect(STRIKES, "clients killed, half of them after a stop");
    run.finish(bed).map(drop)
}
