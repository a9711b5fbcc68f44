//! What is known while a file is drawn: its operands, the operators before the one in question and behind it.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use punctual_compile::schema::attribute::{int, ints};
use punctual_compile::schema::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    ValueInfoProto, attribute_type, data_type,
};
use punctual_types::Random;

use crate::draw::{Drawn, Input, Numbers};

/// Operator sets that the compiler and onnxruntime 1.31 take. It has no operator that is in none of them.
const OPSETS: [u64; 2] = [11, 26];
/// The domain of onnxruntime's own operators.
const MICROSOFT: &str = "com.microsoft";
/// Most elements of an image: as many as a further input may have.
const ELEMENTS_MAX: i64 = 256;

/// A value of the graph, of a number of `data_type`.
pub(super) struct Value {
    pub name: String,
    pub kind: i32,
    /// The batch among them; none where they are not known.
    pub dims: Vec<i64>,
    /// Whether it is known when compiling.
    pub known: bool,
}

pub(super) struct Drawing {
    pub random: Random,
    pub opset: i64,
    /// Whether all operands are constants.
    pub known: bool,
    /// The batch as the file says it.
    batch: Option<i64>,
    /// Parts of an image that are images for the operator in question, such as frames.
    parts: i64,
    graph: GraphProto,
    inputs: Vec<Input>,
    names: usize,
}

/// How often operands are known when compiling.
#[derive(Clone, Copy)]
pub(super) enum Known {
    Sometimes,
    Mostly,
}

impl Drawing {
    pub fn new(mut random: Random, since: u64, known: Known) -> Self {
        let opset = random.within(since.max(OPSETS[0]), since.max(OPSETS[1])) as i64;
        let known = match known {
            Known::Sometimes => random.one_in(5),
            Known::Mostly => !random.one_in(4),
        };
        let batch = [Some(1), Some(1), Some(2), Some(3), None, None, None, None];
        let batch = batch[random.below(8) as usize];
        let parts = match random.below(10) {
            0 if !known => random.within(2, 3) as i64,
            _ => 1,
        };
        let (graph, inputs) = (GraphProto::default(), Vec::new());
        Self {
            random,
            opset,
            known,
            batch,
            parts,
            graph,
            inputs,
            names: 0,
        }
    }

    /// One image without parts: what onnxruntime measures of a batch is of this image then.
    pub fn of_one_image(&mut self) {
        (self.batch, self.parts) = (Some(1), 1);
    }

    // Sizes.

    pub fn side(&mut self, low: i64, high: i64) -> i64 {
        self.random.within(low as u64, high.max(low) as u64) as i64
    }

    pub fn one_of<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.random.below(of.len() as u64) as usize].clone()
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.random.one_in(n)
    }

    /// The images of a batch when it runs; of known operands any first dimension.
    fn images(&mut self) -> i64 {
        if self.known {
            self.side(1, 3)
        } else {
            self.parts * self.batch.unwrap_or(2)
        }
    }

    pub fn has_fixed_batch(&self) -> bool {
        self.batch.is_some()
    }

    /// Dimensions of an operand, of which the first is the batch if it is computed.
    pub fn dims(&mut self, ranks: RangeInclusive<i64>) -> Vec<i64> {
        let rank = self.side(*ranks.start(), *ranks.end());
        let mut dims = vec![self.images()];
        for _ in 1..rank {
            let side = match self.random.below(5) {
                0 => 1,
                1 => self.side(2, 3),
                _ => self.side(1, 9),
            };
            dims.push(side);
        }
        while let (true, Some(most)) = (
            elements(&dims[1..]) > ELEMENTS_MAX,
            dims[1..].iter_mut().max(),
        ) {
            *most /= 2;
        }
        dims
    }

    /// An axis, most often none of the batch, counted from either end.
    pub fn axis(&mut self, rank: usize) -> i64 {
        let first = i64::from(rank > 1 && !self.known && !self.one_in(12));
        let axis = self.side(first, rank as i64 - 1);
        self.signed(axis, rank)
    }

    pub fn signed(&mut self, axis: i64, rank: usize) -> i64 {
        if self.one_in(2) {
            axis
        } else {
            axis - rank as i64
        }
    }

    /// Some axes, none twice.
    pub fn axes(&mut self, rank: usize) -> Vec<i64> {
        let count = self.side(1, rank.max(2) as i64 - 1);
        let mut axes: Vec<i64> = Vec::new();
        for _ in 0..count {
            let axis = self.axis(rank);
            if !axes.iter().any(|other| (axis - other) % rank as i64 == 0) {
                axes.push(axis);
            }
        }
        axes
    }

    /// Adds an attribute, or leaves its default.
    pub fn perhaps(&mut self, attributes: &mut Vec<AttributeProto>, attribute: AttributeProto) {
        if !self.one_in(3) {
            attributes.push(attribute);
        }
    }

    // Operands.

    pub fn floats(&mut self, dims: &[i64]) -> String {
        self.operand(dims, data_type::FLOAT)
    }

    /// The operand in question: a constant if all are, else computed.
    pub fn operand(&mut self, dims: &[i64], kind: i32) -> String {
        if self.known {
            self.constant(dims, kind)
        } else {
            self.computed(dims, kind)
        }
    }

    /// A further operand, which may be either.
    pub fn second(&mut self, dims: &[i64], kind: i32) -> String {
        let is_of_images = dims
            .first()
            .is_some_and(|first| *first == self.parts * self.batch.unwrap_or(2));
        if self.known || dims.len() < 2 || !is_of_images || self.one_in(2) {
            let mut dims = dims.to_vec();
            if let (Some(first), false) = (dims.first_mut(), self.known || self.batch.is_some()) {
                *first = 1;
            }
            return self.constant(&dims, kind);
        }
        self.computed(dims, kind)
    }

    /// A further operand of the same images, whose first dimension is not repeated.
    pub fn other(&mut self, dims: &[i64], kind: i32) -> String {
        if self.batch == Some(1) && self.parts == 1 {
            return self.second(dims, kind);
        }
        self.operand(dims, kind)
    }

    pub fn computed(&mut self, dims: &[i64], kind: i32) -> String {
        let x = self.folded(dims);
        match kind {
            data_type::FLOAT => x,
            data_type::BOOL => {
                let bound = self.values(&[], &[0.25]);
                self.node("Greater", &[&x, &bound], vec![])
            }
            _ => self.node("Cast", &[&x], vec![int("to", kind.into())]),
        }
    }

    /// The numbers of tokens below `count`, as the only input.
    pub fn tokens(&mut self, count: i64) -> (String, Vec<i64>) {
        let dims = vec![self.batch.unwrap_or(2), self.side(1, 9)];
        let name = self.name("in");
        let all = [self.batch, Some(dims[1])];
        self.graph
            .input
            .push(ValueInfoProto::tensor(&name, data_type::INT64, all));
        let numbers = Numbers::Tokens(count as u64);
        self.inputs.push(Input {
            name: name.clone(),
            dims: dims[1..].to_vec(),
            numbers,
        });
        (name, dims)
    }

    /// An input; one with more dimensions than an input may have is reshaped to them.
    fn input(&mut self, dims: &[i64]) -> String {
        let rank = self.inputs.first().map_or(4, |first| 1 + first.dims.len());
        let name = self.name("in");
        let own = if dims.len() > rank {
            vec![elements(&dims[1..])]
        } else {
            dims[1..].to_vec()
        };
        let all = [self.batch]
            .into_iter()
            .chain(own.iter().copied().map(Some));
        self.graph
            .input
            .push(ValueInfoProto::tensor(&name, data_type::FLOAT, all));
        self.inputs.push(Input {
            name: name.clone(),
            dims: own,
            numbers: Numbers::Floats,
        });
        if dims.len() > rank {
            self.reshaped(&name, dims)
        } else {
            name
        }
    }

    fn reshaped(&mut self, from: &str, dims: &[i64]) -> String {
        let first = self.one_of(&[0, -1, self.batch.unwrap_or(0)]);
        let target = self.ints(&[&[first], &dims[1..]].concat());
        self.node("Reshape", &[from, &target], vec![])
    }

    /// What is computed, its parts in the batch.
    fn folded(&mut self, dims: &[i64]) -> String {
        if self.parts == 1 {
            return self.before(dims);
        }
        let apart = [&[dims[0] / self.parts, self.parts], &dims[1..]].concat();
        let x = self.before(&apart);
        let target = self.ints(&[&[-1], &dims[1..]].concat());
        self.node("Reshape", &[&x, &target], vec![])
    }

    /// A result whose parts are in the batch as one of images.
    fn unfolded(&mut self, result: Value) -> Value {
        let is_folded = result.dims.first() == Some(&(self.parts * self.batch.unwrap_or(2)));
        if self.parts == 1 || result.known || !is_folded {
            return result;
        }
        let dims = [&[self.batch.unwrap_or(2), self.parts], &result.dims[1..]].concat();
        let target = self.ints(&[&[-1], &dims[1..]].concat());
        let name = self.node("Reshape", &[&result.name, &target], vec![]);
        Value {
            name,
            dims,
            ..result
        }
    }

    /// An input, or what an operator makes of one that has these dimensions then.
    fn before(&mut self, dims: &[i64]) -> String {
        let rank = dims.len();
        let axis = if rank > 1 {
            self.side(1, rank as i64 - 1) as usize
        } else {
            0
        };
        let mut own = dims.to_vec();
        match self.random.below(12) {
            0 => {
                let x = self.input(dims);
                self.node("Relu", &[&x], vec![])
            }
            1 => {
                let x = self.input(dims);
                let factor = self.per_channel(dims);
                let operator = self.one_of(&["Add", "Mul", "Sub"]);
                self.node(operator, &[&x, &factor], vec![])
            }
            2 if rank > 2 => {
                let (perm, back) = self.order(rank);
                own = back.iter().map(|at| dims[*at as usize]).collect();
                let x = self.input(&own);
                self.node("Transpose", &[&x], vec![ints("perm", perm)])
            }
            3 if rank > 2 => {
                let x = self.input(&[dims[0], elements(&dims[1..])]);
                self.reshaped(&x, dims)
            }
            4 => {
                let (front, back) = (self.side(0, 1), self.side(0, 2));
                own[axis] += front + back;
                let x = self.input(&own);
                let bounds = [front, front + dims[axis], axis as i64].map(|at| self.ints(&[at]));
                self.node("Slice", &[&x, &bounds[0], &bounds[1], &bounds[2]], vec![])
            }
            5 if rank == 3 || rank == 4 => {
                own[1] = self.side(1, 3);
                let x = self.input(&own);
                let kernel: Vec<i64> = [dims[1], own[1]]
                    .into_iter()
                    .chain(dims[2..].iter().map(|_| 1))
                    .collect();
                let weights = self.constant(&kernel, data_type::FLOAT);
                self.node("Conv", &[&x, &weights], vec![])
            }
            6 if dims[axis] == 1 && rank > 2 => {
                own.remove(axis);
                let x = self.input(&own);
                self.unsqueezed(&x, &[axis as i64])
            }
            7 if rank > 2 => {
                own[axis] = 1;
                let x = self.input(&own);
                let mut target = vec![1; rank];
                target[axis] = dims[axis];
                let target = self.ints(&target);
                self.node("Expand", &[&x, &target], vec![])
            }
            8 if dims[axis] > 1 => {
                own[axis] = 1;
                let first = self.input(&own);
                own[axis] = dims[axis] - 1;
                let rest = self.input(&own);
                self.node("Concat", &[&first, &rest], vec![int("axis", axis as i64)])
            }
            _ => self.input(dims),
        }
    }

    /// Another order of the dimensions behind the batch, and the one that undoes it.
    fn order(&mut self, rank: usize) -> (Vec<i64>, Vec<i64>) {
        let mut perm: Vec<i64> = (0..rank as i64).collect();
        for at in (2..rank).rev() {
            perm.swap(at, self.side(1, at as i64) as usize);
        }
        let mut back = perm.clone();
        for (at, from) in perm.iter().enumerate() {
            back[*from as usize] = at as i64;
        }
        (perm, back)
    }

    pub fn unsqueezed(&mut self, from: &str, axes: &[i64]) -> String {
        self.with_axes("Unsqueeze", &[from], axes, 13, vec![])
    }

    /// A node whose axes are an operand since an operator set, and an attribute before.
    pub fn with_axes(
        &mut self,
        operator: &str,
        operands: &[&str],
        axes: &[i64],
        since: i64,
        mut attributes: Vec<AttributeProto>,
    ) -> String {
        if self.opset < since {
            attributes.push(ints("axes", axes));
            return self.node(operator, operands, attributes);
        }
        let axes = self.ints(axes);
        self.node(operator, &[operands, &[&axes]].concat(), attributes)
    }

    /// One number, or one a channel.
    fn per_channel(&mut self, dims: &[i64]) -> String {
        let own = if self.one_in(2) || dims.len() < 2 {
            vec![]
        } else {
            [dims[1]]
                .into_iter()
                .chain(dims[2..].iter().map(|_| 1))
                .collect()
        };
        self.constant(&own, data_type::FLOAT)
    }

    // Constants.

    /// Quarters, integers or booleans: an initializer, or what a node gives.
    pub fn constant(&mut self, dims: &[i64], kind: i32) -> String {
        let count = elements(dims);
        let quarters: Vec<f32> = (0..count)
            .map(|_| self.side(0, 32) as f32 / 4.0 - 4.0)
            .collect();
        let bytes: Vec<u8> = match kind {
            data_type::FLOAT => quarters
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect(),
            data_type::BOOL => quarters
                .iter()
                .map(|value| u8::from(*value > 0.0))
                .collect(),
            data_type::INT32 => quarters
                .iter()
                .flat_map(|value| (*value as i32).to_le_bytes())
                .collect(),
            data_type::INT64 => quarters
                .iter()
                .flat_map(|value| (*value as i64).to_le_bytes())
                .collect(),
            _ => quarters.iter().map(|value| *value as i8 as u8).collect(),
        };
        self.tensor(kind, dims, bytes)
    }

    fn tensor(&mut self, kind: i32, dims: &[i64], bytes: Vec<u8>) -> String {
        let name = self.name("c");
        let tensor = TensorProto::raw(&name, kind, dims, bytes);
        if self.one_in(4) {
            let value = AttributeProto {
                name: Some("value".to_owned()),
                r#type: Some(attribute_type::TENSOR),
                t: Some(tensor),
                ..AttributeProto::default()
            };
            return self.node("Constant", &[], vec![value]);
        }
        self.graph.initializer.push(tensor);
        name
    }

    pub fn values(&mut self, dims: &[i64], values: &[f32]) -> String {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        self.tensor(data_type::FLOAT, dims, bytes.collect())
    }

    pub fn ints(&mut self, values: &[i64]) -> String {
        self.ints_of(&[values.len() as i64], values)
    }

    pub fn ints_of(&mut self, dims: &[i64], values: &[i64]) -> String {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        self.tensor(data_type::INT64, dims, bytes.collect())
    }

    pub fn bytes(&mut self, kind: i32, dims: &[i64], bytes: Vec<u8>) -> String {
        self.tensor(kind, dims, bytes)
    }

    // Nodes.

    fn name(&mut self, of: &str) -> String {
        self.names += 1;
        format!("{of}{}", self.names)
    }

    pub fn node(
        &mut self,
        operator: &str,
        operands: &[&str],
        attributes: Vec<AttributeProto>,
    ) -> String {
        self.nodes(operator, operands, 1, attributes).remove(0)
    }

    /// A node of several results. An operator of a domain has it before its name, with a full stop.
    pub fn nodes(
        &mut self,
        operator: &str,
        operands: &[&str],
        results: usize,
        attributes: Vec<AttributeProto>,
    ) -> Vec<String> {
        let outputs: Vec<String> = (0..results).map(|_| self.name("t")).collect();
        let names: Vec<&str> = outputs.iter().map(String::as_str).collect();
        let domain = operator.rsplit_once('.');
        let operator = domain.map_or(operator, |(_, operator)| operator);
        let mut node = NodeProto::of(operator, &outputs[0], operands, &names, attributes);
        node.domain = domain.map(|(domain, _)| domain.to_owned());
        self.graph.node.push(node);
        outputs
    }

    /// Leaves out results of the last node.
    pub fn leave_out(&mut self, results: &[usize]) {
        if let Some(node) = self.graph.node.last_mut() {
            results.iter().for_each(|at| node.output[*at].clear());
        }
    }

    /// The operator's result, as known as its operands are.
    pub fn made(&self, name: String, kind: i32, dims: &[i64]) -> Vec<Value> {
        let known = self.known;
        vec![Value {
            name,
            kind,
            dims: dims.to_vec(),
            known,
        }]
    }

    /// A node of one result.
    pub fn result(
        &mut self,
        operator: &str,
        operands: &[&str],
        attributes: Vec<AttributeProto>,
        kind: i32,
        dims: &[i64],
    ) -> Vec<Value> {
        let name = self.node(operator, operands, attributes);
        self.made(name, kind, dims)
    }

    // The end.

    pub fn finish(mut self, seed: u64, results: Vec<Value>) -> Drawn {
        for result in results {
            let result = self.unfolded(result);
            let (name, kind) = if result.known {
                self.told(&result)
            } else {
                self.after(result)
            };
            self.output(&name, kind);
        }
        let model = ModelProto {
            ir_version: Some(8),
            graph: Some(self.graph),
            opset_import: [(None, self.opset), (Some(MICROSOFT), 1)]
                .map(|(domain, version)| OperatorSetIdProto {
                    domain: domain.map(str::to_owned),
                    version: Some(version),
                })
                .to_vec(),
            functions: Vec::new(),
        };
        let (has_classes, dims) = (false, BTreeMap::new());
        Drawn {
            seed,
            model,
            inputs: self.inputs,
            has_classes,
            dims,
        }
    }

    /// Of how many dimensions it is onnxruntime finds out.
    fn output(&mut self, name: &str, kind: i32) {
        let mut output = ValueInfoProto::tensor(name, kind, []);
        let tensor = output
            .r#type
            .as_mut()
            .and_then(|of| of.tensor_type.as_mut());
        tensor.into_iter().for_each(|tensor| tensor.shape = None);
        self.graph.output.push(output);
    }

    /// What is known when compiling, its dimensions too, added to an input.
    fn told(&mut self, known: &Value) -> (String, i32) {
        let to_float = |drawing: &mut Self, name: &str| {
            drawing.node("Cast", &[name], vec![int("to", data_type::FLOAT.into())])
        };
        let row = self.ints(&[-1]);
        let flat = self.node("Reshape", &[&known.name, &row], vec![]);
        let shape = self.node("Shape", &[&known.name], vec![]);
        let all = [flat, shape].map(|name| to_float(self, &name));
        let all = self.node("Concat", &[&all[0], &all[1]], vec![int("axis", 0)]);
        let images = self.batch.unwrap_or(2);
        let x = self.input(&[images, 1]);
        (self.node("Add", &[&x, &all], vec![]), data_type::FLOAT)
    }

    /// The result, or what an operator makes of it.
    fn after(&mut self, result: Value) -> (String, i32) {
        let Value {
            name, kind, dims, ..
        } = result;
        let rank = dims.len();
        match self.random.below(14) {
            0 if kind != data_type::FLOAT => (
                self.node("Cast", &[&name], vec![int("to", data_type::FLOAT.into())]),
                data_type::FLOAT,
            ),
            _ if kind != data_type::FLOAT => (name, kind),
            0 => (self.node("Relu", &[&name], vec![]), kind),
            1 | 2 | 7..=10 => {
                let operator = self.one_of(&["Add", "Mul"]);
                let other = self.per_channel(&dims);
                (self.node(operator, &[&name, &other], vec![]), kind)
            }
            3 if rank > 2 => {
                let (perm, _) = self.order(rank);
                (
                    self.node("Transpose", &[&name], vec![ints("perm", perm)]),
                    kind,
                )
            }
            4 if rank > 1 => {
                let target = self.ints(&[0, -1]);
                (self.node("Reshape", &[&name, &target], vec![]), kind)
            }
            5 if rank > 1 => {
                let bounds = [0, self.side(1, 3), 1].map(|at| self.ints(&[at]));
                (
                    self.node(
                        "Slice",
                        &[&name, &bounds[0], &bounds[1], &bounds[2]],
                        vec![],
                    ),
                    kind,
                )
            }
            6 => {
                let other = self.node("Relu", &[&name], vec![]);
                (self.node("Add", &[&other, &name], vec![]), kind)
            }
            _ => (name, kind),
        }
    }
}

pub(super) fn elements(dims: &[i64]) -> i64 {
    dims.iter().product()
}
