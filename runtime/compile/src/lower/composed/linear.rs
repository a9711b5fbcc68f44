//! Operators that are a product with a matrix that is known when compiling: Fourier transforms, grids of an affine map, and
//! columns that are put together to an image.

use std::f64::consts::TAU;

use super::Row;
use crate::graph::{Attribute, Data, Node, ValueId};
use crate::integer::Dim;
use crate::lower::lowering::Lowering;
use crate::lower::views::position;
use crate::lower::vocabulary::{OnnxOperator, family};
use crate::problem::Problem;

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "AffineGrid" => compose affine_grid(),
    "Col2Im" => compose columns_to_image(),
    "DFT" => compose fourier(),
    "STFT" => compose short_time_fourier(),
};

/// Values of a complex number.
const COMPLEX: usize = 2;

/// A Fourier transform of a row of real or complex numbers.
struct Transform {
    /// Of the numbers that are there, which are cut off or filled up with zeros to as many as are transformed.
    taken: usize,
    length: usize,
    /// Of a result, of which the rest may mirror the first ones.
    frequencies: usize,
    /// Values of a number: one, or two of a complex one.
    parts: usize,
    inverse: bool,
}

/// Of real numbers the frequencies above the middle mirror those below it.
fn frequencies(length: usize, one_sided: bool) -> usize {
    if one_sided { length / 2 + 1 } else { length }
}

impl Transform {
    /// What a value of a number adds to a value of a frequency.
    fn weight(&self, number: usize, part: usize, frequency: usize, value: usize) -> f32 {
        if number >= self.length {
            return 0.0;
        }
        // Of whole turns nothing is left, so that large products lose no bits.
        let turns = (number as u128 * frequency as u128 % self.length as u128) as f64;
        let angle = TAU * turns / self.length as f64;
        let (angle, size) = if self.inverse {
            (angle, 1.0 / self.length as f64)
        } else {
            (-angle, 1.0)
        };
        let turned = match (part, value) {
            (0, 0) | (1, 1) => angle.cos(),
            (0, _) => angle.sin(),
            _ => -angle.sin(),
        };
        (size * turned) as f32
    }
}

impl Lowering<'_> {
    fn fourier(&mut self, node: &Node) -> Result<(), Problem> {
        let axis_is_attribute = node.opset < 20;
        let mut row = self.row(node, if axis_is_attribute { 2 } else { 3 }, 1)?;
        let mut attributes = row.attributes();
        let inverse = attributes.int("inverse", 0)? != 0;
        let one_sided = attributes.int("onesided", 0)? != 0;
        let axis = if axis_is_attribute {
            attributes.int("axis", 1)?
        } else {
            row.one_integer(2, "axis")?.unwrap_or(-2)
        };
        attributes.finish()?;
        if inverse && one_sided {
            let found = Attribute::Int(1);
            return Err(Problem::attribute(
                "onesided",
                &found,
                "0 of an inverse transform",
            ));
        }
        let (data, sizes) = (row.operand(0, "data")?, row.sizes(0, "data")?);
        let rank = sizes.len();
        let at = position("axis", axis, rank)?;
        let (Dim::Known(taken), Some(Dim::Known(parts @ 1..=2)), true) =
            (sizes[at], sizes.last(), at + 1 < rank)
        else {
            let expected = "real or complex numbers, (..., 1 or 2), along an axis of known size";
            return Err(row.wrong(0, "data", expected));
        };
        let length = row.one_integer(1, "dft_length")?.unwrap_or(taken);
        let length = row.positive(1, "dft_length", length)?;
        let transform = Transform {
            taken: taken as usize,
            length,
            frequencies: frequencies(length, one_sided),
            parts: *parts as usize,
            inverse,
        };
        let mut order: Vec<i64> = (0..rank as i64).collect();
        order.swap(at, rank - 2);
        let turned = row.transpose(data, &order)?;
        let result = row.transformed(turned, rank, &transform)?;
        let result = row.transpose(result, &order)?;
        row.give(0, result);
        Ok(())
    }

    /// Transforms of frames, each of them a window of a convolution.
    fn short_time_fourier(&mut self, node: &Node) -> Result<(), Problem> {
        let mut row = self.row(node, 4, 1)?;
        let mut attributes = row.attributes();
        let one_sided = attributes.int("onesided", 1)? != 0;
        attributes.finish()?;
        let (signal, sizes) = (row.operand(0, "signal")?, row.sizes(0, "signal")?);
        let parts = match sizes[..] {
            [_, _, Dim::Known(1)] => 1,
            [_, _, Dim::Known(2)] if !one_sided => 2,
            _ => return Err(row.wrong(0, "signal", "(batch, steps, 1), or 2 where onesided is 0")),
        };
        let step = row.one_integer(1, "frame_step")?.unwrap_or(0);
        let step = row.positive(1, "frame_step", step)?;
        let window = row.lowering.optional_floats(node, 2, "window")?;
        let window = window.map(|window| window.data);
        let length = row.one_integer(3, "frame_length")?;
        let length = length.or(window.as_ref().map(|window| window.len() as i64));
        let length = row.positive(3, "frame_length", length.unwrap_or(0))?;
        if window.as_ref().is_some_and(|window| window.len() != length) {
            return Err(row.wrong(2, "window", "as many values as a frame has"));
        }
        let transform = Transform {
            taken: length,
            length,
            frequencies: frequencies(length, one_sided),
            parts,
            inverse: false,
        };
        let count = transform.frequencies.saturating_mul(COMPLEX * parts);
        row.lowering.room.take(count.saturating_mul(length))?;
        let channels = transform.frequencies * COMPLEX;
        let mut weights = Vec::with_capacity(count * length);
        for channel in 0..channels {
            for part in 0..parts {
                weights.extend((0..length).map(|number| {
                    let share = window.as_ref().map_or(1.0, |window| window[number]);
                    let (frequency, value) = (channel / COMPLEX, channel % COMPLEX);
                    share * transform.weight(number, part, frequency, value)
                }));
            }
        }
        let weights = row.constant(vec![channels, parts, length], Data::Floats(weights));
        let series = row.transpose(signal, &[0, 2, 1])?;
        let strides = ("strides", Attribute::Ints(vec![step as i64]));
        let frames = row.with("Conv", &[series, weights], [strides])?;
        let frames = row.transpose(frames, &[0, 2, 1])?;
        let result = row.reshape(frames, [0, 0, transform.frequencies as i64, COMPLEX as i64])?;
        row.give(0, result);
        Ok(())
    }

    fn affine_grid(&mut self, node: &Node) -> Result<(), Problem> {
        let mut row = self.row(node, 2, 1)?;
        let mut attributes = row.attributes();
        let corners = attributes.int("align_corners", 0)? != 0;
        attributes.finish()?;
        let (map, sizes) = (row.operand(0, "theta")?, row.sizes(0, "theta")?);
        let all = row.lowering.sizes(node, 1, "size")?;
        let expected =
            "(batch, channels, rows, columns), perhaps with a depth, of the batch of theta";
        let [images, _, places @ ..] = &all[..] else {
            return Err(row.wrong(1, "size", expected));
        };
        let rank = places.len();
        let [rows, columns] = [rank, rank + 1].map(|size| Dim::Known(size as i64));
        let fits = match sizes[..] {
            [own, second, third] => {
                let fixed = row.lowering.fixed.map(Dim::Known);
                [second, third] == [rows, columns] && (*images == own || Some(*images) == fixed)
            }
            _ => false,
        };
        if !(2..=3).contains(&rank) || !fits {
            return Err(row.wrong(1, "size", expected));
        }
        let mut extents = Vec::with_capacity(rank);
        for place in places {
            match *place {
                Dim::Known(size) => extents.push(row.positive(1, "size", size)?),
                Dim::Batches(_) => return Err(row.wrong(1, "size", expected)),
            }
        }
        let area = extents
            .iter()
            .fold(1, |area: usize, size| area.saturating_mul(*size));
        row.lowering.room.take(area.saturating_mul(rank + 1))?;
        // Columns come first, then rows and depth, then what is added.
        let mut base = vec![1.0; area * (rank + 1)];
        let mut inner = 1;
        for (axis, &size) in extents.iter().rev().enumerate() {
            for place in 0..area {
                base[axis * area + place] = coordinate(place / inner % size, size, corners);
            }
            inner *= size;
        }
        let base = row.constant(vec![rank + 1, area], Data::Floats(base));
        let grid = row.of("MatMul", &[map, base])?;
        let grid = row.transpose(grid, &[0, 2, 1])?;
        let target: Vec<i64> = extents.iter().map(|size| *size as i64).collect();
        let result = row.reshape(grid, [vec![0], target, vec![rank as i64]].concat())?;
        row.give(0, result);
        Ok(())
    }

    /// Each value of a column is added at its place under a window: a transposed convolution of each channel whose kernels
    /// are one at one place.
    fn columns_to_image(&mut self, node: &Node) -> Result<(), Problem> {
        let mut row = self.row(node, 3, 1)?;
        let (data, sizes) = (row.operand(0, "data")?, row.sizes(0, "data")?);
        let of = row.columns()?;
        let each = product(&of.block);
        let (channels, blocks, left_over) = match (&sizes[..], of.blocks()) {
            (&[_, Dim::Known(channels @ 1..), Dim::Known(count)], Some((blocks, left_over)))
                if channels % each == 0 && count == product(&blocks) =>
            {
                (channels, blocks, left_over)
            }
            _ => {
                let expected = "(batch, channels of blocks, blocks), as many as fit into the image";
                return Err(row.wrong(0, "data", expected));
            }
        };
        let count = channels.saturating_mul(each) as usize;
        row.lowering.room.take(count)?;
        let mut kernels = vec![0.0; count];
        for channel in 0..channels {
            kernels[(channel * each + channel % each) as usize] = 1.0;
        }
        let mut dims = vec![channels as usize, 1];
        dims.extend(of.block.iter().map(|side| *side as usize));
        let kernels = row.constant(dims, Data::Floats(kernels));
        let columns = row.reshape(data, [vec![0, channels], blocks].concat())?;
        let attributes = [
            ("group", Attribute::Int(channels / each)),
            ("dilations", Attribute::Ints(of.dilations)),
            ("strides", Attribute::Ints(of.strides)),
            ("output_padding", Attribute::Ints(left_over)),
        ];
        let mut result = row.with("ConvTranspose", &[columns, kernels], attributes)?;
        for (at, (size, first)) in of.image.iter().zip(&of.pads).enumerate() {
            if *first + of.pads[of.block.len() + at] > 0 {
                result = row.slice(result, at as i64 + 2, [*first, first + size, 1])?;
            }
        }
        row.give(0, result);
        Ok(())
    }
}

/// Blocks of an image, of as many dimensions.
struct Columns {
    image: Vec<i64>,
    block: Vec<i64>,
    dilations: Vec<i64>,
    strides: Vec<i64>,
    pads: Vec<i64>,
}

impl Columns {
    /// How many there are along each dimension, and the positions behind the last one; `None` if none fits.
    fn blocks(&self) -> Option<(Vec<i64>, Vec<i64>)> {
        let rank = self.block.len();
        let along = |at: usize| {
            let reach = self.dilations[at].saturating_mul(self.block[at] - 1);
            let free = self.image[at] + self.pads[at] + self.pads[rank + at] - 1;
            let free = free.checked_sub(reach).filter(|free| *free >= 0)?;
            Some((free / self.strides[at] + 1, free % self.strides[at]))
        };
        (0..rank).map(along).collect()
    }
}

fn product(sizes: &[i64]) -> i64 {
    let sizes = sizes.iter();
    sizes.fold(1, |all: i64, size| all.saturating_mul(*size))
}

/// Where a position of a dimension lies between -1 and 1.
fn coordinate(at: usize, size: usize, corners: bool) -> f32 {
    let (at, size) = (at as f64, size as f64);
    let place = if corners {
        2.0 * at / (size - 1.0) - 1.0
    } else {
        (2.0 * at + 1.0) / size - 1.0
    };
    place as f32
}

impl Row<'_, '_, '_> {
    /// One integer that is known when compiling, if it is there.
    fn one_integer(&self, position: usize, what: &'static str) -> Result<Option<i64>, Problem> {
        match self
            .lowering
            .optional_ints(self.node, position, what)?
            .as_deref()
        {
            None => Ok(None),
            Some(&[value]) => Ok(Some(value)),
            Some(_) => Err(self.wrong(position, what, "one integer")),
        }
    }

    fn positive(&self, position: usize, what: &'static str, found: i64) -> Result<usize, Problem> {
        match u32::try_from(found) {
            Ok(size @ 1..) => Ok(size as usize),
            _ => Err(self.wrong(position, what, "positive and known when compiling")),
        }
    }

    /// Positive sizes that are known when compiling.
    fn extents(&self, at: usize, what: &'static str) -> Result<Vec<i64>, Problem> {
        let sizes = self
            .lowering
            .optional_ints(self.node, at, what)?
            .unwrap_or_default();
        for size in &sizes {
            self.positive(at, what, *size)?;
        }
        Ok(sizes)
    }

    fn columns(&self) -> Result<Columns, Problem> {
        let image = self.extents(1, "image_shape")?;
        let block = self.extents(2, "block_shape")?;
        let rank = block.len();
        if image.len() != rank {
            return Err(self.wrong(2, "block_shape", "as many sizes as the image has"));
        }
        let mut attributes = self.attributes();
        let mut list = |name: &'static str, count: usize, least: i64| {
            let found = attributes.ints(name)?;
            let list = found.map_or_else(|| vec![least; count], <[i64]>::to_vec);
            let is_size = |size: &i64| (least..=i64::from(u32::MAX)).contains(size);
            if list.len() == count && list.iter().all(is_size) {
                return Ok(list);
            }
            let found = Attribute::Ints(list);
            Err(Problem::attribute(
                name,
                &found,
                "a size for each dimension",
            ))
        };
        let columns = Columns {
            dilations: list("dilations", rank, 1)?,
            strides: list("strides", rank, 1)?,
            pads: list("pads", 2 * rank, 0)?,
            image,
            block,
        };
        attributes.finish()?;
        Ok(columns)
    }

    /// Numbers along the last dimension but one, transformed.
    fn transformed(
        &mut self,
        data: ValueId,
        rank: usize,
        of: &Transform,
    ) -> Result<ValueId, Problem> {
        let (rows, columns) = (of.taken.saturating_mul(of.parts), of.frequencies * COMPLEX);
        self.lowering.room.take(rows.saturating_mul(columns))?;
        let cells = (0..rows * columns).map(|at| {
            let (row, column) = (at / columns, at % columns);
            of.weight(
                row / of.parts,
                row % of.parts,
                column / COMPLEX,
                column % COMPLEX,
            )
        });
        let matrix = Data::Floats(cells.collect());
        let matrix = self.constant(vec![rows, columns], matrix);
        let outer = vec![0; rank - 2];
        let numbers = self.reshape(data, [&outer[..], &[rows as i64]].concat())?;
        let result = self.of("MatMul", &[numbers, matrix])?;
        let inner = [of.frequencies as i64, COMPLEX as i64];
        self.reshape(result, [&outer[..], &inner].concat())
    }
}
