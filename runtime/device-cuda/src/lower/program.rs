//! What a network is lowered to.

use punctual_cuda_kernels::{Arguments, IMAGES_MAX, Kernel, with_arguments};
use punctual_device::InputLayout;

use super::pages::Pages;
use super::place::Place;
use super::traffic::Launch;

/// A network as lists of launches for partitions of one size.
#[derive(Clone, Debug)]
pub struct Program {
    /// The network's name.
    pub name: String,
    /// How a prepared input lies in a request buffer: planes of `f32` without anything in between.
    pub input: InputLayout,
    /// Bytes of a request's slot in device memory, for what is carried between stages.
    pub request_bytes: u64,
    pub pages: Pages,
    /// From input to last exit.
    pub stages: Box<[StageProgram]>,
}

#[derive(Clone, Debug)]
pub struct StageProgram {
    /// Classes of its exit; none if it has no class scores.
    pub classes: Option<u32>,
    /// The requested outputs of its exit; none if no outputs are requested.
    pub outputs: Option<StagedOutputs>,
    /// The pages of weights that its launches read, by rising number.
    pub pages: Box<[u32]>,
    /// One list a batch size, by rising size.
    pub lists: Box<[LaunchList]>,
}

/// The outputs of an exit in the partition's memory for them: member after member, each as it lies in the area of its
/// request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagedOutputs {
    /// Bytes from the start of the area to the first output.
    pub offset: usize,
    /// Bytes of all outputs of a member.
    pub bytes: usize,
    /// Bytes from a member's outputs to the next one's.
    pub pitch: usize,
    /// Bytes from the start of the area to the count of values that are not finite.
    pub not_finite: usize,
}

/// A stage for batches of up to `batch` members.
#[derive(Clone, Debug)]
pub struct LaunchList {
    /// Most members.
    pub batch: u8,
    /// In order; the last one is `answers`. No launch writes where it reads, so one that was cut
    /// short is run again from its start.
    pub steps: Box<[Step]>,
    /// Bytes of the partition's workspace that it uses.
    pub workspace_bytes: u64,
}

/// A launch: which kernel, and on what.
#[derive(Clone, Debug)]
pub struct Step {
    /// Of which operator of the network, by position in order of execution; none for what the device adds.
    pub operator: Option<u32>,
    /// The operator's name, or what the device adds.
    pub name: String,
    pub kernel: &'static Kernel,
    /// With encoded [`Place`]s for addresses, and as many images as the batch has.
    pub(super) arguments: Arguments,
    /// Blocks, for 1 image, 2 images, ...
    pub(super) grids: Box<[[u32; 3]]>,
}

impl Program {
    /// The stage's list for a batch size; none if there is no such stage or no such size.
    #[must_use]
    pub fn list(&self, stage: usize, batch: u8) -> Option<&LaunchList> {
        let lists = &self.stages.get(stage)?.lists;
        let found = lists.binary_search_by_key(&batch, |list| list.batch);
        found.ok().map(|index| &lists[index])
    }

    /// Bytes of workspace that a partition needs for any of the lists.
    #[must_use]
    pub fn workspace_bytes(&self) -> u64 {
        let lists = self.stages.iter().flat_map(|stage| &stage.lists);
        lists.map(|list| list.workspace_bytes).max().unwrap_or(0)
    }

    /// Bytes that a partition needs for the outputs of any of the lists.
    #[must_use]
    pub fn output_bytes(&self) -> usize {
        let bytes = self.stages.iter().map(|stage| {
            let pitch = stage.outputs.as_ref().map_or(0, |outputs| outputs.pitch);
            let members = stage.lists.iter().map(|list| usize::from(list.batch)).max();
            pitch * members.unwrap_or(0)
        });
        bytes.max().unwrap_or(0)
    }

    /// Floats of a prepared input, with the vectors that come with it.
    #[must_use]
    pub fn input_floats(&self) -> usize {
        let vectors = self.input.vectors.iter();
        let ends = vectors.map(|vector| vector.offset + vector.length);
        ends.fold(self.input.span(), usize::max)
    }
}

impl Step {
    /// With encoded [`Place`]s for addresses.
    #[must_use]
    pub fn arguments(&self) -> &Arguments {
        &self.arguments
    }

    /// For tests that plant faults, which the checker must find.
    #[doc(hidden)]
    pub fn arguments_mut(&mut self) -> &mut Arguments {
        &mut self.arguments
    }

    /// The pages of weights that it reads.
    #[must_use]
    pub fn pages(&self) -> heapless::Vec<u32, 2> {
        let mut pages = heapless::Vec::new();
        let mut arguments = self.arguments;
        arguments.for_each_address(&mut |address| {
            if let Place::Weights { page, .. } = Place::decode(*address)
                && !pages.contains(&page)
            {
                // Weights and biases of a piece lie in one page.
                let _ = pages.push(page);
            }
        });
        pages
    }

    /// Blocks of a launch for `images` images.
    ///
    /// # Panics
    /// If there are none, or more than the list's batch.
    #[must_use]
    pub fn grid(&self, images: usize) -> [u32; 3] {
        self.grids[images - 1]
    }

    /// What the kernel is launched with for `images` images, each place by the address that
    /// `address_of` gives. Allocates nothing. The `sequence` of an `answers` is the caller's to set.
    ///
    /// # Panics
    /// If there are no images, or more than the list's batch.
    #[must_use]
    pub fn resolve(&self, images: usize, mut address_of: impl FnMut(Place) -> u64) -> Arguments {
        assert!(
            (1..=self.grids.len()).contains(&images),
            "{images} images in a list for {}",
            self.grids.len()
        );
        let mut arguments = self.arguments;
        arguments.set_images(images as u32);
        arguments.for_each_address(&mut |address| {
            *address = match Place::decode(*address) {
                Place::Nothing => 0,
                place => address_of(place),
            };
        });
        arguments
    }

    /// Where the launch reads and writes, and how many bytes.
    #[must_use]
    pub fn touched(&self) -> Vec<(Place, u64)> {
        let traffic = self.traffic();
        let inputs = with_arguments!(self.arguments(), launch => launch.weight_bytes());
        let mut weights = Some(inputs);
        let spans = traffic.reads.iter().chain(&traffic.writes);
        let named = spans.map(|span| match span.place {
            // A launch's weights, biases and tables lie in one page: the first of them stands for all.
            Place::Weights { .. } => (span.place, weights.take().unwrap_or(0)),
            Place::Input { .. } => (span.place, inputs),
            _ => (span.place, span.bytes),
        });
        let share = with_arguments!(self.arguments(), launch => launch.share_read());
        let scaled = named.enumerate().map(|(at, (place, bytes))| match at {
            0 if share < 1.0 => (place, (bytes as f64 * share) as u64),
            _ => (place, bytes),
        });
        scaled.filter(|&(_, bytes)| bytes > 0).collect()
    }
}

const _: () = assert!(IMAGES_MAX <= 1 << 8, "a place names a member by a byte");
