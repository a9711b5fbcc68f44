//! Charts of what becomes of a whole: a bar a group, cut into parts.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::palette::Colour;
use crate::plot::{Area, FONT, Plotted, SIZE, draw, rgb};
use crate::svg::Svg;

/// Bars below each other, each from left to right the shares of a whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shares {
    pub of: String,
    /// Of each bar: its name, and its parts in percent.
    pub groups: Vec<(String, Vec<(f64, Colour)>)>,
}

impl Shares {
    #[must_use]
    pub fn svg(&self) -> Svg {
        let height = 70 + 30 * self.groups.len() as u32;
        draw((SIZE.0, height), |area| self.draw(area))
    }

    fn draw(&self, area: &Area<'_>) -> Plotted {
        let count = self.groups.len().max(1) as f64;
        let letters = self.groups.iter().map(|(name, _)| name.chars().count());
        let longest = letters.max().unwrap_or(0) as u32;
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .margin_right(20)
            .x_label_area_size(46)
            // Most letters are narrower than half of the font.
            .y_label_area_size(longest * FONT.1 / 2 + 16)
            .build_cartesian_2d(0.0..100.0, 0.0..count)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .x_desc(format!("share of {}, %", self.of))
            .label_style(FONT)
            .x_label_formatter(&|percent| format!("{percent:.0}"))
            .axis_desc_style(FONT)
            .light_line_style(TRANSPARENT)
            .draw()?;
        for (index, (name, parts)) in self.groups.iter().enumerate() {
            let (top, bottom) = (count - index as f64 - 0.15, count - index as f64 - 0.85);
            let mut left = 0.0;
            for &(percent, colour) in parts {
                let corners = [(left, top), (left + percent, bottom)];
                chart.draw_series([Rectangle::new(corners, rgb(colour).filled())])?;
                left += percent;
            }
            let (x, y) = chart.backend_coord(&(0.0, (top + bottom) / 2.0));
            let style = TextStyle::from(FONT.into_font()).pos(Pos::new(HPos::Right, VPos::Center));
            area.draw(&Text::new(name.clone(), (x - 8, y), style))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_a_bar_and_every_group_is_named() {
        let parts = vec![(60.0, Colour::of(0)), (40.0, Colour::of(1))];
        let shares = Shares {
            of: "requests".into(),
            groups: vec![("seq".into(), parts.clone()), ("<b>".into(), parts)],
        };
        let svg = shares.svg();
        assert!(svg.as_str().contains("share of requests, %"));
        assert!(svg.as_str().contains("\nseq\n") && svg.as_str().contains("\n&lt;b&gt;\n"));
        let of_colour = |colour: Colour| {
            let fill = format!("fill=\"{}\"", colour.to_string().to_uppercase());
            svg.as_str().matches(&fill).count()
        };
        assert_eq!([of_colour(Colour::of(0)), of_colour(Colour::of(1))], [2, 2]);
    }
}
