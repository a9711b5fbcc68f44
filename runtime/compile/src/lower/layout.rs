//! How a view's values are laid out in a tensor of their own: on which of its axes each dimension goes.

use punctual_model::{Tensor, TensorId};
use punctual_types::{Digit, View as Plain};

use super::view_algebra::{Axis, Factor, View, normal};

/// A view's values in a tensor of their own.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Laid {
    /// What the tensor holds, in the order channel, row, column.
    pub values: Plain,
    pub shape: Tensor,
    /// The view's dimensions, of that tensor.
    dims: Vec<Vec<Factor>>,
}

impl Laid {
    /// The same dimensions of the tensor that it became.
    pub fn seen(self, tensor: TensorId) -> View {
        View {
            tensor,
            start: [0; 3],
            dims: self.dims,
        }
    }

    /// Whether it is all of a tensor of this shape as that is.
    pub fn is(&self, shape: Tensor) -> bool {
        self.shape == shape && self.values.start[0] == 0 && self.is_of_channels(shape)
    }

    /// Whether the view is consecutive channels of all pixels of a tensor of this shape, in their order.
    pub fn is_of_channels(&self, shape: Tensor) -> bool {
        self.shape.extent() == shape.extent()
            && self.values.start[1..] == [0; 2]
            && merged(self.values.digits.iter().copied())
                == merged(Plain::plain(self.shape.sides()).digits.into_iter())
    }
}

impl View {
    /// Its values in a tensor of their own, each digit on the axis that is given for it and its dimension; of an
    /// axis the dimensions in `order`, the outermost first. `None` if a number does not fit.
    pub(super) fn laid_out(
        &self,
        order: &[usize],
        axis: impl Fn(usize, &Factor) -> Axis,
    ) -> Option<Laid> {
        let mut sizes = [1_u64; 3];
        let mut dims = self.dims.clone();
        let mut placed = [const { Vec::new() }; 3];
        for &at in order.iter().rev() {
            for factor in dims[at].iter_mut().rev() {
                if factor.axis == Axis::Batch {
                    continue;
                }
                let to = axis(at, factor);
                let at = to.index()?;
                placed[at].push(factor.digit()?);
                let size = &mut sizes[at];
                factor.axis = to;
                factor.step = *size;
                *size = size.checked_mul(factor.extent)?;
            }
        }
        let [channels, height, width] = sizes.map(|size| u32::try_from(size).ok());
        let placed = placed.map(|digits| merged(digits.into_iter().rev()));
        Some(Laid {
            values: Plain {
                start: self.first()?,
                digits: placed.concat(),
            },
            shape: Tensor {
                channels: channels?,
                height: height?,
                width: width?,
            },
            dims: dims.into_iter().map(normal).collect(),
        })
    }

    /// Each dimension on one axis.
    pub(super) fn on_axes(&self, axes: &[Axis]) -> Option<Laid> {
        let order: Vec<usize> = (0..self.dims.len()).collect();
        self.laid_out(&order, |dim, _| axes[dim])
    }

    /// Each value on the axes on which it is: what a view leaves out is left out, what it repeats is repeated along the
    /// columns, and no lanes change places.
    pub(super) fn compact(&self) -> Option<Laid> {
        let order: Vec<usize> = (0..self.dims.len()).collect();
        self.laid_out(&order, |_, factor| match factor.axis {
            Axis::Repeat => Axis::Column,
            axis => axis,
        })
    }

    /// The axes for a tensor that keeps the view's dimensions: channels stay channels if some dimension has no others,
    /// the last of all other dimensions becomes the columns, the rest the rows.
    pub(super) fn natural_axes(&self) -> Vec<Axis> {
        let values = |dim: &[Factor]| {
            let digits = dim.iter().filter(|digit| digit.axis != Axis::Batch);
            digits.copied().collect::<Vec<_>>()
        };
        let dims: Vec<Vec<Factor>> = self.dims.iter().map(|dim| values(dim)).collect();
        let channels = |dim: &Vec<Factor>| {
            !dim.is_empty() && dim.iter().all(|digit| digit.axis == Axis::Channel)
        };
        let mut axes = vec![Axis::Row; dims.len()];
        for (axis, _) in axes.iter_mut().zip(&dims).filter(|(_, dim)| channels(dim)) {
            *axis = Axis::Channel;
        }
        let has_channels = |dim: &usize| dims[*dim].iter().any(|digit| digit.axis == Axis::Channel);
        let one_channel = dims.len() > 2 && dims[1].is_empty();
        if !dims.iter().any(channels) && !one_channel {
            let dim = (1..dims.len()).find(has_channels).unwrap_or(1);
            // A list of images alone has no such dimension.
            if let Some(axis) = axes.get_mut(dim) {
                *axis = Axis::Channel;
            }
        }
        let last = (0..dims.len()).rfind(|&dim| axes[dim] == Axis::Row && !dims[dim].is_empty());
        if let Some(last) = last {
            axes[last] = Axis::Column;
        }
        axes
    }

    /// The axes for tokens: the last dimension is the channels, the one before it the columns.
    pub(super) fn token_axes(&self) -> Vec<Axis> {
        let rank = self.dims.len();
        let axis = |dim| match rank - dim {
            1 => Axis::Channel,
            2 => Axis::Column,
            _ => Axis::Row,
        };
        (0..rank).map(axis).collect()
    }

    /// Its values in the order in which those of `other`, which covers its tensor, lie there; `None` if the digits of
    /// some dimension do not divide each other.
    pub(super) fn in_order_of(&self, other: &Self) -> Option<Plain> {
        if self.dims.len() != other.dims.len() {
            return None;
        }
        let mut pairs = Vec::new();
        for (own, others) in self.dims.iter().zip(&other.dims) {
            pair_digits(own, others, &mut pairs)?;
        }
        // The digits of an axis, by their steps, are those of its positions.
        pairs.sort_by_key(|(_, to)| (to.axis.index(), std::cmp::Reverse(to.step)));
        Some(Plain {
            start: self.first()?,
            digits: pairs
                .iter()
                .map(|(from, _)| from.digit())
                .collect::<Option<_>>()?,
        })
    }

    /// The digits of one image of some dimensions, in order.
    pub(super) fn digits(&self, dims: impl Iterator<Item = usize>) -> Option<Vec<Digit>> {
        let factors = dims.flat_map(|dim| &self.dims[dim]);
        let values = factors.filter(|factor| factor.axis != Axis::Batch);
        values.map(Factor::digit).collect()
    }
}

/// The same positions in as few digits as possible.
fn merged(digits: impl Iterator<Item = Digit>) -> Vec<Digit> {
    let mut kept: Vec<Digit> = Vec::new();
    for digit in digits.filter(|digit| digit.extent > 1) {
        match kept.last_mut() {
            Some(outer)
                if outer.axis == digit.axis
                    && digit.axis != punctual_types::Axis::Repeat
                    && Some(outer.step) == digit.step.checked_mul(digit.extent) =>
            {
                outer.extent *= digit.extent;
                outer.step = digit.step;
            }
            _ => kept.push(digit),
        }
    }
    kept
}

/// The digits of one dimension of two views, cut to equal extents.
fn pair_digits(own: &[Factor], others: &[Factor], pairs: &mut Vec<(Factor, Factor)>) -> Option<()> {
    let (mut own, mut others) = (own.to_vec(), others.to_vec());
    loop {
        let (mut from, mut to) = match (own.pop(), others.pop()) {
            (None, None) => return Some(()),
            (Some(from), Some(to)) => (from, to),
            _ => return None,
        };
        if from.axis == Axis::Batch || to.axis == Axis::Batch {
            if from.axis != to.axis {
                return None;
            }
            continue;
        }
        let taken = from.extent.min(to.extent);
        for (digit, rest) in [(&mut from, &mut own), (&mut to, &mut others)] {
            if !digit.extent.is_multiple_of(taken) {
                return None;
            }
            if digit.extent > taken {
                rest.push(Factor {
                    step: digit.step * taken,
                    extent: digit.extent / taken,
                    ..*digit
                });
                digit.extent = taken;
            }
        }
        pairs.push((from, to));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::integer::Dim;

    const SHAPE: Tensor = Tensor {
        channels: 12,
        height: 4,
        width: 6,
    };

    fn image() -> View {
        View::image(TensorId(7), SHAPE)
    }

    fn reshaped(view: &View, known: &[i64]) -> View {
        let known = known.iter().map(|&size| Dim::Known(size));
        let sizes: Vec<Dim> = std::iter::once(Dim::Batches(1)).chain(known).collect();
        view.reshape(&sizes, None).unwrap()
    }

    fn values(laid: &Laid) -> Vec<[u32; 3]> {
        laid.values.positions().collect()
    }

    #[test]
    fn a_tensor_as_it_is_needs_no_copy() {
        let axes = image().natural_axes();
        assert_eq!(axes[1..], [Axis::Channel, Axis::Row, Axis::Column]);
        assert!(image().on_axes(&axes).unwrap().is(SHAPE));
        // Nor do heads, which are some of its channels each.
        let heads = reshaped(&image(), &[3, 4, 24]);
        let axes = [Axis::Batch, Axis::Channel, Axis::Channel, Axis::Column];
        let row = Tensor {
            height: 1,
            width: 24,
            ..SHAPE
        };
        assert!(
            !heads.on_axes(&axes).unwrap().is(row),
            "rows become columns"
        );
        let series = View::image(TensorId(7), row);
        let heads = reshaped(&series, &[3, 4, 24]);
        assert!(heads.on_axes(&axes).unwrap().is(row));
        let swapped = image().permute(&[0, 1, 3, 2]);
        let laid = swapped.on_axes(&swapped.natural_axes()).unwrap();
        assert!(!laid.is(SHAPE));
        assert_eq!((laid.shape.height, laid.shape.width), (6, 4));
    }

    #[test]
    fn anchors_become_tokens_of_their_classes() {
        // (N, 12, 4, 6) as (N, 24 pixels x 3 anchors, 4 classes).
        let anchors = reshaped(&image(), &[3, 4, 4, 6]).permute(&[0, 3, 4, 1, 2]);
        let anchors = reshaped(&anchors, &[72, 4]);
        assert_eq!(anchors.natural_axes()[1..], [Axis::Column, Axis::Channel]);
        let laid = anchors.on_axes(&anchors.natural_axes()).unwrap();
        let Tensor {
            channels, width, ..
        } = laid.shape;
        assert_eq!((channels, width), (4, 72));
        assert_eq!(
            values(&laid)[..4],
            [[0, 0, 0], [4, 0, 0], [8, 0, 0], [0, 0, 1]]
        );
        let seen = laid.seen(TensorId(9));
        assert!(seen.is_whole(2, Axis::Channel, 4) && seen.is_whole(1, Axis::Column, 72));
    }

    #[test]
    fn what_is_left_out_of_a_view_is_left_out_of_its_copy() {
        let part = image()
            .slice(2, 1, 2, 2)
            .unwrap()
            .slice(1, 4, 4, 1)
            .unwrap();
        let laid = part.compact().unwrap();
        assert_eq!(
            laid.shape,
            Tensor {
                channels: 4,
                height: 2,
                ..SHAPE
            }
        );
        assert_eq!(values(&laid)[0], [4, 1, 0]);
        assert!(laid.seen(TensorId(9)).is_image(Tensor {
            channels: 4,
            height: 2,
            ..SHAPE
        }));
    }

    #[test]
    fn a_view_is_read_in_the_order_of_another() {
        // Rows and columns against columns and rows.
        let first = image();
        let second = View::image(
            TensorId(8),
            Tensor {
                height: 6,
                width: 4,
                ..SHAPE
            },
        );
        let second = second.permute(&[0, 1, 3, 2]);
        let order = second.in_order_of(&first).unwrap();
        let positions: Vec<_> = order.positions().take(7).collect();
        assert_eq!(positions[..2], [[0, 0, 0], [0, 1, 0]]);
        assert_eq!(positions[6], [0, 0, 1]);
        // 24 pixels in one dimension.
        let (first, second) = (reshaped(&first, &[12, 24]), reshaped(&second, &[12, 24]));
        assert_eq!(second.in_order_of(&first), Some(order));
        let torn = reshaped(&image().permute(&[0, 1, 3, 2]), &[12, 24]);
        assert_eq!(torn.in_order_of(&first), None);
    }

    #[test]
    fn the_batch_stays_where_it_is() {
        let heads = reshaped(&image(), &[3, 4, 24])
            .reshape(&[Dim::Batches(3), Dim::Known(4), Dim::Known(24)], None);
        let heads = heads.unwrap();
        let laid = heads.on_axes(&heads.token_axes()).unwrap();
        let Tensor {
            channels,
            height,
            width,
        } = laid.shape;
        assert_eq!((channels, height, width), (24, 3, 4));
        assert_eq!(laid.seen(TensorId(9)).sizes(), heads.sizes());
    }
}
