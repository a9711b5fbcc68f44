//! `seq`: one request at a time, in order of arrival, each network to its end (REEF, section 7.1:
//! the requests of real-time and best-effort clients in one queue).

use serde::{Deserialize, Serialize};

use super::desk::{Desk, Members, Rules};
use crate::action::Rejection;
use crate::actions::Actions;
use crate::bounded::List;
use crate::config::Config;
use crate::ids::PartitionId;
use crate::time::Instant;

/// Parameters of `seq`: none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SeqConfig {}

/// The queue of each partition.
#[derive(Debug)]
pub(crate) struct Seq {
    queues: alloc::boxed::Box<[List<u16>]>,
}

impl Seq {
    pub(crate) fn new(config: &Config) -> Self {
        let buffers = usize::from(config.request_buffers);
        let queues = config.partitions.iter();
        Self {
            queues: queues.map(|_| List::with_capacity(buffers)).collect(),
        }
    }

    fn queue(&mut self, desk: &Desk, buffer: u16) -> &mut List<u16> {
        let task = desk.request(buffer).task;
        &mut self.queues[desk.config.tasks[task.index()].partition.index()]
    }
}

impl Rules for Seq {
    fn enqueue(&mut self, desk: &Desk, buffer: u16) -> Result<(), Rejection> {
        self.queue(desk, buffer).push(buffer);
        Ok(())
    }

    fn forget(&mut self, desk: &Desk, buffer: u16) {
        let queue = self.queue(desk, buffer);
        if let Some(at) = queue.iter().position(|&queued| queued == buffer) {
            queue.remove(at);
        }
    }

    fn dispatch(&mut self, desk: &mut Desk, actions: &mut Actions) {
        for index in 0..self.queues.len() {
            let partition = PartitionId(index as u16);
            if desk.is_free(partition) && !self.queues[index].is_empty() {
                let head = self.queues[index].remove(0);
                let members = Members::from_iter([head]);
                desk.start(partition, members, true, Instant::FAR_FUTURE, actions);
            }
        }
    }

    fn next_timer(&self, _desk: &Desk) -> Option<Instant> {
        None
    }
}
