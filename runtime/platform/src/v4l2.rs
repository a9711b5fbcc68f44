//! Video4Linux2 capture into memory-mapped buffers: as much of `<linux/videodev2.h>` as a camera needs.
//!
//! A buffer is either the driver's (queued) or ours (dequeued): that is what makes its bytes
//! readable as a slice. Single-planar devices only; what else there is is refused by name. Names
//! and rules of the calls: <https://docs.kernel.org/userspace-api/media/v4l/user-func.html>. Not
//! yet run on a camera: tested against a stand-in for the device.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::clock;
use crate::error::{OsError, check};

mod raw;

/// Why a device cannot be captured from.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    #[error(
        "cannot open {}: {source}; check that the camera is connected and that this user is in the group `video`", .path.display()
    )]
    Open { path: PathBuf, source: OsError },
    /// It is no V4L2 device, or none that captures.
    #[error(
        "{} does not capture single-planar video into mapped buffers (capabilities {capabilities:#x}); \
         name the capturing node of the camera: `v4l2-ctl --list-devices` shows them", .path.display()
    )]
    NoCapture {
        path: PathBuf,
        /// What it says that it can.
        capabilities: u32,
    },
    /// The driver gave fewer buffers than a capture needs.
    #[error("the driver gave {given} buffers, and a capture needs {needed}")]
    Buffers { given: u32, needed: u32 },
    /// The driver spoke of a buffer that was never made: it cannot be given back either.
    #[error("the driver returned an impossible buffer: number {index} of {buffers}")]
    Senseless { index: u32, buffers: u32 },
    /// EIO: a failure in the driver or, with some, a lost signal. It may have stopped, or keep a buffer whose number it
    /// did not say: only [`Capture::restart`] mends both.
    #[error("{0}: the camera may have lost its signal")]
    Interrupted(OsError),
    #[error(transparent)]
    Os(OsError),
}

impl From<OsError> for CaptureError {
    fn from(error: OsError) -> Self {
        if error.code() == Some(libc::EIO) {
            Self::Interrupted(error)
        } else {
            Self::Os(error)
        }
    }
}

/// What frames look like in the driver's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureFormat {
    pub width: u32,
    pub height: u32,
    /// The format's four characters, the first in the lowest byte.
    pub four_cc: u32,
    /// Bytes from a row to the next; 0 leaves it to the driver.
    pub row_stride: u32,
    /// Bytes of a frame, all planes; the driver's to say.
    pub bytes: u32,
}

/// A mapping of one of the driver's buffers.
#[derive(Debug)]
struct Mapping {
    start: *const u8,
    length: usize,
}

/// A camera: opened, given a format, started, read.
#[derive(Debug)]
pub struct Capture {
    device: OwnedFd,
    buffers: Vec<Mapping>,
    /// Which frames are [kept](CapturedFrame::keep).
    kept: Vec<bool>,
}

/// Which clock the driver says that a time stamp is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampClock {
    Monotonic,
    /// Whatever was copied from the other side of a device that converts frames.
    Copied,
    Unknown,
}

/// When the driver says that a frame was captured. It may say anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeStamp {
    pub clock: StampClock,
    /// 0 for what is negative, and the largest number for what is beyond it.
    pub ns: u64,
}

/// A frame that the driver has handed over; given back when dropped, unless it is kept.
#[derive(Debug)]
pub struct CapturedFrame<'c> {
    capture: &'c mut Capture,
    index: u32,
    /// How many bytes the driver says that there are; it may be more than its buffer has.
    pub bytes_used: usize,
    pub stamp: TimeStamp,
    /// When it was handed over, in ns of the monotonic clock.
    pub received_ns: u64,
    /// The driver's count of frames; a gap is frames that it dropped.
    pub sequence: u32,
    /// The driver says that its contents may be damaged.
    pub damaged: bool,
}

impl Capture {
    /// Opens the device, and checks that it captures.
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        let named = |source| CaptureError::Open {
            path: path.to_owned(),
            source,
        };
        let c_path = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| named(OsError::from_code("open", libc::EINVAL)))?;
        // Nonblocking, so that `VIDIOC_DQBUF` fails with EAGAIN when there is no frame, instead of waiting for one.
        // SAFETY: a string that ends in a zero; the descriptor is new and ours.
        let device = unsafe {
            let flags = libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC;
            let raw = check("open", libc::open(c_path.as_ptr(), flags)).map_err(named)?;
            OwnedFd::from_raw_fd(raw)
        };
        let mut capability = raw::Capability::default();
        raw::control(&device, raw::QUERYCAP, &mut capability).map_err(named)?;
        // `capabilities` are those of the whole device. A driver with this flag also says what this node of it can.
        let capabilities = match capability.capabilities & raw::CAP_DEVICE_CAPS {
            0 => capability.capabilities,
            _ => capability.device_caps,
        };
        let needed = raw::CAP_VIDEO_CAPTURE | raw::CAP_STREAMING;
        if capabilities & needed != needed {
            return Err(CaptureError::NoCapture {
                path: path.to_owned(),
                capabilities,
            });
        }
        Ok(Self {
            device,
            buffers: Vec::new(),
            kept: Vec::new(),
        })
    }

    /// Asks for a format, and says which the driver gave: it may be another one in every respect.
    pub fn set_format(&mut self, wanted: CaptureFormat) -> Result<CaptureFormat, CaptureError> {
        let mut format = raw::Format::default();
        format.pixels.width = wanted.width;
        format.pixels.height = wanted.height;
        format.pixels.pixelformat = wanted.four_cc;
        format.pixels.field = raw::FIELD_NONE;
        format.pixels.bytesperline = wanted.row_stride;
        raw::control(&self.device, raw::S_FMT, &mut format)?;
        Ok(CaptureFormat {
            width: format.pixels.width,
            height: format.pixels.height,
            four_cc: format.pixels.pixelformat,
            row_stride: format.pixels.bytesperline,
            bytes: format.pixels.sizeimage,
        })
    }

    /// Has `count` buffers made (the driver may make more or fewer), and maps them.
    pub fn make_buffers(&mut self, count: u32) -> Result<(), CaptureError> {
        let mut request = raw::RequestBuffers::of(count);
        raw::control(&self.device, raw::REQBUFS, &mut request)?;
        // The driver needs one to fill while the other is read.
        if request.count < 2 {
            return Err(CaptureError::Buffers {
                given: request.count,
                needed: 2,
            });
        }
        for index in 0..request.count {
            let mut buffer = raw::Buffer::at(index);
            raw::control(&self.device, raw::QUERYBUF, &mut buffer)?;
            self.buffers.push(self.map(&buffer)?);
            self.kept.push(false);
        }
        Ok(())
    }

    /// Each buffer as a DMA-BUF, for other processes to read: not every driver can.
    pub fn export(&self) -> Result<Vec<OwnedFd>, OsError> {
        let export = |index| {
            let mut buffer = raw::ExportBuffer::at(index);
            raw::control(&self.device, raw::EXPBUF, &mut buffer)?;
            // SAFETY: the call succeeded, so the descriptor is new and ours.
            Ok(unsafe { OwnedFd::from_raw_fd(buffer.file) })
        };
        (0..self.buffers.len() as u32).map(export).collect()
    }

    /// Starts, once there are buffers.
    pub fn start(&mut self) -> Result<(), CaptureError> {
        self.stream()
    }

    /// The driver can have the buffer of a frame back that was [kept](CapturedFrame::keep).
    pub fn give_back(&mut self, index: u16) {
        let Some(kept) = self.kept.get_mut(usize::from(index)) else {
            return;
        };
        if std::mem::take(kept) {
            self.queue(index.into());
        }
    }

    /// A camera that is gone is noticed at the next frame.
    fn queue(&self, index: u32) {
        let _ = raw::control(&self.device, raw::QBUF, &mut raw::Buffer::at(index));
    }

    /// Stops, takes all buffers back and starts anew: what the driver lost of them is found again, and its error is over. Frames that are
    /// kept stay so.
    /// The driver counts frames from 0 again.
    pub fn restart(&mut self) -> Result<(), CaptureError> {
        let mut kind = raw::VIDEO_CAPTURE;
        raw::control(&self.device, raw::STREAMOFF, &mut kind)?;
        self.stream()
    }

    fn stream(&self) -> Result<(), CaptureError> {
        let others = (0_u32..).zip(&self.kept).filter(|(_, kept)| !**kept);
        for (index, _) in others {
            raw::control(&self.device, raw::QBUF, &mut raw::Buffer::at(index))?;
        }
        let mut kind = raw::VIDEO_CAPTURE;
        raw::control(&self.device, raw::STREAMON, &mut kind)?;
        Ok(())
    }

    fn map(&self, buffer: &raw::Buffer) -> Result<Mapping, OsError> {
        let length = buffer.length as usize;
        // SAFETY: a new mapping, read only, of a range that the driver named; it overlaps nothing of ours.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ,
                libc::MAP_SHARED,
                self.device.as_raw_fd(),
                i64::from(buffer.offset),
            )
        };
        if start == libc::MAP_FAILED {
            return Err(OsError::last("mmap"));
        }
        Ok(Mapping {
            start: start.cast(),
            length,
        })
    }

    /// The next frame, if the driver has one; wait on the descriptor for it.
    pub fn frame(&mut self) -> Result<Option<CapturedFrame<'_>>, CaptureError> {
        let mut buffer = raw::Buffer::at(0);
        match raw::control(&self.device, raw::DQBUF, &mut buffer) {
            Err(error) if error.code() == Some(libc::EAGAIN) => return Ok(None),
            result => result?,
        }
        let received_ns = clock::now_ns();
        let buffers = self.buffers.len() as u32;
        if buffer.index >= buffers {
            return Err(CaptureError::Senseless {
                index: buffer.index,
                buffers,
            });
        }
        Ok(Some(CapturedFrame {
            capture: self,
            index: buffer.index,
            bytes_used: buffer.bytesused as usize,
            stamp: buffer.stamp(),
            received_ns,
            sequence: buffer.sequence,
            damaged: buffer.flags & raw::FLAG_ERROR != 0,
        }))
    }
}

impl AsFd for Capture {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

impl CapturedFrame<'_> {
    /// Its bytes, in the format that the driver gave; none beyond its buffer's end.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let mapping = &self.capture.buffers[self.index as usize];
        let bytes = self.bytes_used.min(mapping.length);
        // SAFETY: the mapping is as long at least, and lives as long as the capture that is borrowed; the driver writes
        // to no buffer that it has handed over.
        unsafe { std::slice::from_raw_parts(mapping.start, bytes) }
    }

    /// The number of its buffer.
    #[must_use]
    pub fn buffer(&self) -> u16 {
        self.index as u16
    }

    /// Keeps it from the driver until it is [given back](Capture::give_back).
    pub fn keep(self) {
        self.capture.kept[self.index as usize] = true;
    }
}

impl Drop for CapturedFrame<'_> {
    fn drop(&mut self) {
        if !self.capture.kept[self.index as usize] {
            self.capture.queue(self.index);
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let mut kind = raw::VIDEO_CAPTURE;
        // Before the unmapping: it takes the buffers back from the driver. It fails for a capture that was never
        // started and for a camera that is gone; then there is nothing to stop.
        let _ = raw::control(&self.device, raw::STREAMOFF, &mut kind);
        for mapping in &self.buffers {
            // SAFETY: mapped by `map`, once; no frame borrows it, as a frame borrows the capture.
            unsafe { libc::munmap(mapping.start.cast_mut().cast(), mapping.length) };
        }
    }
}
