//! The gain of a deeper stage: expected accuracy, from calibration, for the time that it takes.

use crate::config::ModelConfig;

/// `max over deeper e' of (E[accuracy at e'] - E[accuracy at e]) / time(e → e')`, times the time
/// of the next stage; e is the exit before `stage`. In 1/65535 of accuracy, 16 fractional bits. The maximum
/// over several stages matters because gains are not concave: a stage with a low gain may lead to one with a
/// high gain.
pub fn best_gain(model: &ModelConfig, stage: usize, partition: usize, bin: usize) -> u64 {
    let budget = |s: usize| u128::from(model.stages[s].times[0].on[partition].budget.as_nanos());
    debug_assert!(stage > 0, "no exit is before the first stage");
    let exit = &model.stages[stage - 1];
    let mut time = 0;
    let mut best = 0;
    for (k, accuracy) in exit.deeper.iter().enumerate() {
        time += budget(stage + k);
        // A deeper exit may be less accurate in a bin; then its gain is none.
        let gained = u128::from(accuracy[bin].saturating_sub(exit.accuracy[bin]));
        best = best.max(((gained * budget(stage)) << 16) / time.max(1));
    }
    best as u64
}
