//! Which compute units are busy while stages are measured on some of them.

use super::Request;

/// The groups of units that a place of `units` units leaves of partitions of these sizes: it lies in the smallest partition
/// that has room for it, or else takes whole partitions, the largest first. Each group runs one stage at a time.
pub(super) fn left_by(units: u8, partitions: &[u8]) -> Vec<u8> {
    let mut left = partitions.to_vec();
    let with_room = left.iter_mut().filter(|size| **size >= units);
    if let Some(home) = with_room.min() {
        *home -= units;
    } else {
        left.sort_unstable_by(|a, b| b.cmp(a));
        let mut missing = units;
        for size in &mut left {
            let taken = missing.min(*size);
            *size -= taken;
            missing -= taken;
        }
    }
    left.retain(|size| *size > 0);
    left
}

/// How often partitions are measured: each alone, and each that has neighbours once more with them.
pub(super) fn passes(request: &Request) -> usize {
    let has_neighbours = |units: &&u8| !left_by(**units, &request.beside).is_empty();
    request.units.len() + request.units.iter().filter(has_neighbours).count()
}

#[cfg(test)]
mod tests {
    use super::left_by;

    #[test]
    fn a_place_leaves_the_rest_of_its_home_and_all_other_partitions() {
        assert_eq!(left_by(1, &[1, 1]), [1]);
        assert_eq!(left_by(1, &[4, 2]), [4, 1]);
        assert_eq!(left_by(2, &[4, 2]), [4]);
        assert_eq!(left_by(3, &[4, 2]), [1, 2]);
    }

    #[test]
    fn a_place_wider_than_any_home_takes_whole_homes() {
        assert_eq!(left_by(5, &[2, 4]), [1]);
        assert_eq!(left_by(2, &[1, 1]), [0; 0]);
    }

    #[test]
    fn nothing_is_left_by_as_many_units_as_there_are_or_more() {
        assert_eq!(left_by(6, &[4, 2]), [0; 0]);
        assert_eq!(left_by(9, &[4, 2]), [0; 0]);
        assert_eq!(left_by(1, &[]), [0; 0]);
    }
}
