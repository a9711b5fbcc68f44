//! Faults of the whole machine: its clock, memory, processors and power.

use crate::case::Case;
use crate::facts::{Need, Thing};
use crate::manifest::Task;
use crate::outcome::Failure;
use crate::scene::{CameraPlan, Daemon, DaemonPlan, Scene};
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
            Need::Has(Thing::Root),
            Need::Has(Thing::SetClock),
        ],
        limit_s: 60,
        measures: &[("clock_set_missed_share", "")],
        body: clock_set,
    },
    Case {
        suite: "machine",
        name: "memory-pressure",
        about: "A process takes all memory of the daemon's group: the kernel takes it away from that one, and the daemon serves on.",
        needs: &[Need::Has(Thing::Root), Need::Has(Thing::MemoryGroups)],
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
            Need::Has(Thing::Root),
            Need::Has(Thing::HotUnplug),
        ],
        limit_s: 120,
        measures: &[("replugged_missed_share", "")],
        body: processor_unplugged,
    },
    Case {
        suite: "machine",
        name: "power-mode-changed",
        about: "The board's power mode is lowered and restored: frames have verdicts all the while. Not yet run on hardware.",
        needs: &[Need::Disruption, Need::Has(Thing::PowerModes)],
        limit_s: 180,
        measures: &[("power_mode_missed_share", "")],
        body: power_mode_changed,
    },
];

/// A daemon with a camera beside which something happens; the camera's book, whole, and the share that it missed.
fn beside(
    scene: &mut Scene<'_>,
    key: &'static str,
    daemon: &Daemon,
    happens: impl FnOnce(&mut Scene<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let camera = scene.camera(daemon, &CameraPlan::of(Task::Fast))?;
    scene.answered(&camera, 30)?;
    happens(scene)?;
    let so_far = scene.book(&camera)?.map_or(0, |book| book.on_time);
    scene.answered(&camera, so_far + 30)?;
    let book = scene.stop_camera(&camera)?;
    let account = scene.stop_daemon(daemon)?;
    account.agrees_with("fast", &[&book])?;
    scene.measure(key, account.missed_share(&book));
    scene.picture("fast", &book.latency_us);
    scene.effect(
        book.on_time,
        format!("frames answered on time, of {}", book.submitted),
    );
    Ok(())
}

fn clock_set(scene: &mut Scene<'_>) -> Result<(), Failure> {
    let daemon = scene.daemon(&DaemonPlan::serving(&[Task::Fast]))?;
    beside(scene, "clock_set_missed_share", &daemon, |scene| {
        // One script, so that the clock is set back even when the connection to the target is lost.
        let text = "jump() { date -s \"@$(( $(date +%s) + $1 ))\" >/dev/null; }
            jump 60 || exit; sleep 1; jump -60; jump -60 || exit; sleep 1; jump 60";
        scene.run(&Script::new("set the clock", text))?;
        scene.effect(
            4,
            "jumps of the clock of day by a minute, ahead and back, behind and back",
        );
        Ok(())
    })
}

fn memory_pressure(scene: &mut Scene<'_>) -> Result<(), Failure> {
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
    let group = scene
        .run(&script.with([scene.stage.mark.as_str(), &limit]))?
        .text();
    let result = pressed(scene, &group);
    // Whatever came of it: an empty group would stay behind for good.
    let text = "for turn in 1 2 3 4 5 6 7 8 9 10; do rmdir \"$1\" 2>/dev/null && exit 0; sleep 0.2; done; rmdir \"$1\"";
    let removed = result
        .is_ok()
        .then(|| scene.run(&Script::new("remove the group", text).with([group.as_str()])));
    result.and(removed.transpose().map(drop).map_err(Failure::from))
}

fn pressed(scene: &mut Scene<'_>, group: &str) -> Result<(), Failure> {
    let into_group = |scene: &mut Scene<'_>, pid: u32, score: &str| {
        let text = "echo \"$2\" >\"$1/cgroup.procs\" && echo \"$3\" >\"/proc/$2/oom_score_adj\"";
        let script = Script::new("put a process into the group", text);
        scene
            .run(&script.with([group, &pid.to_string(), score]))
            .map(drop)
    };
    // Started inside, so that all of its memory counts there.
    let enter = format!("echo $$ >'{group}/cgroup.procs' && exec \"$0\" \"$@\"");
    scene.write(
        "enter",
        &format!(
            "#!/bin/sh\nset -- '{}' \"$@\"\nexec sh -c '{}' \"$@\"\n",
            scene.stage.daemon,
            enter.replace('\'', r"'\''")
        ),
    )?;
    let wrapper = scene.path("enter");
    scene.run(&Script::new("allow running", "chmod 755 \"$1\"").with([wrapper.as_str()]))?;
    let plan = DaemonPlan {
        program: Some(&wrapper),
        ..DaemonPlan::serving(&[Task::Fast])
    };
    let daemon = scene.daemon(&plan)?;
    beside(scene, "memory_pressure_missed_share", &daemon, |scene| {
        let mib = (2 * GROUP_MIB).to_string();
        // Waits for its place in the group before it takes anything.
        let hog = "read go; exec \"$0\" \"$@\"";
        scene.run(
            &Script::new("make a gate", "mkfifo \"$1\"").with([scene.path("gate").as_str()]),
        )?;
        let gate = format!("exec <'{}'; {hog}", scene.path("gate"));
        let command = [
            "sh",
            "-c",
            &gate,
            scene.stage.agent.as_str(),
            "agent",
            "hog",
            "--take",
            "memory",
            "--mib",
            &mib,
        ];
        let hog = scene.start("hog", &[], command.map(str::to_owned).to_vec())?;
        into_group(scene, hog.pid, "1000")?;
        scene.run(
            &Script::new("open the gate", "echo go >\"$1\"").with([scene.path("gate").as_str()]),
        )?;
        scene.ended("a process that takes more memory than there is", hog, 30)?;
        scene.effect(1, "process killed by the kernel, which had taken all memory of the daemon's group; the daemon was spared");
        Ok(())
    })
}

fn processor_unplugged(scene: &mut Scene<'_>) -> Result<(), Failure> {
    let daemon = scene.daemon(&DaemonPlan::serving(&[Task::Fast]))?;
    let camera = scene.camera(&daemon, &CameraPlan::of(Task::Fast))?;
    scene.answered(&camera, 30)?;
    // One script, so that it is switched on again even when the connection to the target is lost.
    let text = "cpu=$(ls -d /sys/devices/system/cpu/cpu[1-9]*/online | sort -V | tail -n 1)
        echo 0 >\"$cpu\" || exit; sleep 2; echo 1 >\"$cpu\"; echo \"$cpu\"";
    scene.run(&Script::new("switch a processor off and on", text))?;
    scene.let_pass(1.0)?;
    let during = scene.stop_camera(&camera)?;
    let after = scene.camera(
        &daemon,
        &CameraPlan::of(Task::Fast).named("after").for_seconds(3.0),
    )?;
    let after = scene.finish(&after)?;
    let account = scene.stop_daemon(&daemon)?;
    account.agrees_with("fast", &[&during, &after])?;
    scene.measure("replugged_missed_share", account.missed_share(&after));
    let missed = during.submitted + during.skipped - during.on_time;
    scene.effect(missed, format!("frames not answered on time around it, of {}, each with a verdict or dropped by the camera", during.submitted + during.skipped));
    scene.effect(
        after.on_time,
        format!("frames answered on time after it, of {}", after.submitted),
    );
    Ok(())
}

fn power_mode_changed(scene: &mut Scene<'_>) -> Result<(), Failure> {
    let daemon = scene.daemon(&DaemonPlan::serving(&[Task::Fast]))?;
    beside(scene, "power_mode_missed_share", &daemon, |scene| {
        // Modes that want a restart of the board are refused, as nothing answers the question.
        let text = "was=$(nvpmodel -q | tail -n 1); other=1; [ \"$was\" = 1 ] && other=0
            nvpmodel -m $other </dev/null || exit; sleep 3; nvpmodel -m \"$was\" </dev/null";
        scene.run(&Script::new("change the power mode", text))?;
        scene.effect(2, "changes of the power mode, down and back");
        Ok(())
    })
}
