//! What was found out about a machine.

use std::path::Path;

use punctual_device_cuda::driver::{Driver, OpenError, environment};
use punctual_device_cuda::host::Host;
use punctual_device_cuda::partition::offer::{self, How, Offer, OfferError, Search, Searched};
use punctual_device_cuda::partition::search::{FoundPlace, Limits, Tried};
use punctual_device_cuda::partition::{Mechanism, Program, record};
use punctual_plan::Difference;
use punctual_platform::{affinity, output, settings};
use serde::Serialize;

/// Why there are no figures of a GPU.
#[derive(Debug, thiserror::Error)]
pub enum NoGpu {
    /// No driver, or no such device.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It does not say what it is.
    #[error(transparent)]
    Look(#[from] OfferError),
}

#[derive(Clone, Debug, Serialize)]
pub struct Ours {
    /// Its name in manifests.
    pub board: String,
    pub differences: Vec<Difference>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// The board's name, where there is a device tree.
    pub model: Option<String>,
    /// What that says the board is compatible with.
    pub compatible: Vec<String>,
    /// The board of ours that it is, once that was looked up.
    pub ours: Option<Ours>,
    pub processor: String,
    /// Cores that this process may use; none where the kernel does not tell.
    pub cores: Option<usize>,
    /// Memory in bytes; none where the kernel does not tell.
    pub memory_bytes: Option<u64>,
    /// What governs the processor's clocks.
    pub processor_clocks: String,
    /// The present power mode, on boards that have several.
    pub power_mode: Option<String>,
    /// All that `nvpmodel` can set.
    pub power_modes: Vec<PowerMode>,
    pub clocks: Vec<Clock>,
    /// The GPU, if there is one.
    pub gpu: Option<Gpu>,
    /// Why there is none.
    pub no_gpu: Option<String>,
}

/// A power mode, as the table of `nvpmodel` has it; figures that it does not tell are none.
#[derive(Clone, Debug, Serialize)]
pub struct PowerMode {
    pub name: String,
    /// Cores and TPCs that are on.
    pub cores: Option<u16>,
    pub tpcs: Option<u16>,
    /// The highest clocks.
    pub cpu_khz: Option<u64>,
    pub gpu_khz: Option<u64>,
    pub memory_khz: Option<u64>,
}

/// A clock that the kernel shows, in kHz.
#[derive(Clone, Debug, Serialize)]
pub struct Clock {
    pub name: String,
    pub now_khz: Option<u64>,
    /// What its governor may choose from.
    pub range_khz: Option<(u64, u64)>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Gpu {
    pub name: String,
    /// What tells it from every other one.
    pub uuid: String,
    pub architecture: &'static str,
    /// E.g. `8.7`.
    pub compute_capability: String,
    /// Streaming multiprocessors, as many as the power mode leaves.
    pub multiprocessors: u32,
    pub tpcs: u32,
    /// Whether it shares the processor's memory.
    pub integrated: bool,
    pub memory_bytes: u64,
    pub clock_khz: u32,
    pub memory_clock_khz: u32,
    /// Of its memory, by clock and width, 10^9 bytes a second; none where the driver does not tell.
    pub bandwidth_gb_s: Option<f64>,
    /// The CUDA version of the driver.
    pub cuda: String,
    pub driver_build: Option<String>,
    /// What the driver takes from the environment and is not as it should be.
    pub unmet_settings: Vec<String>,
    pub partitions: Partitions,
}

/// How a GPU can be divided.
#[derive(Clone, Debug, Serialize)]
pub struct Partitions {
    pub mechanism: Mechanism,
    /// Whether launches cannot leave their partition.
    pub enforced: bool,
    /// TPCs that partitions can be made of.
    pub tpcs: u16,
    pub granularity: u16,
    /// The multiprocessors of each unit, in the order in which plans number TPCs.
    pub units: Vec<Unit>,
    /// Mechanisms that would have come first.
    pub refused: Vec<Refused>,
    /// What became of searches for places of masks, if one was asked for.
    pub searched: Vec<PlaceSearch>,
    /// Places that a search found, now or before, and that are in use.
    pub found: Vec<FoundPlace>,
    /// What is known of where this driver keeps the mask of a stream.
    pub stream_masks: StreamMasks,
}

/// Where the driver keeps the mask of a stream, as `stream-mask` has it, and what that rests on.
#[derive(Clone, Debug, Serialize)]
pub struct StreamMasks {
    /// Bytes; none if nothing is known of this driver.
    pub offset: Option<usize>,
    /// How many public sources have it, or why there is none.
    pub known_by: String,
    pub source: Option<&'static str>,
}

/// The smallest part that can be given away.
#[derive(Clone, Debug, Serialize)]
pub struct Unit {
    pub bit: u8,
    pub multiprocessors: Vec<u32>,
}

/// A mechanism that did not come out.
#[derive(Clone, Debug, Serialize)]
pub struct Refused {
    pub mechanism: Mechanism,
    pub reason: String,
}

/// A search for the place of a mechanism's masks.
#[derive(Clone, Debug, Serialize)]
pub struct PlaceSearch {
    pub mechanism: Mechanism,
    pub ended: String,
}

/// How the machine is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Look<'l> {
    /// The GPU's number.
    pub device: u32,
    /// The folder for outcomes of trials; none: the user's.
    pub records: Option<&'l Path>,
    /// Whether trials are made anew.
    pub again: bool,
    /// Whether places of masks are searched.
    pub search: bool,
}

impl Found {
    /// Looks at this machine, and at its GPU.
    pub fn now(at: &Look<'_>) -> Self {
        let host = Host::this();
        let (gpu, no_gpu) = match look(at) {
            Ok(search) => (Some(Gpu::of(&search)), None),
            Err(reason) => (None, Some(reason.to_string())),
        };
        let clocks = host.clocks().into_iter().map(|clock| Clock {
            name: clock.name,
            now_khz: clock.now_khz,
            range_khz: clock.range_khz,
        });
        let power_mode = host.power_mode();
        let power_modes = host.power_modes().into_iter();
        let power_modes =
            power_modes.map(|mode| PowerMode::of(mode, power_mode.as_deref(), gpu.as_ref()));
        Self {
            model: host.model(),
            compatible: host.compatible(),
            ours: None,
            processor: punctual_device_cpu::machine(),
            cores: affinity::available_cores().ok().map(|cores| cores.len()),
            memory_bytes: host.memory_bytes(),
            processor_clocks: punctual_device_cpu::clocks(),
            power_modes: power_modes.collect(),
            power_mode,
            clocks: clocks.collect(),
            gpu,
            no_gpu,
        }
    }
}

impl PowerMode {
    /// In the mode that the board is in now, the driver counts the TPCs.
    fn of(mode: settings::PowerMode, now: Option<&str>, gpu: Option<&Gpu>) -> Self {
        let gpu = gpu.filter(|gpu| gpu.integrated);
        let counted = gpu.filter(|_| now == Some(&mode.name));
        let counted = counted.and_then(|gpu| u16::try_from(gpu.tpcs).ok());
        let by_mask = || tpcs_on(&gpu?.compute_capability, mode.tpc_pg_mask?);
        Self {
            cores: mode.cores,
            tpcs: counted.or_else(by_mask),
            cpu_khz: mode.cpu_khz,
            gpu_khz: mode.gpu_khz,
            memory_khz: mode.memory_khz,
            name: mode.name,
        }
    }
}

/// Bits of `TPC_PG_MASK`, a TPC each, by compute capability, as NVIDIA's driver checks them: Orin has four of each of two
/// GPCs (`platform_ga10b_tegra.c`), Xavier the four of one (`platform_gv11b_tegra.c`). Thor has another mask.
const MASKED_TPCS: [(&str, u32); 2] = [("8.7", 8), ("7.2", 4)];

/// How many TPCs a mask leaves on; none where its bits are not known.
fn tpcs_on(compute_capability: &str, mask: u32) -> Option<u16> {
    let mut chips = MASKED_TPCS.iter();
    let (_, tpcs) = chips.find(|(capability, _)| *capability == compute_capability)?;
    let off = (mask & ((1 << tpcs) - 1)).count_ones();
    u16::try_from(tpcs - off).ok()
}

fn look(at: &Look<'_>) -> Result<Search, NoGpu> {
    let gpu = Driver::open()?.device(at.device)?;
    let folder = at.records.map_or_else(record::folder, Path::to_owned);
    let how = How {
        again: at.again,
        ..How::usual(Program::punctual(), Some(folder)).map_err(OfferError::from)?
    };
    if at.search {
        return Ok(offer::search(
            gpu,
            at.device,
            &how,
            Limits::default(),
            &mut tell,
        )?);
    }
    Ok(Search {
        offer: offer::look(gpu, at.device, &how)?,
        searched: Vec::new(),
    })
}

/// A line for each place, as a search takes minutes.
fn tell(tried: &Tried<'_>) {
    let said = match tried.refusal {
        Some(refusal) => refusal.to_string(),
        None => "masks work here".to_owned(),
    };
    output::note(format_args!(
        "[{} of at most {}] {}: {said}",
        tried.number, tried.places, tried.place
    ));
}

impl Gpu {
    fn of(search: &Search) -> Self {
        let facts = &search.offer.facts;
        let (major, minor) = facts.compute_capability;
        // Twice a clock, as all these memories are double data rate.
        let bytes_s =
            2000.0 * f64::from(facts.memory_clock_khz) * f64::from(facts.memory_bus_bits) / 8.0;
        let unmet = environment::unmet().into_iter();
        Self {
            name: facts.name.clone(),
            uuid: facts.uuid.clone(),
            architecture: architecture(major, minor),
            compute_capability: format!("{major}.{minor}"),
            multiprocessors: facts.multiprocessors,
            tpcs: facts.multiprocessors.div_ceil(facts.sms_per_tpc()),
            integrated: facts.integrated,
            memory_bytes: facts.memory_bytes,
            clock_khz: facts.clock_khz,
            memory_clock_khz: facts.memory_clock_khz,
            bandwidth_gb_s: (bytes_s > 0.0).then(|| (bytes_s / 1e8).round() / 10.0),
            cuda: facts.version.to_string(),
            driver_build: facts.driver_build.clone(),
            unmet_settings: unmet.map(|unmet| unmet.to_string()).collect(),
            partitions: Partitions::of(&search.offer, &search.searched),
        }
    }
}

impl Partitions {
    fn of(offer: &Offer, searched: &[Searched]) -> Self {
        let units = offer.choice.map().units().iter();
        let refused = offer.choice.refused().iter();
        Self {
            mechanism: offer.mechanism(),
            enforced: offer.is_enforced(),
            tpcs: offer.tpcs(),
            granularity: offer.granularity(),
            units: units
                .map(|unit| Unit {
                    bit: unit.bit,
                    multiprocessors: unit.sms.iter().collect(),
                })
                .collect(),
            refused: refused
                .map(|(mechanism, refusal)| Refused {
                    mechanism: *mechanism,
                    reason: refusal.to_string(),
                })
                .collect(),
            searched: searched
                .iter()
                .map(|search| PlaceSearch {
                    mechanism: search.mechanism,
                    ended: search.ended.to_string(),
                })
                .collect(),
            found: offer.found.clone(),
            stream_masks: match offer.facts.mask_row() {
                Ok(row) => StreamMasks {
                    offset: Some(row.offset),
                    known_by: row.standing.to_string(),
                    source: Some(row.source),
                },
                Err(unknown) => StreamMasks {
                    offset: None,
                    known_by: unknown.to_string(),
                    source: None,
                },
            },
        }
    }
}

/// NVIDIA's name for the chips of a compute capability.
const fn architecture(major: u32, minor: u32) -> &'static str {
    match (major, minor) {
        (5, _) => "Maxwell",
        (6, _) => "Pascal",
        (7, 0..=4) => "Volta",
        (7, _) => "Turing",
        (8, 9) => "Ada",
        (8, _) => "Ampere",
        (9, _) => "Hopper",
        (10..=12, _) => "Blackwell",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_bit_of_a_mask_is_a_tpc_that_is_off() {
        let orin = |mask| tpcs_on("8.7", mask);
        let counts = [0, 128, 240, 248, 252].map(orin);
        assert_eq!(counts, [8, 7, 4, 3, 2].map(Some));
        assert_eq!(
            [0, 1, 5].map(|mask| tpcs_on("7.2", mask)),
            [4, 3, 2].map(Some)
        );
        assert_eq!(tpcs_on("11.0", 64), None);
    }
}
