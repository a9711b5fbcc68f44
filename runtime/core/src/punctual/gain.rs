//! What going deeper is worth (calibration's expected accuracies against the time that they take).

use crate::config::ModelConfig;

/// `max over deeper e' of (E[accuracy at e'] - E[accuracy at e]) / time(e → e')`, times the time
/// of the next stage; e is the exit before `stage`. The maximum over several stages matters:
/// gains are not concave, a stage of little worth may lead to one of much.
pub fn best_gain(model: &ModelConfig, stage: usize, partition: usize, bin: usize) -> u64 {
    let budget = |s: usize| u128::from(model.stages[s].times[0].on[partition].budget.as_nanos());
    let exit = &model.stages[stage - 1];
    let mut time = 0;
    let mut best = 0;
    for (k, accuracy) in exit.deeper.iter().enumerate() {
        time += budget(stage + k);
        let gained = u128::from(accuracy[bin].saturating_sub(exit.accuracy[bin]));
        best = best.max(((gained * budget(stage)) << 16) / time.max(1));
    }
    best as u64
}
