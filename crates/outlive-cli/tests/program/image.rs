//! `image`: pictures of topics, on a terminal and in a pipe.

use outlive::Domain;
use outlive::describe::{Description, Encoding};
use outlive::topic::{Durability, Topic};

use crate::stage::Stage;
use crate::terminal::Terminal;

const RED_AND_BLUE: [u8; 6] = [255, 0, 0, 0, 0, 255];
/// Two pixels side by side, in the place of four cells.
const SIZE: [&str; 2] = ["--size", "2x1"];

fn camera(stage: &Stage) {
    stage.feed(&["pub", "camera", "--frame", "6"], &RED_AND_BLUE).expect(0);
}

#[test]
fn one_picture_is_printed_in_each_way() {
    let stage = Stage::new();
    camera(&stage);
    let once = |more: &[&str]| {
        let call = [&["image", "camera", "--once"][..], &SIZE, more].concat();
        let mut command = stage.command(call);
        command.env("COLORTERM", "truecolor").env_remove("LC_ALL").env("LANG", "C.UTF-8");
        crate::stage::Running::new(command).end().expect(0).text()
    };
    let blocks = once(&["--as", "blocks"]);
    assert!(blocks.starts_with("\x1b[38;2;255;0;0m\x1b[48;2;255;0;0m▀"), "{blocks:?}");
    assert!(blocks.contains("\x1b[38;2;0;0;255m\x1b[48;2;0;0;255m▀"), "{blocks:?}");
    assert_eq!(once(&[]), blocks, "a pipe is no terminal that could be asked");
    assert!(once(&["--as", "sixel"]).starts_with("\x1bP0;1q\"1;1;"));
    let kitty = once(&["--as", "kitty"]);
    assert!(kitty.contains("s=2,v=1,") && kitty.contains("m=0;/wAAAAD/\x1b\\"), "{kitty:?}");
}

#[test]
fn what_is_no_picture_is_told() {
    let stage = Stage::new();
    stage.run(&["image", "camera"]).expect(2).says("--once");
    stage.run(&["image", "camera", "--once", "--timeout", "50ms"]).expect(5).says("camera");
    stage.run(&["image", "camera", "--once", "--size", "2"]).expect(2).says("640x480");
    stage.run(&["image", "c", "--once", "--size", "2x1", "--encoding", "no"]).expect(2).says("no");
    stage.run(&["image", "camera", "--rate", "0"]).expect(2).says("--rate");
    stage.run(&["image", "camera", "--json"]).expect(2).says("topic echo --json");
    camera(&stage);
    let once = |more: &[&str]| stage.run(&[&["image", "camera", "--once"][..], more].concat());
    once(&[]).expect(16).says("no pictures");
    once(&["--size", "3x1"]).expect(16).says("encoding");
    once(&["--size", "3x1", "--encoding", "rgb8"]).expect(16).says("do not fit in 6 bytes");
    once(&["--size", "18446744073709551615x1"]).expect(16);
    // ROS's own message, which ends too early.
    let domain = Domain::open_or_create_at(stage.domain()).expect("opens");
    let image = Description::encoded("sensor_msgs/msg/Image", Encoding::Cdr).expect("possible");
    let kept = Topic::<[u8]>::options().durability(Durability::Persistent).description(image);
    let topic = kept.create_new(&domain, "ros").expect("made");
    topic.publisher().expect("made").publish(&b"\0\x01\0\0abc"[..]).expect("published");
    stage.run(&["image", "ros", "--once"]).expect(16).says("sensor_msgs/Image");
}

#[test]
fn a_terminal_is_asked_what_it_can_and_shows_what_comes() {
    let stage = Stage::new();
    camera(&stage);
    let image = [&["image", "camera"][..], &SIZE].concat();
    for (answer, begins) in
        [("\x1b[?62;4;22c", "\x1bP0;1q"), ("\x1b_Gi=31;OK\x1b\\\x1b[?62c", "\x1b_Ga=T")]
    {
        // Before it asks: a test has no time that a loaded machine cannot take from it.
        let mut terminal = Terminal::start_with(&stage, &image, answer);
        terminal.shows("\x1b[c");
        terminal.shows(begins);
        terminal.press("q");
        terminal.ends();
    }
    // One that does not answer has half blocks.
    let mut terminal = Terminal::start(&stage, &image);
    terminal.shows("38;5;196");
    terminal.shows("▀");
    terminal.press("");
    stage.feed(&["pub", "camera", "--frame", "6"], &[0, 255, 0, 0, 255, 0]).expect(0);
    terminal.shows("38;5;46");
    terminal.press(" ");
    terminal.shows("paused");
    terminal.running.signal(libc::SIGTERM);
    terminal.ends();
    // What is not there is waited for.
    let mut terminal = Terminal::start(&stage, &["image", "later", "--as", "blocks"]);
    terminal.shows("waiting");
    stage.feed(&["pub", "later"], b"text\n").expect(0);
    terminal.shows("known");
    terminal.press("q");
    terminal.ends();
}
