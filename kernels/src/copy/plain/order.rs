//! In which pieces the values of a view are written.

use core::ops::Range;

use punctual_types::{Axis, Digit, View};

use crate::{BlockedLayout, Part};

/// A view of a blocked tensor, and the plain memory that its values become.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub(super) lanes: usize,
    /// Between a block and the next, in values.
    pub(super) block_stride: usize,
    /// Where the first value lies.
    start: Place,
    /// The digits that the form does not have; the last one counts fastest.
    outer: Vec<Count>,
    form: Form,
}

/// How values that follow each other lie in the tensor.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// The last digit counts pixels of a channel; another one may count channels.
    Planes { channels: Count, pixels: Count },
    /// The last digit counts channels of a pixel; the one before it counts anything.
    Tokens { pixels: Count, channels: Count },
    /// Any last digit.
    Any { row: Count },
}

/// A digit: `extent` places, one `step` apart, whose values are `apart` from each other in plain memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count {
    pub(super) extent: usize,
    pub(super) step: Place,
    pub(super) apart: usize,
}

/// A place in the input: values from its beginning to the pixel, and channels from the first block on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) pixel: usize,
    pub(super) channel: usize,
}

impl Place {
    pub(super) fn plus(self, times: usize, step: Place) -> Place {
        Place {
            pixel: self.pixel + times * step.pixel,
            channel: self.channel + times * step.channel,
        }
    }
}

/// Some of the values. `to` is where the first one goes.
pub(super) enum Piece {
    Planes(Planes),
    Tokens(Tokens),
    Row(Row),
}

/// Pixels of lanes of one block: a row of plain memory for each lane.
#[derive(Clone)]
pub(super) struct Planes {
    /// Where the first pixel of the block lies, and how far it is to the next.
    pub(super) from: usize,
    pub(super) step: usize,
    pub(super) pixels: usize,
    pub(super) lanes: Range<usize>,
    pub(super) to: usize,
    /// From a lane to the next in plain memory.
    pub(super) apart: usize,
}

/// The channels of some pixels.
pub(super) struct Tokens {
    pub(super) place: Place,
    pub(super) step: Place,
    pub(super) pixels: usize,
    pub(super) channels: usize,
    pub(super) to: usize,
}

/// Values that follow each other.
pub(super) struct Row {
    pub(super) place: Place,
    pub(super) step: Place,
    pub(super) values: usize,
    pub(super) to: usize,
}

/// The most pixels, and the most blocks of channels, of a piece: enough of them for all cores, and each worth its start.
const PIXELS: usize = 1024;
const BLOCKS: usize = 4;

const ONE: Count = Count {
    extent: 1,
    step: Place {
        pixel: 0,
        channel: 0,
    },
    apart: 0,
};

impl Order {
    /// The order of a view that lies in the tensor.
    pub(super) fn new(input: &BlockedLayout, view: &View) -> Order {
        let lanes = input.lanes();
        let values = lanes / input.pixel();
        let [channel, row, column] = view.start.map(|start| start as usize);
        let mut outer = counts(input, &view.digits);
        let last = outer.pop().unwrap_or(ONE);
        let channels = |count: &Count| (count.step.pixel, count.step.channel) == (0, 1);
        let form = if channels(&last) {
            let (pixels, channels) = (outer.pop().unwrap_or(ONE), last);
            Form::Tokens { pixels, channels }
        } else if last.step.channel == 0 {
            let digit = outer.iter().position(channels);
            let channels = digit.map_or(ONE, |digit| outer.remove(digit));
            let pixels = last;
            Form::Planes { channels, pixels }
        } else {
            Form::Any { row: last }
        };
        Order {
            lanes,
            block_stride: input.block_stride() * values,
            start: Place {
                pixel: input.row_start(0, row) * values + column * lanes,
                channel,
            },
            outer,
            form,
        }
    }

    pub(super) fn values(&self) -> usize {
        let inner = match self.form {
            Form::Planes { channels, pixels } | Form::Tokens { pixels, channels } => {
                channels.extent * pixels.extent
            }
            Form::Any { row } => row.extent,
        };
        inner * self.outer_places()
    }

    fn outer_places(&self) -> usize {
        self.outer.iter().map(|count| count.extent).product()
    }

    /// Where a channel of a pixel lies.
    #[inline(always)]
    pub(super) fn at(&self, place: Place) -> usize {
        place.pixel + place.channel / self.lanes * self.block_stride + place.channel % self.lanes
    }

    /// Calls `write` for the pieces of a part.
    pub(super) fn each(&self, part: Part, mut write: impl FnMut(Piece)) {
        let (groups, along) = match self.form {
            Form::Planes { channels, pixels } => {
                let groups = channels.extent.div_ceil(BLOCKS * self.lanes);
                (groups, pixels.extent)
            }
            Form::Tokens { pixels, .. } => (1, pixels.extent),
            Form::Any { row } => (1, row.extent),
        };
        let lengths = along.div_ceil(PIXELS);
        let inner = groups * lengths;
        for unit in part.share(self.outer_places() * inner) {
            let (place, to) = self.outer_place(unit / inner);
            let first = unit % lengths * PIXELS;
            let some = PIXELS.min(along - first);
            let from = |count: Count| (place.plus(first, count.step), to + first * count.apart);
            match self.form {
                Form::Planes { channels, pixels } => {
                    let group = unit / lengths % groups * BLOCKS * self.lanes;
                    let (place, to) = from(pixels);
                    let own = group..channels.extent.min(group + BLOCKS * self.lanes);
                    self.planes(place, to, own, some, &mut write);
                }
                Form::Tokens { pixels, channels } => {
                    let (place, to) = from(pixels);
                    write(Piece::Tokens(Tokens {
                        place,
                        step: pixels.step,
                        pixels: some,
                        channels: channels.extent,
                        to,
                    }));
                }
                Form::Any { row } => {
                    let (place, to) = from(row);
                    let (step, values) = (row.step, some);
                    write(Piece::Row(Row {
                        place,
                        step,
                        values,
                        to,
                    }));
                }
            }
        }
    }

    /// Some channels of some pixels, block by block.
    fn planes(
        &self,
        place: Place,
        to: usize,
        own: Range<usize>,
        some: usize,
        write: &mut impl FnMut(Piece),
    ) {
        let Form::Planes { channels, pixels } = self.form else {
            return;
        };
        let mut done = own.start;
        while done < own.end {
            let channel = place.channel + done;
            let lane = channel % self.lanes;
            let together = (self.lanes - lane).min(own.end - done);
            write(Piece::Planes(Planes {
                from: place.pixel + channel / self.lanes * self.block_stride,
                step: pixels.step.pixel,
                pixels: some,
                lanes: lane..lane + together,
                to: to + done * channels.apart,
                apart: channels.apart,
            }));
            done += together;
        }
    }

    fn outer_place(&self, mut index: usize) -> (Place, usize) {
        let (mut place, mut to) = (self.start, 0);
        for count in self.outer.iter().rev() {
            let value = index % count.extent;
            index /= count.extent;
            place = place.plus(value, count.step);
            to += value * count.apart;
        }
        (place, to)
    }

    /// Whether each row of the tensor holds values that are a piece.
    pub(super) fn goes_by_rows(&self, input: &BlockedLayout) -> bool {
        let pixels = input.height() * input.width();
        let all = |count: Count| {
            let step = Place {
                pixel: self.lanes,
                channel: 0,
            };
            (count.extent, count.step) == (pixels, step)
                || (pixels == 1 && count.extent == 1 && count.step == Place::default())
        };
        let whole = input.halo() == 0 && self.outer.is_empty() && self.start.pixel == 0;
        whole
            && match self.form {
                Form::Planes { pixels, .. } => all(pixels),
                // Vectors of other blocks would write beyond theirs.
                Form::Tokens { pixels, .. } => all(pixels) && input.blocks() == 1,
                Form::Any { .. } => false,
            }
    }

    /// The values in some pixels of a block, relative to the first of these; for what goes by rows.
    pub(super) fn rows(&self, block: usize, own: Range<usize>) -> Option<Piece> {
        match self.form {
            Form::Planes { channels, pixels } => {
                let first = block * self.lanes;
                let start = self.start.channel.max(first);
                let end = (self.start.channel + channels.extent).min(first + self.lanes);
                (start < end).then(|| {
                    let to = (start - self.start.channel) * channels.apart;
                    Piece::Planes(Planes {
                        from: 0,
                        step: self.lanes,
                        pixels: own.len(),
                        lanes: start - first..end - first,
                        to: to + own.start * pixels.apart,
                        apart: channels.apart,
                    })
                })
            }
            Form::Tokens { pixels, channels } => Some(Piece::Tokens(Tokens {
                place: self.start,
                step: pixels.step,
                pixels: own.len(),
                channels: channels.extent,
                to: own.start * pixels.apart,
            })),
            Form::Any { .. } => None,
        }
    }
}

fn step(input: &BlockedLayout, digit: Digit) -> Place {
    let step = digit.step as usize;
    let values = input.lanes() / input.pixel();
    let (pixel, channel) = match digit.axis {
        Axis::Channel => (0, step),
        Axis::Row => (step * input.row_stride() * values, 0),
        Axis::Column => (step * input.lanes(), 0),
        Axis::Repeat => (0, 0),
    };
    Place { pixel, channel }
}

/// The digits, as few as possible: without a halo, rows and columns can be counted as one.
fn counts(input: &BlockedLayout, digits: &[Digit]) -> Vec<Count> {
    let mut counts: Vec<Count> = Vec::with_capacity(digits.len());
    for &digit in digits.iter().filter(|digit| digit.extent > 1) {
        let extent = digit.extent as usize;
        let step = step(input, digit);
        match counts.last_mut() {
            Some(outer) if outer.step == Place::default().plus(extent, step) => {
                outer.step = step;
                outer.extent *= extent;
            }
            _ => counts.push(Count {
                extent,
                step,
                apart: 0,
            }),
        }
    }
    let mut apart = 1;
    for count in counts.iter_mut().rev() {
        count.apart = apart;
        apart *= count.extent;
    }
    counts
}
