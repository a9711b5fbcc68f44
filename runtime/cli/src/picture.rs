//! Pictures in files that a user names.

use std::io::BufReader;
use std::path::Path;

use image::{DynamicImage, ImageError, ImageReader, Limits};
use punctual_platform::read;
use punctual_types::SIDE_MAX;

/// A picture of bounded size, whatever its header says. Its content says what it is, not its name.
pub fn decode(path: &Path) -> Result<DynamicImage, ImageError> {
    let file = read::open(path).map_err(ImageError::IoError)?;
    let mut reader = ImageReader::new(BufReader::new(file)).with_guessed_format()?;
    let mut limits = Limits::default();
    limits.max_image_width = Some(SIDE_MAX);
    limits.max_image_height = Some(SIDE_MAX);
    reader.limits(limits);
    reader.decode()
}
