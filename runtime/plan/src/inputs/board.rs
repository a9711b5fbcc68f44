//! Boards: facts, each with its source. What a board has depends on its power mode, which may switch cores and TPCs off.

mod differences;
mod read;

use std::path::Path;

use punctual_diagnostics::{Diagnostics, Problems};
use serde::Serialize;

pub use differences::Difference;
pub use read::UnknownSource;

/// The source of figures that no source confirms which somebody could look up.
pub(crate) const RECALLED: &str = "recalled";

/// The source of figures that are found out on the machine itself.
const DETECTED: &str = "detected";

#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Board {
    pub name: String,
    pub title: String,
    /// What device trees of the board say it is compatible with: `nvidia,p3737-0000+p3701-0005`.
    pub compatible: Option<Fact<Vec<String>>>,
    /// Part numbers of the module, which device trees name with whatever carrier it is on: `p3701-0005`.
    pub modules: Option<Fact<Vec<String>>>,
    /// Number of processor cores; none when it is detected at run time.
    pub cores: Option<Fact<u16>>,
    /// What the cores are, e.g. `6 x Arm Cortex-A78AE`.
    pub processor: Option<Fact<String>>,
    /// Memory in bytes, shared by processor and accelerator; none when it is detected at run time.
    pub memory_bytes: Option<Fact<u64>>,
    /// Memory bandwidth in 10^9 bytes a second, at the memory's highest clock.
    pub bandwidth_gb_s: Option<Fact<f64>>,
    /// The system software that runs on it.
    pub jetpack: Option<Fact<Releases>>,
    /// Power modes; the first is the default.
    pub power_modes: Vec<PowerMode>,
    /// The accelerator, if it has one.
    pub gpu: Option<Gpu>,
    /// Titles of the sources that the facts name.
    pub sources: Vec<Source>,
}

/// A power mode and what it leaves on.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PowerMode {
    /// As `nvpmodel -q` says it.
    pub name: String,
    /// Where it is from that the board has the mode.
    pub source: String,
    /// Cores that are on.
    pub cores: Option<Fact<u16>>,
    /// TPCs that are on.
    pub tpc: Option<Fact<u16>>,
    /// The highest clocks.
    pub cpu_mhz: Option<Fact<f64>>,
    pub gpu_mhz: Option<Fact<f64>>,
    pub memory_mhz: Option<Fact<f64>>,
}

/// A figure and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fact<T> {
    pub value: T,
    /// The name of a [`Source`], or `recalled`: no source confirms it, or `detected`: found out on the machine.
    pub source: String,
}

/// Releases of some software.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Releases {
    pub oldest: Option<String>,
    pub newest: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    pub name: String,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Gpu {
    /// e.g. `Ampere`.
    pub architecture: Fact<String>,
    /// e.g. `8.7`.
    pub compute_capability: Fact<String>,
    /// With all of them on, as the next two.
    pub sm: Fact<u16>,
    /// Texture processing clusters: the smallest part that partitions are made of.
    pub tpc: Fact<u16>,
    pub gpc: Option<Fact<u16>>,
    /// The CUDA versions of its system software.
    pub cuda: Option<Fact<Releases>>,
}

/// `(name, text)` of board files that are part of the program.
macro_rules! builtin {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("../../../../boards/", $name, ".toml")))),*]
    };
}

const BUILTIN: [(&str, &str); 13] = builtin! {
    "host"
    "jetson-agx-orin-32gb"
    "jetson-agx-orin-64gb"
    "jetson-agx-xavier-32gb"
    "jetson-agx-xavier-64gb"
    "jetson-orin-nano-4gb"
    "jetson-orin-nano-8gb"
    "jetson-orin-nx-16gb"
    "jetson-orin-nx-8gb"
    "jetson-thor-t4000"
    "jetson-thor-t5000"
    "jetson-xavier-nx-16gb"
    "jetson-xavier-nx-8gb"
};

impl Board {
    /// Names of the boards that are part of the program.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|(name, _)| *name)
    }

    /// The board of that name that is part of the program.
    ///
    /// # Panics
    /// Never: the tests parse all of them.
    #[must_use]
    pub fn builtin(name: &str) -> Option<Self> {
        let (_, text) = BUILTIN.iter().find(|(builtin, _)| *builtin == name)?;
        let path = format!("boards/{name}.toml");
        Some(Self::parse(text, Path::new(&path)).expect("the tests parse it"))
    }

    /// The board of the program that a machine is, by what its device tree is compatible with. Where modules of
    /// different memory say the same there, the least that the machine's memory fits into.
    #[must_use]
    pub fn of_machine(compatible: &[String], memory_bytes: Option<u64>) -> Option<Self> {
        let boards = Self::builtin_names().filter_map(Self::builtin);
        let mut known: Vec<Self> = boards.filter(|board| board.is_one_of(compatible)).collect();
        let size = |board: &Self| board.memory_bytes.as_ref().map_or(0, |fact| fact.value);
        known.sort_by_key(size);
        // What the kernel keeps for itself is not counted, so it is never more.
        let fits = |board: &Self| size(board) >= memory_bytes.unwrap_or(0);
        let place = known.iter().position(fits);
        let place = place.or_else(|| known.len().checked_sub(1))?;
        Some(known.swap_remove(place))
    }

    fn is_one_of(&self, compatible: &[String]) -> bool {
        let listed = |fact: &Option<Fact<Vec<String>>>, named: &dyn Fn(&str) -> bool| {
            let mut values = fact.iter().flat_map(|fact| &fact.value);
            values.any(|value| named(value))
        };
        // nvidia,p3768-0000+p3767-0005-super: carrier and module
        let parts = || compatible.iter().flat_map(|name| name.split([',', '+']));
        listed(&self.compatible, &|name| {
            compatible.iter().any(|n| n == name)
        }) || listed(&self.modules, &|module| {
            parts().any(|part| part.trim_end_matches("-super") == module)
        })
    }

    /// Parses a board file; `path` is for messages.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Diagnostics> {
        let mut problems = Problems::new(path, text, "board");
        let board = read::read(&mut problems);
        problems.into_result()?;
        Ok(board.expect("a board without problems is complete"))
    }

    /// Whether it is a module of NVIDIA's, whose cores are AArch64's.
    #[must_use]
    pub fn is_jetson(&self) -> bool {
        self.modules.is_some()
    }

    /// The mode that profiles are for when the manifest does not say.
    #[must_use]
    pub fn default_power_mode(&self) -> &str {
        self.power_modes
            .first()
            .map_or("default", |mode| &mode.name)
    }

    /// The names of its modes, for messages.
    #[must_use]
    pub fn power_mode_names(&self) -> String {
        let names: Vec<&str> = self
            .power_modes
            .iter()
            .map(|mode| mode.name.as_str())
            .collect();
        names.join(", ")
    }

    #[must_use]
    pub fn power_mode(&self, name: &str) -> Option<&PowerMode> {
        self.power_modes.iter().find(|mode| mode.name == name)
    }
}
