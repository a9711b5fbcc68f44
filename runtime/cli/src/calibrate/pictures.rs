//! From a picture's file to the network's input, by the daemon's own preprocessing.

use std::io::BufReader;
use std::path::{Path, PathBuf};

use punctual_kernels::preprocess::{PlanarOutput, PreprocessError, PreprocessSpec, Preprocessor};
use punctual_model::Network;
use punctual_platform::read;
use punctual_types::{FrameLayout, PixelFormat, SIDE_MAX, Size};

/// A picture that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// It cannot be read or decoded.
    #[error("cannot read the picture {path}: {source}", path = path.display())]
    Decode {
        path: PathBuf,
        source: image::ImageError,
    },
    /// It cannot be resized to the network's input.
    #[error("the picture {path} cannot be prepared: {source}", path = path.display())]
    Prepare {
        path: PathBuf,
        source: PreprocessError,
    },
}

/// Prepares pictures for one network. The tables for a size of picture are kept for the next.
pub struct Pictures {
    output: Size,
    mean: [f32; 3],
    std: [f32; 3],
    /// The share of a picture's shorter side that the network sees.
    crop: f64,
    prepared: Option<(Size, Preprocessor)>,
    copy: Vec<u8>,
}

impl Pictures {
    /// For `network`, which sees a centred square of `crop` (0 to 1) of each picture's shorter side;
    /// without, the whole picture, whatever its shape.
    pub fn new(network: &Network, crop: Option<f64>) -> Self {
        let (mean, std) = network.input.form.normalisation();
        Self {
            output: Size {
                width: network.input.width,
                height: network.input.height,
            },
            mean: [mean[0], mean[1], mean[2]],
            std: [std[0], std[1], std[2]],
            crop: crop.unwrap_or(0.0),
            prepared: None,
            copy: Vec::new(),
        }
    }

    /// The planes of one picture: `[channel][row][column]`, normalised.
    pub fn planes(&mut self, path: &Path) -> Result<Vec<f32>, PictureError> {
        let picture = decode(path)?;
        let size = Size {
            width: picture.width(),
            height: picture.height(),
        };
        self.prepare(size, picture.as_raw())
            .map_err(|source| PictureError::Prepare {
                path: path.to_owned(),
                source,
            })
    }

    fn prepare(&mut self, size: Size, rgb: &[u8]) -> Result<Vec<f32>, PreprocessError> {
        let crop = self.cropped(size);
        if self.prepared.as_ref().is_none_or(|(of, _)| *of != size) {
            let spec = PreprocessSpec {
                frame: FrameLayout::packed(PixelFormat::Rgb8, size.width, size.height),
                crop,
                output: self.output,
                mean: self.mean,
                std: self.std,
            };
            let preprocessor = Preprocessor::new(&spec)?;
            self.copy.resize(preprocessor.copy_len_max(), 0);
            self.prepared = Some((size, preprocessor));
        }
        let (_, preprocessor) = self.prepared.as_mut().expect("made above");
        let corner = |side: u32, crop: u32| (side - crop) / 2;
        let rows = preprocessor.crop_rows(
            corner(size.width, crop.width),
            corner(size.height, crop.height),
        )?;
        rows.copy_from(rgb, &mut self.copy);
        let [width, height] = [self.output.width, self.output.height].map(|side| side as usize);
        let mut planes = vec![0.0; 3 * width * height];
        let output = PlanarOutput::packed(&mut planes, width, height);
        preprocessor.run(&rows, &self.copy, output);
        Ok(planes)
    }

    fn cropped(&self, size: Size) -> Size {
        if self.crop == 0.0 {
            return size;
        }
        let side = f64::from(size.width.min(size.height)) * self.crop;
        let side = (side.round() as u32).max(1);
        Size {
            width: side,
            height: side,
        }
    }
}

/// A picture of bounded size, whatever its header says.
fn decode(path: &Path) -> Result<image::RgbImage, PictureError> {
    let failed = |source| PictureError::Decode {
        path: path.to_owned(),
        source,
    };
    let io = |source| failed(image::ImageError::IoError(source));
    // Its content says what it is, not its name.
    let file = BufReader::new(read::open(path).map_err(io)?);
    let mut reader = image::ImageReader::new(file);
    reader = reader.with_guessed_format().map_err(io)?;
    let mut limits = image::Limits::default();
    limits.max_image_width = Some(SIDE_MAX);
    limits.max_image_height = Some(SIDE_MAX);
    reader.limits(limits);
    Ok(reader.decode().map_err(failed)?.into_rgb8())
}
