//! Draws a network's answer on the picture: boxes, classes of pixels, a map of values, a class.

use std::convert::Infallible;

use embedded_graphics::Drawable as _;
use embedded_graphics::draw_target::DrawTarget;
use embedded_graphics::geometry::{OriginDimensions, Point, Size};
use embedded_graphics::mono_font::iso_8859_1::FONT_10X20;
use embedded_graphics::mono_font::{MonoTextStyle, MonoTextStyleBuilder};
use embedded_graphics::pixelcolor::Rgb888;
use embedded_graphics::prelude::{Pixel, Primitive as _};
use embedded_graphics::primitives::{PrimitiveStyleBuilder, Rectangle, StrokeAlignment};
use embedded_graphics::text::{Baseline, Text};
use image::imageops::FilterType;
use image::{DynamicImage, Rgb, RgbImage};
use punctual_client::{Response, Tensor};
use punctual_decode::View;
use punctual_report::Colour;
use punctual_types::Element;

use super::answer::{self, Answered, Names};
use super::frame::Placement;
use crate::pixel_classes::{PixelClasses, cell};

/// Sides of a drawing: smaller pictures have no room for words, and larger ones none on a screen.
const SIDE_MIN: u32 = 640;
const SIDE_MAX: u32 = 1600;
/// Of a line of text, and its distance from what is around it.
const LINE: i32 = 20;
/// Classes that a key lists.
const KEY_MAX: usize = 12;

/// A picture to be drawn on.
struct Canvas {
    pixels: RgbImage,
    /// Its pixels for each of the picture's.
    scale: f32,
}

/// The picture that was asked about, with the answer.
pub fn drawn(
    picture: &DynamicImage,
    placement: &Placement,
    response: &Response,
    names: &Names,
    answered: &Answered,
) -> RgbImage {
    let mut canvas = Canvas::new(picture);
    if let Some(view) = response.view() {
        let all = response.outputs();
        let tensors: Vec<Tensor<'_>> = all.into_iter().flat_map(|all| all.iter()).collect();
        if answered.detections.is_none() {
            if let Some((form, tensor)) = answer::pixel_classes(response, names) {
                canvas.classes(form, &tensor, placement, &view, names);
            } else if let Some(map) = tensors.iter().find_map(Map::of) {
                canvas.map(&map, placement, &view);
            }
        }
    }
    canvas.boxes(answered);
    let confidence = answered
        .confidence
        .map(|sure| format!(" {:.0}%", sure * 100.0));
    if let Some(class) = &answered.class {
        let said = format!("{class}{}", confidence.unwrap_or_default());
        let bottom = canvas.pixels.height() as i32 - LINE;
        canvas.label(0, bottom, &said, Rgb888::new(255, 255, 255));
    }
    canvas.pixels
}

impl Canvas {
    fn new(picture: &DynamicImage) -> Self {
        let longest = picture.width().max(picture.height());
        let scale = longest.clamp(SIDE_MIN, SIDE_MAX) as f32 / longest as f32;
        let side = |side: u32| ((side as f32 * scale).round() as u32).max(1);
        let rgb = picture.to_rgb8();
        let pixels = if scale == 1.0 {
            rgb
        } else {
            let (width, height) = (side(rgb.width()), side(rgb.height()));
            image::imageops::resize(&rgb, width, height, FilterType::Triangle)
        };
        Self { pixels, scale }
    }

    /// Mixes colours into the pixels that have some, by their place in the network's input.
    fn mix(
        &mut self,
        placement: &Placement,
        view: &View,
        mut colour: impl FnMut(f32, f32) -> Option<Colour>,
    ) {
        let scale = self.scale;
        for (x, y, pixel) in self.pixels.enumerate_pixels_mut() {
            let place = |at: u32| (at as f32 + 0.5) / scale;
            let (in_frame_x, in_frame_y) = placement.to_frame(place(x), place(y));
            let bounds = view.bounds();
            let seen = (bounds.left..bounds.right).contains(&in_frame_x)
                && (bounds.top..bounds.bottom).contains(&in_frame_y);
            if !seen {
                continue;
            }
            let (x, y) = view.to_input(in_frame_x, in_frame_y);
            if let Some(Colour(red, green, blue)) = colour(x, y) {
                for (value, with) in pixel.0.iter_mut().zip([red, green, blue]) {
                    *value = value.midpoint(with);
                }
            }
        }
    }

    /// The class of each pixel in a colour of its own, but for the first class, which is the background's; and a key.
    fn classes(
        &mut self,
        form: PixelClasses,
        tensor: &Tensor<'_>,
        placement: &Placement,
        view: &View,
        names: &Names,
    ) {
        let classes = form.classes(tensor.bytes());
        let input = view.input();
        let mut found = Vec::new();
        self.mix(placement, view, |x, y| {
            let (row, column) = (form.row(y, input.height), form.column(x, input.width));
            let class = *classes.get(row * form.columns + column)? as usize;
            if class == 0 {
                return None;
            }
            if !found.contains(&class) && found.len() < KEY_MAX {
                found.push(class);
            }
            Some(Colour::of(class - 1))
        });
        found.sort_unstable();
        for (line, class) in (0..).zip(found) {
            self.label(0, line * LINE, &names.of(class), rgb(Colour::of(class - 1)));
        }
    }

    /// From its least value, which is dark, to its greatest.
    fn map(&mut self, map: &Map, placement: &Placement, view: &View) {
        let input = view.input();
        self.mix(placement, view, |x, y| {
            let row = cell(y, map.rows, input.height);
            let column = cell(x, map.columns, input.width);
            let value = map.values.get(row * map.columns + column)?;
            let share = (value - map.least) / (map.most - map.least);
            let level = (255.0 * share.clamp(0.0, 1.0)) as u8;
            value
                .is_finite()
                .then_some(Colour(level, level, 255 - level))
        });
    }

    fn boxes(&mut self, answered: &Answered) {
        for found in answered.detections.iter().flatten() {
            let [left, top, right, bottom] =
                found.sides.map(|side| (side * self.scale).round() as i32);
            let colour = rgb(Colour::of(found.class_index.into()));
            let style = PrimitiveStyleBuilder::new()
                .stroke_color(colour)
                .stroke_width(3)
                .stroke_alignment(StrokeAlignment::Outside)
                .build();
            let size = Size::new((right - left).max(1) as u32, (bottom - top).max(1) as u32);
            let outline = Rectangle::new(Point::new(left, top), size).into_styled(style);
            let Ok(()) = outline.draw(self);
            // Above the box if there is room.
            let y = if top >= LINE { top - LINE } else { bottom };
            let said = format!("{} {:.0}%", found.class, found.score * 100.0);
            self.label(left, y, &said, colour);
        }
    }

    fn label(&mut self, x: i32, y: i32, said: &str, colour: Rgb888) {
        let width = said.chars().count() as i32 * 10;
        let (across, down) = (self.pixels.width() as i32, self.pixels.height() as i32);
        let place = Point::new(
            x.clamp(0, (across - width).max(0)),
            y.clamp(0, (down - LINE).max(0)),
        );
        let style: MonoTextStyle<'_, Rgb888> = MonoTextStyleBuilder::new()
            .font(&FONT_10X20)
            .text_color(colour)
            .background_color(Rgb888::new(0, 0, 0))
            .build();
        let Ok(_) = Text::with_baseline(said, place, style, Baseline::Top).draw(self);
    }
}

const fn rgb(Colour(red, green, blue): Colour) -> Rgb888 {
    Rgb888::new(red, green, blue)
}

impl OriginDimensions for Canvas {
    fn size(&self) -> Size {
        Size::new(self.pixels.width(), self.pixels.height())
    }
}

impl DrawTarget for Canvas {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I>(&mut self, pixels: I) -> Result<(), Infallible>
    where
        I: IntoIterator<Item = Pixel<Rgb888>>,
    {
        use embedded_graphics::pixelcolor::RgbColor as _;
        for Pixel(place, colour) in pixels {
            let place = (u32::try_from(place.x), u32::try_from(place.y));
            if let (Ok(x), Ok(y)) = place
                && let Some(pixel) = self.pixels.get_pixel_mut_checked(x, y)
            {
                *pixel = Rgb([colour.r(), colour.g(), colour.b()]);
            }
        }
        Ok(())
    }
}

/// A value for each place, such as a depth.
struct Map {
    rows: usize,
    columns: usize,
    values: Vec<f32>,
    least: f32,
    most: f32,
}

impl Map {
    fn of(tensor: &Tensor<'_>) -> Option<Self> {
        let (rows, columns) = match (tensor.element(), tensor.shape()) {
            (Element::F32, &[rows, columns] | &[1, rows, columns]) if rows > 1 && columns > 1 => {
                (rows as usize, columns as usize)
            }
            _ => return None,
        };
        let values = tensor.as_f32().ok()?.to_vec();
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let least = finite().fold(f32::INFINITY, f32::min);
        let most = finite().fold(f32::NEG_INFINITY, f32::max);
        (least < most).then_some(Self {
            rows,
            columns,
            values,
            least,
            most,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canvas(width: u32, height: u32) -> Canvas {
        Canvas::new(&DynamicImage::new_rgb8(width, height))
    }

    #[test]
    fn drawings_are_neither_too_small_for_words_nor_too_large_for_a_screen() {
        for (size, drawn) in [
            ((64, 32), (640, 320)),
            ((1000, 10), (1000, 10)),
            ((8000, 2), (1600, 1)),
        ] {
            assert_eq!(canvas(size.0, size.1).pixels.dimensions(), drawn);
        }
    }

    #[test]
    fn words_beyond_the_edge_are_moved_in_and_never_panic() {
        let white = Rgb888::new(255, 255, 255);
        for place in [(-50, -50), (700, 700), (i32::MAX, i32::MIN)] {
            let mut canvas = canvas(640, 100);
            canvas.label(place.0, place.1, "a sign", white);
            let lit = canvas.pixels.pixels().filter(|pixel| pixel.0[0] > 0);
            assert!(lit.count() > 50, "{place:?}");
        }
        canvas(2, 640).label(0, 0, &"long ".repeat(1000), white);
    }
}
