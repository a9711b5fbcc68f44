//! The functions of `punctual_decode.h`, which documents them.

pub mod abi;
mod tensors;

use std::cell::RefCell;
use std::ffi::c_int;

use punctual_decode::{
    Activation, AnchorHead, Anchors, BoxHead, DecodeError, DefaultBoxes, Detection, Detections,
    DistributionHead, GridAnchors, HeatMaps, KeyPoint, Layout, LevelTensors, Mask, PeakHead,
    Prototypes, Rect, Rows, SetHead, SetScores, Size,
};

use crate::abi::{Outcome, TensorView};
use crate::handle::Handle;
use crate::status::{Error, NOTHING, OK, Status, guarded};
use crate::{given, put, with};
use abi::{Found, FrameView, Head, Map, MaskPlace, Point};
use tensors::{Floats, array, array_mut, floats, head, whole};

thread_local! {
    /// Of the frame before: its memory is kept.
    static DETECTIONS: RefCell<Detections> = RefCell::default();
}

/// Where a program wants its detections.
struct Destination {
    found: *mut Found,
    room: usize,
    count: *mut usize,
}

impl Destination {
    /// Runs a decoder, and copies what it finds.
    ///
    /// # Safety
    /// The pointers are as the header says.
    unsafe fn fill(
        self,
        decode: impl FnOnce(&mut Detections) -> Result<(), DecodeError>,
    ) -> Result<Status, Error> {
        // SAFETY: the caller's duty.
        let found = unsafe { array_mut(self.found, self.room, "found") }?;
        let filled = DETECTIONS.with_borrow_mut(|detections| {
            decode(detections)?;
            let places = detections.places().iter();
            let pairs = detections.iter().zip(places);
            let filled = found.len().min(detections.len());
            for (to, (detection, place)) in found.iter_mut().zip(pairs) {
                *to = Found::new(detection, *place);
            }
            Ok::<_, Error>(filled)
        })?;
        // SAFETY: the caller's duty.
        unsafe { put(self.count, "count", filled) }?;
        Ok(OK)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_get_view(
    client: *const Handle,
    result: *const Outcome,
    view: *mut FrameView,
) -> Status {
    let body = |handle: &Handle| {
        // SAFETY: as the header says.
        let result = unsafe { given(result, "result") }?;
        if view.is_null() {
            return Err(Error::Argument("view"));
        }
        let Some(found) = handle.view(result) else {
            return Ok(NOTHING);
        };
        // SAFETY: as the header says.
        unsafe { put(view, "view", FrameView::from(found)) }?;
        Ok(OK)
    };
    // SAFETY: as the header says.
    unsafe { with(client, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_view_detections(
    view: *const FrameView,
    found: *mut Found,
    count: usize,
) -> Status {
    guarded(|| {
        // SAFETY: as the header says.
        let (view, found) = unsafe { (given(view, "view")?, array_mut(found, count, "found")?) };
        let view = view.view()?;
        for one in found {
            let mut detection = [Detection {
                rect: one.rect(),
                ..Detection::default()
            }];
            view.detections(&mut detection);
            let [Detection { rect, .. }] = detection;
            let Rect {
                left,
                top,
                right,
                bottom,
            } = rect;
            *one = Found {
                left,
                top,
                right,
                bottom,
                ..*one
            };
        }
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_view_key_points(
    view: *const FrameView,
    points: *mut Point,
    count: usize,
) -> Status {
    guarded(|| {
        // SAFETY: as the header says.
        let (view, points) = unsafe { (given(view, "view")?, array_mut(points, count, "points")?) };
        let view = view.view()?;
        for point in points {
            (point.x, point.y) = view.to_frame(point.x, point.y);
        }
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_decode_rows(
    detections: *const TensorView,
    number: *const TensorView,
    threshold: f32,
    found: *mut Found,
    room: usize,
    count: *mut usize,
) -> Status {
    let to = Destination { found, room, count };
    guarded(|| {
        // SAFETY: as the header says.
        let rows = unsafe { floats(detections, "detections") }?;
        // SAFETY: as the header says.
        let number = unsafe { whole(number, "number") }?;
        let head = Rows { threshold };
        // SAFETY: as the header says.
        unsafe { to.fill(|detections| head.decode(rows.values, number, detections)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_decode_boxes(
    given_head: *const Head,
    boxes: *const TensorView,
    scores: *const TensorView,
    found: *mut Found,
    room: usize,
    count: *mut usize,
) -> Status {
    let to = Destination { found, room, count };
    guarded(|| {
        // SAFETY: as the header says.
        let given = unsafe { head(given_head) }?;
        // SAFETY: as the header says.
        let (boxes, scores) = unsafe { (floats(boxes, "boxes")?, floats(scores, "scores")?) };
        let layout = given.layout()?;
        let head = BoxHead {
            places: boxes.values.len() / 4,
            form: given.form()?,
            classes: scores.channels(layout)?,
            activation: given.activation()?,
            background: given.background()?,
            layout,
            input: given.input(),
            keep: given.keep(room)?,
        };
        // SAFETY: as the header says.
        unsafe { to.fill(|detections| head.decode(boxes.values, scores.values, detections)) }
    })
}

/// The maps, and what their `values` point to.
///
/// # Safety
/// As for [`punctual_anchors_ssd`].
unsafe fn maps<'a>(first: *const Map, count: usize) -> Result<(Vec<Size>, Vec<&'a [f64]>), Error> {
    // SAFETY: the caller's duty.
    let maps = unsafe { array(first, count, "maps") }?;
    let mut values = Vec::with_capacity(maps.len());
    for map in maps {
        // SAFETY: the caller's duty.
        values.push(unsafe { array(map.values, map.count, "maps.values") }?);
    }
    let size = |map: &Map| Size {
        width: map.width,
        height: map.height,
    };
    Ok((maps.iter().map(size).collect(), values))
}

/// Gives the program anchors.
///
/// # Safety
/// Null, or valid for writing.
unsafe fn hand_over(anchors: Anchors, to: *mut *mut Anchors) -> Result<Status, Error> {
    if to.is_null() {
        return Err(Error::Argument("anchors"));
    }
    // SAFETY: the caller's duty.
    unsafe { put(to, "anchors", Box::into_raw(Box::new(anchors))) }?;
    Ok(OK)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_anchors_ssd(
    given_head: *const Head,
    first: *const Map,
    count: usize,
    last_scale: f64,
    clip: c_int,
    anchors: *mut *mut Anchors,
) -> Status {
    guarded(|| {
        // SAFETY: as the header says.
        let given = unsafe { head(given_head) }?;
        // SAFETY: as the header says.
        let (sizes, ratios) = unsafe { maps(first, count) }?;
        // SAFETY: as the header says.
        let all = unsafe { array(first, count, "maps") }?;
        let scales = all.iter().map(|map| map.scale).chain([last_scale]);
        let steps: Vec<f64> = all.iter().map(|map| map.step).collect();
        let spec = DefaultBoxes {
            input: given.input(),
            maps: &sizes,
            aspect_ratios: &ratios,
            scales: &scales.collect::<Vec<f64>>(),
            steps: steps.iter().any(|step| *step != 0.0).then_some(&steps),
            clip: abi::choice(clip, "clip")?,
        };
        // SAFETY: as the header says.
        unsafe { hand_over(spec.anchors()?, anchors) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_anchors_grid(
    given_head: *const Head,
    first: *const Map,
    count: usize,
    ratios: *const f64,
    ratio_count: usize,
    anchors: *mut *mut Anchors,
) -> Status {
    guarded(|| {
        // SAFETY: as the header says.
        let given = unsafe { head(given_head) }?;
        // SAFETY: as the header says.
        let (maps, sizes) = unsafe { maps(first, count) }?;
        // SAFETY: as the header says.
        let aspect_ratios = unsafe { array(ratios, ratio_count, "ratios") }?;
        let spec = GridAnchors {
            input: given.input(),
            maps: &maps,
            sizes: &sizes,
            aspect_ratios,
        };
        // SAFETY: as the header says.
        unsafe { hand_over(spec.anchors()?, anchors) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_anchors_of(
    rects: *const f32,
    count: usize,
    levels: *const usize,
    level_count: usize,
    anchors: *mut *mut Anchors,
) -> Status {
    guarded(|| {
        let numbers = count.checked_mul(4).ok_or(Error::Argument("count"))?;
        // SAFETY: as the header says.
        let numbers = unsafe { array(rects, numbers, "rects") }?;
        // SAFETY: as the header says.
        let levels = unsafe { array(levels, level_count, "levels") }?;
        let rect = |&[left, top, right, bottom]: &[f32; 4]| Rect {
            left,
            top,
            right,
            bottom,
        };
        let rects = numbers.as_chunks().0.iter().map(rect).collect();
        let made = Anchors::new(rects, levels.to_vec())?;
        // SAFETY: as the header says.
        unsafe { hand_over(made, anchors) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_anchor_count(anchors: *const Anchors) -> usize {
    // SAFETY: as the header says.
    let anchors = unsafe { anchors.as_ref() };
    anchors.map_or(0, |anchors| anchors.rects().len())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_anchor_rects(
    anchors: *const Anchors,
    rects: *mut f32,
    count: usize,
) -> Status {
    guarded(|| {
        // SAFETY: as the header says.
        let made = unsafe { given(anchors, "anchors") }?.rects();
        if count < made.len() {
            let (needed, room) = (made.len(), count);
            return Err(Error::Short { needed, room });
        }
        // SAFETY: as the header says; fewer than there is room for.
        let to = unsafe { array_mut(rects, 4 * made.len(), "rects") }?;
        for (to, rect) in to.as_chunks_mut().0.iter_mut().zip(made) {
            *to = [rect.left, rect.top, rect.right, rect.bottom];
        }
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_release_anchors(anchors: *mut Anchors) {
    guarded(|| {
        if !anchors.is_null() {
            // SAFETY: made by one of the functions above, and not released before, as the header says.
            drop(unsafe { Box::from_raw(anchors) });
        }
        Ok(OK)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_decode_anchors(
    given_head: *const Head,
    anchors: *const Anchors,
    boxes: *const TensorView,
    scores: *const TensorView,
    found: *mut Found,
    room: usize,
    count: *mut usize,
) -> Status {
    let to = Destination { found, room, count };
    guarded(|| {
        // SAFETY: as the header says.
        let (spec, anchors) = unsafe { (head(given_head)?, given(anchors, "anchors")?) };
        // SAFETY: as the header says.
        let (boxes, scores) = unsafe { (floats(boxes, "boxes")?, floats(scores, "scores")?) };
        let layout = spec.layout()?;
        let head = AnchorHead {
            anchors,
            classes: scores.channels(layout)?,
            weights: spec.weights,
            activation: spec.activation()?,
            background: spec.background()?,
            layout,
            input: spec.input(),
            keep: spec.keep(room)?,
        };
        // SAFETY: as the header says.
        unsafe { to.fill(|detections| head.decode(boxes.values, scores.values, detections)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_decode_distances(
    given_head: *const Head,
    strides: *const u32,
    levels: usize,
    boxes: *const TensorView,
    scores: *const TensorView,
    centerness: *const TensorView,
    tensors: usize,
    found: *mut Found,
    room: usize,
    count: *mut usize,
) -> Status {
    let to = Destination { found, room, count };
    guarded(|| {
        // SAFETY: as the header says.
        let (spec, strides) = unsafe { (head(given_head)?, array(strides, levels, "strides")?) };
        // SAFETY: as the header says.
        let boxes = unsafe { all_floats(boxes, tensors, "boxes") }?;
        // SAFETY: as the header says.
        let scores = unsafe { all_floats(scores, tensors, "scores") }?;
        let centerness = if centerness.is_null() {
            Vec::new()
        } else {
            // SAFETY: as the header says.
            unsafe { all_floats(centerness, tensors, "centerness") }?
        };
        let layout = spec.layout()?;
        let channels = |tensors: &[Floats<'_>]| {
            let first = tensors.first().ok_or(Error::Argument("tensors"))?;
            first.channels(layout)
        };
        let head = DistributionHead {
            levels: DistributionHead::levels(spec.input(), strides),
            bins: channels(&boxes)? / 4,
            classes: channels(&scores)?,
            activation: spec.activation()?,
            layout,
            centre: spec.centre,
            input: spec.input(),
            keep: spec.keep(room)?,
        };
        let level = |at: usize| LevelTensors {
            boxes: boxes[at].values,
            scores: scores[at].values,
            centerness: centerness.get(at).map(|tensor| tensor.values),
        };
        let tensors: Vec<_> = (0..tensors).map(level).collect();
        // SAFETY: as the header says.
        unsafe { to.fill(|detections| head.decode(&tensors, detections)) }
    })
}

/// An array of tensors.
///
/// # Safety
/// Null, or `count` tensors as for [`floats`].
unsafe fn all_floats<'a>(
    first: *const TensorView,
    count: usize,
    name: &'static str,
) -> Result<Vec<Floats<'a>>, Error> {
    // SAFETY: the caller's duty.
    let tensors = unsafe { array(first, count, name) }?;
    let tensors = tensors.iter();
    // SAFETY: the caller's duty.
    tensors
        .map(|tensor| unsafe { floats(tensor, name) })
        .collect()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_decode_set(
    given_head: *const Head,
    boxes: *const TensorView,
    logits: *const TensorView,
    found: *mut Found,
    room: usize,
    count: *mut usize,
) -> Status {
    let to = Destination { found, room, count };
    guarded(|| {
        // SAFETY: as the header says.
        let given = unsafe { head(given_head) }?;
        // SAFETY: as the header says.
        let (boxes, logits) = unsafe { (floats(boxes, "boxes")?, floats(logits, "logits")?) };
        let [queries, classes] = logits.sides()?;
        let scores = match given.activation()? {
            Activation::Softmax => SetScores::Softmax,
            Activation::Sigmoid => SetScores::Sigmoid { most: room },
            Activation::None => return Err(Error::Argument("head.activation")),
        };
        let head = SetHead {
            queries,
            classes,
            scores,
            threshold: given.threshold,
            input: given.input(),
        };
        // SAFETY: as the header says.
        unsafe { to.fill(|detections| head.decode(boxes.values, logits.values, detections)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_decode_peaks(
    given_head: *const Head,
    stride: f32,
    heat: *const TensorView,
    sizes: *const TensorView,
    offsets: *const TensorView,
    found: *mut Found,
    room: usize,
    count: *mut usize,
) -> Status {
    let to = Destination { found, room, count };
    guarded(|| {
        // SAFETY: as the header says.
        let given = unsafe { head(given_head) }?;
        // SAFETY: as the header says.
        let (heat, sizes) = unsafe { (floats(heat, "heat")?, floats(sizes, "sizes")?) };
        let offsets = if offsets.is_null() {
            None
        } else {
            // SAFETY: as the header says.
            Some(unsafe { floats(offsets, "offsets") }?.values)
        };
        let [classes, rows, columns] = heat.sides()?;
        let head = PeakHead {
            classes,
            rows,
            columns,
            stride,
            logits: match given.activation()? {
                Activation::Sigmoid => true,
                Activation::None => false,
                Activation::Softmax => return Err(Error::Argument("head.activation")),
            },
            threshold: given.threshold,
            limit: room,
        };
        // SAFETY: as the header says.
        unsafe { to.fill(|found| head.decode(heat.values, sizes.values, offsets, found)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_decode_key_points(
    given_head: *const Head,
    refinement: u32,
    maps: *const TensorView,
    points: *mut Point,
    room: usize,
    count: *mut usize,
) -> Status {
    guarded(|| {
        // SAFETY: as the header says.
        let (given, maps) = unsafe { (head(given_head)?, floats(maps, "maps")?) };
        let [number, rows, columns] = maps.sides()?;
        if number > room {
            let needed = number;
            return Err(Error::Short { needed, room });
        }
        let (refinement, alignment) = abi::refinement(refinement)?;
        let head = HeatMaps {
            points: number,
            rows,
            columns,
            refinement,
            alignment,
            input: given.input(),
        };
        let mut decoded: Vec<KeyPoint> = Vec::new();
        head.decode(maps.values, &mut decoded)?;
        // SAFETY: as the header says.
        let to = unsafe { array_mut(points, room, "points") }?;
        for (to, point) in to.iter_mut().zip(&decoded) {
            *to = (*point).into();
        }
        // SAFETY: as the header says.
        unsafe { put(count, "count", decoded.len()) }?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_decode_mask(
    given_head: *const Head,
    view: *const FrameView,
    prototypes: *const TensorView,
    coefficients: *const TensorView,
    object: *const Found,
    place: *mut MaskPlace,
    likely: *mut f32,
    room: usize,
) -> Status {
    guarded(|| {
        // SAFETY: as the header says.
        let (spec, view) = unsafe { (head(given_head)?, given(view, "view")?) };
        // SAFETY: as the header says.
        let object = unsafe { given(object, "object") }?;
        // SAFETY: as the header says.
        let prototypes = unsafe { floats(prototypes, "prototypes") }?;
        // SAFETY: as the header says.
        let coefficients = unsafe { floats(coefficients, "coefficients") }?;
        let [count, rows, columns] = prototypes.sides()?;
        let head = Prototypes {
            count,
            rows,
            columns,
            input: spec.input(),
        };
        let of_object = coefficients_at(&coefficients, spec.layout()?, object.place as usize)?;
        let (rect, view) = (object.rect(), view.view()?);
        let mut mask = Mask::default();
        head.mask(prototypes.values, &of_object, &rect, &view, &mut mask)?;
        let needed = mask.probabilities.len();
        if needed > room {
            return Err(Error::Short { needed, room });
        }
        // SAFETY: as the header says; no more than there is room for.
        let to = unsafe { array_mut(likely, needed, "likely") }?;
        to.copy_from_slice(&mask.probabilities);
        let of_mask = MaskPlace {
            x: mask.x,
            y: mask.y,
            width: mask.width,
            height: mask.height,
        };
        // SAFETY: as the header says.
        unsafe { put(place, "mask", of_mask) }?;
        Ok(OK)
    })
}

fn coefficients_at(
    coefficients: &Floats<'_>,
    layout: Layout,
    place: usize,
) -> Result<Vec<f32>, Error> {
    let channels = coefficients.channels(layout)?;
    let values = coefficients.values;
    let places = values.len().checked_div(channels).unwrap_or(0);
    if place >= places {
        return Err(Error::Argument("object.place"));
    }
    let at = |channel: usize| match layout {
        Layout::Places => values[place * channels + channel],
        Layout::Channels => values[channel * places + place],
    };
    Ok((0..channels).map(at).collect())
}
