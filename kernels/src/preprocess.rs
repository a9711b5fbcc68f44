//! From a camera frame to a network's input: crop, anti-aliased resize, normalise.
//!
//! The frame lies in memory that another process may write to at any time. [`Preprocessor::crop_rows`] says
//! which bytes of it a crop needs. [`Preprocessor::run_in_place`] reads them there, by [`SharedBytes`]: what changes meanwhile may
//! change pixels, and nothing else. Where the memory cannot be read so, the caller copies them into a private buffer, and
//! [`Preprocessor::run`] works on that copy, to the same result. All tables and scratch are made by [`Preprocessor::new`]: running
//! allocates nothing, and its time depends on the sizes only, not on the pixels. [`Preprocessor::cut`] changes the size of the crop, within
//! what was made for the largest.
//!
//! ```
//! use punctual_kernels::preprocess::{PlanarOutput, Preprocessor, PreprocessSpec};
//! use punctual_types::{Fit, FrameLayout, PixelFormat, Size};
//! let layout = FrameLayout::packed(PixelFormat::Nv12, 640, 480);
//! let mut preprocessor = Preprocessor::new(&PreprocessSpec {
//!     frame: layout,
//!     crop: Size { width: 192, height: 192 },
//!     output: Size { width: 64, height: 64 },
//!     channels: 3,
//!     fit: Fit::Stretch,
//!     mean: [0.5; 4],
//!     std: [0.25; 4],
//! })?;
//! let frame = vec![128; layout.len()];
//! let mut copy = vec![0; preprocessor.copy_len_max()];
//! let mut planes = vec![0.0; 3 * 64 * 64];
//! let rows = preprocessor.crop_rows(101, 33)?;
//! rows.copy_from(&frame, &mut copy);
//! preprocessor.run(&rows, &copy, PlanarOutput::packed(&mut planes, 64, 64))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bt601;
mod converted;
mod frame;
mod gray;
mod picture;
mod pieces;
mod resize;
mod rgb;
mod spec;
mod tensor;
mod yuv;

pub use frame::{CropRows, RowSpan};
pub use spec::{CHANNELS_MAX, PlanarOutput, PreprocessError, PreprocessSpec, STD_MIN};
pub use tensor::NotFinite;

use picture::Picture;
use punctual_types::{FrameLayout, PixelFormat, SharedBytes, Size};

/// Crops, resizes and normalises the frames of one stream; or takes the tensors of one.
#[derive(Debug)]
pub struct Preprocessor {
    frame: FrameLayout,
    /// Of a tensor, all of it.
    crop: Size,
    /// What there is room for.
    crop_max: Size,
    output: Size,
    channels: usize,
    /// None: a tensor, which is only looked through.
    picture: Option<Picture>,
}

impl Preprocessor {
    /// Checks the geometry and makes the tables. Crops are of the spec's size until [`cut`](Self::cut).
    pub fn new(spec: &PreprocessSpec) -> Result<Self, PreprocessError> {
        spec.frame.check()?;
        let (crop, picture) = if spec.frame.format == PixelFormat::Tensor {
            tensor::check(spec)?;
            (spec.frame.size(), None)
        } else {
            spec::check_picture(spec)?;
            (spec.crop, Some(Picture::new(spec)?))
        };
        Ok(Self {
            frame: spec.frame,
            crop,
            crop_max: crop,
            output: spec.output,
            channels: spec.channels as usize,
            picture,
        })
    }

    /// From now on crops have this size, up to that of the spec, with the same results as of a preprocessor made for it.
    /// Allocates nothing; its time depends on the sides of crop and output. The size that crops have already costs nothing.
    ///
    /// Any size is one, also of formats whose pixels share colours: a crop of odd sides, or at an odd place, has the colours that its
    /// outermost pixels share with some beyond it. Rows that were asked for before are for the size before.
    ///
    /// # Errors
    /// If the size is larger than the spec's, or zero; of a tensor, if it is another. Crops then keep their size.
    pub fn cut(&mut self, crop: Size) -> Result<(), PreprocessError> {
        if crop == self.crop {
            return Ok(());
        }
        let Some(picture) = &mut self.picture else {
            let tensor = self.crop;
            return Err(PreprocessError::CropOfTensor { crop, tensor });
        };
        crop.check("crop")?;
        let largest = self.crop_max;
        if crop.width > largest.width || crop.height > largest.height {
            return Err(PreprocessError::CropBeyond { crop, largest });
        }
        picture.cut(crop);
        self.crop = crop;
        Ok(())
    }

    /// The largest crop, which it was made for.
    pub fn crop_max(&self) -> Size {
        self.crop_max
    }

    /// Which bytes of the frame the crop with this top left corner needs.
    pub fn crop_rows(&self, x: u32, y: u32) -> Result<CropRows, PreprocessError> {
        self.rows_in(&self.frame, x, y)
    }

    /// As [`crop_rows`](Self::crop_rows), in a frame of the same size and format whose rows and planes lie elsewhere.
    pub fn crop_rows_in(
        &self,
        layout: &FrameLayout,
        x: u32,
        y: u32,
    ) -> Result<CropRows, PreprocessError> {
        let (found, expected) = (*layout, self.frame);
        if found.format != expected.format || found.size() != expected.size() {
            return Err(PreprocessError::OtherFrames { found, expected });
        }
        layout.check()?;
        self.rows_in(layout, x, y)
    }

    fn rows_in(&self, layout: &FrameLayout, x: u32, y: u32) -> Result<CropRows, PreprocessError> {
        CropRows::new(layout, self.crop, self.channels > 1, x, y)
    }

    /// Bytes that a private copy has at most, whatever the crop's position and size.
    pub fn copy_len_max(&self) -> usize {
        CropRows::copy_len_max(&self.frame, self.crop_max)
    }

    /// Size of the network's input.
    pub fn output(&self) -> Size {
        self.output
    }

    /// Planes of the network's input.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Turns a private copy of the crop's rows, as laid out by `rows`, into normalised planes.
    ///
    /// # Errors
    /// If a tensor has a value that is not finite; what the planes then hold is not specified. Never of a picture.
    ///
    /// # Panics
    /// If `rows` is of another geometry (as those from before a [`cut`](Self::cut)), the copy is shorter than [`CropRows::copy_len`], or the planes do not
    /// fit into the output: sizes are fixed by the plan, so that is a programmer's error, never a client's.
    pub fn run(
        &mut self,
        rows: &CropRows,
        copy: &[u8],
        output: PlanarOutput<'_>,
    ) -> Result<(), NotFinite> {
        assert!(copy.len() >= rows.copy_len(), "copy shorter than its rows");
        self.run_in_place(&rows.in_copy(), copy.into(), output)
    }

    /// Turns the crop's rows, as they lie in a frame, into normalised planes. Of a tensor, the values are checked that are
    /// written to the planes.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    ///
    /// # Panics
    /// As for [`run`](Self::run), with the frame in the place of the copy.
    pub fn run_in_place(
        &mut self,
        rows: &CropRows,
        frame: SharedBytes<'_>,
        mut output: PlanarOutput<'_>,
    ) -> Result<(), NotFinite> {
        assert_eq!(rows.crop(), self.crop, "rows of another size");
        assert_eq!(rows.format(), self.frame.format, "rows of another format");
        assert!(frame.len() >= rows.extent(), "frame shorter than its rows");
        assert!(
            output.plane_stride >= self.output.width as usize,
            "planes would overlap: stride {} under {}",
            output.plane_stride,
            self.output.width
        );
        match &mut self.picture {
            Some(picture) => picture.prepare(rows, frame, &mut output),
            None => tensor::take(rows, frame, self.output.height as usize, &mut output)?,
        }
        Ok(())
    }
}
