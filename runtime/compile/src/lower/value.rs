//! What a value of the graph is: a tensor, or something on the way to one.

use std::rc::Rc;

use super::scores::Scores;
use super::stacked::Stack;
use super::view_algebra::View;
use crate::graph::Constant;
use crate::integer::Dim;

/// What a value of the graph is.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// Not computed: the second result of an operator of which only the first is supported.
    Nothing,
    /// What a node that cannot be lowered would compute.
    Unknown,
    /// A tensor computed from the input.
    View(View),
    /// The softmax of (N, features), not computed yet: before an exit it never is.
    Softmax(View),
    /// A view times a factor, on the way to an attention.
    Scaled(View, f32),
    /// Products on the way to an attention.
    Scores(Scores),
    /// Whether each token counts, from the input's mask.
    Counts(View),
    /// What is added to the products of an attention: nothing where a token counts, else so little
    /// that it has no weight. Without a view, nothing anywhere.
    Padding(Option<View>),
    /// Where weights are no numbers: nowhere.
    NoNumbers,
    /// Values one behind the other along the batch.
    Stacked(Stack),
    /// Positions among those of all images of the batch: the view's, and for each image before this number more.
    Places(View, i64),
    /// Tuples of positions: before those of the view stands the number of the image itself.
    Tuples(View),
    /// Nothing but these dimensions: there are no values, or none that any operator may read.
    Sized(Vec<Dim>),
    /// Known when compiling, but for the batch.
    Constant(Rc<Constant>),
}

impl Value {
    /// Its dimensions, if it is a tensor.
    pub fn sizes(&self) -> Option<Vec<Dim>> {
        match self {
            Self::View(view)
            | Self::Counts(view)
            | Self::Softmax(view)
            | Self::Scaled(view, _)
            | Self::Places(view, _) => Some(view.sizes()),
            Self::Stacked(stack) => stack.sizes(),
            Self::Scores(scores) => Some(scores.sizes()),
            Self::Constant(constant) => Some(constant.sizes()),
            Self::Sized(sizes) => Some(sizes.clone()),
            _ => None,
        }
    }
}
