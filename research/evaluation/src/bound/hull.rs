//! The upper concave hull of a request's answers.

use super::Answer;

/// Segments (work in nanoseconds, value) by falling value per work, from no work and no value to
/// the best answer. Only the first can have no work.
pub(super) fn segments(answers: &[Answer]) -> Vec<(u64, f64)> {
    let mut points: Vec<(u64, f64)> = answers
        .iter()
        .filter(|answer| answer.value > 0.0)
        .map(|answer| (answer.work.as_nanos(), answer.value))
        .collect();
    // Of equal work the best first, so that the others fall under it.
    points.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
    let mut corners = vec![(0, 0.0)];
    for point in points {
        if corners.last().is_some_and(|last| point.1 <= last.1) {
            continue;
        }
        while corners.len() > 1
            && below(
                corners[corners.len() - 1],
                corners[corners.len() - 2],
                point,
            )
        {
            corners.pop();
        }
        corners.push(point);
    }
    corners
        .windows(2)
        .map(|pair| (pair[1].0 - pair[0].0, pair[1].1 - pair[0].1))
        .collect()
}

/// Whether `corner` is not above the line from `from` to `to`.
fn below(corner: (u64, f64), from: (u64, f64), to: (u64, f64)) -> bool {
    let rise = |a: (u64, f64), b: (u64, f64)| b.1 - a.1;
    let run = |a: (u64, f64), b: (u64, f64)| (b.0 - a.0) as f64;
    rise(from, corner) * run(corner, to) <= rise(corner, to) * run(from, corner)
}
