//! Tables: for a terminal, a page, a document.

use crate::html::escape;

/// A table of text, columns aligned: numbers to the right.
#[derive(Clone, Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
    /// How many columns, from the left, are words.
    words: usize,
}

impl Table {
    /// A table with these headings, the first `words` of them over columns of words.
    #[must_use]
    pub fn new(headings: &[&str], words: usize) -> Self {
        let headings = headings.iter().map(|heading| (*heading).to_owned());
        Self {
            rows: vec![headings.collect()],
            words,
        }
    }

    /// Adds a row of as many cells as there are headings.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// As text, each line ended.
    #[must_use]
    pub fn text(&self) -> String {
        let columns = self.rows.first().map_or(0, Vec::len);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let gap = if column == 0 { "" } else { "  " };
                line.push_str(gap);
                let cell = if column < self.words {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                };
                line.push_str(&cell);
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    #[must_use]
    pub fn html(&self) -> String {
        let mut text = String::from("<table>\n");
        for (index, row) in self.rows.iter().enumerate() {
            let kind = if index == 0 { "th" } else { "td" };
            let cells = row
                .iter()
                .map(|cell| format!("<{kind}>{}</{kind}>", escape(cell)));
            text.push_str(&format!("<tr>{}</tr>\n", cells.collect::<String>()));
        }
        text.push_str("</table>\n");
        text
    }

    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            text.push_str(&format!("| {} |\n", row.join(" | ")));
            if index == 0 {
                let rule =
                    (0..row.len()).map(|column| if column < self.words { "---" } else { "---:" });
                text.push_str(&format!("| {} |\n", rule.collect::<Vec<_>>().join(" | ")));
            }
        }
        text
    }
}

/// A share in percent; what is not nothing never looks like nothing.
#[must_use]
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        0.0 => "0%".into(),
        p if p.abs() < 0.01 => "<0.01%".into(),
        p if p > 99.99 && p < 100.0 => ">99.99%".into(),
        p => format!("{p:.2}%"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_aligned_to_the_right_and_words_to_the_left() {
        let mut table = Table::new(&["policy", "missed"], 1);
        table.row(["punctual".into(), "0%".into()]);
        table.row(["seq".into(), "12.50%".into()]);
        assert_eq!(
            table.text(),
            "policy    missed\npunctual      0%\nseq       12.50%\n"
        );
        assert_eq!(
            table.markdown(),
            "| policy | missed |\n| --- | ---: |\n| punctual | 0% |\n| seq | 12.50% |\n"
        );
        assert_eq!(
            table.html(),
            "<table>\n<tr><th>policy</th><th>missed</th></tr>\n\
             <tr><td>punctual</td><td>0%</td></tr>\n<tr><td>seq</td><td>12.50%</td></tr>\n</table>\n"
        );
    }

    #[test]
    fn a_share_that_is_not_nothing_does_not_look_like_nothing() {
        assert_eq!(percent(0.0), "0%");
        assert_eq!(percent(1e-6), "<0.01%");
        assert_eq!(percent(0.999_999), ">99.99%");
        assert_eq!(percent(1.0), "100.00%");
    }
}
