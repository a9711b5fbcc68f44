//! What the target has, found out once a run, and what a case may need of it.

use std::fmt;

use serde::Serialize;

use crate::target::{Script, Target, TargetError};

/// What was found on the target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// Kernel and machine, as `uname` says.
    pub system: String,
    /// The processor's name, or the board's from the device tree.
    pub machine: String,
    /// Instruction set, as `uname -m` says.
    pub architecture: String,
    /// Cores that processes may use.
    pub cores: u32,
    /// What of the further things is there.
    pub has: Vec<Feature>,
}

/// What a target may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Feature {
    /// A GPU that this project's CUDA device could use.
    Gpu,
    /// Real-time priorities for the user of the tests.
    RealTime,
    Root,
    Systemd,
    /// Power modes that `nvpmodel` can change.
    PowerModes,
    Mount,
    /// A cgroup memory controller that groups can be made in.
    MemoryGroups,
    /// A processor that can be switched off.
    HotUnplug,
    /// The right to set the clock.
    SetClock,
    Fuse,
}

/// What a case needs, beyond what every target must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// At least this number of cores.
    Cores(u32),
    Has(Feature),
    /// Leave to disturb the whole machine (`--disruptive`).
    Disruption,
    /// The binaries of another version (`--old-bin`).
    OldBinaries,
    /// The program that tortures the channel (`--torture`).
    Torture,
    /// That the case is named or its suite chosen: it takes long.
    Asked,
}

/// What the caller allows or gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leave {
    /// `--disruptive`.
    pub disruption: bool,
    /// `--old-bin`.
    pub old_binaries: bool,
    /// `--torture`.
    pub torture: bool,
    /// The suite or the case was chosen by name.
    pub asked: bool,
}

/// Why a case is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    pub need: Need,
    pub cores: u32,
}

impl fmt::Display for Missing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self.need {
            Need::Cores(cores) => {
                return write!(
                    formatter,
                    "needs {cores} cores, the target has {}",
                    self.cores
                );
            }
            Need::Has(Feature::Gpu) => "needs a GPU, the target has none",
            Need::Has(Feature::RealTime) => {
                "needs real-time priorities (`chrt -f 1 true` fails there)"
            }
            Need::Has(Feature::Root) => "needs the superuser on the target",
            Need::Has(Feature::Systemd) => "needs a booted systemd (no /run/systemd/system there)",
            Need::Has(Feature::PowerModes) => "needs power modes (no nvpmodel there)",
            Need::Has(Feature::Mount) => "needs the right to mount (the capability is missing)",
            Need::Has(Feature::MemoryGroups) => "needs a writable cgroup memory controller",
            Need::Has(Feature::HotUnplug) => {
                "needs a processor that can be switched off (no writable .../cpuN/online)"
            }
            Need::Has(Feature::SetClock) => "needs the right to set the clock",
            Need::Has(Feature::Fuse) => {
                "needs file systems in user space (no /dev/fuse that may be opened)"
            }
            Need::Disruption => "disturbs the whole machine: allow it with --disruptive",
            Need::OldBinaries => "needs the binaries of another version: --old-bin DIR",
            Need::Torture => "needs the program `channel-torture` on the target: --torture FILE",
            Need::Asked => "takes long: choose it with --suite or --case",
        };
        formatter.write_str(words)
    }
}

/// Finds out what the target has. Nothing is changed there.
const PROBE: &str = r#"
echo "system=$(uname -sr)"
echo "architecture=$(uname -m)"
model=$(tr -d '\0' 2>/dev/null </proc/device-tree/model)
[ -n "$model" ] || model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
echo "machine=$model"
echo "cores=$(nproc)"
capability() { [ $(( 0x$(sed -n 's/^CapEff:\t//p' /proc/self/status) >> $1 & 1 )) = 1 ]; }
[ "$(id -u)" = 0 ] && echo has=root
chrt -f 1 true 2>/dev/null && echo has=real-time
[ -d /run/systemd/system ] && echo has=systemd
command -v nvpmodel >/dev/null && [ "$(id -u)" = 0 ] && echo has=power-modes
capability 21 && echo has=mount
capability 25 && echo has=set-clock
[ -c /dev/fuse ] && ( exec 3<>/dev/fuse ) 2>/dev/null && echo has=fuse
for gpu in /dev/nvidia0 /dev/nvhost-gpu /dev/nvgpu; do [ -e $gpu ] && { echo has=gpu; break; }; done
for cpu in /sys/devices/system/cpu/cpu[1-9]*/online; do [ -w "$cpu" ] && { echo has=hot-unplug; break; }; done
for group in /sys/fs/cgroup/memory /sys/fs/cgroup; do
    [ -w "$group" ] && { [ "$group" != /sys/fs/cgroup ] || grep -qsw memory "$group/cgroup.subtree_control"; } \
        && { echo has=memory-groups; break; }
done
true"#;

impl Facts {
    pub fn probe(target: &Target, until_ns: u64) -> Result<Self, TargetError> {
        let output = target.run(
            &Script::new("find out what the target has", PROBE),
            until_ns,
        )?;
        Ok(Self::read(&output.text()))
    }

    fn read(text: &str) -> Self {
        let mut facts = Self::default();
        for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
            match key {
                "system" => facts.system = value.to_owned(),
                "machine" => facts.machine = value.to_owned(),
                "architecture" => facts.architecture = value.to_owned(),
                "cores" => facts.cores = value.parse().unwrap_or_default(),
                "has" => facts.has.extend(Feature::named(value)),
                _ => {}
            }
        }
        facts
    }

    /// What of `needs` is missing first.
    #[must_use]
    pub fn missing(&self, needs: &[Need], leave: Leave) -> Option<Missing> {
        let met = |need: &Need| match *need {
            Need::Cores(cores) => self.cores >= cores,
            Need::Has(thing) => self.has.contains(&thing),
            Need::Disruption => leave.disruption,
            Need::OldBinaries => leave.old_binaries,
            Need::Torture => leave.torture,
            Need::Asked => leave.asked,
        };
        let need = *needs.iter().find(|need| !met(need))?;
        Some(Missing {
            need,
            cores: self.cores,
        })
    }
}

impl Feature {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "gpu" => Self::Gpu,
            "real-time" => Self::RealTime,
            "root" => Self::Root,
            "systemd" => Self::Systemd,
            "power-modes" => Self::PowerModes,
            "mount" => Self::Mount,
            "memory-groups" => Self::MemoryGroups,
            "hot-unplug" => Self::HotUnplug,
            "set-clock" => Self::SetClock,
            "fuse" => Self::Fuse,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Place;
    use punctual_client::now_ns;

    #[test]
    fn this_machine_has_a_system_and_cores() {
        let target = Target::new(Place::Local);
        let facts = Facts::probe(&target, now_ns() + 60_000_000_000).expect("a shell");
        assert!(facts.system.starts_with("Linux "), "{facts:?}");
        assert!(
            facts.cores > 0 && !facts.architecture.is_empty(),
            "{facts:?}"
        );
    }

    #[test]
    fn the_first_thing_that_is_missing_is_the_reason() {
        let facts = Facts::read("cores=2\nhas=root\nhas=surprise\nnoise");
        assert_eq!(facts.has, [Feature::Root]);
        let leave = Leave::default();
        assert_eq!(
            facts.missing(&[Need::Cores(2), Need::Has(Feature::Root)], leave),
            None
        );
        let missing = facts.missing(&[Need::Cores(4), Need::Disruption], leave);
        let words = missing.expect("four are not there").to_string();
        assert_eq!(words, "needs 4 cores, the target has 2");
        assert!(facts.missing(&[Need::Disruption], leave).is_some());
        let leave = Leave {
            disruption: true,
            ..leave
        };
        assert_eq!(facts.missing(&[Need::Disruption], leave), None);
    }
}
