//! A small histogram of latencies, both axes logarithmic: tails are what matters.

use punctual_report::{Anchor, Colour, Drawing, Style, Svg};

use crate::outcome::Pictured;

const WIDTH: f64 = 440.0;
const HEIGHT: f64 = 110.0;
/// Room below for the scale's words.
const FOOT: f64 = 16.0;

pub fn caption(pictured: &Pictured) -> String {
    let q = &pictured.latencies;
    let ms = |us: u64| us as f64 / 1000.0;
    format!(
        "{}: {} values, p50 {:.2}, p99 {:.2}, p99.9 {:.2}, max {:.2} ms",
        pictured.name,
        q.count,
        ms(q.p50),
        ms(q.p99),
        ms(q.p999),
        ms(q.max)
    )
}

/// One picture; none without values.
pub fn histogram(pictured: &Pictured) -> Option<Svg> {
    let buckets = &pictured.latencies.buckets;
    let (first, last) = (buckets.first()?, buckets.last()?);
    let low = (first[0].max(1) as f64 / 1.25).ln();
    let high = (last[0].max(2) as f64).ln();
    let most = buckets.iter().map(|[_, count]| *count).max().unwrap_or(1) as f64;
    let place = |us: f64| (us.max(1.0).ln() - low) / (high - low).max(1e-9) * WIDTH;
    let label = format!("latencies of {}", pictured.name);
    let mut drawing = Drawing::new(WIDTH, HEIGHT + FOOT, &label);
    for [edge, count] in buckets {
        let (left, right) = (place(*edge as f64 / 1.25), place(*edge as f64));
        // One value is still seen.
        let height = ((*count as f64).ln_1p() / most.ln_1p() * HEIGHT).max(2.0);
        let width = (right - left - 0.5).max(0.5);
        let style = Style {
            fill: &Colour::of(0).to_string(),
            title: &format!("{count} up to {edge} us"),
            ..Style::default()
        };
        drawing.rect((left, HEIGHT - height), (width, height), &style);
    }
    let foot = HEIGHT + FOOT - 3.0;
    let (l, h) = (low.exp() / 1000.0, last[0] as f64 / 1000.0);
    drawing.text((0.0, foot), Anchor::Start, &format!("{l:.2} ms"));
    drawing.text((WIDTH, foot), Anchor::End, &format!("{h:.2} ms"));
    Some(drawing.svg())
}
