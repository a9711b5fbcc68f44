//! The fleet file as it was written: types and ranges checked, names looked up.

use punctual_core::Nanos;

use crate::packing::{BatchTimes, Rate};
use punctual_plan::Cause;
use punctual_plan::toml_file::collect;
use punctual_plan::toml_file::{At, Place, Problems};
use punctual_plan::toml_file::{Section, parse, within, within_whole};
use punctual_plan::toml_file::{name, number, span, unique, whole};

use crate::cause::FleetCause;

const BOARD_KINDS_MAX: usize = 16;
const MODELS_MAX: usize = 256;
const STAGES_MAX: usize = 16;
const SESSIONS_MAX: usize = 1_024;
const QUERIES_MAX: usize = 256;
const PARTITIONS_MAX: u64 = 16;
const BATCH_SIZES_MAX: usize = 32;
const UNITS_MAX: u64 = 1_024;

pub(crate) struct File {
    pub(crate) margin: f64,
    pub(crate) segments: u32,
    pub(crate) prefix_batching: bool,
    pub(crate) boards: Vec<RawBoard>,
    pub(crate) models: Vec<RawModel>,
    pub(crate) sessions: Vec<RawSession>,
    pub(crate) queries: Vec<RawQuery>,
}

pub(crate) struct RawBoard {
    pub(crate) name: At<String>,
    pub(crate) count: u64,
    pub(crate) partitions: Vec<u16>,
    pub(crate) memory_bytes: u64,
}

pub(crate) struct RawModel {
    pub(crate) name: At<String>,
    pub(crate) package: Option<At<String>>,
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
    pub(crate) board: Option<At<String>>,
    pub(crate) units: u16,
    pub(crate) times: BatchTimes,
}

pub(crate) struct RawSession {
    pub(crate) name: At<String>,
    pub(crate) asked: Asked,
    pub(crate) model: At<String>,
    pub(crate) exit: Option<At<u64>>,
}

/// How often, and how soon.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) rate: Rate,
    pub(crate) deadline: Nanos,
}

pub(crate) struct RawQuery {
    pub(crate) name: At<String>,
    pub(crate) asked: Asked,
    pub(crate) stages: Vec<RawQueryStage>,
}

pub(crate) struct RawQueryStage {
    pub(crate) name: At<String>,
    pub(crate) model: At<String>,
    pub(crate) exit: Option<At<u64>>,
    pub(crate) after: Option<At<Vec<String>>>,
    pub(crate) per_query: f64,
}

impl File {
    /// Reads all that can be read; problems are noted.
    pub(crate) fn read(text: &str, problems: &mut Problems<'_>) -> Self {
        let document = parse(text, problems);
        let mut root = Section::root(&document);
        let empty = toml::Spanned::new(0..0, toml::de::DeTable::new());
        let planner = root.table("planner", problems);
        let mut planner = planner.unwrap_or_else(|| Section::named(&empty, "planner"));
        let margin = number(&mut planner, "margin", 1.25, 1.0..=10.0, "", problems);
        let segments = whole(&mut planner, "segments", 200, 1..=10_000, problems).value as u32;
        let prefix_batching = planner.or("prefix_batching", true, problems).value;
        planner.finish(problems);
        let file = Self {
            margin,
            segments,
            prefix_batching,
            boards: tables(
                &mut root,
                "board",
                BOARD_KINDS_MAX,
                true,
                problems,
                RawBoard::read,
            ),
            models: tables(
                &mut root,
                "model",
                MODELS_MAX,
                true,
                problems,
                RawModel::read,
            ),
            sessions: tables(
                &mut root,
                "session",
                SESSIONS_MAX,
                false,
                problems,
                RawSession::read,
            ),
            queries: tables(
                &mut root,
                "query",
                QUERIES_MAX,
                false,
                problems,
                RawQuery::read,
            ),
        };
        let nothing_asked = root.without(["session", "query"]).len() == 2;
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
            let place = Place {
                key: "session".to_owned(),
                span: None,
            };
            problems.add(&place, Cause::NoneGiven("session"));
        }
        unique(
            "query",
            file.queries.iter().map(|query| &query.name),
            problems,
        );
        file
    }
}

/// The tables of `[[key]]`, of which there are at most `limit` and, if `needed`, at least one.
fn tables<'d, 't, T>(
    section: &mut Section<'d, 't>,
    key: &'static str,
    limit: usize,
    needed: bool,
    problems: &mut Problems<'_>,
    read: impl Fn(Section<'d, 't>, &mut Problems<'_>) -> Option<T>,
) -> Vec<T> {
    let place = Place {
        key: key.to_owned(),
        span: section.place().span.clone(),
    };
    let found = section.tables(key, problems);
    if found.is_empty() && needed {
        problems.add(&place, Cause::NoneGiven(key));
    }
    if found.len() > limit {
        let (count, limit) = (found.len() as u64, limit as u64);
        let what = key;
        problems.add(&place, Cause::TooMany { what, count, limit });
    }
    collect(found, limit, problems, read)
}

impl RawBoard {
    fn read(mut section: Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let s = &mut section;
        let name = name(s, problems);
        let count = whole(s, "count", 1, 1..=1_000, problems).value;
        let partitions = s.required::<Vec<u64>>("partitions", problems);
        let memory_mb = number(s, "memory_mb", 1e9, 0.0..=1e9, " MB", problems);
        section.finish(problems);
        let partitions = partitions?;
        let count_of = At {
            value: partitions.value.len() as u64,
            place: partitions.place.clone(),
        };
        within_whole(&count_of, 1..=PARTITIONS_MAX, " partitions", problems);
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
    let at = At {
        value: units,
        place: place.clone(),
    };
    within_whole(&at, 1..=UNITS_MAX, " units", problems) as u16
}

impl RawModel {
    fn read(mut section: Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let before = problems.count();
        let s = &mut section;
        let name = name(s, problems);
        let package = s.optional::<String>("package", problems);
        let profiles = s.or("profiles", Vec::new(), problems).value;
        let given = package.is_some();
        let inline = s.without(["stage"]).is_empty();
        let stages = tables(s, "stage", STAGES_MAX, false, problems, RawStage::read);
        let place = section.place().clone();
        section.finish(problems);
        if given == inline {
            let cause = Cause::ExactlyOne {
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
        let memory_mb = number(s, "memory_mb", 0.0, 0.0..=1e6, " MB", problems);
        let times = tables(s, "times", BATCH_SIZES_MAX, true, problems, RawTimes::read);
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
            let cause = FleetCause::NotOneTimeEach { batches, times };
            problems.add(&ms.place, cause.into());
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
                problems.add(&ms.place, FleetCause::Times(error).into());
                None
            }
        }
    }
}

impl RawSession {
    fn read(mut section: Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let name = name(&mut section, problems);
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
        let rate = rate.map(|at| within(&at, 0.001..=1e6, " Hz", problems));
        section.missing("deadline_ms", "a number", problems);
        let to_nanos = |ms| ms * 1e6;
        let deadline = span(
            section,
            "deadline_ms",
            0.1..=60_000.0,
            " ms",
            to_nanos,
            problems,
        );
        Some(Self {
            rate: Rate::from_hz(rate?),
            deadline: deadline?.value,
        })
    }
}

impl RawQuery {
    fn read(mut section: Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let s = &mut section;
        let name = name(s, problems);
        let asked = Asked::read(s, problems);
        let stages = tables(s, "stage", STAGES_MAX, true, problems, RawQueryStage::read);
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
        let name = name(s, problems);
        let model = s.required("model", problems);
        let exit = s.optional("exit", problems);
        let after = s.optional("after", problems);
        let per_query = number(s, "per_query", 1.0, 0.001..=1_000.0, "", problems);
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
