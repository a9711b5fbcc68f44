//! The buffer that a step writes its decisions to.

use alloc::vec::Vec;

use crate::action::Action;
use crate::config::Config;

/// The decisions of one step, in the order in which they must be carried out (a reply frees a
/// request buffer that a later action of the same step may give to another request).
#[derive(Clone, Debug)]
pub struct Actions {
    list: Vec<Action>,
    capacity: usize,
}

impl Actions {
    /// An empty buffer, large enough for any step of a scheduler made from `config`; the only allocation.
    #[must_use]
    pub fn for_config(config: &Config) -> Self {
        // Every open request may be answered in one step (a client with all buffers is gone),
        // plus the one that just arrived and never got a buffer.
        let replies = usize::from(config.request_buffers) + 1;
        // An arrival leads to at most one preparation.
        let preparations = 1;
        // A partition that finished its action starts at most one and takes one ahead; one that
        // runs best-effort work is told at most once to stop.
        let orders = 2 * config.partitions.len();
        // A model is at most brought in or sent away.
        let transfers = if config.pages == 0 {
            0
        } else {
            config.models.len()
        };
        // The end of an action may cost its model its promises, or bring them back.
        let conduct = 1;
        let capacity = replies + preparations + orders + transfers + conduct;
        Self {
            list: Vec::with_capacity(capacity),
            capacity,
        }
    }

    /// Forgets the decisions of the step before.
    pub fn clear(&mut self) {
        self.list.clear();
    }

    /// The decisions, first to be carried out first.
    pub fn iter(&self) -> core::slice::Iter<'_, Action> {
        self.list.iter()
    }

    /// How many decisions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether the step decided nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Appends a decision.
    ///
    /// # Panics
    /// Beyond the capacity that the plan fixed: a policy broke its contract.
    pub fn push(&mut self, action: Action) {
        assert!(
            self.list.len() < self.capacity,
            "a step wrote more than {} actions: the sum in Actions::for_config is wrong, or the \
             buffer was not cleared",
            self.capacity
        );
        self.list.push(action);
    }
}

impl<'a> IntoIterator for &'a Actions {
    type Item = &'a Action;
    type IntoIter = core::slice::Iter<'a, Action>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
