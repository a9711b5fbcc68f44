//! Launches written down as data: a kernel, its parameters, and what is in its memory beforehand.
//!
//! | module | what it has |
//! |---|---|
//! | [`known`] | launches whose results are known to the last bit |
//! | [`rates`] | launches whose time says how fast a device is |

pub mod known;
pub mod rates;

use punctual_cuda_kernels::{Arguments, Kernel, TensorView, kernel, padded};
use punctual_types::half;

/// A launch and its memory. Its addresses are places: 1 is the first piece of memory, which it writes; 0 is none.
#[derive(Clone, Debug)]
pub struct Recipe {
    kernel: &'static Kernel,
    arguments: Arguments,
    /// What each piece holds before the launch; the first one is the output.
    memory: Vec<Vec<u8>>,
}

/// What an output holds before a launch: no small whole number, so that what is not written shows.
const UNWRITTEN: u8 = 0xA5;

/// The first piece of memory, and those that follow.
const OUTPUT: u64 = 1;
const FIRST: u64 = 2;
const SECOND: u64 = 3;
const THIRD: u64 = 4;
const FOURTH: u64 = 5;

impl Recipe {
    /// A launch that writes `output` bytes from some inputs.
    ///
    /// # Panics
    /// If the table of kernels has no such name, or its grid does not follow from the arguments.
    fn new(name: &str, output: usize, inputs: Vec<Vec<u8>>, arguments: Arguments) -> Self {
        let kernel = kernel(name).expect("a kernel of the table");
        assert!(kernel.grid(&arguments).is_some(), "{name}: a grid");
        let mut memory = inputs;
        memory.insert(0, vec![UNWRITTEN; output]);
        Self {
            kernel,
            arguments,
            memory,
        }
    }

    #[must_use]
    pub fn name(&self) -> &'static str {
        self.kernel.name
    }

    #[must_use]
    pub const fn kernel(&self) -> &'static Kernel {
        self.kernel
    }

    /// What each piece of memory holds before the launch; the output is the first.
    #[must_use]
    pub fn memory(&self) -> &[Vec<u8>] {
        &self.memory
    }

    /// The parameters with addresses in the place of places.
    #[must_use]
    pub fn resolve(&self, address: impl Fn(usize) -> u64) -> Arguments {
        let mut arguments = self.arguments;
        arguments.for_each_address(&mut |place| {
            if let Some(index) = place.checked_sub(1) {
                *place = address(index as usize);
            }
        });
        arguments
    }
}

/// Whole numbers from `-reach` to `reach`, in no order, the same at every call.
struct Whole {
    state: u32,
    reach: u32,
}

fn whole(reach: u32) -> Whole {
    Whole {
        state: 0x2545_f491,
        reach,
    }
}

impl Iterator for Whole {
    type Item = i32;

    fn next(&mut self) -> Option<i32> {
        self.state = self
            .state
            .wrapping_mul(1_664_525)
            .wrapping_add(1_013_904_223);
        let value = (self.state >> 16) % (2 * self.reach + 1);
        Some(value as i32 - self.reach as i32)
    }
}

fn halves(count: usize, reach: u32) -> Vec<u8> {
    let half = |value: i32| half::from_f32(value as f32).to_ne_bytes();
    whole(reach).take(count).flat_map(half).collect()
}

fn floats(count: usize, reach: u32) -> Vec<u8> {
    let float = |value: i32| (value as f32).to_ne_bytes();
    whole(reach).take(count).flat_map(float).collect()
}

fn words(values: impl IntoIterator<Item = u32>) -> Vec<u8> {
    values.into_iter().flat_map(u32::to_ne_bytes).collect()
}

/// A tensor at a place, its channels padded.
const fn view(place: u64, [height, width, channels]: [u32; 3]) -> TensorView {
    TensorView {
        address: place,
        height,
        width,
        channels,
        pitch: padded(channels),
    }
}
