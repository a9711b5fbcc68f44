//! Attention as one operator: products of heads with a mask and a softmax between them, as exporters without the
//! operator write it.

use super::Row;
use crate::graph::{Attribute, Attributes, Data, Node, ValueId};
use crate::integer::Dim;
use crate::lower::lowering::Lowering;
use crate::lower::numbers::Numbers;
use crate::lower::value::Value;
use crate::lower::vocabulary::{OnnxOperator, family};
use crate::problem::Problem;
use crate::schema::data_type;

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "Attention" => compose attention_of_heads(),
};

pub(super) const OPERATORS_OF_MICROSOFT: &[OnnxOperator] = family! {
    "Attention" => compose attention_with_weights(),
    "GroupQueryAttention" => compose group_query_attention(),
    "MultiHeadAttention" => compose multi_head_attention(),
};

/// What stands between the products of an attention.
struct Scoring {
    /// Of the products; of none is said, one by the root of a head's values.
    scale: Option<f32>,
    softcap: f32,
    reach: Reach,
    /// Added to the products, one after the other.
    added: Vec<ValueId>,
    /// Whether a query may see a key; of queries that see none the result is zero.
    seen: Option<ValueId>,
}

impl Scoring {
    const fn plain(scale: Option<f32>, reach: Reach, added: Vec<ValueId>) -> Self {
        Self {
            scale,
            softcap: 0.0,
            reach,
            added,
            seen: None,
        }
    }
}

/// Added to a product that gets no weight. Finite, as weights must be.
const UNSEEN: f32 = f32::MIN;

/// The keys that a query sees, by how far they are from it.
#[derive(Clone, Copy)]
struct Reach {
    before: Option<i64>,
    behind: Option<i64>,
    /// Keys before that of the first query.
    past: i64,
}

impl Reach {
    const fn of(causal: bool) -> Self {
        let behind = if causal { Some(0) } else { None };
        Self {
            before: None,
            behind,
            past: 0,
        }
    }

    fn is_bounded(self) -> bool {
        self.before.is_some() || self.behind.is_some()
    }

    /// Whether a query sees a key; `None` where all see all.
    fn mask(self, queries: i64, keys: i64) -> Option<Vec<bool>> {
        let sees = move |query: i64, key: i64| {
            let own = query + self.past;
            self.before.is_none_or(|before| key >= own - before)
                && self
                    .behind
                    .is_none_or(|behind| key <= own.saturating_add(behind))
        };
        let pairs = (0..queries).flat_map(|query| (0..keys).map(move |key| (query, key)));
        let mask: Vec<bool> = pairs.map(|(query, key)| sees(query, key)).collect();
        mask.contains(&false).then_some(mask)
    }
}

/// What a mask adds to the products, and whether a query may see a key at all, where that is not known from elsewhere.
struct Mask {
    added: ValueId,
    seen: Option<ValueId>,
}

/// Queries, keys and values as (batch, heads, tokens, values).
type Heads = [ValueId; 3];

impl Lowering<'_> {
    /// ONNX's own.
    fn attention_of_heads(&mut self, node: &Node) -> Result<(), Problem> {
        let mut row = self.row(node, 7, 3)?;
        let mut attributes = row.attributes();
        let heads = attributes.int("q_num_heads", 0)?;
        let key_heads = attributes.int("kv_num_heads", heads)?;
        let mut reach = Reach::of(attributes.int("is_causal", 0)? != 0);
        let bound = |size: i64| (size >= 0).then_some(size);
        reach.before = bound(attributes.int("left_window_size", -1)?);
        let behind = bound(attributes.int("right_window_size", -1)?);
        reach.behind = reach.behind.into_iter().chain(behind).min();
        let scale = row.scale(&mut attributes)?;
        let softcap = attributes.float("softcap", 0.0)?;
        attributes.ignore("softmax_precision"); // f32 throughout.
        attributes.ignore("qk_matmul_output_mode"); // Of a result that is refused.
        attributes.finish()?;
        let merged = row.sizes(0, "queries")?.len() == 3;
        let operands = [(0, "queries"), (1, "keys"), (2, "values")];
        let mut parts = Vec::with_capacity(3);
        for (position, what) in operands {
            let operand = row.operand(position, what)?;
            let heads = if position == 0 { heads } else { key_heads };
            parts.push(if merged {
                row.heads(operand, heads)?
            } else {
                operand
            });
        }
        let parts = row.behind_past([parts[0], parts[1], parts[2]], [4, 5])?;
        reach.past = row.past(4)?;
        let mut scoring = Scoring {
            softcap,
            ..Scoring::plain(scale, reach, Vec::new())
        };
        let masks = [row.mask(3, "attn_mask")?, row.counted(6, parts, reach)?];
        for mask in masks.into_iter().flatten() {
            scoring.added.push(mask.added);
            scoring.seen = row.both(scoring.seen, mask.seen)?;
        }
        let parts = row.shared(parts)?;
        let result = row.attended(parts, scoring)?;
        let result = if merged { row.merged(result)? } else { result };
        row.give(0, result);
        Ok(())
    }

    /// onnxruntime's of queries, keys and values that are computed before.
    fn multi_head_attention(&mut self, node: &Node) -> Result<(), Problem> {
        let mut row = self.row(node, 8, 3)?;
        let mut attributes = row.attributes();
        let heads = attributes.int("num_heads", 0)?;
        let mut reach = Reach::of(attributes.int("unidirectional", 0)? != 0);
        let scale = row.scale(&mut attributes)?;
        let filter = attributes.float("mask_filter_value", -10000.0)?;
        attributes.finish()?;
        let parts = row.apart(heads)?;
        row.check_alike(parts, reach)?;
        let parts = row.behind_past(parts, [6, 7])?;
        reach.past = row.past(6)?;
        let mut added: Vec<ValueId> = row.padding(4, filter)?.into_iter().collect();
        added.extend(row.optional(5));
        row.give_attended(parts, Scoring::plain(scale, reach, added))
    }

    /// onnxruntime's of fewer heads of keys than of queries, each of which sees what comes before it.
    fn group_query_attention(&mut self, node: &Node) -> Result<(), Problem> {
        let mut row = self.row(node, 11, 3)?;
        let mut attributes = row.attributes();
        let heads = attributes.int("num_heads", 0)?;
        let key_heads = attributes.int("kv_num_heads", 0)?;
        let scale = row.scale(&mut attributes)?;
        let softcap = attributes.float("softcap", 0.0)?;
        let before = match attributes.int("local_window_size", -1)? {
            -1 => None,
            keys @ 1.. => Some(keys - 1),
            other => {
                let supported = "-1, or at least one key";
                return Err(Problem::attribute("local_window_size", &other, supported));
            }
        };
        let turns = attributes.int("do_rotary", 0)? != 0;
        let interleaved = attributes.int("rotary_interleaved", 0)? != 0;
        attributes.only("smooth_softmax", 0, "0")?;
        attributes.only("qk_output", 0, "0")?;
        attributes.finish()?;
        let past = row.past(3)?;
        let reach = Reach {
            before,
            past,
            ..Reach::of(true)
        };
        let mut parts = row.grouped(heads, key_heads)?;
        let [tokens, _] = row.last_sizes(parts[0])?;
        let all = past.saturating_add(tokens);
        row.all_count(5, "seqlens_k", all - 1)?;
        row.all_count(6, "total_sequence_length", all)?;
        if turns {
            for part in &mut parts[..2] {
                *part = row.turned_from(*part, past..all, interleaved)?;
            }
        }
        let parts = row.behind_past(parts, [3, 4])?;
        let parts = row.shared(parts)?;
        let added = row.optional(10).into_iter().collect();
        let scoring = Scoring {
            softcap,
            ..Scoring::plain(scale, reach, added)
        };
        row.give_attended(parts, scoring)
    }

    /// onnxruntime's with the weights of queries, keys and values.
    fn attention_with_weights(&mut self, node: &Node) -> Result<(), Problem> {
        let mut row = self.row(node, 6, 1)?;
        row.without(4, "past")?;
        let mut attributes = row.attributes();
        let heads = attributes.int("num_heads", 0)?;
        let reach = Reach::of(attributes.int("unidirectional", 0)? != 0);
        let scale = row.scale(&mut attributes)?;
        let filter = attributes.float("mask_filter_value", -10000.0)?;
        let sizes = attributes.ints("qkv_hidden_sizes")?.map(<[i64]>::to_vec);
        attributes.only("do_rotary", 0, "0")?;
        attributes.ignore("past_present_share_buffer");
        attributes.ignore("rotary_embedding_dim");
        attributes.finish()?;
        let operands = [row.operand(0, "data")?, row.operand(1, "weights")?];
        let mut all = row.of("MatMul", &operands)?;
        if let Some(bias) = row.optional(2) {
            all = row.of("Add", &[all, bias])?;
        }
        let columns = match row.sizes(1, "weights")?[..] {
            [_, Dim::Known(columns)] => columns,
            _ => return Err(row.wrong(1, "weights", "a matrix")),
        };
        let sizes = sizes.unwrap_or_else(|| vec![columns / 3; 3]);
        let Ok(sizes) = <[i64; 3]>::try_from(&sizes[..]) else {
            let found = Attribute::Ints(sizes);
            return Err(Problem::attribute(
                "qkv_hidden_sizes",
                &found,
                "three sizes",
            ));
        };
        let mut parts = row.in_a_row(all, sizes)?;
        for part in &mut parts {
            *part = row.heads(*part, heads)?;
        }
        let mut added: Vec<ValueId> = row.padding(3, filter)?.into_iter().collect();
        added.extend(row.optional(5));
        row.give_attended(parts, Scoring::plain(scale, reach, added))
    }
}

impl Row<'_, '_, '_> {
    fn scale(&self, attributes: &mut Attributes<'_>) -> Result<Option<f32>, Problem> {
        let scale = attributes.float("scale", 0.0)?;
        Ok((scale != 0.0).then_some(scale))
    }

    /// Of other numbers of queries and keys onnxruntime lets the last query alone see all keys.
    fn check_alike(&self, [queries, keys, _]: Heads, reach: Reach) -> Result<(), Problem> {
        if !reach.is_bounded() || self.last_sizes(queries)?[0] == self.last_sizes(keys)?[0] {
            return Ok(());
        }
        let supported = "0, or 1 for as many keys as queries";
        Err(Problem::attribute(
            "unidirectional",
            &Attribute::Int(1),
            supported,
        ))
    }

    /// (batch, tokens, values) as (batch, heads, tokens, values).
    fn heads(&mut self, tokens: ValueId, heads: i64) -> Result<ValueId, Problem> {
        if heads < 1 {
            let supported = "a positive number of heads";
            return Err(Problem::attribute("num_heads", &heads, supported));
        }
        let split = self.reshape(tokens, [0, 0, heads, -1])?;
        self.transpose(split, &[0, 2, 1, 3])
    }

    fn merged(&mut self, heads: ValueId) -> Result<ValueId, Problem> {
        let tokens = self.transpose(heads, &[0, 2, 1, 3])?;
        self.reshape(tokens, [0, 0, -1])
    }

    /// Queries, keys and values with their part of the bias, which is a constant.
    fn biased(&mut self, mut parts: Heads) -> Result<Heads, Problem> {
        let Some(bias) = self.optional(3) else {
            return Ok(parts);
        };
        let mut start = 0;
        for part in &mut parts {
            let sizes = self.lowering.value(*part).sizes();
            let Some([_, _, Dim::Known(values)]) = sizes.as_deref() else {
                return Err(self.wrong(3, "bias", "none where keys have heads already"));
            };
            let end = start + values;
            let own = self.slice(bias, 0, [start, end, 1])?;
            *part = self.of("Add", &[*part, own])?;
            start = end;
        }
        Ok(parts)
    }

    /// Keys and values that several heads of queries share, repeated for each of them.
    fn shared(&mut self, [queries, keys, values]: Heads) -> Result<Heads, Problem> {
        let count = |row: &Self, id| match row.lowering.value(id).sizes().as_deref() {
            Some(&[_, Dim::Known(heads), _, _]) => Some(heads),
            _ => None,
        };
        let (Some(of_queries), Some(of_keys)) = (count(self, queries), count(self, keys)) else {
            return Err(self.wrong(
                0,
                "queries",
                "(batch, heads, tokens, values), or heads that attributes tell",
            ));
        };
        if of_queries == of_keys {
            return Ok([queries, keys, values]);
        }
        if of_keys == 0 || of_queries % of_keys != 0 {
            return Err(self.wrong(
                1,
                "keys",
                "as many heads as a divisor of those of the queries",
            ));
        }
        let mut repeated = |part| {
            let apart = self.unsqueeze(part, 2)?;
            let times = self.integers([1, 1, of_queries / of_keys, 1, 1]);
            let each = self.of("Expand", &[apart, times])?;
            let [tokens, values] = self.last_sizes(part)?;
            self.reshape(each, [0, of_queries, tokens, values])
        };
        Ok([queries, repeated(keys)?, repeated(values)?])
    }

    /// A boolean mask takes away the weight where it is false.
    fn mask(&mut self, position: usize, what: &'static str) -> Result<Option<Mask>, Problem> {
        let Some(mask) = self.optional(position) else {
            return Ok(None);
        };
        self.sizes(position, what)?;
        if self.lowering.numbers(self.node, position) != Numbers::Floats {
            let added = self.chosen(mask, UNSEEN)?;
            // What is known of the input's own mask an attention has itself.
            let is_of_tokens = matches!(self.lowering.value(mask), Value::Counts(_));
            let seen = (!is_of_tokens).then_some(mask);
            return Ok(Some(Mask { added, seen }));
        }
        let Value::Constant(constant) = self.lowering.value(mask) else {
            let (added, seen) = (mask, None);
            return Ok(Some(Mask { added, seen }));
        };
        let Data::Floats(values) = &constant.data else {
            return Err(self.wrong(position, what, "floats or booleans"));
        };
        let dims = constant.dims.clone();
        let seen = values
            .iter()
            .map(|value| i64::from(*value != f32::NEG_INFINITY));
        let seen = Data::Ints(seen.collect());
        let added = values.iter().map(|value| value.max(UNSEEN)).collect();
        let added = self.constant(dims.clone(), Data::Floats(added));
        let seen = Some(self.constant(dims, seen));
        Ok(Some(Mask { added, seen }))
    }

    /// What the mask (batch, tokens) of the keys adds to the products.
    fn padding(&mut self, position: usize, filter: f32) -> Result<Option<ValueId>, Problem> {
        let Some(mask) = self.optional(position) else {
            return Ok(None);
        };
        let axes = match self.sizes(position, "mask")?.len() {
            2 => vec![1, 2],
            3 => vec![1],
            _ => return Err(self.wrong(position, "mask", "(batch, tokens)")),
        };
        let mut counts = self.cast(mask, data_type::BOOL)?;
        if !matches!(self.lowering.value(counts), Value::Counts(_)) {
            let zero = self.constant(vec![], Data::Ints(vec![0]));
            counts = self.of("Greater", &[mask, zero])?;
        }
        let axes = self.integers(axes);
        let mask = self.of("Unsqueeze", &[counts, axes])?;
        self.chosen(mask, filter).map(Some)
    }

    /// 0 where the mask is true, else that value.
    fn chosen(&mut self, mask: ValueId, unseen: f32) -> Result<ValueId, Problem> {
        let [seen, unseen] = [0.0, unseen].map(|value| self.number(value));
        self.of("Where", &[mask, seen, unseen])
    }

    /// How many tokens there are, and how many values each has.
    fn last_sizes(&self, heads: ValueId) -> Result<[i64; 2], Problem> {
        let sizes = self.lowering.value(heads).sizes();
        let size = |size: &Dim| match *size {
            Dim::Known(size) => Some(size),
            // In a file for one image at a time the batch may lie anywhere.
            Dim::Batches(size) => Some(size).filter(|_| self.lowering.fixed == Some(1)),
        };
        let sizes: Option<Vec<i64>> =
            sizes.and_then(|sizes| sizes.iter().map(size).skip(2).collect());
        match sizes.as_deref() {
            Some(&[tokens, values]) => Ok([tokens, values]),
            _ => Err(self.wrong(
                0,
                "queries",
                "(batch, heads, tokens, values) of known sizes",
            )),
        }
    }

    /// Queries, keys and values that lie by themselves or in one tensor, (batch, tokens, heads, 3, values).
    fn apart(&mut self, heads: i64) -> Result<Heads, Problem> {
        let queries = self.operand(0, "queries")?;
        let rank = self.sizes(0, "queries")?.len();
        let parts = match (self.optional(1), self.optional(2)) {
            (None, None) if rank == 5 => self.unpacked(queries)?,
            (Some(keys), None) if rank == 3 && self.sizes(1, "keys")?.len() == 5 => {
                let [keys, values] = self.unpacked(keys)?;
                [queries, keys, values]
            }
            (Some(keys), Some(values)) if rank == 3 => [queries, keys, values],
            _ => {
                let expected =
                    "(batch, tokens, values), with keys and values of their own, or all in one";
                return Err(self.wrong(0, "queries", expected));
            }
        };
        let [queries, keys, values] = self.biased(parts)?;
        let queries = self.heads(queries, heads)?;
        if self.optional(1).is_some() && self.sizes(1, "keys")?.len() == 4 {
            return Ok([queries, keys, values]);
        }
        Ok([
            queries,
            self.heads(keys, heads)?,
            self.heads(values, heads)?,
        ])
    }

    /// The parts of (batch, tokens, heads, parts, values), each as (batch, tokens, all values).
    fn unpacked<const N: usize>(&mut self, packed: ValueId) -> Result<[ValueId; N], Problem> {
        let mut parts = [packed; N];
        for (at, part) in (0..).zip(&mut parts) {
            let one = self.slice(packed, 3, [at, at + 1, 1])?;
            *part = self.reshape(one, [0, 0, -1])?;
        }
        Ok(parts)
    }

    /// As heads: of operands by themselves, or of one that has all values of each token behind each other.
    fn grouped(&mut self, heads: i64, key_heads: i64) -> Result<Heads, Problem> {
        let queries = self.operand(0, "queries")?;
        let of_heads = [heads, key_heads, key_heads];
        let mut parts = match (self.optional(1), self.optional(2)) {
            (Some(keys), Some(values)) => [queries, keys, values],
            _ => {
                let count = of_heads.into_iter().fold(0, i64::saturating_add);
                let values = match self.sizes(0, "queries")?[..] {
                    [_, _, Dim::Known(values)] if count > 0 => values / count,
                    _ => return Err(self.wrong(0, "queries", "(batch, tokens, values)")),
                };
                self.in_a_row(queries, of_heads.map(|heads| heads.saturating_mul(values)))?
            }
        };
        for (part, heads) in parts.iter_mut().zip(of_heads) {
            *part = self.heads(*part, heads)?;
        }
        Ok(parts)
    }

    /// The parts of (batch, tokens, values), of as many values each.
    fn in_a_row(&mut self, all: ValueId, sizes: [i64; 3]) -> Result<Heads, Problem> {
        let mut parts = [all; 3];
        let mut start: i64 = 0;
        for (part, size) in parts.iter_mut().zip(sizes) {
            let end = start.saturating_add(size);
            *part = self.slice(all, 2, [start, end, 1])?;
            start = end;
        }
        Ok(parts)
    }

    /// How many keys there are before those of the node.
    fn past(&self, at: usize) -> Result<i64, Problem> {
        if self.optional(at).is_none() {
            return Ok(0);
        }
        match self.sizes(at, "past keys")?[..] {
            [_, _, Dim::Known(tokens), _] => Ok(tokens),
            _ => Err(self.wrong(at, "past keys", "a state of known size")),
        }
    }

    /// Keys and values behind those of the past, which are results, too.
    fn behind_past(&mut self, parts: Heads, past: [usize; 2]) -> Result<Heads, Problem> {
        let mut parts = parts;
        for (part, at) in [1, 2].into_iter().zip(past) {
            if let Some(past) = self.optional(at) {
                parts[part] = self.concat(&[past, parts[part]], 2)?;
            }
            self.give(part, parts[part]);
        }
        Ok(parts)
    }

    /// Refuses counts of tokens that are not those of all, or known only when running.
    fn all_count(&self, at: usize, what: &'static str, all: i64) -> Result<(), Problem> {
        let known = self.lowering.optional_ints(self.node, at, what)?;
        match known {
            Some(counts) if counts.iter().all(|count| *count == all) => Ok(()),
            Some(_) => Err(self.wrong(at, what, "of all tokens, past and present")),
            None => Err(Problem::MissingInput { position: at, what }),
        }
    }

    /// The mask of the first keys, whose number an operand gives for each image.
    fn counted(&mut self, at: usize, parts: Heads, reach: Reach) -> Result<Option<Mask>, Problem> {
        let Some(count) = self.optional(at) else {
            return Ok(None);
        };
        if reach.is_bounded() || reach.past > 0 {
            let expected = "none where queries see a part of the keys, or past ones";
            return Err(self.wrong(at, "nonpad_kv_seqlen", expected));
        }
        let [keys, _] = self.last_sizes(parts[1])?;
        self.lowering.room.take(keys as usize)?;
        let count = self.cast(count, data_type::FLOAT)?;
        let count = self.reshape(count, [-1, 1, 1, 1])?;
        let places = (0..keys).map(|place| place as f32).collect();
        let places = self.constant(vec![keys as usize], Data::Floats(places));
        let seen = self.of("Less", &[places, count])?;
        let added = self.chosen(seen, UNSEEN)?;
        let seen = Some(seen);
        Ok(Some(Mask { added, seen }))
    }

    /// Gives the node the attention of its heads, with the tokens' values behind each other.
    fn give_attended(&mut self, parts: Heads, scoring: Scoring) -> Result<(), Problem> {
        let result = self.attended(parts, scoring)?;
        let result = self.merged(result)?;
        self.give(0, result);
        Ok(())
    }

    fn attended(&mut self, parts: Heads, scoring: Scoring) -> Result<ValueId, Problem> {
        let [queries, keys, values] = parts;
        let [rows, each] = self.last_sizes(queries)?;
        let [columns, _] = self.last_sizes(keys)?;
        let scale = scoring.scale.unwrap_or(1.0 / (each as f32).sqrt());
        let reach = if scoring.reach.is_bounded() {
            self.lowering.room.take((rows * columns) as usize)?;
            scoring.reach.mask(rows, columns)
        } else {
            None
        };
        let reach = reach.map(|seen| {
            let seen = seen.into_iter().map(i64::from).collect();
            self.constant(vec![rows as usize, columns as usize], Data::Ints(seen))
        });
        let bound = reach.map(|seen| self.chosen(seen, UNSEEN)).transpose()?;
        let queries = self.times(queries, scale)?;
        let keys = self.transpose(keys, &[0, 1, 3, 2])?;
        let mut scores = self.of("MatMul", &[queries, keys])?;
        if scoring.softcap != 0.0 {
            let small = self.times(scores, 1.0 / scoring.softcap)?;
            let bent = self.of("Tanh", &[small])?;
            scores = self.times(bent, scoring.softcap)?;
        }
        for added in scoring.added.into_iter().chain(bound) {
            scores = self.of("Add", &[scores, added])?;
        }
        let weights = self.with("Softmax", &[scores], [("axis", Attribute::Int(-1))])?;
        let result = self.of("MatMul", &[weights, values])?;
        let seen = self.both(scoring.seen, reach)?;
        self.of_seeing(result, seen)
    }

    /// Where two masks see, of which one or both may see all.
    fn both(
        &mut self,
        first: Option<ValueId>,
        second: Option<ValueId>,
    ) -> Result<Option<ValueId>, Problem> {
        match (first, second) {
            (Some(first), Some(second)) => self.of("And", &[first, second]).map(Some),
            (first, second) => Ok(first.or(second)),
        }
    }

    /// The result, but zeros for queries that see no key, whose weights would be of equal size.
    fn of_seeing(&mut self, result: ValueId, seen: Option<ValueId>) -> Result<ValueId, Problem> {
        let Some(seen) = seen else {
            return Ok(result);
        };
        let seen = self.cast(seen, data_type::FLOAT)?;
        let axes = ("axes", Attribute::Ints(vec![-1]));
        let any = self.with("ReduceMax", &[seen], [axes])?;
        if let Value::Constant(any) = self.lowering.value(any)
            && let Data::Floats(any) = &any.data
            && any.iter().all(|any| *any == 1.0)
        {
            return Ok(result);
        }
        let any = self.cast(any, data_type::BOOL)?;
        let zero = self.number(0.0);
        self.of("Where", &[any, result, zero])
    }

    fn cast(&mut self, value: ValueId, to: i32) -> Result<ValueId, Problem> {
        self.with("Cast", &[value], [("to", Attribute::Int(to.into()))])
    }
}
