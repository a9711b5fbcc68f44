//! `punctual top`: a daemon as it runs.

use std::collections::VecDeque;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::time::Duration;

use punctual_daemon::Report;
use punctual_platform::clock;
use punctual_platform::output::{self, OutputError};
use punctual_platform::signals::TerminationSignals;
use punctual_platform::termination::{Terminates, Termination};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};

use crate::commands::status::seconds;
use crate::live::daemon::{Daemon, LiveError};
use crate::live::machine::Machine;
use crate::live::since::since;
use crate::live::troubles;
use crate::top::{Picture, draw, text};

/// Of which daemon, how often.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual top
  punctual top --socket /tmp/punctual.sock --interval 0.5
  punctual top --socket /tmp/punctual.sock --once             # for scripts and bug reports

Rates, quantiles and shares are of the last interval; troubles are of the last ten seconds; stages, clients and the memory are since the
daemon's start. `slack` is the time to the deadline that ninety-nine of a hundred answers left, in ms. From 120 columns on, or on a high
screen, there are stages with their budgets, clients and threads. A daemon that ends is told, and the next one at the same socket is shown.

KEYS: q, Esc, Ctrl-C to leave; p to pause; space to look at once.

Colours have a meaning, and are left out with NO_COLOR in the environment.

TERMINATION CODES: 0 done; 2 standard output is no terminal (use --once); 3 several daemons serve; 4 none does; 5 this user may not
ask it.")]
pub struct Options {
    /// Where the daemon listens.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Seconds between two looks.
    #[arg(long, default_value_t = 1.0, value_parser = seconds)]
    interval: f64,
    /// Print one picture as text, of one interval.
    #[arg(long)]
    once: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Live(#[from] LiveError),
    #[error("standard output is no terminal: use --once for a picture as text")]
    NoTerminal,
    #[error("the terminal cannot be drawn to: {0}")]
    Terminal(io::Error),
    #[error("cannot wait for signals: {0}")]
    Signals(punctual_platform::OsError),
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::Live(error) => error.termination(),
            Self::NoTerminal => Termination::Code(2),
            Self::Terminal(_) => Termination::File,
            Self::Signals(_) => Termination::Resources,
            Self::Output(error) => error.termination(),
        }
    }
}

pub fn run(options: &Options) -> Result<(), Error> {
    let daemon = Daemon::find(options.socket.as_deref())?;
    let first = Look::at(&daemon)?;
    if options.once {
        return once(&daemon, &first, options.interval);
    }
    if !io::stdout().is_terminal() {
        return Err(Error::NoTerminal);
    }
    let signals = TerminationSignals::take_over().map_err(Error::Signals)?;
    // It restores the terminal when this ends, and when it panics.
    let mut terminal = ratatui::try_init().map_err(Error::Terminal)?;
    let watched = Watch {
        daemon,
        interval_ns: (options.interval * 1e9) as u64,
        looks: VecDeque::from([first]),
        gone: None,
        paused: false,
    }
    .run(&mut terminal, &signals);
    ratatui::restore();
    watched
}

/// What was seen at a moment.
struct Look {
    report: Report,
    machine: Machine,
}

impl Look {
    fn at(daemon: &Daemon) -> Result<Self, LiveError> {
        let report = daemon.report()?;
        let machine = Machine::look(report.pid, clock::now_ns());
        Ok(Self { report, machine })
    }
}

fn once(daemon: &Daemon, first: &Look, seconds: f64) -> Result<(), Error> {
    /// More lines than any daemon's picture.
    const HEIGHT: u16 = 100;
    clock::sleep_until_ns(clock::now_ns() + (seconds * 1e9) as u64);
    let now = Look::at(daemon)?;
    let picture = Picture {
        before: Some(&first.report),
        now: &now.report,
        troubles: &troubles::of(&since(&first.report, &now.report)),
        machine_before: Some(&first.machine),
        machine: &now.machine,
        banner: None,
        keys: false,
        colours: false,
    };
    let width = u16::try_from(output::width()).unwrap_or(u16::MAX);
    Ok(output::text(text(&picture, width, HEIGHT))?)
}

struct Watch {
    daemon: Daemon,
    interval_ns: u64,
    /// Those of the last seconds, the newest at the end: one at least.
    looks: VecDeque<Look>,
    /// Why there is no newer report.
    gone: Option<String>,
    paused: bool,
}

/// What a key asks for.
enum Wish {
    Leave,
    Look,
    Draw,
}

impl Watch {
    fn run(
        mut self,
        terminal: &mut DefaultTerminal,
        signals: &TerminationSignals,
    ) -> Result<(), Error> {
        loop {
            self.draw(terminal)?;
            match self.wait(signals)? {
                Wish::Leave => return Ok(()),
                Wish::Look => self.look(),
                Wish::Draw => {}
            }
        }
    }

    fn draw(&self, terminal: &mut DefaultTerminal) -> Result<(), Error> {
        let paused = self.paused.then(|| "paused: p goes on".to_owned());
        let now = self.looks.back().expect("the first look was taken");
        let before = self.looks.iter().nth_back(1);
        let recent = self
            .looks
            .front()
            .filter(|oldest| !std::ptr::eq(*oldest, now));
        let troubles = match recent {
            Some(oldest) => troubles::of(&since(&oldest.report, &now.report)),
            None => troubles::of(&now.report),
        };
        let picture = Picture {
            before: before.map(|look| &look.report),
            now: &now.report,
            troubles: &troubles,
            machine_before: before.map(|look| &look.machine),
            machine: &now.machine,
            banner: self.gone.clone().or(paused),
            keys: true,
            colours: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        };
        let drawn = terminal.draw(|frame| draw(&picture, frame.area(), frame.buffer_mut()));
        drawn.map(drop).map_err(Error::Terminal)
    }

    fn look(&mut self) {
        match Look::at(&self.daemon) {
            Ok(look) => {
                self.remember(look);
                self.gone = None;
            }
            Err(error) => {
                let words =
                    "the daemon is gone; this is its last picture, and the next one is waited for";
                self.gone.get_or_insert_with(|| match error {
                    LiveError::NotThere { .. } => words.to_owned(),
                    other => other.to_string(),
                });
            }
        }
    }

    fn remember(&mut self, look: Look) {
        /// What is older is no trouble of now.
        const RECENT_SECONDS: f64 = 10.0;
        let is_old = |other: &Look| other.report.seconds + RECENT_SECONDS < look.report.seconds;
        let is_same = |other: &Look| other.report.ready_ns == look.report.ready_ns;
        self.looks.retain(is_same);
        // One stays: rates are of the time since.
        while self.looks.len() > 1 && self.looks.front().is_some_and(is_old) {
            self.looks.pop_front();
        }
        self.looks.push_back(look);
    }

    /// Until it is time to look, or a key or a signal comes.
    fn wait(&mut self, signals: &TerminationSignals) -> Result<Wish, Error> {
        const STEP_NS: u64 = 100_000_000;
        let until_ns = clock::now_ns() + self.interval_ns;
        loop {
            if signals.next(Some(0)).is_some() {
                return Ok(Wish::Leave);
            }
            let left_ns = until_ns.saturating_sub(clock::now_ns());
            if left_ns == 0 && !self.paused {
                return Ok(Wish::Look);
            }
            let step_ns = if self.paused {
                STEP_NS
            } else {
                left_ns.min(STEP_NS)
            };
            if event::poll(Duration::from_nanos(step_ns)).map_err(Error::Terminal)? {
                match event::read().map_err(Error::Terminal)? {
                    Event::Key(key) => match key.code {
                        KeyCode::Char('q') | KeyCode::Esc => return Ok(Wish::Leave),
                        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                            return Ok(Wish::Leave);
                        }
                        KeyCode::Char('p') => {
                            self.paused = !self.paused;
                            return Ok(Wish::Draw);
                        }
                        KeyCode::Char(' ') => return Ok(Wish::Look),
                        _ => {}
                    },
                    Event::Resize(..) => return Ok(Wish::Draw),
                    _ => {}
                }
            }
        }
    }
}
