//! What the kernel leaves to real-time threads, and how soon it lets them run.

use crate::host::{Finding, Gravity, Machine, Subject, remedy};

/// The share of a core that a plan takes for real-time work, in percent (docs/inside/scheduling.md).
const PLAN_PERCENT_MAX: i64 = 90;

pub fn throttling(machine: &Machine) -> Option<Finding> {
    let runtime = machine.number("/proc/sys/kernel/sched_rt_runtime_us")?;
    let period = machine
        .number("/proc/sys/kernel/sched_rt_period_us")?
        .max(1);
    if runtime < 0 {
        let found = "off: a real-time thread that never sleeps would keep its core for ever";
        let finding = Finding::new(Subject::Throttling, Gravity::Notice, found);
        return Some(finding.mended_by(remedy::THROTTLING));
    }
    let percent = runtime * 100 / period;
    let found = format!(
        "{percent}% of each {} ms are real-time threads'; a plan takes at most {PLAN_PERCENT_MAX}%",
        period / 1_000
    );
    if percent > PLAN_PERCENT_MAX {
        return Some(Finding::good(Subject::Throttling, found));
    }
    let finding = Finding::new(Subject::Throttling, Gravity::Grave, found);
    Some(finding.mended_by(format!(
        "sudo sysctl -w kernel.sched_rt_runtime_us={}",
        period * 95 / 100
    )))
}

pub fn preemption(machine: &Machine) -> Option<Finding> {
    let version = machine.text("/proc/version")?;
    if machine.number("/sys/kernel/realtime") == Some(1) || version.contains("PREEMPT_RT") {
        return Some(Finding::good(Subject::Preemption, "PREEMPT_RT"));
    }
    let command_line = machine.text("/proc/cmdline").unwrap_or_default();
    let chosen = command_line
        .split_whitespace()
        .find_map(|word| word.strip_prefix("preempt="));
    let dynamic = version.contains("PREEMPT_DYNAMIC");
    Some(match chosen.filter(|_| dynamic) {
        Some(mode @ ("none" | "voluntary")) => {
            let found = format!("preempt={mode} on the kernel's command line");
            Finding::new(Subject::Preemption, Gravity::Costly, found).mended_by(remedy::PREEMPTION)
        }
        _ if version.contains("PREEMPT") => {
            let found = match (dynamic, chosen) {
                (true, Some(mode)) => format!("PREEMPT_DYNAMIC, preempt={mode}"),
                (true, None) => "PREEMPT_DYNAMIC, in the mode it was built for".to_owned(),
                (false, _) => "PREEMPT, without PREEMPT_RT".to_owned(),
            };
            Finding::new(Subject::Preemption, Gravity::Notice, found).mended_by(remedy::PREEMPTION)
        }
        _ => Finding::new(Subject::Preemption, Gravity::Costly, "not preemptible")
            .mended_by("boot a kernel with CONFIG_PREEMPT or CONFIG_PREEMPT_RT"),
    })
}

pub fn clock_source(machine: &Machine) -> Option<Finding> {
    const FOLDER: &str = "/sys/devices/system/clocksource/clocksource0";
    let current = machine.text(&format!("{FOLDER}/current_clocksource"))?;
    // Those that the C library reads without a system call.
    let fast = [
        "tsc",
        "arch_sys_counter",
        "kvm-clock",
        "hyperv_clocksource_tsc_page",
    ];
    if fast.contains(&current.as_str()) {
        return Some(Finding::good(Subject::ClockSource, current));
    }
    let others = machine.text(&format!("{FOLDER}/available_clocksource"));
    let others = others.unwrap_or_default();
    let better = others.split_whitespace().find(|name| fast.contains(name));
    let finding = Finding::new(Subject::ClockSource, Gravity::Costly, current);
    Some(match better {
        Some(name) => finding.mended_by(format!(
            "echo {name} | sudo tee {FOLDER}/current_clocksource"
        )),
        None => {
            finding.mended_by("see in `dmesg | grep -i tsc` why the processor's own is not used")
        }
    })
}
