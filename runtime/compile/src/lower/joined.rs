//! What a tensor was joined from: what takes a part out of it takes it from there.

use std::rc::Rc;

use punctual_model::{Tensor, TensorId};

use super::view_algebra::{Axis, Factor, View};
use crate::graph::Constant;
use crate::integer::Dim;

/// What is joined.
#[derive(Clone, Debug)]
pub(super) enum Part {
    View(View),
    Constant(Rc<Constant>),
}

impl Part {
    pub fn sizes(&self) -> Vec<Dim> {
        match self {
            Self::View(view) => view.sizes(),
            Self::Constant(constant) => {
                let dims = constant.dims.iter();
                dims.map(|&size| Dim::Known(size as i64)).collect()
            }
        }
    }
}

/// What a result was joined from.
#[derive(Clone, Debug)]
pub(super) struct Joined {
    pub seen: View,
    pub dim: usize,
    pub parts: Vec<Part>,
}

impl Joined {
    /// Positions of the joined dimension of one operand, if they are of one only.
    pub fn part(&self, dim: usize, [first, count, step]: [u64; 3]) -> Option<View> {
        let mut start = 0;
        for part in self.parts.iter().filter(|_| dim == self.dim) {
            let Dim::Known(size) = part.sizes()[dim] else {
                return None;
            };
            let end = start + u64::try_from(size).ok()?;
            if let Part::View(view) = part
                && (start..end).contains(&first)
                && first + (count - 1) * step < end
            {
                return view.slice(dim, first - start, count, step);
            }
            start = end;
        }
        None
    }

    /// One operand of a stack, and its dimensions as those of `view`, which is of the same pixels.
    pub fn layer(
        &self,
        view: &View,
        dim: usize,
        at: u64,
        shapes: &[Tensor],
    ) -> Option<(TensorId, Vec<Vec<Factor>>)> {
        let Part::View(part) = self.parts.get(usize::try_from(at).ok()?)? else {
            return None;
        };
        let one = |part: &Part| part.sizes()[self.dim] == Dim::Known(1);
        let seen = &self.seen;
        let shape = |view: &View| shapes[view.tensor.index()];
        let channels = shape(seen).channels;
        let tokens = |dim: usize| {
            seen.is_whole(dim, Axis::Channel, channels)
                && part.is_whole(dim, Axis::Channel, shape(part).channels)
        };
        let fits = self.parts.iter().all(one)
            && view.dims[dim] == seen.dims[self.dim]
            && view.start == [0; 3]
            && part.start == [0; 3]
            && part.covers(shape(part))
            && (0..seen.dims.len()).any(tokens);
        let channel = |digit: &Factor| digit.axis == Axis::Channel;
        let own = |(at, digits): (usize, &Vec<Factor>)| {
            if at == dim || digits.is_empty() {
                return Some(Vec::new());
            }
            if digits.iter().all(channel) {
                return Some(digits.clone());
            }
            let same = seen.dims.iter().position(|other| other == digits)?;
            Some(part.dims[same].clone())
        };
        let dims: Option<_> = view.dims.iter().enumerate().map(own).collect();
        Some((part.tensor, dims.filter(|_| fits)?))
    }

    /// The same operands with the joined dimension cut into several: as a whole they would have to be moved again.
    pub fn split(&self, sizes: &[Dim]) -> Option<Vec<Part>> {
        let from = self.seen.sizes();
        let after = from.len() - self.dim - 1;
        let inner = sizes.get(self.dim + 1..sizes.len().checked_sub(after)?)?;
        let kept = from[..self.dim] == sizes[..self.dim]
            && from[self.dim + 1..] == sizes[sizes.len() - after..];
        if !kept || inner.is_empty() {
            return None;
        }
        let known = |dim: &Dim| match *dim {
            Dim::Known(size) => Some(size),
            Dim::Batches(_) => None,
        };
        let each = inner.iter().map(known).product::<Option<i64>>()?;
        let cut = |part: &Part| {
            let (Part::View(view), Dim::Known(size)) = (part, part.sizes()[self.dim]) else {
                return None;
            };
            let mut to = sizes.to_vec();
            to[self.dim] = Dim::Known(size.checked_div(each).filter(|_| size % each == 0)?);
            view.reshape(&to, None).map(Part::View)
        };
        self.parts.iter().map(cut).collect()
    }
}
