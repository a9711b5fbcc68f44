//! What a client can try on this kernel to make the daemon's threads wait, and what keeps it from that.

use super::memory::chosen;
use crate::host::{Finding, Gravity, Machine, Subject, remedy};

/// The version of a kernel.
type Version = (u32, u32);

/// From here on the daemon can forbid holes in a file that a client has mapped for writing (`F_SEAL_FUTURE_WRITE`).
const SEAL_SINCE: Version = (5, 1);
/// From here on one thread can wait for many words at once (`futex_waitv`).
const WAITS_SINCE: Version = (5, 16);
/// From here on a process can have its pages merged at any time, those of shared memory too (`MADV_COLLAPSE`).
const COLLAPSE_SINCE: Version = (6, 1);

/// A thread that touches a hole waits for the process that punches it.
pub fn holes(machine: &Machine) -> Option<Finding> {
    let version = kernel(machine)?;
    let (major, minor) = version;
    if version < SEAL_SINCE {
        let found = format!("Linux {major}.{minor} cannot forbid them");
        let finding = Finding::new(Subject::SharedHoles, Gravity::Grave, found);
        return Some(finding.mended_by("a kernel from 5.10 on"));
    }
    let found = format!("Linux {major}.{minor} refuses them once the daemon has sealed the memory");
    Some(Finding::good(Subject::SharedHoles, found))
}

/// Nothing but `deny` refuses a merge of what is not pinned: `never` is about what the kernel does by itself.
pub fn huge_pages(machine: &Machine) -> Option<Finding> {
    const FILE: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    let version = kernel(machine)?;
    let (major, minor) = version;
    if version < COLLAPSE_SINCE {
        let found = format!("Linux {major}.{minor} merges none on request");
        return Some(Finding::good(Subject::SharedHugePages, found));
    }
    let enabled = chosen(&machine.text(FILE)?)?;
    if enabled == "deny" {
        return Some(Finding::good(
            Subject::SharedHugePages,
            "shmem_enabled: deny",
        ));
    }
    let found = format!(
        "shmem_enabled: {enabled}; outputs are pinned, so that a client can hold up its own threads only"
    );
    let finding = Finding::new(Subject::SharedHugePages, Gravity::Notice, found);
    Some(finding.mended_by(remedy::SHARED_HUGE_PAGES))
}

pub fn wait_queues(machine: &Machine) -> Option<Finding> {
    let version = kernel(machine)?;
    let (waits, bound) = if version < WAITS_SINCE {
        ("one word", "")
    } else {
        (
            "128 words",
            " after two to four of them, 5 us for each of its threads; `TasksMax=` of its unit bounds these",
        )
    };
    let (major, minor) = version;
    let found = format!(
        "on Linux {major}.{minor} a thread waits for {waits} at once; a client whose wake-ups take too long is disconnected{bound}"
    );
    Some(Finding::good(Subject::WaitQueues, found))
}

fn kernel(machine: &Machine) -> Option<Version> {
    let text = machine.text("/proc/version")?;
    let mut numbers = text.strip_prefix("Linux version ")?.split(['.', '-', ' ']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(version: &str, shared: &str) -> Machine {
        let huge = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
        Machine::recorded(&format!(
            "==> /proc/version\nLinux version {version}-any (build) #1 SMP\n==> {huge}\n{shared}\n"
        ))
    }

    #[test]
    fn each_kernel_has_its_attacks_and_their_defences() {
        let never = "always within_size advise [never] deny force";
        let deny = "always within_size advise never [deny] force";
        for (version, shared, gravity, huge, waits) in [
            ("5.10.192", never, Gravity::Good, "merges none", "one word"),
            ("5.15.148", never, Gravity::Good, "merges none", "one word"),
            (
                "6.1.0",
                never,
                Gravity::Notice,
                "outputs are pinned",
                "128 words",
            ),
            ("6.8.12", deny, Gravity::Good, "deny", "128 words"),
            (
                "6.18.44",
                never,
                Gravity::Notice,
                "outputs are pinned",
                "128 words",
            ),
        ] {
            let machine = machine(version, shared);
            let merged = huge_pages(&machine).expect("it is recorded");
            assert_eq!(merged.gravity, gravity, "{version}");
            assert!(merged.found.contains(huge), "{version}: {}", merged.found);
            let waiting = wait_queues(&machine).expect("it is recorded");
            assert!(
                waiting.found.contains(waits),
                "{version}: {}",
                waiting.found
            );
            let holes = holes(&machine).expect("it is recorded");
            assert_eq!(holes.gravity, Gravity::Good, "{version}");
        }
        let old = holes(&machine("4.19.0", never)).expect("it is recorded");
        assert_eq!(old.gravity, Gravity::Grave);
    }
}
