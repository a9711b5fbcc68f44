//! Which clients are admitted, and with which frames: a client's wishes against the plan.

use punctual_core::TaskId;
use punctual_ipc::{BufferRefusal, FrameSpec, Hello, PeerCredentials, Refusal};
use punctual_plan::{Access, Plan, TaskPlan};

/// A process that asks to be admitted.
pub struct Peer<'p> {
    pub credentials: PeerCredentials,
    pub groups: &'p [u32],
    pub streams: usize,
}

impl Peer<'_> {
    fn check(&self, access: Option<&Access>) -> Result<(), Refusal> {
        let PeerCredentials { uid, gid, .. } = self.credentials;
        match access {
            Some(access) if !admits(access, self.credentials, self.groups) => {
                Err(Refusal::NotAllowed { uid, gid })
            }
            _ => Ok(()),
        }
    }
}

/// Whether the manifest names the process's user or one of its groups.
pub fn admits(access: &Access, of: PeerCredentials, groups: &[u32]) -> bool {
    access.admits(of.uid, &[of.gid]) || access.admits(of.uid, groups)
}

/// The task that the client may feed, and its frames as the client has them.
pub fn admit<'p>(
    plan: &'p Plan,
    hello: &Hello,
    peer: &Peer<'_>,
) -> Result<(TaskId, &'p TaskPlan, FrameSpec), Refusal> {
    peer.check(plan.admission.allow.as_ref())?;
    let Some((id, task)) = plan.task_named(&hello.task) else {
        return Err(Refusal::UnknownTask {
            task: hello.task.clone(),
        });
    };
    if let Some(after) = &task.after {
        return Err(Refusal::NotSubmittedTo {
            task: hello.task.clone(),
            first: plan.task(after.first).name.clone(),
        });
    }
    peer.check(task.entry.allow.as_ref())?;
    let limit = plan.admission.streams_per_process;
    if peer.streams >= usize::from(limit) {
        return Err(Refusal::StreamsOfProcess { limit });
    }
    buffers(hello, task).map_err(Refusal::Buffers)?;
    Ok((id, task, layout(hello, task)?))
}

/// Whether the client may bring as many buffers of its own as it says.
fn buffers(hello: &Hello, task: &TaskPlan) -> Result<(), BufferRefusal> {
    let (given, slots) = (hello.buffers, task.channel.slots);
    match given {
        0 => Ok(()),
        _ if !task.entry.import_buffers => Err(BufferRefusal::NotWanted),
        _ if given > slots => Err(BufferRefusal::TooMany { given, slots }),
        _ => Ok(()),
    }
}

/// The task's frames in the client's own layout, if it has one that fits into a slot of the plan.
fn layout(hello: &Hello, task: &TaskPlan) -> Result<FrameSpec, Refusal> {
    let planned = FrameSpec::from(task.frame.layout());
    let expected = planned.format;
    if hello.format.is_some_and(|format| format != expected) {
        return Err(Refusal::Format { expected });
    }
    let Some(layout) = hello.layout else {
        return Ok(planned);
    };
    let frame = planned.with_layout(layout);
    frame.check().map_err(Refusal::Layout)?;
    let (bytes, limit) = (frame.bytes(), task.channel.slot_bytes);
    // Its own buffers are as large as it likes, within what a frame can be.
    if bytes > limit && hello.buffers == 0 {
        return Err(Refusal::LayoutTooLarge { bytes, limit });
    }
    Ok(frame)
}
