//! Glyphs as strokes: polylines with round ends in a frame of -1 to 1, x to the right, y down.

use crate::stroke::{Pen, Stroke};

/// What is drawn on a plate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Glyph {
    Nothing,
    Number(u16),
    Cars,
    Truck,
    Bar,
    StopWord,
    Ahead,
    Left,
    Right,
    AheadOrLeft,
    AheadOrRight,
    KeepLeft,
    KeepRight,
    Roundabout,
    Exclamation,
    BendLeft,
    BendRight,
    DoubleBend,
    Bumps,
    Slippery,
    Narrows,
    Works,
    Signals,
    Pedestrian,
    Children,
    Bicycle,
    Snowflake,
    Deer,
    Cross,
    ParkingLetter,
}

impl Glyph {
    /// The glyph's strokes, within about 0.65 of the centre.
    pub(crate) fn strokes(self) -> Vec<Stroke> {
        let mut pen = Pen {
            width: 0.085,
            ..Pen::default()
        };
        match self {
            Self::Nothing => {}
            Self::Number(number) => number_strokes(&mut pen, number),
            Self::Cars | Self::Truck | Self::Bar | Self::StopWord | Self::ParkingLetter => {
                self.plain_strokes(&mut pen);
            }
            Self::Ahead
            | Self::Left
            | Self::Right
            | Self::AheadOrLeft
            | Self::AheadOrRight
            | Self::KeepLeft
            | Self::KeepRight
            | Self::Roundabout => self.arrow_strokes(&mut pen),
            Self::Pedestrian | Self::Children | Self::Works | Self::Deer | Self::Bicycle => {
                self.living_strokes(&mut pen);
            }
            _ => self.road_strokes(&mut pen),
        }
        pen.strokes
    }

    fn plain_strokes(self, pen: &mut Pen) {
        match self {
            Self::Cars => {
                pen.car(-0.33).car(0.33);
            }
            Self::Truck => {
                pen.thick([-0.42, -0.1], [0.08, -0.1], 0.22)
                    .thick([0.38, 0.05], [0.42, 0.08], 0.13)
                    .dot([-0.35, 0.28], 0.12)
                    .dot([0.38, 0.28], 0.12);
            }
            Self::Bar => {
                pen.thick([-0.5, 0.0], [0.5, 0.0], 0.16);
            }
            Self::StopWord => {
                pen.width = 0.05;
                pen.line(&[
                    [-0.46, -0.2],
                    [-0.66, -0.2],
                    [-0.66, 0.0],
                    [-0.46, 0.0],
                    [-0.46, 0.22],
                    [-0.68, 0.22],
                ])
                .line(&[[-0.36, -0.2], [-0.08, -0.2]])
                .line(&[[-0.22, -0.2], [-0.22, 0.22]])
                .line(&[
                    [0.04, -0.2],
                    [0.28, -0.2],
                    [0.28, 0.22],
                    [0.04, 0.22],
                    [0.04, -0.2],
                ])
                .line(&[
                    [0.42, 0.22],
                    [0.42, -0.2],
                    [0.66, -0.2],
                    [0.66, 0.03],
                    [0.42, 0.03],
                ]);
            }
            Self::ParkingLetter => {
                pen.width = 0.12;
                pen.line(&[
                    [-0.28, 0.6],
                    [-0.28, -0.55],
                    [0.2, -0.55],
                    [0.36, -0.25],
                    [0.2, 0.06],
                    [-0.28, 0.06],
                ]);
            }
            _ => unreachable!("drawn elsewhere"),
        }
    }

    fn arrow_strokes(self, pen: &mut Pen) {
        const UP: [f32; 2] = [0.0, -1.0];
        pen.width = 0.1;
        let turn = |pen: &mut Pen, side: f32| {
            pen.line(&[
                [-0.25 * side, 0.6],
                [-0.25 * side, -0.1],
                [0.5 * side, -0.1],
            ])
            .head([0.55 * side, -0.1], [side, 0.0], 0.28);
        };
        let fork = |pen: &mut Pen, side: f32| {
            pen.line(&[[-0.2 * side, 0.6], [-0.2 * side, -0.55]])
                .head([-0.2 * side, -0.6], UP, 0.25)
                .line(&[[-0.2 * side, 0.15], [0.5 * side, 0.15]])
                .head([0.55 * side, 0.15], [side, 0.0], 0.25);
        };
        let keep = |pen: &mut Pen, side: f32| {
            let diagonal = std::f32::consts::FRAC_1_SQRT_2;
            pen.line(&[[-0.4 * side, -0.4], [0.4 * side, 0.4]]).head(
                [0.42 * side, 0.42],
                [side * diagonal, diagonal],
                0.36,
            );
        };
        match self {
            Self::Ahead => {
                pen.line(&[[0.0, 0.6], [0.0, -0.55]])
                    .head([0.0, -0.6], UP, 0.32);
            }
            Self::Left => turn(pen, -1.0),
            Self::Right => turn(pen, 1.0),
            Self::AheadOrLeft => fork(pen, -1.0),
            Self::AheadOrRight => fork(pen, 1.0),
            Self::KeepLeft => keep(pen, -1.0),
            Self::KeepRight => keep(pen, 1.0),
            Self::Roundabout => {
                for turn in 0..3 {
                    let angle = turn as f32 * std::f32::consts::TAU / 3.0;
                    let at = |angle: f32| [0.45 * angle.cos(), 0.45 * angle.sin()];
                    pen.line(&[
                        at(angle),
                        at(angle + 0.5),
                        at(angle + 1.0),
                        at(angle + 1.45),
                    ]);
                    let (sin, cos) = (angle + 1.6).sin_cos();
                    pen.head(at(angle + 1.6), [-sin, cos], 0.2);
                }
            }
            _ => unreachable!("drawn elsewhere"),
        }
    }

    fn living_strokes(self, pen: &mut Pen) {
        pen.width = 0.06;
        match self {
            Self::Pedestrian => {
                pen.person([0.0, 0.05], 0.55);
            }
            Self::Children => {
                pen.person([-0.24, 0.05], 0.48).person([0.28, 0.18], 0.36);
            }
            Self::Works => {
                pen.person([-0.16, 0.05], 0.5)
                    .line(&[[-0.1, -0.1], [0.35, 0.3]])
                    .thick([0.3, 0.42], [0.48, 0.48], 0.1);
            }
            Self::Deer => {
                pen.thick([-0.3, 0.0], [0.2, -0.1], 0.11)
                    .line(&[[0.2, -0.1], [0.38, -0.42], [0.52, -0.36]])
                    .line(&[[0.36, -0.42], [0.26, -0.62]])
                    .line(&[[-0.32, 0.0], [-0.42, 0.5]])
                    .line(&[[-0.2, 0.05], [-0.16, 0.5]])
                    .line(&[[0.18, 0.0], [0.42, 0.4]]);
            }
            Self::Bicycle => {
                pen.width = 0.045;
                pen.circle([-0.34, 0.2], 0.24)
                    .circle([0.34, 0.2], 0.24)
                    .line(&[[-0.34, 0.2], [-0.12, -0.2], [0.22, -0.2], [0.34, 0.2]])
                    .line(&[[-0.12, -0.2], [0.02, 0.2], [0.22, -0.2]]);
            }
            _ => unreachable!("drawn elsewhere"),
        }
    }

    fn road_strokes(self, pen: &mut Pen) {
        match self {
            Self::Exclamation => {
                pen.thick([0.0, -0.5], [0.0, 0.12], 0.1)
                    .dot([0.0, 0.45], 0.11);
            }
            Self::BendLeft => bend_strokes(pen, 1.0),
            Self::BendRight => bend_strokes(pen, -1.0),
            Self::DoubleBend => {
                pen.line(&[
                    [0.15, 0.52],
                    [0.15, 0.3],
                    [-0.18, 0.05],
                    [0.15, -0.22],
                    [0.15, -0.5],
                ]);
            }
            Self::Bumps => {
                pen.line(&[[-0.58, 0.35], [0.58, 0.35]])
                    .thick([-0.28, 0.22], [-0.22, 0.22], 0.17)
                    .thick([0.22, 0.22], [0.28, 0.22], 0.17);
            }
            Self::Slippery => {
                pen.width = 0.05;
                pen.thick([-0.12, -0.22], [0.12, -0.22], 0.16)
                    .line(&[[-0.25, 0.05], [-0.1, 0.2], [-0.3, 0.35], [-0.15, 0.52]])
                    .line(&[[0.15, 0.05], [0.3, 0.2], [0.1, 0.35], [0.25, 0.52]]);
            }
            Self::Narrows => {
                pen.line(&[[-0.4, 0.5], [-0.4, 0.1], [-0.15, -0.15], [-0.15, -0.5]])
                    .line(&[[0.4, 0.5], [0.4, 0.1], [0.15, -0.15], [0.15, -0.5]]);
            }
            Self::Signals => {
                pen.dot([0.0, -0.36], 0.17)
                    .dot([0.0, 0.06], 0.17)
                    .dot([0.0, 0.46], 0.17);
            }
            Self::Snowflake => snowflake_strokes(pen),
            Self::Cross => {
                pen.width = 0.11;
                pen.line(&[[-0.4, -0.3], [0.4, 0.5]])
                    .line(&[[-0.4, 0.5], [0.4, -0.3]]);
            }
            _ => unreachable!("drawn elsewhere"),
        }
    }
}

fn number_strokes(pen: &mut Pen, number: u16) {
    if number < 100 {
        pen.width = 0.09;
        pen.digit(number / 10, -0.3, [0.2, 0.4]);
        pen.digit(number % 10, 0.3, [0.2, 0.4]);
    } else {
        pen.width = 0.075;
        pen.digit(number / 100, -0.47, [0.14, 0.36]);
        pen.digit(number / 10 % 10, -0.04, [0.15, 0.36]);
        pen.digit(number % 10, 0.44, [0.15, 0.36]);
    }
}

fn bend_strokes(pen: &mut Pen, side: f32) {
    pen.line(&[
        [0.22 * side, 0.5],
        [0.22 * side, 0.1],
        [-0.15 * side, -0.2],
        [-0.15 * side, -0.5],
    ])
    .head([-0.15 * side, -0.52], [-0.25 * side, -0.97], 0.18);
}

fn snowflake_strokes(pen: &mut Pen) {
    pen.width = 0.055;
    for arm in 0..3 {
        let (sin, cos) = (arm as f32 * std::f32::consts::PI / 3.0).sin_cos();
        pen.line(&[[-0.5 * cos, 0.1 - 0.5 * sin], [0.5 * cos, 0.1 + 0.5 * sin]]);
        for side in [-1.0, 1.0] {
            let tip = [side * 0.3 * cos, 0.1 + side * 0.3 * sin];
            pen.head(tip, [-side * cos, -side * sin], 0.14);
        }
    }
}
