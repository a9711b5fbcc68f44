//! The fleet file as it was written: types and ranges checked, names looked up.

use punctual_core::Nanos;
use punctual_diagnostics::{
    Document, Invalid, Place, Problems, RenamedKey, Section, Spanned, unique,
};

use crate::packing::{BatchTimes, Rate};

use crate::rule::FleetRule;

/// Keys of `[planner]` that had other names.
const PLANNER_RENAMED: [RenamedKey; 1] = [RenamedKey::new("margin", "budget_factor")];

const BOARD_KINDS_MAX: usize = 16;
const MODELS_MAX: usize = 256;
const STAGES_MAX: usize = 16;
const SESSIONS_MAX: usize = 1_024;
const QUERIES_MAX: usize = 256;
const PARTITIONS_MAX: u64 = 16;
const BATCH_SIZES_MAX: usize = 32;
const UNITS_MAX: u64 = 1_024;

pub(crate) struct File {
    pub(crate) budget_factor: f64,
    pub(crate) segments: u32,
    pub(crate) prefix_batching: bool,
    pub(crate) boards: Vec<RawBoard>,
    pub(crate) models: Vec<RawModel>,
    pub(crate) sessions: Vec<RawSession>,
    pub(crate) queries: Vec<RawQuery>,
}

pub(crate) struct RawBoard {
    pub(crate) name: Spanned<String>,
    pub(crate) count: u64,
    pub(crate) partitions: Vec<u16>,
    pub(crate) memory_bytes: u64,
}

pub(crate) struct RawModel {
    pub(crate) name: Spanned<String>,
    pub(crate) package: Option<Spanned<String>>,
    pub(crate) profiles: Vec<String>,
    pub(crate) stages: Vec<RawStage>,
    /// Whether all of it could be read: otherwise what follows from it says nothing.
    pub(crate) sound: bool,
}

/// A stage whose times stand in the file.
pub(crate) struct RawStage {
    pub(crate) weights: Option<String>,
    pub(crate) memory_bytes: u64,
    pub(crate) times: Vec<RawTimes>,
}

pub(crate) struct RawTimes {
    pub(crate) board: Option<Spanned<String>>,
    pub(crate) units: u16,
    pub(crate) times: BatchTimes,
}

pub(crate) struct RawSession {
    pub(crate) name: Spanned<String>,
    pub(crate) asked: Asked,
    pub(crate) model: Spanned<String>,
    pub(crate) exit: Option<Spanned<u64>>,
}

/// How often, and how soon.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) rate: Rate,
    pub(crate) deadline: Nanos,
}

pub(crate) struct RawQuery {
    pub(crate) name: Spanned<String>,
    pub(crate) asked: Asked,
    pub(crate) stages: Vec<RawQueryStage>,
}

pub(crate) struct RawQueryStage {
    pub(crate) name: Spanned<String>,
    pub(crate) model: Spanned<String>,
    pub(crate) exit: Option<Spanned<u64>>,
    pub(crate) after: Option<Spanned<Vec<String>>>,
    pub(crate) per_query: f64,
}

impl File {
    /// Reads all that can be read; problems are noted.
    pub(crate) fn read(problems: &mut Problems<'_>) -> Option<Self> {
        let document = Document::parse(problems)?;
        let mut root = document.root();
        let planner = root.table_or_empty("planner", problems);
        let mut planner = planner.with_renamed(&PLANNER_RENAMED);
        let budget_factor = planner.number("budget_factor", 1.25, 1.0..=10.0, "", problems);
        let segments = planner.whole("segments", 200, 1..=10_000, problems).value as u32;
        let prefix_batching = planner.or("prefix_batching", true, problems).value;
        planner.finish(problems);
        let file = Self {
            budget_factor,
            segments,
            prefix_batching,
            boards: root.list("board", 1..=BOARD_KINDS_MAX, problems, RawBoard::read),
            models: root.list("model", 1..=MODELS_MAX, problems, RawModel::read),
            sessions: root.list("session", 0..=SESSIONS_MAX, problems, RawSession::read),
            queries: root.list("query", 0..=QUERIES_MAX, problems, RawQuery::read),
        };
        let nothing_asked = !root.has("session") && !root.has("query");
        root.finish(problems);
        unique(
            "board",
            file.boards.iter().map(|board| &board.name),
            problems,
        );
        unique(
            "model",
            file.models.iter().map(|model| &model.name),
            problems,
        );
        unique("session", file.sessions.iter().map(|s| &s.name), problems);
        if nothing_asked {
            problems.add(&Place::of_key("session"), Invalid::NoneGiven("session"));
        }
        unique(
            "query",
            file.queries.iter().map(|query| &query.name),
            problems,
        );
        Some(file)
    }
}

impl RawBoard {
    fn read(mut section: Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let s = &mut section;
        let name = s.name(problems);
        let count = s.whole("count", 1, 1..=1_000, problems).value;
        let partitions = s.required::<Vec<u64>>("partitions", problems);
        let memory_mb = s.number("memory_mb", 1e9, 0.0..=1e9, " MB", problems);
        section.finish(problems);
        let partitions = partitions?;
        let count_of = Spanned {
            value: partitions.value.len() as u64,
            place: partitions.place.clone(),
        };
        let _ = count_of.within(1..=PARTITIONS_MAX, " partitions", problems);
        let units = |units: &u64| checked_units(*units, &partitions.place, problems);
        Some(Self {
            name: name?,
            count,
            partitions: partitions.value.iter().map(units).collect(),
            memory_bytes: (memory_mb * 1e6) as u64,
        })
    }
}

fn checked_units(units: u64, place: &Place, problems: &mut Problems<'_>) -> u16 {
    let at = Spanned {
        value: units,
        place: place.clone(),
    };
    at.within(1..=UNITS_MAX, " units", problems).value as u16
}

impl RawModel {
    fn read(mut section: Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let before = problems.count();
        let s = &mut section;
        let name = s.name(problems);
        let package = s.optional::<String>("package", problems);
        let profiles = s.or("profiles", Vec::new(), problems).value;
        let given = package.is_some();
        let inline = s.has("stage");
        let stages = s.list("stage", 0..=STAGES_MAX, problems, RawStage::read);
        let place = section.place().clone();
        section.finish(problems);
        if given == inline {
            let cause = Invalid::ExactlyOne {
                one: "package",
                other: "stage",
                both: given,
            };
            problems.add(&place, cause);
        }
        Some(Self {
            name: name?,
            package,
            profiles,
            stages,
            sound: problems.count() == before,
        })
    }
}

impl RawStage {
    fn read(mut section: Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let s = &mut section;
        let weights = s.optional::<String>("weights", problems).map(|at| at.value);
        let memory_mb = s.number("memory_mb", 0.0, 0.0..=1e6, " MB", problems);
        let times = s.list("times", 1..=BATCH_SIZES_MAX, problems, RawTimes::read);
        section.finish(problems);
        Some(Self {
            weights,
            memory_bytes: (memory_mb * 1e6) as u64,
            times,
        })
    }
}

impl RawTimes {
    fn read(mut section: Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let s = &mut section;
        let board = s.optional("board", problems);
        let units = s.or("units", 1, problems);
        let units = checked_units(units.value, &units.place, problems);
        let batches = s.required::<Vec<u64>>("batch", problems);
        let ms = s.required::<Vec<f64>>("ms", problems);
        section.finish(problems);
        let (batches, ms) = (batches?, ms?);
        let (sizes, times) = (batches.value.len(), ms.value.len());
        if sizes != times || sizes > BATCH_SIZES_MAX {
            let batches = sizes;
            let cause = FleetRule::NotOneTimeEach { batches, times };
            problems.add(&ms.place, cause);
            return None;
        }
        let size = |size: &u64| u32::try_from(*size).unwrap_or(u32::MAX);
        let time = |time: &f64| Nanos::new((time * 1e6) as u64);
        let points = batches
            .value
            .iter()
            .map(size)
            .zip(ms.value.iter().map(time));
        match BatchTimes::new(points.collect()) {
            Ok(times) => Some(Self {
                board,
                units,
                times,
            }),
            Err(error) => {
                problems.add(&ms.place, FleetRule::Times(error));
                None
            }
        }
    }
}

impl RawSession {
    fn read(mut section: Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let name = section.name(problems);
        let model = section.required("model", problems);
        let exit = section.optional("exit", problems);
        let asked = Asked::read(&mut section, problems);
        section.finish(problems);
        Some(Self {
            name: name?,
            asked: asked?,
            model: model?,
            exit,
        })
    }
}

impl Asked {
    fn read(section: &mut Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let rate = section.required::<f64>("rate_hz", problems);
        let rate = rate.map(|at| at.within(0.001..=1e6, " Hz", problems).value);
        section.missing("deadline_ms", "a number", problems);
        let to_nanos = |ms| ms * 1e6;
        let deadline = section.span("deadline_ms", 0.1..=60_000.0, " ms", to_nanos, problems);
        Some(Self {
            rate: Rate::from_hz(rate?),
            deadline: deadline?.value,
        })
    }
}

impl RawQuery {
    fn read(mut section: Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let s = &mut section;
        let name = s.name(problems);
        let asked = Asked::read(s, problems);
        let stages = s.list("stage", 1..=STAGES_MAX, problems, RawQueryStage::read);
        section.finish(problems);
        unique("stage", stages.iter().map(|stage| &stage.name), problems);
        Some(Self {
            name: name?,
            asked: asked?,
            stages,
        })
    }
}

impl RawQueryStage {
    fn read(mut section: Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let s = &mut section;
        let name = s.name(problems);
        let model = s.required("model", problems);
        let exit = s.optional("exit", problems);
        let after = s.optional("after", problems);
        let per_query = s.number("per_query", 1.0, 0.001..=1_000.0, "", problems);
        section.finish(problems);
        Some(Self {
            name: name?,
            model: model?,
            exit,
            after,
            per_query,
        })
    }
}
