//! The workspaces of a partition, and what preempted stages left in them.

use std::sync::Arc;

use heapless::Vec;
use punctual_cuda_kernels::IMAGES_MAX;
use punctual_device::regions::BufferGuard;

use crate::counters::Counters;
use crate::driver::{CallError, Context, DeviceMemory, MappedMemory, Stream};

/// A stage for certain members, each at a certain claim of its buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StageRun {
    /// Where it runs: another partition of the same stream may have other launches for the stage.
    partition: usize,
    pub(crate) model: usize,
    pub(crate) stage: usize,
    /// Request buffers, each with the sequence number of its claim.
    members: Vec<(usize, u32), IMAGES_MAX>,
}

impl StageRun {
    /// # Panics
    /// If there are more members than a batch has.
    pub(crate) fn new(
        partition: usize,
        model: usize,
        stage: usize,
        members: &[BufferGuard<'_>],
    ) -> Self {
        let each = members.iter().map(|claim| (claim.index(), claim.turn()));
        Self {
            partition,
            model,
            stage,
            members: each.collect(),
        }
    }

    pub(crate) fn buffer(&self, member: usize) -> usize {
        self.members[member].0
    }

    pub(crate) fn buffers(&self) -> impl Iterator<Item = usize> {
        self.members.iter().map(|member| member.0)
    }

    /// Whether `self` is `earlier` again, on the same partition, with no use of a member in between.
    fn continues(&self, earlier: &Self) -> bool {
        let follows = |(now, then): (&(usize, u32), &(usize, u32))| {
            now.0 == then.0 && now.1 == then.1.wrapping_add(1)
        };
        let same = |of: &Self| (of.partition, of.model, of.stage, of.members.len());
        same(self) == same(earlier) && self.members.iter().zip(&earlier.members).all(follows)
    }
}

struct Paused {
    stage_run: StageRun,
    /// The launch that it resumes at.
    at: u32,
    /// Its sequence number among the stages that were preempted on this partition.
    order: u64,
}

struct Workspace {
    memory: DeviceMemory,
    /// The outputs of the stage that runs in it, which the host reads.
    outputs: MappedMemory,
    paused: Option<Paused>,
}

/// The workspaces of one partition. A stage runs in one of them; one that was preempted keeps its own
/// until all of them are kept so and another stage needs one.
pub(crate) struct Workspaces {
    workspaces: std::vec::Vec<Workspace>,
    /// Words of each.
    words: usize,
    paused: u64,
}

impl Workspaces {
    /// `count` workspaces (at least one) of `bytes`, zeroed so that all of it is allocated, each with `output_bytes`
    /// for outputs.
    pub(crate) fn take(
        context: &Arc<Context>,
        stream: &Stream,
        count: u32,
        bytes: usize,
        output_bytes: usize,
    ) -> Result<Self, CallError> {
        let bytes = bytes.max(1).next_multiple_of(4);
        let workspaces = (0..count.max(1)).map(|_| {
            let memory = DeviceMemory::take(context, bytes)?;
            stream.fill_words(&memory, bytes / 4, 0)?;
            Ok(Workspace {
                memory,
                outputs: MappedMemory::take(context, output_bytes)?,
                paused: None,
            })
        });
        Ok(Self {
            workspaces: workspaces.collect::<Result<_, CallError>>()?,
            words: bytes / 4,
            paused: 0,
        })
    }

    /// The workspace for a run of a stage, and the launch to begin with: not the first one, if the run was
    /// preempted and nothing it needs has been touched since.
    pub(crate) fn choose(&mut self, stage_run: &StageRun, counters: &Counters) -> (usize, u32) {
        let continued = self.workspaces.iter().position(|workspace| {
            let paused = workspace.paused.as_ref();
            paused.is_some_and(|paused| stage_run.continues(&paused.stage_run))
        });
        if let Some(index) = continued
            && let Some(paused) = self.workspaces[index].paused.take()
        {
            counters.resumed.add(1);
            return (index, paused.at);
        }
        // A free one; else the one whose stage has waited the longest.
        let age =
            |workspace: &Workspace| workspace.paused.as_ref().map_or(0, |paused| paused.order);
        let oldest = (0..self.workspaces.len()).min_by_key(|&index| age(&self.workspaces[index]));
        let index = oldest.unwrap_or(0);
        if self.workspaces[index].paused.take().is_some() {
            counters.begun_again.add(1);
        }
        (index, 0)
    }

    /// The run in workspace `index` is to resume at launch `at`.
    pub(crate) fn pause(&mut self, index: usize, stage_run: StageRun, at: u32) {
        if at > 0 {
            self.paused += 1;
            self.workspaces[index].paused = Some(Paused {
                stage_run,
                at,
                order: self.paused,
            });
        }
    }

    /// Overwrites all of workspace `index` with what is no number, as halves or floats.
    pub(crate) fn poison(&self, index: usize, stream: &Stream) -> Result<(), CallError> {
        let memory = &self.workspaces[index].memory;
        stream.fill_words(memory, self.words, u32::MAX)
    }

    /// Where workspace `index` lies.
    pub(crate) fn address(&self, index: usize) -> u64 {
        self.workspaces[index].memory.address()
    }

    /// Where the outputs of the stage in workspace `index` lie.
    pub(crate) fn outputs(&self, index: usize) -> &MappedMemory {
        &self.workspaces[index].outputs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage_run(stage: usize, members: &[(usize, u32)]) -> StageRun {
        StageRun {
            partition: 0,
            model: 0,
            stage,
            members: members.iter().copied().collect(),
        }
    }

    #[test]
    fn an_errand_goes_on_only_if_nobody_touched_a_member_in_between() {
        let before = stage_run(1, &[(3, 7), (5, u32::MAX)]);
        assert!(stage_run(1, &[(3, 8), (5, 0)]).continues(&before));
        for other in [
            stage_run(1, &[(3, 9), (5, 0)]),
            stage_run(1, &[(3, 8), (5, 1)]),
            stage_run(2, &[(3, 8), (5, 0)]),
            stage_run(1, &[(3, 8)]),
            stage_run(1, &[(5, 0), (3, 8)]),
        ] {
            assert!(!other.continues(&before), "{other:?}");
        }
    }

    #[test]
    fn a_stage_that_was_preempted_on_another_partition_of_the_stream_begins_again() {
        let before = stage_run(1, &[(3, 7)]);
        let on_another = StageRun {
            partition: 1,
            ..stage_run(1, &[(3, 8)])
        };
        assert!(stage_run(1, &[(3, 8)]).continues(&before));
        assert!(!on_another.continues(&before));
    }
}
