//! What is checked, why it matters, and its source.

use serde::{Serialize, Serializer};

/// One property of a machine that costs latency when it is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The right to real-time priorities.
    Privilege,
    MemoryLock,
    /// The share of time that the kernel leaves to real-time threads.
    Throttling,
    /// The same, of a control group.
    GroupShare,
    /// The share of time that a control group has at all.
    GroupQuota,
    /// How the kernel can be preempted.
    Preemption,
    ClockSource,
    IdleStates,
    Governor,
    Boost,
    /// The board's power mode and held clocks.
    PowerMode,
    Throttled,
    /// Huge pages made behind one's back.
    HugePages,
    Compaction,
    /// Pages that go to a disk.
    Swap,
    NumaBalancing,
    /// Cores without other work.
    Isolation,
    /// Timers that go to other cores.
    TimerMigration,
    Siblings,
    /// Real-time threads of other processes on the plan's cores.
    Rivals,
    /// Interrupts on cores that run stages.
    Interrupts,
    /// A program that moves interrupts about.
    Balancer,
    /// Interrupts on a core whose real-time threads starve what follows them.
    StarvedInterrupts,
    /// Holes that a client makes in memory that it shares with the daemon.
    SharedHoles,
    /// Huge pages that it makes of that memory.
    SharedHugePages,
    /// Queues of the kernel that a client makes long for any thread that wakes it.
    WaitQueues,
    Virtual,
}

impl Subject {
    /// The word for it, for machines and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Privilege => "real-time-privilege",
            Self::MemoryLock => "memory-lock",
            Self::Throttling => "rt-throttling",
            Self::GroupShare => "rt-group-share",
            Self::GroupQuota => "cpu-quota",
            Self::Preemption => "kernel-preemption",
            Self::ClockSource => "clock-source",
            Self::IdleStates => "idle-states",
            Self::Governor => "frequency-governor",
            Self::Boost => "frequency-boost",
            Self::PowerMode => "power-mode",
            Self::Throttled => "thermal-throttling",
            Self::HugePages => "transparent-huge-pages",
            Self::SharedHugePages => "shared-huge-pages",
            Self::Compaction => "proactive-compaction",
            Self::Swap => "swap",
            Self::NumaBalancing => "numa-balancing",
            Self::Isolation => "core-isolation",
            Self::TimerMigration => "timer-migration",
            Self::Siblings => "smt-siblings",
            Self::Rivals => "other-realtime-threads",
            Self::Interrupts => "interrupts-on-cores",
            Self::Balancer => "irqbalance",
            Self::StarvedInterrupts => "starved-interrupts",
            Self::SharedHoles => "shared-memory-holes",
            Self::WaitQueues => "wait-queues",
            Self::Virtual => "virtual-machine",
        }
    }

    /// Why it matters.
    pub const fn why(self) -> &'static str {
        match self {
            Self::Privilege => {
                "without SCHED_FIFO every other program delays the daemon's threads by whole time slices"
            }
            Self::MemoryLock => "a page that was written out costs milliseconds when it is touched",
            Self::Throttling => {
                "real-time threads are stopped for the rest of each period once they have used their share"
            }
            Self::GroupShare => {
                "a group without a share refuses SCHED_FIFO, whatever the privileges"
            }
            Self::GroupQuota => {
                "ordinary threads of the group stop for the rest of each period once the quota is used"
            }
            Self::Preemption => {
                "a kernel that is not preemptible finishes what it does before a real-time thread runs"
            }
            Self::ClockSource => {
                "each reading of such a clock leaves the processor; the daemon reads it several times a frame"
            }
            Self::IdleStates => "a core in a deep state takes this long to wake first",
            Self::Governor => {
                "a core that was slow a moment ago runs the first stages of a burst slowly; profiles hold for one clock"
            }
            Self::Boost => "profiles of a boosted clock are void once heat takes the boost",
            Self::PowerMode => {
                "clocks that follow the load make the first stages of a burst slow; profiles hold for one power mode"
            }
            Self::Throttled => {
                "a processor that was too hot runs below its clock, and budgets were measured at its clock"
            }
            Self::HugePages => "merging and moving pages stops the threads that use them",
            Self::SharedHugePages => {
                "a client may merge the pages that it shares with the daemon (MADV_COLLAPSE), as slowly as it likes, and who touches them waits for it"
            }
            Self::Compaction => "pages are moved in the background; who touches one waits",
            Self::Swap => {
                "reclaiming memory to a disk stalls every thread that asks for memory, clients included"
            }
            Self::NumaBalancing => "pages are unmapped to see who uses them: page faults",
            Self::Isolation => {
                "other programs, kernel threads and the tick run on the cores of the partitions"
            }
            Self::TimerMigration => {
                "timers of other cores are run by whichever core is awake, also by those of the partitions"
            }
            Self::Siblings => {
                "two threads on siblings of one core halve each other's speed; profiles were measured alone"
            }
            Self::Rivals => {
                "a real-time thread of the same or a higher priority keeps its core for as long as it likes, and the daemon's threads there do not run; another daemon's stages take their time from this one's"
            }
            Self::Interrupts => "their handlers run before any thread there, in bursts",
            Self::Balancer => {
                "it moves interrupts to other cores at any time, also to those of the partitions"
            }
            Self::StarvedInterrupts => {
                "after a handler, most work of an interrupt runs in an ordinary thread, which real-time threads on that core starve: cameras on USB lose frames"
            }
            Self::SharedHoles => {
                "who touches a hole waits for whoever punches it, as slowly as a client likes"
            }
            Self::WaitQueues => {
                "whoever wakes a client walks past all who wait in the same queue of the kernel"
            }
            Self::Virtual => {
                "the host takes cores away at any time, which nothing in here can prevent; the daemon's report counts it (host_stalls)"
            }
        }
    }

    /// The source: pages of the kernel's documentation, or of the manual.
    pub const fn source(self) -> &'static str {
        match self {
            Self::Privilege => "sched(7), capabilities(7)",
            Self::MemoryLock => "mlock(2)",
            Self::Throttling | Self::GroupShare => "kernel: scheduler/sched-rt-group",
            Self::GroupQuota => "kernel: scheduler/sched-bwc, admin-guide/cgroup-v2",
            Self::Preemption => "kernel: Kconfig.preempt; real-time/theory",
            Self::ClockSource => "kernel: timers/timekeeping",
            Self::IdleStates => "kernel: admin-guide/pm/cpuidle",
            Self::Governor | Self::Boost => "kernel: admin-guide/pm/cpufreq",
            Self::PowerMode => "Jetson Linux Developer Guide: Platform Power and Performance",
            Self::Throttled => "kernel: driver-api/thermal/sysfs-api",
            Self::HugePages | Self::SharedHugePages => "kernel: admin-guide/mm/transhuge",
            Self::Compaction => "kernel: admin-guide/sysctl/vm",
            Self::Swap => "kernel: admin-guide/mm/concepts",
            Self::NumaBalancing => "kernel: admin-guide/sysctl/kernel",
            Self::Isolation => {
                "kernel: admin-guide/kernel-parameters (isolcpus, nohz_full, rcu_nocbs)"
            }
            Self::TimerMigration => "kernel: timers/no_hz",
            Self::Siblings => "kernel: admin-guide/cputopology",
            Self::Rivals => "sched(7)",
            Self::Interrupts | Self::StarvedInterrupts => "kernel: core-api/irq/irq-affinity",
            Self::Balancer => "irqbalance(1)",
            Self::SharedHoles => "fcntl(2): F_SEAL_FUTURE_WRITE",
            Self::WaitQueues => "futex(2)",
            Self::Virtual => "kernel: virt/kvm (steal time)",
        }
    }
}

impl Serialize for Subject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
