//! `after`: a task whose frames are parts of another's, the crops that it finds. Together they are a pipeline.

use punctual_core::Answers;
use punctual_diagnostics::{Place, Problems, Rule, Section, Spanned};
use punctual_types::Fit;
use thiserror::Error;

use super::defaults::QUEUE_DEPTH;
use super::frame::FITS;
use super::{QUEUE_MAX, RawFrame, RawTask};

/// The most crops of a frame for one task.
const AT_MOST_MAX: u64 = 32;

/// A task after another, as written.
#[derive(Clone)]
pub(crate) struct RawAfter {
    /// The pipeline's first task.
    pub(crate) first: Spanned<String>,
    pub(crate) crops: RawCrops,
    /// Whether it says its `queue_depth`.
    says_queue: bool,
    /// Keys of what the first task says for all, and the parts cannot say.
    of_first: Vec<(&'static str, Place)>,
}

/// Which parts of a frame become crops.
#[derive(Clone)]
pub(crate) struct RawCrops {
    pub(crate) at_most: u8,
    /// The least score of a box.
    pub(crate) score: f64,
    /// By how much a crop is larger than its box, each side.
    pub(crate) grow: f64,
    /// Names of the first network's classes; none: all.
    pub(crate) classes: Option<Spanned<Vec<String>>>,
    /// None: as large as the frame.
    largest: Option<Spanned<Vec<u64>>>,
    fit: Fit,
    fill: Option<Spanned<u64>>,
}

/// What is wrong with how tasks follow each other.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AfterRule {
    /// A part of a part.
    #[error("task {first:?} is after another itself")]
    OfAPart { first: String },
    #[error("task {first:?} stands for the packages of a pattern")]
    OfAPattern { first: String },
    /// A task of many packages as a part.
    #[error("a task after another has a pattern of packages")]
    Pattern,
    /// What clients submit, and how fast, is the first task's to say.
    #[error("a task after another has `{0}`")]
    OfFirst(&'static str),
    /// The crops' largest size would be unknown.
    #[error("task {first:?} does not say the width and height of its frames")]
    NoFrame { first: String },
    #[error("`crops` without `after`")]
    NotAfter,
    /// Crops are made of an answer once, and each is answered once.
    #[error("task {first:?}, which others are after, has `answers`")]
    Answers { first: String },
}

impl Rule for AfterRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::OfAPart { .. } => "a pipeline is one task, and tasks after it",
            Self::OfAPattern { .. } | Self::Pattern => {
                "each task of a pipeline has a network of its own"
            }
            Self::OfFirst(_) => {
                "a pipeline's first task says who submits to it, what, how fast, and by when all is answered"
            }
            Self::NoFrame { .. } => "crops are parts of frames whose size is known",
            Self::NotAfter => "crops are made of what another task finds",
            Self::Answers { .. } => {
                "each part of a pipeline is answered once, as soon as no deeper stage may start"
            }
        }
    }

    fn help(&self) -> String {
        match self {
            Self::OfAPart { .. } => "name the first task of the pipeline".into(),
            Self::OfAPattern { .. } => "write a `[[task]]` for the package".into(),
            Self::Pattern => "name one package".into(),
            Self::OfFirst(key) => format!("remove `{key}`"),
            Self::NoFrame { first } => {
                format!("write frame = {{ width = ..., height = ... }} in {first:?}")
            }
            Self::NotAfter => "add after = \"...\", or remove `crops`".into(),
            Self::Answers { .. } => "remove `answers`".into(),
        }
    }
}

/// Keys that a task after another cannot have.
const OF_FIRST: [&str; 10] = [
    "rate_hz",
    "deadline_ms",
    "clients",
    "slots",
    "frame",
    "delivery",
    "prepare",
    "offload_to",
    "vector",
    "answers",
];

impl RawAfter {
    /// None if the task is after none.
    pub(super) fn of_task(task: &mut Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let first = task.optional("after", problems);
        if first.is_none() {
            if !task.has("after") && task.has("crops") {
                problems.add(&task.place_of("crops"), AfterRule::NotAfter);
            }
            // Read, so that it is not taken for a misspelt key.
            let _ = task
                .table("crops", problems)
                .map(|section| RawCrops::read(section, problems));
            return None;
        }
        let given = OF_FIRST.into_iter().filter(|key| task.has(key));
        let of_first = given.map(|key| (key, task.place_of(key))).collect();
        let says_queue = task.has("queue_depth");
        let crops = task.table_or_empty("crops", problems);
        Some(Self {
            says_queue,
            first: first?,
            crops: RawCrops::read(crops, problems)?,
            of_first,
        })
    }
}

impl RawCrops {
    fn read(mut section: Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let at_most = section.required_whole("at_most", 1..=AT_MOST_MAX, problems);
        let score = section.number("score", 0.5, 0.0..=1.0, "", problems);
        let grow = section.number("grow", 1.0, 0.1..=10.0, "", problems);
        let classes = section.optional("classes", problems);
        let largest = section.optional("largest", problems);
        let fit = section
            .optional_word("fit", &FITS, problems)
            .unwrap_or_default();
        let fill = section.optional::<u64>("letterbox_fill", problems);
        let fill = fill.map(|at| at.within(0..=255, "", problems));
        section.finish(problems);
        Some(Self {
            at_most: at_most as u8,
            score,
            grow,
            classes,
            largest,
            fit,
            fill,
        })
    }
}

/// Puts the tasks of each pipeline together, the first before its parts, which have its clients, rate, deadline and frames.
/// Parts of nothing are left out, and noted.
pub(super) fn join(tasks: Vec<RawTask>, problems: &mut Problems<'_>) -> Vec<RawTask> {
    let (parts, firsts): (Vec<_>, Vec<_>) = tasks.into_iter().partition(|it| it.after.is_some());
    let names: Vec<Spanned<String>> = parts.iter().map(|part| part.name.clone()).collect();
    let mut followers: Vec<Vec<RawTask>> = firsts.iter().map(|_| Vec::new()).collect();
    for part in parts {
        let Some(first) = first_of(&part, &firsts, &names, problems) else {
            continue;
        };
        followers[first].extend(part.after(&firsts[first], problems));
    }
    let pipelines = firsts.into_iter().zip(followers);
    let pipelines = pipelines.flat_map(|(mut first, parts)| {
        if !parts.is_empty() {
            first.begin_pipeline(problems);
        }
        std::iter::once(first).chain(parts)
    });
    pipelines.collect()
}

fn first_of(
    part: &RawTask,
    firsts: &[RawTask],
    parts: &[Spanned<String>],
    problems: &mut Problems<'_>,
) -> Option<usize> {
    let named = &part.after.as_ref()?.first;
    if parts.iter().any(|name| name.value == named.value) {
        let first = named.value.clone();
        problems.add(&named.place, AfterRule::OfAPart { first });
        return None;
    }
    let known = firsts.iter().map(|task| &task.name.value);
    let name = named.resolve("task", known, problems)?;
    firsts.iter().position(|task| task.name.value == *name)
}

impl RawTask {
    fn begin_pipeline(&mut self, problems: &mut Problems<'_>) {
        if let Some(place) = &self.answers_place {
            let first = self.name.value.clone();
            problems.add(place, AfterRule::Answers { first });
        }
        self.answers = Answers::Early;
    }

    /// As a part of what clients submit to `first`.
    fn after(self, first: &Self, problems: &mut Problems<'_>) -> Option<Self> {
        let after = self.after.as_ref()?;
        let before = problems.count();
        let name = || first.name.value.clone();
        if first.group.pattern.is_some() {
            problems.add(&after.first.place, AfterRule::OfAPattern { first: name() });
        }
        if self.group.pattern.is_some() {
            problems.add(&self.name.place, AfterRule::Pattern);
        }
        for (key, place) in &after.of_first {
            problems.add(place, AfterRule::OfFirst(key));
        }
        let frame = after.crops.frame(first);
        if frame.is_none() && first.frame.is_some() {
            problems.add(&after.first.place, AfterRule::NoFrame { first: name() });
        }
        if problems.count() > before {
            return None;
        }
        let queue_depth = self.queue_depth.clone();
        let queue_depth = if after.says_queue {
            queue_depth
        } else {
            let frames = frames_open(first);
            queue_depth.map(|_| (frames * u64::from(after.crops.at_most)).min(QUEUE_MAX))
        };
        Some(Self {
            group: first.group.clone(),
            period: first.period.clone(),
            deadline: first.deadline.clone(),
            clients: first.clients.clone(),
            slots: first.slots,
            entry: first.entry.clone(),
            reserved: if first.is_reserved() {
                self.reserved.clone()
            } else {
                first.reserved.clone()
            },
            // Of those of the first task it is said there.
            unpromised: Vec::new(),
            answers: Answers::Early,
            queue_depth,
            frame,
            ..self
        })
    }
}

/// Frames of which parts can be open at once, at most, as a part may come as late as all of a frame is due; and one beyond the rate.
fn frames_open(first: &RawTask) -> u64 {
    let (Some(period), Some(deadline)) = (&first.period, &first.deadline) else {
        return QUEUE_DEPTH;
    };
    let open = 2 * deadline.value.as_nanos();
    open.div_ceil(period.value.as_nanos().max(1)) + 2
}

impl RawCrops {
    /// Frames of the first task, of which any crop up to the largest is seen.
    fn frame(&self, first: &RawTask) -> Option<RawFrame> {
        let RawFrame::Picture(picture) = first.frame.as_ref()? else {
            return None;
        };
        let mut picture = picture.clone();
        picture.crop = self.largest.clone();
        picture.fit = self.fit;
        picture.fill = self.fill.clone();
        Some(RawFrame::Picture(picture))
    }
}
