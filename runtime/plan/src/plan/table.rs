//! Plain text tables: columns as wide as their widest cell, in characters.

use std::fmt;

pub struct Table {
    columns: Vec<&'static str>,
    numeric: Vec<usize>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(columns: &[&'static str]) -> Self {
        Self {
            columns: columns.to_vec(),
            numeric: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Columns that are aligned to the right.
    pub fn numeric(mut self, columns: &[usize]) -> Self {
        self.numeric = columns.to_vec();
        self
    }

    /// # Panics
    /// If the number of cells is not the number of columns.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        assert_eq!(N, self.columns.len(), "cells of {:?}", self.columns);
        // Text of a file must not reach a terminal as control codes.
        let shown = cells.map(|cell| cell.replace(char::is_control, "?"));
        self.rows.push(shown.to_vec());
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| row[column].chars().count());
        cells
            .chain([self.columns[column].len()])
            .max()
            .unwrap_or_default()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: Vec<usize> = (0..self.columns.len()).map(|c| self.width(c)).collect();
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut line = String::from(" ");
            for (column, cell) in cells.enumerate() {
                let width = widths[column];
                line.push(' ');
                line += &if self.numeric.contains(&column) {
                    format!("{cell:>width$} ")
                } else {
                    format!("{cell:<width$} ")
                };
            }
            line.trim_end().to_owned()
        };
        writeln!(f, "{}", line(&mut self.columns.iter().copied()))?;
        let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        writeln!(f, "{}", line(&mut rules.iter().map(String::as_str)))?;
        for row in &self.rows {
            writeln!(f, "{}", line(&mut row.iter().map(String::as_str)))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_numbers_stand_right() {
        let mut table = Table::new(&["name", "n"]).numeric(&[1]);
        table.row(["ä".to_owned(), "7".to_owned()]);
        table.row(["longer".to_owned(), "1024".to_owned()]);
        let expected = "  name       n\n  ------  ----\n  ä          7\n  longer  1024\n";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn control_codes_are_not_passed_on() {
        let mut table = Table::new(&["name"]);
        table.row(["\u{1b}[2J".to_owned()]);
        assert!(!table.to_string().contains('\u{1b}'));
    }
}
