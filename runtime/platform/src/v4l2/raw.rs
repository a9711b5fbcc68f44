//! The structures and numbers of `<linux/videodev2.h>` that [`Capture`](super::Capture) uses, named as there, on
//! 64-bit machines. Fields that are not used are left as bytes.

use std::os::fd::{AsRawFd, OwnedFd};

use super::{StampClock, TimeStamp};
use crate::error::{OsError, check};

pub(super) const FIELD_NONE: u32 = 1;
pub(super) const CAP_VIDEO_CAPTURE: u32 = 0x1;
pub(super) const CAP_VIDEO_CAPTURE_MPLANE: u32 = 0x1000;
pub(super) const CAP_STREAMING: u32 = 0x0400_0000;
pub(super) const CAP_DEVICE_CAPS: u32 = 0x8000_0000;
pub(super) const FLAG_ERROR: u32 = 0x40;
pub(super) const CAP_TIMEPERFRAME: u32 = 0x1000;
pub(super) const CID_EXPOSURE_AUTO: u32 = 0x009a_0901;
pub(super) const CID_EXPOSURE_ABSOLUTE: u32 = 0x009a_0902;
pub(super) const EXPOSURE_AUTO: i32 = 0;
pub(super) const EXPOSURE_MANUAL: i32 = 1;
pub(super) const EXPOSURE_APERTURE_PRIORITY: i32 = 3;
const MEMORY_MMAP: u32 = 1;
const FLAG_TIMESTAMP_MASK: u32 = 0xe000;
const FLAG_TIMESTAMP_MONOTONIC: u32 = 0x2000;
const FLAG_TIMESTAMP_COPY: u32 = 0x4000;

/// `v4l2_buf_type`: whether a buffer is one piece of memory, or has a piece for each of its planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Kind {
    Single = 1,
    MultiPlanar = 9,
}

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
pub(super) const S_FMT_MPLANE: Call<FormatMplane> = Call::new("VIDIOC_S_FMT", 3, 5);
pub(super) const REQBUFS: Call<RequestBuffers> = Call::new("VIDIOC_REQBUFS", 3, 8);
pub(super) const QUERYBUF: Call<Buffer> = Call::new("VIDIOC_QUERYBUF", 3, 9);
pub(super) const QBUF: Call<Buffer> = Call::new("VIDIOC_QBUF", 3, 15);
pub(super) const EXPBUF: Call<ExportBuffer> = Call::new("VIDIOC_EXPBUF", 3, 16);
pub(super) const DQBUF: Call<Buffer> = Call::new("VIDIOC_DQBUF", 3, 17);
pub(super) const STREAMON: Call<u32> = Call::new("VIDIOC_STREAMON", 1, 18);
pub(super) const STREAMOFF: Call<u32> = Call::new("VIDIOC_STREAMOFF", 1, 19);
pub(super) const S_PARM: Call<StreamParameters> = Call::new("VIDIOC_S_PARM", 3, 22);
pub(super) const S_CTRL: Call<Control> = Call::new("VIDIOC_S_CTRL", 3, 28);

/// Makes the call, and repeats it after EINTR: a signal ended it before it was done.
pub(super) fn control<T>(device: &OwnedFd, call: Call<T>, data: &mut T) -> Result<(), OsError> {
    loop {
        // SAFETY: the call's number says how large its structure is, and that is `T`'s size by `Call::new`; every
        // `T` here is plain numbers, for which all bytes are valid. The only one that is an address, of a buffer's plane,
        // is written by `control_buffer` alone, whose plane outlives the call.
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

/// Calls the kernel about buffer `index`, which is one piece of memory with either kind; its answer.
pub(super) fn control_buffer(
    device: &OwnedFd,
    kind: Kind,
    call: Call<Buffer>,
    index: u32,
) -> Result<Described, OsError> {
    let mut plane = Plane::default();
    let mut buffer = Buffer {
        index,
        kind: kind as u32,
        memory: MEMORY_MMAP,
        ..Buffer::default()
    };
    if kind == Kind::MultiPlanar {
        // The kernel reads and writes as many planes as `length` says, during the call alone.
        buffer.m = (&raw mut plane).expose_provenance() as u64;
        buffer.length = 1;
    }
    control(device, call, &mut buffer)?;
    if kind == Kind::Single {
        plane.bytesused = buffer.bytesused;
        plane.length = buffer.length;
        plane.m = buffer.m;
    }
    Ok(Described { buffer, plane })
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
            kind: Kind::Single as u32,
            gap: 0,
            pixels: PixFormat::default(),
            rest: [0; 152],
        }
    }
}

/// `v4l2_plane_pix_format`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct PlanePixFormat {
    pub(super) sizeimage: u32,
    pub(super) bytesperline: u32,
    reserved: [u16; 6],
}

/// `v4l2_pix_format_mplane`, whose fields lie where they do although it is packed.
#[repr(C)]
#[derive(Default)]
pub(super) struct PixFormatMplane {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) pixelformat: u32,
    pub(super) field: u32,
    colorspace: u32,
    pub(super) planes: [PlanePixFormat; 8],
    pub(super) num_planes: u8,
    rest: [u8; 11],
}

/// `v4l2_format` of a multi-planar capture.
#[repr(C)]
pub(super) struct FormatMplane {
    kind: u32,
    gap: u32,
    pub(super) pixels: PixFormatMplane,
    rest: [u8; 8],
}

impl Default for FormatMplane {
    fn default() -> Self {
        Self {
            kind: Kind::MultiPlanar as u32,
            gap: 0,
            pixels: PixFormatMplane::default(),
            rest: [0; 8],
        }
    }
}

/// `v4l2_streamparm` of a capture.
#[repr(C)]
pub(super) struct StreamParameters {
    kind: u32,
    pub(super) capability: u32,
    capturemode: u32,
    /// Seconds a frame, as a fraction.
    pub(super) numerator: u32,
    pub(super) denominator: u32,
    rest: [u8; 184],
}

impl StreamParameters {
    pub(super) fn of_rate(kind: Kind, per_second: u32) -> Self {
        Self {
            kind: kind as u32,
            capability: 0,
            capturemode: 0,
            numerator: 1,
            denominator: per_second,
            rest: [0; 184],
        }
    }
}

/// `v4l2_control`.
#[repr(C)]
pub(super) struct Control {
    pub(super) id: u32,
    pub(super) value: i32,
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
    pub(super) fn of(kind: Kind, count: u32) -> Self {
        Self {
            count,
            kind: kind as u32,
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
    bytesused: u32,
    pub(super) flags: u32,
    field: u32,
    gap: u32,
    seconds: i64,
    microseconds: i64,
    timecode: [u32; 4],
    pub(super) sequence: u32,
    memory: u32,
    /// The union `m`. Of a single-planar mapped buffer where to map it from, as in [`Plane::m`]; else where its planes are.
    m: u64,
    /// Of a multi-planar buffer the number of its planes.
    length: u32,
    reserved: [u32; 3],
}

/// `v4l2_plane`.
#[repr(C)]
#[derive(Default)]
pub(super) struct Plane {
    /// Counted from the memory's first byte, `data_offset` included.
    pub(super) bytesused: u32,
    pub(super) length: u32,
    /// The union `m`: of mapped memory where to map it from, in the first four bytes.
    m: u64,
    pub(super) data_offset: u32,
    reserved: [u32; 11],
}

impl Plane {
    pub(super) fn offset(&self) -> u32 {
        let [first, second, third, fourth, ..] = self.m.to_ne_bytes();
        u32::from_ne_bytes([first, second, third, fourth])
    }
}

/// A buffer and its only plane; the plane of a single-planar buffer is all of it.
pub(super) struct Described {
    pub(super) buffer: Buffer,
    pub(super) plane: Plane,
}

/// `v4l2_exportbuffer` of a buffer's first plane.
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
    pub(super) fn at(kind: Kind, index: u32) -> Self {
        Self {
            kind: kind as u32,
            index,
            plane: 0,
            flags: (libc::O_CLOEXEC | libc::O_RDONLY) as u32,
            file: -1,
            reserved: [0; 11],
        }
    }
}

impl Buffer {
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
const _: () = assert!(S_FMT_MPLANE.number == S_FMT.number);
const _: () = assert!(S_PARM.number == 0xc0cc_5616 && S_CTRL.number == 0xc008_561c);
const _: () = assert!(REQBUFS.number == 0xc014_5608 && QUERYBUF.number == 0xc058_5609);
const _: () = assert!(QBUF.number == 0xc058_560f && DQBUF.number == 0xc058_5611);
const _: () = assert!(EXPBUF.number == 0xc040_5610);
const _: () = assert!(STREAMON.number == 0x4004_5612 && STREAMOFF.number == 0x4004_5613);
const _: () = assert!(std::mem::offset_of!(Buffer, m) == 64);
const _: () = assert!(size_of::<Plane>() == 64 && std::mem::offset_of!(Plane, data_offset) == 16);
const _: () = assert!(std::mem::offset_of!(FormatMplane, pixels.num_planes) == 8 + 180);
const _: () = assert!(std::mem::offset_of!(Buffer, seconds) == 24);
const _: () = assert!(std::mem::offset_of!(Format, pixels) == 8);
const _: () = assert!(std::mem::offset_of!(Capability, capabilities) == 84);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_stamp_says_its_clock_and_stays_a_number_of_ns_whatever_the_driver_writes() {
        let mut buffer = Buffer::default();
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
