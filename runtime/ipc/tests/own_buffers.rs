//! Frames in imported buffers of the client: read in place, and refused by name when
//! the memory cannot be used. What its owner does to it afterwards costs its owner a frame.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::fcntl::{FallocateFlags, fallocate};
use punctual_ipc::internals::small_terms;
use punctual_ipc::{
    AdmitError, BufferRefusal, ClientChannel, ConnectError, Crop, Features, FrameSpec, Hello,
    Layout, Listener, PROTOCOL_VERSIONS, PayloadError, PixelFormat, Refusal, Rows, ServerChannel,
    StreamTerms,
};
use punctual_platform::poll::wait_readable;
use punctual_platform::shared_memory::{Access, MemoryFile, Seals};
use punctual_types::SharedBytes;

fn path() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("punctual-buffers-{}-{count}", std::process::id()))
}

/// Frames of 8x4 RGB pixels, 100 bytes into the buffer, 40 bytes from row to row.
fn terms(slots: u16) -> StreamTerms {
    let layout = Layout {
        offset: 100,
        row_stride: 40,
        chroma_offset: 0,
        chroma_stride: 0,
    };
    StreamTerms {
        slots,
        frame: FrameSpec::packed(PixelFormat::Rgb8, 8, 4).with_layout(layout),
        ..small_terms()
    }
}

const FRAME_END: usize = 100 + 3 * 40 + 24;

fn memory(bytes: usize) -> OwnedFd {
    MemoryFile::create(c"test", bytes).unwrap().into()
}

/// A client with these buffers, and what the daemon made of them.
fn shake(
    buffers: &[OwnedFd],
) -> (
    Result<ClientChannel, ConnectError>,
    Result<ServerChannel, AdmitError>,
) {
    let path = path();
    let listener = Listener::bind(&path).unwrap();
    let terms = terms(buffers.len() as u16);
    let hello = Hello::new("signs", PixelFormat::Rgb8).with_layout(terms.frame.layout());
    let borrowed: Vec<BorrowedFd<'_>> = buffers.iter().map(AsFd::as_fd).collect();
    std::thread::scope(|scope| {
        let client = scope.spawn(|| ClientChannel::connect_with_buffers(&path, &hello, &borrowed));
        assert!(wait_readable(listener.as_fd(), None));
        let connection = listener.accept().unwrap().unwrap();
        assert!(wait_readable(connection.as_fd(), None));
        let said = connection.hello().unwrap().unwrap();
        assert_eq!(usize::from(said.buffers), buffers.len());
        let server = connection.admit(&terms);
        (client.join().unwrap(), server)
    })
}

#[test]
fn frames_are_read_where_the_client_has_them_and_what_it_takes_away_reads_as_zeros() {
    let buffers = [memory(FRAME_END), memory(8192)];
    let (client, server) = shake(&buffers);
    let (mut client, (mut submissions, payload, _results)) =
        (client.unwrap(), server.unwrap().split());
    assert!(client.agreement().features.contain(Features::BUFFERS));
    let file = File::from(buffers[1].try_clone().unwrap());
    let bytes: Vec<u8> = (0..8192).map(|at| (at % 251) as u8).collect();
    file.write_all_at(&bytes, 0).unwrap();

    let mut claim = client.claim_at(1).unwrap();
    assert!(claim.pixels().is_empty(), "they are in the buffer");
    client.submit(claim, 1, None, Crop::default()).unwrap();
    assert!(client.claim_at(1).is_none());
    let taken = submissions.poll().unwrap().unwrap();
    assert_eq!(taken.slot, 1);
    let strided = Rows {
        offset: 103,
        bytes: 12,
        stride: 40,
        rows: 3,
    };
    let mut copy = [0; 36];
    payload.read(1, taken.sequence, strided, &mut copy).unwrap();
    for (row, copy) in copy.chunks(12).enumerate() {
        assert_eq!(copy, &bytes[103 + row * 40..][..12]);
    }
    let whole = Rows {
        offset: 100,
        bytes: 40,
        stride: 40,
        rows: 3,
    };
    let mut copy = [0; 120];
    payload.read(1, taken.sequence, whole, &mut copy).unwrap();
    assert_eq!(copy, bytes[100..220]);
    let beyond = Rows { rows: 5, ..strided };
    let outside = payload.read(1, taken.sequence, beyond, &mut [0; 60]);
    assert!(
        matches!(outside, Err(PayloadError::Outside { .. })),
        "{outside:?}"
    );

    let hole = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    fallocate(&file, hole, 0, 8192).unwrap();
    payload.read(1, taken.sequence, whole, &mut copy).unwrap();
    assert_eq!(copy, [0; 120]);
    assert!(payload.release(1, taken.sequence));
    assert!(client.claim_at(1).is_some());
}

#[test]
fn frames_lie_in_memory_where_no_hole_can_be_punched_any_more() {
    let holes = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    let sealed = MemoryFile::create(c"test", 8192).unwrap();
    let ours = sealed.as_fd().try_clone_to_owned().unwrap();
    let writer = sealed.map(Access::ReadWrite).unwrap();
    sealed.seal(Seals::FUTURE_WRITE).unwrap();
    let (client, server) = shake(&[memory(FRAME_END), sealed.into()]);
    let (mut client, (mut submissions, payload, _results)) =
        (client.unwrap(), server.unwrap().split());
    assert!(!payload.lies_in_memory(0) && payload.lies_in_memory(1));
    assert!(!payload.lies_in_memory(2), "there is none");
    for slot in [0, 1] {
        let claim = client.claim_at(slot).unwrap();
        client.submit(claim, 1, None, Crop::default()).unwrap();
    }
    // SAFETY: in bounds of the client's own mapping.
    unsafe { writer.as_ptr().add(FRAME_END - 1).write_volatile(77) };
    submissions.poll().unwrap().unwrap();
    let taken = submissions.poll().unwrap().unwrap();
    let last = |pages: SharedBytes<'_>| (pages.len(), pages.eight(FRAME_END - 8)[7]);
    let read = payload.in_place(1, taken.sequence, last);
    assert_eq!(read, Ok((FRAME_END, 77)));
    assert!(fallocate(&ours, holes, 0, 8192).is_err());
    assert_eq!(
        payload.in_place(0, taken.sequence - 1, last),
        Err(PayloadError::Unreadable { slot: 0 })
    );
    assert!(payload.release(1, taken.sequence));
    let released = payload.in_place(1, taken.sequence, last);
    assert!(matches!(released, Err(PayloadError::Released { .. })));
}

#[test]
fn buffers_of_no_use_are_refused_by_number_and_both_sides_know_why() {
    let shared = tempfile();
    let writable = {
        let sealed = memory(4096);
        let path = format!("/proc/self/fd/{}", sealed.as_raw_fd());
        File::options().write(true).open(path).unwrap()
    };
    for (bad, expected) in [
        (
            File::open("/dev/null").unwrap().into(),
            BufferRefusal::Kind { buffer: 1 },
        ),
        (
            File::open("/proc/self/status").unwrap().into(),
            BufferRefusal::Kind { buffer: 1 },
        ),
        (shared.into(), BufferRefusal::Unsealed { buffer: 1 }),
        (writable.into(), BufferRefusal::Unreadable { buffer: 1 }),
        (
            memory(FRAME_END - 1),
            BufferRefusal::TooSmall {
                buffer: 1,
                bytes: FRAME_END as u64 - 1,
                needed: FRAME_END as u64,
            },
        ),
    ] {
        let (client, server) = shake(&[memory(FRAME_END), bad]);
        match (client, server) {
            (
                Err(ConnectError::Refused(Refusal::Buffers(told))),
                Err(AdmitError::Buffers(found)),
            ) => assert_eq!((told, found), (expected, expected)),
            other => panic!("{other:?} instead of {expected}"),
        }
    }
}

/// A file on a file system in memory, which seals itself against seals.
fn tempfile() -> File {
    let path = PathBuf::from("/dev/shm").join(path().file_name().unwrap());
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path);
    let file = file.unwrap();
    std::fs::remove_file(path).unwrap();
    file.set_len(4096).unwrap();
    file
}

#[test]
fn buffers_that_were_announced_and_not_sent_are_missed() {
    use nix::sys::socket::{
        AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, send, socket,
    };
    let path = path();
    let listener = Listener::bind(&path).unwrap();
    let family = AddressFamily::Unix;
    let client = socket(family, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
    connect(client.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
    let mut opening = b"PNCT".to_vec();
    opening.extend(PROTOCOL_VERSIONS.lowest.to_le_bytes());
    opening.extend(PROTOCOL_VERSIONS.highest.to_le_bytes());
    opening.extend(Features::ALL.bits().to_le_bytes());
    opening.extend([0; 8]);
    // "signs", RGB, no layout, four buffers.
    opening.extend(b"\x05signs\x00\x00\x04");
    send(client.as_raw_fd(), &opening, MsgFlags::empty()).unwrap();
    let connection = listener.accept().unwrap().unwrap();
    assert_eq!(connection.hello().unwrap().unwrap().buffers, 4);
    let error = connection.admit(&terms(4)).unwrap_err();
    let missing = BufferRefusal::Count {
        announced: 4,
        attached: 0,
    };
    assert!(
        matches!(error, AdmitError::Buffers(found) if found == missing),
        "{error}"
    );
}

#[test]
fn whoever_is_not_let_in_leaves_no_descriptor_behind() {
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let path = path();
    let listener = Listener::bind(&path).unwrap();
    let buffers = [memory(4096), memory(4096)];
    let borrowed = buffers.each_ref().map(AsFd::as_fd);
    let hello = Hello::new("signs", PixelFormat::Rgb8);
    let before = open();
    std::thread::scope(|scope| {
        let client = scope.spawn(|| ClientChannel::connect_with_buffers(&path, &hello, &borrowed));
        assert!(wait_readable(listener.as_fd(), None));
        let connection = listener.accept().unwrap().unwrap();
        assert!(wait_readable(connection.as_fd(), None));
        connection.hello().unwrap().unwrap();
        connection.refuse(Refusal::Buffers(BufferRefusal::NotWanted));
        let refused = client.join().unwrap().unwrap_err();
        assert!(matches!(refused, ConnectError::Refused(_)), "{refused}");
    });
    // Other tests of this process open and close files of their own.
    let limit = 1_000;
    assert!(
        (0..limit).any(|_| open() <= before),
        "descriptors were kept"
    );
}
