//! A manifest chooses who decides: the same daemon, device and clients under each policy.

use crate::support::{Daemon, Folder, MANIFEST, assert_accounts, connect, result, submit};
use punctual_core::PolicySpec as _;
use punctual_ipc::PixelFormat;
use punctual_plan::Policies;

const FRAMES: u64 = 10;

/// Two partitions of a core each, or one if the machine has no more, under `policy`.
fn manifest(policy: &str) -> String {
    let daemon = format!("board = \"host\"\npolicy = \"{policy}\"");
    let manifest = MANIFEST.replacen("board = \"host\"", &daemon, 1);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores < 2 {
        return manifest;
    }
    let (first, second) = (
        "cores = [0]",
        "[[partition]]\nname = \"other\"\ncores = [1]\n",
    );
    let two = manifest.replacen("units = 1", &format!("{first}\n\n{second}"), 1);
    let (front, watch) = two.split_once("name = \"watch\"").expect("two tasks");
    let watch = watch.replacen("partition = \"main\"", "partition = \"other\"", 1);
    format!("{front}name = \"watch\"{watch}")
}

#[test]
fn under_every_policy_that_the_cpu_device_can_carry_out_clients_get_their_answers() {
    for policy in Policies::shipped().iter() {
        let name = policy.name();
        let daemon = Daemon::start(&manifest(name));
        let mut front = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
        let mut watch = connect(&daemon.socket(), "watch", PixelFormat::Nv12);
        let mut answered = 0;
        for _ in 0..FRAMES {
            submit(&mut front);
            submit(&mut watch);
            answered += u64::from(result(&mut front).answer.is_some());
            answered += u64::from(result(&mut watch).answer.is_some());
        }
        drop((front, watch));
        let report = daemon.stop();
        assert_accounts(&report);
        assert!(answered >= FRAMES, "{name}: {answered} answers");
    }
}

#[test]
fn a_policy_that_the_device_cannot_carry_out_or_nobody_knows_is_refused_with_the_remedy() {
    for (policy, word) in [("streams", "punctual-lab"), ("sebe", "seeb")] {
        let folder = Folder::with(&manifest(policy));
        let (code, said) = folder.refusal(&[]);
        assert_eq!(code, Some(3), "{said}");
        assert!(said.contains(word), "{said}");
    }
}
