//! What a block of a launch does, read from the kernels' sources and counted in their machine code for 8.7 with
//! `nvdisasm` 13.5 (25 November 2026): instructions of the path that is usually taken.

/// What a block does, from its first instruction to its last.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Multiply-accumulates, those of padding included.
    pub products: f64,
    /// Whether tensor cores make them.
    pub on_tensor_cores: bool,
    pub warps: f64,
    /// Instructions of each warp, outside of rounds and in each.
    pub instructions: f64,
    pub round_instructions: f64,
    /// Times that the block waits for what it has read, one after the other: tiles of the main loop.
    pub rounds: f64,
    /// Rounds whose values are being read while one is computed.
    pub ahead: f64,
    /// Rounds from one look at the epoch to the next with a stride of 1; 0: the block looks at its start alone.
    pub rounds_a_look: f64,
    /// Bytes from and to shared memory.
    pub shared_bytes: f64,
    /// Bytes that the multiprocessor loads.
    pub loaded_bytes: f64,
}

impl Work {
    /// Instructions of all warps.
    #[must_use]
    pub fn all_instructions(&self) -> f64 {
        self.warps * (self.instructions + self.rounds * self.round_instructions)
    }

    /// With products of a thread, and instructions for each.
    pub(super) fn summed(self, products_of_thread: f64, instructions_each: f64) -> Self {
        Self {
            products: products_of_thread * self.warps * 32.0,
            instructions: FINISH,
            round_instructions: products_of_thread * instructions_each / self.rounds,
            ..self
        }
    }
}

/// To finish eight channels of a pixel: bias, residual, activation, store.
pub(super) const FINISH: f64 = 200.0;
/// Of a thread that moves eight values: 120 to 312.
pub(super) const MOVE: f64 = 220.0;
