//! What a test says to the driver and asks it, in addition to CUDA's own calls.
//!
//! One exported function takes a question and gives an answer, both text: the program and the
//! library may have been built at different times, and a text that is not understood is an error
//! that tells it. [`crate::Emulator`] is the other side.
use std::fmt::Write as _;

use super::gate::{Hold, Step};
use super::memory::Kind;
use super::objects::{Progress, Record};
use super::state::{DRIVER, Device, State};
use super::{context, timed, worker};
use crate::config::{CallFault, LaunchFault};
use crate::virtual_time::Pace;

/// Answers `question`, and writes as much of the answer as there is room for.
///
/// An answer begins with `ok` or `no`, and a line or a space follows. Returns the size of the whole answer: if that is
/// more than `room`, the question can be asked again where asking changes nothing.
///
/// # Safety
/// `question` points to `bytes` bytes, `answer` to room for `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn emulated_cuda_ask(
    question: *const u8,
    bytes: usize,
    answer: *mut u8,
    room: usize,
) -> usize {
    // SAFETY: the caller's promise.
    let question = unsafe { std::slice::from_raw_parts(question, bytes) };
    let said = std::panic::catch_unwind(|| match std::str::from_utf8(question) {
        Ok(question) => respond(question),
        Err(_) => Err(Malformed),
    });
    let text = match said {
        Ok(Ok(text)) => format!("ok\n{text}"),
        Ok(Err(Malformed)) => "no".to_owned(),
        Err(_) => "no: the emulation has a defect".to_owned(),
    };
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), answer, text.len().min(room)) };
    text.len()
}

/// The question, or an item in it, is none.
struct Malformed;

type Answer = Result<String, Malformed>;

fn respond(question: &str) -> Answer {
    let (verb, rest) = question.split_once(' ').unwrap_or((question, ""));
    let words: Vec<&str> = rest.split_whitespace().collect();
    match (verb, words.as_slice()) {
        ("configure", _) => configure(rest),
        ("shut-down", []) => shut_down(),
        ("calls", [name]) => {
            let state = DRIVER.lock();
            Ok(state.calls.get(*name).copied().unwrap_or(0).to_string())
        }
        ("fail-call", [name, nth, code]) => with_state(|state| {
            state.plan_call_fault(&CallFault {
                name: (*name).to_owned(),
                nth: number(nth)?,
                code: number(code)? as u32,
            });
            Ok(String::new())
        }),
        ("fail-launch", [nth, code]) => plan_launch(nth, Some(number(code)? as u32)),
        ("hang-launch", [nth]) => plan_launch(nth, None),
        ("timed", [launch, look, empty]) => {
            let pace = Pace {
                launch_ns: number(launch)?,
                look_ns: number(look)?,
                empty_ns: number(empty)?,
            };
            with_device(|device| {
                device.timed = Some(timed::Timed::new(pace, device.config.sms()));
                Ok(String::new())
            })
        }
        ("loads", []) => with_device(|device| Ok(device.loads.to_string())),
        ("release-hangs", []) => with_device(|device| {
            device.fates.released = device.launches;
            Ok(String::new())
        }),
        ("hold", [stream, how @ ..]) => hold(stream, parse_hold(how)?),
        ("await-held", [stream]) => await_held(stream),
        ("launches", [first]) => launches(number(first)?),
        ("streams", []) => with_device(|device| Ok(streams(device))),
        ("memory", []) => with_device(|device| Ok(memory(device))),
        ("complaint", []) => with_device(|device| Ok(device.complaint.clone().unwrap_or_default())),
        ("reset-waits", []) => with_device(|device| Ok(device.primary.waits.to_string())),
        ("broken", []) => with_device(|device| {
            let code = device.primary.error.map_or(0, |code| code.0);
            Ok(code.to_string())
        }),
        _ => Err(Malformed),
    }
}

fn number(word: &str) -> Result<u64, Malformed> {
    word.parse().map_err(|_| Malformed)
}

fn with_state(body: impl FnOnce(&mut State) -> Answer) -> Answer {
    let answer = body(&mut DRIVER.lock());
    DRIVER.notify();
    answer
}

fn with_device(body: impl FnOnce(&mut Device) -> Answer) -> Answer {
    with_state(|state| match &mut state.device {
        Some(device) => body(device),
        // As after `cuInit`, before anything was done.
        None => Ok(String::new()),
    })
}

fn configure(text: &str) -> Answer {
    let config = text.parse().map_err(|_| Malformed)?;
    shut_down()?;
    with_state(|state| {
        state.configure(config);
        Ok(String::new())
    })
}

/// Everything ends; the next `cuInit` begins anew.
fn shut_down() -> Answer {
    context::empty();
    worker::all_ended();
    with_state(|state| {
        state.device = None;
        state.config = None;
        Ok(String::new())
    })
}

fn plan_launch(nth: &str, code: Option<u32>) -> Answer {
    let nth = number(nth)?;
    with_device(|device| {
        device
            .fates
            .plan(&LaunchFault { nth, code }, device.launches);
        Ok(String::new())
    })
}

fn parse_hold(words: &[&str]) -> Result<Hold, Malformed> {
    Ok(match words {
        ["open"] => Hold::Open,
        ["now"] => Hold::Held,
        ["commands", count] => Hold::After(Step::Command, number(count)?),
        ["blocks", count] => Hold::After(Step::Block, number(count)?),
        ["checkpoints", count] => Hold::After(Step::Checkpoint, number(count)?),
        _ => return Err(Malformed),
    })
}

/// `all`: those that there are, and those that will be made.
fn hold(stream: &str, hold: Hold) -> Answer {
    if stream == "all" {
        return with_device(|device| {
            device.hold_new = hold;
            for stream in device.streams.values_mut() {
                stream.set_hold(hold);
            }
            Ok(String::new())
        });
    }
    let handle = number(stream)?;
    with_device(|device| {
        let found = device
            .streams
            .values_mut()
            .find(|stream| stream.handle() as u64 == handle);
        found.ok_or(Malformed)?.set_hold(hold);
        Ok(String::new())
    })
}

/// Waits until a stream stands still at its hold.
fn await_held(stream: &str) -> Answer {
    let handle = number(stream)?;
    let mut state = DRIVER.lock();
    loop {
        let device = state.device.as_ref().ok_or(Malformed)?;
        let found = device
            .streams
            .values()
            .find(|stream| stream.handle() as u64 == handle)
            .ok_or(Malformed)?;
        if found.is_held() {
            return Ok(String::new());
        }
        // It would never be.
        if found.hold == Hold::Open {
            return Err(Malformed);
        }
        state = DRIVER.wait(state);
    }
}

fn launches(first: u64) -> Answer {
    with_device(|device| {
        let mut text = String::new();
        for record in device.records.iter().filter(|r| r.number >= first) {
            line_of_launch(&mut text, record);
        }
        Ok(text)
    })
}

fn line_of_launch(text: &mut String, record: &Record) {
    let (grid, block) = (record.grid, record.block);
    let sms: Vec<String> = record.sms.iter().map(u32::to_string).collect();
    let progress: Progress = record.progress;
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{} {} {} {} {} {} {} {} {} {} {} {} {} {} {}",
        record.number,
        record.kernel,
        grid.x,
        grid.y,
        grid.z,
        block.x,
        block.y,
        block.z,
        record.shared_bytes,
        record.stream,
        record.priority,
        record.blocks_run(),
        record
            .began
            .map_or("-".to_owned(), |began| began.to_string()),
        progress.word(),
        if sms.is_empty() {
            "-".to_owned()
        } else {
            sms.join(",")
        },
    );
}

fn streams(device: &Device) -> String {
    device
        .streams
        .values()
        .map(|stream| {
            let held = u8::from(stream.is_held());
            let idle = u8::from(stream.is_idle());
            let done = stream.signals.instructions();
            let (handle, priority) = (stream.handle(), stream.priority);
            format!("{handle} {priority} {held} {idle} {done}\n")
        })
        .collect()
}

fn memory(device: &Device) -> String {
    let of = |kind| {
        let used = device.memory.in_use(kind);
        format!("{} {}", used.allocations, used.bytes)
    };
    [Kind::Device, Kind::Host, Kind::Registered]
        .map(of)
        .join(" ")
}
