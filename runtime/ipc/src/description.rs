//! What a stream's answers consist of, and what its submissions carry in addition to a frame: told once, in the head of the
//! outputs file, which is larger than a message can be.

use std::sync::Arc;

use punctual_types::{AREA_HEAD_BYTES, AnswerKind, Element, OUTPUT_ALIGNMENT, VECTORS_MAX};
use serde::{Deserialize, Serialize};

use crate::handshake::StreamTerms;

/// The number with which a description of one task begins.
const FORM: u8 = 1;
/// The same, where the tasks of the stream follow.
const FORM_OF_TASKS: u8 = 2;
/// Exits are named by a byte.
const EXITS_MAX: usize = 256;
/// Tasks are named by 16 bits, and 0 is the one that the client asked for.
const TASKS_MAX: usize = u16::MAX as usize;
/// Classes are named by 16 bits.
const CLASSES_MAX: usize = 1 << 16;
/// Most dimensions of an output.
const RANK_MAX: usize = 8;
/// The longest side of a network's input.
const INPUT_SIDE_MAX: u32 = 1 << 24;

/// What a stream's answers consist of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Description {
    pub answer: AnswerKind,
    /// The names of classes or labels; of other answers perhaps none.
    pub classes: Vec<String>,
    /// By exit.
    pub exits: Vec<ExitDescription>,
    /// What comes with each frame.
    pub vectors: Vec<VectorDescription>,
    /// What becomes of a crop; none if the daemon does not say.
    pub input: Option<InputDescription>,
    /// The tasks that the stream's submissions may be for; none: only the one that the client asked for.
    #[serde(skip)]
    pub tasks: Option<Arc<StreamTasks>>,
}

/// The tasks of one stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamTasks {
    /// By the number that submissions have, the first being 1.
    pub tasks: Vec<StreamTask>,
    /// How many of them, the last ones, look at parts of a frame that the daemon finds: nothing is submitted to them.
    pub parts: u16,
    /// What the answers of any of them consist of, each once.
    pub descriptions: Vec<Description>,
}

/// A task of a stream of several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamTask {
    /// As in the plan.
    pub name: String,
    /// Which of the descriptions is its.
    pub description: u16,
}

impl StreamTasks {
    /// Adds a task.
    ///
    /// # Panics
    /// If there are more than 65,535.
    pub fn add(&mut self, name: String, description: Description) {
        let known = self.descriptions.iter().position(|it| *it == description);
        let at = known.unwrap_or_else(|| {
            self.descriptions.push(description);
            self.descriptions.len() - 1
        });
        let description = u16::try_from(at).expect("a plan has fewer tasks");
        self.tasks.push(StreamTask { name, description });
    }

    /// The number of the task of that name.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u16> {
        let at = self.tasks.iter().position(|task| task.name == name)?;
        u16::try_from(at + 1).ok()
    }

    /// The number of the last task that submissions can be for.
    fn last_submitted_to(&self) -> u16 {
        let tasks = u16::try_from(self.tasks.len()).unwrap_or(u16::MAX);
        tasks.saturating_sub(self.parts)
    }
}

/// The network's input, and how a crop is fitted into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputDescription {
    pub width: u32,
    pub height: u32,
    /// Whether the crop keeps its aspect ratio, with borders; otherwise it is stretched.
    pub letterbox: bool,
}

/// What an exit gives to this stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExitDescription {
    /// In the order of the network's.
    pub outputs: Vec<OutputDescription>,
}

/// A tensor in an area.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputDescription {
    /// The network's name for it.
    pub name: String,
    pub element: Element,
    /// Rows first, without gaps. Empty for a single value.
    pub shape: Vec<u32>,
    /// The first byte, from the area's first: a multiple of 64.
    pub offset: u32,
    pub bytes: u32,
}

/// Numbers that come with each frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VectorDescription {
    /// The network's name for it.
    pub name: String,
    /// How many numbers.
    pub length: u32,
    /// The least that the daemon takes for a number.
    pub low: f32,
    /// The most.
    pub high: f32,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// Not postcard, not UTF-8, or not all of it.
    #[error("the description is malformed")]
    Malformed,
    /// Of another release.
    #[error(
        "the description is of form {found}, this side reads {FORM} and {FORM_OF_TASKS}: install the same release"
    )]
    Form {
        /// What it begins with.
        found: u8,
    },
    /// More than can be named.
    #[error("the description has {count} {what}, the limit is {limit}")]
    TooMany {
        what: &'static str,
        count: usize,
        limit: usize,
    },
    /// An output that is not inside of its area, or not what its shape says.
    #[error("output {name:?} of {bytes} bytes at {offset} cannot be in an area of {area}")]
    Output {
        name: String,
        /// Its first byte.
        offset: u32,
        bytes: u32,
        /// The area's length.
        area: u32,
    },
    /// A task whose description is not there.
    #[error("task {name:?} has description {description} of {count}")]
    Task {
        name: String,
        description: u16,
        count: usize,
    },
    /// An input that no network has.
    #[error("the input is {width}x{height}; each side must be 1 to {INPUT_SIDE_MAX}")]
    Input { width: u32, height: u32 },
    /// Vectors that take other memory than the terms say, or a range that is none.
    #[error("the vectors have {found} numbers, the terms say {said}, or a range is none")]
    Vectors {
        /// In the description.
        found: u64,
        /// In the terms.
        said: u16,
    },
}

impl Description {
    /// As it goes into the outputs file: no bytes if there is nothing to say.
    ///
    /// # Panics
    /// Never: all of it is plain data.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        if *self == Self::default() {
            return Vec::new();
        }
        let encoded = match &self.tasks {
            None => postcard::to_allocvec(&(FORM, self)),
            Some(tasks) => postcard::to_allocvec(&(FORM_OF_TASKS, self, &**tasks)),
        };
        encoded.expect("plain data")
    }

    /// From a private copy of what stands in the file, checked against the terms.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn decode(bytes: &[u8], terms: &StreamTerms) -> Result<Self, DescriptionError> {
        let description = match bytes {
            [] => Self::default(),
            [FORM, rest @ ..] => match postcard::take_from_bytes::<Self>(rest) {
                Ok((description, [])) => description,
                _ => return Err(DescriptionError::Malformed),
            },
            [FORM_OF_TASKS, rest @ ..] => match postcard::take_from_bytes(rest) {
                Ok(((description, tasks), [])) => Self {
                    tasks: Some(Arc::new(tasks)),
                    ..description
                },
                _ => return Err(DescriptionError::Malformed),
            },
            [found, ..] => return Err(DescriptionError::Form { found: *found }),
        };
        description.check(terms)?;
        Ok(description)
    }

    /// What answers to submissions for the task of this number consist of; 0: the task that the client asked for.
    #[must_use]
    pub fn of_task(&self, task: u16) -> &Self {
        let described = self.tasks.as_ref().and_then(|of| {
            let task = of.tasks.get(usize::from(task).checked_sub(1)?)?;
            of.descriptions.get(usize::from(task.description))
        });
        described.unwrap_or(self)
    }

    /// For a client that does not know of streams of several tasks.
    pub(crate) fn of_one_task(&self) -> Self {
        Self {
            tasks: None,
            ..self.clone()
        }
    }

    /// How many tasks submissions may name by number.
    #[must_use]
    pub fn task_count(&self) -> u16 {
        let tasks = self.tasks.as_ref();
        tasks.map_or(0, |of| of.last_submitted_to())
    }

    /// The name of the task of this number.
    #[must_use]
    pub fn task_name(&self, task: u16) -> Option<&str> {
        let at = usize::from(task).checked_sub(1)?;
        Some(&self.tasks.as_ref()?.tasks.get(at)?.name)
    }

    /// How many numbers come with each frame.
    #[must_use]
    pub fn vector_floats(&self) -> u64 {
        let lengths = self.vectors.iter().map(|vector| u64::from(vector.length));
        lengths.sum()
    }

    /// Where the numbers of vector `at` are among those of all.
    #[must_use]
    pub fn vector_place(&self, at: usize) -> Option<std::ops::Range<usize>> {
        let length = self.vectors.get(at)?.length as usize;
        let before = self.vectors[..at].iter();
        let start: usize = before.map(|vector| vector.length as usize).sum();
        Some(start..start + length)
    }

    /// What an exit gives; none of an exit that gives nothing.
    #[must_use]
    pub fn outputs(&self, exit: u8) -> &[OutputDescription] {
        let exit = self.exits.get(usize::from(exit));
        exit.map_or(&[], |exit| &exit.outputs)
    }

    /// Whether it goes together with these terms.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check(&self, terms: &StreamTerms) -> Result<(), DescriptionError> {
        for (what, count, limit) in [
            ("classes", self.classes.len(), CLASSES_MAX),
            ("exits", self.exits.len(), EXITS_MAX),
            ("vectors", self.vectors.len(), VECTORS_MAX),
        ] {
            if count > limit {
                return Err(DescriptionError::TooMany { what, count, limit });
            }
        }
        let area = terms.outputs.area_bytes;
        let outputs = self.exits.iter().flat_map(|exit| &exit.outputs);
        for output in outputs {
            if !output.fits(area) {
                return Err(DescriptionError::Output {
                    name: output.name.clone(),
                    offset: output.offset,
                    bytes: output.bytes,
                    area,
                });
            }
        }
        if let Some(InputDescription { width, height, .. }) = self.input {
            let sides = 1..=INPUT_SIDE_MAX;
            if !sides.contains(&width) || !sides.contains(&height) {
                return Err(DescriptionError::Input { width, height });
            }
        }
        let found = self.vector_floats();
        let is_range = |vector: &VectorDescription| {
            let finite = vector.low.is_finite() && vector.high.is_finite();
            finite && vector.low <= vector.high
        };
        if found != u64::from(terms.vectors) || !self.vectors.iter().all(is_range) {
            let said = terms.vectors;
            return Err(DescriptionError::Vectors { found, said });
        }
        self.tasks.as_ref().map_or(Ok(()), |of| of.check(terms))
    }
}

impl StreamTasks {
    fn check(&self, terms: &StreamTerms) -> Result<(), DescriptionError> {
        let (what, count, limit) = ("tasks", self.tasks.len(), TASKS_MAX);
        if count > limit {
            return Err(DescriptionError::TooMany { what, count, limit });
        }
        let count = self.descriptions.len();
        for StreamTask { name, description } in &self.tasks {
            if usize::from(*description) >= count {
                let (name, description) = (name.clone(), *description);
                return Err(DescriptionError::Task {
                    name,
                    description,
                    count,
                });
            }
        }
        self.descriptions.iter().try_for_each(|it| it.check(terms))
    }
}

impl OutputDescription {
    /// Whether it lies behind the head of an area of `area` bytes, and is as long as its shape says.
    fn fits(&self, area: u32) -> bool {
        let mut dimensions = self.shape.iter().map(|&side| u64::from(side));
        let elements = dimensions.try_fold(1_u64, u64::checked_mul);
        let bytes = elements.and_then(|elements| elements.checked_mul(self.element.bytes()));
        let end = u64::from(self.offset) + u64::from(self.bytes);
        self.shape.len() <= RANK_MAX
            && bytes == Some(u64::from(self.bytes))
            && self.offset >= AREA_HEAD_BYTES
            && self.offset.is_multiple_of(OUTPUT_ALIGNMENT)
            && end <= u64::from(area)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::handshake::OutputTerms;
    use crate::internals::small_terms;

    fn output(offset: u32, shape: &[u32], element: Element) -> OutputDescription {
        let elements: u32 = shape.iter().product();
        OutputDescription {
            name: "boxes".to_owned(),
            element,
            shape: shape.to_vec(),
            offset,
            bytes: elements * element.bytes() as u32,
        }
    }

    fn of(outputs: Vec<OutputDescription>) -> Description {
        Description {
            answer: AnswerKind::Detections,
            classes: vec!["car".to_owned()],
            exits: vec![ExitDescription { outputs }],
            vectors: vec![VectorDescription {
                name: "speed".to_owned(),
                length: 2,
                low: -1.0,
                high: 30.0,
            }],
            input: Some(InputDescription {
                width: 640,
                height: 480,
                letterbox: true,
            }),
            tasks: None,
        }
    }

    #[test]
    fn the_tasks_of_a_stream_are_described_each_kind_once() {
        let mut tasks = StreamTasks::default();
        tasks.add("cars".to_owned(), of(vec![]));
        let signs = Description {
            classes: vec!["stop".to_owned()],
            ..of(vec![])
        };
        tasks.add("signs".to_owned(), signs.clone());
        tasks.add("lorries".to_owned(), of(vec![]));
        assert_eq!(tasks.descriptions.len(), 2);
        let mut asked = Description {
            tasks: Some(Arc::new(tasks)),
            ..of(vec![])
        };
        let decoded = Description::decode(&asked.encode(), &terms()).expect("in order");
        assert_eq!(decoded, asked);
        let number = |name| decoded.tasks.as_ref().and_then(|of| of.number(name));
        assert_eq!((number("signs"), number("planes")), (Some(2), None));
        assert_eq!(decoded.of_task(2), &signs);
        // The one that was asked for, as a number that is none.
        assert_eq!(decoded.of_task(0).classes, ["car"]);
        assert_eq!((decoded.of_task(4), decoded.task_count()), (&decoded, 3));
        let mut missing = (*asked.tasks.take().expect("there")).clone();
        missing.tasks[1].description = 2;
        asked.tasks = Some(Arc::new(missing));
        let refused = Description::decode(&asked.encode(), &terms());
        assert!(matches!(refused, Err(DescriptionError::Task { .. })));
    }

    fn terms() -> StreamTerms {
        StreamTerms {
            outputs: OutputTerms {
                areas: 4,
                area_bytes: 256,
                description_bytes: 100,
            },
            vectors: 2,
            ..small_terms()
        }
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        let description = of(vec![
            output(64, &[2, 3], Element::F32),
            output(128, &[], Element::I32),
        ]);
        let decoded = Description::decode(&description.encode(), &terms());
        assert_eq!(decoded, Ok(description.clone()));
        assert_eq!(description.vector_place(0), Some(0..2));
        assert_eq!(description.vector_place(1), None);
    }

    #[test]
    fn outputs_outside_of_their_area_or_of_other_lengths_are_refused() {
        let fine = || output(64, &[4, 4], Element::F32);
        let bad = [
            OutputDescription {
                offset: 0,
                ..fine()
            },
            OutputDescription {
                offset: 65,
                ..fine()
            },
            OutputDescription {
                offset: 256,
                ..fine()
            },
            OutputDescription {
                offset: u32::MAX - 63,
                ..fine()
            },
            OutputDescription {
                bytes: 60,
                ..fine()
            },
            OutputDescription {
                bytes: u32::MAX,
                ..fine()
            },
            OutputDescription {
                shape: vec![u32::MAX; 3],
                ..fine()
            },
            OutputDescription {
                shape: vec![1; 9],
                ..fine()
            },
        ];
        assert_eq!(of(vec![fine()]).check(&terms()), Ok(()));
        for bad in bad {
            let refused = Description::decode(&of(vec![bad.clone()]).encode(), &terms());
            let named = matches!(refused, Err(DescriptionError::Output { .. }));
            assert!(named, "{bad:?}: {refused:?}");
        }
    }

    #[test]
    fn vectors_must_be_what_the_terms_say_and_have_ranges() {
        let mut description = of(vec![]);
        description.vectors[0].high = f32::NAN;
        let refused = description.check(&terms());
        assert!(matches!(refused, Err(DescriptionError::Vectors { .. })));
        description.vectors[0].high = -2.0;
        assert!(description.check(&terms()).is_err());
        let mut long = of(vec![]);
        long.vectors[0].length = u32::MAX;
        assert!(long.check(&terms()).is_err());
    }

    #[test]
    fn an_input_has_sides() {
        for (width, height, possible) in [(1, 1 << 24, true), (0, 1, false), (1, u32::MAX, false)] {
            let description = Description {
                input: Some(InputDescription {
                    width,
                    height,
                    letterbox: false,
                }),
                ..of(vec![])
            };
            let read = Description::decode(&description.encode(), &terms());
            let refused = Err(DescriptionError::Input { width, height });
            assert_eq!(read, if possible { Ok(description) } else { refused });
        }
    }

    #[test]
    fn text_that_is_none_huge_counts_and_other_forms_are_refused() {
        let good = of(vec![output(64, &[2], Element::F32)]).encode();
        let at = good
            .windows(3)
            .position(|w| w == b"car")
            .expect("the class");
        let mut bad = good.clone();
        bad[at] = 0xFF;
        let malformed = Err(DescriptionError::Malformed);
        assert_eq!(Description::decode(&bad, &terms()), malformed);
        // Four thousand million classes, and none of them there.
        let huge = [FORM, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F];
        assert_eq!(Description::decode(&huge, &terms()), malformed);
        let mut other = good.clone();
        other[0] = 9;
        let form = Err(DescriptionError::Form { found: 9 });
        assert_eq!(Description::decode(&other, &terms()), form);
        let mut longer = good;
        longer.push(0);
        assert_eq!(Description::decode(&longer, &terms()), malformed);
        // The description lacks vectors that the terms have.
        assert!(Description::decode(&[], &terms()).is_err());
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_lies_inside(
            at in 0_usize..80, noise in 1_u8.., cut in 0_usize..100,
        ) {
            let mut bytes = of(vec![output(64, &[2, 3], Element::F32)]).encode();
            let length = bytes.len();
            bytes[at % length] ^= noise;
            bytes.truncate(length - cut.min(length) / 90);
            if let Ok(read) = Description::decode(&bytes, &terms()) {
                for output in read.outputs(0) {
                    prop_assert!(output.offset >= 64 && output.offset + output.bytes <= 256);
                }
            }
        }
    }
}
