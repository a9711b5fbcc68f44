//! A profile from the field: of stages that ran while a daemon served.

use std::collections::BTreeMap;

use punctual_model::{FieldFigure, Profile, Quantiles, Samples, StageProfile};
use punctual_recording::frames::{Outcome, Run};
use punctual_report::{Column, Table, Text};

/// Runs of one package on one kind of device, for a profile of it.
#[derive(Clone, Debug, Default)]
pub struct Field(BTreeMap<Figure, Runs>);

/// A figure of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Figure {
    is_beside: bool,
    key: FieldFigure,
}

#[derive(Clone, Debug, Default)]
struct Runs {
    measured: Samples,
    preempted: u64,
}

/// A profile in which figures from the field have replaced others, and what became of each.
#[derive(Clone, Debug)]
pub struct FieldProfile {
    pub profile: Profile,
    /// How many figures are new.
    pub replaced: usize,
    rows: Vec<Row>,
    samples_min: u32,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    figure: Figure,
    samples: u32,
    before: Option<StageProfile>,
    /// None: too few samples.
    after: Option<StageProfile>,
}

impl Field {
    /// Counts a run on a partition with this number of compute units; `is_place`: its figures are those with busy neighbours.
    ///
    /// A batch that is not full takes less time than a full one, which the figure is for, and is left out.
    pub fn run(&mut self, run: &Run, units: u8, is_place: bool) {
        let Some(end) = run.end else { return };
        let figure = Figure {
            is_beside: is_place,
            key: FieldFigure {
                stage: run.stage.0,
                batch: run.batch,
                units,
            },
        };
        let is_full = run.members.len() == usize::from(run.batch);
        match end.outcome {
            Outcome::Finished { measured, .. } if is_full => {
                self.0.entry(figure).or_default().measured.add(measured);
            }
            Outcome::Preempted => self.0.entry(figure).or_default().preempted += 1,
            Outcome::Finished { .. } | Outcome::NotRun | Outcome::Failed => {}
        }
    }

    /// A profile with the figures of which there are `samples_min` samples at least; `before` is the one that the recorded plan
    /// was made from, and keeps the others. `recording` is the file's name, for the profile to say where they are from.
    ///
    /// No longest time is shorter than before: the field may not have seen the worst. Where runs were preempted, no quantile is
    /// either, as the longest runs are preempted most often, and are no samples.
    #[must_use]
    pub fn profile(self, before: &Profile, samples_min: u32, recording: &str) -> FieldProfile {
        let mut profile = before.clone();
        let mut rows = Vec::new();
        let mut from = before.field.clone().unwrap_or_default();
        for (mut figure, runs) in by_entry(self.0, before) {
            let old = entry_of(before, figure);
            let enough = runs.measured.count() >= samples_min as usize;
            let new = enough.then(|| measured(figure, &runs, old));
            if let Some(new) = new {
                figure.key.stage = new.stage;
                put(&mut profile, figure.is_beside, new);
                from.add(figure.is_beside, figure.key);
            }
            rows.push(Row {
                figure,
                samples: u32::try_from(runs.measured.count()).unwrap_or(u32::MAX),
                before: old.copied(),
                after: new,
            });
        }
        let replaced = rows.iter().filter(|row| row.after.is_some()).count();
        if replaced > 0 {
            from.recordings.push(recording.to_owned());
            profile.field = Some(from);
        }
        rows.extend(unseen(before, &rows));
        FieldProfile {
            profile,
            replaced,
            rows,
            samples_min,
        }
    }
}

/// Stages that are the same have one entry: their runs are counted together.
fn by_entry(runs: BTreeMap<Figure, Runs>, profile: &Profile) -> BTreeMap<Figure, Runs> {
    let mut together: BTreeMap<Figure, Runs> = BTreeMap::new();
    for (mut figure, runs) in runs {
        figure.key.stage = profile.measured_as(figure.key.stage);
        let all = together.entry(figure).or_default();
        all.measured.append(runs.measured);
        all.preempted += runs.preempted;
    }
    together
}

/// The figure that a plan would use.
fn entry_of(profile: &Profile, figure: Figure) -> Option<&StageProfile> {
    let FieldFigure {
        stage,
        batch,
        units,
    } = figure.key;
    if figure.is_beside {
        profile.stage_beside(stage, batch, units)
    } else {
        profile.stage(stage, batch, units)
    }
}

fn measured(figure: Figure, runs: &Runs, before: Option<&StageProfile>) -> StageProfile {
    let Quantiles {
        samples,
        p50_ns,
        p99_ns,
        max_ns,
    } = runs.measured.quantiles();
    let floor = |of: fn(&StageProfile) -> u64| before.map_or(0, of);
    let p99_ns = match runs.preempted {
        0 => p99_ns,
        _ => p99_ns.max(floor(|before| before.p99_ns)),
    };
    let FieldFigure {
        stage,
        batch,
        units,
    } = figure.key;
    StageProfile {
        stage,
        batch,
        units,
        samples,
        p50_ns,
        p99_ns,
        max_ns: max_ns.max(p99_ns).max(floor(|before| before.max_ns)),
    }
}

fn list(profile: &Profile, is_beside: bool) -> &[StageProfile] {
    if is_beside {
        &profile.beside
    } else {
        &profile.stages
    }
}

fn put(profile: &mut Profile, is_beside: bool, new: StageProfile) {
    let list = if is_beside {
        &mut profile.beside
    } else {
        &mut profile.stages
    };
    match list.iter_mut().find(|old| key(old) == key(&new)) {
        Some(old) => *old = new,
        None => list.push(new),
    }
}

fn key(entry: &StageProfile) -> FieldFigure {
    FieldFigure {
        stage: entry.stage,
        batch: entry.batch,
        units: entry.units,
    }
}

/// Figures of which the recording has no run.
fn unseen(before: &Profile, seen: &[Row]) -> Vec<Row> {
    let rows = [false, true].into_iter().flat_map(|is_beside| {
        list(before, is_beside).iter().map(move |entry| Row {
            figure: Figure {
                is_beside,
                key: key(entry),
            },
            samples: 0,
            before: Some(*entry),
            after: None,
        })
    });
    rows.filter(|row| seen.iter().all(|seen| seen.figure != row.figure))
        .collect()
}

impl FieldProfile {
    /// What became of each figure.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::of([
            Column::words("figure"),
            Column::number("samples"),
            Column::number("p99").unit("ms"),
            Column::number("was").unit("ms"),
            Column::number("max").unit("ms"),
            Column::number("was").unit("ms"),
            Column::words("now"),
        ])
        .inset();
        for row in &self.rows {
            table.row(self.cells(row));
        }
        table
    }

    fn cells(&self, row: &Row) -> [Text; 7] {
        let FieldFigure {
            stage,
            batch,
            units,
        } = row.figure.key;
        let beside = if row.figure.is_beside { ", beside" } else { "" };
        let s = if units == 1 { "" } else { "s" };
        let ms = |of: Option<StageProfile>, which: fn(&StageProfile) -> u64| {
            let text = of.map(|entry| format!("{:.3}", which(&entry) as f64 / 1e6));
            Text::from(text.unwrap_or_default())
        };
        let now = match row.after {
            Some(_) => "from the field".to_owned(),
            None => format!("kept: fewer than {}", self.samples_min),
        };
        [
            Text::from(format!(
                "stage {stage}, batch {batch}, {units} unit{s}{beside}"
            )),
            Text::from(row.samples.to_string()),
            ms(row.after, |entry| entry.p99_ns),
            ms(row.before, |entry| entry.p99_ns),
            ms(row.after, |entry| entry.max_ns),
            ms(row.before, |entry| entry.max_ns),
            Text::from(now),
        ]
    }
}
