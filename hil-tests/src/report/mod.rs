//! The run's report in three forms: JSON for machines, JUnit for continuous integration, HTML for people.

mod html;
mod junit;
mod svg;

use std::path::{Path, PathBuf};

use crate::outcome::RunReport;

/// A report that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {source}", path = path.display())]
pub struct WriteError {
    path: PathBuf,
    source: std::io::Error,
}

#[must_use]
pub fn json(report: &RunReport) -> String {
    serde_json::to_string_pretty(report).expect("plain data serialises")
}

/// Writes all three forms into a folder, which is made if it is not there.
pub fn write(report: &RunReport, folder: &Path) -> Result<(), WriteError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| WriteError { path, source }
    };
    std::fs::create_dir_all(folder).map_err(failed(folder))?;
    let files = [
        ("report.json", json(report)),
        ("junit.xml", junit::write(report)),
        ("report.html", html::write(report)),
    ];
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(failed(&path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Facts;
    use crate::outcome::{CaseReport, Effect, Outcome, Pictured};
    use crate::records::Latencies;

    pub(super) fn report() -> RunReport {
        let case = |outcome, finding: &str| CaseReport {
            suite: "smoke",
            name: "one",
            about: "It is <bold>.",
            outcome,
            skipped_because: (outcome == Outcome::Skipped).then(|| "needs a GPU".to_owned()),
            seconds: 1.5,
            findings: if finding.is_empty() {
                Vec::new()
            } else {
                vec![finding.to_owned()]
            },
            measures: Vec::new(),
            effects: vec![Effect {
                count: 3,
                what: "frames refused".to_owned(),
            }],
            histograms: vec![Pictured {
                name: "front".to_owned(),
                latencies: Latencies {
                    buckets: vec![[100, 5], [200, 50]],
                    ..Latencies::default()
                },
            }],
        };
        RunReport {
            format: 1,
            version: "0",
            target: "local".to_owned(),
            board: "host".to_owned(),
            bounds: "host.toml".to_owned(),
            daemon: "punctuald 0".to_owned(),
            began: "2026-01-01T00:00:00Z".to_owned(),
            seed: 1,
            facts: Facts::default(),
            cases: vec![
                case(Outcome::Passed, ""),
                case(Outcome::Failed, "said <\"\u{1}\">"),
                case(Outcome::Skipped, ""),
            ],
        }
    }

    #[test]
    fn what_a_target_says_cannot_break_the_forms() {
        let report = report();
        for text in [junit::write(&report), html::write(&report)] {
            assert!(text.contains("said &lt;&quot;?&quot;&gt;"), "{text}");
            assert!(!text.contains("<bold>"));
        }
    }

    #[test]
    fn junit_counts_failures_and_skips() {
        let text = junit::write(&report());
        assert!(
            text.contains("tests=\"3\" failures=\"1\" skipped=\"1\""),
            "{text}"
        );
        assert!(
            text.contains("<skipped message=\"needs a GPU\"></skipped>"),
            "{text}"
        );
    }

    #[test]
    fn the_page_is_whole_and_asks_nothing_of_the_network() {
        let text = html::write(&report());
        assert!(text.starts_with("<!doctype html>") && text.trim_end().ends_with("</html>"));
        assert!(text.contains("<svg"));
        for outside in ["http-equiv", "src=", "href=", "@import", "url("] {
            assert!(!text.contains(outside), "{outside}");
        }
    }
}
