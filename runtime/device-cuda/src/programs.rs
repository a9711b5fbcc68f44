//! The programs of a device: for each partition, each model's, and what its leader must know of a list
//! before it launches it.

use punctual_cuda_kernels::Arguments;

use crate::lower::{LaunchList, Place, Program};

pub(crate) struct Model {
    pub(crate) program: Program,
    /// By stage, then list.
    needs: Box<[Box<[Needs]>]>,
}

/// What the launches of a list read and write in addition to their workspace and weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    pub(crate) reads_input: bool,
    /// What the members carry from earlier stages.
    pub(crate) reads_carried: bool,
    /// It leaves something for later stages.
    pub(crate) writes_carried: bool,
}

impl Model {
    pub(crate) fn new(program: Program) -> Self {
        let needs = program
            .stages
            .iter()
            .map(|stage| stage.lists.iter().map(Needs::of).collect())
            .collect();
        Self { program, needs }
    }

    /// The smallest list of a stage that has room for `members` members, and its needs.
    pub(crate) fn list(&self, stage: usize, members: usize) -> Option<(&LaunchList, Needs)> {
        let lists = &self.program.stages.get(stage)?.lists;
        let at = lists
            .iter()
            .position(|list| usize::from(list.batch) >= members)?;
        Some((&lists[at], self.needs[stage][at]))
    }
}

impl Needs {
    fn of(list: &LaunchList) -> Self {
        let mut needs = Self::default();
        for step in &list.steps {
            match *step.arguments() {
                Arguments::InputPlanar(_) => needs.reads_input = true,
                // Members are copied from slots into the workspace, or the other way.
                Arguments::Members(_) if step.kernel.name == MEMBERS_OUT => {
                    needs.writes_carried = true;
                }
                Arguments::Members(members) => {
                    let from = Place::decode(members.members[0]);
                    needs.reads_carried |= matches!(from, Place::Request { .. });
                }
                _ => {}
            }
        }
        needs
    }
}

/// Of the kernel that copies from the batch to the members.
const MEMBERS_OUT: &str = "members_out";
