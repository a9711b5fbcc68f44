//! Which clients are admitted, how fast, and with which frames.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};

use crate::support::{Daemon, Folder, MANIFEST, connect, result, submit};
use nix::fcntl::{FallocateFlags, fallocate};
use punctual_ipc::{
    Answer, BufferRefusal, ClientChannel, ConnectError, Crop, FrameSpec, Hello, Layout,
    PixelFormat, Refusal, Rejection, Verdict,
};
use punctual_platform::clock;
use punctual_platform::shared_memory::MemoryFile;

/// This process's user and group.
fn own() -> (u32, u32) {
    let own = std::fs::metadata("/proc/self").expect("procfs");
    (own.uid(), own.gid())
}

/// The manifest with these lines in `[daemon]`, and these in each `[[task]]`.
fn manifest(daemon: &str, task: &str) -> String {
    MANIFEST
        .replace("[daemon]", &format!("[daemon]\n{daemon}"))
        .replace("[[task]]", &format!("[[task]]\n{task}"))
}

fn refusal(daemon: &Daemon, hello: &Hello) -> Refusal {
    match ClientChannel::connect(&daemon.socket(), hello) {
        Err(ConnectError::Refused(refusal)) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn whom_neither_the_daemon_nor_the_task_names_stays_outside() {
    let (uid, gid) = own();
    let (stranger, other) = (uid + 1, gid + 1);
    let nobody = format!("allow = {{ users = [{stranger}], groups = [{other}] }}");
    let us = format!("allow = {{ users = [{stranger}], groups = [{gid}] }}");
    for (of_daemon, of_task) in [(&nobody, ""), (&us, nobody.as_str())] {
        let daemon = Daemon::start(&manifest(of_daemon, of_task));
        let hello = Hello::new("watch", PixelFormat::Nv12);
        assert_eq!(refusal(&daemon, &hello), Refusal::NotAllowed { uid, gid });
        // A user that the daemon does not know learns nothing of its tasks.
        let unknown = refusal(&daemon, &Hello::new("no-such-task", PixelFormat::Nv12));
        let is_unknown = matches!(unknown, Refusal::UnknownTask { .. });
        assert_eq!(is_unknown, of_daemon == &us, "{unknown}");
        daemon.stop();
    }
    let daemon = Daemon::start(&manifest(&us, &us));
    let mut client = connect(&daemon.socket(), "watch", PixelFormat::Nv12);
    submit(&mut client);
    result(&mut client);
    daemon.stop();
}

#[test]
fn a_process_has_no_more_streams_than_it_may() {
    let daemon = Daemon::start(&manifest("streams_per_process = 2", ""));
    let first = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    let _second = connect(&daemon.socket(), "watch", PixelFormat::Nv12);
    let hello = Hello::new("watch", PixelFormat::Nv12);
    let full = refusal(&daemon, &hello);
    assert_eq!(full, Refusal::StreamsOfProcess { limit: 2 });
    drop(first);
    daemon.report_when(|report| report.clients.in_use == 1);
    let _third = connect(&daemon.socket(), "watch", PixelFormat::Nv12);
    daemon.stop();
}

#[test]
fn what_comes_faster_than_allowed_is_refused_and_counted_and_a_newcomer_owes_nothing() {
    // Nine slots: nine at once, and then one in a hundred seconds.
    let daemon = Daemon::start(&manifest("", "rate_max_hz = 0.01"));
    for _ in 0..2 {
        let mut client = connect(&daemon.socket(), "watch", PixelFormat::Nv12);
        let of_quota = Verdict::Rejected(Rejection::Quota);
        for _ in 0..9 {
            submit(&mut client);
            assert_ne!(result(&mut client).verdict, of_quota);
        }
        for _ in 0..3 {
            let sequence = submit(&mut client);
            let refused = result(&mut client);
            assert_eq!((refused.sequence, refused.verdict), (sequence, of_quota));
        }
        drop(client);
        daemon.report_when(|report| report.clients.in_use == 0);
    }
    let report = daemon.stop();
    assert_eq!(report.tasks[1].rejected.quota, 6);
    assert_eq!(report.tasks[1].submitted, 24);
}

/// One best-effort task for each format.
fn of_all_formats() -> Folder {
    let (head, _) = MANIFEST.split_once("[[task]]").expect("tasks");
    let mut text = head.to_owned();
    for name in FORMATS.map(|(_, name)| name) {
        text.push_str(&format!(
            r#"
[[task]]
name = "{name}"
model = "signs"
partition = "main"
criticality = "best-effort"
threshold = 1.0
frame = {{ format = "{name}", width = 320, height = 240, stride = 1312, crop = [192, 192] }}
"#
        ));
    }
    Folder::with_profile(&text, |profile, _| {
        let known = profile.prepare[0].clone();
        for name in FORMATS.map(|(_, name)| name) {
            let mut entry = known.clone();
            entry.format = name.to_owned();
            profile
                .prepare
                .retain(|other| other.format != name || other.width != 320);
            profile.prepare.push(entry);
        }
    })
}

const FORMATS: [(PixelFormat, &str); 8] = [
    (PixelFormat::Rgb8, "rgb8"),
    (PixelFormat::Nv12, "nv12"),
    (PixelFormat::Bgr8, "bgr8"),
    (PixelFormat::Gray8, "gray8"),
    (PixelFormat::Yuyv, "yuyv"),
    (PixelFormat::Gray16, "gray16"),
    (PixelFormat::Rgba8, "rgba8"),
    (PixelFormat::Uyvy, "uyvy"),
];

/// The same gray picture in each format and layout: dark and light stripes, and where no pixel lies, noise.
fn draw(frame: &FrameSpec, pixels: &mut [u8]) {
    for (at, byte) in pixels.iter_mut().enumerate() {
        *byte = (at * 131 % 251) as u8;
    }
    let limited = matches!(
        frame.format,
        PixelFormat::Nv12 | PixelFormat::Yuyv | PixelFormat::Uyvy
    );
    let level = |x: usize| match (x / 16 % 2, limited) {
        (0, false) => 0,
        (0, true) => 16,
        (_, false) => 255,
        (_, true) => 235,
    };
    let row_bytes = frame.format.row_bytes(frame.width) as usize;
    for y in 0..frame.height as usize {
        let row = frame.offset as usize + y * frame.row_stride as usize;
        for (at, byte) in pixels[row..row + row_bytes].iter_mut().enumerate() {
            *byte = match frame.format {
                PixelFormat::Rgb8 | PixelFormat::Bgr8 => level(at / 3),
                PixelFormat::Gray8 | PixelFormat::Nv12 => level(at),
                PixelFormat::Yuyv if at % 2 == 1 => 128,
                PixelFormat::Uyvy if at % 2 == 0 => 128,
                PixelFormat::Yuyv | PixelFormat::Uyvy | PixelFormat::Gray16 => level(at / 2),
                PixelFormat::Rgba8 => level(at / 4),
                PixelFormat::Tensor => unreachable!("no picture"),
            };
        }
    }
    if frame.format == PixelFormat::Nv12 {
        for y in 0..frame.height as usize / 2 {
            let row = frame.chroma_offset as usize + y * frame.chroma_stride as usize;
            pixels[row..row + frame.width as usize].fill(128);
        }
    }
}

#[test]
fn every_format_in_any_layout_gives_the_same_answer() {
    let daemon = Daemon::start_in(of_all_formats());
    let mut answers = Vec::new();
    for (format, name) in FORMATS {
        let packed = FrameSpec::packed(format, 320, 240);
        // The manifest's stride is larger: there is room for a few bytes before the first.
        let moved = Layout {
            offset: 64,
            chroma_offset: packed.chroma_offset + if packed.chroma_offset > 0 { 96 } else { 0 },
            ..packed.layout()
        };
        for hello in [
            Hello::new(name, None),
            Hello::new(name, format),
            Hello::new(name, format).with_layout(packed.layout()),
            Hello::new(name, format).with_layout(moved),
        ] {
            let mut client = ClientChannel::connect(&daemon.socket(), &hello)
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            let frame = client.terms().frame;
            let mut slot = client.slot().expect("a free slot");
            draw(&frame, slot.pixels());
            let crop = Crop { x: 33, y: 7 };
            slot.submit(clock::now_ns(), None, crop).expect("submitted");
            let result = result(&mut client);
            let answer = result.answer.expect("best-effort work ends");
            let confidence = answer.confidence.expect("a classifier");
            answers.push((name, answer.class, confidence));
            drop(client);
            daemon.report_when(|report| report.clients.in_use == 0);
        }
    }
    let (_, class, confidence) = answers[0];
    for answer in &answers {
        assert_eq!(answer.1, class, "{answers:?}");
        // The network computes in floating point: formats may differ in the last digit.
        assert!(answer.2.abs_diff(confidence) < 700, "{answers:?}");
    }
    daemon.stop();
}

/// A sealed memory file with a picture in it.
fn buffer(frame: &FrameSpec) -> OwnedFd {
    let bytes = usize::try_from(frame.bytes()).expect("a small frame");
    let mut pixels = vec![0; bytes];
    draw(frame, &mut pixels);
    let file = MemoryFile::create(c"camera", bytes).expect("memory");
    let file = File::from(OwnedFd::from(file));
    file.write_all_at(&pixels, 0).expect("a writable file");
    file.into()
}

#[test]
fn a_frame_in_the_clients_own_memory_gives_the_answer_that_a_copy_of_it_gives() {
    let daemon = Daemon::start(&manifest("", "import_buffers = true"));
    let planned = FrameSpec::packed(PixelFormat::Nv12, 320, 240);
    // Larger than a slot of the plan: it is the client's memory.
    let layout = FrameSpec::strided(PixelFormat::Nv12, 320, 240, 512).layout();
    let hello = Hello::new("watch", PixelFormat::Nv12).with_layout(layout);
    let buffers = [(); 3].map(|()| buffer(&planned.with_layout(layout)));
    let borrowed = buffers.each_ref().map(AsFd::as_fd);
    let own = ClientChannel::connect_with_buffers(&daemon.socket(), &hello, &borrowed);
    let mut own = own.expect("the manifest allows it");
    assert_eq!(own.terms().slots, 3);
    let mut copied = connect(&daemon.socket(), "watch", PixelFormat::Nv12);
    let crop = Crop { x: 33, y: 7 };
    let mut slot = copied.slot().expect("a free slot");
    draw(&planned, slot.pixels());
    slot.submit(clock::now_ns(), None, crop).expect("submitted");
    let expected = result(&mut copied).answer.expect("best-effort work ends");
    for turn in 0..9 {
        let claim = own.claim_at(2 - turn % 3).expect("its last frame is done");
        own.submit(claim, clock::now_ns(), None, crop)
            .expect("submitted");
        let answer = result(&mut own).answer.expect("best-effort work ends");
        assert_eq!(answer.class, expected.class);
        let confidence = |answer: Answer| answer.confidence.expect("a classifier");
        assert!(confidence(answer).abs_diff(confidence(expected)) < 700);
    }
    // The owner takes it away: its own frames are black from then on, and nothing else happens.
    let hole = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    fallocate(&buffers[0], hole, 0, 4096 * 20).expect("its own file");
    let claim = own.claim_at(0).expect("its last frame is done");
    own.submit(claim, clock::now_ns(), None, crop)
        .expect("submitted");
    assert!(result(&mut own).answer.is_some());
    let report = daemon.stop();
    assert_eq!(report.tasks[1].failed.total(), 0);
}

#[test]
fn buffers_that_nobody_wants_or_too_many_are_refused() {
    let frame = FrameSpec::packed(PixelFormat::Nv12, 320, 240);
    let buffers: Vec<OwnedFd> = (0..10).map(|_| buffer(&frame)).collect();
    let borrowed: Vec<BorrowedFd<'_>> = buffers.iter().map(AsFd::as_fd).collect();
    for (task, expected) in [
        ("", BufferRefusal::NotWanted),
        (
            "import_buffers = true",
            BufferRefusal::TooMany {
                given: 10,
                slots: 9,
            },
        ),
    ] {
        let daemon = Daemon::start(&manifest("", task));
        let hello = Hello::new("watch", PixelFormat::Nv12);
        let refused =
            ClientChannel::connect_with_buffers(&daemon.socket(), &hello, &borrowed).unwrap_err();
        match refused {
            ConnectError::Refused(Refusal::Buffers(refusal)) => assert_eq!(refusal, expected),
            other => panic!("{other}"),
        }
        daemon.stop();
    }
}

#[test]
fn a_layout_that_cannot_be_or_has_no_room_is_refused_with_its_values() {
    let daemon = Daemon::start(MANIFEST);
    let packed = FrameSpec::packed(PixelFormat::Rgb8, 320, 240).layout();
    let wish = |layout| {
        refusal(
            &daemon,
            &Hello::new("front", PixelFormat::Rgb8).with_layout(layout),
        )
    };
    let overlapping = wish(Layout {
        row_stride: 959,
        ..packed
    });
    assert!(matches!(overlapping, Refusal::Layout(_)), "{overlapping}");
    let large = wish(Layout {
        row_stride: 1024,
        ..packed
    });
    let expected = Refusal::LayoutTooLarge {
        bytes: 239 * 1024 + 960,
        limit: 233_472,
    };
    assert_eq!(large, expected);
    daemon.stop();
}
