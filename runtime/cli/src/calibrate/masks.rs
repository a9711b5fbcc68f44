//! Masks: a class for each pixel of a picture, as PNG.

use std::io::BufReader;
use std::path::{Path, PathBuf};

use image::{DynamicImage, GrayImage};
use punctual_model::{Network, Output};
use punctual_platform::read;
use punctual_quality::PixelCounts;
use punctual_types::SIDE_MAX;

use crate::pixel_classes::PixelClasses;

use super::kind::{self, Answered, ClassFigures, Figure, Kind, Terms, TruthError};

pub struct Masks {
    /// The mask of each sample.
    truth: Vec<PathBuf>,
    /// The mask that was read last, and its sample: all exits are compared with it.
    read: Option<(usize, GrayImage)>,
    classes: Vec<String>,
    /// The position of the output, and how it says classes at each exit.
    output: usize,
    forms: Vec<PixelClasses>,
    /// Columns and rows of the input.
    input: [u32; 2],
}

impl Masks {
    /// The samples at `pictures` are paired with the masks of the same names, but for their endings, in `folder`.
    pub fn new(
        network: &Network,
        pictures: &[PathBuf],
        folder: &Path,
        output: Option<&str>,
    ) -> Result<Self, TruthError> {
        let (position, outputs) = kind::output(network, output)?;
        let form = |output: &Output| PixelClasses::of(output.element, &output.shape);
        let forms: Option<Vec<PixelClasses>> = outputs.iter().map(|output| form(output)).collect();
        let forms = forms.ok_or_else(|| {
            let shapes: Vec<String> = outputs
                .iter()
                .map(|output| format!("{} of shape {:?}", output.element.name(), output.shape))
                .collect();
            TruthError::Network {
                network: network.name.clone(),
                problem: format!(
                    "has no masks in the output `{}` ({}): scores of shape (classes, rows, columns), or class numbers (int32, uint8) of \
                     shape (rows, columns); name another one by --tensor",
                    outputs[0].name,
                    shapes.join(", ")
                ),
            }
        })?;
        let mask = |picture: &PathBuf| {
            let stem = picture.file_stem().unwrap_or_default();
            folder.join(stem).with_added_extension("png")
        };
        Ok(Self {
            truth: pictures.iter().map(mask).collect(),
            read: None,
            classes: network.classes.clone(),
            output: position,
            forms,
            input: [network.input.width, network.input.height],
        })
    }

    fn mask(&mut self, sample: usize) -> Result<&GrayImage, TruthError> {
        if self.read.as_ref().is_none_or(|(of, _)| *of != sample) {
            self.read = Some((sample, decode(&self.truth[sample])?));
        }
        let (_, mask) = self.read.as_ref().expect("read above");
        Ok(mask)
    }
}

fn decode(path: &Path) -> Result<GrayImage, TruthError> {
    let io = |source| TruthError::Read {
        path: path.to_owned(),
        source,
    };
    let failed = |source| TruthError::Mask {
        path: path.to_owned(),
        source,
    };
    let mut reader = image::ImageReader::new(BufReader::new(read::open(path).map_err(io)?));
    reader.set_format(image::ImageFormat::Png);
    let mut limits = image::Limits::default();
    limits.max_image_width = Some(SIDE_MAX);
    limits.max_image_height = Some(SIDE_MAX);
    reader.limits(limits);
    match reader.decode().map_err(failed)? {
        DynamicImage::ImageLuma8(mask) => Ok(mask),
        other => Err(TruthError::invalid(
            path.display(),
            format!(
                "a mask is a grey PNG of 8 bits with the number of each pixel's class, and this one is {:?}; of one with a \
                 palette, `Image.fromarray(numpy.array(Image.open(file)))` has the numbers",
                other.color()
            ),
        )),
    }
}

impl Kind for Masks {
    type Judged = PixelCounts;

    fn terms(&self) -> Terms {
        Terms {
            kind: "masks",
            quality: "frame mIoU",
            meaning: "A frame's quality is the mean over its classes, in mask or answer, of intersection over union. Each pixel \
                      of the mask is compared with the answer's pixel that covers its centre; those of 255 do not count."
                .to_owned(),
            counted: "pixels",
        }
    }

    fn judge(&mut self, answered: &Answered<'_>) -> Result<PixelCounts, TruthError> {
        let form = self.forms[answered.exit];
        let found = form.classes(&answered.result.outputs[self.output]);
        let view = answered.placement.view;
        let bounds = view.bounds();
        let (across, down) = (
            bounds.left as u32..bounds.right as u32,
            bounds.top as u32..bounds.bottom as u32,
        );
        let [width, height] = self.input;
        let column = |x: u32| form.column(view.to_input(x as f32 + 0.5, 0.0).0, width);
        let row = |y: u32| form.row(view.to_input(0.0, y as f32 + 0.5).1, height);
        let columns: Vec<usize> = across.clone().map(column).collect();
        let place = self.truth[answered.sample].display().to_string();
        let mask = self.mask(answered.sample)?;
        let picture = answered.placement.picture;
        if mask.dimensions() != (picture.width, picture.height) {
            let problem = format!(
                "it has {} x {} pixels and its picture {} x {}: make them equal",
                mask.width(),
                mask.height(),
                picture.width,
                picture.height
            );
            return Err(TruthError::invalid(place, problem));
        }
        let pixels = down.flat_map(|y| {
            let found = &found[row(y) * form.columns..][..form.columns];
            let line = across.clone().zip(&columns);
            line.map(move |(x, &column)| (mask.get_pixel(x, y).0[0], found[column]))
        });
        Ok(PixelCounts::of(pixels))
    }

    fn quality(&self, judged: &PixelCounts) -> f64 {
        judged.mean_iou()
    }

    fn figures(&self, answers: &[&PixelCounts]) -> Vec<Figure> {
        let all = sum(answers);
        vec![
            Figure::share("mIoU", all.mean_iou()),
            Figure::share("pixels right", all.right()),
        ]
    }

    fn by_class(&self, answers: &[&PixelCounts]) -> Vec<ClassFigures> {
        let all = sum(answers);
        let classes = all.classes().map(|(class, pixels)| {
            let name = self.classes.get(class as usize);
            ClassFigures {
                class: name.map_or_else(|| class.to_string(), Clone::clone),
                count: pixels.truth,
                figures: vec![Figure::share("IoU", pixels.iou())],
            }
        });
        classes.collect()
    }
}

fn sum(answers: &[&PixelCounts]) -> PixelCounts {
    let mut all = PixelCounts::default();
    answers.iter().for_each(|answer| all.add(answer));
    all
}
