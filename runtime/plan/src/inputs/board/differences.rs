//! What of a board is otherwise on a machine.

use std::fmt::{self, Display};

use serde::Serialize;

use super::{Board, DETECTED, Fact, Gpu, PowerMode, Releases};

/// A figure of a board file that a machine of that board has otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub figure: String,
    /// As the board file says.
    pub listed: String,
    /// As the machine says.
    pub found: String,
}

/// Clocks are rounded in tables, and bandwidths are computed from them.
const NEAR: f64 = 0.01;

impl Board {
    /// What a machine has otherwise that was read into a board of its own. Figures that only one of the two has are passed
    /// over, but for power modes.
    #[must_use]
    pub fn differences(&self, found: &Self) -> Vec<Difference> {
        let mut differences = Vec::new();
        let (listed, here) = (&self.bandwidth_gb_s, &found.bandwidth_gb_s);
        differences.extend(far("memory bandwidth, GB/s", listed, here));
        if let (Some(ours), Some(here)) = (&self.gpu, &found.gpu) {
            differences.extend(ours.differences(here));
        }
        // A machine without `nvpmodel` has none, and its file one that is defined.
        if found.power_modes.iter().any(|mode| mode.source == DETECTED) {
            differences.extend(self.differences_of_modes(found));
        }
        differences
    }

    fn differences_of_modes(&self, found: &Self) -> Vec<Difference> {
        let mut differences = Vec::new();
        for mode in &self.power_modes {
            match found.power_mode(&mode.name) {
                Some(here) => differences.extend(mode.differences(here)),
                None => differences.push(Difference::of_mode(mode, "listed", "not there")),
            }
        }
        let here = found.power_modes.iter();
        let more = here.filter(|mode| self.power_mode(&mode.name).is_none());
        differences.extend(more.map(|mode| Difference::of_mode(mode, "not listed", "there")));
        differences
    }
}

impl Gpu {
    fn differences(&self, here: &Self) -> Vec<Difference> {
        let differences = [
            other("GPU architecture", &self.architecture, &here.architecture),
            other(
                "compute capability",
                &self.compute_capability,
                &here.compute_capability,
            ),
            other("SMs", &self.sm, &here.sm),
            other("TPCs", &self.tpc, &here.tpc),
            outside("CUDA", &self.cuda, &here.cuda),
        ];
        differences.into_iter().flatten().collect()
    }
}

impl PowerMode {
    fn differences(&self, here: &Self) -> Vec<Difference> {
        let figure = |what: &str| format!("{what} in {}", self.name);
        let both = |what: &str, ours: &Option<Fact<u16>>, here: &Option<Fact<u16>>| {
            other(&figure(what), ours.as_ref()?, here.as_ref()?)
        };
        let differences = [
            both("cores", &self.cores, &here.cores),
            both("TPCs", &self.tpc, &here.tpc),
            far(&figure("CPU MHz"), &self.cpu_mhz, &here.cpu_mhz),
            far(&figure("GPU MHz"), &self.gpu_mhz, &here.gpu_mhz),
            far(&figure("memory MHz"), &self.memory_mhz, &here.memory_mhz),
        ];
        differences.into_iter().flatten().collect()
    }
}

impl Difference {
    fn of_mode(mode: &PowerMode, listed: &str, found: &str) -> Self {
        Self {
            figure: format!("power mode {}", mode.name),
            listed: listed.to_owned(),
            found: found.to_owned(),
        }
    }
}

fn other<T: PartialEq + Display>(
    figure: &str,
    ours: &Fact<T>,
    here: &Fact<T>,
) -> Option<Difference> {
    (ours.value != here.value).then(|| Difference {
        figure: figure.to_owned(),
        listed: ours.value.to_string(),
        found: here.value.to_string(),
    })
}

/// Both, if they are given and differ by more than rounding.
fn far(figure: &str, ours: &Option<Fact<f64>>, here: &Option<Fact<f64>>) -> Option<Difference> {
    let (ours, here) = (ours.as_ref()?, here.as_ref()?);
    let near = (ours.value - here.value).abs() <= NEAR * ours.value;
    other(figure, ours, here).filter(|_| !near)
}

/// The newest release here, if it is none of ours.
fn outside(
    figure: &str,
    ours: &Option<Fact<Releases>>,
    here: &Option<Fact<Releases>>,
) -> Option<Difference> {
    let (ours, here) = (&ours.as_ref()?.value, &here.as_ref()?.value.newest);
    let oldest = ours.oldest.as_deref();
    let is_older = oldest.is_some_and(|oldest| numbers(here) < numbers(oldest));
    (is_older || numbers(here) > numbers(&ours.newest)).then(|| Difference {
        figure: figure.to_owned(),
        listed: ours.to_string(),
        found: here.clone(),
    })
}

impl Display for Releases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.oldest {
            Some(oldest) => write!(f, "{oldest} to {}", self.newest),
            None => write!(f, "up to {}", self.newest),
        }
    }
}

/// `12.6` as its numbers, which order as releases do.
fn numbers(release: &str) -> Vec<u32> {
    let numbers = release.split('.').map(str::parse);
    numbers.map_while(Result::ok).collect()
}
