//! Imported buffers of a client: one a slot, memory files or DMA-BUFs.
//!
//! The client goes on owning them, so nothing of theirs is relied on beyond what was checked at the handshake.
//! A memory file is read by `pread`: holes that the client has punched read as zeros. Through a mapping each
//! would cost a page fault and a page that is charged to the daemon, or raise SIGBUS. A DMA-BUF has pages of its
//! driver's, which stay as long as the buffer, and can only be mapped.

use std::os::fd::{AsFd, OwnedFd};

use punctual_platform::clock;
use punctual_platform::dma_buf::DmaBuffer;
use punctual_platform::shared_memory::{MemoryFile, Seals};

use crate::handshake::BufferRefusal;
use crate::region::Region;

/// How long a device may still write to a frame that its client has submitted, in ns. The client's own intake
/// waits for it. The watchdog's bound, a second by default, is longer, so that the intake does not seem stuck.
const DEVICE_NS: u64 = 100_000_000;

/// Some rows of a frame, in bytes of its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// The first row's first byte.
    pub offset: usize,
    /// Bytes of each row.
    pub bytes: usize,
    /// From one row to the next.
    pub stride: usize,
    pub rows: usize,
}

/// One slot's frame.
#[derive(Debug)]
pub(crate) enum Buffer {
    /// A sealed memory file.
    Memory(MemoryFile),
    /// A device's, with its pages.
    Dma(DmaBuffer, Region),
}

impl Buffer {
    /// Takes over buffer `number`, of which frames take `needed` bytes.
    pub(crate) fn received(
        number: u16,
        file: OwnedFd,
        needed: usize,
    ) -> Result<Self, BufferRefusal> {
        let kind = BufferRefusal::Kind { buffer: number };
        let small = |bytes: usize| BufferRefusal::TooSmall {
            buffer: number,
            bytes: bytes as u64,
            needed: needed as u64,
        };
        // Only memory files have seals. Asking for them disturbs no file system, and nothing else is
        // asked of a file before it is known: one in user space need not answer.
        if let Ok(seals) = Seals::of(file.as_fd()) {
            if !seals.contain(Seals::SHRINK) {
                return Err(BufferRefusal::Unsealed { buffer: number });
            }
            let file = MemoryFile::received(file).map_err(|_| kind)?;
            if file.bytes() < needed {
                return Err(small(file.bytes()));
            }
            // It may have been opened for writing only.
            file.read_at(0, &mut [0])
                .map_err(|_| BufferRefusal::Unreadable { buffer: number })?;
            return Ok(Self::Memory(file));
        }
        if !DmaBuffer::is_one(file.as_fd()).unwrap_or(false) {
            return Err(kind);
        }
        let buffer = DmaBuffer::received(file);
        let pages = buffer
            .map()
            .map_err(|_| BufferRefusal::Unreadable { buffer: number })?;
        match pages.bytes() {
            bytes if bytes < needed => Err(small(bytes)),
            _ => Ok(Self::Dma(buffer, Region::of(pages))),
        }
    }

    /// Copies rows, which lie within what frames take, packed without gaps; none if that was not
    /// possible. Does not allocate.
    pub(crate) fn read(&self, rows: Rows, copy: &mut [u8]) -> Option<()> {
        match self {
            Self::Memory(file) if rows.stride == rows.bytes => file.read_at(rows.offset, copy).ok(),
            Self::Memory(file) => each_row(rows, copy, |at, row| file.read_at(at, row).ok()),
            Self::Dma(buffer, pages) => {
                buffer.begin_read(clock::now_ns() + DEVICE_NS).ok()?;
                let copied = each_row(rows, copy, |at, row| {
                    pages.copy_out(at, row);
                    Some(())
                });
                // After a failure too: each access that was begun must be ended (`DMA_BUF_IOCTL_SYNC`).
                buffer.end_read().ok().and(copied)
            }
        }
    }
}

fn each_row(
    rows: Rows,
    copy: &mut [u8],
    mut read: impl FnMut(usize, &mut [u8]) -> Option<()>,
) -> Option<()> {
    let copies = copy.chunks_exact_mut(rows.bytes).enumerate();
    for (row, copy) in copies {
        read(rows.offset + row * rows.stride, copy)?;
    }
    Some(())
}
