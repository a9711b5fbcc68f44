//! Scaling after joining. PyTorch's `transform_input` takes an image apart, scales each channel and
//! joins them again: joined first, nothing has to be taken apart.

use punctual_model::{OperatorKind, Tensor, TensorId};
use punctual_types::Activation;

use super::Fusion;
use crate::draft::{Computation, DraftOperator, Drafted};

impl Fusion {
    /// A gather of nothing but affine steps becomes an affine step behind a gather of what they read;
    /// again, where those are affine steps themselves.
    pub(super) fn hoist_affine(&mut self, at: usize, tensors: &mut Vec<Tensor>) {
        let mut gather = at;
        while let Some(steps) = self.affine_sources(gather) {
            let mut operator = self.operators[gather].take().expect("it has sources");
            let OperatorKind::Gather(joins) = &operator.kind else {
                unreachable!("only gathers have affine sources");
            };
            let (mut scale, mut shift) = (Vec::new(), Vec::new());
            for run in &joins.runs {
                let step = self.operator(steps[usize::from(run.source)]);
                let affine = step.affine().expect("all sources are affine");
                let channels = run.first as usize..(run.first + run.count) as usize;
                scale.extend_from_slice(&affine.scale[channels.clone()]);
                shift.extend_from_slice(&affine.shift[channels]);
            }
            let affine = Computation::affine(scale, shift);
            // At the place of the last step everything that the steps read is there.
            let last = *steps.iter().max().expect("a gather has a source");
            let taken = steps.iter().map(|&step| self.operators[step].take());
            let inputs: Vec<TensorId> = taken.map(|step| step.expect("each once").input).collect();
            let joined = TensorId(tensors.len() as u32);
            tensors.push(tensors[operator.output.index()]);
            self.readers.push(1);
            self.writer.push(Some(last));
            self.operators[gather] = Some(DraftOperator {
                name: operator.name.clone(),
                input: joined,
                others: vec![],
                output: std::mem::replace(&mut operator.output, joined),
                weights: affine.weights,
                kind: affine.kind,
            });
            operator.input = inputs[0];
            operator.others = inputs[1..].to_vec();
            self.operators[last] = Some(operator);
            gather = last;
        }
    }

    /// The positions of the affine steps that write a gather's sources, if all are such, nothing else
    /// reads them, and not one would cost nothing where it is.
    fn affine_sources(&self, gather: usize) -> Option<Vec<usize>> {
        let operator = self.operators[gather].as_ref()?;
        if !matches!(operator.kind, OperatorKind::Gather(_)) {
            return None;
        }
        let step = |source| {
            let at = self.exclusive_writer(source)?;
            let is_affine = self.operator(at).affine().is_some();
            (is_affine && !self.folds_into_weights(source)).then_some(at)
        };
        operator.reads().map(step).collect()
    }

    /// Whether affine steps up to `tensor` follow an operator whose weights can take them in.
    fn folds_into_weights(&self, mut tensor: TensorId) -> bool {
        while let Some(at) = self.exclusive_writer(tensor) {
            let writer = self.operator(at);
            match &writer.kind {
                _ if writer.affine().is_some() => tensor = writer.input,
                OperatorKind::Conv2d(_) | OperatorKind::Linear(_) => {
                    return writer.kind.activation() == Some(Activation::None);
                }
                _ => return false,
            }
        }
        false
    }
}
