//! Video4Linux2 capture into memory-mapped buffers: as much of `<linux/videodev2.h>` as a camera needs.
//!
//! A buffer is either the driver's (queued) or ours (dequeued): that is what makes its bytes
//! readable as a slice. A device may be multi-planar, as most of those of boards are, if a frame is
//! one piece of memory all the same. Names and rules of the calls: <https://docs.kernel.org/userspace-api/media/v4l/user-func.html>. Not
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
        "{} does not capture video into mapped buffers (capabilities {capabilities:#x}); \
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
    /// Not every driver has every setting.
    #[error("the driver cannot set its {setting}: {source}")]
    Setting {
        setting: &'static str,
        source: OsError,
    },
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
    /// Pieces of memory that a frame is spread over; the driver's to say.
    pub pieces: u8,
}

/// The time from a frame to the next, in seconds: a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameInterval {
    pub numerator: u32,
    pub denominator: u32,
}

/// For how long a sensor collects light.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// As the camera finds best.
    Automatic,
    Time {
        us: u32,
    },
}

impl Exposure {
    /// Times are whole numbers of it, those of `V4L2_CID_EXPOSURE_ABSOLUTE`.
    pub const UNIT_US: u32 = 100;
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
    kind: raw::Kind,
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
    /// Bytes of the buffer, and of those that are used, that lie before the frame.
    pub data_offset: usize,
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
        let kinds = [
            (raw::CAP_VIDEO_CAPTURE, raw::Kind::Single),
            (raw::CAP_VIDEO_CAPTURE_MPLANE, raw::Kind::MultiPlanar),
        ];
        let has = |needed| capabilities & needed != 0;
        let kind = kinds.into_iter().find(|(needed, _)| has(*needed));
        let Some((_, kind)) = kind.filter(|_| has(raw::CAP_STREAMING)) else {
            return Err(CaptureError::NoCapture {
                path: path.to_owned(),
                capabilities,
            });
        };
        Ok(Self {
            device,
            kind,
            buffers: Vec::new(),
            kept: Vec::new(),
        })
    }

    /// Asks for a format, and says which the driver gave: it may be another one in every respect.
    pub fn set_format(&mut self, wanted: CaptureFormat) -> Result<CaptureFormat, CaptureError> {
        match self.kind {
            raw::Kind::Single => self.set_single_format(wanted),
            raw::Kind::MultiPlanar => self.set_multi_planar_format(wanted),
        }
    }

    fn set_single_format(&self, wanted: CaptureFormat) -> Result<CaptureFormat, CaptureError> {
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
            pieces: 1,
        })
    }

    fn set_multi_planar_format(
        &self,
        wanted: CaptureFormat,
    ) -> Result<CaptureFormat, CaptureError> {
        let mut format = raw::FormatMplane::default();
        format.pixels.width = wanted.width;
        format.pixels.height = wanted.height;
        format.pixels.pixelformat = wanted.four_cc;
        format.pixels.field = raw::FIELD_NONE;
        format.pixels.num_planes = 1;
        format.pixels.planes[0].bytesperline = wanted.row_stride;
        raw::control(&self.device, raw::S_FMT_MPLANE, &mut format)?;
        Ok(CaptureFormat {
            width: format.pixels.width,
            height: format.pixels.height,
            four_cc: format.pixels.pixelformat,
            row_stride: format.pixels.planes[0].bytesperline,
            bytes: format.pixels.planes[0].sizeimage,
            pieces: format.pixels.num_planes,
        })
    }

    /// Asks for a number of frames a second, and says what the driver gave, most often the nearest that it has.
    pub fn set_frame_rate(&mut self, per_second: u32) -> Result<FrameInterval, CaptureError> {
        let refused = |source| CaptureError::Setting {
            setting: "frame rate",
            source,
        };
        let mut parameters = raw::StreamParameters::of_rate(self.kind, per_second);
        raw::control(&self.device, raw::S_PARM, &mut parameters).map_err(refused)?;
        if parameters.capability & raw::CAP_TIMEPERFRAME == 0 {
            return Err(refused(OsError::from_code("VIDIOC_S_PARM", libc::ENOTTY)));
        }
        Ok(FrameInterval {
            numerator: parameters.numerator,
            denominator: parameters.denominator,
        })
    }

    /// Asks for an exposure, and says which the driver gave, most often the nearest that it has.
    pub fn set_exposure(&mut self, wanted: Exposure) -> Result<Exposure, CaptureError> {
        let refused = |source| CaptureError::Setting {
            setting: "exposure",
            source,
        };
        let set_mode = |mode| self.set_control(raw::CID_EXPOSURE_AUTO, mode);
        let Exposure::Time { us } = wanted else {
            // USB cameras have no other automatic mode than this second one.
            set_mode(raw::EXPOSURE_AUTO)
                .or_else(|_| set_mode(raw::EXPOSURE_APERTURE_PRIORITY))
                .map_err(refused)?;
            return Ok(Exposure::Automatic);
        };
        match set_mode(raw::EXPOSURE_MANUAL) {
            // A camera that has no automatic mode has no modes.
            Err(error) if error.code() == Some(libc::EINVAL) => {}
            set => drop(set.map_err(refused)?),
        }
        let unit_us = Exposure::UNIT_US;
        let units = us.saturating_add(unit_us / 2) / unit_us;
        let units = i32::try_from(units.max(1)).unwrap_or(i32::MAX);
        let given = self.set_control(raw::CID_EXPOSURE_ABSOLUTE, units);
        let given = u32::try_from(given.map_err(refused)?).unwrap_or(0);
        Ok(Exposure::Time {
            us: given.saturating_mul(unit_us),
        })
    }

    /// The value that the control has then.
    fn set_control(&self, id: u32, value: i32) -> Result<i32, OsError> {
        let mut control = raw::Control { id, value };
        raw::control(&self.device, raw::S_CTRL, &mut control)?;
        Ok(control.value)
    }

    /// A call on one of the driver's buffers.
    fn control_buffer(
        &self,
        call: raw::Call<raw::Buffer>,
        index: u32,
    ) -> Result<raw::Described, OsError> {
        raw::control_buffer(&self.device, self.kind, call, index)
    }

    /// Has `count` buffers made (the driver may make more or fewer), and maps them.
    pub fn make_buffers(&mut self, count: u32) -> Result<(), CaptureError> {
        let mut request = raw::RequestBuffers::of(self.kind, count);
        raw::control(&self.device, raw::REQBUFS, &mut request)?;
        // The driver needs one to fill while the other is read.
        if request.count < 2 {
            return Err(CaptureError::Buffers {
                given: request.count,
                needed: 2,
            });
        }
        for index in 0..request.count {
            let described = self.control_buffer(raw::QUERYBUF, index)?;
            self.buffers.push(self.map(&described.plane)?);
            self.kept.push(false);
        }
        Ok(())
    }

    /// Each buffer as a DMA-BUF, for other processes to read: not every driver can.
    pub fn export(&self) -> Result<Vec<OwnedFd>, OsError> {
        let export = |index| {
            let mut buffer = raw::ExportBuffer::at(self.kind, index);
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
        let _ = self.control_buffer(raw::QBUF, index);
    }

    /// Stops, takes all buffers back and starts anew: what the driver lost of them is found again, and its error is over. Frames that are
    /// kept stay so.
    /// The driver counts frames from 0 again.
    pub fn restart(&mut self) -> Result<(), CaptureError> {
        raw::control(&self.device, raw::STREAMOFF, &mut (self.kind as u32))?;
        self.stream()
    }

    fn stream(&self) -> Result<(), CaptureError> {
        let others = (0_u32..).zip(&self.kept).filter(|(_, kept)| !**kept);
        for (index, _) in others {
            self.control_buffer(raw::QBUF, index)?;
        }
        raw::control(&self.device, raw::STREAMON, &mut (self.kind as u32))?;
        Ok(())
    }

    fn map(&self, plane: &raw::Plane) -> Result<Mapping, OsError> {
        let length = plane.length as usize;
        // SAFETY: a new mapping, read only, of a range that the driver named; it overlaps nothing of ours.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ,
                libc::MAP_SHARED,
                self.device.as_raw_fd(),
                i64::from(plane.offset()),
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
        let raw::Described { buffer, plane } = match self.control_buffer(raw::DQBUF, 0) {
            Err(error) if error.code() == Some(libc::EAGAIN) => return Ok(None),
            result => result?,
        };
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
            bytes_used: plane.bytesused as usize,
            stamp: buffer.stamp(),
            received_ns,
            sequence: buffer.sequence,
            damaged: buffer.flags & raw::FLAG_ERROR != 0,
            data_offset: plane.data_offset as usize,
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
        // Before the unmapping: it takes the buffers back from the driver. It fails for a capture that was never
        // started and for a camera that is gone; then there is nothing to stop.
        let _ = raw::control(&self.device, raw::STREAMOFF, &mut (self.kind as u32));
        for mapping in &self.buffers {
            // SAFETY: mapped by `map`, once; no frame borrows it, as a frame borrows the capture.
            unsafe { libc::munmap(mapping.start.cast_mut().cast(), mapping.length) };
        }
    }
}
