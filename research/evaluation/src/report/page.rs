//! One page of HTML with everything in it: no other file, no network.

use punctual_report::{Colour, Figure, Lines, Mark, Text};
use punctual_simulator::scenario::Scenario;
use serde::Serialize;

use super::comparison::comparison;
use super::gantt::Bar;
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
}

#[must_use]
pub fn chart(title: String, scenario: &Scenario, bars: &[Bar]) -> Chart {
    Chart {
        title,
        units: scenario.board.units,
        tasks: scenario
            .tasks
            .iter()
            .map(|task| task.name.clone())
            .collect(),
        bars: bars.to_vec(),
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
    page.paragraph(Text::soft(
        "A request is missed if it was late, rejected, failed or lost. Latency counts from the \
         intended submission.",
    ));
    let policies = plots::policies(&content.rows).into_iter().enumerate();
    page.key(policies.map(|(position, name)| (name, Mark::Series(position))));
    page.figures(figures(content));
    let outcomes = outcomes(content);
    page.key(outcomes.iter().map(|(name, mark)| (name.as_str(), *mark)));
    page.heading("Figures");
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
    page.script(include_str!("gantt.js"));
    page.html()
}

fn figures(content: &Page) -> Vec<Figure> {
    let lines = |lines: Lines| Figure::new(&lines.title, lines.svg());
    let mut figures = vec![
        lines(plots::misses_against_load(&content.rows)),
        lines(plots::accuracy_against_misses(&content.rows)),
    ];
    for AtLoad { load, policies } in &content.loads {
        let title = format!("Latencies at load {load}");
        figures.push(Figure::new(&title, plots::latency_cdf(policies).svg()));
    }
    for AtLoad { load, policies } in &content.loads {
        let title = format!("What became of the requests at load {load}");
        figures.push(Figure::new(&title, plots::what_became(policies)));
    }
    figures
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
    }
    let tasks = chart.tasks.iter().enumerate();
    page.key(tasks.map(|(task, name)| (name.as_str(), Mark::Box(Colour::of(task)))));
    let colours = (0..chart.tasks.len()).map(|task| Colour::of(task).to_string());
    let colours = colours.collect();
    let data = serde_json::to_string(&Data { chart, colours }).expect("plain data");
    page.widget("gantt", &data);
}
