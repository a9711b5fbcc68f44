//! The emulated GPU divided among partitions in one daemon: each launch runs where its partition may, whichever core leads it.

use crate::division::{assert_apart, divisions, launches, logging};
use crate::emulated_gpu::{folder, profiled, turn};
use crate::support::{Daemon, assert_accounts, connect, result, submit};
use punctual_ipc::{ClientChannel, PixelFormat, Verdict};

/// Partitions of these numbers of TPCs, with a task each. One core leads all.
pub fn partitioned(partitions: &[u16], tasks: &[(&str, &str)], daemon: &str) -> String {
    let mut manifest = format!("[daemon]\nboard = \"emulated\"\ncores = [0]\n{daemon}\n");
    manifest += "[[model]]\nname = \"small\"\npackage = \"small.punctual\"\n";
    for (position, tpcs) in partitions.iter().enumerate() {
        manifest += &format!("[[partition]]\nname = \"p{position}\"\ntpcs = {tpcs}\ncores = [1]\n");
    }
    for (position, (name, criticality)) in tasks.iter().enumerate() {
        let partition = position % partitions.len();
        manifest += &format!(
            "[[task]]\nname = \"{name}\"\nmodel = \"small\"\npartition = \"p{partition}\"\n{criticality}\nqueue_depth = 8\n\
             frame = {{ format = \"rgb8\", width = 64, height = 48, crop = [24, 24] }}\n"
        );
    }
    manifest
}

const REAL_TIME: &str =
    "criticality = \"real-time\"\nrate_hz = 0.1\ndeadline_ms = 20_000\nthreshold = 1.0";
pub const BEST_EFFORT: &str = "criticality = \"best-effort\"";

/// Each client has a frame in the daemon all the time, `frames` of them; the verdicts.
fn keep_busy(clients: &mut [ClientChannel], frames: usize) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for client in clients.iter_mut() {
        submit(client);
    }
    for frame in 1..=frames {
        for client in clients.iter_mut() {
            verdicts.push(result(client).verdict);
            if frame < frames {
                submit(client);
            }
        }
    }
    verdicts
}

fn clients(daemon: &Daemon, names: &[&str]) -> Vec<ClientChannel> {
    let client = |name: &&str| connect(&daemon.socket(), name, PixelFormat::Rgb8);
    names.iter().map(client).collect()
}

#[test]
fn two_and_four_masked_partitions_of_one_leader_serve_at_once_and_apart() {
    let _turn = turn();
    for sizes in [&[4, 4][..], &[2, 2, 2, 2]] {
        let (driver, log) = logging("partitions");
        let names = ["a", "b", "c", "d"];
        let names = &names[..sizes.len()];
        let tasks: Vec<_> = names.iter().map(|name| (*name, BEST_EFFORT)).collect();
        let manifest = partitioned(sizes, &tasks, "");
        let daemon = Daemon::start_in(profiled(&manifest, &driver));
        let process = daemon.pid();
        let mut clients = clients(&daemon, names);
        let verdicts = keep_busy(&mut clients, 4);
        assert!(
            verdicts.iter().all(|verdict| *verdict == Verdict::OnTime),
            "{verdicts:?}"
        );
        drop(clients);
        assert_accounts(&daemon.stop());
        let launches = launches(&log, process);
        assert!(assert_apart(&launches) > 0, "some were at once");
        for launch in &launches {
            let width = u32::from(2 * sizes[0]);
            let part = |sm: &u32| sm / width;
            assert!(launch.sms.iter().all(|sm| part(sm) == part(&launch.sms[0])));
        }
    }
}

#[test]
fn seeb_divides_the_tpcs_anew_under_load_and_every_block_is_where_its_mask_allows() {
    let _turn = turn();
    let (driver, log) = logging("seeb");
    let tasks = [
        ("near", REAL_TIME),
        ("far", REAL_TIME),
        ("rest", BEST_EFFORT),
    ];
    let manifest = partitioned(&[8], &tasks, "policy = \"seeb\"");
    let daemon = Daemon::start_in(profiled(&manifest, &driver));
    let process = daemon.pid();
    let mut all = clients(&daemon, &["near", "far", "rest"]);
    let mut verdicts = keep_busy(&mut all[..1], 2);
    verdicts.extend(keep_busy(&mut all, 6));
    assert!(
        verdicts.iter().all(|verdict| *verdict == Verdict::OnTime),
        "{verdicts:?}"
    );
    drop(all);
    let report = daemon.stop();
    assert_accounts(&report);
    assert_eq!(report.partitions.len(), 36);
    let used = report.partitions.iter().filter(|p| p.finished > 0).count();
    assert!(used > 1, "one division after the other: {used}");
    let launches = launches(&log, process);
    assert!(assert_apart(&launches) > 0, "some were at once");
    assert!(divisions(&launches).len() > 2, "{:?}", divisions(&launches));
}

#[test]
fn a_policy_that_divides_anew_is_refused_where_masks_do_nothing() {
    let _turn = turn();
    let (mut driver, _) = logging("no-masks");
    driver.masks = false;
    let manifest = partitioned(&[8], &[("near", REAL_TIME)], "policy = \"seeb\"");
    let (code, words) = folder(&manifest, &driver).refusal(&[]);
    assert_eq!(code, Some(3), "{words}");
    assert!(words.contains("cannot change those of a stream"), "{words}");
}
