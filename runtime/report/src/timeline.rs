//! What happened when, in rows along one time, as a chart that is zoomed and moved.

use serde::{Serialize, Serializer};

use crate::page::Page;
use crate::palette::Colour;
use crate::text::printable;

/// The script of charts that are zoomed and moved, for pages that have a chart of their own: it goes before that one's.
pub const VIEWPORT: &str = include_str!("viewport.js");

/// A chart of rows. Times are in microseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Timeline {
    /// What is shown at first.
    pub from: f64,
    pub to: f64,
    pub rows: Vec<Row>,
    #[serde(serialize_with = "css")]
    pub colours: Vec<Colour>,
    pub bars: Vec<Bar>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// A heading above the first of several with the same.
    pub group: String,
    pub name: String,
    /// How many bars stand one below the other at once.
    pub lanes: usize,
}

/// How a bar looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    Full,
    /// A pale bar, in which parts stand.
    Frame,
    Part,
    /// With a broken outline and no ground: what did not come to its end.
    Hollow,
    /// A line at its beginning.
    Tick,
    /// A line at its end, where something is due, and a thin one from its beginning to there.
    Due,
}

#[derive(Clone, Debug)]
pub struct Bar {
    /// Positions of its row and lane.
    pub row: usize,
    pub lane: usize,
    pub from: f64,
    pub to: f64,
    /// The position of its colour.
    pub colour: usize,
    pub shape: Shape,
    /// Whether something is wrong: it gets an outline that shows it.
    pub is_bad: bool,
    /// The first for which there is room is written into it.
    pub labels: Vec<String>,
    /// Shown where a pointer rests on it.
    pub title: String,
    /// Bars with a number in common are shown together.
    pub threads: Vec<u64>,
}

/// As a list: a page has thousands of them.
impl Serialize for Bar {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let labels: Vec<_> = self.labels.iter().map(|label| printable(label)).collect();
        (
            (self.row, self.lane, self.from, self.to),
            (self.colour, self.shape, u8::from(self.is_bad)),
            labels,
            printable(&self.title),
            &self.threads,
        )
            .serialize(serializer)
    }
}

fn css<S: Serializer>(colours: &[Colour], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(colours.iter().map(Colour::to_string))
}

impl Page {
    /// Charts, and the script that draws them.
    ///
    /// # Panics
    /// Never: all of it is plain data.
    pub fn timelines<'t>(&mut self, timelines: impl IntoIterator<Item = &'t Timeline>) {
        for timeline in timelines {
            let data = serde_json::to_string(timeline).expect("plain data");
            self.widget("timeline", &data);
        }
        self.script(VIEWPORT);
        self.script(include_str!("timeline.js"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_carries_its_bars_and_its_script() {
        let bar = Bar {
            row: 0,
            lane: 0,
            from: 1.5,
            to: 2.5,
            colour: 0,
            shape: Shape::Full,
            is_bad: true,
            labels: vec!["ab\u{1b}".to_owned(), "a".to_owned()],
            title: "</script>".to_owned(),
            threads: vec![7],
        };
        let row = Row {
            group: "Tasks".to_owned(),
            name: "front".to_owned(),
            lanes: 1,
        };
        let timeline = Timeline {
            from: 0.0,
            to: 10.0,
            rows: vec![row],
            colours: vec![Colour::of(0)],
            bars: vec![bar],
        };
        let mut page = Page::new("a recording");
        page.timelines([&timeline]);
        let html = page.html();
        let data = r#""bars":[[[0,0,1.5,2.5],[0,"full",1],["ab?","a"],"\u003c/script>",[7]]]"#;
        assert!(html.contains(data), "{html}");
        assert!(html.contains(r##""colours":["#0072b2"]"##), "{html}");
        assert!(html.contains("querySelectorAll(\".timeline\")"));
    }
}
