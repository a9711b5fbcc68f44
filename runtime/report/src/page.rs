//! Pages of HTML with everything in them: no other file, no network.

use maud::{Markup, PreEscaped, html};

use crate::palette::Colour;
use crate::svg::Svg;
use crate::table::Table;
use crate::text::{Text, printable};

/// What stands where a chart has no values.
pub(crate) const NOTHING: &str = "Nothing to show.";

/// A page, written from top to bottom; whatever text it is given is escaped.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    warnings: Vec<String>,
    body: String,
}

/// A picture with its caption and its key.
#[derive(Clone, Debug)]
pub struct Figure {
    caption: Text,
    svg: Option<Svg>,
    key: Option<Markup>,
}

/// How a key shows what a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// As the lines, or bars, of the series at a position.
    Series(usize),
    Box(Colour),
    /// As bars with hatching over the colour of their series.
    Hatched,
}

impl Page {
    #[must_use]
    pub fn new(title: &str) -> Self {
        Self {
            title: printable(title),
            warnings: Vec::new(),
            body: String::new(),
        }
    }

    /// What must be read before anything else, in large letters above the title.
    pub fn warning(&mut self, text: &str) {
        self.warnings.push(printable(text));
    }

    pub fn heading(&mut self, text: impl Into<Text>) {
        let text = text.into();
        self.add(html! { h2 class=[text.tone.class()] { (text.markup()) } });
    }

    pub fn subheading(&mut self, text: impl Into<Text>) {
        let text = text.into();
        self.add(html! { h3 class=[text.tone.class()] { (text.markup()) } });
    }

    pub fn paragraph(&mut self, text: impl Into<Text>) {
        let text = text.into();
        self.add(html! { p class=[text.tone.class()] { (text.markup()) } });
    }

    /// What is typed.
    pub fn command(&mut self, text: &str) {
        self.add(html! { p { code { (printable(text)) } } });
    }

    /// Nothing if it is empty.
    pub fn list<T: Into<Text>>(&mut self, items: impl IntoIterator<Item = T>) {
        let mut items = items.into_iter().map(T::into).peekable();
        if items.peek().is_some() {
            self.add(html! { ul { @for text in items { li class=[text.tone.class()] { (text.markup()) } } } });
        }
    }

    pub fn table(&mut self, table: &Table) {
        self.add(table.markup());
    }

    /// Side by side, as many as there is room for; nothing if there are none.
    pub fn figures(&mut self, figures: impl IntoIterator<Item = Figure>) {
        self.side_by_side("plots", figures);
    }

    /// With small captions: four side by side where there is much room, or two, or one.
    pub fn photographs(&mut self, figures: impl IntoIterator<Item = Figure>) {
        self.side_by_side("photographs", figures);
    }

    /// Photographs with little in them: four side by side, or two.
    pub fn thumbnails(&mut self, figures: impl IntoIterator<Item = Figure>) {
        self.side_by_side("thumbnails", figures);
    }

    fn side_by_side(&mut self, class: &str, figures: impl IntoIterator<Item = Figure>) {
        let mut figures = figures.into_iter().peekable();
        if figures.peek().is_some() {
            self.add(html! { div class=(class) { @for figure in figures { (figure.markup()) } } });
        }
    }

    pub fn key<'n>(&mut self, names: impl IntoIterator<Item = (&'n str, Mark)>) {
        self.add(key(names));
    }

    /// An element of a class that a script of the page fills out of its data, which are JSON.
    pub fn widget(&mut self, class: &str, json: &str) {
        // In JSON `<` stands in strings only, and within an element of a script it could end it.
        let data = PreEscaped(json.replace('<', "\\u003c"));
        self.add(
            html! { div class=(class) tabindex="0" { script type="application/json" { (data) } } },
        );
    }

    /// A script of the program's own; its text is trusted.
    pub fn script(&mut self, script: &'static str) {
        self.add(html! { script { (PreEscaped(script)) } });
    }

    fn add(&mut self, markup: Markup) {
        self.body.push_str(&markup.into_string());
        self.body.push('\n');
    }

    /// The whole file.
    #[must_use]
    pub fn html(&self) -> String {
        let page = html! {
            (PreEscaped("<!doctype html>\n"))
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { (self.title) }
                    style { (PreEscaped(include_str!("page.css"))) }
                }
                body {
                    @for warning in &self.warnings { h1 class="warning" { (warning) } }
                    h1 { (self.title) }
                    (PreEscaped(&self.body))
                }
            }
        };
        page.into_string() + "\n"
    }
}

impl Figure {
    /// Without a picture it says that there is nothing to show.
    #[must_use]
    pub fn new(caption: &str, svg: impl Into<Option<Svg>>) -> Self {
        Self {
            caption: caption.into(),
            svg: svg.into(),
            key: None,
        }
    }

    /// With a key to its series, in their order.
    #[must_use]
    pub fn series<'n>(self, names: impl IntoIterator<Item = &'n str>) -> Self {
        let names = names.into_iter().enumerate();
        let key = key(names.map(|(position, name)| (name, Mark::Series(position))));
        Self {
            key: Some(key),
            ..self
        }
    }

    fn markup(&self) -> Markup {
        html! {
            figure {
                figcaption { (self.caption.markup()) }
                @match &self.svg {
                    Some(svg) => (svg),
                    None => p { (NOTHING) },
                }
                @if let Some(key) = &self.key { (key) }
            }
        }
    }
}

fn key<'n>(names: impl IntoIterator<Item = (&'n str, Mark)>) -> Markup {
    let style = |mark| match mark {
        Mark::Series(position) => {
            let dashes = if Colour::dashed(position) {
                "dashed"
            } else {
                "solid"
            };
            let colour = Colour::of(position);
            format!("border-color:{colour};border-top-style:{dashes}")
        }
        Mark::Box(colour) => format!("background:{colour}"),
        Mark::Hatched => String::new(),
    };
    let class = |mark| match mark {
        Mark::Series(_) => None,
        Mark::Box(_) => Some("box"),
        Mark::Hatched => Some("box hatched"),
    };
    html! {
        ul.key { @for (name, mark) in names {
            li { i class=[class(mark)] style=(style(mark)) {} (printable(name)) }
        } }
    }
}

impl maud::Render for Svg {
    fn render(&self) -> Markup {
        PreEscaped(self.as_str().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::{Anchor, Drawing, Style};

    const QUOTED: &str = "\"><script>alert('&')</script>";
    const HOSTILE: &str = "\"><script>alert('&')</script>\u{1b}";

    /// A page with everything that pages can have, each with a text that would break it.
    fn hostile() -> String {
        let mut page = Page::new(HOSTILE);
        page.warning(HOSTILE);
        page.heading(HOSTILE);
        page.subheading(Text::good(HOSTILE));
        page.paragraph(Text::bad(HOSTILE));
        page.command(HOSTILE);
        page.list([Text::soft(HOSTILE)]);
        let mut table = Table::new(&[HOSTILE, "n"], 1);
        table.row([HOSTILE, "1"]);
        page.table(&table);
        page.key([
            (HOSTILE, Mark::Box(Colour::of(1))),
            (HOSTILE, Mark::Hatched),
        ]);
        let mut drawing = Drawing::new(100.0, 50.0, HOSTILE);
        let style = Style {
            fill: QUOTED,
            stroke: QUOTED,
            title: HOSTILE,
        };
        drawing.rect((0.0, 1.0), (2.0, 3.0), &style);
        drawing.line((0.0, 0.0), (1.0, 1.0), QUOTED);
        drawing.text((0.0, 0.0), Anchor::End, HOSTILE);
        drawing.label((0.0, 0.0), 12.0, HOSTILE);
        drawing.outline((0.0, 0.0), (5.0, 5.0), 2.0, &style);
        page.figures([Figure::new(HOSTILE, drawing.svg()).series([HOSTILE])]);
        #[cfg(feature = "charts")]
        page.figures(charts());
        page.widget(QUOTED, "{\"name\": \"</script><!--<script>\"}");
        page.script("let here;");
        page.html()
    }

    #[cfg(feature = "charts")]
    fn charts() -> [Figure; 4] {
        use crate::charts::{Axis, Bars, Lines, Series};
        let lines = Lines {
            title: HOSTILE.into(),
            x: Axis::linear(QUOTED),
            y: Axis::percent(QUOTED),
            series: vec![Series {
                name: HOSTILE.into(),
                points: vec![[1.0, 2.0], [3.0, 4.0]],
            }],
        };
        let bars = Bars {
            title: HOSTILE.into(),
            y: Axis::linear(QUOTED),
            groups: vec![QUOTED.into()],
            series: vec![(HOSTILE.into(), vec![Some(1.0)])],
        };
        let shares = crate::Shares {
            of: QUOTED.into(),
            groups: vec![(QUOTED.into(), vec![(100.0, Colour::of(0))])],
        };
        let picture = Figure::new(HOSTILE, crate::picture(std::slice::from_ref(&lines)));
        let shares = Figure::new(HOSTILE, shares.svg());
        [lines.figure(), bars.figure(), picture, shares]
    }

    /// Whether every element that is opened is closed, in order, and attributes are quoted.
    fn well_formed(html: &str) {
        let mut open: Vec<&str> = Vec::new();
        let mut rest = html
            .strip_prefix("<!doctype html>")
            .expect("a document type");
        while let Some((_, from)) = rest.split_once('<') {
            let (tag, after) = from.split_once('>').expect("a tag ends");
            rest = after;
            let name = tag.split(' ').next().unwrap_or_default();
            if let Some(name) = name.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "{open:?} before {after}");
            } else if !tag.ends_with('/') && name != "meta" {
                open.push(name);
            }
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        }
        assert!(open.is_empty(), "{open:?} are left open");
    }

    #[test]
    fn hostile_text_stays_text() {
        let html = hostile();
        well_formed(&html);
        assert!(
            !html.contains("<script>alert") && !html.contains('\u{1b}'),
            "{html}"
        );
        assert_eq!(html.matches("</script>").count(), 2, "{html}");
        assert!(html.contains("\\u003c/script>\\u003c!--"), "{html}");
        let escaped = "&quot;&gt;&lt;script&gt;alert('&amp;')&lt;/script&gt;";
        assert!(html.matches(escaped).count() >= 19, "{html}");
    }

    /// The page without its style and its scripts.
    fn outside_of(tags: &[&str], html: &str) -> String {
        let mut html = html.to_owned();
        for tag in tags {
            let end = format!("</{tag}>");
            while let Some(from) = html.find(&format!("<{tag}")) {
                let to = html[from..].find(&end).expect("it ends") + from + end.len();
                html.replace_range(from..to, "");
            }
        }
        html
    }

    #[test]
    fn a_page_has_code_instead_of_backticks_and_no_black_or_white_outside_its_style() {
        let mut drawing = Drawing::new(100.0, 50.0, "a photograph");
        drawing.label((0.0, 0.0), 12.0, "stop");
        let mut page = Page::new("a page");
        page.heading("of `a`");
        page.paragraph("of `b`");
        page.list(["of `c`"]);
        let mut table = Table::new(&["what"], 1);
        table.row(["of `d`"]);
        page.table(&table);
        page.figures([Figure::new("of `e`", drawing.svg())]);
        let html = outside_of(&["style", "script"], &(page.html() + &hostile()));
        for code in ["a", "b", "c", "d", "e"] {
            assert!(html.contains(&format!("of <code>{code}</code>")), "{html}");
        }
        let colour = |colour: &str| html.to_lowercase().contains(colour);
        assert!(!html.contains('`') && !["#000000", "#ffffff"].into_iter().any(colour));
    }

    #[test]
    fn a_page_needs_no_other_file() {
        let mut drawing = Drawing::new(8.0, 8.0, "a photograph");
        drawing.jpeg((0.0, 0.0), (8.0, 8.0), &[0xff, 0xd8, 0xff]);
        let mut page = Page::new("photographs");
        page.photographs([Figure::new("one", drawing.svg())]);
        let photograph = "href=\"data:image/jpeg;base64,/9j/\"";
        let photographs = page.html();
        assert!(photographs.contains(photograph), "{photographs}");
        let html = hostile() + &photographs.replace(photograph, "");
        for outside in ["http-equiv", "src=", "href=", "@import", "url("] {
            assert!(!html.contains(outside), "{outside}");
        }
        assert!(html.contains("prefers-color-scheme: dark") && html.contains("@media print"));
    }

    #[test]
    fn what_is_empty_is_left_out_and_a_figure_without_a_picture_says_so() {
        let mut page = Page::new("a");
        page.list(Vec::<Text>::new());
        page.figures([]);
        assert!(!page.html().contains("<ul") && !page.html().contains("<div"));
        page.figures([Figure::new("none", None)]);
        assert!(page.html().contains("Nothing to show."));
    }
}
