//! The structures and numbers of `<linux/videodev2.h>` that [`Capture`](super::Capture) uses, named as there, on
//! 64-bit machines. Fields that are not used are left as bytes.

use std::os::fd::{AsRawFd, OwnedFd};

use super::{StampClock, TimeStamp};
use crate::error::{OsError, check};

pub(super) const VIDEO_CAPTURE: u32 = 1;
pub(super) const FIELD_NONE: u32 = 1;
pub(super) const CAP_VIDEO_CAPTURE: u32 = 0x1;
pub(super) const CAP_STREAMING: u32 = 0x0400_0000;
pub(super) const CAP_DEVICE_CAPS: u32 = 0x8000_0000;
pub(super) const FLAG_ERROR: u32 = 0x40;
const MEMORY_MMAP: u32 = 1;
const FLAG_TIMESTAMP_MASK: u32 = 0xe000;
const FLAG_TIMESTAMP_MONOTONIC: u32 = 0x2000;
const FLAG_TIMESTAMP_COPY: u32 = 0x4000;

/// `_IOC` of `<asm-generic/ioctl.h>` for the letter `V`; 1 writes to the kernel, 2 reads from it.
const fn number(direction: u64, number: u64, size: usize) -> u64 {
    direction << 30 | (size as u64) << 16 | (b'V' as u64) << 8 | number
}

/// A call with the structure that it takes.
pub(super) struct Call<T> {
    number: u64,
    name: &'static str,
    takes: std::marker::PhantomData<T>,
}

impl<T> Call<T> {
    const fn new(name: &'static str, direction: u64, nr: u64) -> Self {
        Self {
            number: number(direction, nr, size_of::<T>()),
            name,
            takes: std::marker::PhantomData,
        }
    }
}

pub(super) const QUERYCAP: Call<Capability> = Call::new("VIDIOC_QUERYCAP", 2, 0);
pub(super) const S_FMT: Call<Format> = Call::new("VIDIOC_S_FMT", 3, 5);
pub(super) const REQBUFS: Call<RequestBuffers> = Call::new("VIDIOC_REQBUFS", 3, 8);
pub(super) const QUERYBUF: Call<Buffer> = Call::new("VIDIOC_QUERYBUF", 3, 9);
pub(super) const QBUF: Call<Buffer> = Call::new("VIDIOC_QBUF", 3, 15);
pub(super) const EXPBUF: Call<ExportBuffer> = Call::new("VIDIOC_EXPBUF", 3, 16);
pub(super) const DQBUF: Call<Buffer> = Call::new("VIDIOC_DQBUF", 3, 17);
pub(super) const STREAMON: Call<u32> = Call::new("VIDIOC_STREAMON", 1, 18);
pub(super) const STREAMOFF: Call<u32> = Call::new("VIDIOC_STREAMOFF", 1, 19);

/// Makes the call, and repeats it after EINTR: a signal ended it before it was done.
pub(super) fn control<T>(device: &OwnedFd, call: Call<T>, data: &mut T) -> Result<(), OsError> {
    loop {
        // SAFETY: the call's number says how large its structure is, and that is `T`'s size by `Call::new`; every
        // `T` here is plain numbers, for which all bytes are valid.
        let result = unsafe {
            libc::ioctl(
                device.as_raw_fd(),
                call.number as libc::Ioctl,
                std::ptr::from_mut(data),
            )
        };
        match check(call.name, result) {
            Err(error) if error.code() == Some(libc::EINTR) => {}
            result => return result.map(drop),
        }
    }
}

/// `v4l2_capability`.
#[repr(C)]
pub(super) struct Capability {
    names: [u8; 84],
    pub(super) capabilities: u32,
    pub(super) device_caps: u32,
    reserved: [u32; 3],
}

impl Default for Capability {
    fn default() -> Self {
        Self {
            names: [0; 84],
            capabilities: 0,
            device_caps: 0,
            reserved: [0; 3],
        }
    }
}

/// `v4l2_pix_format`.
#[repr(C)]
#[derive(Default)]
pub(super) struct PixFormat {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) pixelformat: u32,
    pub(super) field: u32,
    pub(super) bytesperline: u32,
    pub(super) sizeimage: u32,
    colours: [u32; 6],
}

/// `v4l2_format` of a single-planar capture. The union behind `kind` has pointers in other variants, hence the gap.
#[repr(C)]
pub(super) struct Format {
    kind: u32,
    gap: u32,
    pub(super) pixels: PixFormat,
    rest: [u8; 152],
}

impl Default for Format {
    fn default() -> Self {
        Self {
            kind: VIDEO_CAPTURE,
            gap: 0,
            pixels: PixFormat::default(),
            rest: [0; 152],
        }
    }
}

/// `v4l2_requestbuffers`.
#[repr(C)]
pub(super) struct RequestBuffers {
    pub(super) count: u32,
    kind: u32,
    memory: u32,
    reserved: [u32; 2],
}

impl RequestBuffers {
    pub(super) fn of(count: u32) -> Self {
        Self {
            count,
            kind: VIDEO_CAPTURE,
            memory: MEMORY_MMAP,
            reserved: [0; 2],
        }
    }
}

/// `v4l2_buffer`.
#[repr(C)]
#[derive(Default)]
pub(super) struct Buffer {
    pub(super) index: u32,
    kind: u32,
    pub(super) bytesused: u32,
    pub(super) flags: u32,
    field: u32,
    gap: u32,
    seconds: i64,
    microseconds: i64,
    timecode: [u32; 4],
    pub(super) sequence: u32,
    memory: u32,
    /// Of the union `m`, for mapped buffers: where to map it from.
    pub(super) offset: u32,
    rest_of_m: u32,
    pub(super) length: u32,
    reserved: [u32; 3],
}

/// `v4l2_exportbuffer` of a single-planar buffer.
#[repr(C)]
pub(super) struct ExportBuffer {
    kind: u32,
    index: u32,
    plane: u32,
    flags: u32,
    /// The new descriptor.
    pub(super) file: i32,
    reserved: [u32; 11],
}

impl ExportBuffer {
    /// For reading.
    pub(super) fn at(index: u32) -> Self {
        Self {
            kind: VIDEO_CAPTURE,
            index,
            plane: 0,
            flags: (libc::O_CLOEXEC | libc::O_RDONLY) as u32,
            file: -1,
            reserved: [0; 11],
        }
    }
}

impl Buffer {
    pub(super) fn at(index: u32) -> Self {
        Self {
            index,
            kind: VIDEO_CAPTURE,
            memory: MEMORY_MMAP,
            ..Self::default()
        }
    }

    pub(super) fn stamp(&self) -> TimeStamp {
        let ns = i128::from(self.seconds) * 1_000_000_000 + i128::from(self.microseconds) * 1_000;
        TimeStamp {
            clock: match self.flags & FLAG_TIMESTAMP_MASK {
                FLAG_TIMESTAMP_MONOTONIC => StampClock::Monotonic,
                FLAG_TIMESTAMP_COPY => StampClock::Copied,
                _ => StampClock::Unknown,
            },
            ns: u64::try_from(ns.max(0)).unwrap_or(u64::MAX),
        }
    }
}

// The sizes and the numbers that a C compiler gives for the kernel's header.
const _: () = assert!(size_of::<usize>() == 8);
const _: () = assert!(QUERYCAP.number == 0x8068_5600 && S_FMT.number == 0xc0d0_5605);
const _: () = assert!(REQBUFS.number == 0xc014_5608 && QUERYBUF.number == 0xc058_5609);
const _: () = assert!(QBUF.number == 0xc058_560f && DQBUF.number == 0xc058_5611);
const _: () = assert!(EXPBUF.number == 0xc040_5610);
const _: () = assert!(STREAMON.number == 0x4004_5612 && STREAMOFF.number == 0x4004_5613);
const _: () = assert!(std::mem::offset_of!(Buffer, offset) == 64);
const _: () = assert!(std::mem::offset_of!(Buffer, seconds) == 24);
const _: () = assert!(std::mem::offset_of!(Format, pixels) == 8);
const _: () = assert!(std::mem::offset_of!(Capability, capabilities) == 84);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_stamp_says_its_clock_and_stays_a_number_of_ns_whatever_the_driver_writes() {
        let mut buffer = Buffer::at(0);
        for (flags, clock) in [
            (0, StampClock::Unknown),
            (FLAG_TIMESTAMP_MONOTONIC | FLAG_ERROR, StampClock::Monotonic),
            (FLAG_TIMESTAMP_COPY, StampClock::Copied),
            (FLAG_TIMESTAMP_MASK, StampClock::Unknown),
        ] {
            buffer.flags = flags;
            assert_eq!(buffer.stamp().clock, clock, "{flags:#x}");
        }
        for (seconds, microseconds, ns) in [
            (2, 3, 2_000_003_000),
            (-1, 999_999, 0),
            (i64::MIN, i64::MIN, 0),
            (i64::MAX, i64::MAX, u64::MAX),
        ] {
            (buffer.seconds, buffer.microseconds) = (seconds, microseconds);
            assert_eq!(buffer.stamp().ns, ns, "{seconds} s and {microseconds} us");
        }
    }
}
