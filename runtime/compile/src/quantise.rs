//! Taking operators to bytes: where a network converts bytes to floats, computes, and converts the
//! result to bytes again, the operator on bytes that says the same takes the place of all three.
//!
//! What has no operator on bytes stays between its two conversions: always right, seldom fast.

use std::collections::BTreeMap;

use punctual_model::{
    Binary, Convert, KERNEL_MAX, OperatorKind, QUANTISED_PRODUCTS_MAX, QuantisedConv2d, Resize,
    TensorId,
};
use punctual_types::{Activation, BinaryFunction, Filter, Quantisation, Window};

use crate::draft::{Computation, Draft, DraftOperator, Drafted};
use crate::fuse::compose;

mod moves;

const CONVERT: OperatorKind = OperatorKind::Convert(Convert);

impl crate::write::Written for QuantisedConv2d {}

/// Replaces what can be. Returns the number of operators on bytes.
pub(crate) fn quantise(draft: &mut Draft, exits: &[TensorId]) -> usize {
    if draft.quantised.is_empty() {
        return 0;
    }
    moves::keep_in_bytes(draft, exits);
    let mut pass = Pass::new(draft, exits);
    for at in 0..pass.operators.len() {
        pass.shorten(at);
    }
    let mut taken = 0;
    for at in 0..pass.operators.len() {
        taken += usize::from(pass.take(at).is_some());
    }
    draft.operators = pass.operators.into_iter().flatten().collect();
    draft.remove_dead(exits);
    taken
}

struct Pass<'d> {
    quantised: &'d BTreeMap<TensorId, Quantisation>,
    steps: &'d BTreeMap<TensorId, std::rc::Rc<[f32]>>,
    shapes: &'d [punctual_model::Tensor],
    /// `None` where an operator was taken into another.
    operators: Vec<Option<DraftOperator>>,
    /// Readers of each tensor, an exit being one.
    readers: Vec<u32>,
    /// Position of the operator that writes each tensor.
    writer: Vec<Option<usize>>,
    /// Of a tensor with a single reader, that.
    reader: Vec<Option<usize>>,
}

impl<'d> Pass<'d> {
    fn new(draft: &'d mut Draft, exits: &[TensorId]) -> Self {
        let count = draft.tensors.len();
        let (mut readers, mut writer, mut reader) =
            (vec![0; count], vec![None; count], vec![None; count]);
        exits.iter().for_each(|exit| readers[exit.index()] += 1);
        for (at, operator) in draft.operators.iter().enumerate() {
            for read in operator.reads() {
                readers[read.index()] += 1;
                reader[read.index()] = Some(at);
            }
            writer[operator.output.index()] = Some(at);
        }
        let operators = std::mem::take(&mut draft.operators);
        Self {
            quantised: &draft.quantised,
            steps: &draft.steps,
            shapes: &draft.tensors,
            operators: operators.into_iter().map(Some).collect(),
            readers,
            writer,
            reader,
        }
    }

    fn operator(&self, at: usize) -> Option<&DraftOperator> {
        self.operators[at].as_ref()
    }

    /// The bytes that a tensor of floats was made from.
    fn bytes(&self, tensor: TensorId) -> Option<TensorId> {
        let writer = self.operator(self.writer[tensor.index()]?)?;
        // Bytes of other bytes have lost what those had.
        let are_floats = !self.quantised.contains_key(&tensor);
        let converted = are_floats && writer.kind == CONVERT;
        let bytes = writer.input;
        (converted && self.quantised.contains_key(&bytes)).then_some(bytes)
    }

    /// Bytes made from floats that were made from bytes: made from those at once, or the same.
    fn shorten(&mut self, at: usize) {
        let Some(operator) = self.operator(at) else {
            return;
        };
        let output = operator.output;
        let to = self.quantised.get(&output);
        let Some(to) = to.filter(|_| operator.kind == CONVERT) else {
            return;
        };
        let Some(from) = self.bytes(operator.input) else {
            return;
        };
        if self.quantised.get(&from) != Some(to) {
            if let Some(operator) = &mut self.operators[at] {
                operator.input = from;
            }
            return;
        }
        self.operators[at] = None;
        let operators = self.operators.iter_mut().flatten();
        operators
            .flat_map(DraftOperator::reads_mut)
            .filter(|read| **read == output)
            .for_each(|read| *read = from);
    }

    /// Puts the operator on bytes in the place of the one at `at`, if there is one.
    fn take(&mut self, at: usize) -> Option<()> {
        let operator = self.operator(at)?;
        let input = self.bytes(operator.input)?;
        let (activation, end) = self.end(operator.output);
        let written = end.and_then(|end| Some((end, self.operator(end)?.output)));
        let others = operator.others.iter().map(|&other| self.bytes(other));
        let others: Vec<TensorId> = others.collect::<Option<_>>()?;
        let computation = match &operator.kind {
            OperatorKind::Conv2d(_) | OperatorKind::Linear(_) => {
                self.convolution(operator, activation)?
            }
            OperatorKind::Binary(_) if self.is_sum_of_equals(operator) && written.is_some() => {
                let sum = Binary {
                    activation,
                    ..Binary::new(BinaryFunction::Add)
                };
                sum.into()
            }
            &OperatorKind::Pool(pool) if written.is_some() && activation == Activation::None => {
                pool.into()
            }
            // Bytes are moved as they are, so that both must stand for the same.
            &OperatorKind::Resize(Resize { resampling })
                if activation == Activation::None
                    && resampling.filter != Filter::Linear
                    && written.is_some_and(|(_, to)| {
                        self.quantised.get(&to) == self.quantised.get(&input)
                    }) =>
            {
                Resize { resampling }.into()
            }
            _ => return None,
        };
        let name = operator.name.clone();
        let (last, output) = written.or_else(|| self.clipped(operator.output))?;
        let mut gone = at;
        while gone != last {
            let output = self.operators[gone].take()?.output;
            gone = self.reader[output.index()]?;
        }
        self.operators[last] = Some(DraftOperator {
            name,
            input,
            others,
            output,
            weights: computation.weights,
            kind: computation.kind,
        });
        self.writer[output.index()] = Some(last);
        Some(())
    }

    /// Whether it adds two tensors of one shape, and nothing else.
    fn is_sum_of_equals(&self, operator: &DraftOperator) -> bool {
        let shape = |tensor: TensorId| self.shapes[tensor.index()];
        let second = operator.second_of(BinaryFunction::Add);
        second.is_some_and(|second| shape(second) == shape(operator.input))
    }

    /// The clips that follow a tensor which nothing else reads, as one, and the conversion to bytes behind them.
    fn end(&self, mut tensor: TensorId) -> (Activation, Option<usize>) {
        let mut activation = Activation::None;
        loop {
            let only = self.readers[tensor.index()] == 1;
            let next = self.reader[tensor.index()].filter(|_| only);
            let Some(operator) = next.and_then(|at| self.operator(at)) else {
                return (activation, None);
            };
            match operator.lone_activation() {
                Some(clip @ (Activation::Relu | Activation::Clip { .. })) => {
                    match compose(activation, clip) {
                        Some(both) => activation = both,
                        None => return (activation, None),
                    }
                }
                _ => return (activation, next.filter(|_| operator.kind == CONVERT)),
            }
            tensor = operator.output;
        }
    }

    /// The last of the clips that [`end`](Self::end) counted, and the floats that it writes.
    fn clipped(&self, mut tensor: TensorId) -> Option<(usize, TensorId)> {
        loop {
            let only = self.readers[tensor.index()] == 1;
            let next = self.reader[tensor.index()].filter(|_| only);
            let next = next.and_then(|at| self.operator(at));
            match next.map(|next| (next.lone_activation(), next.output)) {
                Some((Some(Activation::Relu | Activation::Clip { .. }), output)) => tensor = output,
                _ => return Some((self.writer[tensor.index()]?, tensor)),
            }
        }
    }

    /// A convolution or a linear layer with integer weights.
    fn convolution(&self, operator: &DraftOperator, activation: Activation) -> Option<Computation> {
        if operator.kind.activation() != Some(Activation::None) {
            return None;
        }
        let shape = self.shapes[operator.input.index()];
        let (window, groups) = match operator.conv() {
            Some(conv) => (conv.window, conv.groups),
            None => (Window::whole(shape.extent()), 1),
        };
        let [weights, bias] = &operator.weights[..] else {
            return None;
        };
        let products = weights.len() / bias.len();
        if window.kernel.height.max(window.kernel.width) > KERNEL_MAX
            || products as u64 > QUANTISED_PRODUCTS_MAX
            || !operator.others.is_empty()
        {
            return None;
        }
        let steps = self.steps.get(&operator.output)?;
        let scales = match steps[..] {
            [step] => vec![step; bias.len()],
            _ if steps.len() == bias.len() => steps.to_vec(),
            _ => return None,
        };
        let input = self.bytes(operator.input)?;
        let input = self.quantised.get(&input)?.scale;
        if !scales.iter().all(|scale| (scale * input).is_normal()) {
            return None;
        }
        let rows = weights.chunks_exact(products).zip(&scales);
        let integers = rows.flat_map(|(row, &scale)| row.iter().map(move |&w| integer(w, scale)));
        let integers = integers.collect::<Option<_>>()?;
        let conv = QuantisedConv2d {
            window,
            groups,
            activation,
        };
        Some(Computation::new(conv, [integers, scales, bias.clone()]))
    }
}

/// The integer that a weight is, in steps of `scale`; `None` if something else was made of it.
fn integer(weight: f32, scale: f32) -> Option<f32> {
    let steps = (weight / scale).round_ties_even();
    let fits = (-128.0..=127.0).contains(&steps) && steps * scale == weight;
    fits.then_some(steps)
}
