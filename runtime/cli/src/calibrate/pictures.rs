//! From a picture's file to the network's input, by the daemon's own preprocessing.

use std::path::{Path, PathBuf};

use image::DynamicImage;
use punctual_decode::{DecodeError, View};
use punctual_kernels::preprocess::{PlanarOutput, PreprocessError, PreprocessSpec, Preprocessor};
use punctual_model::{InputSpec, Network};
use punctual_types::{Fit, FrameLayout, PixelFormat, Size};

use crate::picture;

/// A picture that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    #[error(
        "the network {network} takes no pictures: run it on your samples yourself, and give the records to \
         `punctual compile --calibration`"
    )]
    NoPictures { network: String },
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
    /// Its places in the network's input cannot be computed.
    #[error("the picture {path} has no place in the network's input: {source}", path = path.display())]
    Place { path: PathBuf, source: DecodeError },
}

/// A picture as the network sees it.
pub struct Prepared {
    /// `[channel][row][column]`, normalised.
    pub planes: Vec<f32>,
    pub placement: Placement,
}

/// Where a picture lies in the network's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    pub picture: Size,
    pub view: View,
}

/// Prepares pictures for one network. The tables for a size of picture are kept for the next.
pub struct Pictures {
    input: InputSpec,
    /// The share of a picture's shorter side that the network sees.
    crop: f64,
    fit: Fit,
    prepared: Option<(FrameLayout, Preprocessor)>,
    copy: Vec<u8>,
}

impl Pictures {
    /// For `network`, which sees a centred square of `crop` (0 to 1) of each picture's shorter side;
    /// without, the whole picture, whatever its shape.
    pub fn new(network: &Network, crop: Option<f64>, fit: Fit) -> Result<Self, PictureError> {
        if !network.input.form.is_image() {
            return Err(PictureError::NoPictures {
                network: network.name.clone(),
            });
        }
        Ok(Self {
            input: network.input,
            crop: crop.unwrap_or(0.0),
            fit,
            prepared: None,
            copy: Vec::new(),
        })
    }

    pub fn prepared(&mut self, path: &Path) -> Result<Prepared, PictureError> {
        let (layout, pixels) = decode(path, self.input.channels)?;
        let picture = layout.size();
        let crop = self.cropped(picture);
        let left = (picture.width - crop.width) / 2;
        let top = (picture.height - crop.height) / 2;
        let view = View::new(left, top, crop, self.output(), !self.fit.is_stretch());
        let view = view.map_err(|source| PictureError::Place {
            path: path.to_owned(),
            source,
        })?;
        let planes = self.planes(layout, &pixels, left, top, crop);
        let planes = planes.map_err(|source| PictureError::Prepare {
            path: path.to_owned(),
            source,
        })?;
        let placement = Placement { picture, view };
        Ok(Prepared { planes, placement })
    }

    fn output(&self) -> Size {
        Size {
            width: self.input.width,
            height: self.input.height,
        }
    }

    fn planes(
        &mut self,
        layout: FrameLayout,
        pixels: &[u8],
        left: u32,
        top: u32,
        crop: Size,
    ) -> Result<Vec<f32>, PreprocessError> {
        let input = self.input;
        if self.prepared.as_ref().is_none_or(|(of, _)| *of != layout) {
            let (mean, std) = input.form.normalisation();
            let spec = PreprocessSpec {
                frame: layout,
                crop,
                output: self.output(),
                channels: input.channels,
                fit: self.fit,
                mean,
                std,
            };
            let preprocessor = Preprocessor::new(&spec)?;
            self.copy.resize(preprocessor.copy_len_max(), 0);
            self.prepared = Some((layout, preprocessor));
        }
        let (_, preprocessor) = self.prepared.as_mut().expect("made above");
        let rows = preprocessor.crop_rows(left, top)?;
        rows.copy_from(pixels, &mut self.copy);
        let [width, height] = [input.width, input.height].map(|side| side as usize);
        let mut planes = vec![0.0; preprocessor.channels() * width * height];
        let output = PlanarOutput::packed(&mut planes, width, height);
        let prepared = preprocessor.run(&rows, &self.copy, output);
        prepared.expect("pictures have no numbers that are not finite");
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

/// A picture of bounded size, whatever its header says, as a camera would give it for a network of `channels` channels.
fn decode(path: &Path, channels: u32) -> Result<(FrameLayout, Vec<u8>), PictureError> {
    let picture = picture::decode(path).map_err(|source| PictureError::Decode {
        path: path.to_owned(),
        source,
    })?;
    let (width, height) = (picture.width(), picture.height());
    let (format, pixels) = match (channels, picture) {
        (1, picture @ (DynamicImage::ImageLuma8(_) | DynamicImage::ImageLumaA8(_))) => {
            (PixelFormat::Gray8, picture.into_luma8().into_raw())
        }
        (1, picture @ (DynamicImage::ImageLuma16(_) | DynamicImage::ImageLumaA16(_))) => {
            let words = picture.into_luma16().into_raw();
            let bytes = words.into_iter().flat_map(u16::to_le_bytes);
            (PixelFormat::Gray16, bytes.collect())
        }
        // Without a fourth channel it is 255 everywhere.
        (4, picture) => (PixelFormat::Rgba8, picture.into_rgba8().into_raw()),
        (_, picture) => (PixelFormat::Rgb8, picture.into_rgb8().into_raw()),
    };
    Ok((FrameLayout::packed(format, width, height), pixels))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(name: &str, picture: &DynamicImage) -> PathBuf {
        let name = format!("{}-{name}.png", std::process::id());
        let path = std::env::temp_dir().join(name);
        picture.save(&path).expect("a PNG");
        path
    }

    #[test]
    fn pictures_are_read_as_their_network_sees_them() {
        let gray16 = image::ImageBuffer::from_pixel(2, 1, image::Luma([0x1234_u16]));
        let rgba = image::RgbaImage::from_pixel(2, 1, image::Rgba([1, 2, 3, 4]));
        let rgb = image::RgbImage::from_pixel(2, 1, image::Rgb([1, 2, 3]));
        let gray16 = written("gray16", &gray16.into());
        let (rgba, rgb) = (written("rgba", &rgba.into()), written("rgb", &rgb.into()));
        for (path, channels, format, pixel) in [
            (&gray16, 1, PixelFormat::Gray16, &[0x34, 0x12][..]),
            (&gray16, 3, PixelFormat::Rgb8, &[0x12, 0x12, 0x12]),
            (&rgba, 4, PixelFormat::Rgba8, &[1, 2, 3, 4]),
            (&rgba, 3, PixelFormat::Rgb8, &[1, 2, 3]),
            (&rgb, 4, PixelFormat::Rgba8, &[1, 2, 3, 255]),
            (&rgb, 1, PixelFormat::Rgb8, &[1, 2, 3]),
        ] {
            let (layout, pixels) = decode(path, channels).expect("a picture");
            assert_eq!(layout, FrameLayout::packed(format, 2, 1));
            assert_eq!(pixels, pixel.repeat(2), "{path:?} for {channels}");
        }
        for path in [gray16, rgba, rgb] {
            std::fs::remove_file(path).expect("it was written");
        }
    }
}
