//! Convolutions whose weights are computed from the input: a template that is looked for in a picture, kernels that a
//! network chooses for each image. Each is a product of matrices, of the weights and of what each window sees.

use super::Row;
use crate::graph::{Attribute, Attributes, Node, ValueId};
use crate::integer::Dim;
use crate::lower::lowering::Lowering;
use crate::problem::Problem;

/// Most places of a kernel: each is a slice of the image.
const PLACES_MAX: i64 = 1024;

/// One of the dimensions along which a kernel moves.
struct Side {
    kernel: i64,
    stride: i64,
    dilation: i64,
    before: i64,
    behind: i64,
    outputs: i64,
}

impl Lowering<'_> {
    /// A convolution of one image with weights of its own, as files for one image at a time have it: there the batch is
    /// one of whatever dimension it was folded into.
    pub(in crate::lower) fn computed_kernel(&mut self, node: &Node) -> Result<(), Problem> {
        let mut row = self.row(node, 3, 1)?;
        let (data, weights) = (row.operand(0, "data")?, row.operand(1, "weights")?);
        let unfit = |row: &Row<'_, '_, '_>| {
            let expected = "a float32 constant, or in a file for one image at a time weights that fit its channels";
            Err(row.wrong(1, "weights", expected))
        };
        let sizes = [row.of_one(0, "data")?, row.of_one(1, "weights")?];
        let mut attributes = row.attributes();
        let group = attributes.int("group", 1)?;
        let [Some(of_data), Some(of_weights)] = &sizes else {
            return unfit(&row);
        };
        let ([_, channels, ..], [outputs, of_group, ..]) = (&of_data[..], &of_weights[..]) else {
            return unfit(&row);
        };
        let fits = of_data.len() == of_weights.len()
            && group > 0
            && outputs % group == 0
            && of_group.checked_mul(group) == Some(*channels);
        if !fits {
            return unfit(&row);
        }
        let sides = sides(&mut attributes, &of_data[2..], &of_weights[2..])?;
        attributes.finish()?;
        let places: i64 = sides.iter().map(|side| side.kernel).product();
        let pixels: i64 = sides.iter().map(|side| side.outputs).product();
        let seen = row.windows(data, &sides)?;
        let seen = row.reshape(seen, [1, group, of_group * places, pixels])?;
        let weights = row.reshape(weights, [1, group, outputs / group, of_group * places])?;
        let mut result = row.of("MatMul", &[weights, seen])?;
        let outer = [1, *outputs].into_iter();
        let whole: Vec<i64> = outer.chain(sides.iter().map(|side| side.outputs)).collect();
        result = row.reshape(result, whole)?;
        if let Some(bias) = row.optional(2) {
            let mut dims = vec![1; of_data.len()];
            dims[1] = *outputs;
            let bias = row.reshape(bias, dims)?;
            result = row.of("Add", &[result, bias])?;
        }
        row.give(0, result);
        Ok(())
    }
}

impl Row<'_, '_, '_> {
    /// The sizes of an operand for one image, if the file is for one at a time.
    fn of_one(&self, position: usize, what: &'static str) -> Result<Option<Vec<i64>>, Problem> {
        let sizes = self.sizes(position, what)?;
        let size = |size: Dim| match size {
            Dim::Known(size) | Dim::Batches(size) => size,
        };
        let one = self.lowering.fixed == Some(1);
        Ok(one.then(|| sizes.into_iter().map(size).collect()))
    }

    /// What each place of a kernel sees of an image, (N, channels, places, ...outputs).
    fn windows(&mut self, data: ValueId, sides: &[Side]) -> Result<ValueId, Problem> {
        let mut padded = data;
        let pads = |of: fn(&Side) -> i64| [0, 0].into_iter().chain(sides.iter().map(of));
        let pads: Vec<i64> = pads(|side| side.before)
            .chain(pads(|side| side.behind))
            .collect();
        if pads.iter().any(|pad| *pad != 0) {
            let pads = self.integers(pads);
            padded = self.of("Pad", &[data, pads])?;
        }
        let mut seen = vec![padded];
        for (axis, side) in (2..).zip(sides) {
            let mut next = Vec::with_capacity(seen.len() * side.kernel as usize);
            for part in seen {
                for place in 0..side.kernel {
                    let first = place * side.dilation;
                    let end = first + (side.outputs - 1) * side.stride + 1;
                    next.push(self.slice(part, axis, [first, end, side.stride])?);
                }
            }
            seen = next;
        }
        let mut places = Vec::with_capacity(seen.len());
        for part in seen {
            places.push(self.unsqueeze(part, 2)?);
        }
        match places[..] {
            [only] => Ok(only),
            _ => self.concat(&places, 2),
        }
    }
}

/// How a kernel of these sizes moves over an image of these.
fn sides(
    attributes: &mut Attributes<'_>,
    image: &[i64],
    kernel: &[i64],
) -> Result<Vec<Side>, Problem> {
    const EXPECTED: &str =
        "what fits the weights and the image: at most 1024 places, none of them outside";
    let rank = image.len();
    attributes.ignore("kernel_shape");
    match attributes.text("auto_pad", "NOTSET")? {
        "NOTSET" | "VALID" => {}
        other => {
            let found = Attribute::Text(other.to_owned());
            return Err(Problem::attribute(
                "auto_pad",
                &found,
                "NOTSET where the weights are computed",
            ));
        }
    }
    let mut listed = |name: &'static str, count: usize, default: i64| {
        let list = attributes.ints(name)?;
        let list = list.map_or_else(|| vec![default; count], <[i64]>::to_vec);
        let fits = list.len() == count
            && list
                .iter()
                .all(|number| (default..1 << 16).contains(number));
        let found = Attribute::Ints(list.clone());
        fits.then_some(list)
            .ok_or_else(|| Problem::attribute(name, &found, EXPECTED))
    };
    let strides = listed("strides", rank, 1)?;
    let dilations = listed("dilations", rank, 1)?;
    let pads = listed("pads", 2 * rank, 0)?;
    let places: Option<i64> = kernel
        .iter()
        .try_fold(1_i64, |all, side| all.checked_mul(*side));
    let side = |at: usize| {
        let (before, behind) = (pads[at], pads[rank + at]);
        let room = image[at] + before + behind - (kernel[at] - 1) * dilations[at] - 1;
        (room >= 0 && kernel[at] > 0).then(|| Side {
            kernel: kernel[at],
            stride: strides[at],
            dilation: dilations[at],
            before,
            behind,
            outputs: room / strides[at] + 1,
        })
    };
    let sides = places
        .filter(|places| (1..=PLACES_MAX).contains(places))
        .and_then(|_| (0..rank).map(side).collect::<Option<Vec<Side>>>());
    let found = Attribute::Ints(kernel.to_vec());
    sides.ok_or_else(|| Problem::attribute("kernel_shape", &found, EXPECTED))
}
