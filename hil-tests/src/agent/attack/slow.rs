//! Clients that make every thread wait that touches their memory or wakes them: slow punches, pages locked by a collapse,
//! and crowds in the kernel's queue of the bell.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use nix::fcntl::{FallocateFlags, FcntlArg, SealFlag, fallocate, fcntl};
use punctual_client::{Client, Crop, Options, PixelFormat, now_ns};

use super::{AgentError, Attack, memory, own, wire};

/// Turns of one client.
const STAY: u64 = 200;

/// The same while its memory is collapsed, which the kernel does once for each client: pages that are merged stay so.
const STAY_COLLAPSED: u64 = 40;

/// Threads that keep the idle one from running: the fewer it runs, the longer it holds the locks of pages.
const BUSY: usize = 4;

/// Submissions between two looks at the time.
const BURST: u64 = 1000;

/// Words among which one of the bell's bucket is looked for.
const CANDIDATES: usize = 8192;

/// How long a wait lasts at most for each of the crowd, in ns: they wait rather than begin to wait.
const WAIT_NS: u64 = 250_000;

/// Waiters of the bell while it is looked for: threads, each with as many words as a call takes.
const SCOUTS: usize = 24;

/// Maps the requests `--count` times and punches holes into them, slowly, before it says that it has mapped them and after.
pub fn punch(attack: &mut Attack<'_>) -> Result<(), AgentError> {
    let hole = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    let (over, punched) = (AtomicBool::new(false), AtomicU64::new(0));
    let in_use = AtomicU64::new(0);
    while attack.goes_on(1) {
        let Some(client) = attack.arrived_client() else {
            continue;
        };
        let file = client.requests();
        let bytes = nix::sys::stat::fstat(file).map_or(0, |stat| stat.st_size);
        let _mapped: Vec<own::Mapped> = (0..attack.options.count)
            .filter_map(|_| own::Mapped::of(file, bytes as usize))
            .collect();
        over.store(false, Ordering::Relaxed);
        thread::scope(|scope| {
            scope.spawn(|| {
                own::be_idle();
                // Relaxed, here and below: the scope's end synchronises.
                while !over.load(Ordering::Relaxed) {
                    let sealed = is_sealed(file);
                    if fallocate(file, hole, 0, bytes).is_ok() {
                        punched.fetch_add(1, Ordering::Relaxed);
                        in_use.fetch_add(u64::from(sealed), Ordering::Relaxed);
                    }
                }
            });
            attack.goes_on(20);
            client.ring();
            for _ in 0..STAY {
                if !attack.goes_on(5) || wire::is_closed(&client.socket, 0) {
                    break;
                }
                attack.done.acts += 1;
            }
            over.store(true, Ordering::Relaxed);
        });
        attack.done.ended += u64::from(wire::is_closed(&client.socket, 0));
    }
    attack.done.changes += punched.into_inner();
    attack.done.holes += in_use.into_inner();
    Ok(())
}

/// Whether the daemon has sealed it for good, before it maps and uses it.
fn is_sealed(file: &OwnedFd) -> bool {
    let seals = fcntl(file, FcntlArg::F_GET_SEALS).unwrap_or(0);
    SealFlag::from_bits_retain(seals).contains(SealFlag::F_SEAL_SEAL)
}

/// Collapses the shared memory into huge pages, by an idle thread on a busy core, while its frames are served.
pub fn collapse(attack: &mut Attack<'_>) -> Result<(), AgentError> {
    let (over, collapsed) = (AtomicBool::new(false), AtomicU64::new(0));
    let collapsed_outputs = AtomicU64::new(0);
    while attack.goes_on(1) {
        let Some(mut client) = library_client(attack) else {
            continue;
        };
        let own = ["punctual-requests", "punctual-results"].map(twins_of);
        let outputs = twins_of("punctual-outputs");
        over.store(false, Ordering::Relaxed);
        thread::scope(|scope| {
            for _ in 0..BUSY {
                scope.spawn(|| {
                    own::stay_on_first_core();
                    while !over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            scope.spawn(|| {
                own::stay_on_first_core();
                own::be_idle();
                while !over.load(Ordering::Relaxed) {
                    for twin in own.iter().flatten() {
                        collapsed.fetch_add(u64::from(twin.collapse()), Ordering::Relaxed);
                        twin.give_back();
                    }
                    for twin in &outputs {
                        let merged = u64::from(twin.collapse());
                        collapsed_outputs.fetch_add(merged, Ordering::Relaxed);
                        twin.give_back();
                    }
                }
            });
            for _ in 0..STAY_COLLAPSED {
                if !attack.goes_on(5) || !client.is_connected() {
                    break;
                }
                submit(attack, &mut client);
            }
            over.store(true, Ordering::Relaxed);
        });
        attack.done.ended += u64::from(!client.is_connected());
    }
    attack.done.changes += collapsed.into_inner();
    attack.done.outputs += collapsed_outputs.into_inner();
    Ok(())
}

/// Has the kernel work on the shared memory's pages in every way that it offers, by an idle thread and another, while frames
/// are served.
pub fn advise(attack: &mut Attack<'_>) -> Result<(), AgentError> {
    let (over, advised) = (AtomicBool::new(false), AtomicU64::new(0));
    let work = |shared: &[memory::Shared], is_idle: bool| {
        if is_idle {
            own::stay_on_first_core();
            own::be_idle();
        }
        // Relaxed: the scope's end synchronises.
        while !over.load(Ordering::Relaxed) {
            // Mapped anew each time: that is a part of it.
            let done: u64 = twins(shared).iter().map(own::Mapped::advise_all).sum();
            advised.fetch_add(done, Ordering::Relaxed);
        }
    };
    while attack.goes_on(1) {
        let Some(mut client) = library_client(attack) else {
            continue;
        };
        let shared = memory::shared_of("punctual-");
        over.store(false, Ordering::Relaxed);
        thread::scope(|scope| {
            for is_idle in [true, false] {
                let shared = &shared;
                scope.spawn(move || work(shared, is_idle));
            }
            for _ in 0..STAY {
                if !attack.goes_on(5) || !client.is_connected() {
                    break;
                }
                submit(attack, &mut client);
            }
            over.store(true, Ordering::Relaxed);
        });
        attack.done.ended += u64::from(!client.is_connected());
    }
    attack.done.changes += advised.into_inner();
    Ok(())
}

/// Submits frames from the future, each refused by the client's port, and never waits: there is always another to read.
pub fn be_refused(attack: &mut Attack<'_>) -> Result<(), AgentError> {
    while attack.goes_on(1) {
        let Some(mut client) = library_client(attack) else {
            continue;
        };
        while client.is_connected() && attack.goes_on(0) {
            for _ in 0..BURST {
                if let Ok(Some(slot)) = client.slot(Some(0)) {
                    let captured_ns = now_ns() + 1_000_000_000;
                    let submitted = slot.submit(captured_ns, None, Crop { x: 0, y: 0 });
                    attack.done.acts += u64::from(submitted.is_ok());
                }
                while matches!(client.verdict(Some(0)), Ok(Some(_))) {}
            }
        }
        attack.done.ended += u64::from(!client.is_connected());
    }
    Ok(())
}

/// The client's shared memory of this name once more, so that it can be collapsed.
fn twins_of(name: &str) -> Vec<own::Mapped> {
    twins(&memory::shared_of(name))
}

fn twins(shared: &[memory::Shared]) -> Vec<own::Mapped> {
    let twins = shared.iter();
    let twins = twins.filter_map(|at| own::Mapped::twin_of(at.start, at.bytes as usize));
    twins.collect()
}

/// `--count` threads wait for words in the kernel's bucket of the bell, as many as a call takes each, while frames are served.
pub fn crowd_the_bucket(attack: &mut Attack<'_>) -> Result<(), AgentError> {
    while attack.goes_on(1) {
        let Some(mut client) = library_client(attack) else {
            continue;
        };
        let Some(bell) = memory::results() else {
            continue;
        };
        let words = vec![0_u32; CANDIDATES].into_boxed_slice();
        let base = words.as_ptr() as u64;
        let over = AtomicBool::new(false);
        let limit_ns = attack.options.count as u64 * WAIT_NS;
        let wait = |at: u64, value: u32| {
            while !over.load(Ordering::Relaxed) {
                own::wait_often(at, value, limit_ns);
            }
        };
        let bucket = thread::scope(|scope| {
            for _ in 0..SCOUTS {
                crowd(scope, || wait(bell, own::word_at(bell)));
            }
            attack.goes_on(200);
            let found = own::slowest_to_wake((0..CANDIDATES).map(|at| base + 4 * at as u64));
            over.store(true, Ordering::Relaxed);
            found
        });
        over.store(false, Ordering::Relaxed);
        thread::scope(|scope| {
            for _ in 0..attack.options.count {
                attack.done.waiters += u64::from(crowd(scope, || wait(bucket, 0)));
            }
            // It sleeps on the bell, so that the daemon wakes it.
            super::bells::be_served(attack, &mut client);
            over.store(true, Ordering::Relaxed);
        });
        attack.done.ended += u64::from(!client.is_connected());
        drop(words);
    }
    Ok(())
}

/// Starts a thread that only waits; whether that was possible.
fn crowd<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    waits: impl FnOnce() + Send + 'scope,
) -> bool {
    let thread = thread::Builder::new().stack_size(super::bells::STACK);
    thread.spawn_scoped(scope, waits).is_ok()
}

fn library_client(attack: &mut Attack<'_>) -> Option<Client> {
    let options = &attack.options;
    let wanted = Options::new(&options.socket, &options.task, PixelFormat::Rgb8).reconnect(false);
    let client = wanted.open(Some(now_ns() + 1_000_000_000)).ok()?;
    attack.done.admitted += 1;
    Some(client)
}

fn submit(attack: &mut Attack<'_>, client: &mut Client) {
    if let Ok(Some(slot)) = client.slot(Some(0)) {
        let submitted = slot.submit(now_ns(), None, Crop { x: 0, y: 0 });
        attack.done.acts += u64::from(submitted.is_ok());
    }
    while matches!(client.verdict(Some(now_ns())), Ok(Some(_))) {}
}
