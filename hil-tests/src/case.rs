//! A case: what it is, what it needs, how long it may take, and what it does.

use crate::bed::TestBed;
use crate::facts::Need;
use crate::outcome::Failure;

pub struct Case {
    pub suite: &'static str,
    /// Its name, unique in the suite.
    pub name: &'static str,
    /// What it does and what must come of it, in a sentence.
    pub about: &'static str,
    /// What it needs of the target.
    pub needs: &'static [Need],
    /// How long it may take, in seconds.
    pub limit_s: u64,
    /// Keys and units of what it measures.
    pub measures: &'static [(&'static str, &'static str)],
    pub body: fn(&mut TestBed<'_>) -> Result<(), Failure>,
}

impl Case {
    /// `SUITE/NAME`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}/{}", self.suite, self.name)
    }
}
