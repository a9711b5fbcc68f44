//! Tables: for a terminal, a page, a document.

use std::fmt;

use maud::{Markup, html};

use crate::fold::{self, Align, Layout};
use crate::text::{Text, Tone, printable};

/// Columns of a terminal that says nothing of itself, and of text that goes into a file.
pub const WIDTH: usize = 80;
/// A page wraps cells of more letters than this.
const LONG: usize = 24;

#[derive(Clone, Debug)]
pub struct Column {
    heading: String,
    align: Align,
}

impl Column {
    /// Of words: aligned to the left.
    #[must_use]
    pub fn words(heading: &str) -> Self {
        Self {
            heading: printable(heading),
            align: Align::Left,
        }
    }

    /// Of numbers: aligned to the right.
    #[must_use]
    pub fn number(heading: &str) -> Self {
        Self {
            heading: printable(heading),
            align: Align::Right,
        }
    }

    /// The unit of its numbers stands in its heading.
    #[must_use]
    pub fn unit(mut self, unit: &str) -> Self {
        self.heading = format!("{} {unit}", self.heading);
        self
    }
}

/// A table of text. Its `Display` is for a terminal: no line is wider than 80 columns, or than the width it is formatted
/// with (`{table:120}`). One that is wider by nature has its widest cells wrapped; where that does not do, it goes on
/// below itself, with the columns repeated that tell rows apart.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Text>>,
    inset: bool,
    keys: usize,
}

impl Table {
    /// A table with these headings, the first `words` of them over columns of words, the others over numbers.
    #[must_use]
    pub fn new(headings: &[&str], words: usize) -> Self {
        let (left, right) = headings.split_at(words.min(headings.len()));
        let left = left.iter().map(|heading| Column::words(heading));
        Self::of(left.chain(right.iter().map(|heading| Column::number(heading))))
    }

    #[must_use]
    pub fn of(columns: impl IntoIterator<Item = Column>) -> Self {
        Self {
            columns: columns.into_iter().collect(),
            rows: Vec::new(),
            inset: false,
            keys: 1,
        }
    }

    /// A name and its description in each row, without headings.
    #[must_use]
    pub fn list() -> Self {
        Self::new(&["", ""], 2)
    }

    /// As part of a longer text for a terminal: set in, a rule below the headings.
    #[must_use]
    pub fn inset(mut self) -> Self {
        self.inset = true;
        self
    }

    /// How many columns, from the left, tell rows apart: the first, unless this says otherwise.
    #[must_use]
    pub fn keys(mut self, columns: usize) -> Self {
        self.keys = columns;
        self
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If it has not as many cells as there are columns.
    pub fn row<T: Into<Text>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let cells: Vec<Text> = cells.into_iter().map(T::into).collect();
        let columns = self.columns.len();
        assert_eq!(cells.len(), columns, "cells of {:?}", self.columns);
        self.rows.push(cells);
    }

    /// Of more rows than `rows` the first quarter of as many, and a last one that says how many more there are.
    #[must_use]
    pub fn at_most(mut self, rows: usize) -> Self {
        if self.rows.len() > rows {
            let shown = rows.div_ceil(4);
            let more = self.rows.len() - shown;
            self.rows.truncate(shown);
            let mut cells = vec![format!("{more} more")];
            cells.resize(self.columns.len(), String::new());
            self.row(cells);
        }
        self
    }

    /// None if no column has one.
    fn headings(&self) -> Option<Vec<&str>> {
        let headings = self.columns.iter().map(|column| column.heading.as_str());
        let headings: Vec<&str> = headings.collect();
        headings.iter().any(|h| !h.is_empty()).then_some(headings)
    }

    /// Of each row the texts.
    fn cells(&self) -> impl Iterator<Item = Vec<&str>> {
        self.rows
            .iter()
            .map(|row| row.iter().map(|cell| cell.text.as_str()).collect())
    }

    pub(crate) fn markup(&self) -> Markup {
        let class = |column: &Column, text: &str, tone: Tone| {
            let words = (column.align == Align::Left).then_some("words");
            let long = (text.chars().count() > LONG).then_some("long");
            let classes: Vec<&str> = words.into_iter().chain(long).chain(tone.class()).collect();
            (!classes.is_empty()).then(|| classes.join(" "))
        };
        html! {
            div.wide { table {
                @if self.headings().is_some() {
                    tr { @for column in &self.columns {
                        th class=[class(column, "", Tone::Plain)] { (column.heading) }
                    } }
                }
                @for row in &self.rows {
                    tr { @for (column, cell) in self.columns.iter().zip(row) {
                        td class=[class(column, &cell.text, cell.tone)] { (cell.markup()) }
                    } }
                }
            } }
        }
    }

    #[must_use]
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<&str>| {
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rules = self.columns.iter().map(|column| match column.align {
            Align::Left => "---",
            Align::Right => "---:",
        });
        // Markdown has no table without headings.
        let headings = self.columns.iter().map(|column| column.heading.as_str());
        let mut text = line(headings.collect());
        text.push_str(&format!("| {} |\n", rules.collect::<Vec<_>>().join(" | ")));
        text.extend(self.cells().map(line));
        text
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layout = Layout {
            aligned: self.columns.iter().map(|column| column.align).collect(),
            headings: self.headings(),
            rows: self.cells().collect(),
            inset: self.inset,
            keys: self.keys,
        };
        f.write_str(&fold::text(&layout, f.width().unwrap_or(WIDTH)))
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
    fn a_table_of_too_many_rows_says_how_many_it_leaves_out() {
        let of = |rows: usize| {
            let mut table = Table::new(&["task", "rate"], 1);
            (0..rows).for_each(|row| table.row([row.to_string(), "1".to_owned()]));
            table.at_most(8).markdown()
        };
        assert!(of(8).ends_with("| 7 | 1 |\n"), "{}", of(8));
        assert!(of(9).ends_with("| 1 | 1 |\n| 7 more |  |\n"), "{}", of(9));
    }

    #[test]
    fn numbers_are_aligned_to_the_right_and_words_to_the_left() {
        let mut table = Table::new(&["policy", "missed"], 1);
        table.row(["punctual", "0%"]);
        table.row(["seq", "12.50%"]);
        assert_eq!(
            table.to_string(),
            "policy    missed\npunctual      0%\nseq       12.50%\n"
        );
        assert_eq!(
            table.markdown(),
            "| policy | missed |\n| --- | ---: |\n| punctual | 0% |\n| seq | 12.50% |\n"
        );
        let html = table.markup().into_string();
        assert!(
            html.contains("<th class=\"words\">policy</th><th>missed</th>"),
            "{html}"
        );
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_numbers_stand_right() {
        let mut table = Table::new(&["name", "n"], 1).inset();
        table.row(["ä", "7"]);
        table.row(["longer", "1024"]);
        let expected = "  name       n\n  ------  ----\n  ä          7\n  longer  1024\n";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn control_codes_are_not_passed_on() {
        let mut table = Table::new(&["name"], 1);
        table.row(["\u{1b}[2J"]);
        assert_eq!(table.to_string(), "name\n?[2J\n");
    }

    #[test]
    fn a_list_has_no_headings_and_a_heading_has_its_unit() {
        let mut list = Table::list().inset();
        list.row(["seeb", "as published"]);
        assert_eq!(list.to_string(), "  seeb  as published\n");
        assert!(!list.markup().into_string().contains("<th"));
        let table = Table::of([Column::words("task"), Column::number("p50").unit("ms")]);
        assert_eq!(table.to_string(), "task  p50 ms\n");
    }

    #[test]
    fn cells_do_not_break_the_markup_around_them() {
        let mut table = Table::new(&["<b>"], 1);
        table.row(["<script>\"&|"]);
        assert!(table.markdown().contains("<script>\"&\\| |"));
        let html = table.markup().into_string();
        assert!(html.contains("&lt;script&gt;&quot;&amp;|"), "{html}");
        assert!(!html.contains("<script") && !html.contains("<b>"));
    }

    #[test]
    fn a_share_that_is_not_nothing_does_not_look_like_nothing() {
        assert_eq!(percent(0.0), "0%");
        assert_eq!(percent(1e-6), "<0.01%");
        assert_eq!(percent(0.999_999), ">99.99%");
        assert_eq!(percent(1.0), "100.00%");
    }
}
