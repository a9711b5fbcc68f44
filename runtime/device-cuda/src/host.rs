//! What the operating system reports of a board with a GPU: the driver's build, the power mode, clocks.
//! Everything is read from files and may be missing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use punctual_platform::{read, settings};

/// A board's files, below `/` or, in tests, elsewhere.
#[derive(Clone, Debug)]
pub struct Host {
    root: PathBuf,
}

/// The clock of something, in kHz.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clock {
    /// As the kernel names it: `gpu`, `17000000.gpu`, `emc`.
    pub name: String,
    pub now_khz: Option<u64>,
    /// What its governor may choose from.
    pub range_khz: Option<(u64, u64)>,
}

impl Host {
    #[must_use]
    pub fn this() -> Self {
        Self::at(Path::new("/"))
    }

    /// A machine whose files lie below `root`.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// The driver's build, as exactly as there is one: the version of the kernel's module, or the
    /// release of a Jetson's system software.
    #[must_use]
    pub fn driver_build(&self) -> Option<String> {
        // NVRM version: NVIDIA UNIX x86_64 Kernel Module  560.35.03  Fri Aug 16 21:39:15 UTC 2024
        let module = self.read("proc/driver/nvidia/version");
        let version = module.as_deref().and_then(|text| {
            let words = text.lines().next()?.split_whitespace();
            let is_version = |word: &&str| {
                word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.')
            };
            words.into_iter().find(is_version).map(str::to_owned)
        });
        // # R36 (release), REVISION: 4.0, GCID: 37537400, BOARD: generic, ...
        let release = || {
            let text = self.read("etc/nv_tegra_release")?;
            let line = text
                .lines()
                .next()?
                .trim_start_matches(['#', ' '])
                .to_owned();
            let words: Vec<&str> = line.split(", ").take(3).collect();
            Some(words.join(", ")).filter(|words| !words.is_empty())
        };
        version.or_else(release)
    }

    /// The name of the power mode, on boards that have several (`nvpmodel`); its number if the name is not found.
    #[must_use]
    pub fn power_mode(&self) -> Option<String> {
        settings::power_mode(&self.root)
    }

    /// The power modes of the board.
    #[must_use]
    pub fn power_modes(&self) -> Vec<settings::PowerMode> {
        settings::power_modes(&self.root)
    }

    /// Settings that the speed of the GPU depends on, by name, as far as the kernel shows them: the governor and the
    /// frequencies of an integrated GPU, the power mode.
    #[must_use]
    pub fn settings(&self) -> BTreeMap<String, String> {
        let mut settings = BTreeMap::new();
        for Clock {
            name, range_khz, ..
        } in self.clocks()
        {
            if let Some(governor) = self.read(&format!("sys/class/devfreq/{name}/governor")) {
                settings.insert(format!("{name} governor"), governor.trim().to_owned());
            }
            if let Some((min, max)) = range_khz {
                let range = format!("{} to {} MHz", min / 1000, max / 1000);
                settings.insert(format!("{name} frequency"), range);
            }
        }
        settings.extend(self.power_mode().map(|mode| ("nvpmodel".to_owned(), mode)));
        settings
    }

    /// Clocks of an integrated GPU and its memory, where the kernel shows them; a card's are asked of its driver.
    #[must_use]
    pub fn clocks(&self) -> Vec<Clock> {
        let folder = self.root.join("sys/class/devfreq");
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| GPU_NAMES.iter().any(|gpu| name.ends_with(gpu)))
            .collect();
        names.sort();
        let hertz = |name: &str, file: &str| {
            let text = self.read(&format!("sys/class/devfreq/{name}/{file}"))?;
            text.trim().parse::<u64>().ok().map(|hertz| hertz / 1000)
        };
        let mut clocks: Vec<Clock> = names
            .into_iter()
            .map(|name| Clock {
                now_khz: hertz(&name, "cur_freq"),
                range_khz: hertz(&name, "min_freq").zip(hertz(&name, "max_freq")),
                name,
            })
            .collect();
        let memory = self.read("sys/kernel/debug/bpmp/debug/clk/emc/rate");
        if let Some(hertz) = memory.and_then(|text| text.trim().parse::<u64>().ok()) {
            clocks.push(Clock {
                name: "emc".to_owned(),
                now_khz: Some(hertz / 1000),
                range_khz: None,
            });
        }
        clocks
    }

    /// The board's name, where there is a device tree.
    #[must_use]
    pub fn model(&self) -> Option<String> {
        let text = self.read("proc/device-tree/model")?;
        Some(text.trim_matches(['\0', '\n', ' ']).to_owned()).filter(|name| !name.is_empty())
    }

    /// By what the device tree says the board is compatible with, the most exact first: `nvidia,p3737-0000+p3701-0005`.
    #[must_use]
    pub fn compatible(&self) -> Vec<String> {
        let text = self.read("proc/device-tree/compatible");
        let text = text.unwrap_or_default();
        let names = text.split(['\0', '\n']).filter(|name| !name.is_empty());
        names.map(str::to_owned).collect()
    }

    /// Bytes of the machine's memory, less what the kernel keeps for itself.
    #[must_use]
    pub fn memory_bytes(&self) -> Option<u64> {
        let text = self.read("proc/meminfo")?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:"))?;
        let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kibibytes.checked_mul(1024)
    }

    fn read(&self, path: &str) -> Option<String> {
        read::text(&self.root.join(path), FILE_BYTES_MAX).ok()
    }
}

/// A longer file is none that is looked at here.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// How the names of GPUs end in `/sys/class/devfreq`: of Orin and later, and by chip before.
const GPU_NAMES: [&str; 5] = ["gpu", "ga10b", "gv11b", "gp10b", "gb10b"];

#[cfg(test)]
mod tests {
    use super::*;

    /// A board of these files, below a folder of its own.
    fn board(name: &str, files: &[(&str, &str)]) -> Host {
        let root =
            std::env::temp_dir().join(format!("punctual-host-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("below the root")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        Host::at(&root)
    }

    #[test]
    fn a_jetson_tells_its_release_mode_and_clocks() {
        let host = board(
            "jetson",
            &[
                (
                    "etc/nv_tegra_release",
                    "# R36 (release), REVISION: 4.0, GCID: 37537400, BOARD: generic, EABI: aarch64\n",
                ),
                ("var/lib/nvpmodel/status", "pmode:0002 fmode:fanNull\n"),
                (
                    "etc/nvpmodel.conf",
                    "< POWER_MODEL ID=0 NAME=MAXN >\nCPU_ONLINE CORE_0 1\n\n< POWER_MODEL ID=2 NAME=15W >\n",
                ),
                ("sys/class/devfreq/17000000.gpu/cur_freq", "306000000\n"),
                ("sys/class/devfreq/17000000.gpu/min_freq", "306000000\n"),
                ("sys/class/devfreq/17000000.gpu/max_freq", "918000000\n"),
                ("sys/class/devfreq/17000000.gpu/governor", "nvhost_podgov\n"),
                ("sys/class/devfreq/15340000.vic/cur_freq", "1\n"),
                ("sys/kernel/debug/bpmp/debug/clk/emc/rate", "3199000000\n"),
                ("proc/device-tree/model", "NVIDIA Jetson Orin NX\0"),
                (
                    "proc/device-tree/compatible",
                    "nvidia,p3768-0000+p3767-0000\0nvidia,tegra234\0",
                ),
                (
                    "proc/meminfo",
                    "MemTotal:       16000000 kB\nMemFree: 1 kB\n",
                ),
            ],
        );
        assert_eq!(host.memory_bytes(), Some(16_384_000_000));
        assert_eq!(
            host.driver_build().as_deref(),
            Some("R36 (release), REVISION: 4.0, GCID: 37537400")
        );
        assert_eq!(host.power_mode().as_deref(), Some("15W"));
        assert_eq!(host.power_modes()[0].name, "MAXN");
        let compatible = ["nvidia,p3768-0000+p3767-0000", "nvidia,tegra234"];
        assert_eq!(host.compatible(), compatible);
        assert_eq!(host.model().as_deref(), Some("NVIDIA Jetson Orin NX"));
        let gpu = Clock {
            name: "17000000.gpu".to_owned(),
            now_khz: Some(306_000),
            range_khz: Some((306_000, 918_000)),
        };
        let memory = Clock {
            name: "emc".to_owned(),
            now_khz: Some(3_199_000),
            range_khz: None,
        };
        assert_eq!(host.clocks(), [gpu, memory]);
        let settings = [
            ("17000000.gpu frequency", "306 to 918 MHz"),
            ("17000000.gpu governor", "nvhost_podgov"),
            ("nvpmodel", "15W"),
        ];
        let told = host.settings();
        let told: Vec<_> = told.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(told, settings);
    }

    #[test]
    fn a_machine_with_a_card_tells_the_modules_version() {
        let text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  560.35.03  Fri Aug 16 21:39:15 UTC 2024\n";
        let host = board("card", &[("proc/driver/nvidia/version", text)]);
        assert_eq!(host.driver_build().as_deref(), Some("560.35.03"));
        assert_eq!(host.power_mode(), None);
    }

    #[test]
    fn what_is_not_there_or_is_nonsense_is_none() {
        let nothing = board("nothing", &[]);
        assert_eq!(nothing.driver_build(), None);
        assert_eq!(nothing.power_mode(), None);
        assert_eq!(nothing.model(), None);
        assert!(nothing.compatible().is_empty());
        assert_eq!(nothing.memory_bytes(), None);
        assert!(nothing.clocks().is_empty());
        assert!(nothing.settings().is_empty());
        let nonsense = board(
            "nonsense",
            &[
                ("var/lib/nvpmodel/status", "pmode:none"),
                (
                    "etc/nvpmodel.conf",
                    "< POWER_MODEL >\n< POWER_MODEL ID=x NAME=y >",
                ),
                ("proc/driver/nvidia/version", ""),
                ("etc/nv_tegra_release", ""),
                ("sys/class/devfreq/1.gpu/cur_freq", "fast"),
            ],
        );
        assert_eq!(nonsense.power_mode(), None);
        assert_eq!(nonsense.power_modes(), []);
        assert_eq!(nonsense.driver_build(), None);
        assert_eq!(nonsense.clocks()[0].now_khz, None);
    }

    #[test]
    fn a_mode_without_a_name_is_its_number() {
        let host = board("number", &[("var/lib/nvpmodel/status", "pmode:0007")]);
        assert_eq!(host.power_mode().as_deref(), Some("7"));
    }
}
