//! Experiments: what the scheduler must reach, each run by one command and written down in
//! `docs/results`. `punctual simulate --experiment NAME` prints an experiment's tables.

mod nexus_drop;

/// An experiment.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name.
    pub name: &'static str,
    /// What it shows, in a line.
    pub about: &'static str,
    /// Where its results are written down.
    pub results: &'static str,
    /// Runs it and gives its tables as Markdown. A pure function: the same text on every machine.
    pub run: fn() -> String,
}

/// All of them.
#[must_use]
pub fn all() -> Vec<Experiment> {
    vec![nexus_drop::EXPERIMENT]
}

/// The experiment of that name.
#[must_use]
pub fn by_name(name: &str) -> Option<Experiment> {
    all().into_iter().find(|experiment| experiment.name == name)
}
