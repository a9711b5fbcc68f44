//! Tables as lines of text that are no wider than they may be. Widths are those of a terminal: an ideograph takes two.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// No column is made narrower by wrapping its cells.
const LEAST: usize = 16;
/// Two columns of that width, set in: narrower is nothing, whatever was asked for.
const LIMIT_LEAST: usize = 2 * LEAST + 4;
const GAP: &str = "  ";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// What is laid out. All rows have as many cells as there are columns.
pub(crate) struct Layout<'t> {
    pub aligned: Vec<Align>,
    pub headings: Option<Vec<&'t str>>,
    pub rows: Vec<Vec<&'t str>>,
    pub inset: bool,
    /// How many columns, from the left, tell rows apart: they are repeated where the others go on below.
    pub keys: usize,
}

/// The lines, each ended, none wider than `limit`.
pub(crate) fn text(layout: &Layout<'_>, limit: usize) -> String {
    let natural: Vec<usize> = (0..layout.aligned.len())
        .map(|column| layout.natural_width(column))
        .collect();
    let limit = limit.max(LIMIT_LEAST) - layout.indent().len();
    let blocks = blocks(&natural, layout.keys, limit)
        .into_iter()
        .map(|columns| {
            let widths = shrunk(columns.iter().map(|&c| natural[c]).collect(), limit);
            layout.block(&columns.into_iter().zip(widths).collect::<Vec<_>>())
        });
    blocks.collect::<Vec<_>>().join("\n")
}

/// The columns that stand side by side: all, or the keys with as many others as there is room for.
fn blocks(natural: &[usize], keys: usize, limit: usize) -> Vec<Vec<usize>> {
    let mut blocks: Vec<Vec<usize>> = vec![Vec::new()];
    for column in 0..natural.len() {
        let last = blocks.last_mut().expect("there is one");
        last.push(column);
        let least = last.iter().map(|&column| natural[column].min(LEAST));
        if column > keys && total(least) > limit {
            last.pop();
            blocks.push((0..keys).chain([column]).collect());
        }
    }
    blocks
}

/// The widest column is made narrower until there is room.
fn shrunk(mut widths: Vec<usize>, limit: usize) -> Vec<usize> {
    while total(widths.iter().copied()) > limit {
        let widest = widths.iter_mut().max().expect("nothing is not too wide");
        *widest -= 1;
    }
    widths
}

fn total(widths: impl Iterator<Item = usize>) -> usize {
    let all: usize = widths.map(|width| width + GAP.len()).sum();
    all.saturating_sub(GAP.len())
}

impl Layout<'_> {
    const fn indent(&self) -> &'static str {
        if self.inset { GAP } else { "" }
    }

    fn natural_width(&self, column: usize) -> usize {
        let rows = self.headings.iter().chain(&self.rows);
        rows.map(|row| row[column].width()).max().unwrap_or(0)
    }

    /// Columns with their widths, side by side.
    fn block(&self, columns: &[(usize, usize)]) -> String {
        let mut text = String::new();
        if let Some(headings) = &self.headings {
            self.row(&mut text, columns, headings);
            if self.inset {
                let rules: Vec<String> = (0..self.aligned.len())
                    .map(|column| {
                        let shown = columns.iter().find(|(shown, _)| *shown == column);
                        "-".repeat(shown.map_or(0, |(_, width)| *width))
                    })
                    .collect();
                let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
                self.row(&mut text, columns, &rules);
            }
        }
        for row in &self.rows {
            self.row(&mut text, columns, row);
        }
        text
    }

    /// One row, of as many lines as its highest cell.
    fn row(&self, text: &mut String, columns: &[(usize, usize)], cells: &[&str]) {
        let cells: Vec<(Align, usize, Vec<String>)> = columns
            .iter()
            .map(|&(column, width)| (self.aligned[column], width, wrapped(cells[column], width)))
            .collect();
        let height = cells.iter().map(|(_, _, lines)| lines.len()).max();
        for at in 0..height.unwrap_or(0) {
            let parts = cells.iter().map(|(align, width, lines)| {
                let part = lines.get(at).map_or("", String::as_str);
                let pad = " ".repeat(width.saturating_sub(part.width()));
                match align {
                    Align::Left => format!("{part}{pad}"),
                    Align::Right => format!("{pad}{part}"),
                }
            });
            let line = self.indent().to_owned() + &parts.collect::<Vec<_>>().join(GAP);
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
}

/// A cell's lines: broken between words, and within a word that is too long for a line.
fn wrapped(cell: &str, width: usize) -> Vec<String> {
    if cell.width() <= width {
        return vec![cell.to_owned()];
    }
    let mut lines = vec![String::new()];
    for word in cell.split(' ').filter(|word| !word.is_empty()) {
        let last = lines.last().expect("there is one");
        let (room, begun) = (width - last.width(), !last.is_empty());
        if begun && word.width() < room {
            lines.last_mut().expect("there is one").push(' ');
        } else if begun {
            lines.push(String::new());
        }
        for character in word.chars() {
            let last = lines.last().expect("there is one");
            if last.width() + character.width().unwrap_or(0) > width {
                lines.push(String::new());
            }
            lines.last_mut().expect("there is one").push(character);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use crate::Table;

    fn widest(text: &str) -> usize {
        text.lines().map(UnicodeWidthStr::width).max().unwrap_or(0)
    }

    #[test]
    fn a_table_that_has_room_is_not_folded() {
        let mut table = Table::new(&["name", "what it is"], 2);
        table.row(["a", &"x".repeat(74)]);
        assert_eq!(
            table.to_string(),
            format!("name  what it is\na     {}\n", "x".repeat(74))
        );
    }

    #[test]
    fn wide_cells_are_wrapped_between_words_below_themselves() {
        let mut table = Table::new(&["case", "what it is"], 2);
        table.row(["smoke", &"forty words of it ".repeat(5)]);
        let text = format!("{table:40}");
        let expected = "case   what it is\n\
                        smoke  forty words of it forty words of\n\
                        \u{20}      it forty words of it forty words\n\
                        \u{20}      of it forty words of it\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn many_columns_go_on_below_with_the_first_one_repeated() {
        let headings: Vec<String> = (0..18).map(|column| format!("column {column}")).collect();
        let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
        let mut table = Table::new(&headings, 1);
        table.row(headings.iter().map(|_| "punctual"));
        let text = table.to_string();
        assert!(widest(&text) <= 80, "{text}");
        assert_eq!(text.matches("column 0").count(), 3, "{text}");
        assert_eq!(text.matches("\n\n").count(), 2, "{text}");
        assert!(
            (1..18).all(|c| text.contains(&format!("column {c}"))),
            "{text}"
        );
        assert_eq!(format!("{table:300}").lines().count(), 2);
    }

    #[test]
    fn what_tells_rows_apart_is_repeated() {
        let mut table =
            Table::new(&["policy", "load", "requests missed", "requests late"], 1).keys(2);
        table.row(["seq", "1", "5", "7"]);
        table.row(["seq", "2", "50", "70"]);
        let expected = "policy  load  requests missed\n\
                        seq        1                5\n\
                        seq        2               50\n\
                        \n\
                        policy  load  requests late\n\
                        seq        1              7\n\
                        seq        2             70\n";
        assert_eq!(format!("{table:40}"), expected);
    }

    #[test]
    fn characters_of_several_bytes_and_of_two_columns_keep_to_the_width() {
        let mut table = Table::new(&["名前", "größe", "ß"], 2).inset();
        table.row(["信号機".repeat(20), "Übergröße ".repeat(12), "é".repeat(50)]);
        table.row(["a", "b", "1"]);
        for width in [0, 40, 57, 80, 81, 400] {
            let text = format!("{table:width$}");
            assert!(widest(&text) <= width.max(36), "{width}:\n{text}");
            let count = |of: char| text.chars().filter(|c| *c == of).count();
            assert!(
                count('号') >= 20 && count('Ü') == 12 && count('é') == 50,
                "{text}"
            );
        }
    }

    #[test]
    fn a_table_without_rows_has_its_headings() {
        assert_eq!(Table::new(&["a", "b"], 1).to_string(), "a  b\n");
        assert_eq!(Table::new(&[], 0).to_string(), "");
    }
}
