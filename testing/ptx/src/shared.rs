//! The shared memory of a block, and who accessed what since the last barrier.

use crate::fault::Violation;

/// A cell is the target of a copy that has not arrived.
const IN_FLIGHT: u32 = u32::MAX;
/// More than one thread read a cell.
const MANY: u16 = u16::MAX;

/// What is known of one, two or four bytes: as many as the kernel's smallest access has.
#[derive(Clone, Copy, Default)]
struct Cell {
    /// The phase of the last write.
    written: u32,
    /// The phase of the last read.
    read: u32,
    writer: u16,
    reader: u16,
}

#[derive(Default)]
pub(crate) struct Shared {
    bytes: Vec<u8>,
    cells: Vec<Cell>,
    /// Bytes of a cell, as a power of two.
    shift: u32,
    size: u32,
    /// Counts barriers, over all blocks, so that nothing needs to be cleared.
    phase: u32,
    /// Of the block's begin: what was written earlier was written by another block.
    first: u32,
}

impl Shared {
    /// A block begins: nothing in it is written. `granule`: bytes of the smallest access, 1, 2 or 4.
    pub(crate) fn begin(&mut self, size: u32, granule: u32) {
        let shift = granule.trailing_zeros();
        let bytes = size.next_multiple_of(16) as usize;
        if self.shift != shift || self.phase > IN_FLIGHT - (1 << 20) {
            self.cells.clear();
            self.phase = 0;
        }
        self.shift = shift;
        self.size = size;
        self.phase += 1;
        self.first = self.phase;
        if self.bytes.len() < bytes {
            self.bytes.resize(bytes, 0);
        }
        if self.cells.len() << shift < bytes {
            self.cells.resize(bytes >> shift, Cell::default());
        }
        // Not a number, as halves and as floats. Copies in flight of an earlier block are forgotten.
        self.bytes[..bytes].fill(0xff);
        for cell in &mut self.cells[..bytes >> shift] {
            if cell.written == IN_FLIGHT {
                cell.written = 0;
            }
        }
    }

    /// All threads have met: accesses before are ordered with those after.
    pub(crate) fn barrier(&mut self) {
        self.phase += 1;
    }

    fn range(&self, offset: u64, bytes: u32) -> Result<usize, Violation> {
        let end = offset.saturating_add(u64::from(bytes));
        if end > u64::from(self.size) {
            return Err(Violation::OutsideShared {
                offset,
                end,
                size: self.size,
            });
        }
        if !offset.is_multiple_of(u64::from(bytes)) {
            return Err(Violation::Misaligned {
                address: offset,
                bytes,
            });
        }
        Ok(offset as usize)
    }

    fn cells(&mut self, at: usize, bytes: u32) -> (&mut [Cell], u32) {
        let first = at >> self.shift;
        let end = (at + bytes as usize).div_ceil(1 << self.shift);
        (&mut self.cells[first..end], self.phase)
    }

    /// Bytes that `thread` reads, of which those in `used` matter.
    #[inline]
    pub(crate) fn read(
        &mut self,
        offset: u64,
        bytes: u32,
        thread: u16,
        used: u16,
    ) -> Result<&[u8], Violation> {
        let at = self.range(offset, bytes)?;
        let (first, shift) = (self.first, self.shift);
        let (cells, phase) = self.cells(at, bytes);
        for (i, cell) in cells.iter_mut().enumerate() {
            let here = used >> (i << shift) & ((1 << (1 << shift)) - 1);
            if here == 0 {
                continue;
            }
            if cell.written == phase && cell.writer == thread && cell.read != phase {
                cell.reader = thread;
                cell.read = phase;
                continue;
            }
            let offset = (at + (i << shift)) as u32;
            if cell.written == IN_FLIGHT {
                return Err(Violation::InFlight { offset });
            }
            if cell.written < first {
                return Err(Violation::UninitialisedShared { offset });
            }
            if cell.written == phase && cell.writer != thread {
                return Err(Violation::Race {
                    offset,
                    other: u32::from(cell.writer),
                });
            }
            let alone = cell.read != phase || cell.reader == thread;
            cell.reader = if alone { thread } else { MANY };
            cell.read = phase;
        }
        Ok(&self.bytes[at..at + bytes as usize])
    }

    /// Marks what `thread` writes at `at`, with `written`.
    fn mark(&mut self, at: usize, bytes: u32, thread: u16, arrives: bool) -> Result<(), Violation> {
        let shift = self.shift;
        let (cells, phase) = self.cells(at, bytes);
        for (i, cell) in cells.iter_mut().enumerate() {
            let offset = (at + (i << shift)) as u32;
            if cell.written == IN_FLIGHT {
                return Err(Violation::InFlight { offset });
            }
            if cell.written == phase && cell.writer != thread {
                return Err(Violation::Race {
                    offset,
                    other: u32::from(cell.writer),
                });
            }
            if cell.read == phase && cell.reader != thread {
                return Err(match cell.reader {
                    MANY => Violation::RaceWithReaders { offset },
                    other => Violation::Race {
                        offset,
                        other: u32::from(other),
                    },
                });
            }
            cell.written = if arrives { phase } else { IN_FLIGHT };
            cell.writer = thread;
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn write(
        &mut self,
        offset: u64,
        value: &[u8],
        thread: u16,
    ) -> Result<(), Violation> {
        let at = self.range(offset, value.len() as u32)?;
        self.mark(at, value.len() as u32, thread, true)?;
        self.bytes[at..at + value.len()].copy_from_slice(value);
        Ok(())
    }

    /// An asynchronous copy of 16 bytes by `thread` begins: its target is not to be touched until it arrives.
    pub(crate) fn expect(&mut self, offset: u64, thread: u16) -> Result<(), Violation> {
        let at = self.range(offset, 16)?;
        self.mark(at, 16, thread, false)
    }

    pub(crate) fn arrive(&mut self, offset: u64, value: &[u8; 16], thread: u16) {
        let at = offset as usize;
        let (cells, phase) = self.cells(at, 16);
        for cell in cells {
            cell.written = phase;
            cell.writer = thread;
        }
        self.bytes[at..at + 16].copy_from_slice(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block() -> Shared {
        let mut shared = Shared::default();
        shared.begin(64, 4);
        shared
    }

    #[test]
    fn what_one_thread_wrote_another_reads_after_a_barrier_only() {
        let mut shared = block();
        shared.write(4, &[1, 2, 3, 4], 0).expect("free");
        assert_eq!(
            shared.read(4, 4, 0, u16::MAX).expect("its own"),
            [1, 2, 3, 4]
        );
        let race = Violation::Race {
            offset: 4,
            other: 0,
        };
        assert_eq!(shared.read(4, 4, 1, u16::MAX).unwrap_err(), race);
        shared.barrier();
        assert_eq!(
            shared.read(4, 4, 1, u16::MAX).expect("ordered"),
            [1, 2, 3, 4]
        );
    }

    #[test]
    fn a_write_races_with_another_threads_read_or_write() {
        let mut shared = block();
        shared.write(0, &[0; 4], 0).expect("free");
        shared.barrier();
        shared.read(0, 4, 1, u16::MAX).expect("ordered");
        assert!(shared.write(0, &[0; 4], 1).is_ok(), "its own read");
        shared.barrier();
        shared.read(0, 4, 1, u16::MAX).expect("ordered");
        shared.read(0, 4, 2, u16::MAX).expect("two may read");
        let race = Violation::RaceWithReaders { offset: 0 };
        assert_eq!(shared.write(0, &[0; 4], 1), Err(race));
    }

    #[test]
    fn a_copy_is_not_there_before_it_arrives() {
        let mut shared = block();
        shared.expect(16, 3).expect("free");
        assert_eq!(
            shared.read(20, 4, 3, u16::MAX).unwrap_err(),
            Violation::InFlight { offset: 20 }
        );
        assert_eq!(
            shared.write(28, &[0; 4], 3),
            Err(Violation::InFlight { offset: 28 })
        );
        shared.arrive(16, &[7; 16], 3);
        assert_eq!(shared.read(20, 4, 3, u16::MAX).expect("there"), [7; 4]);
        assert!(shared.read(20, 4, 4, u16::MAX).is_err(), "no barrier yet");
    }

    #[test]
    fn a_new_block_finds_nothing_written() {
        let mut shared = block();
        shared.write(0, &[0; 4], 0).expect("free");
        shared.expect(16, 0).expect("free");
        shared.begin(64, 4);
        let nothing = |offset| Violation::UninitialisedShared { offset };
        assert_eq!(shared.read(0, 4, 0, u16::MAX).unwrap_err(), nothing(0));
        assert_eq!(shared.read(16, 4, 0, u16::MAX).unwrap_err(), nothing(16));
        assert!(matches!(
            shared.read(64, 4, 0, u16::MAX),
            Err(Violation::OutsideShared { .. })
        ));
        assert!(matches!(
            shared.read(2, 4, 0, u16::MAX),
            Err(Violation::Misaligned { .. })
        ));
    }
}
