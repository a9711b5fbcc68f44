//! The rules, by what they are about. One that cannot see what it needs says nothing.

mod clients;
mod control_groups;
mod interrupts;
mod isolation;
mod memory;
mod power;
mod privileges;
mod rivals;
mod scheduling;

use super::finding::{Cores, Finding};
use super::machine::Machine;

pub(super) fn all(machine: &Machine, cores: &Cores) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(privileges::realtime(machine));
    findings.extend(privileges::memory_lock(machine));
    findings.extend(scheduling::throttling(machine));
    findings.extend(control_groups::group_share(machine));
    findings.extend(control_groups::group_quota(machine));
    findings.extend(scheduling::preemption(machine));
    findings.extend(scheduling::clock_source(machine));
    findings.extend(power::idle_states(machine, cores));
    findings.extend(power::governor(machine, cores));
    findings.extend(power::boost(machine));
    findings.extend(power::jetson_clocks(machine));
    findings.extend(power::heat(machine, cores));
    findings.extend(memory::huge_pages(machine));
    findings.extend(memory::compaction(machine));
    findings.extend(memory::swap(machine));
    findings.extend(memory::numa_balancing(machine));
    findings.extend(isolation::isolated(machine, cores));
    findings.extend(isolation::timer_migration(machine));
    findings.extend(isolation::siblings(machine, cores));
    findings.extend(rivals::realtime_threads(machine, cores));
    findings.extend(interrupts::on_partitions(machine, cores));
    findings.extend(interrupts::starved(machine, cores));
    findings.extend(interrupts::balancer(machine));
    findings.extend(clients::holes(machine));
    findings.extend(clients::huge_pages(machine));
    findings.extend(clients::wait_queues(machine));
    findings.extend(isolation::hypervisor(machine));
    findings
}
