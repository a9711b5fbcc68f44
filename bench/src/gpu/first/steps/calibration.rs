//! By which mechanism the GPU can be divided, and which multiprocessors each bit of its masks governs.

use std::time::Duration;

use punctual_device_cuda::partition::offer::{self, Search};
use punctual_device_cuda::partition::search::Limits;
use punctual_device_cuda::partition::{Choice, Mechanism, Program, Refusal, Unit};

use super::super::super::division;
use super::super::super::result::Sheet;
use super::super::super::step::{Session, StepError};
use super::super::super::steps::calibration::contradicts;
use super::super::finding::{Claim, Finding, MaskBit};
use super::FirstStep;

pub struct Calibration;

/// A mechanism that takes longer is given up, but for what its TPCs add.
const TRIAL_LIMIT: Duration = Duration::from_secs(8);
/// The limit of a search for the place of masks, where it is not known or all known places are wrong.
const SEARCH_LIMIT: Duration = Duration::from_secs(120);

impl FirstStep for Calibration {
    fn name(&self) -> &'static str {
        "calibration"
    }

    fn shows(&self) -> &'static str {
        "which multiprocessors each bit of a mask governs, seen by %smid: partitions are real"
    }

    fn seconds(&self) -> u32 {
        10
    }

    fn patience(&self, tpcs: u32) -> u32 {
        // Each enforced mechanism, one of them found only after a search.
        let trials = Mechanism::ALL.len() as u32;
        let limit = TRIAL_LIMIT + Program::TPC_LIMIT * tpcs;
        (SEARCH_LIMIT + limit * trials).as_secs() as u32
    }

    fn of_time(&self) -> bool {
        false
    }

    fn run(&self, session: &Session<'_>) -> Result<Finding, StepError> {
        let mut how = division::how(session)?;
        if let Some(program) = &mut how.program {
            program.limit = TRIAL_LIMIT;
        }
        let limits = Limits {
            time: SEARCH_LIMIT,
            ..Limits::default()
        };
        let Search { offer, searched } =
            offer::search(session.gpu()?, session.device, &how, limits, &mut |_| {})?;
        let mut finding = tell(&offer.choice);
        for search in searched {
            finding.note(format!("{}: {}", search.mechanism, search.ended));
        }
        finding.found_places = offer.found;
        Ok(finding)
    }
}

fn tell(choice: &Choice) -> Finding {
    let mut finding = Finding::default();
    let mut sheet = Sheet::new("Mechanisms", &["mechanism", "outcome"], 2);
    for (mechanism, refusal) in choice.refused() {
        sheet.row([mechanism.to_string(), refusal.to_string()]);
    }
    let used = choice.mechanism();
    if used.is_enforced() {
        sheet.row([used.to_string(), "every bit as it should be".to_owned()]);
        let bit = |unit: &Unit| MaskBit {
            bit: unit.bit,
            multiprocessors: unit.sms.iter().collect(),
        };
        finding.map = choice.map().units().iter().map(bit).collect();
        finding.claim = Claim::Proven;
        finding.found = format!(
            "{used}: {} parts of {} multiprocessors in all, each tried alone and with others{}",
            finding.map.len(),
            choice.map().all().count(),
            named(choice.refused())
        );
    } else {
        let refused = choice.refused();
        let wrong = refused.iter().find(|(_, refusal)| contradicts(refusal));
        finding.claim = match wrong {
            Some(_) => Claim::Refuted,
            None => Claim::Open,
        };
        finding.found = format!("no mechanism divides this GPU{}", named(refused));
    }
    finding.tables.push(sheet);
    finding
}

/// Why each mechanism that would have come first is not used.
fn named(refused: &[(Mechanism, Refusal)]) -> String {
    let each = refused
        .iter()
        .map(|(mechanism, why)| format!("; not {mechanism}: {why}"));
    each.collect()
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
        let finding = tell(&choice(Ok(UnitMap::new(units.to_vec()).expect("units"))));
        assert_eq!(finding.claim, Claim::Proven);
        assert_eq!(finding.map[1].multiprocessors, [1, 3]);
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
