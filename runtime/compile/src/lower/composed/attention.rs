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
        row.without(6, "nonpad_kv_seqlen")?;
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
        for (part, past, what) in [(1, 4, "past_key"), (2, 5, "past_value")] {
            if let Some(past_part) = row.optional(past) {
                let before = row.sizes(past, what)?;
                reach.past = match before[..] {
                    [_, _, Dim::Known(tokens), _] => tokens,
                    _ => return Err(row.wrong(past, what, "a state of known size")),
                };
                parts[part] = row.concat(&[past_part, parts[part]], 2)?;
            }
        }
        row.give(1, parts[1]);
        row.give(2, parts[2]);
        let mask = row.mask(3, "attn_mask")?;
        let scoring = Scoring {
            scale,
            softcap,
            reach,
            added: mask.iter().map(|mask| mask.added).collect(),
            seen: mask.and_then(|mask| mask.seen),
        };
        let parts = row.shared([parts[0], parts[1], parts[2]])?;
        let result = row.attended(parts, scoring)?;
        let result = if merged { row.merged(result)? } else { result };
        row.give(0, result);
        Ok(())
    }

    /// onnxruntime's of queries, keys and values that are computed before.
    fn multi_head_attention(&mut self, node: &Node) -> Result<(), Problem> {
        let mut row = self.row(node, 6, 1)?;
        let mut attributes = row.attributes();
        let heads = attributes.int("num_heads", 0)?;
        let reach = Reach::of(attributes.int("unidirectional", 0)? != 0);
        let scale = row.scale(&mut attributes)?;
        let filter = attributes.float("mask_filter_value", -10000.0)?;
        attributes.finish()?;
        let queries = row.operand(0, "queries")?;
        let three = row.sizes(0, "queries")?.len() == 3;
        row.check_alike(reach)?;
        let parts = match (row.optional(1), row.optional(2)) {
            (Some(keys), Some(values)) if three => {
                let [queries, keys, values] = row.biased([queries, keys, values])?;
                let of_heads = row.sizes(1, "keys")?.len() == 4;
                let queries = row.heads(queries, heads)?;
                if of_heads {
                    [queries, keys, values]
                } else {
                    [queries, row.heads(keys, heads)?, row.heads(values, heads)?]
                }
            }
            _ => {
                return Err(row.wrong(
                    0,
                    "queries",
                    "(batch, tokens, values), with keys and values of their own",
                ));
            }
        };
        let mut added: Vec<ValueId> = row.padding(4, filter)?.into_iter().collect();
        added.extend(row.optional(5));
        let result = row.attended(
            parts,
            Scoring {
                scale,
                softcap: 0.0,
                reach,
                added,
                seen: None,
            },
        )?;
        let result = row.merged(result)?;
        row.give(0, result);
        Ok(())
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
        if sizes.len() != 3 {
            let found = Attribute::Ints(sizes);
            return Err(Problem::attribute(
                "qkv_hidden_sizes",
                &found,
                "three sizes",
            ));
        }
        let mut parts = [all; 3];
        let mut start: i64 = 0;
        for (part, size) in parts.iter_mut().zip(sizes) {
            let end = start.saturating_add(size);
            let values = row.slice(all, 2, [start, end, 1])?;
            *part = row.heads(values, heads)?;
            start = end;
        }
        let mut added: Vec<ValueId> = row.padding(3, filter)?.into_iter().collect();
        added.extend(row.optional(5));
        let result = row.attended(
            parts,
            Scoring {
                scale,
                softcap: 0.0,
                reach,
                added,
                seen: None,
            },
        )?;
        let result = row.merged(result)?;
        row.give(0, result);
        Ok(())
    }
}

impl Row<'_, '_, '_> {
    fn scale(&self, attributes: &mut Attributes<'_>) -> Result<Option<f32>, Problem> {
        let scale = attributes.float("scale", 0.0)?;
        Ok((scale != 0.0).then_some(scale))
    }

    /// Of other numbers of queries and keys onnxruntime lets the last query alone see all keys.
    fn check_alike(&self, reach: Reach) -> Result<(), Problem> {
        let keys = self
            .optional(1)
            .and_then(|keys| self.lowering.value(keys).sizes());
        let tokens = keys.map(|sizes| sizes[sizes.len().saturating_sub(2)..].first().copied());
        let alike = tokens.flatten() == self.sizes(0, "queries")?.get(1).copied();
        if alike || !reach.is_bounded() {
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
        let seen = match (scoring.seen, reach) {
            (Some(first), Some(second)) => Some(self.of("And", &[first, second])?),
            (first, second) => first.or(second),
        };
        self.of_seeing(result, seen)
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
