//! Clients that are killed, in processes of their own.

mod echo_daemon;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use echo_daemon::EchoDaemon;
use punctual_client::{Client, Crop, FrameSpec, OutputTerms, PixelFormat, StreamTerms};

/// Where the client process finds its daemon; unset in the test's own process.
const SOCKET: &str = "PUNCTUAL_TEST_SOCKET";
const CORNER: Crop = Crop { x: 0, y: 0 };

fn terms() -> StreamTerms {
    StreamTerms {
        stream: 0,
        slots: 2,
        results: 4,
        frame: FrameSpec::packed(PixelFormat::Rgb8, 640, 480),
        crop_width: 192,
        crop_height: 192,
        outputs: OutputTerms::default(),
        vectors: 0,
        records: 1,
    }
}

fn one_frame(client: &mut Client) {
    let slot = client.slot(None).unwrap().unwrap();
    slot.submit(0, None, CORNER).unwrap();
    client.verdict(None).unwrap().unwrap();
}

/// Not a test but a client process: submits for ever and prints a line after each.
#[test]
fn client_process() {
    let Some(socket) = std::env::var_os(SOCKET) else {
        return;
    };
    let mut client = Client::connect(socket, "any", PixelFormat::Rgb8).unwrap();
    loop {
        one_frame(&mut client);
        println!("submitted");
    }
}

#[test]
fn a_client_that_is_killed_mid_frame_costs_only_itself() {
    const KILLS: u64 = 20;
    let daemon = EchoDaemon::start(terms());
    let mut witness = Client::connect(daemon.path(), "any", PixelFormat::Rgb8).unwrap();
    for _ in 0..KILLS {
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "client_process", "--nocapture"])
            .env(SOCKET, daemon.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut words = BufReader::new(victim.stdout.take().unwrap()).lines();
        assert!(words.any(|line| line.unwrap().contains("submitted")));
        one_frame(&mut witness);
        victim.kill().unwrap();
        victim.wait().unwrap();
        one_frame(&mut witness);
    }
    drop(witness);
    let account = daemon.stop();
    assert_eq!(account.faults, []);
    assert_eq!(account.leaked, 0);
    assert_eq!(account.torn, 0);
    assert!(account.hung_up >= KILLS, "{account:?}");
}
