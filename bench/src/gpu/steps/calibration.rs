//! Which multiprocessors a mask's bits govern, by every mechanism: one bit at a time, looking at `%smid`.

use std::time::Duration;

use punctual_device_cuda::partition::Refusal;
use punctual_device_cuda::partition::offer;
use punctual_device_cuda::partition::search::Limits;
use punctual_platform::clock;

use super::super::division;
use super::super::result::{Sheet, StepResult};
use super::super::step::{Session, Step, StepError};

pub struct Calibration;

/// Within the time after which a step is given up.
const SEARCH_LIMIT: Duration = Duration::from_secs(60);

impl Step for Calibration {
    fn name(&self) -> &'static str {
        "calibration"
    }

    fn about(&self) -> &'static str {
        "by which mechanisms the GPU can be divided, each tried bit by bit with %smid"
    }

    fn seconds(&self) -> u32 {
        25
    }

    fn run(&self, session: &Session<'_>) -> Result<StepResult, StepError> {
        let gpu = session.gpu()?;
        let mut result = StepResult::default();
        let headings = [
            "mechanism",
            "outcome",
            "TPCs",
            "TPCs a unit",
            "units",
            "seconds",
        ];
        let mut sheet = Sheet::new("Mechanisms", &headings, 2);
        // Where the place of masks is not known, it is searched for, and the other steps use what is found.
        let how = division::how(session)?;
        let limits = Limits {
            time: SEARCH_LIMIT,
            ..Limits::default()
        };
        let searched = offer::search(gpu, session.device, &how, limits, &mut |_| {})?;
        for search in searched.searched {
            result.note(format!("{}: {}", search.mechanism, search.ended));
        }
        // Those that are always tried, and what else the user names.
        let order = how.order.into_iter();
        for mechanism in order.filter(|each| each.is_enforced()) {
            let start = clock::now_ns();
            let offer = division::look(session, gpu, &division::only(session, mechanism)?)?;
            let seconds = (clock::now_ns() - start) as f64 / 1e9;
            let refusal = offer.choice.refused().first().map(|(_, refusal)| refusal);
            let outcome =
                refusal.map_or_else(|| "every bit as it should be".into(), Refusal::to_string);
            let counts = match refusal {
                Some(_) => ["-", "-", "-"].map(str::to_owned),
                None => [
                    offer.tpcs(),
                    offer.granularity(),
                    offer.tpcs() / offer.granularity().max(1),
                ]
                .map(|count| count.to_string()),
            };
            let words = [mechanism.name().to_owned(), outcome];
            sheet.row(
                words
                    .into_iter()
                    .chain(counts)
                    .chain([format!("{seconds:.1}")]),
            );
            match refusal {
                None => result.figure("masks", mechanism.name(), 1.0),
                Some(refusal) if contradicts(refusal) => {
                    result.figure("masks", mechanism.name(), 0.0)
                }
                Some(_) => {}
            }
        }
        result.tables.push(sheet);
        let offer = division::look(session, gpu, &division::how(session)?)?;
        result.note(format!(
            "The other steps use {}: {} TPCs in units of {}.",
            offer.mechanism(),
            offer.tpcs(),
            offer.granularity()
        ));
        result.note(
            "A mechanism is trusted when each multiprocessor is governed by exactly one bit and every mask that was \
             tried did what its bits say: each bit disabled, each enabled alone, halves, everything.",
        );
        Ok(result)
    }
}

/// Whether blocks ran elsewhere than where the masks say. Everything else is that the mechanism is not there.
pub const fn contradicts(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::NoEffect
            | Refusal::Ungoverned { .. }
            | Refusal::Shared { .. }
            | Refusal::Escaped { .. }
            | Refusal::KeptOut { .. }
    )
}
