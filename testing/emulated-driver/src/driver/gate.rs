//! Where a test may stop a stream: no schedule depends on how fast the machine is.

/// What a stream does one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A launch, a copy, an event.
    Command,
    Block,
    /// A look of a thread at its guard.
    Checkpoint,
}

/// How far a stream may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// As far as it has work.
    Open,
    /// This number of steps of this kind, and then no further.
    After(Step, u64),
    /// Not a step.
    Held,
}

impl Hold {
    /// Whether the next step, of this kind, may be done; counts it.
    pub(crate) fn pass(&mut self, step: Step) -> bool {
        match self {
            Hold::Open => true,
            Hold::Held => false,
            Hold::After(kind, _) if *kind != step => true,
            Hold::After(_, 0) => {
                *self = Hold::Held;
                false
            }
            Hold::After(_, left) => {
                *left -= 1;
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_counts_its_own_kind_of_step_only() {
        let mut hold = Hold::After(Step::Block, 2);
        let steps = [Step::Command, Step::Block, Step::Checkpoint, Step::Block];
        assert!(steps.into_iter().all(|step| hold.pass(step)));
        assert!(hold.pass(Step::Command), "not closed before the next block");
        assert!(!hold.pass(Step::Block));
        assert_eq!(hold, Hold::Held);
        assert!(!hold.pass(Step::Command));
    }
}
