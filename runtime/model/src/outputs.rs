//! Where the outputs of a network's exits lie in an area of shared memory.
//!
//! An area serves one request. Exits that follow each other write to different halves of it, so that the answer of one
//! stays whole while a deeper stage runs, whether or not that one is ever used.

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
    /// Which half of the area it writes: exits take turns.
    pub half: u8,
    /// Empty where a stage ends in no exit, or nothing of it is wanted.
    pub outputs: Vec<PlacedOutput>,
}

impl PlacedExit {
    /// Where in the area the number of values of its half that are not finite stands, a u32.
    #[must_use]
    pub const fn not_finite(&self) -> usize {
        4 * self.half as usize
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

    /// The layout for outputs that `wanted` picks by their names.
    #[must_use]
    pub fn of(network: &Network, wanted: impl Fn(&str) -> bool) -> Self {
        let mut stages = Vec::with_capacity(network.stages.len());
        let mut ends = [0_u64; 2];
        let mut half = 1;
        for stage in &network.stages {
            let mut end = 0_u64;
            let mut outputs = Vec::new();
            if let Some(exit) = &stage.exit {
                half = 1 - half;
                for (output, declared) in exit.outputs.iter().enumerate() {
                    if !wanted(&declared.name) {
                        continue;
                    }
                    let (offset, bytes) = (end, declared.bytes());
                    outputs.push(PlacedOutput {
                        output,
                        offset,
                        bytes,
                    });
                    end = aligned(offset.saturating_add(bytes));
                }
                ends[half] = ends[half].max(end);
            }
            let half = half as u8;
            stages.push(PlacedExit { half, outputs });
        }
        let area_bytes = ends[0].saturating_add(ends[1]);
        if area_bytes == 0 {
            return Self::NONE;
        }
        for placed in &mut stages {
            let start = u64::from(AREA_HEAD_BYTES) + u64::from(placed.half) * ends[0];
            let outputs = placed.outputs.iter_mut();
            outputs.for_each(|output| output.offset = output.offset.saturating_add(start));
        }
        Self {
            stages,
            area_bytes: area_bytes.saturating_add(AREA_HEAD_BYTES.into()),
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
    fn exits_take_turns_in_two_halves() {
        let network = network(&[Some(20), None, Some(3), Some(40)]);
        let layout = OutputLayout::of(&network, |_| true);
        let offset = |stage: usize| layout.stage(stage).map(|exit| exit.outputs[0].offset);
        // 40 floats are 160 bytes: the first half has 192.
        assert_eq!(
            [0, 1, 2, 3].map(offset),
            [Some(64), None, Some(256), Some(64)]
        );
        assert_eq!(layout.area_bytes, 64 + 192 + 64);
        let halves: Vec<u8> = layout.stages.iter().map(|exit| exit.half).collect();
        assert_eq!(halves, [0, 0, 1, 0]);
    }

    #[test]
    fn what_nobody_wants_takes_no_memory() {
        let layout = OutputLayout::of(&network(&[Some(3)]), |_| false);
        assert_eq!(layout, OutputLayout::NONE);
        assert!(layout.is_empty() && layout.stage(0).is_none());
    }
}
