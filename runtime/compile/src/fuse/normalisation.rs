//! The network's own normalisation. What it does first to each value of a picture, `x / 255` or `(x - mean) / std`, is done as
//! frames are prepared, which scales and shifts each value anyway: then no operator of a stage does it.

use punctual_model::{Gather, IMAGE_CHANNELS_MAX, InputForm, OperatorKind, TensorId};

use crate::draft::{Affine, Draft, DraftOperator, Drafted};

/// The picture, of any network that takes one.
const PICTURE: TensorId = TensorId(0);

/// Largest mean, in units of the full scale. What is subtracted from values of at most one costs them as many bits as it is larger.
const MEAN_MAX: f32 = 16.0;

/// Takes affine steps on the picture into its normalisation, as long as nothing else reads what they read; returns how many.
pub(super) fn take_in(draft: &mut Draft, exits: &[TensorId], form: &mut InputForm) -> usize {
    let mut taken = 0;
    while let Some((at, normalised)) = next(draft, exits, form) {
        *form = normalised;
        let removed = draft.operators.remove(at);
        for operator in &mut draft.operators {
            let reads = operator.reads_mut();
            let stale = reads.filter(|read| **read == removed.output);
            stale.for_each(|read| *read = removed.input);
        }
        taken += 1;
    }
    taken
}

/// The only operator that reads the picture, or its channels in another order, if it is a step that the normalisation can take
/// in; and what that becomes.
fn next(draft: &Draft, exits: &[TensorId], form: &InputForm) -> Option<(usize, InputForm)> {
    let (mut at, mut step) = only_reader(draft, PICTURE)?;
    let mut order: Vec<usize> = (0..IMAGE_CHANNELS_MAX).collect();
    if let Some(gathered) = order_of(step) {
        // What an exit gives to clients is read by them, too.
        if exits.contains(&step.output) {
            return None;
        }
        order = gathered;
        (at, step) = only_reader(draft, step.output)?;
    }
    // An exit's tensors are written by operators.
    let is_needed = exits.contains(&step.output) || is_rounded(draft, step.output);
    let normalised = followed_by(form, &order, step.affine()?)?;
    (!is_needed).then_some((at, normalised))
}

/// Whether something may round or compare a tensor's values, so that their last bits count.
fn is_rounded(draft: &Draft, tensor: TensorId) -> bool {
    let mut readers = draft.operators.iter();
    readers.any(|operator| {
        let rounds = matches!(
            operator.kind,
            OperatorKind::Unary(_) | OperatorKind::Binary(_) | OperatorKind::Convert(_)
        );
        rounds && operator.reads().any(|read| read == tensor)
    })
}

fn only_reader(draft: &Draft, tensor: TensorId) -> Option<(usize, &DraftOperator)> {
    let operators = draft.operators.iter().enumerate();
    let mut readers = operators.filter(|(_, operator)| operator.reads().any(|read| read == tensor));
    readers.next().filter(|_| readers.next().is_none())
}

/// The channels that a gather takes of one tensor, if it takes none twice.
fn order_of(operator: &DraftOperator) -> Option<Vec<usize>> {
    let OperatorKind::Gather(Gather { runs }) = &operator.kind else {
        return None;
    };
    let runs = runs.iter().filter(|run| run.source == 0);
    let order: Vec<usize> = runs
        .flat_map(|run| run.first as usize..(run.first + run.count) as usize)
        .collect();
    let mut once = order.clone();
    once.sort_unstable();
    once.dedup();
    (operator.others.is_empty() && once.len() == order.len()).then_some(order)
}

/// `scale (x - mean) / std + shift = (x - (mean - shift std / scale)) / (std / scale)`, where that keeps the values' bits. The
/// step's channels are the picture's in this order.
fn followed_by(form: &InputForm, order: &[usize], step: Affine<'_>) -> Option<InputForm> {
    let InputForm::Image { mut mean, mut std } = *form else {
        return None;
    };
    for (&channel, (&scale, &shift)) in order.iter().zip(step.scale.iter().zip(step.shift)) {
        let figures = [mean[channel], std[channel], scale, shift];
        let [old_mean, old_std, scale, shift] = figures.map(f64::from);
        mean[channel] = (old_mean - shift * old_std / scale) as f32;
        std[channel] = (old_std / scale) as f32;
        let keeps_bits = mean[channel].abs() <= MEAN_MAX;
        if !keeps_bits || !std[channel].is_normal() || std[channel] < 0.0 {
            return None;
        }
    }
    Some(InputForm::Image { mean, std })
}
