//! Where the values of a piece are read, planned once: which rows and columns are where, and which lanes of which
//! blocks make a block of the output.

use core::ops::Range;

use punctual_types::{Axis, Digit, Piece};

use crate::simd::{KEPT, LaneMap};
use crate::{BlockedLayout, Element};

/// Most blocks that the pixels of a block are made of lane by lane with vectors; beyond, value by value.
pub(super) const PICKED_MAX: usize = 4;

/// A piece of a copy. Offsets and steps count values: floats or bytes.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) source: usize,
    pub(super) lanes: usize,
    /// Of the output.
    pub(super) blocks: Range<usize>,
    pub(super) rows: Range<usize>,
    /// Where each of these rows is read.
    row_origins: Vec<Origin>,
    pub(super) runs: Vec<Run>,
    /// Values from a block of the source to the next.
    block_stride: usize,
    /// The lanes of the source in which pixels begin, and which of them each lane is.
    phases: Vec<usize>,
    phase_of: [usize; 16],
    /// Whether lanes are picked with vectors, as those of floats are.
    picks: bool,
    /// For each block and phase.
    made_of: Vec<Lanes>,
    picked: Vec<Picked>,
    offsets: Vec<u32>,
}

/// Evenly spaced columns of the output that are evenly spaced in the source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    origin: Origin,
    /// From the beginning of the output's row.
    pub(super) to: usize,
    pub(super) count: usize,
    pub(super) from_step: usize,
    pub(super) to_step: usize,
}

/// What a position of the output adds to a place in the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Origin {
    offset: usize,
    channel: usize,
}

impl Origin {
    fn plus(self, other: Origin) -> Origin {
        Origin {
            offset: self.offset + other.offset,
            channel: self.channel + other.channel,
        }
    }

    fn times(self, times: usize) -> Origin {
        Origin {
            offset: self.offset * times,
            channel: self.channel * times,
        }
    }
}

/// What the pixels of a block of the output are made of, relative to a place in the source.
#[derive(Clone, Debug)]
pub(super) struct Lanes {
    /// Earlier pieces have written the lanes before this piece's.
    pub(super) keeps: bool,
    /// Each lane is the same lane of the block at this offset.
    pub(super) copied: Option<usize>,
    /// The blocks that lanes are picked from; none if there are too many.
    picked: Range<usize>,
    /// Where each lane is read, if nothing is picked.
    offsets: Range<usize>,
    /// The first lane.
    first: usize,
}

/// Lanes of one block.
#[derive(Clone, Debug)]
pub(super) struct Picked {
    pub(super) offset: usize,
    pub(super) lanes: LaneMap,
}

impl Plan {
    /// Plans a piece that was checked.
    pub(super) fn new(piece: &Piece, source: &BlockedLayout, output: &BlockedLayout) -> Plan {
        let lanes = output.lanes();
        let steps = Steps::of(source);
        let [channels, rows, columns] = piece.view.split(piece.sizes).unwrap_or_default();
        let start = |axis: usize| piece.at[axis] as usize;
        let end = |axis: usize| (piece.at[axis] + piece.sizes[axis]) as usize;
        let [first_channel, first_row, first_column] = piece.view.start.map(|at| at as usize);
        let values = lanes / source.pixel();
        let first = Origin {
            offset: source.row_start(0, first_row) * values + first_column * lanes,
            channel: first_channel,
        };
        let mut plan = Plan {
            source: usize::from(piece.source),
            lanes,
            blocks: start(0) / lanes..end(0).div_ceil(lanes),
            rows: start(1)..end(1),
            row_origins: steps.origins(&rows, first),
            runs: steps.runs(&columns, start(2)),
            block_stride: steps.block,
            phases: Vec::new(),
            phase_of: [0; 16],
            picks: output.element() == Element::F32,
            made_of: Vec::new(),
            picked: Vec::new(),
            offsets: Vec::new(),
        };
        plan.find_phases();
        let channels = steps.origins(&channels, Origin::default());
        for block in plan.blocks.clone() {
            let begin = block * lanes;
            let own = start(0).max(begin)..end(0).min(begin + lanes);
            let channels = &channels[own.start - start(0)..own.end - start(0)];
            let whole = own.len() == lanes || {
                // No lanes before, and as many surplus lanes there as here, wherever the pixel is.
                let moves = |digit: &Digit| digit.axis == Axis::Channel;
                let channel = channels[0].channel + first_channel;
                let there = source.channels().saturating_sub(channel);
                let fixed = !rows.iter().chain(&columns).any(moves);
                fixed && own.start == begin && own.end == output.channels() && there == own.len()
            };
            for phase in plan.phases.clone() {
                plan.make(own.start - begin, channels, phase, whole);
            }
        }
        plan
    }

    /// The lanes of the source in which pixels begin.
    fn find_phases(&mut self) {
        let lanes = self.lanes;
        let mut begins = [false; 16];
        let residues = |channels: &mut dyn Iterator<Item = usize>| {
            channels.fold(0_u32, |found, channel| found | 1 << (channel % lanes))
        };
        let rows = residues(&mut self.row_origins.iter().map(|origin| origin.channel));
        let columns = residues(&mut self.runs.iter().map(|run| run.origin.channel));
        for (row, column) in (0..lanes).flat_map(|row| (0..lanes).map(move |column| (row, column)))
        {
            begins[(row + column) % lanes] |= rows >> row & columns >> column & 1 == 1;
        }
        for lane in (0..lanes).filter(|&lane| begins[lane]) {
            self.phase_of[lane] = self.phases.len();
            self.phases.push(lane);
        }
    }

    /// Plans lanes from `first` on of a block, for pixels that begin in lane `phase` of the source. `whole`: they are a
    /// whole block, if it is one block of the source that they are.
    fn make(&mut self, first: usize, channels: &[Origin], phase: usize, whole: bool) {
        let (picked, offsets) = (self.picked.len(), self.offsets.len());
        let mut stays = whole;
        for (to, origin) in (first..).zip(channels) {
            let channel = origin.channel + phase;
            let offset = origin.offset + channel / self.lanes * self.block_stride;
            let lane = channel % self.lanes;
            self.offsets.push((offset + lane) as u32);
            stays &= lane == to;
            let blocks = self.picked.len() - picked;
            let mut own = self.picked[picked..].iter_mut();
            match own.find(|block| block.offset == offset) {
                Some(block) => block.lanes[to] = lane as i32,
                // One more than can be used says that there are too many.
                None if blocks > PICKED_MAX => {}
                None => {
                    let mut lanes = [KEPT; 16];
                    lanes[to] = lane as i32;
                    self.picked.push(Picked { offset, lanes });
                }
            }
        }
        let blocks = self.picked.len() - picked;
        let copied = (stays && blocks == 1).then(|| self.picked[picked].offset);
        if blocks > PICKED_MAX || !self.picks {
            self.picked.truncate(picked);
        } else {
            self.offsets.truncate(offsets);
        }
        self.made_of.push(Lanes {
            keeps: first > 0,
            copied,
            picked: picked..self.picked.len(),
            offsets: offsets..self.offsets.len(),
            first,
        });
    }

    /// What the pixels of a run in a row of a block are made of, and relative to which place.
    pub(super) fn source_of(&self, block: usize, row: usize, run: &Run) -> (&Lanes, usize) {
        let origin = self.row_origins[row - self.rows.start];
        let channel = origin.channel + run.origin.channel;
        let offset = origin.offset + run.origin.offset + channel / self.lanes * self.block_stride;
        let phase = self.phase_of[channel % self.lanes];
        let made_of = &self.made_of[(block - self.blocks.start) * self.phases.len() + phase];
        (made_of, offset)
    }

    pub(super) fn picked(&self, lanes: &Lanes) -> &[Picked] {
        &self.picked[lanes.picked.clone()]
    }

    /// Where lanes are read, and which.
    pub(super) fn scattered(&self, lanes: &Lanes) -> (&[u32], Range<usize>) {
        let offsets = &self.offsets[lanes.offsets.clone()];
        (offsets, lanes.first..lanes.first + offsets.len())
    }
}

/// How far apart positions of a source lie, in values.
#[derive(Clone, Copy)]
struct Steps {
    lanes: usize,
    block: usize,
    row: usize,
}

impl Steps {
    fn of(source: &BlockedLayout) -> Steps {
        let values = source.lanes() / source.pixel();
        Steps {
            lanes: source.lanes(),
            block: source.block_stride() * values,
            row: source.row_stride() * values,
        }
    }

    /// What a digit's step adds.
    fn origin(&self, digit: &Digit) -> Origin {
        let step = digit.step as usize;
        let (offset, channel) = match digit.axis {
            Axis::Channel => (0, step),
            Axis::Row => (step * self.row, 0),
            Axis::Column => (step * self.lanes, 0),
            Axis::Repeat => (0, 0),
        };
        Origin { offset, channel }
    }

    /// Where each position lies that the digits count through.
    fn origins(&self, digits: &[Digit], first: Origin) -> Vec<Origin> {
        let mut origins = vec![first];
        for digit in digits {
            let step = self.origin(digit);
            let positions = |origin: &Origin| {
                let origin = *origin;
                (0..digit.extent as usize).map(move |at| origin.plus(step.times(at)))
            };
            origins = origins.iter().flat_map(positions).collect();
        }
        origins
    }

    /// The columns that the digits count through from `first` on, in runs as long as possible.
    fn runs(&self, digits: &[Digit], first: usize) -> Vec<Run> {
        // Without a halo, rows and columns can be counted as one.
        let mut counts: Vec<(usize, Origin)> = Vec::with_capacity(digits.len());
        for digit in digits {
            let (extent, step) = (digit.extent as usize, self.origin(digit));
            match counts.last_mut() {
                Some((outer, before)) if *before == step.times(extent) => {
                    *outer *= extent;
                    *before = step;
                }
                _ => counts.push((extent, step)),
            }
        }
        let along = (0..counts.len())
            .filter(|&at| counts[at].1.channel.is_multiple_of(self.lanes))
            .max_by_key(|&at| counts[at].0);
        let mut run = Run {
            origin: Origin::default(),
            to: first * self.lanes,
            count: 1,
            from_step: 0,
            to_step: 0,
        };
        let mut others = Vec::new();
        let mut place = self.lanes;
        for (at, &(extent, step)) in counts.iter().enumerate().rev() {
            if along == Some(at) {
                run.count = extent;
                run.from_step = step.offset + step.channel / self.lanes * self.block;
                run.to_step = place;
            } else {
                others.push((extent, step, place));
            }
            place *= extent;
        }
        let mut runs = vec![run];
        for (extent, step, place) in others {
            let positions = |run: &Run| {
                let run = *run;
                (0..extent).map(move |at| Run {
                    origin: run.origin.plus(step.times(at)),
                    to: run.to + at * place,
                    ..run
                })
            };
            runs = runs.iter().flat_map(positions).collect();
        }
        runs
    }
}
