//! By which mechanisms the GPU can be divided, and which multiprocessors each bit of a mask governs: one bit at a time, looking at
//! `%smid`.

use std::time::Duration;

use punctual_device_cuda::driver::Gpu;
use punctual_device_cuda::partition::offer::{self, Search};
use punctual_device_cuda::partition::search::Limits;
use punctual_device_cuda::partition::{Choice, Mechanism, Program, Refusal, Unit};
use punctual_platform::clock;

use super::super::division;
use super::super::result::{Claim, MaskBit, Sheet, StepResult};
use super::super::step::{Session, Step, StepError};

pub struct Calibration;

/// A mechanism that takes longer is given up, but for what its TPCs add.
const TRIAL_LIMIT: Duration = Duration::from_secs(8);
/// The limit of a search for the place of masks, where it is not known or all known places are wrong.
const SEARCH_LIMIT: Duration = Duration::from_secs(120);
const HELD: &str = "every bit as it should be";

impl Step for Calibration {
    fn name(&self) -> &'static str {
        "calibration"
    }

    fn about(&self) -> &'static str {
        "which multiprocessors each bit of a mask governs, by every mechanism, seen by %smid: partitions are real"
    }

    fn reserve(&self, tpcs: u32) -> u32 {
        // Each enforced mechanism, one of them found only after a search.
        let trials = Mechanism::ALL.len() as u32;
        let limit = TRIAL_LIMIT + Program::TPC_LIMIT * tpcs;
        (SEARCH_LIMIT + limit * trials).as_secs() as u32
    }

    fn of_time(&self) -> bool {
        false
    }

    fn run(&self, session: &Session<'_>) -> Result<StepResult, StepError> {
        let gpu = session.gpu()?;
        let mut how = division::how(session)?;
        if let Some(program) = &mut how.program {
            program.limit = TRIAL_LIMIT;
        }
        let limits = Limits {
            time: SEARCH_LIMIT,
            ..Limits::default()
        };
        // The other steps use what is found.
        let Search { offer, searched } =
            offer::search(gpu, session.device, &how, limits, &mut |_| {})?;
        let mut result = tell(&offer.choice);
        for search in searched {
            result.note(format!("{}: {}", search.mechanism, search.ended));
        }
        result.note(format!(
            "The other steps use {}: {} TPCs in units of {}. A mechanism is trusted when each multiprocessor is governed by \
             exactly one bit and every mask that was tried did what its bits say: each bit disabled, each enabled alone, \
             halves, everything.",
            offer.mechanism(),
            offer.tpcs(),
            offer.granularity()
        ));
        result.found_places = offer.found;
        if !session.brief {
            let mechanisms = how.order.into_iter().filter(|each| each.is_enforced());
            each(session, gpu, mechanisms, &mut result)?;
        }
        Ok(result)
    }
}

fn tell(choice: &Choice) -> StepResult {
    let mut result = StepResult::default();
    let mut sheet = Sheet::new("Mechanisms", &["mechanism", "outcome"], 2);
    for (mechanism, refusal) in choice.refused() {
        sheet.row([mechanism.to_string(), refusal.to_string()]);
    }
    let used = choice.mechanism();
    if used.is_enforced() {
        sheet.row([used.to_string(), HELD.to_owned()]);
        let bit = |unit: &Unit| MaskBit {
            bit: unit.bit,
            multiprocessors: unit.sms.iter().collect(),
        };
        result.map = choice.map().units().iter().map(bit).collect();
        result.claim = Claim::Proven;
        result.found = format!(
            "{used}: {} parts of {} multiprocessors in all, each tried alone and with others{}",
            result.map.len(),
            choice.map().all().count(),
            named(choice.refused())
        );
    } else {
        let refused = choice.refused();
        let wrong = refused.iter().find(|(_, refusal)| contradicts(refusal));
        result.claim = match wrong {
            Some(_) => Claim::Refuted,
            None => Claim::Open,
        };
        result.found = format!("no mechanism divides this GPU{}", named(refused));
    }
    result.tables.push(sheet);
    result
}

/// Why each mechanism that would have come first is not used.
fn named(refused: &[(Mechanism, Refusal)]) -> String {
    let each = refused
        .iter()
        .map(|(mechanism, why)| format!("; not {mechanism}: {why}"));
    each.collect()
}

/// Tries each mechanism now, those included that another one comes before.
fn each(
    session: &Session<'_>,
    gpu: Gpu,
    mechanisms: impl Iterator<Item = Mechanism>,
    result: &mut StepResult,
) -> Result<(), StepError> {
    let headings = ["mechanism", "outcome", "TPCs", "TPCs a unit", "seconds"];
    let mut sheet = Sheet::new("Each mechanism by itself", &headings, 2);
    for mechanism in mechanisms {
        let start = clock::now_ns();
        let offer = division::look(session, gpu, &division::only(session, mechanism)?)?;
        let seconds = (clock::now_ns() - start) as f64 / 1e9;
        let refusal = offer.choice.refused().first().map(|(_, refusal)| refusal);
        let held = refusal.is_none();
        let count = |count: u16| match refusal {
            Some(_) => "-".to_owned(),
            None => count.to_string(),
        };
        sheet.row([
            mechanism.name().to_owned(),
            refusal.map_or_else(|| HELD.to_owned(), Refusal::to_string),
            count(offer.tpcs()),
            count(offer.granularity()),
            format!("{seconds:.1}"),
        ]);
        if refusal.is_none_or(contradicts) {
            result.figure("masks", mechanism.name(), f64::from(u8::from(held)));
        }
    }
    result.tables.push(sheet);
    Ok(())
}

/// Whether blocks ran elsewhere than where the masks say. Everything else is that the mechanism is not there.
const fn contradicts(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::NoEffect
            | Refusal::Ungoverned { .. }
            | Refusal::Shared { .. }
            | Refusal::Escaped { .. }
            | Refusal::KeptOut { .. }
    )
}

#[cfg(test)]
mod tests {
    use punctual_device_cuda::partition::choice::Undivided;
    use punctual_device_cuda::partition::{SmSet, UnitMap};

    use super::*;

    fn choice(outcome: Result<UnitMap, Refusal>) -> Choice {
        let undivided = Undivided {
            map: UnitMap::undivided(4).expect("four"),
            sms_per_tpc: 2,
        };
        let order = [Mechanism::StreamMask, Mechanism::Priority];
        Choice::make(&order, undivided, |_| outcome.clone())
    }

    #[test]
    fn a_mechanism_that_holds_is_proven_and_its_map_is_told() {
        let units = [(0, [0, 2]), (1, [1, 3])].map(|(bit, sms)| Unit {
            bit,
            sms: SmSet::of(sms).expect("small numbers"),
        });
        let result = tell(&choice(Ok(UnitMap::new(units.to_vec()).expect("units"))));
        assert_eq!(result.claim, Claim::Proven);
        assert_eq!(result.map[1].multiprocessors, [1, 3]);
    }

    #[test]
    fn a_mask_without_effect_refutes_and_a_mechanism_that_is_not_there_leaves_it_open() {
        let refuted = tell(&choice(Err(Refusal::NoEffect)));
        assert_eq!(refuted.claim, Claim::Refuted);
        let open = tell(&choice(Err(Refusal::Indivisible { groups: 1 })));
        assert_eq!(open.claim, Claim::Open);
        assert!(open.found.contains("stream-mask"), "{}", open.found);
    }
}
