//! Deliberate holes in the policy. Tests cut them to show that they would notice: each makes
//! accepted requests miss their deadlines. A product build has no way to set one.

/// One hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ablation {
    /// Extras are tested against pending requests only, not against future reserved ones.
    PendingOnlyAdmission,
    /// Optional stages run whenever their members' own deadlines allow it.
    UngatedOptional,
    /// A batch is accepted if its members' deadlines allow it, whatever others' say.
    MembersOnlyBatch,
    /// A joint promise is made whatever its batch blocks.
    UnboundedJoint,
    /// What is handed over ahead goes without a test, as a head alone does.
    UncheckedLookAhead,
    /// A change between layouts is made because both are schedulable.
    UncheckedChange,
}

/// The hole that a test has cut, if any.
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
