//! A list in the making.
//!
//! While a list is made, every buffer of the workspace has a number, which stands where its offset
//! will be. When all launches are there, what they read and write says how long each buffer is
//! needed, the buffers are planned, and numbers become offsets.

use punctual_cuda_kernels::{Arguments, Kernel, with_arguments};
use punctual_model::Operator;
use punctual_model::memory::{self, Lifetime};

use super::place::Place;
use super::program::{LaunchList, Step};
use super::traffic::{Launch, Traffic};

/// Buffers begin at multiples of this many bytes: what the driver gives allocations, and more than any vector.
pub(super) const ALIGNMENT: usize = 256;

/// Launches for batches of one size.
pub(super) struct Draft {
    batch: u8,
    steps: Vec<Step>,
    buffers: usize,
}

#[derive(Clone, Copy)]
pub(super) struct Of<'n> {
    pub(super) operator: Option<u32>,
    pub(super) name: &'n str,
}

impl<'n> Of<'n> {
    /// Of the operator at a position in order of execution.
    pub(super) fn operator(position: u32, operator: &'n Operator) -> Self {
        let (operator, name) = (Some(position), operator.name.as_str());
        Self { operator, name }
    }

    /// What the device adds.
    pub(super) fn device(name: &'n str) -> Self {
        let operator = None;
        Self { operator, name }
    }
}

impl Draft {
    pub(super) fn new(batch: u8) -> Self {
        Self {
            batch,
            steps: Vec::new(),
            buffers: 0,
        }
    }

    /// A further buffer: as large as what launches write to it.
    pub(super) fn buffer(&mut self) -> Place {
        self.buffers += 1;
        Place::Workspace {
            offset: self.buffers as u64 - 1,
        }
    }

    /// A further launch.
    ///
    /// # Panics
    /// If the arguments are another kernel's.
    pub(super) fn push(
        &mut self,
        of: Of<'_>,
        kernel: &'static Kernel,
        arguments: impl Into<Arguments>,
    ) {
        let arguments = arguments.into();
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

    /// Plans the workspace. Whether the launches then compute what the network says is for the
    /// [checker](super::checker) to find out.
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
        LaunchList {
            batch: self.batch,
            steps: steps.into(),
            workspace_bytes: plan.total as u64,
        }
    }

    /// From the first launch that touches a buffer to the last.
    fn lifetimes(&self) -> Vec<Lifetime> {
        let mut lifetimes: Vec<Option<Lifetime>> = vec![None; self.buffers];
        for (at, step) in (0..).zip(&self.steps) {
            let Traffic { reads, writes } = step.traffic();
            for span in reads.iter().chain(&writes) {
                let Place::Workspace { offset: number } = span.place else {
                    continue;
                };
                let lifetime = lifetimes[number as usize].get_or_insert(Lifetime {
                    first: at,
                    last: at,
                    size: 0,
                });
                lifetime.last = at;
                lifetime.size = lifetime.size.max(span.bytes as usize);
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
        let traffic = with_arguments!(&self.arguments, launch => launch.traffic());
        match self.kernel.name {
            "members_out" => traffic.reversed(),
            _ => traffic,
        }
    }
}
