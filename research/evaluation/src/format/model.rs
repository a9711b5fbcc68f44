//! `[[model]]`: a built-in profile, a measured one, or stages with their times.

use punctual_core::{BATCH_MAX, Nanos, STAGES_MAX, StageTime, Weights};
use punctual_model::{Calibration, Profile};

use super::Files;
use super::document::Section;
use super::problem::Cause;
use crate::profiles::{self, Exits, calibration};
use punctual_simulator::scenario::{Board, Measured, Model, Stage};

/// Records made for a network of which only accuracies are known.
const SAMPLES: usize = 4_000;

pub(super) fn read(root: &Section<'_>, board: &Board, files: Files<'_>) -> Vec<Model> {
    let mut models: Vec<Model> = Vec::new();
    for section in root.sections("model") {
        let name = section.text("name", None);
        if models.iter().any(|model| model.name == name) {
            section.wrong("name", "a name that no other model has");
        }
        let mut model = if section.has("like") {
            like(&section)
        } else if section.has("profile") {
            measured(&section, files)
        } else {
            stages(&section, &name)
        };
        if section.has("calibration") {
            records(&section, files, &mut model);
        }
        if let Some(weights) = section.section("weights") {
            model.weights = Some(Weights {
                pages: weights.whole("pages", 1..=u32::MAX, None),
                load: profiles::millis(weights.number("load_ms", 0.001..=3.6e6, None)),
            });
            weights.end();
        }
        model.name = name;
        let largest = model.stages.iter().flat_map(|stage| &stage.times);
        if largest.clone().all(|time| time.units > board.units) && largest.count() > 0 {
            section.wrong("name", "a model with times for the units of the board");
        }
        models.push(model);
        section.end();
    }
    if models.is_empty() {
        root.wrong("model", "one [[model]] at least");
    }
    models
}

fn like(section: &Section<'_>) -> Model {
    let mut all = profiles::all();
    let names: Vec<String> = all.iter().map(|model| model.name.clone()).collect();
    all.swap_remove(section.one_of("like", &names))
}

/// A profile as `punctual profile` writes it.
fn measured(section: &Section<'_>, files: Files<'_>) -> Model {
    let file = section.text("profile", None);
    let profile = load(section, &file, files, |text| {
        Profile::from_json(text).map_err(|error| error.to_string())
    });
    let mut stages: Vec<Stage> = Vec::new();
    for measured in profile.iter().flat_map(|profile| &profile.stages) {
        let index = usize::from(measured.stage);
        if stages.len() <= index {
            stages.resize(index + 1, Stage::default());
        }
        stages[index].times.push(Measured {
            batch: measured.batch,
            units: u16::from(measured.units),
            time: StageTime {
                budget: Nanos::new(measured.p99_ns),
                max_seen: Nanos::new(measured.max_ns),
            },
        });
    }
    if !section.has("calibration") {
        section.wrong(
            "calibration",
            "the file of records that belongs to the profile",
        );
    }
    Model {
        name: String::new(),
        source: file,
        stages,
        calibration: Calibration::default(),
        weights: None,
    }
}

/// `[[model.stage]]`: its times, and the accuracy of its exit.
fn stages(section: &Section<'_>, name: &str) -> Model {
    let (mut stages, mut accuracies) = (Vec::new(), Vec::new());
    for stage in section.sections("stage") {
        let least = accuracies.last().copied().unwrap_or(0.01);
        accuracies.push(stage.number("accuracy", least..=0.999, None));
        stages.push(Stage {
            times: times(&stage),
            ..Stage::default()
        });
        stage.end();
    }
    if !(1..=STAGES_MAX).contains(&stages.len()) {
        let rule = format!("1 to {STAGES_MAX} [[model.stage]], or `like`, or `profile`");
        section.wrong("stage", &rule);
    }
    let exits = Exits {
        accuracies: &accuracies,
        sharpness: section.number("sharpness", 0.1..=100.0, Some(6.0)),
        misjudgement: section.number("misjudgement", 0.0..=10.0, Some(0.6)),
    };
    Model {
        name: String::new(),
        source: "workload file; records synthetic".into(),
        calibration: calibration(name, exits, SAMPLES),
        stages,
        weights: None,
    }
}

fn times(stage: &Section<'_>) -> Vec<Measured> {
    let mut times: Vec<Measured> = Vec::new();
    for section in stage.sections("times") {
        let batch = section.whole("batch", 1..=BATCH_MAX as u32, Some(1)) as u8;
        let units = section.whole("units", 1..=256, Some(1)) as u16;
        let ms = section.number("ms", 1e-6..=3.6e6, None);
        let max_ms = section.number("max_ms", ms..=3.6e6, Some(ms));
        if times
            .iter()
            .any(|time| (time.batch, time.units) == (batch, units))
        {
            section.wrong("ms", "given once for a batch and a number of units");
        }
        times.push(Measured {
            batch,
            units,
            time: StageTime {
                budget: profiles::millis(ms),
                max_seen: profiles::millis(max_ms),
            },
        });
        section.end();
    }
    if times.iter().all(|time| time.batch != 1) {
        stage.wrong("times", "a list of tables, one of them with batch = 1");
    }
    times
}

fn records(section: &Section<'_>, files: Files<'_>, model: &mut Model) {
    let file = section.text("calibration", None);
    let exits = model.stages.len();
    let records = load(section, &file, files, |text| {
        let records = Calibration::from_json(text).map_err(|error| error.to_string())?;
        records
            .check_exits(exits)
            .map_err(|error| error.to_string())?;
        Ok(records)
    });
    model.calibration = records.unwrap_or_default();
}

/// A file that the workload file names, parsed.
fn load<T>(
    section: &Section<'_>,
    file: &str,
    files: Files<'_>,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Option<T> {
    let cause = match files(file) {
        Err(error) => Cause::Unreadable {
            file: file.into(),
            error,
        },
        Ok(text) => match parse(&text) {
            Ok(parsed) => return Some(parsed),
            Err(reason) => Cause::File {
                file: file.into(),
                reason,
            },
        },
    };
    section.note(cause);
    None
}
