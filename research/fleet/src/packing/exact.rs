//! The fewest nodes, by dynamic programming over all subsets: what the greedy algorithm is measured against.

use super::cycle::{Load, On, Session};

/// The most loads that are tried: 3^12 pairs of subsets.
pub const LOADS_MAX: usize = 12;

/// The fewest nodes of one kind that serve all `loads`, each load whole on one node, whatever their
/// duty cycles. `None` if there are more than [`LOADS_MAX`] loads, or one that no node can serve.
#[must_use]
pub fn fewest_nodes(loads: &[Load], sessions: &[Session], kind: usize) -> Option<usize> {
    if loads.len() > LOADS_MAX {
        return None;
    }
    let on = On { sessions, kind };
    let sets = 1_usize << loads.len();
    let fits: Vec<bool> = (0..sets)
        .map(|set| {
            let chosen = (0..loads.len()).filter(|index| set >> index & 1 == 1);
            let chosen: Vec<Load> = chosen.map(|index| loads[index]).collect();
            on.any(&chosen).is_some()
        })
        .collect();
    let mut fewest: Vec<Option<usize>> = vec![None; sets];
    fewest[0] = Some(0);
    for set in 1..sets {
        // The node of the set's first load: that load with any subset of the others.
        let first = set & set.wrapping_neg();
        let others = set ^ first;
        let mut part = others;
        loop {
            let node = part | first;
            if fits[node]
                && let Some(rest) = fewest[set ^ node]
                && fewest[set].is_none_or(|nodes| rest + 1 < nodes)
            {
                fewest[set] = Some(rest + 1);
            }
            if part == 0 {
                break;
            }
            part = (part - 1) & others;
        }
    }
    fewest[sets - 1]
}
