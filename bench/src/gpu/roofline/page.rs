//! The predictions as `docs/results/gpu-predictions.md`.

use std::fmt::Write as _;

use punctual_report::{Column, Table};

use super::predictions::{Figures, Predicted, Predictions, Subject};

/// In Markdown: what stands before the tables is in `page.md`.
pub fn page(predictions: &Predictions) -> String {
    let mut text = include_str!("page.md").to_owned();
    heading(&mut text, "Whole networks, all TPCs");
    text.push_str(
        "All stages one after the other. *Looks* is what looking at the epoch adds; *at least* is the sum of the stages' bounds.\n\n",
    );
    text.push_str(&whole(predictions).markdown());
    for network in &predictions.networks {
        let Subject {
            name, about, input, ..
        } = network;
        heading(&mut text, &format!("{name}: {about}, {input}"));
        text.push_str("Microseconds, and what limits most of the stage.\n\n");
        text.push_str(&by_stage(predictions, network).markdown());
    }
    heading(&mut text, "The devices");
    text.push_str(
        "Figures of a multiprocessor where nothing else is said. Those in *italics* are inferred: assumptions of ours. The file is \
         `bench/src/gpu/roofline/devices.toml`.\n\n",
    );
    text.push_str(&figures(predictions).markdown());
    text.push('\n');
    for source in &predictions.sources {
        let _ = writeln!(text, "- `{}`: {}.", source.name, source.text);
    }
    text.push_str("- `recalled`: written down from memory, not confirmed.\n");
    text
}

fn heading(text: &mut String, heading: &str) {
    let _ = write!(text, "\n## {heading}\n\n");
}

/// The first word or two of a device's name tell it from the others.
fn short(figures: &Figures) -> &str {
    let name = figures.device.split(',').next().unwrap_or_default();
    name.strip_prefix("Jetson ").unwrap_or(name)
}

fn whole(predictions: &Predictions) -> Table {
    let mut table = Table::new(
        &[
            "device",
            "network",
            "batch",
            "us",
            "images/s",
            "looks",
            "at least, us",
        ],
        2,
    );
    for device in &predictions.devices {
        for network in &predictions.networks {
            for batch in batches(predictions) {
                let stages = predictions.stages.iter().filter(|predicted| {
                    predicted.device == device.device
                        && predicted.tpcs == device.tpcs
                        && predicted.network == network.name
                        && predicted.batch == batch
                });
                let sum = |of: fn(&Predicted) -> f64| stages.clone().map(of).sum::<f64>();
                let (us, blind) = (sum(|p| p.us), sum(|p| p.without_looks_us));
                table.row([
                    short(device).to_owned(),
                    network.name.clone(),
                    batch.to_string(),
                    format!("{us:.0}"),
                    format!("{:.0}", f64::from(batch) * 1e6 / us),
                    format!("{:.0}%", 100.0 * (us / blind - 1.0)),
                    format!("{:.0}", sum(|p| p.at_least_us)),
                ]);
            }
        }
    }
    table
}

fn batches(predictions: &Predictions) -> Vec<u8> {
    let mut batches: Vec<u8> = predictions.stages.iter().map(|p| p.batch).collect();
    batches.sort_unstable();
    batches.dedup();
    batches
}

/// A row a stage and batch, a column a device and number of TPCs.
fn by_stage(predictions: &Predictions, network: &Subject) -> Table {
    let places = predictions
        .devices
        .iter()
        .flat_map(|device| [device.tpcs, device.tpcs / 2].map(|tpcs| (device, tpcs)));
    let head = ["stage", "batch"].map(Column::number).into_iter();
    let mut table = Table::of(
        head.chain(
            places
                .clone()
                .map(|(device, tpcs)| Column::words(&format!("{}, {tpcs} TPCs", short(device)))),
        ),
    );
    for stage in 0..network.stages {
        for batch in batches(predictions) {
            let cell = |(device, tpcs): (&Figures, u32)| {
                let found = predictions.stages.iter().find(|predicted| {
                    predicted.network == network.name
                        && predicted.stage == stage
                        && predicted.batch == batch
                        && predicted.device == device.device
                        && predicted.tpcs == tpcs
                });
                let found = found.expect("every stage is predicted");
                format!("{:.0} {}", found.us, found.limit)
            };
            let key = [stage.to_string(), batch.to_string()].into_iter();
            table.row(key.chain(places.clone().map(cell)));
        }
    }
    table
}

fn figures(predictions: &Predictions) -> Table {
    let head = std::iter::once("figure").chain(predictions.devices.iter().map(short));
    let mut table = Table::of(head.map(Column::words));
    let first = predictions.devices.first().map(|device| &device.facts);
    for (at, fact) in first.into_iter().flatten().enumerate() {
        let cell = |device: &Figures| {
            let fact = &device.facts[at];
            let value = if fact.inferred {
                format!("*{}*", fact.value)
            } else {
                fact.value.clone()
            };
            format!("{value} (`{}`)", fact.source)
        };
        let what = std::iter::once(fact.what.to_owned());
        table.row(what.chain(predictions.devices.iter().map(cell)));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::predictions;
    use super::*;

    /// When this fails because kernels, lowering or figures changed on purpose:
    /// `cargo run -p punctual-bench -- gpu --predict > docs/results/gpu-predictions.md`.
    #[test]
    fn the_page_of_the_tree_is_what_is_printed_today() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../docs/results/gpu-predictions.md"
        );
        let committed = std::fs::read_to_string(path).expect("the page is in the tree");
        let today = page(&predictions::all().expect("predictions"));
        let both = committed.lines().zip(today.lines());
        for (number, (committed, today)) in both.enumerate() {
            assert_eq!(committed, today, "line {} of {path}", number + 1);
        }
        assert_eq!(committed.lines().count(), today.lines().count());
    }
}
