//! What the kernel does to pages behind a program's back.

use crate::host::{Finding, Gravity, Machine, Subject, remedy};

pub fn huge_pages(machine: &Machine) -> Option<Finding> {
    const FOLDER: &str = "/sys/kernel/mm/transparent_hugepage";
    let enabled = chosen(&machine.text(&format!("{FOLDER}/enabled"))?)?;
    let defrag = machine.text(&format!("{FOLDER}/defrag"));
    let defrag = defrag.and_then(|text| chosen(&text));
    let defrag = defrag.unwrap_or_else(|| "unknown".to_owned());
    let found = format!("enabled: {enabled}, defrag: {defrag}");
    if enabled != "always" {
        return Some(Finding::good(Subject::HugePages, found));
    }
    let finding = Finding::new(Subject::HugePages, Gravity::Costly, found);
    Some(finding.mended_by(remedy::HUGE_PAGES))
}

pub(super) fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

pub fn compaction(machine: &Machine) -> Option<Finding> {
    let level = machine.number("/proc/sys/vm/compaction_proactiveness")?;
    if level == 0 {
        return Some(Finding::good(Subject::Compaction, "off"));
    }
    let found = format!("vm.compaction_proactiveness = {level}");
    let finding = Finding::new(Subject::Compaction, Gravity::Notice, found);
    Some(finding.mended_by(remedy::COMPACTION))
}

pub fn swap(machine: &Machine) -> Option<Finding> {
    let swaps = machine.text("/proc/swaps")?;
    let areas: Vec<&str> = swaps
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    if areas.is_empty() {
        return Some(Finding::good(Subject::Swap, "none"));
    }
    let found = areas.join(", ");
    // In memory, compressed: quick, and it takes no memory that is locked.
    let gravity = if areas.iter().all(|area| area.contains("zram")) {
        Gravity::Notice
    } else {
        Gravity::Costly
    };
    Some(Finding::new(Subject::Swap, gravity, found).mended_by(remedy::SWAP))
}

pub fn numa_balancing(machine: &Machine) -> Option<Finding> {
    let on = machine.number("/proc/sys/kernel/numa_balancing")? != 0;
    Some(if on {
        Finding::new(Subject::NumaBalancing, Gravity::Costly, "on")
            .mended_by(remedy::NUMA_BALANCING)
    } else {
        Finding::good(Subject::NumaBalancing, "off")
    })
}
