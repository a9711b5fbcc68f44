//! Where a driver keeps its masks if that is not known: places are tried, each in a process that may die of it,
//! until one does what masks do.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use punctual_platform::files::write_whole;
use punctual_platform::read;
use serde::{Deserialize, Serialize};

use super::calibration::Refusal;
use super::facts::Facts;
use super::mechanism::Mechanism;
use super::place::MaskPlace;
use super::units::UnitMap;

/// A place that a search found, and for what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoundPlace {
    format: u32,
    /// The driver's version and build, and the processor's architecture: what the place holds for.
    pub driver: String,
    /// As streams' objects and launches' descriptors differ between kinds of devices.
    pub compute_capability: (u32, u32),
    pub place: MaskPlace,
    /// The device that showed it, and the board where there is a device tree.
    pub gpu: String,
    pub board: Option<String>,
    /// When, UTC.
    pub date: String,
    /// How many places were tried, this one included.
    pub tried: u32,
}

const FORMAT: u32 = 1;

/// How far a search goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub places: usize,
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            places: 128,
            time: Duration::from_secs(300),
        }
    }
}

/// One place that was tried.
#[derive(Debug)]
pub struct Tried<'a> {
    pub place: MaskPlace,
    /// Counted from 1.
    pub number: usize,
    /// Of how many at most.
    pub places: usize,
    /// Why it is none; none: it is one.
    pub refusal: Option<&'a Refusal>,
}

/// A search that found nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotFound {
    pub tried: usize,
    /// Whether there was no time for the other places.
    pub out_of_time: bool,
    /// The refusal that tells most: of a place whose masks had an effect, or one that no other place can mend.
    pub telling: Option<(MaskPlace, Refusal)>,
}

/// What a search came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Later looks use it.
    Found(FoundPlace),
    /// It holds, and cannot be kept: later looks do not know it.
    NotKept {
        found: FoundPlace,
        why: String,
    },
    NotFound(NotFound),
}

/// The first place at which calibration proves masks to work.
pub struct Hit {
    pub place: MaskPlace,
    pub map: UnitMap,
    pub tried: usize,
}

/// Tries places by `attempt` until one holds. `now_ns` is a monotonic clock.
pub fn among(
    places: &[MaskPlace],
    limits: Limits,
    now_ns: impl Fn() -> u64,
    mut attempt: impl FnMut(MaskPlace) -> Result<UnitMap, Refusal>,
    told: &mut dyn FnMut(&Tried<'_>),
) -> Result<Hit, NotFound> {
    let until_ns = now_ns().saturating_add(limits.time.as_nanos() as u64);
    let count = places.len().min(limits.places);
    let mut nothing = NotFound {
        tried: 0,
        out_of_time: false,
        telling: None,
    };
    for (place, number) in places.iter().copied().zip(1..=count) {
        if now_ns() > until_ns {
            nothing.out_of_time = true;
            break;
        }
        let outcome = attempt(place);
        told(&Tried {
            place,
            number,
            places: count,
            refusal: outcome.as_ref().err(),
        });
        nothing.tried = number;
        match outcome {
            Ok(map) => {
                return Ok(Hit {
                    place,
                    map,
                    tried: number,
                });
            }
            Err(refusal) if !refusal.is_of_the_place() => {
                nothing.telling = Some((place, refusal));
                break;
            }
            Err(refusal) => nothing.keep_if_telling(place, refusal),
        }
    }
    Err(nothing)
}

impl NotFound {
    fn keep_if_telling(&mut self, place: MaskPlace, refusal: Refusal) {
        if self.telling.is_none() && refusal.shows_an_effect() {
            self.telling = Some((place, refusal));
        }
    }
}

/// What the place of a mask depends on, as a text.
fn driver(facts: &Facts) -> String {
    let build = facts.driver_build.as_deref().unwrap_or("unknown build");
    format!("{} {build}, {}", facts.version, std::env::consts::ARCH)
}

impl FoundPlace {
    pub(super) fn new(facts: &Facts, board: Option<String>, date: String, hit: &Hit) -> Self {
        Self {
            format: FORMAT,
            driver: driver(facts),
            compute_capability: facts.compute_capability,
            place: hit.place,
            gpu: format!("{} ({})", facts.name, facts.uuid),
            board,
            date,
            tried: hit.tried as u32,
        }
    }

    /// What was found for this driver, if anything was; a damaged file is nothing.
    #[must_use]
    pub fn read(folder: &Path, mechanism: Mechanism, facts: &Facts) -> Option<Self> {
        let bytes = read::bytes(&file(folder, mechanism, facts), read::TEXT_BYTES_MAX).ok()?;
        let found: Self = serde_json::from_slice(&bytes).ok()?;
        let is_ours = found.format == FORMAT
            && found.driver == driver(facts)
            && found.compute_capability == facts.compute_capability
            && found.place.mechanism() == mechanism;
        is_ours.then_some(found)
    }

    pub(super) fn write(&self, folder: &Path, facts: &Facts) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let bytes = serde_json::to_vec_pretty(self)?;
        write_whole(&file(folder, self.place.mechanism(), facts), &bytes)
    }
}

fn file(folder: &Path, mechanism: Mechanism, facts: &Facts) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let driver: String = driver(facts).chars().take(60).map(plain).collect();
    let (major, minor) = facts.compute_capability;
    folder.join(format!("place_{driver}_{major}-{minor}_{mechanism}.json"))
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Found(found) => write!(f, "{found}"),
            Self::NotKept { found, why } => write!(f, "{found}, but it cannot be kept: {why}"),
            Self::NotFound(nothing) => write!(f, "no place was found: {nothing}"),
        }
    }
}

impl std::fmt::Display for FoundPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            place, date, tried, ..
        } = self;
        write!(
            f,
            "found here on {date}: {place}, number {tried} of the places tried"
        )
    }
}

impl std::fmt::Display for NotFound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} places were tried", self.tried)?;
        if self.out_of_time {
            f.write_str(", then there was no time left")?;
        }
        match &self.telling {
            Some((place, refusal)) => {
                write!(f, "; the most telling refusal, of {place}: {refusal}")
            }
            None => f.write_str("; none of them had an effect"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use libsmctrl_sys::CudaVersion;
    use libsmctrl_sys::launch_mask::Generation;

    use super::*;

    fn places() -> Vec<MaskPlace> {
        let (version, generation) = (CudaVersion::new(13, 2), Generation::UpToAda);
        MaskPlace::candidates(Mechanism::StreamMask, version, generation)
    }

    fn map() -> UnitMap {
        UnitMap::undivided(4).expect("four")
    }

    #[test]
    fn a_search_ends_at_the_first_place_that_holds() {
        let places = places();
        let mut seen = Vec::new();
        let hit = among(
            &places,
            Limits::default(),
            || 0,
            |place| {
                if place == places[20] {
                    Ok(map())
                } else {
                    Err(Refusal::NoEffect)
                }
            },
            &mut |tried| seen.push((tried.number, tried.refusal.is_none())),
        );
        let hit = hit.unwrap_or_else(|nothing| panic!("{nothing}"));
        assert_eq!((hit.place, hit.tried), (places[20], 21));
        assert_eq!(seen.len(), 21);
        assert_eq!(seen.last(), Some(&(21, true)));
    }

    #[test]
    fn a_search_is_bounded_in_number_and_time_and_has_the_most_telling_refusal() {
        let places = places();
        let limits = Limits {
            places: 5,
            time: Duration::from_secs(60),
        };
        let shared = Refusal::Ungoverned {
            sms: super::super::SmSet::first(2).expect("two"),
        };
        let refuse = |place| {
            if place == places[3] {
                Err(shared.clone())
            } else {
                Err(Refusal::NoEffect)
            }
        };
        let nothing = among(&places, limits, || 0, refuse, &mut |_| {}).err();
        let nothing = nothing.expect("nothing holds");
        assert_eq!((nothing.tried, nothing.out_of_time), (5, false));
        assert_eq!(nothing.telling, Some((places[3], shared.clone())));

        let seconds = Cell::new(0);
        let slow = |_| {
            seconds.set(seconds.get() + 25);
            Err(Refusal::NoEffect)
        };
        let now_ns = || seconds.get() * 1_000_000_000;
        let nothing = among(&places, limits, now_ns, slow, &mut |_| {}).err();
        let nothing = nothing.expect("nothing holds");
        assert_eq!((nothing.tried, nothing.out_of_time), (3, true));
    }

    #[test]
    fn what_no_place_can_mend_ends_a_search() {
        let missing = Refusal::NoDriver {
            said: "gone".to_owned(),
        };
        let refuse = |_| Err(missing.clone());
        let nothing = among(&places(), Limits::default(), || 0, refuse, &mut |_| {}).err();
        assert_eq!(nothing.map(|nothing| nothing.tried), Some(1));
    }
}
