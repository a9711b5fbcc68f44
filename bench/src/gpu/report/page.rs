//! The report as one page of HTML with everything in it.

use std::fmt::Write as _;

use punctual_report::{Table, document, escape, key};

use super::super::bound::Verdict;
use super::super::course::Steps;
use super::super::folder::{Outcome, Record};
use super::super::machine::Machine;
use super::super::result::StepResult;
use super::{Report, limit, number};

/// The page. `steps` say what they are about.
pub fn page(report: &Report, steps: &Steps<'_>) -> String {
    let mut body = String::from(
        "<style>.warning { color: #d55e00; font-size: 2.2rem; text-transform: uppercase; } \
         .reached { color: #009e73; } .missed { color: #d55e00; font-weight: 600; } \
         .left td { text-align: left; } td.why { white-space: normal; }</style>\n",
    );
    for warning in report.warnings() {
        let _ = writeln!(body, "<h1 class=warning>{warning}</h1>");
    }
    body.push_str("<h1>The CUDA device, measured</h1>\n");
    body.push_str(&head(report));
    body.push_str("<h2>What it must reach</h2>\n");
    body.push_str(&bounds(report));
    for record in &report.steps {
        let about = steps.iter().find(|step| step.name() == record.step);
        section(&mut body, record, about.map_or("", |step| step.about()));
    }
    document("The CUDA device, measured", &body)
}

fn head(report: &Report) -> String {
    let mut rows = vec![
        ("report made", report.date.clone()),
        ("program", report.program.clone()),
        ("command", report.command.clone()),
    ];
    if let Some(machine) = &report.machine {
        rows.extend(facts(machine));
    }
    let row = |(name, value): (&str, String)| {
        format!("<tr><td>{name}</td><td>{}</td></tr>\n", escape(&value))
    };
    let rows: String = rows.into_iter().map(row).collect();
    format!("<div class=wide><table class=left>\n{rows}</table></div>\n")
}

fn facts(machine: &Machine) -> [(&'static str, String); 8] {
    let shared = if machine.integrated {
        ", shared with the processor"
    } else {
        ""
    };
    [
        ("device", machine.device.clone()),
        ("UUID", machine.uuid.clone()),
        ("compute capability", machine.compute_capability.clone()),
        ("multiprocessors", machine.multiprocessors.to_string()),
        (
            "memory",
            format!("{} MiB{shared}", machine.memory_bytes >> 20),
        ),
        ("driver", format!("CUDA {}", machine.driver)),
        (
            "clocks and power mode",
            format!("{}; {}", machine.clocks, machine.power_mode),
        ),
        ("processor", machine.host.clone()),
    ]
}

fn bounds(report: &Report) -> String {
    let headings = [
        "what", "of", "figure", "must be", "unit", "verdict", "from", "why not",
    ];
    let headings: String = headings.map(|name| format!("<th>{name}</th>")).concat();
    let mut rows = String::new();
    for judged in &report.bounds {
        let class = match judged.verdict {
            Verdict::Reached => "reached",
            Verdict::Missed => "missed",
            Verdict::NotMeasured => "soft",
        };
        let cells = [
            judged.bound.what,
            &judged.of,
            &judged.value.map_or_else(|| "-".into(), number),
            &limit(judged.bound),
            judged.bound.unit,
        ];
        let cells = cells
            .map(|cell| format!("<td>{}</td>", escape(cell)))
            .concat();
        let _ = writeln!(
            rows,
            "<tr>{cells}<td class={class}>{}</td><td>{}</td><td class=why>{}</td></tr>",
            judged.verdict.name(),
            escape(judged.bound.source),
            escape(judged.why.as_deref().unwrap_or_default())
        );
    }
    format!("<div class=wide><table class=left>\n<tr>{headings}</tr>\n{rows}</table></div>\n")
}

fn section(body: &mut String, record: &Record, about: &str) {
    let _ = writeln!(
        body,
        "<h2>{}</h2>\n<p>{}</p>\n<p class=soft>Began {}, took {:.1} s; {}.</p>",
        escape(&record.step),
        escape(about),
        escape(&record.began),
        record.seconds,
        escape(&record.machine.clocks)
    );
    match &record.outcome {
        Outcome::Measured(result) => found(body, result),
        Outcome::NotMeasured { why } => {
            let _ = writeln!(body, "<p>Not measured: {}</p>", escape(why));
        }
        Outcome::Failed { why } => {
            let _ = writeln!(body, "<p class=missed>Failed: {}</p>", escape(why));
        }
    }
}

fn found(body: &mut String, result: &StepResult) {
    for note in &result.notes {
        let _ = writeln!(body, "<p>{}</p>", escape(note));
    }
    body.push_str("<div class=plots>\n");
    for plot in &result.plots {
        let names = plot.series.iter().map(|series| series.name.as_str());
        figure(body, &plot.title, plot.svg(), &key(names));
    }
    for bars in &result.bars {
        let names = bars.series.iter().map(|(name, _)| name.as_str());
        figure(body, &bars.title, bars.svg(), &key(names));
    }
    body.push_str("</div>\n");
    for sheet in &result.tables {
        let _ = writeln!(body, "<h3>{}</h3>", escape(&sheet.title));
        let table: Table = sheet.table();
        let _ = writeln!(body, "<div class=wide>\n{}</div>", table.html());
    }
}

fn figure(body: &mut String, title: &str, svg: Option<String>, key: &str) {
    let svg = svg.unwrap_or_else(|| "<p>Nothing to show.</p>".to_owned());
    let _ = writeln!(
        body,
        "<figure><figcaption>{}</figcaption>\n{svg}{key}</figure>",
        escape(title)
    );
}
