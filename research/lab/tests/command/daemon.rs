//! The daemon, under every published policy.

use punctual_ipc::PixelFormat;

use crate::division::{assert_apart, launches, logging};
use crate::emulated_gpu::profiled;
use crate::support::{
    Daemon, Folder, assert_accounts, assert_serves, connect, manifest_under, result, submit,
};

#[test]
fn under_every_published_policy_that_the_cpu_device_can_carry_out_clients_get_their_answers() {
    for policy in punctual_plan::PUBLISHED {
        if policy != "streams" {
            assert_serves(policy);
        }
    }
}

#[test]
fn a_policy_that_the_cpu_device_cannot_carry_out_is_refused_with_the_remedy() {
    let (code, said) = Folder::with(&manifest_under("streams")).refusal(&[]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("simulate"), "{said}");
}

#[test]
fn the_names_that_the_product_refuses_are_those_of_the_published_policies() {
    let all = punctual_baselines::all();
    let published: Vec<&str> = all.names().skip(2).collect();
    assert_eq!(published, punctual_plan::PUBLISHED);
}

const GSLICE: &str = r#"
[daemon]
board = "emulated"
cores = [0]
policy = "gslice"

[[model]]
name = "near"
package = "small.punctual"

[[model]]
name = "far"
package = "small.punctual"

[[partition]]
name = "gpu"
tpcs = 8
cores = [1]

[[task]]
name = "near"
model = "near"
partition = "gpu"
criticality = "best-effort"
frame = { format = "rgb8", width = 64, height = 48, crop = [24, 24] }

[[task]]
name = "far"
model = "far"
partition = "gpu"
criticality = "best-effort"
frame = { format = "rgb8", width = 64, height = 48, crop = [24, 24] }
"#;

#[test]
fn gslice_gives_each_model_tpcs_of_its_own_on_a_gpu() {
    let (driver, log) = logging("gslice");
    let daemon = Daemon::start_in(profiled(GSLICE, &driver));
    let process = daemon.pid();
    let mut cameras =
        ["near", "far"].map(|task| connect(&daemon.socket(), task, PixelFormat::Rgb8));
    for _ in 0..6 {
        for camera in &mut cameras {
            submit(camera);
        }
        for camera in &mut cameras {
            assert!(result(camera).answer.is_some());
        }
    }
    drop(cameras);
    let report = daemon.stop();
    assert_accounts(&report);
    assert_eq!(report.partitions.len(), 36);
    assert!(
        assert_apart(&launches(&log, process)) > 0,
        "some were at once"
    );
}
