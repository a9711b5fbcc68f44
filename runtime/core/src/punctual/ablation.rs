//! Ablations: each removes one test of the policy. Tests show that accepted requests then miss their
//! deadlines, so the guarantee depends on that test. A product build cannot set one.

/// The test that is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ablation {
    /// Extras are tested against accepted requests only, not against future reserved ones (F).
    PendingOnlyAdmission,
    /// Optional stages run whenever their members' own deadlines allow it.
    UngatedOptional,
    /// A batch is accepted if its members' deadlines allow it, without a test of other deadlines.
    MembersOnlyBatch,
    /// A joint promise is made without the bound on the blocking by its batch.
    UnboundedJoint,
    /// An action is handed over ahead without a test, as if it were the head alone on a free partition.
    UncheckedLookAhead,
    /// Work starts on places without a test of the promises there.
    UngatedLending,
    /// Work with promised stages left may run on a place while its home starts others.
    UnpinnedHome,
}

/// The ablation that a test has set, if any.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ablations {
    #[cfg(test)]
    pub(crate) cut: Option<Ablation>,
}

impl Ablations {
    #[cfg(test)]
    pub(crate) fn has(self, ablation: Ablation) -> bool {
        self.cut == Some(ablation)
    }

    #[cfg(not(test))]
    pub(crate) const fn has(self, _: Ablation) -> bool {
        false
    }
}
