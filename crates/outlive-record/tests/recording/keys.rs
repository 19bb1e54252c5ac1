//! The keys of the player, pressed on a terminal of the test's own.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use outlive::topic::{Subscriber, Topic};
use outlive_mcap::{MessageHeader, Options, Positions, Writer};

use crate::support::{LONG, Place, Recording, message, number};

/// Opens a terminal: the side of its user, and that of programs.
fn terminal() -> (File, OwnedFd) {
    let (mut user, mut program) = (0, 0);
    let none = std::ptr::null_mut();
    // SAFETY: both descriptors are written; no name, modes or size are asked for.
    let opened =
        unsafe { libc::openpty(&raw mut user, &raw mut program, none, none.cast(), none.cast()) };
    assert_eq!(opened, 0);
    // SAFETY: both were just opened, and have no other owner.
    unsafe { (File::from_raw_fd(user), OwnedFd::from_raw_fd(program)) }
}

/// A message each second, for a minute.
fn write(place: &Place) {
    let mut writer: Writer =
        Writer::create(place.file("in.mcap"), Options::default()).expect("made");
    let channel_id = writer.add_channel(0, "t", "", &Default::default()).expect("added");
    for at in 0..60_u32 {
        let time = (1_000 + u64::from(at)) * 1_000_000_000;
        let header = MessageHeader { channel_id, sequence: at, log_time: time, publish_time: time };
        writer.put(&header, &message(at.into(), 64)).expect("put");
        writer.flush(&Positions::new()).expect("written");
    }
    writer.finish(&Positions::new()).expect("finished");
}

fn next(subscriber: &mut Subscriber) -> u64 {
    number(&subscriber.recv_timeout(LONG).expect("nothing is lost").expect("in time"))
}

#[test]
fn keys_stop_step_seek_and_end() {
    let place = Place::new("keys");
    write(&place);
    let topic =
        Topic::<[u8]>::options().depth(64).open_or_create(&place.domain, "t").expect("made");
    let mut subscriber = topic.subscriber().expect("joins");
    let (mut user, program) = terminal();
    let mut command = place.player(&["in.mcap", "--paused"]);
    let side = || Stdio::from(program.try_clone().expect("a descriptor"));
    command.stdin(side()).stdout(side()).stderr(side());
    let fd = program.as_raw_fd();
    // SAFETY: both calls may be made between fork and exec; the descriptor is open there.
    unsafe {
        command.pre_exec(move || {
            libc::setsid();
            match libc::ioctl(fd, libc::TIOCSCTTY, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    let mut player = Recording(command.spawn().expect("starts"));
    drop(command);
    // What it tells has to be taken off.
    let mut screen = user.try_clone().expect("a descriptor");
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        let mut some = [0; 4096];
        while let Ok(len @ 1..) = screen.read(&mut some) {
            all.extend_from_slice(&some[..len]);
        }
        String::from_utf8_lossy(&all).into_owned()
    });
    let mut press = |keys: &[u8]| user.write_all(keys).expect("pressed");
    press(b"s");
    assert_eq!(next(&mut subscriber), 0);
    press(b"ss");
    assert_eq!((next(&mut subscriber), next(&mut subscriber)), (1, 2));
    press(b"\x1b[C\x1b[Cs");
    assert_eq!(next(&mut subscriber), 12);
    press(b"\x1b[Ds");
    assert_eq!(next(&mut subscriber), 7);
    // Before the beginning is the beginning.
    press(b"\x1b[D\x1b[D\x1b[Ds");
    assert_eq!(next(&mut subscriber), 0);
    // Sixteen times as fast, it goes on by itself.
    press(b"++++ ");
    assert_eq!((next(&mut subscriber), next(&mut subscriber)), (1, 2));
    press(b" -q");
    assert!(player.wait().success());
    drop((user, program));
    let screen = reader.join().expect("read");
    assert!(screen.contains("paused") && screen.contains("x16"), "{screen:?}");
}
