//! What control groups leave to the daemon's threads, in version 1 and version 2 of them (cgroups(7)).

use crate::host::{Finding, Gravity, Machine, Subject};

/// Groups of version 2 are one tree for all controllers.
const VERSION_2: &str = "";

/// The controller of version 1 that shares out processor time.
const CPU: &str = "cpu";

/// `CONFIG_RT_GROUP_SCHED` with control groups of version 1.
pub fn group_share(machine: &Machine) -> Option<Finding> {
    let group = group_of(machine, CPU)?;
    let folder = folders(machine, CPU).into_iter().next()?;
    let runtime = machine.number(&format!("{folder}/cpu.rt_runtime_us"))?;
    let found = format!("{runtime} us in the control group {group}");
    if runtime != 0 {
        return Some(Finding::good(Subject::GroupShare, found));
    }
    let finding = Finding::new(Subject::GroupShare, Gravity::Grave, found);
    Some(finding.mended_by(format!(
        "echo 950000 | sudo tee {folder}/cpu.rt_runtime_us   (its parents first)"
    )))
}

/// A machine may have both versions at once, and then only one of them has the controller: both are looked at. Without a
/// file that would have a quota there is a finding only with version 2, where a group without the controller has none.
pub fn group_quota(machine: &Machine) -> Option<Finding> {
    let of_1 = folders(machine, CPU);
    let of_1: Vec<_> = of_1.iter().filter_map(|at| quota_1(machine, at)).collect();
    let of_2 = folders(machine, VERSION_2);
    let is_seen = match group_of(machine, CPU) {
        Some(_) => !of_1.is_empty(),
        None => !of_2.is_empty(),
    };
    let of_2 = of_2.iter().filter_map(|at| quota_2(machine, at));
    let quotas = of_1.into_iter().flatten().chain(of_2);
    // Of the group's and its parents' quotas the narrowest counts.
    match quotas.min_by_key(|quota| quota.share_ppm) {
        Some(quota) => {
            let finding = Finding::new(Subject::GroupQuota, Gravity::Costly, quota.found);
            Some(finding.mended_by(quota.remedy))
        }
        None => is_seen.then(|| Finding::good(Subject::GroupQuota, "none")),
    }
}

/// A share of time that a group has, in parts per million of one core.
struct Quota {
    share_ppm: i64,
    found: String,
    remedy: String,
}

/// In version 1; no quota is -1.
fn quota_1(machine: &Machine, folder: &str) -> Option<Option<Quota>> {
    let path = format!("{folder}/cpu.cfs_quota_us");
    let quota = machine.number(&path)?;
    let period = machine.number(&format!("{folder}/cpu.cfs_period_us"));
    // The kernel's default.
    let period = period.unwrap_or(100_000);
    Some((quota >= 0).then(|| Quota {
        share_ppm: share_ppm(quota, period),
        found: format!("{path} is {quota} (of each {period} us)"),
        remedy: format!("echo -1 | sudo tee {path}"),
    }))
}

/// In version 2: quota and period, or `max` and the period.
fn quota_2(machine: &Machine, folder: &str) -> Option<Quota> {
    let path = format!("{folder}/cpu.max");
    let text = machine.text(&path)?;
    let mut words = text.split_whitespace().map(str::parse);
    let (Some(Ok(quota)), period) = (words.next(), words.next()) else {
        return None;
    };
    Some(Quota {
        share_ppm: share_ppm(quota, period.and_then(Result::ok).unwrap_or(100_000)),
        found: format!("{path} is {text} (us of each us)"),
        remedy: format!("echo max | sudo tee {path}"),
    })
}

fn share_ppm(quota: i64, period: i64) -> i64 {
    quota.saturating_mul(1_000_000) / period.max(1)
}

/// The folders of the process's control group and of those that it lies in, innermost first, as far up as they are
/// mounted; none if it is in no such group.
fn folders(machine: &Machine, controller: &str) -> Vec<String> {
    let Some(group) = group_of(machine, controller) else {
        return Vec::new();
    };
    let (top, mounted) = mount(machine, controller).unwrap_or_else(|| {
        let top = match controller {
            VERSION_2 => "/sys/fs/cgroup".to_owned(),
            controller => format!("/sys/fs/cgroup/{controller}"),
        };
        (top, "/".to_owned())
    });
    // What is mounted may itself be a group further down: in a container it is the container's.
    let below = group.strip_prefix(mounted.trim_end_matches('/'));
    let below = below.filter(|path| path.is_empty() || path.starts_with('/'));
    let below = below.unwrap_or("").trim_end_matches('/');
    // The first end is that of nothing: the mounted group itself, which in a container has the quota.
    let slashes = below.match_indices('/').map(|(at, _)| at);
    let ends: Vec<usize> = slashes.chain([below.len()]).collect();
    let folder = |end: usize| format!("{top}{}", &below[..end]);
    ends.into_iter().rev().map(folder).collect()
}

/// The process's control group: of the one hierarchy of version 2, or of version 1's with that controller.
fn group_of(machine: &Machine, controller: &str) -> Option<String> {
    let groups = machine.text("/proc/self/cgroup")?;
    groups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, group) = rest.split_once(':')?;
        let found = controllers.split(',').any(|name| name == controller);
        found.then(|| group.to_owned())
    })
}

/// Where such a hierarchy is mounted, and from which of its groups on (proc_pid_mountinfo(5)).
fn mount(machine: &Machine, controller: &str) -> Option<(String, String)> {
    let is_of_groups = |line: &str| line.contains(" - cgroup");
    let mounts = machine.lines("/proc/self/mountinfo", is_of_groups)?;
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        let found = match (kind.next()?, controller) {
            ("cgroup2", VERSION_2) => true,
            ("cgroup", VERSION_2) => false,
            ("cgroup", controller) => kind.nth(1)?.split(',').any(|option| option == controller),
            _ => false,
        };
        let mut place = place.split(' ').skip(3);
        let (mounted, top) = (place.next()?, place.next()?);
        found.then(|| (top.to_owned(), mounted.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(record: &str) -> Option<(Gravity, String)> {
        let finding = group_quota(&Machine::recorded(record))?;
        Some((finding.gravity, finding.found))
    }

    #[test]
    fn a_quota_of_version_1_is_found_on_a_machine_with_both_versions() {
        let record = "==> /proc/self/cgroup\n\
            4:cpu,cpuacct:/jobs/7\n1:name=systemd:/\n0::/jobs/7\n\
            ==> /proc/self/mountinfo\n\
            32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
            36 31 0:33 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
            ==> /sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us\n-1\n\
            ==> /sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_quota_us\n50000\n\
            ==> /sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_period_us\n100000\n\
            ==> /sys/fs/cgroup/cpu,cpuacct/jobs/7/cpu.cfs_quota_us\n80000\n\
            ==> /sys/fs/cgroup/cpu,cpuacct/jobs/7/cpu.cfs_period_us\n100000\n";
        let narrowest =
            "/sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_quota_us is 50000 (of each 100000 us)";
        assert_eq!(quota(record), Some((Gravity::Costly, narrowest.to_owned())));
        let without = record
            .replace("\n50000\n", "\n-1\n")
            .replace("\n80000\n", "\n-1\n");
        assert_eq!(quota(&without), Some((Gravity::Good, "none".to_owned())));
    }

    #[test]
    fn a_container_has_its_quota_where_its_own_group_is_mounted() {
        let version_1 = "==> /proc/self/cgroup\n4:cpu:/docker/abc\n0::/\n\
            ==> /proc/self/mountinfo\n\
            35 31 0:32 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n\
            ==> /sys/fs/cgroup/cpu/cpu.cfs_quota_us\n150000\n";
        let found = "/sys/fs/cgroup/cpu/cpu.cfs_quota_us is 150000 (of each 100000 us)";
        assert_eq!(quota(version_1), Some((Gravity::Costly, found.to_owned())));
        let version_2 = "==> /proc/self/cgroup\n0::/\n==> /sys/fs/cgroup/cpu.max\n150000 100000\n";
        let found = "/sys/fs/cgroup/cpu.max is 150000 100000 (us of each us)";
        assert_eq!(quota(version_2), Some((Gravity::Costly, found.to_owned())));
    }

    #[test]
    fn nothing_is_said_of_a_quota_whose_files_cannot_be_seen() {
        let version_1 = "==> /proc/self/cgroup\n4:cpu:/a\n0::/a\n";
        assert_eq!(quota(version_1), None);
        assert_eq!(quota(""), None);
    }

    #[test]
    fn a_record_has_no_mounts_but_those_of_control_groups() {
        let private = "50 31 0:40 / /home/someone rw - ext4 /dev/sdb1 rw\n";
        let groups = "36 31 0:33 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let record =
            format!("==> /proc/self/cgroup\n0::/a\n==> /proc/self/mountinfo\n{private}{groups}");
        let machine = Machine::recorded(&record);
        group_quota(&machine);
        let again = machine.record();
        assert!(
            again.contains("cgroup2") && !again.contains("someone"),
            "{again}"
        );
    }
}
