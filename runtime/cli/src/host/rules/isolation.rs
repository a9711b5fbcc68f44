//! Whether the cores of the partitions have other work.

use crate::host::{Cores, Finding, Gravity, Machine, Subject, remedy, shown};

pub fn isolated(machine: &Machine, cores: &Cores) -> Option<Finding> {
    let isolated = machine.cores("/sys/devices/system/cpu/isolated")?;
    let online = machine.cores("/sys/devices/system/cpu/online")?;
    let tickless = machine
        .cores("/sys/devices/system/cpu/nohz_full")
        .unwrap_or_default();
    let command_line = machine.text("/proc/cmdline").unwrap_or_default();
    let callbacks = command_line
        .split_whitespace()
        .any(|word| word.starts_with("rcu_nocbs"));
    let lacking = |list: &[u16]| -> Vec<u16> {
        let of = cores.partitions.iter().filter(|core| !list.contains(core));
        of.copied().collect()
    };
    let (shared, ticking) = (lacking(&isolated), lacking(&tickless));
    if shared.is_empty() && ticking.is_empty() && callbacks {
        return Some(Finding::good(
            Subject::Isolation,
            format!(
                "cores {} are isolated, tickless, without callbacks",
                shown(&cores.partitions)
            ),
        ));
    }
    if online.len() <= cores.partitions.len() {
        let found = "every core of the machine runs stages: none can be isolated";
        return Some(Finding::new(Subject::Isolation, Gravity::Notice, found));
    }
    let said = |what: &str, list: &[u16]| match list {
        [] => String::new(),
        list => format!("cores {} are not {what}; ", shown(list)),
    };
    let callbacks = if callbacks { "" } else { "no rcu_nocbs; " };
    let found = [
        said("isolated", &shared),
        said("tickless", &ticking),
        callbacks.to_owned(),
    ];
    let found = found.concat();
    let found = found.trim_end_matches("; ");
    let finding = Finding::new(Subject::Isolation, Gravity::Notice, found);
    Some(finding.mended_by(remedy::isolation(&cores.partitions)))
}

pub fn timer_migration(machine: &Machine) -> Option<Finding> {
    let on = machine.number("/proc/sys/kernel/timer_migration")? != 0;
    Some(if on {
        Finding::new(Subject::TimerMigration, Gravity::Notice, "on")
            .mended_by(remedy::TIMER_MIGRATION)
    } else {
        Finding::good(Subject::TimerMigration, "off")
    })
}

pub fn siblings(machine: &Machine, cores: &Cores) -> Option<Finding> {
    let of = |core: u16| {
        let folder = format!("/sys/devices/system/cpu/cpu{core}/topology");
        machine.cores(&format!("{folder}/thread_siblings_list"))
    };
    let groups = cores.partitions.iter().filter_map(|core| of(*core));
    let mut groups: Vec<Vec<u16>> = groups.collect();
    if groups.is_empty() {
        return None;
    }
    groups.retain(|group| group.len() > 1);
    groups.sort_unstable();
    groups.dedup();
    if groups.is_empty() {
        return Some(Finding::good(Subject::Siblings, "each core has one thread"));
    }
    let both = |group: &&Vec<u16>| {
        let used = |core: &&u16| cores.all().contains(core);
        group.iter().filter(used).count() > 1
    };
    let shared: Vec<String> = groups
        .iter()
        .filter(both)
        .map(|group| shown(group))
        .collect();
    let (gravity, found) = if shared.is_empty() {
        (
            Gravity::Notice,
            "other programs may use the siblings of the plan's cores".to_owned(),
        )
    } else {
        (
            Gravity::Costly,
            format!("the plan uses both of {}", shared.join(" and of ")),
        )
    };
    let finding = Finding::new(Subject::Siblings, gravity, found);
    Some(finding.mended_by("name one of each pair in the manifest, or: echo off | sudo tee /sys/devices/system/cpu/smt/control"))
}

pub fn hypervisor(machine: &Machine) -> Option<Finding> {
    let processor = machine.text("/proc/cpuinfo")?;
    let flags = processor.lines().find(|line| line.starts_with("flags"))?;
    let inside = flags.split_whitespace().any(|flag| flag == "hypervisor");
    inside.then(|| {
        let steal = stolen_ms(machine);
        let steal = steal.map_or_else(String::new, |ms| {
            format!(", {} s were stolen since its start", ms / 1_000)
        });
        let found = format!("a virtual machine{steal}");
        Finding::new(Subject::Virtual, Gravity::Notice, found)
    })
}

/// Time that the host took, all cores together, in ms: the eighth figure of `/proc/stat`'s first
/// line, in hundredths of a second.
fn stolen_ms(machine: &Machine) -> Option<u64> {
    let stat = machine.text("/proc/stat")?;
    let ticks: u64 = stat
        .lines()
        .next()?
        .split_whitespace()
        .nth(8)?
        .parse()
        .ok()?;
    Some(ticks * 10)
}
