//! Values of tensors of floats.

use core::cell::Cell;
use core::ptr::NonNull;

use punctual_types::Element;

use super::order::{Order, Piece, Place, Planes, Row, Tokens};
use crate::Isa;
use crate::simd::{Vector, compiled_for, vectorised};

/// Writes values of tensors of floats.
#[derive(Clone, Debug)]
pub(super) struct Floats {
    element: Element,
    planes: unsafe fn(&Job<'_, Planes>),
    tokens: unsafe fn(&Job<'_, Tokens>),
    convert: unsafe fn(&mut Values<'_>),
}

/// A piece, and where it is written: at the beginning of `output`, which is plain memory or what is converted next.
struct Job<'a, P> {
    order: &'a Order,
    input: &'a [f32],
    piece: &'a P,
    output: *mut f32,
    /// Cleared by what may not be finite.
    finite: Cell<bool>,
}

/// Values that are converted before they are written, at once: they stay in the nearest cache.
const CONVERTED: usize = 1024;

impl Floats {
    pub(super) fn new(isa: Isa, element: Element) -> Floats {
        Floats {
            element,
            planes: compiled_for!(isa, planes, Job<'_, Planes>),
            tokens: compiled_for!(isa, tokens, Job<'_, Tokens>),
            convert: match element {
                Element::I32 => vectorised!(isa, to_i32, Values<'_>),
                _ => vectorised!(isa, to_bool, Values<'_>),
            },
        }
    }

    /// Of a value.
    pub(super) fn bytes(&self) -> usize {
        self.element.bytes() as usize
    }

    /// Writes a piece, and returns how many of its values are not finite.
    ///
    /// # Safety
    /// The processor has the instruction set. The piece's values lie in the input; their places in the output are valid,
    /// and while this runs nothing else uses them.
    pub(super) unsafe fn write(
        &self,
        order: &Order,
        input: &[f32],
        piece: &Piece,
        output: NonNull<u8>,
    ) -> usize {
        if self.element != Element::F32 {
            // SAFETY: the caller's promise.
            return unsafe { self.write_converted(order, input, piece, output) };
        }
        let output = output.as_ptr().cast::<f32>();
        // SAFETY: the caller's promise.
        unsafe {
            match piece {
                Piece::Planes(piece) => self.planes(order, input, piece, output.add(piece.to)),
                Piece::Tokens(piece) => self.tokens(order, input, piece, output.add(piece.to)),
                Piece::Row(piece) => row(order, input, piece, output.add(piece.to)),
            }
        }
    }

    /// As [`write`](Self::write), little by little by way of memory of our own.
    ///
    /// # Safety
    /// As of [`write`](Self::write).
    unsafe fn write_converted(
        &self,
        order: &Order,
        input: &[f32],
        piece: &Piece,
        output: NonNull<u8>,
    ) -> usize {
        let mut own = [0.0; CONVERTED];
        let mut not_finite = 0;
        // SAFETY: the caller's promise; own memory holds as many values as are written to it.
        let convert = |from: &[f32], to: usize| unsafe {
            let to = output.as_ptr().add(to * self.bytes());
            (self.convert)(&mut Values { from, to });
        };
        // SAFETY: as above.
        unsafe {
            match piece {
                Piece::Planes(planes) => {
                    let lanes = planes.lanes.len();
                    let together = CONVERTED / lanes;
                    let mut first = 0;
                    while first < planes.pixels {
                        let pixels = together.min(planes.pixels - first);
                        let some = Planes {
                            from: planes.from + first * planes.step,
                            pixels,
                            apart: pixels,
                            ..planes.clone()
                        };
                        not_finite += self.planes(order, input, &some, own.as_mut_ptr());
                        for (lane, values) in own[..lanes * pixels].chunks(pixels).enumerate() {
                            convert(values, planes.to + lane * planes.apart + first);
                        }
                        first += pixels;
                    }
                }
                Piece::Tokens(tokens) => {
                    for one in few_channels(tokens) {
                        not_finite += self.tokens(order, input, &one, own.as_mut_ptr());
                        convert(&own[..one.channels], one.to);
                    }
                }
                Piece::Row(own_row) => {
                    let mut first = 0;
                    while first < own_row.values {
                        let some = Row {
                            place: own_row.place.plus(first, own_row.step),
                            values: CONVERTED.min(own_row.values - first),
                            ..*own_row
                        };
                        not_finite += row(order, input, &some, own.as_mut_ptr());
                        convert(&own[..some.values], own_row.to + first);
                        first += some.values;
                    }
                }
            }
        }
        not_finite
    }

    /// # Safety
    /// As of [`write`](Self::write).
    unsafe fn planes(
        &self,
        order: &Order,
        input: &[f32],
        piece: &Planes,
        output: *mut f32,
    ) -> usize {
        // SAFETY: the caller's promise.
        if unsafe { Job::run(self.planes, order, input, piece, output) } {
            return 0;
        }
        let planes = piece.lanes.clone().flat_map(|lane| {
            (0..piece.pixels).map(move |pixel| piece.from + pixel * piece.step + lane)
        });
        planes.filter(|&at| !input[at].is_finite()).count()
    }

    /// # Safety
    /// As of [`write`](Self::write).
    unsafe fn tokens(
        &self,
        order: &Order,
        input: &[f32],
        piece: &Tokens,
        output: *mut f32,
    ) -> usize {
        // SAFETY: the caller's promise.
        if unsafe { Job::run(self.tokens, order, input, piece, output) } {
            return 0;
        }
        // The kernel checks whole vectors: they may also hold what lies next to a value.
        let values = piece.pixels * piece.channels;
        // SAFETY: they have just been written; plain memory may begin anywhere.
        let value = |at: usize| unsafe { output.add(at).read_unaligned() };
        (0..values).filter(|&at| !value(at).is_finite()).count()
    }
}

/// The tokens one by one, as many channels of one at once as are converted at once.
fn few_channels(tokens: &Tokens) -> impl Iterator<Item = Tokens> + '_ {
    (0..tokens.pixels).flat_map(move |pixel| {
        let place = tokens.place.plus(pixel, tokens.step);
        let firsts = (0..tokens.channels).step_by(CONVERTED);
        firsts.map(move |first| Tokens {
            place: Place {
                channel: place.channel + first,
                ..place
            },
            step: tokens.step,
            pixels: 1,
            channels: CONVERTED.min(tokens.channels - first),
            to: tokens.to + pixel * tokens.channels + first,
        })
    })
}

impl<P> Job<'_, P> {
    /// Writes a piece, and returns whether all of its values are finite.
    ///
    /// # Safety
    /// As of [`Floats::write`].
    unsafe fn run(
        kernel: unsafe fn(&Job<'_, P>),
        order: &Order,
        input: &[f32],
        piece: &P,
        output: *mut f32,
    ) -> bool {
        let finite = Cell::new(true);
        let job = Job {
            order,
            input,
            piece,
            output,
            finite,
        };
        // SAFETY: the caller's promise.
        unsafe { kernel(&job) };
        job.finite.get()
    }

    /// Notes lanes that were each 0, but for what was multiplied with a value that is not finite.
    ///
    /// # Safety
    /// The processor has the instruction set.
    #[inline(always)]
    unsafe fn note<V: Vector>(&self, finite: V) {
        let mut lanes = [0.0; 16];
        // SAFETY: no vector has more lanes.
        unsafe { finite.store(lanes.as_mut_ptr()) };
        for lane in lanes {
            if lane != 0.0 {
                self.finite.set(false);
            }
        }
    }
}

/// Pixels that are written together, of all lanes: their blocks stay in the nearest cache.
const TOGETHER: usize = 256;

/// # Safety
/// As of [`Floats::write`].
#[inline(always)]
unsafe fn planes<V: Vector>(job: &Job<'_, Planes>) {
    let Planes { pixels, lanes, .. } = job.piece;
    // SAFETY: the caller's promise.
    unsafe {
        let mut finite = V::splat(0.0);
        let mut first = 0;
        while first < *pixels {
            let end = (first + TOGETHER).min(*pixels);
            for four in lanes.start / 4..lanes.end.div_ceil(4) {
                let lane = 4 * four;
                if *pixels < V::LANES {
                    few_pixels(job, lane);
                    continue;
                }
                finite = finite.add(match (lanes.start <= lane, lanes.end - lane) {
                    (true, 1) => four_lanes::<V, 1>(job, lane, first, end),
                    (true, 4..) => four_lanes::<V, 4>(job, lane, first, end),
                    _ => four_lanes::<V, 0>(job, lane, first, end),
                });
            }
            first = end;
        }
        job.note(finite);
    }
}

/// Writes pixels from `first` to `end` of `COUNT` lanes from `lane` on, or of those that the piece has if it is 0. There
/// are as many pixels as a vector has lanes, at least. Returns zeros, if all are finite.
///
/// # Safety
/// As of [`Floats::write`].
#[inline(always)]
unsafe fn four_lanes<V: Vector, const COUNT: usize>(
    job: &Job<'_, Planes>,
    lane: usize,
    first: usize,
    end: usize,
) -> V {
    let Planes {
        from,
        step,
        ref lanes,
        apart,
        ..
    } = *job.piece;
    let own = match COUNT {
        0 => lanes.start.saturating_sub(lane)..(lanes.end - lane).min(4),
        _ => 0..COUNT,
    };
    // SAFETY: the caller's promise: a pixel's whole block is inside the tensor.
    unsafe {
        let from = job.input.as_ptr().add(from + lane);
        // Where the first of the four lanes would go, even if it is none of the piece's.
        let before = lane.wrapping_sub(lanes.start).wrapping_mul(apart);
        let to = job.output.wrapping_add(before);
        let zero = V::splat(0.0);
        // Several sums, none of which waits for another.
        let mut finite = [zero; 4];
        // The last vector may repeat some of the one before.
        let mut pixel = first.min(end - V::LANES);
        loop {
            let source = from.add(pixel * step);
            let a = V::load_fours(source, 4 * step);
            let b = V::load_fours(source.add(step), 4 * step);
            let c = V::load_fours(source.add(2 * step), 4 * step);
            let d = V::load_fours(source.add(3 * step), 4 * step);
            let (low, high) = (a.alternate_low(b), a.alternate_high(b));
            let (other_low, other_high) = (c.alternate_low(d), c.alternate_high(d));
            let planes = [
                low.low_halves(other_low),
                low.high_halves(other_low),
                high.low_halves(other_high),
                high.high_halves(other_high),
            ];
            for at in 0..4 {
                if at >= own.start && at < own.end {
                    finite[at] = finite[at].mul_add(planes[at], zero);
                    planes[at].store(to.wrapping_add(at * apart + pixel));
                }
            }
            if pixel + V::LANES >= end {
                break;
            }
            pixel = (pixel + V::LANES).min(end - V::LANES);
        }
        let [a, b, c, d] = finite;
        a.add(b).add(c.add(d))
    }
}

/// Writes all pixels of up to four lanes, value by value.
///
/// # Safety
/// As of [`Floats::write`].
#[inline(always)]
unsafe fn few_pixels(job: &Job<'_, Planes>, lane: usize) {
    let Planes {
        from,
        step,
        pixels,
        ref lanes,
        apart,
        ..
    } = *job.piece;
    for lane in lanes.start.max(lane)..lanes.end.min(lane + 4) {
        for pixel in 0..pixels {
            let value = job.input[from + pixel * step + lane];
            if !value.is_finite() {
                job.finite.set(false);
            }
            // SAFETY: the caller's promise.
            unsafe {
                let to = job.output.add((lane - lanes.start) * apart + pixel);
                to.write_unaligned(value);
            }
        }
    }
}

/// # Safety
/// As of [`Floats::write`].
#[inline(always)]
unsafe fn tokens<V: Vector>(job: &Job<'_, Tokens>) {
    let Tokens {
        place,
        step,
        pixels,
        channels,
        ..
    } = *job.piece;
    let end = pixels * channels;
    let bound = job.input.len();
    // SAFETY: the caller's promise; what a vector has too much is inside both tensors, and overwritten by what follows.
    unsafe {
        let zero = V::splat(0.0);
        let mut finite = zero;
        let mut to = 0;
        for pixel in 0..pixels {
            let place = place.plus(pixel, step);
            let mut lane = place.channel % V::LANES;
            let mut block = place.pixel + place.channel / V::LANES * job.order.block_stride;
            let mut left = channels;
            while left > 0 {
                let from = block + lane;
                let some = (V::LANES - lane).min(left);
                let values = if from + V::LANES <= bound && to + V::LANES <= end {
                    let values = V::load(job.input.as_ptr().add(from));
                    values.store(job.output.add(to));
                    values
                } else {
                    copy_some::<V>(job, from, to, some)
                };
                finite = finite.mul_add(values, zero);
                (left, to) = (left - some, to + some);
                (lane, block) = (0, block + job.order.block_stride);
            }
        }
        job.note(finite);
    }
}

/// Copies less than a vector, and returns it with zeros.
///
/// # Safety
/// The processor has the instruction set; `some` values are valid in both, at most `LANES`.
#[inline(always)]
unsafe fn copy_some<V: Vector>(job: &Job<'_, Tokens>, from: usize, to: usize, some: usize) -> V {
    let mut values = [0.0; 16];
    // SAFETY: the caller's promise; no vector has more lanes.
    unsafe {
        for (at, value) in values.iter_mut().enumerate().take(some) {
            *value = *job.input.get_unchecked(from + at);
            job.output.add(to + at).write_unaligned(*value);
        }
        V::load(values.as_ptr())
    }
}

/// Value by value; returns how many are not finite.
///
/// # Safety
/// As of [`Floats::write`].
unsafe fn row(order: &Order, input: &[f32], row: &Row, output: *mut f32) -> usize {
    let mut not_finite = 0;
    for at in 0..row.values {
        let value = input[order.at(row.place.plus(at, row.step))];
        not_finite += usize::from(!value.is_finite());
        // SAFETY: the caller's promise.
        unsafe { output.add(at).write_unaligned(value) };
    }
    not_finite
}

/// Values on their way, and where they go.
struct Values<'a> {
    from: &'a [f32],
    /// Valid for the converted values; nothing else uses it.
    to: *mut u8,
}

fn to_i32(values: &mut Values<'_>) {
    let to = values.to.cast::<i32>();
    for (at, value) in values.from.iter().enumerate() {
        // SAFETY: see `Values::to`.
        unsafe { to.add(at).write_unaligned(*value as i32) };
    }
}

fn to_bool(values: &mut Values<'_>) {
    for (at, value) in values.from.iter().enumerate() {
        // SAFETY: see `Values::to`.
        unsafe { values.to.add(at).write(u8::from(*value != 0.0)) };
    }
}
