//! The 43 classes: which plate, which glyph, which colours.

use crate::glyph::Glyph;

/// Names of the classes, by label.
pub const CLASSES: [&str; 43] = [
    "limit 20",
    "limit 30",
    "limit 40",
    "limit 50",
    "limit 60",
    "limit 70",
    "limit 80",
    "limit 100",
    "limit 120",
    "no vehicles",
    "no overtaking",
    "no trucks",
    "no entry",
    "stop",
    "give way",
    "priority road",
    "end of priority road",
    "end of limits",
    "end of no overtaking",
    "ahead only",
    "left only",
    "right only",
    "ahead or left",
    "ahead or right",
    "keep left",
    "keep right",
    "roundabout",
    "danger",
    "bend left",
    "bend right",
    "double bend",
    "bumps",
    "slippery road",
    "road narrows",
    "road works",
    "traffic signals",
    "pedestrians",
    "children",
    "bicycles",
    "ice",
    "animals",
    "crossroads",
    "parking",
];

/// What a detector tells apart. Some differ by shape or colour, others only by what is painted on them.
pub const CATEGORIES: [&str; 12] = [
    "speed limit",
    "prohibition",
    "danger",
    "crossing",
    "mandatory",
    "end",
    "priority",
    "end of priority",
    "give way",
    "stop",
    "no entry",
    "parking",
];

/// The labels of one of [`CATEGORIES`].
pub(crate) fn labels_of(category: usize) -> &'static [usize] {
    match category {
        0 => &[0, 1, 2, 3, 4, 5, 6, 7, 8],
        1 => &[9, 10, 11],
        2 => &[27, 28, 29, 30, 31, 32, 33, 34, 35, 39, 41],
        // Of those that may cross: pedestrians, children, bicycles, animals.
        3 => &[36, 37, 38, 40],
        4 => &[19, 20, 21, 22, 23, 24, 25, 26],
        5 => &[17, 18],
        6 => &[15],
        7 => &[16],
        8 => &[14],
        9 => &[13],
        10 => &[12],
        11 => &[42],
        _ => unreachable!("categories are below {}", CATEGORIES.len()),
    }
}

/// Outline of the plate, in a frame of -1 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plate {
    Disc,
    Octagon,
    Triangle,
    TriangleDown,
    Diamond,
    Square,
}

/// Paint, before lighting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    White,
    Black,
    Grey,
    Red,
    Blue,
    Yellow,
}

impl Paint {
    /// RGB, each 0 to 1.
    pub(crate) fn rgb(self) -> [f32; 3] {
        match self {
            Self::White => [0.93, 0.93, 0.91],
            Self::Black => [0.07, 0.07, 0.08],
            Self::Grey => [0.45, 0.45, 0.46],
            Self::Red => [0.76, 0.10, 0.12],
            Self::Blue => [0.10, 0.25, 0.66],
            Self::Yellow => [0.95, 0.72, 0.10],
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Design {
    pub(crate) plate: Plate,
    /// The rim, and its width as a part of the plate's inner radius.
    pub(crate) rim: Paint,
    pub(crate) rim_width: f32,
    pub(crate) field: Paint,
    pub(crate) ink: Paint,
    pub(crate) glyph: Glyph,
    /// A diagonal band: "end of".
    pub(crate) band: bool,
}

/// Red rim, black on white: what is forbidden. The others differ from it.
fn forbid(glyph: Glyph) -> Design {
    Design {
        plate: Plate::Disc,
        rim: Paint::Red,
        rim_width: 0.22,
        field: Paint::White,
        ink: Paint::Black,
        glyph,
        band: false,
    }
}

/// A red triangle: what to look out for.
fn warn(glyph: Glyph) -> Design {
    Design {
        plate: Plate::Triangle,
        rim_width: 0.26,
        ..forbid(glyph)
    }
}

/// White on a blue disc: what to do.
fn command(glyph: Glyph) -> Design {
    Design {
        rim: Paint::White,
        rim_width: 0.06,
        field: Paint::Blue,
        ink: Paint::White,
        ..forbid(glyph)
    }
}

/// Grey under a black band: what is over.
fn end(glyph: Glyph) -> Design {
    Design {
        rim: Paint::Black,
        rim_width: 0.06,
        ink: Paint::Grey,
        band: true,
        ..forbid(glyph)
    }
}

/// White on red, of its own shape.
fn stop(plate: Plate, rim_width: f32, glyph: Glyph) -> Design {
    Design {
        plate,
        rim: Paint::White,
        rim_width,
        field: Paint::Red,
        ink: Paint::White,
        ..forbid(glyph)
    }
}

/// The yellow diamond, or its end.
fn priority(band: bool) -> Design {
    Design {
        plate: Plate::Diamond,
        rim: Paint::White,
        rim_width: 0.3,
        field: Paint::Yellow,
        band,
        ..forbid(Glyph::Nothing)
    }
}

/// The design of a label below 43.
pub(crate) fn design(label: u16) -> Design {
    use Glyph::*;
    match label {
        0..=8 => forbid(Number(
            [20, 30, 40, 50, 60, 70, 80, 100, 120][usize::from(label)],
        )),
        9 => forbid(Nothing),
        10 => forbid(Cars),
        11 => forbid(Truck),
        12 => stop(Plate::Disc, 0.06, Bar),
        13 => stop(Plate::Octagon, 0.07, StopWord),
        14 => Design {
            plate: Plate::TriangleDown,
            rim_width: 0.34,
            ..forbid(Nothing)
        },
        15 => priority(false),
        16 => priority(true),
        17 => end(Nothing),
        18 => end(Cars),
        19 => command(Ahead),
        20 => command(Left),
        21 => command(Right),
        22 => command(AheadOrLeft),
        23 => command(AheadOrRight),
        24 => command(KeepLeft),
        25 => command(KeepRight),
        26 => command(Roundabout),
        27 => warn(Exclamation),
        28 => warn(BendLeft),
        29 => warn(BendRight),
        30 => warn(DoubleBend),
        31 => warn(Bumps),
        32 => warn(Slippery),
        33 => warn(Narrows),
        34 => warn(Works),
        35 => warn(Signals),
        36 => warn(Pedestrian),
        37 => warn(Children),
        38 => warn(Bicycle),
        39 => warn(Snowflake),
        40 => warn(Deer),
        41 => warn(Cross),
        42 => Design {
            plate: Plate::Square,
            ..command(ParkingLetter)
        },
        _ => unreachable!("labels are below {}", CLASSES.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_is_of_one_category() {
        let mut labels: Vec<usize> = (0..CATEGORIES.len())
            .flat_map(|category| labels_of(category).to_vec())
            .collect();
        labels.sort_unstable();
        assert!(labels.into_iter().eq(0..CLASSES.len()));
    }
}
