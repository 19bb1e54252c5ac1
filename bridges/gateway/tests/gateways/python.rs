//! PyPI's `eclipse-zenoh` beside gateways. `cargo xtask bridges` makes its environment.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use outlive::topic::Topic;
use outlive_testnet::{Child, eventually, free_port, skip};

use crate::support::{LONG, Machine, Pose};

#[test]
fn python_reads_and_writes_bytes_and_structs() {
    let test = "python_reads_and_writes_bytes_and_structs";
    let target = Path::new(env!("CARGO_BIN_EXE_outlive-gateway")).ancestors().nth(2);
    let python = target.expect("a folder").join("python-zenoh/bin/python");
    let mut imports = Command::new(&python);
    imports.args(["-c", "import numpy, zenoh"]).stderr(Stdio::null());
    if !imports.status().is_ok_and(|status| status.success()) {
        let why = "eclipse-zenoh is not there: `cargo xtask bridges` gets it from PyPI";
        skip(test, why);
        return;
    }
    let endpoint = format!("tcp/127.0.0.1:{}", free_port());
    let a = Machine::started("a", &["--mode", "router", "--listen", &endpoint, "--allow", "**"]);
    let frames = Topic::<[u8]>::open_or_create(&a.domain, "camera.front").expect("made");
    let frames = frames.publisher().expect("publishes");
    let struct_named = |name: &str| {
        Topic::<Pose>::options().described().open_or_create(&a.domain, name).expect("made")
    };
    let poses = struct_named("robot.pose").publisher().expect("publishes");
    let mut goals = struct_named("robot.goal").subscriber().expect("joins");
    let speeds = Topic::<[u8]>::open_or_create(&a.domain, "drive.speed").expect("made");
    let mut speeds = speeds.subscriber().expect("joins");
    a.expect("sends", 4);

    let mut command = Command::new(python);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gateways/clients.py");
    command.arg(script).arg(&endpoint).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut client = Child::start(command).expect("starts");
    let _until_the_end = client.stdin();
    let lines = BufReader::new(client.stdout().expect("piped")).lines();
    let (sender, read) = mpsc::channel();
    std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));

    let mut seen: Vec<String> = Vec::new();
    let mut count = 0_u64;
    let arrived = eventually(LONG, || {
        // What is put before zenoh knows of the subscriber goes nowhere.
        frames.publish(format!("frame{count}").as_bytes()).expect("room");
        count += 1;
        let pose = Pose { position: [1.0, 2.5, -3.0], heading: 0.5, gear: 4 };
        poses.publish(&pose).expect("room");
        seen.extend(read.recv_timeout(Duration::from_millis(50)));
        seen.extend(read.try_iter());
        ["frame", "pose"].iter().all(|word| seen.iter().any(|line| line.starts_with(word)))
    });
    assert!(arrived, "{seen:?}\n{}", a.log());
    for line in &seen {
        match line.strip_prefix("frame camera/front frame") {
            // The publisher's own number, from 0 on.
            Some(rest) => {
                let (content, number) = rest.split_once(' ').expect("two words");
                assert_eq!(content, number);
            }
            None => assert_eq!(line, "pose 1.0 2.5 -3.0 0.5 4"),
        }
    }
    let sample = speeds.recv_timeout(LONG).expect("received").expect("in time");
    assert_eq!(*sample, b"fast"[..]);
    let sample = goals.recv_timeout(LONG).expect("received").expect("in time");
    assert_eq!(*sample, Pose { position: [4.0, 5.0, 6.0], heading: 0.25, gear: 7 });
    // Of the other length none has come.
    assert!((0..20).all(|_| goals.recv_timeout(LONG).is_ok()));
    a.expect("refused", 1);
    let refused = &a.events("refused")[0];
    assert_eq!(refused["name"], "robot/goal", "{}", a.log());
}
