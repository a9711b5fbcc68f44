//! What a launch needs of a multiprocessor, and so how many of its blocks run there at a time.

/// What a block of a kernel needs, as the compiler said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contract {
    pub threads: u32,
    pub registers: u32,
    /// Shared memory of a block, static and dynamic.
    pub shared_bytes: u32,
    /// Memory of a thread for what its registers do not hold.
    pub stack_bytes: u32,
}

/// What a multiprocessor has; the driver's attributes of those names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multiprocessor {
    /// Threads that may be resident.
    pub threads: u32,
    /// Blocks that may be resident.
    pub blocks: u32,
    /// 32-bit registers.
    pub registers: u32,
    pub shared_bytes: u32,
    /// Shared memory that the driver takes for each block.
    pub reserved_bytes: u32,
}

/// Registers are given to a warp in units of this many (compute capability 7.0 to 12.0, CUDA's occupancy calculator).
const REGISTER_UNIT: u32 = 256;

/// Shared memory is given in units of this many bytes (likewise, from 8.0 on; 256 before, which no kernel notices).
const SHARED_UNIT: u32 = 128;

const WARP: u32 = 32;

impl Contract {
    /// Blocks of the kernel that a multiprocessor has room for at a time.
    #[must_use]
    pub const fn blocks_on(&self, of: &Multiprocessor) -> u32 {
        let warps = self.threads.div_ceil(WARP);
        let registers = (self.registers * WARP).next_multiple_of(REGISTER_UNIT) * warps;
        let shared = (self.shared_bytes + of.reserved_bytes).next_multiple_of(SHARED_UNIT);
        let mut blocks = of.blocks;
        let limits = [
            (of.threads, warps * WARP),
            (of.registers, registers),
            (of.shared_bytes, shared),
        ];
        let mut at = 0;
        while at < limits.len() {
            let (there, needed) = limits[at];
            if needed > 0 && there / needed < blocks {
                blocks = there / needed;
            }
            at += 1;
        }
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An Orin's (8.7), by the CUDA programming guide's table of compute capabilities.
    const ORIN: Multiprocessor = Multiprocessor {
        threads: 1536,
        blocks: 16,
        registers: 65536,
        shared_bytes: 164 << 10,
        reserved_bytes: 1 << 10,
    };

    fn contract(threads: u32, registers: u32, shared_bytes: u32) -> Contract {
        Contract {
            threads,
            registers,
            shared_bytes,
            stack_bytes: 0,
        }
    }

    #[test]
    fn what_is_scarcest_limits_the_blocks() {
        assert_eq!(contract(128, 16, 0).blocks_on(&ORIN), 12, "threads");
        assert_eq!(contract(32, 16, 0).blocks_on(&ORIN), 16, "blocks");
        assert_eq!(contract(256, 128, 0).blocks_on(&ORIN), 2, "registers");
        assert_eq!(
            contract(256, 129, 0).blocks_on(&ORIN),
            1,
            "registers come in units"
        );
        assert_eq!(
            contract(128, 64, 48 << 10).blocks_on(&ORIN),
            3,
            "shared memory"
        );
        assert_eq!(
            contract(128, 64, 164 << 10).blocks_on(&ORIN),
            0,
            "what is reserved"
        );
    }
}
