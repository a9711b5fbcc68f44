//! What the stages of a query cost, by how much of its deadline they get (section 6.2).

use punctual_core::Nanos;

use super::rate::Rate;

/// A way to run a stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The part of the deadline that it takes.
    pub latency: Nanos,
    /// Device time for each request, in nanoseconds.
    pub work_ns: f64,
}

/// What a stage costs, as published: at high rates, where each device runs one stage only.
#[derive(Clone, Debug, PartialEq)]
pub struct StageCost {
    pub rate: Rate,
    pub choices: Vec<Choice>,
}

impl StageCost {
    /// Devices that the stage keeps busy within a budget; infinite if no choice fits.
    #[must_use]
    pub fn devices(&self, budget: Nanos) -> f64 {
        let fitting = self
            .choices
            .iter()
            .filter(|choice| choice.latency <= budget);
        let least = fitting
            .map(|choice| choice.work_ns)
            .fold(f64::INFINITY, f64::min);
        least * self.rate.hz() / 1e9
    }
}
