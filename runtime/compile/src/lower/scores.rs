//! Products of a query with keys, on their way to an attention.

use super::view_algebra::{BATCH, View};
use crate::graph::Floats;
use crate::integer::Dim;

/// Products of a query with keys, on their way to an attention.
#[derive(Clone, Debug)]
pub(crate) struct Scores {
    /// Its dimensions are (outer dimensions, queries, channels).
    pub query: View,
    /// (outer dimensions, keys, channels), of the same outer dimensions.
    pub key: View,
    pub scale: f32,
    /// Constants that are added to the scaled products, and the outer dimensions that these had then.
    pub added: Vec<(Vec<Dim>, Floats)>,
    /// One channel of the key's pixels.
    pub padding: Option<View>,
    /// Whether the softmax over the keys has been taken.
    pub softmaxed: bool,
}

impl Scores {
    /// The scores of (outer dimensions, queries, channels) and (the same, channels, keys) times a factor, if all could be
    /// parts of an attention.
    pub fn of(query: View, key: View, scale: f32) -> Option<Self> {
        let rank = query.dims.len();
        if rank < 2 || key.dims.len() != rank {
            return None;
        }
        let mut order: Vec<usize> = (0..rank).collect();
        order.swap(rank - 2, rank - 1);
        let key = key.permute(&order);
        let has_batch = |view: &View| {
            let outer = view.dims[..rank - 2].iter().flatten();
            view.has_one_batch() && outer.copied().any(|digit| digit == BATCH)
        };
        let fits = outer(&query) == outer(&key)
            && query.sizes()[rank - 1] == key.sizes()[rank - 1]
            && has_batch(&query)
            && has_batch(&key);
        fits.then_some(Self {
            query,
            key,
            scale,
            added: Vec::new(),
            padding: None,
            softmaxed: false,
        })
    }

    pub fn sizes(&self) -> Vec<Dim> {
        let rank = self.query.dims.len();
        let mut sizes = self.query.sizes();
        sizes[rank - 1] = self.key.sizes()[rank - 2];
        sizes
    }

    /// Whether nothing but a factor was applied.
    pub fn is_plain(&self) -> bool {
        self.added.is_empty() && self.padding.is_none() && !self.softmaxed
    }

    /// The same scores seen with the dimensions `to`; `None` if these change queries or keys, or no views of both
    /// exist.
    pub fn reshaped(&self, to: &[Dim], fixed: Option<u64>) -> Option<Self> {
        let matrix = |sizes: &[Dim]| sizes.last_chunk::<2>().copied();
        if matrix(to)? != matrix(&self.sizes())? {
            return None;
        }
        let of = |view: &View| {
            let sizes = view.sizes();
            let inner = sizes.last_chunk::<2>()?;
            view.reshape(&[&to[..to.len() - 2], inner].concat(), fixed)
        };
        Some(Self {
            query: of(&self.query)?,
            key: of(&self.key)?,
            ..self.clone()
        })
    }

    /// Takes a factor of all; always true.
    pub fn times(&mut self, factor: f32) -> bool {
        self.scale *= factor;
        for (_, floats) in &mut self.added {
            floats
                .data
                .iter_mut()
                .for_each(|value| *value = (*value * factor).max(f32::MIN));
        }
        true
    }
}

/// The dimensions but for the last two.
pub(super) fn outer(view: &View) -> Vec<Dim> {
    let mut sizes = view.sizes();
    sizes.truncate(sizes.len().saturating_sub(2));
    sizes
}
