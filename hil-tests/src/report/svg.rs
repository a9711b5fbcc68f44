//! A small histogram of latencies, both axes logarithmic: tails are what matters.

use std::fmt::Write as _;

use super::escaped;
use crate::outcome::Pictured;

const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 90.0;
/// Room below for the scale's words.
const FOOT: f64 = 16.0;

/// One picture; empty without values.
pub fn histogram(pictured: &Pictured) -> String {
    let buckets = &pictured.latencies.buckets;
    let (Some(first), Some(last)) = (buckets.first(), buckets.last()) else {
        return String::new();
    };
    let low = (first[0].max(1) as f64 / 1.25).ln();
    let high = (last[0].max(2) as f64).ln();
    let most = buckets.iter().map(|[_, count]| *count).max().unwrap_or(1) as f64;
    let place = |us: f64| (us.max(1.0).ln() - low) / (high - low).max(1e-9) * WIDTH;
    let name = escaped(&pictured.name);
    let mut text = format!(
        "<figure><svg viewBox=\"0 0 {WIDTH} {}\" width=\"{WIDTH}\" role=\"img\" aria-label=\"latencies of {name}\">",
        HEIGHT + FOOT
    );
    for [edge, count] in buckets {
        let (left, right) = (place(*edge as f64 / 1.25), place(*edge as f64));
        // One value is still seen.
        let height = ((*count as f64).ln_1p() / most.ln_1p() * HEIGHT).max(2.0);
        write!(
            text,
            "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\"><title>{count} up to {edge} us</title></rect>",
            HEIGHT - height,
            (right - left - 0.5).max(0.5),
        )
        .expect("text grows");
    }
    let foot = HEIGHT + FOOT - 3.0;
    let (l, h) = (low.exp() / 1000.0, last[0] as f64 / 1000.0);
    write!(
        text,
        "<text x=\"0\" y=\"{foot}\">{l:.2} ms</text><text x=\"{WIDTH}\" y=\"{foot}\" text-anchor=\"end\">{h:.2} ms</text></svg>"
    )
    .expect("text grows");
    let q = &pictured.latencies;
    let ms = |us: u64| us as f64 / 1000.0;
    write!(
        text,
        "<figcaption>{name}: {} values, p50 {:.2}, p99 {:.2}, p99.9 {:.2}, max {:.2} ms</figcaption></figure>",
        q.count, ms(q.p50), ms(q.p99), ms(q.p999), ms(q.max)
    )
    .expect("text grows");
    text
}
