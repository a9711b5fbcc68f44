//! Which tasks the members of actions belong to, to count on whose compute units they ran.

use punctual_core::{BATCH_MAX, Config, Infer, RequestId, TaskId};

/// The tasks of an action's members, in their order.
pub type MemberTasks = heapless::Vec<TaskId, BATCH_MAX>;

/// The task of the request in each request buffer.
#[derive(Debug)]
pub struct TaskOfBuffer(Box<[TaskId]>);

impl TaskOfBuffer {
    /// None without places: then nothing is counted by it.
    pub fn new(config: &Config) -> Option<Self> {
        let buffers = config.request_buffers.into();
        config.has_places().then(|| Self::with_buffers(buffers))
    }

    pub fn with_buffers(buffers: usize) -> Self {
        Self(vec![TaskId(0); buffers].into())
    }

    /// A request of a task, perhaps offloaded to it, got its buffer.
    pub fn set(&mut self, request: RequestId, task: TaskId) {
        if let Some(of_buffer) = self.0.get_mut(usize::from(request.buffer)) {
            *of_buffer = task;
        }
    }

    pub fn members(&self, infer: &Infer) -> MemberTasks {
        let buffers = infer.members.iter().map(|id| usize::from(id.buffer));
        buffers.filter_map(|at| self.0.get(at).copied()).collect()
    }
}
