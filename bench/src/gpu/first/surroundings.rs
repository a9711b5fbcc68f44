//! What else is true of the machine while a GPU is looked at: its software, its settings, who else uses the GPU.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use punctual_device_cuda::driver::environment;
use punctual_device_cuda::host::Host;
use punctual_platform::{read, settings};
use serde::{Deserialize, Serialize};

use super::super::machine::said;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surroundings {
    /// As `uname -srvm` says it: no name of the machine.
    pub system: String,
    /// Files that say which software the board has, whole, by their path.
    pub releases: BTreeMap<String, String>,
    pub board: Option<String>,
    /// Governors and frequencies of processor and GPU, the power mode.
    pub settings: BTreeMap<String, String>,
    /// Settings of the driver that are other than ours.
    pub driver_settings: Vec<String>,
    pub others: Others,
    /// Where clocks, temperature and throttling are read from.
    pub sensors: String,
}

/// Other processes that use the GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Others {
    pub names: Vec<String>,
    /// How they were looked for, and what that does not see.
    pub by: String,
}

const RELEASES: [&str; 3] = [
    "etc/os-release",
    "etc/nv_tegra_release",
    "proc/driver/nvidia/version",
];

/// A longer file is none of these.
const FILE_BYTES_MAX: u64 = 1 << 16;

impl Surroundings {
    /// Of a machine whose files lie below `root`; `tool` is `nvidia-smi` or what stands in for it.
    pub fn of(root: &Path, tool: &Path, sensors: &str) -> Self {
        let file = |path: &str| read::text(&root.join(path), FILE_BYTES_MAX).ok();
        let release = |path: &&str| Some(((*path).to_owned(), file(path)?));
        let kernel = |name: &str| {
            let text = file(&format!("proc/sys/kernel/{name}"));
            text.map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned())
        };
        let host = Host::at(root);
        let mut all = settings::of_processor(root);
        all.extend(host.settings());
        Self {
            system: format!(
                "{} {} {} {}",
                kernel("ostype"),
                kernel("osrelease"),
                kernel("version"),
                std::env::consts::ARCH
            ),
            releases: RELEASES.iter().filter_map(release).collect(),
            board: host.model(),
            settings: all,
            driver_settings: environment::unmet()
                .iter()
                .map(ToString::to_string)
                .collect(),
            others: Others::find(root, tool),
            sensors: sensors.to_owned(),
        }
    }
}

impl Others {
    fn find(root: &Path, tool: &Path) -> Self {
        let query = ["--query-compute-apps=process_name", "--format=csv,noheader"];
        // It says nothing where no program computes, so that it is first asked whether it is there at all.
        if said(tool, &["-L"]).is_some() {
            let text = said(tool, &query).unwrap_or_default();
            return Self {
                names: names(&text),
                by: "nvidia-smi --query-compute-apps: programs that compute, not those that draw"
                    .to_owned(),
            };
        }
        Self {
            names: holders(&root.join("proc")),
            by: "open device files of the GPU in /proc: without root's rights, processes of other users are not seen"
                .to_owned(),
        }
    }
}

/// A name a line, without the folder, which may be a user's.
fn names(text: &str) -> Vec<String> {
    let name = |line: &str| {
        line.rsplit('/')
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    let mut names: Vec<String> = text.lines().map(name).collect();
    names.sort();
    names
}

/// Names of processes, but for this one, that have a device file of the GPU open.
fn holders(proc: &Path) -> Vec<String> {
    let this = std::process::id().to_string();
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let processes = entries.filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.chars().all(|c| c.is_ascii_digit()) && name != this
    });
    let name = |folder: &Path| {
        let text = read::text(&folder.join("comm"), FILE_BYTES_MAX).ok()?;
        Some(text.trim().to_owned())
    };
    let mut names: Vec<String> = processes
        .filter(|process| holds_gpu(&process.path().join("fd")))
        .filter_map(|process| name(&process.path()))
        .collect();
    names.sort();
    names
}

fn holds_gpu(descriptors: &Path) -> bool {
    let entries = fs::read_dir(descriptors).into_iter().flatten().flatten();
    let mut targets = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    targets.any(|target| {
        let target = target.to_string_lossy();
        ["/dev/nvidia", "/dev/nvhost", "/dev/nvgpu"]
            .iter()
            .any(|device| target.starts_with(device))
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::super::fixtures::made;
    use super::*;

    fn none() -> PathBuf {
        PathBuf::from("/nowhere/nvidia-smi")
    }

    #[test]
    fn a_board_tells_its_software_its_settings_and_who_uses_its_gpu() {
        let root = made(
            "surroundings",
            &[
                ("etc/os-release", "NAME=Ubuntu\n"),
                ("etc/nv_tegra_release", "# R36 (release)\n"),
                ("proc/sys/kernel/ostype", "Linux\n"),
                ("proc/sys/kernel/osrelease", "5.15.148-tegra\n"),
                ("proc/sys/kernel/version", "#1 SMP PREEMPT\n"),
                ("proc/sys/kernel/hostname", "secret\n"),
                ("proc/device-tree/model", "NVIDIA Jetson Orin NX\0"),
                ("sys/class/devfreq/17000000.gpu/governor", "nvhost_podgov\n"),
                ("proc/12/comm", "camera\n"),
                ("proc/13/comm", "editor\n"),
            ],
        );
        for (process, target) in [("12", "/dev/nvhost-gpu"), ("13", "/dev/null")] {
            let folder = root.join("proc").join(process).join("fd");
            fs::create_dir_all(&folder).expect("a folder");
            std::os::unix::fs::symlink(target, folder.join("3")).expect("a link");
        }
        let found = Surroundings::of(&root, &none(), "files");
        assert!(
            found.system.starts_with("Linux 5.15.148-tegra #1 SMP"),
            "{}",
            found.system
        );
        assert_eq!(found.releases["etc/nv_tegra_release"], "# R36 (release)\n");
        assert_eq!(found.releases.len(), 2);
        assert_eq!(found.board.as_deref(), Some("NVIDIA Jetson Orin NX"));
        assert_eq!(found.settings["17000000.gpu governor"], "nvhost_podgov");
        assert_eq!(found.others.names, ["camera"]);
        let all = serde_json::to_string(&found).expect("plain data");
        assert!(!all.contains("secret"), "the machine's name: {all}");
    }

    #[test]
    fn a_machine_without_any_of_it_has_empty_places() {
        let root = made("empty-surroundings", &[]);
        let found = Surroundings::of(&root, &none(), "nothing");
        assert!(found.releases.is_empty() && found.others.names.is_empty());
        assert!(found.system.contains("unknown"), "{}", found.system);
        assert!(found.others.by.contains("/proc"));
    }
}
