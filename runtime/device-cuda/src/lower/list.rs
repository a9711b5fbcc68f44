//! A list in the making.
//!
//! While a list is made, every buffer of the workspace has a number, which stands where its offset
//! will be. When all launches are there, what they read and write says how long each buffer is
//! needed, the buffers are planned, and numbers become offsets.

use punctual_kernels::cuda::{Arguments, Kernel};
use punctual_model::memory::{self, Lifetime};

use super::place::Place;
use super::program::{LaunchList, Step};
use super::traffic::{Span, Traffic};

/// Buffers begin at multiples of this many bytes: what the driver gives allocations, and more than any vector.
pub(super) const ALIGNMENT: usize = 256;

/// Launches for batches of one size.
pub(super) struct Draft {
    batch: u8,
    steps: Vec<Step>,
    /// Bytes of each buffer.
    buffers: Vec<u64>,
}

#[derive(Clone, Copy)]
pub(super) struct Of<'n> {
    pub(super) operator: Option<u32>,
    pub(super) name: &'n str,
}

impl Draft {
    pub(super) fn new(batch: u8) -> Self {
        Self {
            batch,
            steps: Vec::new(),
            buffers: Vec::new(),
        }
    }

    pub(super) fn buffer(&mut self, bytes: u64) -> Place {
        self.buffers.push(bytes);
        Place::Workspace {
            offset: self.buffers.len() as u64 - 1,
        }
    }

    /// A further launch.
    ///
    /// # Panics
    /// If the arguments are another kernel's.
    pub(super) fn push(&mut self, of: Of<'_>, kernel: &'static Kernel, arguments: Arguments) {
        let grid = |images: u8| {
            let mut arguments = arguments;
            arguments.set_images(u32::from(images));
            let grid = kernel.grid(&arguments);
            grid.unwrap_or_else(|| panic!("arguments of another kernel than `{}`", kernel.name))
        };
        self.steps.push(Step {
            operator: of.operator,
            name: of.name.to_owned(),
            kernel,
            arguments,
            grids: (1..=self.batch).map(grid).collect(),
        });
    }

    /// Plans the workspace.
    ///
    /// # Panics
    /// On an error of this module: a buffer is read before it is written, or a launch would write where it reads.
    pub(super) fn finish(self) -> LaunchList {
        let lifetimes = self.lifetimes();
        let plan = memory::plan(&lifetimes, ALIGNMENT);
        let mut steps = self.steps;
        for step in &mut steps {
            step.arguments.for_each_address(&mut |address| {
                if let Place::Workspace { offset: number } = Place::decode(*address) {
                    let offset = plan.offsets[number as usize] as u64;
                    *address = Place::Workspace { offset }.encode();
                }
            });
        }
        let list = LaunchList {
            batch: self.batch,
            steps: steps.into(),
            workspace_bytes: plan.total as u64,
        };
        assert_eq!(list.first_overlap(), None, "a launch writes where it reads");
        assert!(
            !list.overwrites_requests(),
            "a stage could not be run again"
        );
        list
    }

    /// From the first launch that writes a buffer to the last that touches it.
    fn lifetimes(&self) -> Vec<Lifetime> {
        let mut lifetimes: Vec<Option<Lifetime>> = vec![None; self.buffers.len()];
        for (at, step) in (0..).zip(&self.steps) {
            let Traffic { reads, writes } = step.traffic();
            for span in &reads {
                if let Place::Workspace { offset: number } = span.place {
                    let lifetime = lifetimes[number as usize].as_mut();
                    lifetime.expect("written before it is read").last = at;
                }
            }
            for span in &writes {
                if let Place::Workspace { offset: number } = span.place {
                    let size = self.buffers[number as usize];
                    assert!(span.bytes <= size, "{} bytes in {size}", span.bytes);
                    let lifetime = lifetimes[number as usize].get_or_insert(Lifetime {
                        first: at,
                        last: at,
                        size: size as usize,
                    });
                    lifetime.last = at;
                }
            }
        }
        let never = Lifetime {
            first: 0,
            last: 0,
            size: 0,
        };
        let lifetimes = lifetimes.into_iter();
        lifetimes.map(|each| each.unwrap_or(never)).collect()
    }
}

impl Step {
    pub(crate) fn traffic(&self) -> Traffic {
        let traffic = Traffic::of(&self.arguments);
        match self.kernel.name {
            "members_out" => traffic.reversed(),
            _ => traffic,
        }
    }
}

impl LaunchList {
    /// The position of a launch that writes where it reads, if there is one: it could not be run
    /// again from its start.
    #[must_use]
    pub fn first_overlap(&self) -> Option<usize> {
        self.steps.iter().position(|step| step.traffic().overlaps())
    }

    /// Whether anything is written to a request's slot where the list reads it: a stage that was
    /// stopped could not be run again from its start.
    #[must_use]
    pub fn overwrites_requests(&self) -> bool {
        let traffic: Vec<Traffic> = self.steps.iter().map(Step::traffic).collect();
        let is_request = |span: &&Span| matches!(span.place, Place::Request { .. });
        let reads = || traffic.iter().flat_map(|t| &t.reads).filter(is_request);
        let mut writes = traffic.iter().flat_map(|t| &t.writes).filter(is_request);
        writes.any(|write| reads().any(|read| read.overlaps(write)))
    }
}
