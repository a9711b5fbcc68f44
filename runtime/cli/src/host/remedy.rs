//! The settings that a machine is to have, as the commands that make them: what findings are corrected by, and what is known of a board
//! beforehand.

use super::shown;

/// An exit latency that a frame's deadline does not feel, in us: about that of a system call or two.
pub const IDLE_EXIT_US_MAX: i64 = 10;

pub const PREEMPTION: &str = "boot with preempt=full, or with a PREEMPT_RT kernel";
pub const THROTTLING: &str = "sudo sysctl -w kernel.sched_rt_runtime_us=950000";
pub const BALANCER: &str = "sudo systemctl disable --now irqbalance   (or IRQBALANCE_BANNED_CPULIST in /etc/default/irqbalance)";
pub const TIMER_MIGRATION: &str =
    "sudo sysctl -w kernel.timer_migration=0   (no need to where cores are tickless)";
pub const HUGE_PAGES: &str = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled";
pub const SHARED_HUGE_PAGES: &str =
    "echo deny | sudo tee /sys/kernel/mm/transparent_hugepage/shmem_enabled";
pub const COMPACTION: &str = "sudo sysctl -w vm.compaction_proactiveness=0";
pub const SWAP: &str =
    "sudo swapoff -a   (and out of /etc/fstab; on a Jetson: sudo systemctl disable nvzramconfig)";
pub const NUMA_BALANCING: &str = "sudo sysctl -w kernel.numa_balancing=0";
pub const JETSON_CLOCKS: &str = "sudo jetson_clocks";

/// On a machine that is no Jetson.
pub fn governor(cores: &[u16]) -> String {
    format!(
        "sudo cpupower -c {} frequency-set -g performance",
        shown(cores)
    )
}

pub fn idle_states(cores: &[u16]) -> String {
    format!(
        "[daemon] idle_latency_us = {IDLE_EXIT_US_MAX} in the manifest (holds /dev/cpu_dma_latency), or: sudo cpupower -c {} idle-set -D {IDLE_EXIT_US_MAX}",
        shown(cores)
    )
}

/// Of the cores that run stages.
pub fn isolation(cores: &[u16]) -> String {
    let list = shown(cores);
    format!(
        "add to the kernel's command line: isolcpus=managed_irq,domain,{list} nohz_full={list} rcu_nocbs={list}"
    )
}
