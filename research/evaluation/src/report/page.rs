//! One page of HTML with everything in it: no other file, no network.

use punctual_report::palette::{colour, css, exit_colour};
use punctual_report::{document, escape, key};
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
pub fn page(page: &Page) -> String {
    let mut body = String::new();
    body.push_str(&format!(
        "<h1>{}</h1>\n<p>{}</p>\n<p class=soft>Simulated in virtual time; the same runs again: \
         <code>{}</code>. A request is <em>missed</em> if it was late, rejected, failed or lost. \
         Latency counts from the intended submission.</p>\n",
        escape(&page.title),
        escape(&page.about),
        escape(&page.command)
    ));
    body.push_str(&policy_key(&page.rows));
    body.push_str("<div class=plots>\n");
    figure(
        &mut body,
        "Misses against load",
        &plots::misses_against_load(&page.rows),
    );
    figure(
        &mut body,
        "Accuracy against misses (left and up is better)",
        &plots::accuracy_against_misses(&page.rows),
    );
    for at in &page.loads {
        let title = format!("Latencies at load {}", at.load);
        figure(&mut body, &title, &plots::latency_cdf(&at.policies));
    }
    for at in &page.loads {
        let title = format!("What became of the requests at load {}", at.load);
        figure(&mut body, &title, &plots::what_became(&at.policies));
    }
    body.push_str("</div>\n");
    body.push_str(&outcome_key(page));
    body.push_str("<h2>Figures</h2>\n");
    let figures = comparison(&page.rows).html();
    body.push_str(&format!("<div class=wide>\n{figures}</div>\n"));
    if !page.charts.is_empty() {
        body.push_str(
            "<h2>What ran where</h2>\n<p class=soft>A bar is a stage on its compute units (from top to bottom). Wheel or \
             <kbd>+</kbd> <kbd>-</kbd>: zoom; drag or arrow keys: move; double click or \
             <kbd>0</kbd>: all.</p>\n",
        );
        for chart in &page.charts {
            body.push_str(&gantt(chart));
        }
    }
    body.push_str(&format!(
        "<script>\n{}</script>\n",
        include_str!("gantt.js")
    ));
    document(&page.title, &body)
}

fn figure(body: &mut String, caption: &str, svg: &str) {
    body.push_str(&format!(
        "<figure><figcaption>{}</figcaption>\n{svg}</figure>\n",
        escape(caption)
    ));
}

fn policy_key(rows: &[Row]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.policy.as_str()) {
            names.push(&row.policy);
        }
    }
    key(names.into_iter())
}

fn outcome_key(page: &Page) -> String {
    let merged = page.loads.iter().flat_map(|at| &at.policies);
    let exits = merged.map(|m| m.summary.exits.len()).max().unwrap_or(0);
    let exits = (0..exits).map(|exit| (format!("exit {exit}"), exit_colour(exit, exits)));
    let rest = REST
        .iter()
        .map(|(name, colour)| ((*name).to_owned(), *colour));
    let items = exits.chain(rest).map(|(name, colour)| {
        let colour = css(colour);
        format!("<li><i class=box style=\"background:{colour}\"></i>{name}</li>")
    });
    format!("<ul class=key>{}</ul>\n", items.collect::<String>())
}

fn gantt(chart: &Chart) -> String {
    if chart.bars.is_empty() {
        return format!("<h3>{}</h3>\n<p>Nothing ran.</p>\n", escape(&chart.title));
    }
    #[derive(Serialize)]
    struct Data<'c> {
        #[serde(flatten)]
        chart: &'c Chart,
        colours: Vec<String>,
    }
    let colours: Vec<String> = (0..chart.tasks.len())
        .map(|task| css(colour(task)))
        .collect();
    let key = chart.tasks.iter().zip(&colours).map(|(name, colour)| {
        format!(
            "<li><i class=box style=\"background:{colour}\"></i>{}</li>",
            escape(name)
        )
    });
    let key: String = key.collect();
    let data = Data { chart, colours };
    // Inside a script element only `</` could end it.
    let data = serde_json::to_string(&data).expect("plain data");
    let data = data.replace("</", "<\\/");
    format!(
        "<h3>{}</h3>\n<ul class=key>{key}</ul>\n<div class=gantt tabindex=0>\
         <script type=\"application/json\">{data}</script></div>\n",
        escape(&chart.title)
    )
}
