//! Pictures as SVG: such as are drawn here of bars, lines and words, and how any of them stand alone.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use maud::{Markup, PreEscaped, html};

use crate::text::printable;

/// A picture, sound as XML. Text in it takes the colour of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Svg(String);

impl Svg {
    /// Of a text that is known to be one element `svg`.
    #[cfg(feature = "charts")]
    pub(crate) const fn trusted(svg: String) -> Self {
        Self(svg)
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Where the text of a drawing stands: at the point it begins at, around it, before it, or around it on a light bar, so that it is
/// dark in any scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
    OnBar,
}

/// Of a bar: CSS colours, and the text that is shown where a pointer rests on it; nothing where they are empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style<'s> {
    pub fill: &'s str,
    pub stroke: &'s str,
    pub title: &'s str,
}

/// A picture being drawn, in pixels from the left and from the top.
#[derive(Clone, Debug)]
pub struct Drawing {
    size: (f64, f64),
    label: String,
    body: String,
}

impl Drawing {
    /// `label` says what it shows to who cannot see it.
    #[must_use]
    pub fn new(width: f64, height: f64, label: &str) -> Self {
        Self {
            size: (width, height),
            label: printable(label),
            body: String::new(),
        }
    }

    /// For a picture that no page is around.
    pub fn paper(&mut self) {
        self.add(paper());
    }

    pub fn rect(&mut self, corner: (f64, f64), size: (f64, f64), style: &Style<'_>) {
        let given = |text: &'_ str| (!text.is_empty()).then(|| text.to_owned());
        self.add(html! {
            rect x=(px(corner.0)) y=(px(corner.1)) width=(px(size.0)) height=(px(size.1))
                fill=[given(style.fill)] stroke=[given(style.stroke)] {
                @if let Some(title) = given(style.title) { title { (printable(&title)) } }
            }
        });
    }

    /// A photograph, scaled to `size`.
    pub fn jpeg(&mut self, corner: (f64, f64), size: (f64, f64), jpeg: &[u8]) {
        let data = BASE64_STANDARD.encode(jpeg);
        self.add(html! {
            image x=(px(corner.0)) y=(px(corner.1)) width=(px(size.0)) height=(px(size.1))
                href={ "data:image/jpeg;base64," (data) } {}
        });
    }

    /// White words on a dark ground, to be read over a photograph of a page. `corner` is the ground's upper left one, moved to the
    /// left where the drawing ends; `height` of the ground.
    pub fn label(&mut self, corner: (f64, f64), height: f64, text: &str) {
        // Most letters are narrower than 0.6 of their size.
        let size = height * 0.72;
        let width = text.chars().count() as f64 * size * 0.6 + height * 0.4;
        let x = corner.0.min(self.size.0 - width).max(0.0);
        let y = corner.1;
        self.add(html! {
            rect x=(px(x)) y=(px(y)) width=(px(width)) height=(px(height)) class="ground" {}
            text x=(px(x + height * 0.2)) y=(px(y + height * 0.76)) font-size=(px(size)) class="over" { (printable(text)) }
        });
    }

    /// The outline of a rectangle, `thick` pixels wide, with a title.
    pub fn outline(&mut self, corner: (f64, f64), size: (f64, f64), thick: f64, style: &Style<'_>) {
        self.add(html! {
            rect x=(px(corner.0)) y=(px(corner.1)) width=(px(size.0)) height=(px(size.1))
                fill="none" stroke=(style.stroke) stroke-width=(px(thick)) {
                title { (printable(style.title)) }
            }
        });
    }

    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str) {
        self.add(html! {
            line x1=(px(from.0)) y1=(px(from.1)) x2=(px(to.0)) y2=(px(to.1)) stroke=(stroke) {}
        });
    }

    pub fn text(&mut self, at: (f64, f64), anchor: Anchor, text: &str) {
        let class = (anchor == Anchor::OnBar).then_some("on-bar");
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle | Anchor::OnBar => "middle",
            Anchor::End => "end",
        };
        // A bar below it still says its title.
        self.add(html! {
            text class=[class] pointer-events="none" x=(px(at.0)) y=(px(at.1)) text-anchor=(anchor) { (printable(text)) }
        });
    }

    fn add(&mut self, markup: Markup) {
        self.body.push_str(&markup.into_string());
        self.body.push('\n');
    }

    #[must_use]
    pub fn svg(&self) -> Svg {
        let (width, height) = (px(self.size.0), px(self.size.1));
        Svg(html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (width) " " (height) }
                width=(width) height=(height) role="img" aria-label=(self.label)
                font-family="sans-serif" font-size="12" fill="currentColor" {
                "\n" (PreEscaped(&self.body))
            }
        }
        .into_string())
    }
}

/// What a picture is drawn on where no page is around it, in the scheme of its reader; who knows of no schemes sees dark on light.
pub(crate) fn paper() -> Markup {
    html! {
        style {
            "svg { color: #1c1f23; } .paper { fill: #ffffff; } .on-bar { fill: #1c1f23; } "
            "@media (prefers-color-scheme: dark) { svg { color: #e4e6ea; } .paper { fill: #16181b; } }"
        }
        rect class="paper" width="100%" height="100%" {}
    }
}

/// A length or a place, to a hundredth of a pixel.
fn px(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
