//! Work that disturbs: processes of this program, at ordinary priority, that end with the one that started them.

use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::parent_id;
use std::process::{Child, Command, Stdio};

use punctual_platform::affinity;

/// What a process does without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Load {
    /// Nothing: the idle machine.
    None,
    /// Computes, one process a core.
    Cpu,
    /// Copies 64 MiB to and fro, a process a core: caches and memory bandwidth.
    Memory,
    /// Writes 16 MiB to a file in the temporary folder and has them on the disk, again and again.
    Disk,
    /// Sends 64 KiB blocks to itself over TCP on the loopback.
    Network,
}

impl Load {
    pub const ALL: [Self; 5] = [
        Self::None,
        Self::Cpu,
        Self::Memory,
        Self::Disk,
        Self::Network,
    ];

    /// As on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Network => "network",
        }
    }
}

/// Processes under load; ended when dropped.
pub struct Running(Vec<Child>);

impl Running {
    /// Starts the processes of a load.
    pub fn start(load: Load) -> std::io::Result<Self> {
        let cores = affinity::available_cores().map_or(1, |cores| cores.len());
        let count = match load {
            Load::None => 0,
            Load::Cpu | Load::Memory => cores,
            Load::Disk | Load::Network => 1,
        };
        let mut running = Self(Vec::new());
        for _ in 0..count {
            let child = Command::new(std::env::current_exe()?)
                .args(["wakeup", "--generate", load.name()])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()?;
            running.0.push(child);
        }
        Ok(running)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended by itself is as good.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Does what a load does until the process that started this one is gone.
pub fn generate(load: Load) -> std::io::Result<()> {
    let parent = parent_id();
    let goes_on = || parent_id() == parent;
    match load {
        Load::None => Ok(()),
        Load::Cpu => {
            let mut x = 1_u64;
            while goes_on() {
                for _ in 0..1_000_000 {
                    x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                }
                std::hint::black_box(x);
            }
            Ok(())
        }
        Load::Memory => {
            let (mut to, mut fro) = (vec![1_u8; 64 << 20], vec![2_u8; 64 << 20]);
            while goes_on() {
                to.copy_from_slice(&fro);
                fro.copy_from_slice(&to);
                std::hint::black_box(&mut fro);
            }
            Ok(())
        }
        Load::Disk => disk(goes_on),
        Load::Network => network(goes_on),
    }
}

fn disk(goes_on: impl Fn() -> bool) -> std::io::Result<()> {
    let path = std::env::temp_dir().join(format!("punctual-load-{}", std::process::id()));
    let mut file = std::fs::File::create(&path)?;
    // It goes when its last descriptor does, however this process ends.
    std::fs::remove_file(&path)?;
    let block = vec![7_u8; 1 << 20];
    while goes_on() {
        file.seek(SeekFrom::Start(0))?;
        for _ in 0..16 {
            file.write_all(&block)?;
        }
        file.sync_data()?;
    }
    Ok(())
}

fn network(goes_on: impl Fn() -> bool) -> std::io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let mut sender = TcpStream::connect(listener.local_addr()?)?;
    let (mut receiver, _) = listener.accept()?;
    let mut block = vec![7_u8; 64 << 10];
    while goes_on() {
        // One thread: a block fits the socket's buffers.
        for piece in block.chunks_mut(16 << 10) {
            sender.write_all(piece)?;
            receiver.read_exact(piece)?;
        }
    }
    Ok(())
}
