//! Settings of the machine that the speed of its processor depends on, by name, as the kernel's files tell them. Measured times
//! hold for the settings under which they were measured.
//!
//! | name | value |
//! |---|---|
//! | `governor` | what chooses the clocks: `performance` |
//! | `frequency` | what it chooses from: `400 to 2201 MHz` |
//! | `boost` | whether cores may go above their nominal clock: `on`, `off` |
//! | `nvpmodel` | the power mode of a Jetson: `MAXN` |
//!
//! What the kernel does not tell is left out: most virtual machines have none of them.

use std::collections::BTreeMap;
use std::path::Path;

use crate::read;

/// A longer file is none that is looked at here.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The settings of a machine whose files lie below `root`: `/`, or, in tests, elsewhere.
#[must_use]
pub fn of_processor(root: &Path) -> BTreeMap<String, String> {
    let governor = by_core(root, |folder| {
        text(root, &format!("{folder}/scaling_governor"))
    });
    let frequency = by_core(root, |folder| {
        let megahertz = |file| Some(number(root, &format!("{folder}/{file}"))? / 1000);
        let (min, max) = (
            megahertz("scaling_min_freq")?,
            megahertz("scaling_max_freq")?,
        );
        Some(format!("{min} to {max} MHz"))
    });
    let settings = [
        ("governor", governor),
        ("frequency", frequency),
        ("boost", boost(root)),
        ("nvpmodel", power_mode(root)),
    ];
    let told = settings.into_iter();
    told.filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

/// The name of the power mode, on boards that have several (`nvpmodel`); its number if the name is not found.
#[must_use]
pub fn power_mode(root: &Path) -> Option<String> {
    // pmode:0002 fmode:fanNull
    let status = text(root, "var/lib/nvpmodel/status")?;
    let mut words = status.split_whitespace();
    let number: u32 = words.find_map(|w| w.strip_prefix("pmode:"))?.parse().ok()?;
    let modes = power_modes(root);
    let named = modes.into_iter().find(|mode| mode.number == number);
    Some(named.map_or_else(|| number.to_string(), |mode| mode.name))
}

/// A power mode of the board, and what the table of `nvpmodel` says that it leaves on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PowerMode {
    /// What `nvpmodel -m` takes: it differs from release to release, the name does not.
    pub number: u32,
    pub name: String,
    /// Cores that are on.
    pub cores: Option<u16>,
    /// TPCs that are off, a bit each; which bit is which TPC depends on the chip.
    pub tpc_pg_mask: Option<u32>,
    /// The highest clocks, each none where the table sets no cap. Of the processor: that of its fastest cores.
    pub cpu_khz: Option<u64>,
    pub gpu_khz: Option<u64>,
    pub memory_khz: Option<u64>,
}

/// The power modes of the board.
#[must_use]
pub fn power_modes(root: &Path) -> Vec<PowerMode> {
    let text = text(root, "etc/nvpmodel.conf").unwrap_or_default();
    let mut modes = Vec::new();
    // None in sections that are about something else.
    let mut section = None;
    for line in text.lines().map(str::trim) {
        if line.starts_with('<') {
            modes.extend(section.take());
            section = PowerMode::of_heading(line);
        } else if let Some(mode) = &mut section {
            mode.read(line);
        }
    }
    modes.extend(section);
    modes
}

impl PowerMode {
    /// `< POWER_MODEL ID=0 NAME=MAXN >`
    fn of_heading(line: &str) -> Option<Self> {
        let words = line.strip_prefix('<')?.strip_suffix('>')?.trim();
        let words = words.strip_prefix("POWER_MODEL ")?;
        let value = |key| words.split_whitespace().find_map(|w| w.strip_prefix(key));
        Some(Self {
            number: value("ID=")?.parse().ok()?,
            name: value("NAME=")?.to_owned(),
            ..Self::default()
        })
    }

    /// A line of its section. Whatever is not of interest here is passed over, and so is what is no number.
    fn read(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        let (Some(what), Some(argument), Some(value)) = (words.next(), words.next(), words.next())
        else {
            return;
        };
        // -1 and 0 are no caps.
        let cap = || value.parse().ok().filter(|value| *value > 0_u64);
        let hertz = || cap().map(|hertz| hertz / 1000);
        match (what, argument) {
            ("CPU_ONLINE", _) => {
                let is_on = u16::from(value == "1");
                self.cores = Some(self.cores.unwrap_or(0).saturating_add(is_on));
            }
            ("TPC_POWER_GATING", "TPC_PG_MASK") => self.tpc_pg_mask = value.parse().ok(),
            ("GPU", "MAX_FREQ") => self.gpu_khz = hertz(),
            ("EMC", "MAX_FREQ") => self.memory_khz = hertz(),
            (cluster, "MAX_FREQ") if cluster.starts_with("CPU_") => {
                self.cpu_khz = self.cpu_khz.max(cap());
            }
            _ => {}
        }
    }
}

/// Of Intel's driver, or of the others.
fn boost(root: &Path) -> Option<String> {
    let no_turbo = number(root, "sys/devices/system/cpu/intel_pstate/no_turbo");
    let is_on = match no_turbo {
        Some(no_turbo) => no_turbo == 0,
        None => number(root, "sys/devices/system/cpu/cpufreq/boost")? != 0,
    };
    Some(if is_on { "on" } else { "off" }.to_owned())
}

/// A setting that each core has, read from its folder: one value if all agree, else which cores have which.
fn by_core(root: &Path, value: impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut cores: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let folder = |core: usize| format!("sys/devices/system/cpu/cpu{core}");
    // A core that is offline has a folder without `cpufreq`.
    for core in (0..).take_while(|core| root.join(folder(*core)).is_dir()) {
        if let Some(value) = value(&format!("{}/cpufreq", folder(core))) {
            cores.entry(value).or_default().push(core);
        }
    }
    if cores.len() <= 1 {
        return cores.into_keys().next();
    }
    let kinds = cores.iter().map(|(value, on)| {
        let on: Vec<String> = on.iter().map(usize::to_string).collect();
        format!("{value} on cores {}", on.join(" "))
    });
    Some(kinds.collect::<Vec<_>>().join(", "))
}

fn number(root: &Path, path: &str) -> Option<u64> {
    text(root, path)?.parse().ok()
}

/// Without the spaces around it.
fn text(root: &Path, path: &str) -> Option<String> {
    let text = read::text(&root.join(path), FILE_BYTES_MAX).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    /// A machine of these files, below a folder of its own.
    fn machine(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let name = format!("punctual-settings-{}-{name}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).expect("a folder");
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("below the root")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        root
    }

    fn told(root: &Path) -> Vec<(String, String)> {
        of_processor(root).into_iter().collect()
    }

    fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> Vec<(String, String)> {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        pairs.map(owned).into()
    }

    #[test]
    fn governor_frequencies_boost_and_power_mode_are_told() {
        let root = machine(
            "jetson",
            &[
                (
                    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                    "schedutil\n",
                ),
                (
                    "sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq",
                    "115200\n",
                ),
                (
                    "sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq",
                    "2201600\n",
                ),
                ("sys/devices/system/cpu/cpufreq/boost", "0\n"),
                ("var/lib/nvpmodel/status", "pmode:0002 fmode:fanNull\n"),
                ("etc/nvpmodel.conf", "< POWER_MODEL ID=2 NAME=15W >\n"),
            ],
        );
        let expected = [
            ("boost", "off"),
            ("frequency", "115 to 2201 MHz"),
            ("governor", "schedutil"),
            ("nvpmodel", "15W"),
        ];
        assert_eq!(told(&root), pairs(expected));
    }

    #[test]
    fn cores_that_differ_are_named_and_those_that_are_offline_are_passed_over() {
        let root = machine(
            "big-and-little",
            &[
                (
                    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                    "performance\n",
                ),
                ("sys/devices/system/cpu/cpu1/online", "0\n"),
                (
                    "sys/devices/system/cpu/cpu2/cpufreq/scaling_governor",
                    "schedutil\n",
                ),
                (
                    "sys/devices/system/cpu/cpu3/cpufreq/scaling_governor",
                    "schedutil\n",
                ),
                ("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n"),
            ],
        );
        let governor = "performance on cores 0, schedutil on cores 2 3";
        assert_eq!(
            told(&root),
            pairs([("boost", "on"), ("governor", governor)])
        );
    }

    #[test]
    fn what_is_not_there_or_is_nonsense_is_left_out() {
        assert_eq!(told(&machine("nothing", &[])), []);
        let nonsense = machine(
            "nonsense",
            &[
                (
                    "sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq",
                    "slow",
                ),
                (
                    "sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq",
                    "fast",
                ),
                ("sys/devices/system/cpu/cpufreq/boost", ""),
                ("var/lib/nvpmodel/status", "pmode:none"),
            ],
        );
        assert_eq!(told(&nonsense), []);
        assert_eq!(told(&PathBuf::from("/this/is/not/there")), []);
    }

    #[test]
    fn the_table_says_what_each_power_mode_leaves_on() {
        let table = "< PARAM TYPE=CLOCK NAME=GPU >
            MAX_FREQ /sys/class/devfreq/17000000.gpu/max_freq
            # a comment
            < POWER_MODEL ID=0 NAME=MAXN >
            CPU_ONLINE CORE_0 1
            CPU_ONLINE CORE_1 1
            CPU_ONLINE CORE_2 1
            TPC_POWER_GATING TPC_PG_MASK 0
            CPU_A78_0 MAX_FREQ -1
            GPU MAX_FREQ -1
            EMC MAX_FREQ 0

            < POWER_MODEL ID=3 NAME=MODE_15W >
            CPU_ONLINE CORE_0 1
            CPU_ONLINE CORE_1 1
            CPU_ONLINE CORE_2 0
            TPC_POWER_GATING TPC_PG_MASK 248
            CPU_A78_0 MIN_FREQ 729600
            CPU_A78_0 MAX_FREQ 1113600
            CPU_A78_1 MAX_FREQ 1036800
            GPU MAX_FREQ 408000000
            EMC MAX_FREQ 2133000000
            DLA0_CORE MAX_FREQ 614400000
            < PM_CONFIG DEFAULT=3 >
            CPU_ONLINE CORE_9 1
            < POWER_MODEL ID=4 NAME=BARE >";
        let modes = power_modes(&machine("table", &[("etc/nvpmodel.conf", table)]));
        let all_on = PowerMode {
            name: "MAXN".to_owned(),
            cores: Some(3),
            tpc_pg_mask: Some(0),
            ..PowerMode::default()
        };
        let least = PowerMode {
            number: 3,
            name: "MODE_15W".to_owned(),
            cores: Some(2),
            tpc_pg_mask: Some(248),
            cpu_khz: Some(1_113_600),
            gpu_khz: Some(408_000),
            memory_khz: Some(2_133_000),
        };
        let bare = PowerMode {
            number: 4,
            name: "BARE".to_owned(),
            ..PowerMode::default()
        };
        assert_eq!(modes, [all_on, least, bare]);
    }

    #[test]
    fn a_power_mode_without_a_name_is_its_number() {
        let root = machine("number", &[("var/lib/nvpmodel/status", "pmode:0007")]);
        assert_eq!(power_mode(&root).as_deref(), Some("7"));
    }
}
