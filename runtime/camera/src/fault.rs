//! What makes a frame unusable, of what a driver may give.

use punctual_platform::v4l2::CapturedFrame;

use crate::jpeg::JpegFault;
use crate::stamps::StampFault;

/// Why there is a frame less.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Fault {
    #[error("the driver says that a frame is damaged")]
    Damaged,
    #[error("the driver gave an empty buffer")]
    Empty,
    #[error("the driver gave {bytes} bytes, a frame of its format has {needed}")]
    Short { bytes: usize, needed: usize },
    #[error("the driver says that {bytes} bytes are in a buffer of {length}")]
    Overlong { bytes: usize, length: usize },
    #[error("the driver puts a header of {bytes} bytes in front of a frame")]
    Header { bytes: usize },
    #[error(transparent)]
    Jpeg(JpegFault),
    /// There was no frame, but EIO.
    #[error("the driver failed (EIO: the camera may have lost its signal) and is started anew")]
    Interrupted,
    #[error("a frame's time stamp {0}; `--stamp receipt` takes the time of receipt instead")]
    Stamp(StampFault),
}

impl Fault {
    /// In the tally.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Damaged => "damaged",
            Self::Empty => "empty",
            Self::Short { .. } => "short",
            Self::Overlong { .. } => "overlong",
            Self::Header { .. } => "header",
            Self::Jpeg(fault) => fault.name(),
            Self::Interrupted => "interrupted",
            Self::Stamp(fault) => fault.name(),
        }
    }

    /// Whether the buffer has a whole frame of at least `needed` bytes.
    pub fn of_content(frame: &CapturedFrame<'_>, needed: usize) -> Result<(), Self> {
        let (bytes, length) = (frame.bytes_used, frame.bytes().len());
        if frame.damaged {
            Err(Self::Damaged)
        } else if bytes == 0 {
            Err(Self::Empty)
        } else if bytes > length {
            Err(Self::Overlong { bytes, length })
        } else if frame.data_offset > 0 {
            // Imported buffers have their frames at one place, which was agreed on before.
            let bytes = frame.data_offset;
            Err(Self::Header { bytes })
        } else if bytes < needed {
            Err(Self::Short { bytes, needed })
        } else {
            Ok(())
        }
    }
}
