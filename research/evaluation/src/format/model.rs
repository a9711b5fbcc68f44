//! `[[model]]`: a built-in profile, a measured one, or stages with their times.

use punctual_core::{BATCH_MAX, Nanos, STAGES_MAX, StageTime, Weights};
use punctual_diagnostics::{Problems, Rule, Section, Spanned, unique};
use punctual_model::{Calibration, CalibrationError, Profile};
use punctual_simulator::scenario::{Board, Measured, Model, Stage};
use thiserror::Error;

use super::files::{self, Files};
use crate::profiles::{self, Exits, calibration};

/// Records made for a network of which only accuracies are known.
const SAMPLES: usize = 4_000;

/// What is wrong with a model.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ModelRule {
    #[error("model {model:?} has no times for the {units} units of the board or fewer")]
    RunsNowhere { model: String, units: u16 },
    #[error("a measured profile without `calibration`")]
    NotCalibrated,
    #[error("{stages} stages, and there may be 1 to {STAGES_MAX}")]
    StageCount { stages: usize },
    #[error("batch {batch} on {units} units has two times")]
    TimeTwice { batch: u8, units: u16 },
    #[error("a stage without a time for batch 1")]
    NoTimeOfOne,
}

impl Rule for ModelRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::RunsNowhere { .. } => "a model runs on the board",
            Self::NotCalibrated => "what an exit answers comes from records",
            Self::StageCount { .. } => "a network has stages, as many as the scheduler knows",
            Self::TimeTwice { .. } => "a batch size and a number of units have one time",
            Self::NoTimeOfOne => "every request can run alone",
        }
    }

    fn help(&self) -> String {
        match self {
            Self::RunsNowhere { .. } => "add times, or raise `board.units`".into(),
            Self::NotCalibrated => "name the file of records that belongs to the profile".into(),
            Self::StageCount { .. } => {
                "add [[model.stage]] tables, or give `like` or `profile`".into()
            }
            Self::TimeTwice { .. } => "remove one of them".into(),
            Self::NoTimeOfOne => "add a table to `times` with batch = 1".into(),
        }
    }
}

pub(super) fn read(
    root: &mut Section<'_, '_>,
    board: &Board,
    files: Files<'_>,
    problems: &mut Problems<'_>,
) -> Vec<Model> {
    let all = 1..=usize::MAX;
    let models = root.list("model", all, problems, |section, problems| {
        read_model(section, board, files, problems)
    });
    unique("model", models.iter().map(|(name, _)| name), problems);
    models.into_iter().map(|(_, model)| model).collect()
}

fn read_model(
    mut section: Section<'_, '_>,
    board: &Board,
    files: Files<'_>,
    problems: &mut Problems<'_>,
) -> Option<(Spanned<String>, Model)> {
    let s = &mut section;
    let name = s.required::<String>("name", problems);
    let text = name.as_ref().map_or("", |name| &name.value);
    let mut model = if s.has("like") {
        like(s, problems)
    } else if s.has("profile") {
        measured(s, files, problems)
    } else {
        stages(s, text, problems)
    };
    if let Some(file) = s.optional::<String>("calibration", problems) {
        let exits = model.stages.len();
        let parse = |text: &str| {
            let records = Calibration::from_json(text)?;
            records.check_exits(exits)?;
            Ok::<_, CalibrationError>(records)
        };
        let records = files::load(&file.value, &file.place, files, problems, parse);
        model.calibration = records.unwrap_or_default();
    }
    if let Some(mut weights) = s.table("weights", problems) {
        let pages = weights.required_whole("pages", 1..=u64::from(u32::MAX), problems);
        let ms = weights.required_number("load_ms", 0.001..=3.6e6, " ms", problems);
        model.weights = Some(Weights {
            pages: pages as u32,
            load: profiles::millis(ms),
        });
        weights.finish(problems);
    }
    section.finish(problems);
    let name = name?;
    model.name.clone_from(&name.value);
    let mut times = model
        .stages
        .iter()
        .flat_map(|stage| &stage.times)
        .peekable();
    if times.peek().is_some() && times.all(|time| time.units > board.units) {
        let cause = ModelRule::RunsNowhere {
            model: name.value.clone(),
            units: board.units,
        };
        problems.add(&name.place, cause);
    }
    Some((name, model))
}

fn like(section: &mut Section<'_, '_>, problems: &mut Problems<'_>) -> Model {
    let mut all = profiles::all();
    let words = all.iter().enumerate();
    let words: Vec<(&str, usize)> = words.map(|(at, model)| (&model.name[..], at)).collect();
    // The first stands in for one that is not there.
    let found = section.word("like", &words, problems).unwrap_or(0);
    all.swap_remove(found)
}

/// A profile as `punctual profile` writes it.
fn measured(section: &mut Section<'_, '_>, files: Files<'_>, problems: &mut Problems<'_>) -> Model {
    let file = section.required::<String>("profile", problems);
    let profile = file.as_ref().and_then(|file| {
        files::load(
            &file.value,
            &file.place,
            files,
            problems,
            Profile::from_json,
        )
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
        problems.add(&section.absent("calibration"), ModelRule::NotCalibrated);
    }
    Model {
        name: String::new(),
        source: file.map(|file| file.value).unwrap_or_default(),
        stages,
        calibration: Calibration::default(),
        weights: None,
    }
}

/// `[[model.stage]]`: its times, and the accuracy of its exit.
fn stages(section: &mut Section<'_, '_>, name: &str, problems: &mut Problems<'_>) -> Model {
    let least = std::cell::Cell::new(0.01);
    let all = 0..=usize::MAX;
    let read = section.list("stage", all, problems, |mut stage, problems| {
        // Deeper exits are no worse.
        let accuracy = stage.required_number("accuracy", least.get()..=0.999, "", problems);
        least.set(accuracy);
        let times = times(&mut stage, problems);
        stage.finish(problems);
        Some((accuracy, times))
    });
    if !(1..=STAGES_MAX).contains(&read.len()) {
        let stages = read.len();
        problems.add(&section.place_of("stage"), ModelRule::StageCount { stages });
    }
    let (accuracies, times): (Vec<f64>, Vec<Vec<Measured>>) = read.into_iter().unzip();
    let exits = Exits {
        accuracies: &accuracies,
        sharpness: section.number("sharpness", 6.0, 0.1..=100.0, "", problems),
        misjudgement: section.number("misjudgement", 0.6, 0.0..=10.0, "", problems),
    };
    let stage = |times| Stage {
        times,
        ..Stage::default()
    };
    Model {
        name: String::new(),
        source: "workload file; records synthetic".into(),
        calibration: calibration(name, exits, SAMPLES),
        stages: times.into_iter().map(stage).collect(),
        weights: None,
    }
}

fn times(stage: &mut Section<'_, '_>, problems: &mut Problems<'_>) -> Vec<Measured> {
    let all = 0..=usize::MAX;
    let read = stage.list("times", all, problems, |mut section, problems| {
        let s = &mut section;
        let batch = s.whole("batch", 1, 1..=BATCH_MAX as u64, problems).value as u8;
        let units = s.whole("units", 1, 1..=256, problems).value as u16;
        let ms = s.required_number("ms", 1e-6..=3.6e6, " ms", problems);
        let max_ms = s.number("max_ms", ms, ms..=3.6e6, " ms", problems);
        let place = section.place().clone();
        section.finish(problems);
        let time = StageTime {
            budget: profiles::millis(ms),
            max_seen: profiles::millis(max_ms),
        };
        Some((place, Measured { batch, units, time }))
    });
    let mut times: Vec<Measured> = Vec::new();
    for (place, time) in read {
        let (batch, units) = (time.batch, time.units);
        if times
            .iter()
            .any(|other| (other.batch, other.units) == (batch, units))
        {
            problems.add(&place, ModelRule::TimeTwice { batch, units });
        }
        times.push(time);
    }
    if times.iter().all(|time| time.batch != 1) {
        problems.add(&stage.place_of("times"), ModelRule::NoTimeOfOne);
    }
    times
}
