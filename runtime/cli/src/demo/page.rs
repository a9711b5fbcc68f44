//! The demo as a page: frames of each camera, with what the daemon answered at each load.

use image::codecs::jpeg::JpegEncoder;
use image::{ExtendedColorType, ImageError};
use punctual_report::{Colour, Drawing, Figure, Mark, Page, Shares, Style, Svg};
use punctual_signs::{FRAME_HEIGHT, FRAME_WIDTH, Region, Scene, Street};

use super::Run;
use super::cameras::{CAMERAS, CameraRole};
use super::table::{self, Row};
use crate::commands::camera::Scenes;
use crate::report::Shown;

/// Quality of the photographs, of 100.
const QUALITY: u8 = 80;

/// The page of these runs, in the order of their loads.
pub fn html(runs: &[Run]) -> Result<String, ImageError> {
    let mut page = Page::new("Punctual: four cameras, two networks, one core");
    page.paragraph(
        "Each camera sends frames with deadlines to one daemon. Every frame is answered at the deepest exit of its network that \
         the time allows, if it can be answered in time at all. Below: the same frames at each load, with the exit that \
         answered, the time from capture to answer, and the verdict.",
    );
    for role in by_scenes() {
        page.heading(title(role).as_str());
        for run in runs {
            let Some(row) = run.rows.iter().find(|row| row.now.task == role.task) else {
                continue;
            };
            page.subheading(load(role, run, row).as_str());
            let figures: Result<Vec<Figure>, ImageError> = row
                .now
                .shown
                .iter()
                .map(|shown| figure(role, shown))
                .collect();
            match role.scenes {
                Scenes::Signs => page.thumbnails(figures?),
                Scenes::Streets => page.photographs(figures?),
            }
        }
    }
    page.heading("Which exits answered");
    let exits = EXITS.iter().enumerate();
    page.key(exits.map(|(exit, name)| (*name, Mark::Box(Colour::of_exit(exit, EXITS.len())))));
    page.figures(CAMERAS.iter().map(|role| depth(role, runs)));
    for run in runs {
        page.heading(format!("All frames, {}", times(run.overload)).as_str());
        page.table(&table::table(&run.rows));
        page.paragraph(conditions(run).as_str());
    }
    Ok(page.html())
}

/// Whole frames first: there is more to see.
fn by_scenes() -> impl Iterator<Item = &'static CameraRole> {
    let of = |scenes| CAMERAS.iter().filter(move |role| role.scenes == scenes);
    of(Scenes::Streets).chain(of(Scenes::Signs))
}

/// The networks of the demo have three exits.
const EXITS: [&str; 3] = ["first exit", "second exit", "third exit"];

fn title(role: &CameraRole) -> String {
    let what = match role.scenes {
        Scenes::Signs => "reads one sign",
        Scenes::Streets => "finds all signs of the frame",
    };
    match role.fps {
        Some(_) => format!("{}: {what}, {}", role.task, role.criticality()),
        None => format!(
            "{}: {what}, {}, the next frame after each answer",
            role.task,
            role.criticality()
        ),
    }
}

fn times(overload: f64) -> String {
    if overload == 1.0 {
        "at the cameras' own rates".to_owned()
    } else {
        format!("at {} times the rates", rounded(overload))
    }
}

/// To hundredths: a busy machine divides rates by any number.
fn rounded(rate: f64) -> f64 {
    (rate * 100.0).round() / 100.0
}

fn load(role: &CameraRole, run: &Run, row: &Row) -> String {
    let camera = &row.now;
    let rate = match role.fps {
        Some(fps) => format!("{} frames/s", rounded(fps * run.overload)),
        None => times(run.overload),
    };
    let kept = if camera.has_deadlines() {
        format!("{} of {} on time", camera.on_time, camera.submitted)
    } else {
        format!("{} answered, without a deadline", camera.answered())
    };
    let good = table::right(camera).unwrap_or_else(|| "-".to_owned());
    format!("{rate}: {kept}; right: {good}")
}

fn figure(role: &CameraRole, shown: &Shown) -> Result<Figure, ImageError> {
    let svg = match role.scenes {
        Scenes::Signs => sign(role, shown)?,
        Scenes::Streets => street(role, shown)?,
    };
    let ms = shown.latency_us as f64 / 1000.0;
    let exit = match shown.exit {
        Some(exit) => format!("exit {} of {}", exit + 1, EXITS.len()),
        None => "no answer".to_owned(),
    };
    let confidence = match shown.confidence {
        Some(confidence) => format!(", {:.0}% sure", confidence * 100.0),
        None => String::new(),
    };
    let caption = format!("{exit}{confidence} · {ms:.1} ms · {}", shown.verdict);
    Ok(Figure::new(&caption, svg))
}

/// The crop that the network saw, with the class that it read.
fn sign(role: &CameraRole, shown: &Shown) -> Result<Svg, ImageError> {
    let scene = Scene::new(role.seed, shown.scene);
    let crop = scene.crop();
    let mut rgb = vec![0; crop.rgb8_len()];
    scene.render(crop, &mut rgb);
    let size = (f64::from(crop.width), f64::from(crop.height));
    let class = shown.class.as_deref().unwrap_or("no answer");
    let mut drawing = Drawing::new(size.0, size.1, &format!("a sign, read as: {class}"));
    drawing.jpeg((0.0, 0.0), size, &jpeg(&rgb, crop)?);
    let said = match shown.correct {
        Some(true) => format!("{class} ✓"),
        Some(false) => format!("{class} ✗"),
        None => class.to_owned(),
    };
    drawing.label((0.0, size.1 - 18.0), 18.0, &said);
    Ok(drawing.svg())
}

/// The whole frame, with the boxes that were found.
fn street(role: &CameraRole, shown: &Shown) -> Result<Svg, ImageError> {
    let street = Street::new(role.seed, shown.scene);
    let mut rgb = vec![0; Region::FRAME.rgb8_len()];
    street.render(&mut rgb);
    let size = (f64::from(FRAME_WIDTH), f64::from(FRAME_HEIGHT));
    let found = shown.boxes.len();
    let label = format!(
        "a street with {} signs, {found} boxes",
        street.objects().len()
    );
    let mut drawing = Drawing::new(size.0, size.1, &label);
    drawing.jpeg((0.0, 0.0), size, &jpeg(&rgb, Region::FRAME)?);
    for found in &shown.boxes {
        let [left, top, right, bottom] = found.sides.map(f64::from);
        let said = format!("{} {:.0}%", found.class, found.score * 100.0);
        let style = Style {
            stroke: "#00e08a",
            title: &said,
            ..Style::default()
        };
        drawing.outline((left, top), (right - left, bottom - top), 3.0, &style);
        // Above the box if there is room.
        let height = 28.0;
        let y = if top >= height { top - height } else { bottom };
        drawing.label((left, y), height, &said);
    }
    Ok(drawing.svg())
}

fn jpeg(rgb: &[u8], region: Region) -> Result<Vec<u8>, ImageError> {
    let mut bytes = Vec::new();
    let mut encoder = JpegEncoder::new_with_quality(&mut bytes, QUALITY);
    encoder.encode(rgb, region.width, region.height, ExtendedColorType::Rgb8)?;
    Ok(bytes)
}

/// Shares of the exits at each load.
fn depth(role: &CameraRole, runs: &[Run]) -> Figure {
    let group = |run: &Run| {
        let row = run.rows.iter().find(|row| row.now.task == role.task)?;
        let counts = &row.now.exits;
        let all: u64 = counts.iter().sum();
        let part = |(exit, count): (usize, &u64)| {
            let percent = *count as f64 * 100.0 / all.max(1) as f64;
            (percent, Colour::of_exit(exit, EXITS.len()))
        };
        let name = format!("{} x", rounded(run.overload));
        Some((name, counts.iter().enumerate().map(part).collect()))
    };
    let shares = Shares {
        of: "answers".to_owned(),
        groups: runs.iter().filter_map(group).collect(),
    };
    Figure::new(role.task, shares.svg())
}

/// What a run's figures are of.
fn conditions(run: &Run) -> String {
    let summary = &run.summary;
    format!(
        "{} s on board `{}`, device {}; stalls of the machine over 1 ms: {} (longest {:.1} ms).",
        (summary.seconds * 10.0).round() / 10.0,
        summary.board,
        summary.device,
        summary.host_stalls,
        summary.host_stall_us_max as f64 / 1000.0,
    )
}
