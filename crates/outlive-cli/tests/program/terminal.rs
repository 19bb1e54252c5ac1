//! A terminal for the program, and what the program shows on it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::stage::{LIMIT, Running, Stage};

/// A terminal of 80 columns and 24 rows, and the program in it.
pub struct Terminal {
    ours: File,
    theirs: OwnedFd,
    said: Receiver<Vec<u8>>,
    text: String,
    pub running: Running,
}

/// Returns both ends of a new terminal.
pub fn pair() -> (OwnedFd, OwnedFd) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pty");
    grantpt(&ours).and_then(|()| unlockpt(&ours)).expect("ours");
    let path = ptsname(&ours, Vec::new()).expect("named");
    let path = path.to_str().expect("a path");
    let theirs = File::options().read(true).write(true).open(path).expect("opens");
    (ours, theirs.into())
}

impl Terminal {
    /// Starts the program in a new one.
    pub fn start(stage: &Stage, args: &[&str]) -> Terminal {
        Terminal::start_with(stage, args, "")
    }

    /// Starts the program in a new one in which this has been typed already, or answered.
    pub fn start_with(stage: &Stage, args: &[&str], typed: &str) -> Terminal {
        let (ours, theirs) = pair();
        rustix::io::write(&ours, typed.as_bytes()).expect("typed");
        tcsetwinsize(&theirs, Winsize { ws_col: 80, ws_row: 24, ws_xpixel: 0, ws_ypixel: 0 })
            .expect("sized");
        let mut command = stage.command(args);
        command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8").stderr(Stdio::piped());
        // What the terminal can is the same wherever the test runs.
        let others = ["LC_ALL", "LC_CTYPE", "NO_COLOR", "COLORTERM", "TMUX", "TERM_PROGRAM"];
        others.into_iter().chain(["KITTY_WINDOW_ID"]).for_each(|name| {
            command.env_remove(name);
        });
        let end = || Stdio::from(theirs.try_clone().expect("copied"));
        command.stdin(end()).stdout(end());
        // A group whose parent is in another one of the same session: it can be stopped, wherever
        // the test runs.
        command.process_group(0);
        let running = Running::with_own_streams(command);
        let ours = File::from(ours);
        let (sender, said) = channel();
        let mut reading = ours.try_clone().expect("copied");
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reading.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Terminal { ours, theirs, said, text: String::new(), running }
    }

    /// Waits until that has been written to the terminal.
    #[track_caller]
    pub fn shows(&mut self, what: &str) {
        let deadline = Instant::now() + LIMIT;
        while !self.text.contains(what) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.said.recv_timeout(left) {
                Ok(bytes) => self.text.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("'{what}' did not come: {:?}", self.text),
            }
        }
    }

    /// Returns whether that has been written to the terminal.
    pub fn has(&mut self, what: &str) -> bool {
        while let Ok(bytes) = self.said.try_recv() {
            self.text.push_str(&String::from_utf8_lossy(&bytes));
        }
        self.text.contains(what)
    }

    /// Presses keys. What was written before is forgotten.
    pub fn press(&mut self, keys: &str) {
        self.text.clear();
        self.ours.write_all(keys.as_bytes()).expect("pressed");
    }

    /// It has given the terminal back as it was.
    #[track_caller]
    pub fn is_given_back(&mut self) {
        // It wants no news of the mouse, and leaves its own screen.
        self.shows("\x1b[?1000l");
        self.shows("\x1b[?1049l");
        let modes = tcgetattr(&self.theirs).expect("asked").local_modes;
        assert!(
            modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG),
            "{modes:?}"
        );
    }

    /// It ends, and the terminal is as it was.
    #[track_caller]
    pub fn ends(mut self) {
        self.is_given_back();
        self.running.end().expect(0);
    }
}
