//! Tiles of convolutions: shapes of sums that fit into registers, and which of them suits an image.

/// In the place of a horizontal stride: any stride and any taps, read at run time.
pub(crate) const ANY: usize = 0;

/// A tile's shape, and the kernel `K` that is compiled for it and a kind of input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile<K> {
    /// Whether the input's inner dimension is a block's lanes; else it is planes.
    pub blocked: bool,
    /// The horizontal stride, or what stands in its place.
    pub stride_width: usize,
    pub blocks: usize,
    pub rows: usize,
    pub columns: usize,
    pub kernel: K,
}

impl<K> Tile<K> {
    /// Relative time to cover `rows` x `columns` with tiles. A step of the sum takes a slot a
    /// multiplication, but no less than `LATENCY`: each sum waits for its last product. What a
    /// step needs otherwise (loads, broadcasts, the loop) mostly hides behind the
    /// multiplications, the better the more of them there are.
    fn cost(&self, rows: usize, columns: usize) -> usize {
        const LATENCY: usize = 8;
        const OVERHEAD: usize = 1;
        let tiles = rows.div_ceil(self.rows) * columns.div_ceil(self.columns);
        let step = (self.blocks * self.rows * self.columns).max(LATENCY) + OVERHEAD;
        tiles * step
    }
}

/// The kernels chosen for one number of output blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choices<K: 'static> {
    /// For strips of the whole image.
    best: &'static Tile<K>,
    /// For strips with fewer rows than `best` needs: one row at a time.
    single: &'static Tile<K>,
    /// Relative time of the whole image.
    cost: usize,
}

/// Relative time of `rows` x `columns` by the tile that suits them best; `usize::MAX` if none can compute them.
pub(crate) fn least_cost<K>(tiles: &[Tile<K>], rows: usize, columns: usize) -> usize {
    let fitting = tiles
        .iter()
        .filter(|tile| tile.rows <= rows && tile.columns <= columns);
    let costs = fitting.map(|tile| tile.cost(rows, columns));
    costs.min().unwrap_or(usize::MAX)
}

impl<K: Copy> Choices<K> {
    /// Chooses among tiles that can compute strips of `rows` x `columns`. Of equal ones, that whose stride is known is better.
    ///
    /// # Panics
    /// If none is of one pixel.
    pub fn among(
        tiles: impl Iterator<Item = &'static Tile<K>> + Clone,
        rows: usize,
        columns: usize,
    ) -> Self {
        let choose = |rows_max: usize| {
            let tiles = tiles.clone();
            tiles
                .filter(|tile| tile.rows <= rows_max && tile.columns <= columns)
                .min_by_key(|tile| (tile.cost(rows, columns), tile.stride_width == ANY))
                .expect("each table has a tile of one pixel for each kind and number of blocks")
        };
        let best = choose(rows);
        Self {
            best,
            single: choose(1),
            cost: best.cost(rows, columns),
        }
    }

    /// Relative time of the whole image.
    pub fn cost(&self) -> usize {
        self.cost
    }

    /// The tile for strips of the whole image.
    pub fn best(&self) -> &'static Tile<K> {
        self.best
    }

    /// The kernel for a strip of `rows`.
    pub fn kernel(&self, rows: usize) -> K {
        if rows >= self.best.rows {
            self.best.kernel
        } else {
            self.single.kernel
        }
    }
}
