//! `mma.sync.m16n8k16` with halves in and float sums: the layout of its fragments (PTX ISA 8.5, section 9.7.14.5.8), and two
//! ways to add.

use crate::float::{Arithmetic, from_half};

/// 32 lanes of a register.
type Words = [u32; 32];

const ROWS: usize = 16;
const COLUMNS: usize = 8;
const DEPTH: usize = 16;

/// Element of a pair of halves.
#[inline(always)]
fn half(word: u32, high: usize) -> f32 {
    from_half(word >> (16 * high) & 0xffff)
}

/// Row and column of what register `register` of lane `lane` holds of A: a pair that begins there.
const fn place_a(register: usize, lane: usize) -> (usize, usize) {
    (
        lane / 4 + 8 * (register % 2),
        2 * (lane % 4) + 8 * (register / 2),
    )
}

#[inline(always)]
pub(crate) fn multiply_add(
    a: [&Words; 4],
    b: [&Words; 2],
    c: [&Words; 4],
    arithmetic: Arithmetic,
) -> [Words; 4] {
    let mut rows = [[0f32; DEPTH]; ROWS];
    // By step, so that eight columns are added at once.
    let mut steps = [[0f32; COLUMNS]; DEPTH];
    for lane in 0..32 {
        for (register, words) in a.iter().enumerate() {
            let (row, column) = place_a(register, lane);
            rows[row][column] = half(words[lane], 0);
            rows[row][column + 1] = half(words[lane], 1);
        }
        for (register, words) in b.iter().enumerate() {
            let step = 2 * (lane % 4) + 8 * register;
            steps[step][lane / 4] = half(words[lane], 0);
            steps[step + 1][lane / 4] = half(words[lane], 1);
        }
    }
    let mut sums = [[0f32; COLUMNS]; ROWS];
    for lane in 0..32 {
        for (register, words) in c.iter().enumerate() {
            sums[lane / 4 + 8 * (register / 2)][2 * (lane % 4) + register % 2] =
                f32::from_bits(words[lane]);
        }
    }
    for (row, sums) in rows.iter().zip(&mut sums) {
        match arithmetic {
            Arithmetic::Exact => {
                for (value, step) in row.iter().zip(&steps) {
                    for (sum, other) in sums.iter_mut().zip(step) {
                        *sum += value * other;
                    }
                }
            }
            Arithmetic::Coarse => {
                for (column, sum) in sums.iter_mut().enumerate() {
                    *sum = cut_sum(*sum, row, &steps, column);
                }
            }
        }
    }
    let mut to = [[0u32; 32]; 4];
    for lane in 0..32 {
        for (register, words) in to.iter_mut().enumerate() {
            let sum = sums[lane / 4 + 8 * (register / 2)][2 * (lane % 4) + register % 2];
            words[lane] = sum.to_bits();
        }
    }
    to
}

/// Products are exact; all eight of a step of hardware and the sum so far are cut to the precision of the largest before
/// they are added, as measured on tensor cores (Fasi et al., "Numerical behavior of NVIDIA tensor cores", 2021).
fn cut_sum(sum: f32, row: &[f32; DEPTH], steps: &[[f32; COLUMNS]; DEPTH], column: usize) -> f32 {
    let mut sum = f64::from(sum);
    for first in [0, DEPTH / 2] {
        let mut terms = [0f64; DEPTH / 2 + 1];
        terms[0] = sum;
        for i in 0..DEPTH / 2 {
            terms[i + 1] = f64::from(row[first + i]) * f64::from(steps[first + i][column]);
        }
        let largest = terms.iter().fold(0f64, |most, term| most.max(term.abs()));
        if !largest.is_finite() || largest == 0.0 {
            sum = terms.iter().sum();
            continue;
        }
        let exponent = (largest.to_bits() >> 52) as i32 - 1023;
        // 24 bits below the leading one are kept.
        let unit = (f64::from(exponent) - 24.0).exp2();
        let cut: f64 = terms.iter().map(|term| (term / unit).trunc() * unit).sum();
        // To a float towards zero.
        let near = cut as f32;
        let beyond = f64::from(near).abs() > cut.abs();
        sum = f64::from(match (beyond, near > 0.0) {
            (true, true) => near.next_down(),
            (true, false) => near.next_up(),
            _ => near,
        });
    }
    sum as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::float::to_half;

    fn product(
        arithmetic: Arithmetic,
    ) -> ([[f32; DEPTH]; ROWS], [[f32; COLUMNS]; DEPTH], [Words; 4]) {
        let value = |i: usize| ((i * 37 % 23) as f32 - 11.0) / 8.0;
        let (mut a, mut b) = ([[0u32; 32]; 4], [[0u32; 32]; 2]);
        let (mut left, mut right) = ([[0f32; DEPTH]; ROWS], [[0f32; COLUMNS]; DEPTH]);
        for (i, row) in left.iter_mut().enumerate() {
            for (j, element) in row.iter_mut().enumerate() {
                *element = value(16 * i + j);
            }
        }
        for (i, row) in right.iter_mut().enumerate() {
            for (j, element) in row.iter_mut().enumerate() {
                *element = value(1000 + 8 * i + j);
            }
        }
        let pair = |low, high| to_half(low) | to_half(high) << 16;
        for lane in 0..32 {
            let (group, quarter) = (lane / 4, lane % 4);
            for (register, words) in a.iter_mut().enumerate() {
                let row = &left[group + 8 * (register & 1)];
                let column = 2 * quarter + 8 * (register >> 1);
                words[lane] = pair(row[column], row[column + 1]);
            }
            for (register, words) in b.iter_mut().enumerate() {
                let step = 2 * quarter + 8 * register;
                words[lane] = pair(right[step][group], right[step + 1][group]);
            }
        }
        let c = [[1f32.to_bits(); 32]; 4];
        let [c0, c1, c2, c3] = &c;
        let [a0, a1, a2, a3] = &a;
        let sums = multiply_add(
            [a0, a1, a2, a3],
            [&b[0], &b[1]],
            [c0, c1, c2, c3],
            arithmetic,
        );
        (left, right, sums)
    }

    #[test]
    fn a_product_of_fragments_is_the_product_of_their_matrices() {
        for arithmetic in [Arithmetic::Exact, Arithmetic::Coarse] {
            let (left, right, sums) = product(arithmetic);
            for lane in 0..32 {
                for (register, words) in sums.iter().enumerate() {
                    let (row, column) = (
                        lane / 4 + 8 * (register >> 1),
                        2 * (lane % 4) + (register & 1),
                    );
                    let exact: f32 = (0..DEPTH).map(|k| left[row][k] * right[k][column]).sum();
                    // Small multiples of 1/64: no sum rounds.
                    assert_eq!(f32::from_bits(words[lane]), exact + 1.0, "{arithmetic:?}");
                }
            }
        }
    }

    #[test]
    fn a_coarse_sum_drops_what_is_too_small_beside_the_largest_term() {
        let (mut row, mut steps) = ([0f32; DEPTH], [[0f32; COLUMNS]; DEPTH]);
        row[0] = 1.0;
        steps[0][0] = 2f32.powi(-14);
        row[1] = 2f32.powi(-14);
        steps[1][0] = -1.0;
        assert_eq!(cut_sum(4096.0, &row, &steps, 0), 4096.0);
        assert_eq!(cut_sum(0.0, &row, &steps, 0), 0.0);
    }
}
