//! The buffer that a step writes its decisions to.

use alloc::vec::Vec;

use crate::action::Action;
use crate::config::Config;

/// The decisions of one step, in the order in which they must be carried out. A reply frees a request buffer
/// that a later action of the same step may give to another request.
#[derive(Clone, Debug)]
pub struct Actions {
    list: Vec<Action>,
    capacity: usize,
}

impl Actions {
    /// An empty buffer, large enough for any step of a scheduler made from `config`. Nothing is allocated later.
    #[must_use]
    pub fn for_config(config: &Config) -> Self {
        // One step may end every open request (a client that holds all buffers disconnects), or deliver its answer, and
        // end the one that just arrived and got no buffer.
        let replies = usize::from(config.request_buffers) + 1;
        // An arrival leads to at most one preparation.
        let preparations = 1;
        // A partition whose action ended starts at most one and gets one handed over ahead. One that runs
        // best-effort work preempts it at most once.
        let orders = 2 * config.partitions.len();
        // A step loads or evicts a model at most once.
        let transfers = if config.pages == 0 {
            0
        } else {
            config.models.len()
        };
        // The end of an action demotes or reinstates its model at most once.
        let demotions = 1;
        let capacity = replies + preparations + orders + transfers + demotions;
        Self {
            list: Vec::with_capacity(capacity),
            capacity,
        }
    }

    /// Removes the decisions of the step before.
    pub fn clear(&mut self) {
        self.list.clear();
    }

    /// The decisions, in the order in which they must be carried out.
    pub fn iter(&self) -> core::slice::Iter<'_, Action> {
        self.list.iter()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

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
