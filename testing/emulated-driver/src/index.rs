//! Positions of blocks and threads.

/// A position in a grid or a block, or the size of one: columns, rows, layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Index {
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) z: u32,
}

impl Index {
    /// How many positions there are; none if that is more than can be counted.
    pub(crate) fn volume(self) -> Option<u64> {
        (u64::from(self.x) * u64::from(self.y)).checked_mul(u64::from(self.z))
    }
}

impl From<Index> for [u32; 3] {
    fn from(Index { x, y, z }: Index) -> Self {
        [x, y, z]
    }
}
