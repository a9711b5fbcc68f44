//! Ends a command at once when a signal asks for it, as long as there is nothing to show; a command that has something is asked
//! to stop.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use punctual_platform::OsError;
use punctual_platform::output;
use punctual_platform::signals::TerminationSignals;
use punctual_platform::termination::Termination;

#[derive(Debug, thiserror::Error)]
pub enum InterruptionError {
    #[error("cannot wait for signals: {0}")]
    Signals(OsError),
    #[error("cannot start the thread that waits for signals: {0}")]
    Thread(std::io::Error),
}

/// What a signal does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// Ends this process; its children notice that.
    Exit,
    /// Asks the command to stop and to show what it has. The next signal ends this process.
    Stop,
}

#[derive(Debug)]
struct State {
    answer: Answer,
    asked: bool,
}

/// Of this process, for as long as it lives.
#[derive(Clone, Debug)]
pub struct Interruption(Arc<Mutex<State>>);

impl Interruption {
    /// To be called before anything starts a thread. `folder`, if there is one, is removed if the process ends.
    pub fn take_over(
        command: &'static str,
        folder: impl Into<Option<PathBuf>>,
    ) -> Result<Self, InterruptionError> {
        let folder = folder.into();
        let signals = TerminationSignals::take_over().map_err(InterruptionError::Signals)?;
        let state = Arc::new(Mutex::new(State {
            answer: Answer::Exit,
            asked: false,
        }));
        let own = Self(Arc::clone(&state));
        thread::Builder::new()
            .name("signals".into())
            .spawn(move || {
                while signals.next(None).is_some() {
                    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                    state.asked = true;
                    if std::mem::replace(&mut state.answer, Answer::Exit) == Answer::Exit {
                        // What cannot be removed from a temporary folder is the system's to clean.
                        if let Some(folder) = &folder {
                            let _ = std::fs::remove_dir_all(folder);
                        }
                        output::note(format_args!("punctual {command}: interrupted"));
                        std::process::exit(Termination::Interrupted.code().into());
                    }
                }
            })
            .map_err(InterruptionError::Thread)?;
        Ok(own)
    }

    /// From now on there is something to show.
    pub fn has_something(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.asked {
            state.answer = Answer::Stop;
        }
    }

    /// Whether a signal came since.
    pub fn is_asked(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).asked
    }
}
