//! Images of other rows and columns.

use punctual_types::{Between, Extent, Filter, Resampling};
use serde::{Deserialize, Serialize};

use super::meaning::{Meaning, Operands, Site, check_figure};
use crate::reference::noise::{Form, Rounding, typical};
use crate::reference::{Operation, Planar};
use crate::{OperatorError, ShapeError, Tensor};

/// The image with other rows and columns. Bytes are moved as they are: the nearest ones, never blended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resize {
    pub resampling: Resampling,
}

impl Meaning for Resize {
    fn label(&self, _input: Tensor) -> String {
        let label = match self.resampling.filter {
            Filter::Nearest(_) => "nearest resize",
            Filter::Linear => "linear resize",
        };
        label.to_owned()
    }

    fn shape(&self, of: &Operands<'_>) -> Result<Tensor, ShapeError> {
        of.no_others()?;
        let Extent { height, width } = self.resampling.size;
        Ok(Tensor {
            height,
            width,
            ..of.input
        })
    }

    fn check(&self, site: Site<'_>) -> Result<(), OperatorError> {
        match self.resampling.filter {
            Filter::Nearest(_) => site.moves()?,
            Filter::Linear => site.has_floats()?,
        }
        let mut scales = self.resampling.scale.into_iter();
        match scales.find(|scale| !scale.is_normal() || *scale < 0.0) {
            Some(scale) => check_figure("scale", scale, false),
            None => Ok(()),
        }
    }

    fn run(&self, of: &Operation<'_>) -> Vec<f32> {
        let input = of.input();
        (0..input.shape.channels)
            .flat_map(|channel| self.resampled(input, channel))
            .collect()
    }

    fn rounding(&self, of: &Operation<'_>, _result: &[f32]) -> Rounding {
        match self.resampling.filter {
            Filter::Nearest(_) => Rounding::exact(),
            Filter::Linear => Rounding::of_all(Form::Average, 4, typical(of.input().data)),
        }
    }
}

impl Resize {
    fn resampled(&self, input: Planar, channel: u32) -> Vec<f32> {
        let (height, width) = (input.shape.height, input.shape.width);
        let pixel = |row: usize, column: usize| input.value([channel, row as u32, column as u32]);
        let mut result = Vec::new();
        match self.resampling.filter {
            Filter::Nearest(rounding) => {
                for row in self.resampling.nearest_rows(height, rounding) {
                    let columns = self.resampling.nearest_columns(width, rounding);
                    result.extend(columns.map(|column| pixel(row, column)));
                }
            }
            Filter::Linear => {
                for rows in self.resampling.linear_rows(height) {
                    result.extend(self.resampling.linear_columns(width).map(|columns| {
                        let line = |row| {
                            let values = [columns.first, columns.second];
                            blend(values.map(|at| pixel(row, at).into()), columns)
                        };
                        blend([line(rows.first), line(rows.second)], rows) as f32
                    }));
                }
            }
        }
        result
    }
}

fn blend([first, second]: [f64; 2], between: Between) -> f64 {
    let share = f64::from(between.share);
    first * (1.0 - share) + second * share
}
