//! Every contiguous range of a device's units, for policies that choose among them at each stage.

use std::collections::BTreeSet;

use punctual_core::{PolicySpec as _, Units};
use punctual_diagnostics::{Invalid, Place, Problems, Rule, Spanned};
use thiserror::Error;

use super::partition::UnitUse;
use super::placement::{Placed, Placement};
use super::ranges::{Owners, Range};
use crate::inputs::{DeviceKind, GpuHost, PolicyChoice};

/// Teams of all ranges of 16 cores.
const RANGES_OF_CORES_MAX: usize = 16 * 17 / 2;

/// Hardware queues, one a stream: streams that share one wait for each other.
pub(crate) const QUEUES: usize = 32;

/// Queues that a stream of stages takes. A GPU with memory of its own needs a second stream for each, for the epoch that lies
/// in that memory.
pub(crate) const fn queues_of_stream(integrated: bool) -> usize {
    if integrated { 1 } else { 2 }
}

/// TPCs of which ranges may be made: those that begin at one TPC share a stream.
const fn tpcs_max(integrated: bool) -> usize {
    QUEUES / queues_of_stream(integrated)
}

/// Why a device cannot be divided anew at each stage.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RangesRule {
    /// A library's device, or several devices.
    #[error("policy {policy:?} chooses among ranges of one device's compute units while it runs")]
    SeveralDevices { policy: &'static str },
    /// A mechanism that cannot change the TPCs of a stream.
    #[error(
        "policy {policy:?} gives each stage TPCs of its own, and {mechanism} cannot change those of a stream"
    )]
    NotRedivided {
        policy: &'static str,
        mechanism: String,
    },
    #[error(
        "policy {policy:?} divides single TPCs, and {mechanism} grants them in multiples of {granularity}"
    )]
    Coarse {
        policy: &'static str,
        mechanism: String,
        granularity: u16,
    },
    #[error(
        "policy {policy:?} needs {streams} streams for {tpcs} TPCs, and this GPU has 32 hardware queues: at most {most} TPCs"
    )]
    TooManyStreams {
        policy: &'static str,
        tpcs: usize,
        streams: usize,
        most: usize,
    },
}

impl Rule for RangesRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::SeveralDevices { .. } => "all partitions are of cores, or all are of TPCs",
            Self::NotRedivided { .. } | Self::Coarse { .. } => {
                "TPCs are divided anew only by masks that were tried on this machine"
            }
            Self::TooManyStreams { .. } => "no two streams share a hardware queue",
        }
    }

    fn help(&self) -> String {
        match self {
            Self::SeveralDevices { .. } => "choose policy = \"punctual\"".into(),
            Self::NotRedivided { .. } | Self::Coarse { .. } => {
                "`punctual board detect` says why masks are not used; or choose policy = \"punctual\"".into()
            }
            Self::TooManyStreams { most, .. } => {
                format!("give the partitions {most} TPCs in all, or choose policy = \"punctual\"")
            }
        }
    }
}

impl Placement {
    /// Adds every contiguous range of units that is not a partition yet.
    pub(super) fn add_ranges(
        &mut self,
        policy: &Spanned<PolicyChoice>,
        gpu: Option<&GpuHost>,
        problems: &mut Problems<'_>,
    ) {
        let kinds: BTreeSet<DeviceKind> = self.partitions.iter().map(|p| p.device).collect();
        let (device, most) = match kinds.into_iter().collect::<Vec<_>>()[..] {
            // Those that are missing were noted.
            [] => return,
            [DeviceKind::Cpu] => (DeviceKind::Cpu, RANGES_OF_CORES_MAX),
            [DeviceKind::Cuda] => {
                let tpcs = self.partitions.iter().map(|p| p.tpcs.len()).sum();
                if let Some(cause) = gpu.and_then(|gpu| undividable(policy, gpu, tpcs)) {
                    return problems.add(&policy.place, cause);
                }
                (DeviceKind::Cuda, QUEUES * (QUEUES + 1) / 2)
            }
            _ => {
                let policy_name = policy.value.name();
                let cause = RangesRule::SeveralDevices {
                    policy: policy_name,
                };
                return problems.add(&policy.place, cause);
            }
        };
        let units = self
            .partitions
            .iter()
            .map(Placed::unit_count)
            .sum::<usize>();
        let count = units * (units + 1) / 2;
        if count > most {
            let (what, count, limit) = ("partition", count as u64, most as u64);
            return problems.add(&policy.place, Invalid::TooMany { what, count, limit });
        }
        let ranges = self.missing_ranges(device, units as u16, &policy.place);
        self.partitions.extend(ranges);
    }

    /// The ranges that are not partitions yet, the shortest first. The leaders are those of the manifest, in turn.
    fn missing_ranges(&self, device: DeviceKind, units: u16, place: &Place) -> Vec<Placed> {
        let owners = Owners::of(self);
        let kind = if device.runs_on_cores() {
            "cores"
        } else {
            "tpcs"
        };
        let range = |units: Units| Range {
            name: name(kind, &owners.units(device, units)),
            device,
            units,
        };
        let all = (1..=units).flat_map(|count| {
            let firsts = 0..=units - count;
            firsts.map(move |first| Units { first, count })
        });
        let all = all.map(|units| owners.partition(range(units), UnitUse::Chosen, place));
        let owned = |range: &Placed| {
            let mut owned = self.partitions.iter();
            owned.any(|p| p.units() == range.units())
        };
        let mut ranges: Vec<Placed> = all.filter(|range| !owned(range)).collect();
        let named = self.partitions.iter().map(|p| p.cores[0]);
        let mut leaders: Vec<u16> = named.chain(self.leaders.iter().copied()).collect();
        leaders.sort_unstable();
        leaders.dedup();
        owners.lead(&mut ranges, &leaders);
        ranges
    }
}

/// What prevents a policy on `tpcs` TPCs of this GPU.
fn undividable(policy: &Spanned<PolicyChoice>, gpu: &GpuHost, tpcs: usize) -> Option<RangesRule> {
    let (policy, mechanism) = (policy.value.name(), gpu.mechanism.clone());
    let granularity = gpu.granularity.max(1);
    if !gpu.redivides {
        return Some(RangesRule::NotRedivided { policy, mechanism });
    }
    if granularity > 1 {
        return Some(RangesRule::Coarse {
            policy,
            mechanism,
            granularity,
        });
    }
    let most = tpcs_max(gpu.integrated);
    (tpcs > most).then_some(RangesRule::TooManyStreams {
        policy,
        tpcs,
        streams: tpcs * QUEUES / most,
        most,
    })
}

fn name(what: &str, units: &[u16]) -> String {
    let names: Vec<String> = units.iter().map(ToString::to_string).collect();
    format!("{what}-{}", names.join("-"))
}
