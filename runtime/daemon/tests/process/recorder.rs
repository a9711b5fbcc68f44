//! What a daemon records: its scheduler decides the same again, whatever became of the daemon and of the disk.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use prost::Message as _;
use punctual_core::{Action, Event, Verdict};
use punctual_daemon::{RecorderReport, Report};
use punctual_ipc::{ClientChannel, PixelFormat};
use punctual_model::Package;
use punctual_plan::Policies;
use punctual_platform::clock;
use punctual_recording::replay::{Replayed, replay};
use punctual_recording::{CompressedImage, End, Entry, Recording, Step};
use serde_json::Value;

use crate::support::{Daemon, Folder, LIMIT, MANIFEST, connect, profile, result, submit};

/// A folder whose manifest records like this.
fn folder(mode: &str) -> Folder {
    let folder = Folder::with("");
    let manifest = recorded(&folder, mode);
    folder.write("manifest.toml", manifest.as_bytes());
    folder
}

fn recorded(folder: &Folder, mode: &str) -> String {
    let directory = folder.path("recordings");
    format!("[recorder]\nmode = \"{mode}\"\ndirectory = {directory:?}\n{MANIFEST}")
}

/// As [`folder`], with pictures.
fn pictured(mode: &str, payloads: &str) -> Folder {
    let folder = folder(mode);
    let manifest = recorded(&folder, mode);
    let with = format!("[recorder]\npayloads = \"{payloads}\"");
    let manifest = manifest.replacen("[recorder]", &with, 1);
    folder.write("manifest.toml", manifest.as_bytes());
    folder
}

/// What a file has about pictures, by topic.
#[derive(Default)]
struct OnPictures {
    images: BTreeMap<String, Vec<CompressedImage>>,
    annotations: BTreeMap<String, Vec<Value>>,
}

fn on_pictures(file: &Path) -> OnPictures {
    let bytes = fs::read(file).expect("a file");
    let mut found = OnPictures::default();
    for message in mcap::MessageStream::new(&bytes).expect("a recording") {
        let message = message.expect("whole");
        let topic = message.channel.topic.clone();
        if topic.ends_with("/image") {
            let image = CompressedImage::decode(&*message.data).expect("a message");
            found.images.entry(topic).or_default().push(image);
        } else if topic.ends_with("/annotations") {
            let value = serde_json::from_slice(&message.data).expect("JSON");
            found.annotations.entry(topic).or_default().push(value);
        }
    }
    found
}

/// Width, height, and the colour in the middle.
fn decoded(image: &CompressedImage) -> (u32, u32, [u8; 3]) {
    let picture = image::load_from_memory(&image.data)
        .expect("a picture")
        .into_rgb8();
    let (width, height) = picture.dimensions();
    (width, height, picture.get_pixel(width / 2, height / 2).0)
}

fn of(report: &Report) -> &RecorderReport {
    report.recorder.as_ref().expect("it records")
}

/// The recordings that are there, the oldest first.
fn recordings(folder: &Folder) -> Vec<PathBuf> {
    let found = fs::read_dir(folder.path("recordings")).expect("a folder");
    let mut found: Vec<PathBuf> = found.map(|entry| entry.expect("readable").path()).collect();
    found.sort();
    found
}

/// That it decides the same again; how much there was, and how the file ends.
fn replayed(file: &Path) -> (Replayed, End) {
    let bytes = fs::read(file).expect("a file");
    let recording = Recording::of(&bytes).expect("a recording");
    let setting = recording.setting().expect("it has one");
    let policy = Policies::shipped().written(&setting.policy);
    let policy = policy.expect("a policy that ships");
    let mut entries = recording.entries();
    let done = replay(entries.by_ref(), &setting.config, &policy).expect("it decides the same");
    (done, entries.end().expect("read to its end").clone())
}

fn steps(file: &Path) -> Vec<Step> {
    let bytes = fs::read(file).expect("a file");
    let recording = Recording::of(&bytes).expect("a recording");
    let entries = recording.entries().filter_map(|entry| match entry {
        Ok(Entry::Step(step)) => Some(step),
        _ => None,
    });
    entries.collect()
}

fn answer(client: &mut ClientChannel, frames: usize) {
    for _ in 0..frames {
        submit(client);
        result(client);
    }
}

#[test]
fn a_black_box_is_written_on_request_and_decides_the_same() {
    let daemon = Daemon::start_in(folder("black-box"));
    let mut client = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    answer(&mut client, 20);
    assert_eq!(of(&daemon.report()).written, 0);
    daemon.signal("USR2");
    let report = daemon.report_when(|report| of(report).written == 1);
    let found = recordings(&daemon.folder);
    assert_eq!(of(&report).last.as_ref(), found.first());
    let file = &found[0];
    assert!(file.display().to_string().ends_with("-requested.mcap"));
    let mode = fs::metadata(file)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let (done, end) = replayed(file);
    assert_eq!((done.lost, done.skipped, end), (0, 0, End::Whole));
    let arrived = |step: &Step| matches!(step.event, Event::Arrived(_));
    assert_eq!(steps(file).iter().filter(|step| arrived(step)).count(), 20);
    let bytes = fs::read(file).expect("a file");
    let recording = Recording::of(&bytes).expect("a recording");
    let manifest = recording.attachment("manifest.toml").expect("attached");
    assert_eq!(
        &*manifest,
        fs::read(daemon.folder.path("manifest.toml")).expect("a file")
    );
    for name in ["plan.json", "build.json", "profile/signs"] {
        assert!(recording.attachment(name).is_some(), "{name}");
    }
    // Each record that the client got.
    let sent = recording.entries().filter_map(Result::ok);
    let sent = sent.filter(|entry| matches!(entry, Entry::Sent(sent) if sent.is_final));
    assert_eq!(sent.count(), 20);
    drop(client);
    let report = daemon.stop();
    assert_eq!((of(&report).steps_lost, of(&report).differing), (0, 0));
}

#[test]
fn a_promised_frame_that_is_late_has_the_black_box_written() {
    let daemon = Daemon::start_in(folder("black-box"));
    let mut client = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    // To a frame that comes after its deadline nothing was promised: one is needed that was accepted before the stop.
    let limit_ns = clock::now_ns() + LIMIT.as_nanos() as u64;
    let mut late = false;
    while !late && clock::now_ns() < limit_ns {
        submit(&mut client);
        daemon.signal("STOP");
        // The task's deadline is 500 ms.
        clock::sleep_until_ns(clock::now_ns() + 600_000_000);
        daemon.signal("CONT");
        result(&mut client);
        late = daemon.report().tasks[0].late > 0;
    }
    if !late {
        eprintln!("skipped: this machine answers each frame before it can be stopped");
        return;
    }
    // Of what the stop did, it is one of several incidents: a file has the name of the first, and the next follows after ten seconds.
    let is_late =
        |action: &Action| matches!(action, Action::Reply(reply) if reply.verdict == Verdict::Late);
    let has_late = |step: &Step| step.actions.iter().any(is_late);
    let mut written = 0;
    let file = loop {
        written = of(&daemon.report_when(|report| of(report).written > written)).written;
        let found = recordings(&daemon.folder).into_iter();
        if let Some(file) = found.rev().find(|file| steps(file).iter().any(has_late)) {
            break file;
        }
    };
    assert_eq!(replayed(&file).0.skipped, 0);
}

#[test]
fn a_recording_of_everything_has_every_step_from_the_start_to_the_end() {
    let daemon = Daemon::start_in(folder("all"));
    let mut front = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    let mut watch = connect(&daemon.socket(), "watch", PixelFormat::Nv12);
    for _ in 0..10 {
        answer(&mut front, 1);
        answer(&mut watch, 3);
    }
    drop((front, watch));
    let (_, folder) = daemon.stop_and_leave();
    let report = Report::read(&folder.path("report.json")).expect("a report");
    let found = recordings(&folder);
    let (done, end) = replayed(&found[0]);
    assert_eq!((found.len(), end), (1, End::Whole));
    assert_eq!((done.skipped, done.lost), (0, 0));
    let arrived = |step: &&Step| matches!(step.event, Event::Arrived(_));
    assert_eq!(steps(&found[0]).iter().filter(arrived).count(), 40);
    assert_eq!(of(&report).steps_lost, 0);
}

#[test]
fn what_was_on_the_disk_is_read_after_a_daemon_was_killed() {
    let mut daemon = Daemon::start_in(folder("all"));
    let mut client = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    let limit_ns = clock::now_ns() + LIMIT.as_nanos() as u64;
    let has_steps = |daemon: &Daemon| {
        let found = fs::read_dir(daemon.folder.path("recordings"));
        let mut files = found.into_iter().flatten().filter_map(Result::ok);
        files.any(|file| {
            let bytes = fs::read(file.path()).unwrap_or_default();
            Recording::of(&bytes).is_ok_and(|recording| recording.entries().count() > 1)
        })
    };
    while !has_steps(&daemon) {
        answer(&mut client, 1);
        assert!(clock::now_ns() < limit_ns, "nothing is written");
    }
    daemon.kill();
    daemon.wait();
    let (done, end) = replayed(&recordings(&daemon.folder)[0]);
    assert!(done.steps > 0 && done.skipped == 0, "{done:?}");
    assert!(matches!(end, End::Cut { .. }), "{end:?}");
}

/// Frames are answered until a recording has failed, and after that.
fn serves_without_its_recordings(daemon: Daemon) {
    let mut client = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    let limit_ns = clock::now_ns() + LIMIT.as_nanos() as u64;
    while of(&daemon.report()).failed == 0 {
        answer(&mut client, 1);
        assert!(clock::now_ns() < limit_ns, "nothing was tried");
    }
    answer(&mut client, 5);
    drop(client);
    let report = daemon.stop();
    // A machine that stands still makes frames late, and no frame fails.
    assert_eq!(report.tasks[0].failed.total(), 0);
    assert_eq!(of(&report).steps_lost, 0);
}

#[test]
fn a_folder_that_cannot_be_made_costs_the_recording_and_no_frame() {
    let folder = folder("all");
    folder.write("recordings", b"a file");
    serves_without_its_recordings(Daemon::start_in(folder));
}

#[test]
fn a_full_disk_costs_the_recording_and_no_frame() {
    let folder = folder("all");
    let disk = folder.path("recordings");
    fs::create_dir(&disk).expect("a fresh folder");
    let mount = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"])
        .arg(&disk)
        .status();
    if !mount.is_ok_and(|status| status.success()) {
        eprintln!("skipped: this user may not mount a small disk");
        return;
    }
    serves_without_its_recordings(Daemon::start_in(folder));
    let unmounted = std::process::Command::new("umount")
        .arg("-l")
        .arg(&disk)
        .status();
    assert!(unmounted.expect("umount runs").success());
}

#[test]
fn without_a_folder_nothing_is_recorded_and_one_line_says_so() {
    let manifest = MANIFEST.to_owned();
    let daemon = Daemon::start_as(Folder::with(&manifest), |command| {
        command.env_remove("STATE_DIRECTORY");
        command.stderr(std::process::Stdio::piped());
    });
    assert_eq!(daemon.report().recorder, None);
    daemon.signal("USR2");
    daemon.signal("TERM");
    let (status, words, _) = daemon.end_with_words();
    assert_eq!(status.code(), Some(0));
    assert_eq!(words.matches("nothing is recorded: ").count(), 1, "{words}");
}

#[test]
fn a_service_records_into_its_state_directory() {
    let folder = Folder::with(MANIFEST);
    let state = folder.path("state");
    let daemon = Daemon::start_as(folder, |command| {
        command.env("STATE_DIRECTORY", &state);
    });
    assert_eq!(of(&daemon.report()).directory, state.join("recordings"));
    daemon.signal("USR2");
    daemon.report_when(|report| of(report).written == 1);
    daemon.stop();
}

#[test]
fn crops_are_recorded_with_what_was_seen_on_them() {
    let daemon = Daemon::start_in(pictured("black-box", "crops"));
    let mut front = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    let mut watch = connect(&daemon.socket(), "watch", PixelFormat::Nv12);
    for taken in 1..=3 {
        answer(&mut front, 1);
        answer(&mut watch, 1);
        // The looks of the threads that encode and collect.
        daemon.report_when(|report| of(report).pictures == 2 * taken);
    }
    daemon.signal("USR2");
    daemon.report_when(|report| of(report).written == 1);
    drop((front, watch));
    let (report, folder) = daemon.stop_and_leave();
    assert_eq!(report.allocations_after_ready, 0);
    assert_eq!(of(&report).pictures_left_out, 0);
    let file = &recordings(&folder)[0];
    assert_eq!(replayed(file).0.skipped, 0);
    let mode = fs::metadata(file)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let found = on_pictures(file);
    // The luma that clients here send is limited range's, so it is a little lighter in full range.
    for (task, client, gray) in [("front", 0, 128), ("watch", 2, 130)] {
        let images = &found.images[&format!("/punctual/{task}/{client}/image")];
        let annotations = &found.annotations[&format!("/punctual/{task}/{client}/annotations")];
        assert_eq!((images.len(), annotations.len()), (3, 3));
        for image in images {
            let (width, height, colour) = decoded(image);
            assert_eq!((width, height), (192, 192));
            assert!(
                colour.iter().all(|value| value.abs_diff(gray) < 4),
                "{colour:?}"
            );
            let time = image.timestamp.expect("it has one");
            let time = serde_json::json!({ "sec": time.seconds, "nsec": time.nanos });
            let same = |annotation: &&Value| annotation["texts"][0]["timestamp"] == time;
            assert_eq!(annotations.iter().filter(same).count(), 1);
        }
    }
}

#[test]
fn whole_frames_are_recorded_where_the_manifest_wants_them() {
    for (payloads, expected) in [("frames", Some((320, 240))), ("none", None)] {
        let daemon = Daemon::start_in(pictured("all", payloads));
        let mut client = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
        answer(&mut client, 2);
        drop(client);
        let (report, folder) = daemon.stop_and_leave();
        assert_eq!(report.allocations_after_ready, 0);
        let found = on_pictures(&recordings(&folder)[0]);
        let images = found.images.get("/punctual/front/0/image");
        let sizes = images.into_iter().flatten().map(|image| {
            let (width, height, _) = decoded(image);
            (width, height)
        });
        let sizes: Vec<_> = sizes.collect();
        assert!(sizes.len() <= 2, "{sizes:?}");
        assert_eq!(sizes.iter().copied().max(), expected, "{payloads}");
        assert_eq!(found.images.is_empty(), expected.is_none());
        assert_eq!(found.annotations.is_empty(), expected.is_none());
    }
}

/// A detector in place of the classifier.
fn detector() -> Folder {
    let folder = pictured("all", "crops");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/streets/streets.punctual");
    let package = fs::read(path).expect("part of the tree");
    folder.write("signs.punctual", &package);
    let package = Package::decode(&package).expect("a valid package");
    let host = punctual_daemon::host::detect().expect("a machine");
    let profile = profile(&host.machine, &host.clocks, &package);
    folder.write("signs.profile.json", profile.to_json().as_bytes());
    folder
}

#[test]
fn what_a_detector_saw_is_drawn_on_its_picture() {
    let daemon = Daemon::start_in(detector());
    let mut client = connect(&daemon.socket(), "watch", PixelFormat::Nv12);
    answer(&mut client, 3);
    daemon.report_when(|report| of(report).pictures == 3);
    drop(client);
    let (report, folder) = daemon.stop_and_leave();
    assert_eq!(report.allocations_after_ready, 0);
    let found = on_pictures(&recordings(&folder)[0]);
    assert_eq!(found.images["/punctual/watch/2/image"].len(), 3);
    let annotations = &found.annotations["/punctual/watch/2/annotations"];
    assert_eq!(annotations.len(), 3, "one message a picture");
    for annotation in annotations {
        // Even on plain gray, a detector may see something.
        let outlines = annotation["points"].as_array().expect("lines");
        let texts = annotation["texts"].as_array().expect("texts");
        assert_eq!(outlines.len(), texts.len());
    }
}

#[test]
fn pictures_beyond_buffers_and_share_are_left_out_and_counted() {
    let daemon = Daemon::start_in(pictured("black-box", "crops"));
    let mut client = connect(&daemon.socket(), "watch", PixelFormat::Nv12);
    // One thread cannot encode as fast as small networks answer, and beyond its share it does not.
    let limit_ns = clock::now_ns() + LIMIT.as_nanos() as u64;
    while of(&daemon.report()).pictures_left_out == 0 {
        answer(&mut client, 20);
        assert!(clock::now_ns() < limit_ns, "each is recorded");
    }
    drop(client);
    let report = daemon.stop();
    assert_eq!((of(&report).steps_lost, of(&report).differing), (0, 0));
}
