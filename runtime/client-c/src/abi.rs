//! The structures and numbers of `punctual.h`, field by field as there. `tests/header.rs` compares.

use std::ffi::{c_char, c_void};
use std::os::fd::RawFd;

use punctual_client::{
    Element, Failure, Outputs, PartCrop, PixelFormat, Rejection, Response, StreamTerms, Verdict,
};

pub const FOREVER: u64 = u64::MAX;
pub const NO_RECONNECT: u32 = 1;

/// `punctual_options`
#[repr(C)]
#[derive(Debug)]
pub struct Options {
    /// The size that the program was compiled with.
    pub size: u32,
    /// `PUNCTUAL_RGB8`, ...
    pub format: u32,
    pub socket: *const c_char,
    pub task: *const c_char,
    pub spin_ns: u64,
    /// [`NO_RECONNECT`] or 0.
    pub flags: u32,
    /// Of the program's own layout; 0: the manifest's layout.
    pub row_stride: u32,
    /// As in [`Terms`].
    pub offset: u32,
    /// As in [`Terms`].
    pub chroma_offset: u32,
    /// As in [`Terms`].
    pub chroma_stride: u32,
    pub buffer_count: u32,
    /// The program's own memory for frames.
    pub buffers: *const RawFd,
}

/// `punctual_terms`
#[repr(C)]
#[derive(Debug)]
pub struct Terms {
    pub format: u32,
    pub width: u32,
    pub height: u32,
    pub row_stride: u32,
    pub chroma_offset: u32,
    pub chroma_stride: u32,
    pub crop_width: u32,
    pub crop_height: u32,
    pub slots: u32,
    pub results: u32,
    pub offset: u32,
    pub reserved: u32,
}

/// `punctual_slot_t`
#[repr(C)]
#[derive(Debug)]
pub struct SlotView {
    pub pixels: *mut u8,
    pub bytes: usize,
    pub token: u64,
    pub index: u32,
    pub reserved: u32,
}

/// `punctual_request`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub captured_ns: u64,
    pub deadline_ns: u64,
    pub crop_x: u32,
    pub crop_y: u32,
}

/// `punctual_result`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub sequence: u64,
    pub captured_ns: u64,
    pub deadline_ns: u64,
    pub finished_ns: u64,
    pub verdict: u8,
    pub reason: u8,
    pub answered: u8,
    pub exit: u8,
    pub class_index: u16,
    pub confidence: u16,
    pub slot: u32,
    pub has_class: u8,
    pub has_confidence: u8,
    pub outputs: u8,
    pub not_finite: u8,
    pub is_final: u8,
    pub part: u8,
    pub task: u16,
    pub left_out: u16,
    pub reserved: u16,
    pub crop_x: u16,
    pub crop_y: u16,
    pub crop_width: u16,
    pub crop_height: u16,
}

pub const RANK_MAX: usize = 8;

/// `punctual_tensor`
#[repr(C)]
#[derive(Debug)]
pub struct TensorView {
    pub name: *const c_char,
    pub data: *const c_void,
    pub bytes: usize,
    pub element: u32,
    pub rank: u32,
    pub shape: [u32; RANK_MAX],
    pub scale: f32,
    pub zero: i32,
}

/// The element's number, and what a step is worth from where on.
#[must_use]
pub fn element(element: Element) -> (u32, f32, i32) {
    match element {
        Element::F32 => (0, 1.0, 0),
        Element::I32 => (1, 1.0, 0),
        Element::Bool => (2, 1.0, 0),
        Element::U8 { scale, zero } => (3, scale, zero.into()),
        Element::I8 { scale, zero } => (4, scale, zero.into()),
    }
}

/// `punctual_callback`
pub type Callback = Option<unsafe extern "C" fn(*const Outcome, *mut c_void)>;

const FORMATS: &[(u32, PixelFormat)] = &[
    (1, PixelFormat::Rgb8),
    (2, PixelFormat::Nv12),
    (3, PixelFormat::Bgr8),
    (4, PixelFormat::Gray8),
    (5, PixelFormat::Yuyv),
    (6, PixelFormat::Gray16),
    (7, PixelFormat::Rgba8),
    (8, PixelFormat::Tensor),
    (9, PixelFormat::Uyvy),
];

#[must_use]
pub fn format(number: u32) -> Option<PixelFormat> {
    let found = FORMATS.iter().find(|(code, _)| *code == number);
    found.map(|(_, format)| *format)
}

fn format_number(format: PixelFormat) -> u32 {
    let found = FORMATS.iter().find(|(_, known)| *known == format);
    found.map_or(0, |(code, _)| *code)
}

impl From<&StreamTerms> for Terms {
    fn from(terms: &StreamTerms) -> Self {
        let frame = &terms.frame;
        Self {
            format: format_number(frame.format),
            width: frame.width,
            height: frame.height,
            row_stride: frame.row_stride,
            chroma_offset: frame.chroma_offset,
            chroma_stride: frame.chroma_stride,
            crop_width: terms.crop_width,
            crop_height: terms.crop_height,
            slots: u32::from(terms.slots),
            results: terms.results,
            offset: frame.offset,
            reserved: 0,
        }
    }
}

impl From<&Response> for Outcome {
    fn from(response: &Response) -> Self {
        let record = response.record();
        let (verdict, reason) = numbers(record.verdict);
        let answer = record.answer;
        let (class, confidence) = answer.map_or((None, None), |a| (a.class, a.confidence));
        let outputs = response.outputs().map_or(0, Outputs::len);
        let crop = record.part.map_or(PartCrop::default(), |part| part.crop);
        Self {
            sequence: record.sequence,
            captured_ns: record.captured_ns,
            deadline_ns: record.deadline_ns,
            finished_ns: record.finished_ns,
            verdict,
            reason,
            answered: u8::from(answer.is_some()),
            exit: answer.map_or(0, |answer| answer.exit),
            class_index: class.unwrap_or(0),
            confidence: confidence.unwrap_or(0),
            slot: u32::from(record.slot),
            has_class: u8::from(class.is_some()),
            has_confidence: u8::from(confidence.is_some()),
            outputs: u8::try_from(outputs).unwrap_or(u8::MAX),
            not_finite: u8::from(answer.is_some_and(|answer| answer.not_finite)),
            is_final: u8::from(record.is_final),
            part: record.part.map_or(0, |part| part.number),
            task: response.task(),
            left_out: record.left_out,
            reserved: 0,
            crop_x: crop.x,
            crop_y: crop.y,
            crop_width: crop.width,
            crop_height: crop.height,
        }
    }
}

/// The verdict's and the reason's number.
#[must_use]
pub fn numbers(verdict: Verdict) -> (u8, u8) {
    match verdict {
        Verdict::OnTime => (1, 0),
        Verdict::Late => (2, 0),
        Verdict::Rejected(Rejection::LateOnArrival) => (3, 1),
        Verdict::Rejected(Rejection::NoSlack) => (3, 2),
        Verdict::Rejected(Rejection::QueueFull) => (3, 3),
        Verdict::Rejected(Rejection::Draining) => (3, 4),
        Verdict::Rejected(Rejection::CapturedInFuture) => (3, 5),
        Verdict::Rejected(Rejection::Quota) => (3, 6),
        Verdict::Rejected(Rejection::Superseded) => (3, 7),
        Verdict::Rejected(Rejection::Shedding) => (3, 8),
        Verdict::Rejected(Rejection::NoArea) => (3, 9),
        Verdict::Rejected(Rejection::NotReady) => (3, 10),
        Verdict::Failed(Failure::Device) => (4, 1),
        Verdict::Failed(Failure::Payload) => (4, 2),
        Verdict::Failed(Failure::ClientGone) => (4, 3),
        Verdict::Failed(Failure::Shed) => (4, 4),
        Verdict::Failed(Failure::NotFinite) => (4, 5),
        Verdict::Failed(Failure::Vector) => (4, 6),
        Verdict::Failed(Failure::Starved) => (4, 7),
        Verdict::Failed(Failure::DaemonGone) => (4, 255),
    }
}
