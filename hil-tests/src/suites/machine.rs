//! Faults of the whole machine: its clock, memory, processors and power.

use crate::bed::{CameraPlan, Daemon, DaemonPlan, TestBed};
use crate::case::Case;
use crate::facts::{Feature, Need};
use crate::manifest::Task;
use crate::outcome::Failure;
use crate::target::Script;

/// Memory that the group of the pressure case may have, in MiB: several times what the daemon needs for these tasks.
const GROUP_MIB: u64 = 768;

pub const CASES: &[Case] = &[
    Case {
        suite: "machine",
        name: "clock-set",
        about: "The clock of day jumps a minute ahead and back: deadlines are on the monotonic clock and do not care.",
        needs: &[
            Need::Disruption,
            Need::Has(Feature::Root),
            Need::Has(Feature::SetClock),
        ],
        limit_s: 60,
        measures: &[("clock_set_missed_share", "")],
        body: clock_set,
    },
    Case {
        suite: "machine",
        name: "memory-pressure",
        about: "A process takes all memory of the daemon's group: the kernel takes it away from that one, and the daemon serves on.",
        needs: &[Need::Has(Feature::Root), Need::Has(Feature::MemoryGroups)],
        limit_s: 120,
        measures: &[("memory_pressure_missed_share", "")],
        body: memory_pressure,
    },
    Case {
        suite: "machine",
        name: "processor-unplugged",
        about: "The last processor is switched off for two seconds and on again: frames have verdicts all the while, and answers on time after.",
        needs: &[
            Need::Disruption,
            Need::Cores(2),
            Need::Has(Feature::Root),
            Need::Has(Feature::HotUnplug),
        ],
        limit_s: 120,
        measures: &[("replugged_missed_share", "")],
        body: processor_unplugged,
    },
    Case {
        suite: "machine",
        name: "power-mode-changed",
        about: "The board's power mode is lowered and restored: frames have verdicts all the while (emulated).",
        needs: &[Need::Disruption, Need::Has(Feature::PowerModes)],
        limit_s: 180,
        measures: &[("power_mode_missed_share", "")],
        body: power_mode_changed,
    },
];

/// A daemon with a camera, while something happens; the camera's counts, whole, and the share that it missed.
fn beside(
    bed: &mut TestBed<'_>,
    key: &'static str,
    daemon: &Daemon,
    happens: impl FnOnce(&mut TestBed<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let camera = bed.camera(daemon, &CameraPlan::of(Task::Fast))?;
    bed.answered(&camera, 30)?;
    happens(bed)?;
    let so_far = bed.counts_of(&camera)?.map_or(0, |counts| counts.on_time);
    bed.answered(&camera, so_far + 30)?;
    let counts = bed.stop_camera(&camera)?;
    let account = bed.stop_daemon(daemon)?;
    account.agrees_with("fast", &[&counts])?;
    bed.measure(key, account.missed_share(&counts));
    bed.picture("fast", &counts.latency_us);
    bed.effect(
        counts.on_time,
        format!("frames answered on time, of {}", counts.submitted),
    );
    Ok(())
}

fn clock_set(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let daemon = bed.daemon(&DaemonPlan::serving(&[Task::Fast]))?;
    beside(bed, "clock_set_missed_share", &daemon, |bed| {
        // One script, so that the clock is set back even when the connection to the target is lost.
        let text = "jump() { date -s \"@$(( $(date +%s) + $1 ))\" >/dev/null; }
            jump 60 || exit; sleep 1; jump -60; jump -60 || exit; sleep 1; jump 60";
        bed.run(&Script::new("set the clock", text))?;
        bed.effect(
            4,
            "jumps of the clock of day by a minute, ahead and back, behind and back",
        );
        Ok(())
    })
}

fn memory_pressure(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    // Both layouts of cgroups; `$group` is printed.
    let text = "for base in /sys/fs/cgroup/memory /sys/fs/cgroup; do
            group=$base/punctual-hil-$1
            mkdir \"$group\" 2>/dev/null || continue
            for limit in memory.limit_in_bytes memory.max; do
                [ -e \"$group/$limit\" ] && echo \"$2\" >\"$group/$limit\" && echo \"$group\" && exit 0
            done
            rmdir \"$group\"
        done; echo 'no memory controller takes a limit' >&2; exit 1";
    let limit = (GROUP_MIB << 20).to_string();
    let script = Script::new("make a group with a limit of memory", text);
    let group = bed
        .run(&script.with([bed.stage.mark.as_str(), &limit]))?
        .text();
    let result = pressed(bed, &group);
    // Whatever came of it: an empty group would stay behind for good.
    let text = "for turn in 1 2 3 4 5 6 7 8 9 10; do rmdir \"$1\" 2>/dev/null && exit 0; sleep 0.2; done; rmdir \"$1\"";
    let removed = result
        .is_ok()
        .then(|| bed.run(&Script::new("remove the group", text).with([group.as_str()])));
    result.and(removed.transpose().map(drop).map_err(Failure::from))
}

fn pressed(bed: &mut TestBed<'_>, group: &str) -> Result<(), Failure> {
    let into_group = |bed: &mut TestBed<'_>, pid: u32, score: &str| {
        let text = "echo \"$2\" >\"$1/cgroup.procs\" && echo \"$3\" >\"/proc/$2/oom_score_adj\"";
        let script = Script::new("put a process into the group", text);
        bed.run(&script.with([group, &pid.to_string(), score]))
            .map(drop)
    };
    // Started inside, so that all of its memory counts there.
    let enter = format!("echo $$ >'{group}/cgroup.procs' && exec \"$0\" \"$@\"");
    bed.write(
        "enter",
        &format!(
            "#!/bin/sh\nset -- '{}' \"$@\"\nexec sh -c '{}' \"$@\"\n",
            bed.stage.daemon,
            enter.replace('\'', r"'\''")
        ),
    )?;
    let wrapper = bed.path("enter");
    bed.run(&Script::new("allow running", "chmod 755 \"$1\"").with([wrapper.as_str()]))?;
    let plan = DaemonPlan {
        program: Some(&wrapper),
        ..DaemonPlan::serving(&[Task::Fast])
    };
    let daemon = bed.daemon(&plan)?;
    beside(bed, "memory_pressure_missed_share", &daemon, |bed| {
        let mib = (2 * GROUP_MIB).to_string();
        // Waits for its place in the group before it takes anything.
        let hog = "read go; exec \"$0\" \"$@\"";
        bed.run(&Script::new("make a gate", "mkfifo \"$1\"").with([bed.path("gate").as_str()]))?;
        let gate = format!("exec <'{}'; {hog}", bed.path("gate"));
        let command = [
            "sh",
            "-c",
            &gate,
            bed.stage.agent.as_str(),
            "agent",
            "hog",
            "--take",
            "memory",
            "--mib",
            &mib,
        ];
        let hog = bed.start("hog", &[], command.map(str::to_owned).to_vec())?;
        into_group(bed, hog.pid, "1000")?;
        bed.run(
            &Script::new("open the gate", "echo go >\"$1\"").with([bed.path("gate").as_str()]),
        )?;
        bed.ended("a process that takes more memory than there is", hog, 30)?;
        bed.effect(1, "process killed by the kernel, which had taken all memory of the daemon's group; the daemon was spared");
        Ok(())
    })
}

fn processor_unplugged(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let daemon = bed.daemon(&DaemonPlan::serving(&[Task::Fast]))?;
    let camera = bed.camera(&daemon, &CameraPlan::of(Task::Fast))?;
    bed.answered(&camera, 30)?;
    // One script, so that it is switched on again even when the connection to the target is lost.
    let text = "cpu=$(ls -d /sys/devices/system/cpu/cpu[1-9]*/online | sort -V | tail -n 1)
        echo 0 >\"$cpu\" || exit; sleep 2; echo 1 >\"$cpu\"; echo \"$cpu\"";
    bed.run(&Script::new("switch a processor off and on", text))?;
    bed.let_pass(1.0)?;
    let during = bed.stop_camera(&camera)?;
    let after = bed.camera(
        &daemon,
        &CameraPlan::of(Task::Fast).named("after").for_seconds(3.0),
    )?;
    let after = bed.finish(&after)?;
    let account = bed.stop_daemon(&daemon)?;
    account.agrees_with("fast", &[&during, &after])?;
    bed.measure("replugged_missed_share", account.missed_share(&after));
    let missed = during.submitted + during.skipped - during.on_time;
    bed.effect(missed, format!("frames not answered on time around it, of {}, each with a verdict or dropped by the camera", during.submitted + during.skipped));
    bed.effect(
        after.on_time,
        format!("frames answered on time after it, of {}", after.submitted),
    );
    Ok(())
}

fn power_mode_changed(bed: &mut TestBed<'_>) -> Result<(), Failure> {
    let daemon = bed.daemon(&DaemonPlan::serving(&[Task::Fast]))?;
    beside(bed, "power_mode_missed_share", &daemon, |bed| {
        // Modes that want a restart of the board are refused, as nothing answers the question.
        let text = "was=$(nvpmodel -q | tail -n 1); other=1; [ \"$was\" = 1 ] && other=0
            nvpmodel -m $other </dev/null || exit; sleep 3; nvpmodel -m \"$was\" </dev/null";
        bed.run(&Script::new("change the power mode", text))?;
        bed.effect(2, "changes of the power mode, down and back");
        Ok(())
    })
}
