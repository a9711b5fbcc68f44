//! What a device offers to plans: looked at without starting anything on it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use libsmctrl_sys::raw::Library;

use libsmctrl_sys::launch_mask::{self, Generation};
use punctual_platform::clock;

use super::calibration::Refusal;
use super::choice::{Choice, Undivided};
pub use super::facts::Facts;
use super::means::{Means, Partitioner, StreamError};
use super::mechanism::Mechanism;
use super::place::MaskPlace;
use super::record::{self, Key, Outcome};
use super::search::{self, Ended, FoundPlace, Hit, Limits, Tried};
use super::sms::NoSuchSm;
use super::trial::{Program, Trial};
use super::units::UnitMap;
use crate::driver::{CallError, Gpu, Groups, MaskError, Masking};
use crate::host::Host;
use crate::queue::MECHANISM;

/// How a device is looked at.
#[derive(Clone, Debug)]
pub struct How {
    /// The mechanisms that may be used, the best first.
    pub order: Vec<Mechanism>,
    /// The program that tries a mechanism in a process of its own. None: what has no record is refused
    /// with [`Refusal::NotTried`].
    pub program: Option<Program>,
    /// Where outcomes are kept. None: nowhere.
    pub records: Option<PathBuf>,
    /// Whether mechanisms are tried though there are records.
    pub again: bool,
    pub libsmctrl: OsString,
    /// The machine's files.
    pub host: Host,
}

/// The environment variable that names the mechanisms that may be used, the best first, with commas between.
pub const MECHANISMS_VARIABLE: &str = "PUNCTUAL_GPU_MECHANISMS";

/// A mechanism that there is none of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{MECHANISMS_VARIABLE} names {named:?}: there are stream-mask, libsmctrl, launch-mask, green-contexts and priority"
)]
pub struct UnknownMechanism {
    pub named: String,
}

/// The mechanisms that the user names; without a name, the usual ones.
fn order(named: &str) -> Result<Vec<Mechanism>, UnknownMechanism> {
    let names = named.split(',').map(str::trim).filter(|n| !n.is_empty());
    let order = names.map(|name| {
        Mechanism::named(name).ok_or_else(|| UnknownMechanism {
            named: name.to_owned(),
        })
    });
    let order: Vec<Mechanism> = order.collect::<Result<_, _>>()?;
    Ok(if order.is_empty() {
        Mechanism::ORDER.to_vec()
    } else {
        order
    })
}

impl How {
    /// The usual mechanisms, or those that the environment names, with outcomes kept in a folder.
    pub fn usual(
        program: Option<Program>,
        records: Option<PathBuf>,
    ) -> Result<Self, UnknownMechanism> {
        let mechanisms = std::env::var_os(MECHANISMS_VARIABLE).unwrap_or_default();
        let named = std::env::var_os(libsmctrl_sys::raw::PATH_VARIABLE);
        Ok(Self {
            order: order(&mechanisms.to_string_lossy())?,
            program,
            records,
            again: false,
            libsmctrl: Library::file(named.as_deref()),
            host: Host::this(),
        })
    }
}

/// Why a device cannot be looked at.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    #[error(transparent)]
    Call(#[from] CallError),
    /// The user names a mechanism that there is none of.
    #[error(transparent)]
    Mechanism(#[from] UnknownMechanism),
    /// More multiprocessors than there are devices of.
    #[error(transparent)]
    Multiprocessors(#[from] NoSuchSm),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    pub facts: Facts,
    pub choice: Choice,
    /// Places of masks that a search found on this driver: used before those of our table.
    pub found: Vec<FoundPlace>,
    libsmctrl: OsString,
}

/// Looks at device number `device`. Mechanisms without a record are tried, each in a process of its own,
/// which takes seconds; the outcomes are kept, so that the next look takes no time.
pub fn look(gpu: Gpu, device: u32, how: &How) -> Result<Offer, OfferError> {
    let facts = Facts::of(gpu, device, &how.host)?;
    let undivided = Undivided {
        map: UnitMap::undivided(facts.multiprocessors)?,
        sms_per_tpc: facts.sms_per_tpc(),
    };
    Ok(Offer {
        choice: Choice::make(&how.order, undivided, |mechanism| {
            facts.outcome(mechanism, how)
        }),
        found: SEARCHED
            .into_iter()
            .filter_map(|mechanism| facts.found(mechanism, how))
            .collect(),
        facts,
        libsmctrl: how.libsmctrl.clone(),
    })
}

/// Mechanisms whose masks are at a place that can be searched.
const SEARCHED: [Mechanism; 2] = [Mechanism::StreamMask, Mechanism::LaunchMask];

/// What became of a search for one mechanism.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Searched {
    pub mechanism: Mechanism,
    pub ended: Ended,
}

/// Looks at the device, and where that refuses masks because of their place, tries places until one holds: of the
/// mechanisms that may be used, those before the one in use. What is found is kept with the records, and later looks
/// use it.
pub fn search(
    gpu: Gpu,
    device: u32,
    how: &How,
    limits: Limits,
    told: &mut dyn FnMut(&Tried<'_>),
) -> Result<Search, OfferError> {
    let offer = look(gpu, device, how)?;
    let refused = offer.choice.refused().iter();
    let misplaced =
        refused.filter(|(mechanism, why)| SEARCHED.contains(mechanism) && why.is_of_the_place());
    let mut searched = Vec::new();
    for (mechanism, _) in misplaced {
        let ended = offer.facts.search(*mechanism, how, limits, told);
        let is_kept = matches!(ended, Ended::Found(_));
        searched.push(Searched {
            mechanism: *mechanism,
            ended,
        });
        if is_kept {
            let how = How {
                again: false,
                ..how.clone()
            };
            let offer = look(gpu, device, &how)?;
            return Ok(Search { offer, searched });
        }
    }
    Ok(Search { offer, searched })
}

/// A device after a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// With what was found.
    pub offer: Offer,
    /// The mechanisms that were searched for, in order.
    pub searched: Vec<Searched>,
}

impl Offer {
    /// What profiles call it: name, compute capability, multiprocessors, driver, and the mechanisms that
    /// divide it and stop stages. Figures of one hold for the same only.
    #[must_use]
    pub fn machine(&self) -> String {
        let facts = &self.facts;
        let (major, minor) = facts.compute_capability;
        let build = facts.driver_build.as_deref().unwrap_or("build unknown");
        MECHANISM.of_machine(format!(
            "{}, {major}.{minor}, {} SMs, driver {} ({build}), {}",
            facts.name,
            facts.multiprocessors,
            facts.version,
            self.mechanism()
        ))
    }

    /// How far its clocks may go, for the key of a profile.
    #[must_use]
    pub fn clocks(&self) -> String {
        format!(
            "to {} MHz, memory to {} MHz",
            self.facts.clock_khz / 1000,
            self.facts.memory_clock_khz / 1000
        )
    }

    /// Settings that its speed depends on; none where the kernel shows none, as of a card.
    #[must_use]
    pub fn settings(&self) -> BTreeMap<String, String> {
        let mut settings = self.facts.settings.clone();
        if !settings.is_empty() {
            settings.insert("clocks".to_owned(), self.clocks());
        }
        settings
    }

    /// TPCs that partitions can be made of.
    #[must_use]
    pub fn tpcs(&self) -> u16 {
        self.choice.tpcs()
    }

    /// TPCs are granted in multiples of this many: all of them, where nothing keeps two partitions apart.
    #[must_use]
    pub fn granularity(&self) -> u16 {
        self.choice.tpcs_per_unit()
    }

    /// How launches are kept to a part.
    #[must_use]
    pub const fn mechanism(&self) -> Mechanism {
        self.choice.mechanism()
    }

    /// Whether launches cannot leave their part.
    #[must_use]
    pub const fn is_enforced(&self) -> bool {
        self.choice.mechanism().is_enforced()
    }

    fn place(&self, mechanism: Mechanism) -> Option<MaskPlace> {
        let places = self.found.iter().map(|found| found.place);
        places
            .into_iter()
            .find(|place| place.mechanism() == mechanism)
    }

    fn descriptor(&self) -> Option<launch_mask::Layout> {
        match self.place(Mechanism::LaunchMask)? {
            MaskPlace::Launch(layout) => Some(layout),
            MaskPlace::Stream(_) => None,
        }
    }

    /// What makes streams for partitions of the device that was looked at.
    pub fn partitioner(&self, gpu: Gpu) -> Result<Partitioner, StreamError> {
        let means = match self.mechanism() {
            Mechanism::StreamMask => {
                let place = match self.place(Mechanism::StreamMask) {
                    Some(MaskPlace::Stream(place)) => place,
                    _ => self.facts.mask_row()?.place(),
                };
                // SAFETY: calibration confirmed the place on this device and driver.
                Means::Masks(unsafe { Masking::native(place) })
            }
            Mechanism::Libsmctrl => {
                let key = self.facts.driver_key().map_err(MaskError::from)?;
                // SAFETY: calibration used the same file on this device and driver, and came back.
                let masking = unsafe { Masking::by_known(&self.libsmctrl, key) };
                Means::Masks(masking.map_err(MaskError::from)?)
            }
            Mechanism::LaunchMask => {
                // SAFETY: calibration confirmed the callback and the descriptors on this device and driver.
                Means::Masks(unsafe { Masking::of_launches(gpu, self.descriptor()) }?)
            }
            Mechanism::GreenContexts => Means::Groups(Groups::split(gpu)?),
            Mechanism::Priority => Means::Streams,
        };
        Ok(Partitioner::new(self.choice.clone(), means))
    }
}

impl Facts {
    /// What the outcome of a trial of `mechanism` holds for.
    #[must_use]
    pub fn key(&self, mechanism: Mechanism, how: &How) -> Key {
        let found = self.found(mechanism, how);
        self.key_at(mechanism, how, found.map(|found| found.place))
    }

    /// The same where a search found the place, if one did.
    fn key_at(&self, mechanism: Mechanism, how: &How, found: Option<MaskPlace>) -> Key {
        let build = self.driver_build.as_deref().unwrap_or("unknown build");
        let mut driver = format!("{} {build}", self.version);
        match mechanism {
            // Another file is another library.
            Mechanism::Libsmctrl => driver = format!("{driver}, {}", how.libsmctrl.display()),
            // A corrected row is another place, which was not tried yet; so is one that a search found.
            Mechanism::StreamMask => {
                let row = || self.mask_row().map_or(0, |row| row.offset);
                let offset = match found {
                    Some(MaskPlace::Stream(place)) => place.offset,
                    _ => row(),
                };
                driver = format!("{driver}, mask at {offset:#x}");
            }
            Mechanism::LaunchMask => {
                if let Some(place) = found {
                    driver = format!("{driver}, mask at {place}");
                }
            }
            Mechanism::GreenContexts | Mechanism::Priority => {}
        }
        Key {
            driver,
            uuid: self.uuid.clone(),
            power_mode: self.power_mode.clone().unwrap_or_else(|| "only".to_owned()),
            sms: self.multiprocessors,
            mechanism,
        }
    }

    /// The outcome on record, or of a trial now.
    fn outcome(&self, mechanism: Mechanism, how: &How) -> Outcome {
        let found = self.found(mechanism, how).map(|found| found.place);
        if mechanism == Mechanism::StreamMask && found.is_none() {
            // Without a row there is nothing to try.
            self.mask_row().map_err(StreamError::from)?;
        }
        let key = self.key_at(mechanism, how, found);
        let records = how.records.as_deref();
        let kept = records.filter(|_| !how.again);
        if let Some(outcome) = kept.and_then(|folder| record::read(folder, &key)) {
            return outcome;
        }
        let outcome = self.tried(mechanism, how, found);
        if let Some(folder) = records {
            // A folder that cannot be written costs a trial at the next start, nothing else.
            let _ = record::write(folder, &key, &outcome);
        }
        outcome
    }

    /// The place that a search found for `mechanism` on this driver.
    fn found(&self, mechanism: Mechanism, how: &How) -> Option<FoundPlace> {
        FoundPlace::read(how.records.as_deref()?, mechanism, self)
    }

    fn tried(&self, mechanism: Mechanism, how: &How, place: Option<MaskPlace>) -> Outcome {
        let program = how.program.as_ref().ok_or(Refusal::NotTried)?;
        let trial = Trial {
            mechanism,
            device: self.device,
            version: self.version,
            compute_capability: self.compute_capability,
            libsmctrl: how.libsmctrl.clone(),
            place,
        };
        program.run(&trial, self.multiprocessors.div_ceil(self.sms_per_tpc()))
    }

    /// Tries places for `mechanism`, and keeps the first that holds, with its map.
    fn search(
        &self,
        mechanism: Mechanism,
        how: &How,
        limits: Limits,
        told: &mut dyn FnMut(&Tried<'_>),
    ) -> Ended {
        let generation = Generation::of_compute_capability(self.compute_capability.0);
        let places = MaskPlace::candidates(mechanism, self.version, generation);
        let attempt = |place| self.tried(mechanism, how, Some(place));
        match search::among(&places, limits, clock::now_ns, attempt, told) {
            Ok(hit) => self.keep(how, &hit),
            Err(nothing) => Ended::NotFound(nothing),
        }
    }

    fn keep(&self, how: &How, hit: &Hit) -> Ended {
        let date = clock::date_of(clock::unix_seconds());
        let found = FoundPlace::new(self, how.host.model(), date, hit);
        let Some(folder) = how.records.as_deref() else {
            let why = "there is no folder for records".to_owned();
            return Ended::NotKept { found, why };
        };
        match found.write(folder, self) {
            Ok(()) => {
                let key = self.key_at(hit.place.mechanism(), how, Some(hit.place));
                // Without it the place is tried once more.
                let _ = record::write(folder, &key, &Ok(hit.map.clone()));
                Ended::Found(found)
            }
            Err(error) => {
                let why = format!("{}: {error}", folder.display());
                Ended::NotKept { found, why }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mechanisms_are_tried_as_the_user_names_them() {
        assert_eq!(order(""), Ok(Mechanism::ORDER.to_vec()));
        let named = order("launch-mask, green-contexts");
        assert_eq!(
            named,
            Ok(vec![Mechanism::LaunchMask, Mechanism::GreenContexts])
        );
    }

    #[test]
    fn a_mechanism_that_there_is_none_of_is_an_error() {
        let unknown = order("stream-mask,masks").expect_err("there is none");
        assert_eq!(unknown.named, "masks");
        assert!(unknown.to_string().contains("launch-mask"), "{unknown}");
    }

    #[test]
    fn masks_of_launches_are_used_only_where_they_are_named() {
        assert!(!Mechanism::ORDER.contains(&Mechanism::LaunchMask));
        assert!(Mechanism::LaunchMask.is_enforced());
        assert_eq!(Mechanism::named("launch-mask"), Some(Mechanism::LaunchMask));
    }
}
