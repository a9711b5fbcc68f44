//! Rotary embeddings: pairs of values of each token turned by an angle that grows with its position.

use std::ops::Range;

use super::Row;
use crate::graph::{Attribute, Data, Node, ValueId};
use crate::integer::Dim;
use crate::lower::lowering::Lowering;
use crate::lower::value::Value;
use crate::lower::vocabulary::{OnnxOperator, family};
use crate::problem::Problem;

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "RotaryEmbedding" => compose rotary_embedding(Operands { cosine: 1, sine: 2, positions: 3 }),
};

pub(super) const OPERATORS_OF_MICROSOFT: &[OnnxOperator] = family! {
    "RotaryEmbedding" => compose rotary_embedding(Operands { cosine: 2, sine: 3, positions: 1 }),
};

/// Where the operands lie behind the data.
#[derive(Clone, Copy)]
struct Operands {
    cosine: usize,
    sine: usize,
    positions: usize,
}

/// Those of `GroupQueryAttention`.
const OF_GROUPS: Operands = Operands {
    cosine: 7,
    sine: 8,
    positions: 9,
};

impl Lowering<'_> {
    fn rotary_embedding(&mut self, node: &Node, at: Operands) -> Result<(), Problem> {
        let mut row = self.row(node, 4, 1)?;
        let mut attributes = row.attributes();
        let heads = attributes.int("num_heads", 0)?;
        let turned = attributes.int("rotary_embedding_dim", 0)?;
        let interleaved = attributes.int("interleaved", 0)? != 0;
        attributes.only("is_packed_batching", 0, "0")?;
        match attributes.float("scale", 1.0)? {
            1.0 => {}
            other => return Err(Problem::attribute("scale", &other, "1")),
        }
        attributes.finish()?;
        let data = row.operand(0, "data")?;
        let sizes = row.sizes(0, "data")?;
        // Tokens with all heads behind each other become (batch, heads, tokens, values).
        let merged = sizes.len() == 3;
        let half = row.pairs(at)?;
        let each = match heads {
            0 => -1,
            heads => heads,
        };
        let split = match each {
            -1 if turned == 0 => vec![0, 0, -1, 2 * half],
            _ => vec![0, 0, each, -1],
        };
        let data = if merged {
            let split = row.reshape(data, split)?;
            row.transpose(split, &[0, 2, 1, 3])?
        } else {
            data
        };
        let angles = [(at.cosine, "cosines"), (at.sine, "sines")];
        let [cosine, sine] = angles.map(|(position, what)| row.angles(at, position, what, &sizes));
        let result = row.turned(data, [cosine?, sine?], half, interleaved)?;
        let result = if merged {
            let tokens = row.transpose(result, &[0, 2, 1, 3])?;
            row.reshape(tokens, [0, 0, -1])?
        } else {
            result
        };
        row.give(0, result);
        Ok(())
    }
}

impl Row<'_, '_, '_> {
    /// How many pairs of values are turned.
    fn pairs(&self, at: Operands) -> Result<i64, Problem> {
        match self.sizes(at.cosine, "cosines")?.last() {
            Some(&Dim::Known(pairs)) => Ok(pairs),
            _ => Err(self.wrong(at.cosine, "cosines", "a table of known size")),
        }
    }

    /// Cosines or sines of each token as (batch, 1, tokens, pairs).
    fn angles(
        &mut self,
        at: Operands,
        position: usize,
        what: &'static str,
        data: &[Dim],
    ) -> Result<ValueId, Problem> {
        let table = self.operand(position, what)?;
        let Some(positions) = self.optional(at.positions) else {
            return self.unsqueeze(table, 1);
        };
        let positions = self.counted_from(positions, data).unwrap_or(positions);
        self.looked_up(table, positions)
    }

    fn looked_up(&mut self, table: ValueId, positions: ValueId) -> Result<ValueId, Problem> {
        let angles = self.with("Gather", &[table, positions], [("axis", Attribute::Int(0))])?;
        self.unsqueeze(angles, 1)
    }

    /// Heads turned by the angles of a grouped attention, of these positions where no others are given.
    pub(super) fn turned_from(
        &mut self,
        heads: ValueId,
        positions: Range<i64>,
        interleaved: bool,
    ) -> Result<ValueId, Problem> {
        let half = self.pairs(OF_GROUPS)?;
        let positions = match self.optional(OF_GROUPS.positions) {
            Some(given) => given,
            None => {
                let all: Vec<i64> = positions.collect();
                self.constant(vec![1, all.len()], Data::Ints(all))
            }
        };
        let tables = [(OF_GROUPS.cosine, "cosines"), (OF_GROUPS.sine, "sines")];
        let [cosine, sine] = tables.map(|(at, what)| {
            let table = self.operand(at, what)?;
            self.looked_up(table, positions)
        });
        self.turned(heads, [cosine?, sine?], half, interleaved)
    }

    /// The positions of all tokens, where only that of the first one is given.
    fn counted_from(&mut self, positions: ValueId, data: &[Dim]) -> Option<ValueId> {
        let Value::Constant(first) = self.lowering.value(positions) else {
            return None;
        };
        let (Data::Ints(first), [1], [.., Dim::Known(tokens), _]) =
            (&first.data, &first.dims[..], data)
        else {
            return None;
        };
        let first = first[0];
        let all: Vec<i64> = (first..first.saturating_add(*tokens)).collect();
        Some(self.constant(vec![1, all.len()], Data::Ints(all)))
    }

    fn turned(
        &mut self,
        data: ValueId,
        [cosine, sine]: [ValueId; 2],
        half: i64,
        interleaved: bool,
    ) -> Result<ValueId, Problem> {
        let all = 2 * half;
        let halves = if interleaved {
            [[0, all, 2], [1, all, 2]]
        } else {
            [[0, half, 1], [half, all, 1]]
        };
        let [first, second] = halves.map(|range| self.slice(data, 3, range));
        let (first, second) = (first?, second?);
        let mut product = |a, b| self.of("Mul", &[a, b]);
        let near = [product(first, cosine)?, product(second, sine)?];
        let far = [product(first, sine)?, product(second, cosine)?];
        let near = self.of("Sub", &near)?;
        let far = self.of("Add", &far)?;
        let turned = if interleaved {
            let pair = [self.unsqueeze(near, 4)?, self.unsqueeze(far, 4)?];
            let pairs = self.concat(&pair, 4)?;
            self.reshape(pairs, [0, 0, 0, -1])?
        } else {
            self.concat(&[near, far], 3)?
        };
        let sizes = self.lowering.value(data).sizes();
        match sizes.as_deref().and_then(<[Dim]>::last) {
            Some(&Dim::Known(values)) if values > all => {
                let rest = self.slice(data, 3, [all, values, 1])?;
                self.concat(&[turned, rest], 3)
            }
            _ => Ok(turned),
        }
    }
}
