//! From where frames are prepared, and what of them is copied.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{Daemon, Folder, MANIFEST, assert_accounts, connect, result, submit};
use punctual_ipc::internals::Fields;
use punctual_ipc::{ClientChannel, Crop, FrameSpec, Hello, PixelFormat};
use punctual_platform::clock;
use punctual_platform::shared_memory::{MemoryFile, Seals};

const FRAMES: u64 = 3;

/// Of `watch`, whose frames are NV12, at an even position.
const CROP_BYTES: u64 = 192 * 192 * 3 / 2;

/// Buffers with these seals besides the one that each needs.
fn buffers(seals: Option<Seals>) -> Vec<OwnedFd> {
    let frame = FrameSpec::packed(PixelFormat::Nv12, 320, 240);
    let bytes = usize::try_from(frame.bytes()).expect("a small frame");
    let buffer = |_| {
        let file = MemoryFile::create(c"camera", bytes).expect("memory");
        file.allocate().expect("memory");
        if let Some(seals) = seals {
            file.seal(seals).expect("a file of our own");
        }
        file.into()
    };
    (0..2).map(buffer).collect()
}

/// Has frames in these buffers answered.
fn ask_with(daemon: &Daemon, buffers: &[OwnedFd]) {
    let borrowed: Vec<BorrowedFd<'_>> = buffers.iter().map(AsFd::as_fd).collect();
    let hello = Hello::new("watch", PixelFormat::Nv12);
    let client = ClientChannel::connect_with_buffers(&daemon.socket(), &hello, &borrowed);
    let mut client = client.expect("the manifest allows it");
    for _ in 0..FRAMES {
        let claim = client.claim_at(1).expect("its last frame is done");
        let corner = Crop { x: 0, y: 0 };
        let submitted = client.submit(claim, clock::now_ns(), None, corner);
        submitted.expect("submitted");
        assert!(result(&mut client).answer.is_some());
    }
    drop(client);
    daemon.report_when(|report| report.clients.in_use == 0);
}

#[test]
fn no_byte_is_copied_of_frames_in_slots_and_in_memory_that_no_hole_can_be_punched_into() {
    let manifest = MANIFEST.replace("[[task]]", "[[task]]\nimport_buffers = true");
    let daemon = Daemon::start(&manifest);
    let mut front = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    let mut watch = connect(&daemon.socket(), "watch", PixelFormat::Nv12);
    for _ in 0..FRAMES {
        for client in [&mut front, &mut watch] {
            submit(client);
            result(client);
        }
    }
    drop((front, watch));
    daemon.report_when(|report| report.clients.in_use == 0);
    ask_with(&daemon, &buffers(Some(Seals::FUTURE_WRITE)));
    ask_with(&daemon, &buffers(Some(Seals::WRITE)));
    let report = daemon.report();
    for task in &report.tasks {
        assert_eq!(task.copied_bytes, 0, "{task:?}");
    }
    assert_eq!(report.tasks[1].prepared, 3 * FRAMES);
    // What its owner can take away is copied.
    ask_with(&daemon, &buffers(None));
    let report = daemon.stop();
    assert_accounts(&report);
    assert_eq!(report.tasks[1].prepared, 4 * FRAMES);
    assert_eq!(report.tasks[1].copied_bytes, FRAMES * CROP_BYTES);
}

#[test]
fn frames_are_copied_where_what_the_network_saw_is_recorded() {
    let folder = Folder::with("");
    let directory = folder.path("recordings");
    let recorder =
        format!("[recorder]\nmode = \"all\"\npayloads = \"crops\"\ndirectory = {directory:?}\n");
    folder.write("manifest.toml", format!("{recorder}{MANIFEST}").as_bytes());
    let daemon = Daemon::start_in(folder);
    let mut client = connect(&daemon.socket(), "watch", PixelFormat::Nv12);
    let mut slot = client.slot().expect("a free slot");
    slot.pixels().fill(128);
    let corner = Crop { x: 0, y: 0 };
    slot.submit(clock::now_ns(), None, corner)
        .expect("submitted");
    result(&mut client);
    drop(client);
    let report = daemon.stop();
    assert_eq!(report.tasks[1].copied_bytes, CROP_BYTES);
}

#[test]
fn a_client_that_writes_to_its_frames_all_the_time_disturbs_nobody() {
    const FRAMES: u64 = 60;
    let daemon = Daemon::start(MANIFEST);
    let mut restless = connect(&daemon.socket(), "watch", PixelFormat::Nv12);
    let mut front = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    let fields = Fields::of(&restless);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let first = fields.vectors.next_multiple_of(4096);
            let last = fields.requests.bytes() - 8;
            let mut rounds = 0_u64;
            while !done.load(Ordering::Relaxed) {
                rounds += 1;
                for at in (first..last).step_by(8) {
                    let value = (at as u64 ^ rounds).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                    fields.requests.write_word(at, value);
                }
            }
            rounds
        });
        for _ in 0..FRAMES {
            let slot = restless.slot().expect("a free slot");
            let crop = Crop { x: 3, y: 5 };
            slot.submit(clock::now_ns(), None, crop).expect("submitted");
            submit(&mut front);
            assert!(result(&mut restless).answer.is_some());
            result(&mut front);
        }
        done.store(true, Ordering::Relaxed);
        assert!(writer.join().expect("it only writes") > 0);
    });
    drop((restless, front));
    let report = daemon.stop();
    assert_accounts(&report);
    for task in &report.tasks {
        assert_eq!(
            (task.submitted, task.failed.total()),
            (FRAMES, 0),
            "{task:?}"
        );
        assert_eq!(task.copied_bytes, 0, "{task:?}");
    }
    assert_eq!(report.channel_faults, 0, "{report:?}");
}
