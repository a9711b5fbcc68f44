//! Where the outputs of a network's exits lie in an area of shared memory.
//!
//! An area serves one request. Exits that follow each other write to different parts of it, so that the answer of one
//! stays whole while a deeper stage runs, whether or not that one is ever used. Where clients get the answer of each exit,
//! all have parts of their own: a client may still read one that two deeper ones have replaced.

use core::ops::Range;

use punctual_types::{AREA_HEAD_BYTES, OUTPUT_ALIGNMENT};

use serde::Serialize;

use crate::{AnswerKind, Exit, Network};

/// The places of the outputs that a task wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OutputLayout {
    /// By stage.
    pub stages: Vec<PlacedExit>,
    /// Bytes of an area, a multiple of [`OUTPUT_ALIGNMENT`]. 0: nothing is wanted.
    pub area_bytes: u64,
}

/// Where the outputs of a stage's exit lie.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PlacedExit {
    /// Which part of the area it writes.
    pub part: u8,
    /// Empty where a stage ends in no exit, or nothing of it is wanted.
    pub outputs: Vec<PlacedOutput>,
}

impl PlacedExit {
    /// Where in the area the number of values of its part that are not finite stands, a u32.
    #[must_use]
    pub const fn not_finite(&self) -> usize {
        4 * self.part as usize
    }

    /// Where its outputs lie, in bytes from the start of the area.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        let starts = self.outputs.iter().map(|output| output.offset);
        let ends = self.outputs.iter();
        let ends = ends.map(|output| output.offset.saturating_add(output.bytes));
        starts.min().unwrap_or(0)..ends.max().unwrap_or(0)
    }

    /// Bytes from the start of its outputs to those of another request, where a device puts one behind the other.
    #[must_use]
    pub fn pitch(&self) -> u64 {
        let range = self.range();
        aligned(range.end - range.start)
    }
}

/// One output of an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PlacedOutput {
    /// Its position in [`Exit::outputs`](crate::Exit::outputs).
    pub output: usize,
    /// Bytes from the start of the area.
    pub offset: u64,
    pub bytes: u64,
}

impl OutputLayout {
    /// Nothing is wanted.
    pub const NONE: Self = Self {
        stages: Vec::new(),
        area_bytes: 0,
    };

    /// The layout for outputs that `wanted` picks by their names, where clients get one answer: exits take turns in two
    /// parts.
    #[must_use]
    pub fn of(network: &Network, wanted: impl Fn(&str) -> bool) -> Self {
        Self::in_parts(2, network, wanted)
    }

    /// The layout where clients get the answer of each exit: each has a part of its own.
    #[must_use]
    pub fn of_each_exit(network: &Network, wanted: impl Fn(&str) -> bool) -> Self {
        Self::in_parts(network.stages.len().max(1), network, wanted)
    }

    fn in_parts(parts: usize, network: &Network, wanted: impl Fn(&str) -> bool) -> Self {
        let mut stages = Vec::with_capacity(network.stages.len());
        let mut sizes = vec![0_u64; parts];
        let mut exits = 0;
        for stage in &network.stages {
            let part = exits % parts;
            let outputs = stage.exit.as_ref().map(|exit| in_order(exit, &wanted));
            exits += usize::from(outputs.is_some());
            let outputs = outputs.unwrap_or_default();
            let end = outputs.last().map_or(0, PlacedOutput::end);
            sizes[part] = sizes[part].max(end);
            let part = part as u8;
            stages.push(PlacedExit { part, outputs });
        }
        if sizes.iter().all(|size| *size == 0) {
            return Self::NONE;
        }
        let mut end = u64::from(AREA_HEAD_BYTES);
        let mut starts = Vec::with_capacity(parts);
        for size in sizes {
            starts.push(end);
            end = end.saturating_add(size);
        }
        for placed in &mut stages {
            let start = starts[usize::from(placed.part)];
            let outputs = placed.outputs.iter_mut();
            outputs.for_each(|output| output.offset = output.offset.saturating_add(start));
        }
        Self {
            stages,
            area_bytes: end,
        }
    }

    /// Where a stage's outputs go; none if nothing of it is wanted.
    #[must_use]
    pub fn stage(&self, stage: usize) -> Option<&PlacedExit> {
        let placed = self.stages.get(stage)?;
        (!placed.outputs.is_empty()).then_some(placed)
    }

    /// Whether nothing is wanted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.area_bytes == 0
    }
}

/// The outputs of an exit that are wanted, one behind the other.
fn in_order(exit: &Exit, wanted: impl Fn(&str) -> bool) -> Vec<PlacedOutput> {
    let mut placed: Vec<PlacedOutput> = Vec::new();
    for (output, declared) in exit.outputs.iter().enumerate() {
        if wanted(&declared.name) {
            placed.push(PlacedOutput {
                output,
                offset: placed.last().map_or(0, PlacedOutput::end),
                bytes: declared.bytes(),
            });
        }
    }
    placed
}

impl PlacedOutput {
    /// Where the next output may begin.
    fn end(&self) -> u64 {
        aligned(self.offset.saturating_add(self.bytes))
    }
}

fn aligned(bytes: u64) -> u64 {
    bytes
        .div_ceil(OUTPUT_ALIGNMENT.into())
        .saturating_mul(OUTPUT_ALIGNMENT.into())
}

impl Network {
    /// The names of its outputs, which are the same at each exit.
    pub fn output_names(&self) -> impl Iterator<Item = &str> {
        let exit = self.stages.iter().find_map(|stage| stage.exit.as_ref());
        let outputs = exit.into_iter().flat_map(|exit| &exit.outputs);
        outputs.map(|output| output.name.as_str())
    }

    /// Whether a task that names no outputs gets all: those of labels, detections and everything else are the answer.
    /// One class is an answer by itself.
    #[must_use]
    pub fn gives_outputs_by_default(&self) -> bool {
        self.answer != AnswerKind::Classes
    }

    /// Whether some exit says how sure it is.
    #[must_use]
    pub fn has_confidence(&self) -> bool {
        let mut exits = self.stages.iter().filter_map(|stage| stage.exit.as_ref());
        exits.any(Exit::has_confidence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Exit, InputSpec, Quantised, Stage, TensorId};

    /// Stages that end in exits of vectors of these numbers of scores, or in none.
    fn network(exits: &[Option<u32>]) -> Network {
        let stage = |exit: &Option<u32>| Stage {
            inputs: vec![],
            outputs: vec![],
            operators: vec![],
            exit: exit.map(|scores| Exit::of_scores(TensorId(1), scores)),
        };
        Network {
            name: "n".to_owned(),
            input: InputSpec::rgb(1, 1, [0.0; 3], [1.0; 3]),
            vectors: vec![],
            answer: AnswerKind::None,
            classes: vec![],
            tensors: vec![],
            stages: exits.iter().map(stage).collect(),
            weights: Vec::new().into(),
            quantised: Quantised::default(),
        }
    }

    #[test]
    fn exits_take_turns_in_two_parts() {
        let network = network(&[Some(20), None, Some(3), Some(40)]);
        let layout = OutputLayout::of(&network, |_| true);
        let offset = |stage: usize| layout.stage(stage).map(|exit| exit.outputs[0].offset);
        // 40 floats are 160 bytes: the first part has 192.
        assert_eq!(
            [0, 1, 2, 3].map(offset),
            [Some(64), None, Some(256), Some(64)]
        );
        assert_eq!(layout.area_bytes, 64 + 192 + 64);
        let parts: Vec<u8> = layout.stages.iter().map(|exit| exit.part).collect();
        assert_eq!(parts, [0, 1, 1, 0]);
    }

    #[test]
    fn where_each_answer_is_delivered_each_exit_has_a_part_of_its_own() {
        let network = network(&[Some(20), None, Some(3), Some(40)]);
        let layout = OutputLayout::of_each_exit(&network, |_| true);
        let offset = |stage: usize| layout.stage(stage).map(|exit| exit.outputs[0].offset);
        assert_eq!(
            [0, 1, 2, 3].map(offset),
            [Some(64), None, Some(64 + 128), Some(64 + 128 + 64)]
        );
        assert_eq!(layout.area_bytes, 64 + 128 + 64 + 192);
    }

    #[test]
    fn what_nobody_wants_takes_no_memory() {
        let layout = OutputLayout::of(&network(&[Some(3)]), |_| false);
        assert_eq!(layout, OutputLayout::NONE);
        assert!(layout.is_empty() && layout.stage(0).is_none());
    }
}
