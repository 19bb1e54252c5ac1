//! `top`: what there is stands on the screen, and the terminal is given back however it ends.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::stage::{LIMIT, Running, Stage};

/// A terminal of 80 columns and 24 rows, and the program in it.
struct Terminal {
    ours: File,
    theirs: OwnedFd,
    said: Receiver<Vec<u8>>,
    text: String,
    running: Running,
}

/// Returns both ends of a new terminal.
pub(crate) fn terminal() -> (OwnedFd, OwnedFd) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pty");
    grantpt(&ours).and_then(|()| unlockpt(&ours)).expect("ours");
    let path = ptsname(&ours, Vec::new()).expect("named");
    let path = path.to_str().expect("a path");
    let theirs = File::options().read(true).write(true).open(path).expect("opens");
    (ours, theirs.into())
}

impl Terminal {
    fn start(stage: &Stage, args: &[&str]) -> Terminal {
        let (ours, theirs) = terminal();
        tcsetwinsize(&theirs, Winsize { ws_col: 80, ws_row: 24, ws_xpixel: 0, ws_ypixel: 0 })
            .expect("sized");
        let mut command = stage.command(args);
        command.env("TERM", "xterm-256color").stderr(Stdio::piped());
        let end = || Stdio::from(theirs.try_clone().expect("copied"));
        command.stdin(end()).stdout(end());
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
    fn shows(&mut self, what: &str) {
        let deadline = Instant::now() + LIMIT;
        while !self.text.contains(what) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.said.recv_timeout(left) {
                Ok(bytes) => self.text.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("'{what}' did not come: {:?}", self.text),
            }
        }
    }

    fn press(&mut self, keys: &str) {
        self.text.clear();
        self.ours.write_all(keys.as_bytes()).expect("pressed");
    }

    /// It ends, and the terminal is as it was.
    #[track_caller]
    fn ends(mut self) {
        // It leaves its own screen.
        self.shows("\x1b[?1049l");
        self.running.end().expect(0);
        let modes = tcgetattr(&self.theirs).expect("asked").local_modes;
        assert!(
            modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG),
            "{modes:?}"
        );
    }
}

#[test]
fn it_shows_what_there_is_and_ends_by_key_and_by_signal() {
    let stage = Stage::new();
    stage.feed(&["pub", "camera"], b"a frame\n").expect(0);
    stage.feed(&["send", "jobs"], b"one\ntwo\n").expect(0);
    let holder = stage.start(&["lock", "door", "--", "sleep", "1000"]);
    crate::stage::until("it is held", || {
        stage.entry("door").is_some_and(|door| door["holders"][0]["alive"] == true)
    });
    for end in ["q", "\x03", "SIGTERM", "SIGINT"] {
        let mut terminal = Terminal::start(&stage, &["top", "--interval", "0.2"]);
        terminal.shows("camera");
        terminal.shows("jobs");
        terminal.shows(&holder.pid().to_string());
        // Blanks are not written: a word at a time.
        terminal.shows("quit");
        match end {
            "SIGTERM" => terminal.running.signal(15),
            "SIGINT" => terminal.running.signal(2),
            key => {
                terminal.press("\r");
                terminal.shows("domain/camera");
                terminal.press(key);
            }
        }
        terminal.ends();
    }
}

#[test]
fn one_look_is_text_and_names_the_dead() {
    let stage = Stage::new();
    let killed = stage.start(&["lock", "door", "--", "sleep", "1000"]);
    crate::stage::until("it is held", || {
        stage.entry("door").is_some_and(|door| door["holders"][0]["alive"] == true)
    });
    let pid = killed.pid().to_string();
    killed.kill();
    killed.end().expect(-9);
    let text = stage.run(&["top", "--once", "--interval", "0.1"]).expect(0).text();
    let dead =
        text.lines().skip_while(|line| !line.starts_with("DEAD")).find(|line| line.contains(&pid));
    assert!(dead.is_some_and(|line| line.contains("rwlock door")), "{text}");
    assert!(text.contains("'outlive gc' would sweep"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn without_a_terminal_it_says_what_to_do() {
    let stage = Stage::new();
    stage.run(&["top"]).expect(2).says("--once");
    stage.run(&["top", "--json"]).expect(2).says("ls --json");
    stage.run(&["top", "--once"]).expect(6);
}
