//! Files of one operator, of a range of seeds: what came of each operator.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use punctual_networks::operators::{self, OneOperator, Outcome};
use punctual_networks::{Drawn, Engine, smallest};
use punctual_platform::output;
use punctual_report::Table;
use serde_json::{Value, json};

use crate::campaign::{CampaignError, folder, there, written};
use crate::seeds::Seeds;

/// Most reasons for refusals that are listed.
const REASONS: usize = 60;

#[derive(Args)]
pub struct SingleArguments {
    #[command(flatten)]
    seeds: Seeds,
    /// Only of these operators.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    agreed: u64,
    refused: u64,
    /// By onnxruntime.
    not_run: u64,
    wrong: u64,
}

#[derive(Default)]
struct Tally {
    operators: BTreeMap<&'static str, Counts>,
    values: u64,
    /// By reason, in which all numbers are one.
    refused: BTreeMap<String, u64>,
    not_run: BTreeMap<String, u64>,
    wrong: Vec<(u64, String)>,
}

impl Tally {
    fn add(&mut self, one: &OneOperator, outcome: Outcome) {
        let counts = self.operators.entry(one.operator).or_default();
        match outcome {
            Outcome::Agreed(values) => {
                counts.agreed += 1;
                self.values += values;
            }
            Outcome::Refused(reason) => {
                counts.refused += 1;
                let reason = without_numbers(&reason);
                let own = reason.starts_with(one.operator);
                let reason = if own {
                    reason
                } else {
                    format!("{}: {reason}", one.operator)
                };
                *self.refused.entry(reason).or_default() += 1;
            }
            Outcome::NoOnnxruntime(reason) => {
                counts.not_run += 1;
                let reason = format!("{}: {}", one.operator, without_numbers(&reason));
                *self.not_run.entry(reason).or_default() += 1;
            }
            Outcome::Wrong(what) => {
                counts.wrong += 1;
                self.wrong
                    .push((one.drawn.seed, format!("{}: {what}", one.operator)));
            }
        }
    }

    fn all(&self) -> Counts {
        let add = |all: Counts, of: &Counts| Counts {
            agreed: all.agreed + of.agreed,
            refused: all.refused + of.refused,
            not_run: all.not_run + of.not_run,
            wrong: all.wrong + of.wrong,
        };
        self.operators.values().fold(Counts::default(), add)
    }
}

/// Draws and compares the files of all seeds: what there is to say of them, and whether anything was wrong.
///
/// # Errors
/// [`CampaignError`].
pub fn run(arguments: &SingleArguments) -> Result<(String, bool), CampaignError> {
    there(Engine::Onnxruntime)?;
    folder(&arguments.seeds)?;
    let tally: Mutex<Tally> = Mutex::default();
    let lock = || tally.lock().unwrap_or_else(PoisonError::into_inner);
    let one = |seed| {
        let one = operators::one(seed);
        let is_asked_for = |name: &String| name == one.operator;
        if !arguments.only.is_empty() && !arguments.only.iter().any(is_asked_for) {
            return;
        }
        let outcome = operators::compare(&one);
        if let Outcome::Wrong(what) = &outcome {
            output::note(found(arguments, &one, what));
        }
        lock().add(&one, outcome);
    };
    let progress = || {
        let Counts {
            agreed,
            refused,
            wrong,
            ..
        } = lock().all();
        format!("{agreed} agreed, {refused} refused, {wrong} wrong")
    };
    let elapsed = arguments.seeds.each(one, progress);
    let tally = lock();
    let text = if arguments.seeds.json {
        format!("{}\n", json(&tally, elapsed))
    } else {
        text(&tally, elapsed)
    };
    Ok((text, !tally.wrong.is_empty()))
}

/// Says what is wrong with a file, and writes the smallest that is.
fn found(arguments: &SingleArguments, one: &OneOperator, what: &str) -> String {
    let (seed, operator) = (one.drawn.seed, one.operator);
    let mut said = format!(
        "seed {seed}, {operator}: {what}\n  again: cargo run --release -p punctual-networks -- operators --first {seed} --count 1"
    );
    if let Some(folder) = &arguments.seeds.out {
        let is_wrong = |drawn: &Drawn| {
            let drawn = drawn.clone();
            matches!(
                operators::compare(&OneOperator { operator, drawn }),
                Outcome::Wrong(_)
            )
        };
        said += "\n";
        said += &written(folder, &smallest(&one.drawn, is_wrong), &one.drawn);
    }
    said.trim_end().to_owned()
}

/// With `#` for each number.
fn without_numbers(reason: &str) -> String {
    let mut short = String::new();
    for letter in reason.chars() {
        match letter {
            '0'..='9' if short.ends_with('#') => {}
            '0'..='9' => short.push('#'),
            other => short.push(other),
        }
    }
    short
}

/// The most frequent first.
fn ranked(reasons: &BTreeMap<String, u64>) -> Vec<(&str, u64)> {
    let all = reasons.iter();
    let mut ranked: Vec<(&str, u64)> = all
        .map(|(reason, count)| (reason.as_str(), *count))
        .collect();
    ranked.sort_by_key(|(_, count)| Reverse(*count));
    ranked
}

fn text(tally: &Tally, elapsed: Duration) -> String {
    let mut table = Table::new(
        &[
            "operator",
            "agreed",
            "refused",
            "not in onnxruntime",
            "wrong",
        ],
        1,
    );
    let all = tally.all();
    let operators = tally.operators.iter().map(|(name, counts)| (*name, counts));
    for (name, of) in operators.chain([("all", &all)]) {
        let counts = [of.agreed, of.refused, of.not_run, of.wrong];
        let [agreed, refused, not_run, wrong] = counts.map(|count| count.to_string());
        table.row([name.to_owned(), agreed, refused, not_run, wrong]);
    }
    let mut text = format!(
        "{table}\n{} values in {:.1} s\n",
        tally.values,
        elapsed.as_secs_f64()
    );
    for (what, reasons) in [
        ("refused", &tally.refused),
        ("not in onnxruntime", &tally.not_run),
    ] {
        let reasons = ranked(reasons);
        for (reason, count) in reasons.iter().take(REASONS) {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{count:6} {what}: {reason}");
        }
        if reasons.len() > REASONS {
            let _ = writeln!(text, "       and {} reasons more", reasons.len() - REASONS);
        }
    }
    for (seed, what) in &tally.wrong {
        let _ = writeln!(text, "wrong: seed {seed}: {what}");
    }
    text
}

fn json(tally: &Tally, elapsed: Duration) -> Value {
    let operators = tally.operators.iter().map(|(name, of)| {
        json!({
            "operator": name,
            "agreed": of.agreed,
            "refused": of.refused,
            "not_in_onnxruntime": of.not_run,
            "wrong": of.wrong,
        })
    });
    json!({
        "seconds": elapsed.as_secs_f64(),
        "values": tally.values,
        "operators": operators.collect::<Vec<_>>(),
        "refused": ranked(&tally.refused),
        "not_in_onnxruntime": ranked(&tally.not_run),
        "wrong": tally.wrong,
    })
}
