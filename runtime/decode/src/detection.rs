//! One object: where it is, what it is, how sure the network is.

use std::fmt;

use punctual_types::Size;

/// A rectangle in pixels; x grows to the right, y downwards. Pixel (0, 0) covers 0 to 1 in both.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rect {
    pub left: f32,
    pub top: f32,
    pub right: f32,
    pub bottom: f32,
}

/// An object that a detector found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Detection {
    pub rect: Rect,
    /// 0 to 1.
    pub score: f32,
    pub class: u16,
}

/// Left, top, right, bottom; with the precision that was asked for.
impl fmt::Display for Rect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sides = [self.left, self.top, self.right, self.bottom];
        for (side, before) in sides.iter().zip(["", " ", " ", " "]) {
            f.write_str(before)?;
            fmt::Display::fmt(side, f)?;
        }
        Ok(())
    }
}

impl Rect {
    /// Of a centre and a width and height.
    pub(crate) fn around(x: f32, y: f32, width: f32, height: f32) -> Self {
        Self {
            left: x - 0.5 * width,
            top: y - 0.5 * height,
            right: x + 0.5 * width,
            bottom: y + 0.5 * height,
        }
    }

    /// The part of it that is inside of `bounds`; without area if there is none.
    #[must_use]
    pub fn clipped(&self, bounds: &Self) -> Self {
        // Not `clamp`, which panics if bounds are in the wrong order. What is no number stays so.
        let within = |at: f32, low: f32, high: f32| match at {
            _ if at < low => low,
            _ if at > high => high,
            _ => at,
        };
        Self {
            left: within(self.left, bounds.left, bounds.right),
            top: within(self.top, bounds.top, bounds.bottom),
            right: within(self.right, bounds.left, bounds.right),
            bottom: within(self.bottom, bounds.top, bounds.bottom),
        }
    }

    /// A whole picture.
    pub(crate) fn whole(size: Size) -> Self {
        Self {
            left: 0.0,
            top: 0.0,
            right: size.width as f32,
            bottom: size.height as f32,
        }
    }

    /// In square pixels; 0 for a rectangle whose sides are in the wrong order.
    #[must_use]
    pub fn area(&self) -> f32 {
        (self.right - self.left).max(0.0) * (self.bottom - self.top).max(0.0)
    }

    /// Area of the intersection over area of the union: 0 (apart) to 1 (equal); 0 if both are empty.
    #[must_use]
    pub fn overlap(&self, other: &Self) -> f32 {
        let common = Self {
            left: self.left.max(other.left),
            top: self.top.max(other.top),
            right: self.right.min(other.right),
            bottom: self.bottom.min(other.bottom),
        };
        let union = self.area() + other.area() - common.area();
        if union > 0.0 {
            common.area() / union
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rectangle_is_printed_as_its_four_sides() {
        let rect = Rect {
            left: 1.0,
            top: 2.25,
            right: -3.0,
            bottom: 4.0,
        };
        assert_eq!(format!("{rect}"), "1 2.25 -3 4");
        assert_eq!(format!("{rect:.1}"), "1.0 2.2 -3.0 4.0");
    }

    #[test]
    fn rectangles_overlap_by_their_common_share() {
        let rect = |left, top, right, bottom| Rect {
            left,
            top,
            right,
            bottom,
        };
        let square = rect(0.0, 0.0, 2.0, 2.0);
        assert_eq!(square.overlap(&square), 1.0);
        assert_eq!(square.overlap(&rect(1.0, 0.0, 3.0, 2.0)), 1.0 / 3.0);
        assert_eq!(square.overlap(&rect(2.0, 0.0, 3.0, 2.0)), 0.0, "they touch");
        assert_eq!(
            square.overlap(&rect(1.0, 1.0, 0.0, 0.0)),
            0.0,
            "its sides are in the wrong order"
        );
        assert_eq!(Rect::default().overlap(&Rect::default()), 0.0);
    }
}
