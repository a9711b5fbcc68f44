//! What locking a process's memory costs where a driver of a GPU is loaded, which reserves much address space: locked before
//! the driver starts, or after.

use std::process::{Command, Stdio};

use punctual_device_cuda::driver::Context;
use punctual_platform::clock;
use punctual_platform::memory::{self, Usage};
use serde::{Deserialize, Serialize};

use super::super::result::Sheet;
use super::super::step::{Session, StepError};

/// When memory is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LockOrder {
    Never,
    /// As the daemon does: what is mapped later is locked, too.
    BeforeTheDriver,
    AfterTheContext,
}

/// What a process had then.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Found {
    /// Whether the kernel allowed to lock.
    locked: bool,
    locked_mib: u64,
    resident_mib: u64,
    /// How long `cuInit` took, the context, and locking.
    init_ms: f64,
    context_ms: f64,
    lock_ms: f64,
}

/// In each order, in a process of its own.
pub fn sheet(session: &Session<'_>) -> Result<Sheet, StepError> {
    let headings = [
        "locked",
        "locked, MiB",
        "resident, MiB",
        "cuInit, ms",
        "context, ms",
        "locking, ms",
    ];
    let mut sheet = Sheet::new(
        "Memory of a process that has a context and nothing else",
        &headings,
        1,
    );
    for (name, order) in [
        ("never", LockOrder::Never),
        ("before the driver starts", LockOrder::BeforeTheDriver),
        ("after the context is made", LockOrder::AfterTheContext),
    ] {
        let found = measured(session, order)?;
        let name = if found.locked || order == LockOrder::Never {
            name.to_owned()
        } else {
            format!("{name} (not allowed here)")
        };
        let ms = |ms: f64| format!("{ms:.1}");
        sheet.row([
            name,
            found.locked_mib.to_string(),
            found.resident_mib.to_string(),
            ms(found.init_ms),
            ms(found.context_ms),
            ms(found.lock_ms),
        ]);
    }
    Ok(sheet)
}

fn measured(session: &Session<'_>, order: LockOrder) -> Result<Found, StepError> {
    use clap::ValueEnum as _;
    let name = order.to_possible_value().expect("none is hidden");
    let program = std::env::current_exe().map_err(StepError::Process)?;
    let output = Command::new(program)
        .args(["gpu", "--lock-order", name.get_name(), "--device"])
        .arg(session.device.to_string())
        .arg("--out")
        .arg(session.folder.path())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .map_err(StepError::Process)?;
    serde_json::from_slice(&output.stdout).map_err(|_| StepError::Started(output.status))
}

/// What the process of one order does: prints what it had as JSON.
pub fn in_this_process(session: &Session<'_>, order: LockOrder) -> Result<String, StepError> {
    let (mut locked, mut lock_ms) = (false, 0.0);
    let mut lock = || {
        let start = clock::now_ns();
        locked = memory::lock_all().is_ok();
        lock_ms = (clock::now_ns() - start) as f64 / 1e6;
    };
    if order == LockOrder::BeforeTheDriver {
        lock();
    }
    let start = clock::now_ns();
    let gpu = session.gpu()?;
    let init_ms = (clock::now_ns() - start) as f64 / 1e6;
    let start = clock::now_ns();
    let _context = Context::retain(gpu)?;
    let context_ms = (clock::now_ns() - start) as f64 / 1e6;
    if order == LockOrder::AfterTheContext {
        lock();
    }
    let usage = Usage::now();
    let found = Found {
        locked,
        locked_mib: usage.locked_bytes >> 20,
        resident_mib: usage.resident_bytes >> 20,
        init_ms,
        context_ms,
        lock_ms,
    };
    Ok(serde_json::to_string(&found).expect("plain data"))
}
