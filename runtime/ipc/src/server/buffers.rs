//! Imported buffers of a client: one a slot, memory files or DMA-BUFs.
//!
//! The client goes on owning them, so nothing of theirs is relied on beyond what was checked at the handshake.
//! A memory file into which no holes can be punched any more, by its seals, is mapped and read where it lies. Any other is read
//! by `pread`: holes that the client has punched read as zeros. Through a mapping each would cost a page fault and a page that is
//! charged to the daemon, or raise SIGBUS. A DMA-BUF has pages of its driver's, which stay as long as the buffer, and can only be
//! mapped.

use std::os::fd::{AsFd, OwnedFd};

use punctual_platform::clock;
use punctual_platform::dma_buf::DmaBuffer;
use punctual_platform::shared_memory::{MemoryFile, Seals};
use punctual_types::{FrameMemory, SharedBytes};

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
    /// A memory file whose size is sealed, and nothing else.
    Memory(MemoryFile),
    /// The pages of a memory file, which stay.
    Pages(Region),
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
            return Ok(Self::of_file(file, needed));
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

    /// What cannot be mapped, whatever the reason, is read.
    fn of_file(file: MemoryFile, needed: usize) -> Self {
        if !file.keeps_pages(needed) {
            return Self::Memory(file);
        }
        match file.map_present(needed) {
            Ok(pages) => Self::Pages(Region::of(pages)),
            Err(_) => Self::Memory(file),
        }
    }

    /// Whether [`with_pages`](Self::with_pages) can be used.
    pub(crate) fn has_pages(&self) -> bool {
        !matches!(self, Self::Memory(_))
    }

    /// Where its frames lie, if that memory stays. It is read [with the pages](Self::with_pages) only, by whomever.
    pub(crate) fn frame_memory(&self) -> Option<FrameMemory> {
        match self {
            Self::Memory(_) => None,
            Self::Pages(pages) => Some(pages.held().into()),
            Self::Dma(buffer, pages) => Some(FrameMemory {
                bytes: pages.held(),
                dma_buf: Some(buffer.file()),
            }),
        }
    }

    /// Has `read` read the pages; none if they cannot be read where they lie.
    pub(crate) fn with_pages<T>(&self, read: impl FnOnce(SharedBytes<'_>) -> T) -> Option<T> {
        match self {
            Self::Memory(_) => None,
            Self::Pages(pages) => Some(read(pages.shared(0, pages.bytes()))),
            Self::Dma(buffer, pages) => {
                buffer.begin_read(clock::now_ns() + DEVICE_NS).ok()?;
                let done = read(pages.shared(0, pages.bytes()));
                // Each access that was begun must be ended (`DMA_BUF_IOCTL_SYNC`).
                buffer.end_read().ok()?;
                Some(done)
            }
        }
    }

    /// Copies rows, which lie within what frames take, packed without gaps; none if that was not
    /// possible. Does not allocate.
    pub(crate) fn read(&self, rows: Rows, copy: &mut [u8]) -> Option<()> {
        match self {
            Self::Memory(file) if rows.stride == rows.bytes => file.read_at(rows.offset, copy).ok(),
            Self::Memory(file) => each_row(rows, copy, |at, row| file.read_at(at, row).ok()),
            Self::Pages(_) | Self::Dma(..) => self.with_pages(|pages| rows.copy_out(pages, copy)),
        }
    }
}

impl Rows {
    /// Copies them out of this memory, without gaps.
    pub(super) fn copy_out(self, from: SharedBytes<'_>, copy: &mut [u8]) {
        for (row, copy) in copy.chunks_exact_mut(self.bytes).enumerate() {
            from.part(self.offset + row * self.stride, self.bytes)
                .copy_to(copy);
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
