//! The ways to compute a convolution.

use super::direct::Conv2d;
use super::spec::Conv2dSpec;
use super::winograd::Winograd;

/// A way to compute a convolution. Which one is the fastest is found by measuring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Solution {
    /// Sums of products as they are defined, from the packed weights: for every convolution.
    #[default]
    Direct,
    /// [`Winograd`] by tiles of 2 x 2: 16/9 of the direct weights.
    Winograd2,
    /// [`Winograd`] by tiles of 4 x 4: 4 times the direct weights.
    Winograd4,
}

impl Solution {
    /// All of them, the most general first.
    pub const ALL: [Solution; 3] = [Solution::Direct, Solution::Winograd2, Solution::Winograd4];

    pub const fn name(self) -> &'static str {
        match self {
            Solution::Direct => "direct",
            Solution::Winograd2 => "winograd-2x2",
            Solution::Winograd4 => "winograd-4x4",
        }
    }

    pub fn from_name(name: &str) -> Option<Solution> {
        Solution::ALL
            .into_iter()
            .find(|solution| solution.name() == name)
    }

    /// Whether it computes such a convolution.
    pub fn applies(self, spec: &Conv2dSpec) -> bool {
        match self {
            Solution::Direct => true,
            Solution::Winograd2 | Solution::Winograd4 => Winograd::applies(spec),
        }
    }
}

impl Conv2d {
    /// The ways to compute it, the most general first: that is this kernel itself.
    pub fn solutions(&self) -> impl Iterator<Item = Solution> {
        let applies = |solution: &Solution| solution.applies(self.spec());
        Solution::ALL.into_iter().filter(applies)
    }

    /// The kernel of another solution; none for the direct one, or if it does not apply.
    pub fn specialised(&self, solution: Solution) -> Option<Winograd> {
        match solution {
            Solution::Direct => None,
            Solution::Winograd2 => Winograd::new(self, 2),
            Solution::Winograd4 => Winograd::new(self, 4),
        }
    }
}
