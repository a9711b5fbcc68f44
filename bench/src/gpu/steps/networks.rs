//! The networks that steps measure: those of the papers, with drawn weights; tiny ones where everything is tiny.

use punctual_conformance::networks;
use punctual_model::Network;
use punctual_roofline::structures::Structure;

use super::super::step::Session;

/// The structures, for images of `side` pixels; in first light the first alone; a small one instead where everything is tiny.
pub fn of(session: &Session<'_>, structures: &[Structure], side: u32) -> Vec<Network> {
    if session.quick {
        return vec![networks::residual(1)];
    }
    let count = if session.brief { 1 } else { structures.len() };
    structures[..count]
        .iter()
        .map(|structure| structure.network(side, 1))
        .collect()
}
