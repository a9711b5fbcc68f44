//! Products of two tensors.

use punctual_model::Product;

use super::{Mutable, Operator, Random, Site};

pub(super) fn new(site: &Site<'_>, random: &mut Random) -> Operator {
    site.operator(&[site.other(random)], Product)
}

impl Mutable for Product {}
