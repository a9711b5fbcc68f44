//! One page of HTML with everything in it: no other file, no network.

use punctual_report::{Colour, Figure, Lines, Mark, Text};
use punctual_simulator::scenario::Scenario;
use serde::Serialize;

use super::comparison::{MEANING, comparison};
use super::gantt::{Bar, Record};
use super::lending::{Home, Lending};
use super::merged::Merged;
use super::plots::{self, REST};
use super::row::Row;

#[derive(Clone, Debug, Default)]
pub struct Page {
    pub title: String,
    /// What the workload is and where its figures come from.
    pub about: String,
    /// The command that makes the page.
    pub command: String,
    pub rows: Vec<Row>,
    /// All policies at each load, in the order in which they occur in `rows`.
    pub loads: Vec<AtLoad>,
    pub charts: Vec<Chart>,
}

#[derive(Clone, Debug)]
pub struct AtLoad {
    pub load: f64,
    /// One a policy, all seeds together.
    pub policies: Vec<Merged>,
}

/// What ran where and when.
#[derive(Clone, Debug, Serialize)]
pub struct Chart {
    #[serde(skip)]
    pub title: String,
    pub units: u16,
    pub tasks: Vec<String>,
    pub bars: Vec<Bar>,
    /// None without places.
    #[serde(skip)]
    pub lending: Option<Lending>,
}

#[must_use]
pub fn chart(title: String, scenario: &Scenario, record: &Record) -> Chart {
    Chart {
        title,
        units: scenario.board.units,
        tasks: scenario
            .tasks
            .iter()
            .map(|task| task.name.clone())
            .collect(),
        bars: record.bars.clone(),
        lending: record.lending.clone(),
    }
}

#[must_use]
pub fn page(content: &Page) -> String {
    let mut page = punctual_report::Page::new(&content.title);
    page.paragraph(&content.about);
    page.paragraph(Text::soft(
        "Simulated in virtual time; the same runs again:",
    ));
    page.command(&content.command);
    page.heading("What became of the requests");
    page.list(MEANING);
    let outcomes = outcomes(content);
    page.key(outcomes.iter().map(|(name, mark)| (name.as_str(), *mark)));
    page.figures(content.loads.iter().map(became));
    page.heading("Load, accuracy, latency");
    page.paragraph(Text::soft(
        "A request is missed if it was not answered on time. Latency counts from the intended submission.",
    ));
    let policies = plots::policies(&content.rows).into_iter().enumerate();
    page.key(policies.map(|(position, name)| (name, Mark::Series(position))));
    page.figures(figures(content));
    page.heading("All figures");
    page.table(&comparison(&content.rows));
    if !content.charts.is_empty() {
        page.heading("What ran where");
        page.paragraph(Text::soft(
            "A bar is a stage on its compute units (from top to bottom). Wheel or + and -: zoom; drag or \
             arrow keys: move; double click or 0: all.",
        ));
        content
            .charts
            .iter()
            .for_each(|chart| gantt(&mut page, chart));
    }
    page.script(punctual_report::VIEWPORT);
    page.script(include_str!("gantt.js"));
    page.html()
}

/// With a single load, bars and table say what lines would.
fn figures(content: &Page) -> Vec<Figure> {
    let mut lines = Vec::new();
    if content.loads.len() > 1 {
        lines.push(plots::misses_against_load(&content.rows));
        lines.push(plots::untold_against_load(&content.rows));
        lines.push(plots::accuracy_against_misses(&content.rows));
    }
    lines.extend(content.loads.iter().map(|AtLoad { load, policies }| Lines {
        title: format!("Latencies at load {load}"),
        ..plots::latency_cdf(policies)
    }));
    let figure = |lines: Lines| Figure::new(&lines.title, lines.svg());
    lines.into_iter().map(figure).collect()
}

fn became(AtLoad { load, policies }: &AtLoad) -> Figure {
    Figure::new(&format!("At load {load}"), plots::what_became(policies))
}

/// The legend of requests' outcomes.
fn outcomes(content: &Page) -> Vec<(String, Mark)> {
    let merged = content.loads.iter().flat_map(|at| &at.policies);
    let exits = merged.map(|m| m.summary.exits.len()).max().unwrap_or(0);
    let colour = |exit| Mark::Box(Colour::of_exit(exit, exits));
    let exits = (0..exits).map(|exit| (format!("exit {exit}"), colour(exit)));
    let rest = REST.iter();
    let rest = rest.map(|(name, colour)| ((*name).to_owned(), Mark::Box(*colour)));
    exits.chain(rest).collect()
}

fn gantt(page: &mut punctual_report::Page, chart: &Chart) {
    page.subheading(&chart.title);
    if chart.bars.is_empty() {
        page.paragraph("Nothing ran.");
        return;
    }
    #[derive(Serialize)]
    struct Data<'c> {
        #[serde(flatten)]
        chart: &'c Chart,
        colours: Vec<String>,
        /// Empty without places.
        homes: &'c [Home],
    }
    let tasks = chart.tasks.iter().enumerate();
    let tasks = tasks.map(|(task, name)| (name.as_str(), Mark::Box(Colour::of(task))));
    let borrowed = ("on units of another home", Mark::Hatched);
    page.key(tasks.chain(chart.lending.as_ref().map(|_| borrowed)));
    let colours = (0..chart.tasks.len()).map(|task| Colour::of(task).to_string());
    let colours = colours.collect();
    let homes = chart
        .lending
        .as_ref()
        .map_or(&[][..], |lending| &lending.homes);
    let data = Data {
        chart,
        colours,
        homes,
    };
    let data = serde_json::to_string(&data).expect("plain data");
    page.widget("gantt", &data);
    if let Some(lending) = &chart.lending {
        tables(page, chart, lending);
    }
}

/// Who lent what to whom, of the whole run.
fn tables(page: &mut punctual_report::Page, chart: &Chart, lending: &Lending) {
    page.paragraph(Text::soft(
        "The home of a task is the partition that the plan assigns to it; the strip beside the rows shows homes. A \
         stage runs at home, on a cell of it, or on units of which at least one is another home's (borrowed). Stages \
         that came to their end, of the whole run:",
    ));
    page.table(&lending.by_home(&chart.tasks));
    if lending.usage.loans.is_empty() {
        page.paragraph("No home lent anything to another.");
    } else {
        page.table(&lending.by_pair());
    }
    page.paragraph(Text::soft(
        "Stages by the number of compute units that ran them, counted for each request of their batch:",
    ));
    page.table(&lending.by_width(&chart.tasks));
}
