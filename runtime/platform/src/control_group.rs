//! The memory that this process's control group may have. Beyond it the kernel ends processes, so a plan of
//! memory must fit into it (cgroups(7); versions 1 and 2, or both at once).

use std::path::{Path, PathBuf};

/// What a control group, or one that it lies in, allows its processes together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    pub bytes: u64,
    /// The kernel's file with the limit.
    pub file: PathBuf,
}

/// Version 1 says "no limit" with the largest number of pages: in bytes, just below 2^63. No machine has half
/// of that.
const V1_NO_LIMIT: u64 = 1 << 62;

/// The smallest limit above this process; none if there is none or the kernel does not tell.
#[must_use]
pub fn memory_limit() -> Option<MemoryLimit> {
    let read = |file| std::fs::read_to_string(file).ok();
    let (groups, mounts) = (read("/proc/self/cgroup")?, read("/proc/self/mountinfo")?);
    memory_limit_among(&groups, &mounts, Path::new("/"))
}

/// As [`memory_limit`], of the process with these `cgroup` and `mountinfo` files of /proc, on the
/// machine whose files are under `root`.
fn memory_limit_among(groups: &str, mounts: &str, root: &Path) -> Option<MemoryLimit> {
    let hierarchies = groups.lines().filter_map(Hierarchy::of_line);
    let limits = hierarchies.filter_map(|hierarchy| hierarchy.limit(mounts, root));
    limits.min_by_key(|limit| limit.bytes)
}

/// A tree of control groups that has to do with memory, and where this process is in it.
struct Hierarchy<'a> {
    group: &'a str,
    version_1: bool,
}

impl<'a> Hierarchy<'a> {
    /// Of a line `ID:CONTROLLERS:GROUP`; version 2 names no controllers.
    fn of_line(line: &'a str) -> Option<Self> {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, group) = (fields.next()?, fields.next()?);
        let version_1 = controllers.split(',').any(|name| name == "memory");
        (version_1 || controllers.is_empty()).then_some(Self { group, version_1 })
    }

    /// The smallest limit from the process's group up to the top that it sees.
    fn limit(&self, mounts: &str, root: &Path) -> Option<MemoryLimit> {
        let (top, mounted) = mounts.lines().find_map(|line| self.mount(line))?;
        let top = root.join(top.trim_start_matches('/'));
        // What is mounted may itself be a group further down: in a container it is the container's.
        let below = self.group.strip_prefix(mounted.trim_end_matches('/'));
        let below = below.filter(|path| path.is_empty() || path.starts_with('/'));
        let group = top.join(below.unwrap_or("").trim_start_matches('/'));
        let names: &[&str] = if self.version_1 {
            &["memory.limit_in_bytes"]
        } else {
            // Above `high` the kernel slows the group down until it is below it again, which memory that
            // is locked never is.
            &["memory.max", "memory.high"]
        };
        let groups = group.ancestors().take_while(|path| path.starts_with(&top));
        let files = groups.flat_map(|path| names.iter().map(|name| path.join(name)));
        files.filter_map(limit_in).min_by_key(|limit| limit.bytes)
    }

    /// Where the tree is mounted, and from which of its groups on, if this line of `mountinfo`
    /// (proc_pid_mountinfo(5)) is about it.
    fn mount<'m>(&self, line: &'m str) -> Option<(&'m str, &'m str)> {
        let (place, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        let ours = match (kind.next()?, self.version_1) {
            ("cgroup2", false) => true,
            ("cgroup", true) => kind.nth(1)?.split(',').any(|option| option == "memory"),
            _ => false,
        };
        let mut place = place.split(' ').skip(3);
        let (mounted, top) = (place.next()?, place.next()?);
        ours.then_some((top, mounted))
    }
}

fn limit_in(file: PathBuf) -> Option<MemoryLimit> {
    // `max`, which is no number, is no limit.
    let bytes: u64 = std::fs::read_to_string(&file).ok()?.trim().parse().ok()?;
    (bytes < V1_NO_LIMIT).then_some(MemoryLimit { bytes, file })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine's files, gone with it.
    struct Tree(PathBuf);

    impl Tree {
        fn with(name: &str, files: &[(&str, &str)]) -> Self {
            let name = format!("punctual-groups-{name}-{}", std::process::id());
            let root = std::env::temp_dir().join(name);
            for (file, text) in files {
                let file = root.join(file);
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, text).unwrap();
            }
            Self(root)
        }

        fn limit(&self, groups: &str, mounts: &str) -> Option<(u64, String)> {
            let limit = memory_limit_among(groups, mounts, &self.0)?;
            let file = limit.file.strip_prefix(&self.0).unwrap();
            Some((limit.bytes, file.display().to_string()))
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const V2: &str = "24 30 0:22 / /proc rw - proc proc rw\n\
        31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn the_smallest_limit_on_the_way_up_counts() {
        let tree = Tree::with(
            "v2",
            &[
                ("sys/fs/cgroup/memory.stat", "anon 1"),
                ("sys/fs/cgroup/punctual.slice/memory.max", "209715200\n"),
                ("sys/fs/cgroup/punctual.slice/memory.high", "max\n"),
                (
                    "sys/fs/cgroup/punctual.slice/punctuald.service/memory.max",
                    "max\n",
                ),
                (
                    "sys/fs/cgroup/punctual.slice/punctuald.service/memory.high",
                    "300000000\n",
                ),
                ("sys/fs/cgroup/other.slice/memory.max", "1\n"),
            ],
        );
        let groups = "0::/punctual.slice/punctuald.service\n";
        let expected = "sys/fs/cgroup/punctual.slice/memory.max".to_owned();
        assert_eq!(tree.limit(groups, V2), Some((209_715_200, expected)));
        assert_eq!(tree.limit("0::/\n", V2), None);
    }

    #[test]
    fn a_group_that_is_slowed_down_above_its_bound_has_that_as_its_limit() {
        let tree = Tree::with(
            "high",
            &[
                ("sys/fs/cgroup/a/memory.max", "400000000\n"),
                ("sys/fs/cgroup/a/memory.high", "100000000\n"),
            ],
        );
        let found = tree.limit("0::/a\n", V2).unwrap();
        assert_eq!(found, (100_000_000, "sys/fs/cgroup/a/memory.high".into()));
    }

    #[test]
    fn version_1_counts_beside_version_2() {
        let mounts = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
            35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
            36 31 0:33 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let tree = Tree::with(
            "v1",
            &[
                (
                    "sys/fs/cgroup/memory/memory.limit_in_bytes",
                    "9223372036854771712\n",
                ),
                (
                    "sys/fs/cgroup/memory/jobs/memory.limit_in_bytes",
                    "9223372036854771712\n",
                ),
                (
                    "sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes",
                    "134217728\n",
                ),
            ],
        );
        let groups = "5:devices:/\n4:memory:/jobs/7\n1:cpu,cpuacct:/\n0::/\n";
        let expected = "sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes".to_owned();
        assert_eq!(tree.limit(groups, mounts), Some((134_217_728, expected)));
        assert_eq!(tree.limit("4:memory:/jobs\n", mounts), None);
    }

    #[test]
    fn a_container_sees_its_own_group_at_the_mount_point() {
        let mounts = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let tree = Tree::with(
            "container",
            &[
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "64000000\n"),
                (
                    "sys/fs/cgroup/memory/child/memory.limit_in_bytes",
                    "32000000\n",
                ),
            ],
        );
        let bytes = |groups| tree.limit(groups, mounts).map(|(bytes, _)| bytes);
        assert_eq!(bytes("4:memory:/docker/abc\n"), Some(64_000_000));
        assert_eq!(bytes("4:memory:/docker/abc/child\n"), Some(32_000_000));
        // Of a group outside what is mounted nothing is seen but the mount itself.
        assert_eq!(bytes("4:memory:/docker/abcd\n"), Some(64_000_000));
    }

    #[test]
    fn what_is_no_such_file_is_no_limit() {
        let tree = Tree::with("none", &[("sys/fs/cgroup/memory.max", "a lot\n")]);
        for groups in ["", "0", "0:", "0::", "nonsense\n::\n", "0::/../..\n"] {
            assert_eq!(tree.limit(groups, V2), None, "{groups:?}");
        }
        assert_eq!(tree.limit("0::/\n", "nonsense - cgroup2\n - \n"), None);
    }
}
