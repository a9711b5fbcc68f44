//! What a campaign found, as a table or as JSON.

use std::cmp::Reverse;
use std::fmt::Write;

use punctual_report::Table;
use serde_json::{Value, json};

use crate::Arguments;
use crate::campaign::Tally;

/// Most reasons for refusals that are listed.
const REASONS: usize = 12;

/// Reasons for refusals, the most frequent first.
fn reasons(tally: &Tally) -> Vec<(&str, u64)> {
    let all = tally.refused.iter();
    let mut reasons: Vec<(&str, u64)> = all
        .map(|(reason, count)| (reason.as_str(), *count))
        .collect();
    reasons.sort_by_key(|(_, count)| Reverse(*count));
    reasons
}

pub fn text(arguments: &Arguments, tally: &Tally) -> String {
    let mut text = String::new();
    let seconds = tally.elapsed.as_secs_f64();
    let last = arguments
        .seeds
        .first
        .wrapping_add(tally.networks.saturating_sub(1));
    let share = 100.0 * tally.refusals() as f64 / tally.networks.max(1) as f64;
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "{} networks (seeds {} to {last}) of {} operators in {seconds:.1} s; refused {} ({share:.1}%), failed {}\n",
        tally.networks,
        arguments.seeds.first,
        tally.operators,
        tally.refusals(),
        tally.failed
    );
    let mut table = Table::new(&["engine", "agreed", "wrong", "values", "undecided"], 1);
    for (engine, on) in &tally.engines {
        let counts = [on.agreed, on.wrong, on.values, on.undecided];
        let [agreed, wrong, values, undecided] = counts.map(|count| count.to_string());
        table.row([engine.to_string(), agreed, wrong, values, undecided]);
    }
    let _ = writeln!(text, "{table}");
    for (seed, what) in &tally.broken {
        let _ = writeln!(text, "seed {seed}: {what}");
    }
    let reasons = reasons(tally);
    for (reason, count) in reasons.iter().take(REASONS) {
        let _ = writeln!(text, "{count:6} refused: {reason}");
    }
    if reasons.len() > REASONS {
        let _ = writeln!(text, "       and {} reasons more", reasons.len() - REASONS);
    }
    text
}

pub fn json(arguments: &Arguments, tally: &Tally) -> Value {
    let engines = tally.engines.iter().map(|(engine, on)| {
        json!({
            "engine": engine.name(),
            "agreed": on.agreed,
            "wrong": on.wrong,
            "values": on.values,
            "undecided": on.undecided,
        })
    });
    let refused = reasons(tally).into_iter();
    let refused = refused.map(|(reason, count)| json!({"reason": reason, "networks": count}));
    json!({
        "first": arguments.seeds.first,
        "networks": tally.networks,
        "operators": tally.operators,
        "seconds": tally.elapsed.as_secs_f64(),
        "failed": tally.failed,
        "engines": engines.collect::<Vec<_>>(),
        "refused": refused.collect::<Vec<_>>(),
        "broken": tally.broken,
    })
}
