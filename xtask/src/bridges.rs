//! `cargo xtask bridges`: what carries Outlive beyond one machine, in a workspace of its own.
//!
//! It is no part of the test command: it compiles some 400 crates, and its servers come from Debian.
//! CI runs both, by `cargo xtask test --bridges`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::count::Count;
use crate::install::{self, Need};
use crate::paths::{self, root};
use crate::prefix;
use crate::python;
use crate::stage::{self, Counts};
use crate::test::cargo;

/// What the tests start; a test whose program is not there says so and is skipped.
const NEEDS: [Need; 7] = [
    Need {
        program: "nats-server",
        package: "nats-server",
        why: "durable queues are bridged to it",
    },
    Need {
        program: "etcd",
        package: "etcd-server",
        why: "locks of several machines are kept by it",
    },
    Need { program: "etcdctl", package: "etcd-client", why: "makes the users of a test's etcd" },
    Need { program: "nft", package: "nftables", why: "loses packets between two namespaces" },
    Need { program: "ip", package: "iproute2", why: "makes the namespaces" },
    Need {
        program: "roscore",
        package: "python3-roslaunch python3-rosmaster rosout python3-rostopic python3-rosservice \
                  python3-rosbag python3-rospy python3-std-msgs python3-std-srvs \
                  python3-sensor-msgs python3-geometry-msgs python3-numpy",
        why: "ROS 1's master and tools, to which topics and services are bridged",
    },
    Need { program: "pytest-3", package: "python3-pytest", why: "runs the tests of ROS 1" },
];

const PIP: [&str; 5] = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];

/// The Python that has Debian's ROS 1; another one in front of it in the path has not.
const SYSTEM_PYTHON: &str = "/usr/bin/python3";

/// ROS 2, from PyPI.
const ROS_2: [&str; 7] = [
    "ros-rclpy[fastrtps]",
    "ros-std-msgs",
    "ros-sensor-msgs",
    "ros-geometry-msgs",
    "ros-std-srvs",
    "numpy",
    "pytest>=8",
];

/// What writes bags, and what reads them: for tests that are skipped where they are not there.
const BAGS: [&str; 3] = ["mcap>=1.2,<2", "rosbags", "mcap-ros1-support"];

/// zenoh's client in Python, from PyPI: for a test of the gateway.
const ZENOH: [&str; 2] = ["eclipse-zenoh>=1.10,<2", "numpy>=2.1"];

/// A WebSocket client in Python, from PyPI: for a test of the view.
const WEBSOCKETS: [&str; 1] = ["websockets>=14"];

/// Runs `cargo xtask bridges [--no-install] [NAME]`.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let (flags, names): (Vec<_>, Vec<_>) = args.iter().partition(|arg| arg.starts_with('-'));
    let may_install = match flags[..] {
        [] => true,
        [flag] if flag == "--no-install" => false,
        _ => return usage(),
    };
    let name = match names[..] {
        [] => None,
        [name] => Some(name.as_str()),
        _ => return usage(),
    };
    let count = all(may_install, name);
    println!("{count}");
    if count.failed == 0 && count.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn usage() -> ExitCode {
    eprintln!("usage: cargo xtask bridges [--no-install] [NAME]");
    ExitCode::from(2)
}

/// Runs all stages, or of the tests those whose name contains `name`; `ros`, `ros1` and `ros2` are
/// the tests of the bridges to ROS.
pub(crate) fn all(may_install: bool, name: Option<&str>) -> Count {
    for program in install::install(&NEEDS.each_ref(), may_install) {
        println!("{program} is not there: the tests that start it are skipped");
    }
    if let Some(which) = name.filter(|name| ["ros", "ros1", "ros2"].contains(name)) {
        return ros(may_install, which);
    }
    let mut total = Count::default();
    if name.is_none() {
        total.add(stage::run(
            "format of the bridges",
            cargo_there(&["fmt", "--all", "--", "--check"]),
            Counts::ByExit,
        ));
        let clippy = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
        total.add(stage::run("clippy of the bridges", cargo_there(&clippy), Counts::ByExit));
    }
    // Where the tests look, which skip themselves if it is not there.
    for (folder, modules, names) in [
        ("python-zenoh", "zenoh, numpy", &ZENOH[..]),
        ("python-websockets", "websockets", &WEBSOCKETS),
    ] {
        let folder = root().join("bridges/target").join(folder);
        if let Err(why) = packages(may_install, &folder, modules, names) {
            println!("{why}");
        }
    }
    let mut tests = cargo_there(&["test", "--workspace", "--no-fail-fast"]);
    tests.args(name);
    total.add(stage::run("bridges", tests, Counts::ByLines));
    if name.is_none() {
        total.add(ros(may_install, "ros"));
    }
    total
}

/// Runs the tests of the bridges to ROS, which are Python's: of ROS 1, of ROS 2, or of both.
fn ros(may_install: bool, which: &str) -> Count {
    match python::built(may_install, false) {
        Ok(Ok(_)) => {}
        Ok(Err(why)) => return stage::skip("ROS", &why),
        Err(error) => {
            println!("{error}");
            return Count::FAILED;
        }
    }
    let mut total = Count::default();
    if "ros1".starts_with(which) {
        if install::is_there("roscore") && install::is_there("pytest-3") {
            total.add(pytest("ROS 1", Command::new(SYSTEM_PYTHON), "test_ros1"));
        } else {
            total.add(stage::skip("ROS 1", "Debian's ROS 1 or its pytest is not there"));
        }
    }
    if "ros2".starts_with(which) {
        match ros_2(may_install) {
            Ok(python) => {
                bags(may_install, &python);
                total.add(pytest("ROS 2", in_own_network(&python), "test_ros2"));
            }
            Err(why) => total.add(stage::skip("ROS 2", &why)),
        }
    }
    total
}

/// Runs the tests whose files' names begin so.
fn pytest(stage: &str, mut python: Command, begin: &str) -> Count {
    let folder = root().join("bridges/ros/tests");
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let begins = |name: &OsString| name.to_string_lossy().starts_with(begin);
    let files = entries.map(|entry| entry.file_name()).filter(begins);
    python.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no"]).args(files);
    python.current_dir(folder).env("PYTHONPATH", paths::at(paths::PYTHON));
    stage::run(stage, python, Counts::ByLines)
}

/// Returns how to run Python where there is no network but loopback, if this user may have that:
/// ROS 2 looks for other nodes. Its tests tell it to look on this machine alone, in any case.
fn in_own_network(python: &Path) -> Command {
    let alone = |program: &OsStr| {
        let mut command = Command::new("unshare");
        let script = "ip link set lo up && exec \"$0\" \"$@\"";
        command.args(["--net", "sh", "-c", script]).arg(program);
        command
    };
    let mut probe = alone(OsStr::new("true"));
    if probe.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        alone(python.as_os_str())
    } else {
        Command::new(python)
    }
}

/// Returns the interpreter of an environment with ROS 2; or says why there is none.
fn ros_2(may_install: bool) -> Result<PathBuf, String> {
    let modules = "rclpy, std_msgs, sensor_msgs, geometry_msgs, std_srvs, numpy, pytest";
    packages(may_install, &root().join(prefix::target()).join("ros2"), modules, &ROS_2)
}

/// Sees to what reads and writes bags in ROS 2's environment, or says that it is not there.
fn bags(may_install: bool, python: &Path) {
    let are_there = || succeeds(python, &["-c", "import mcap, mcap_ros1, rosbags"]);
    if !are_there() && may_install {
        let _ = Command::new(python).args(PIP).args(BAGS).status();
    }
    if !are_there() {
        println!("{} are not all there: the tests that use them are skipped", BAGS.join(", "));
    }
}

fn succeeds(python: &Path, args: &[&str]) -> bool {
    let mut command = Command::new(python);
    command.args(args).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Returns the interpreter of an environment with these packages of PyPI, which have these modules; or says
/// why there is none.
fn packages(
    may_install: bool,
    environment: &Path,
    modules: &str,
    packages: &[&str],
) -> Result<PathBuf, String> {
    let python = environment.join("bin/python");
    let is_there = |python: &Path| succeeds(python, &["-c", &format!("import {modules}")]);
    if is_there(&python) {
        return Ok(python);
    }
    if !may_install {
        return Err(format!("{} lacks packages, and none may be installed", environment.display()));
    }
    let names = packages.join(", ");
    println!("{} needs {names}: pip gets them from PyPI", environment.display());
    // A failure is seen by what is missing.
    let _ = Command::new("python3").args(["-m", "venv", "--clear"]).arg(environment).status();
    let _ = Command::new(&python).args(PIP).args(packages).status();
    if is_there(&python) { Ok(python) } else { Err(format!("{names} could not be had from PyPI")) }
}

/// Returns cargo's command in the bridges' workspace.
fn cargo_there(args: &[&str]) -> Command {
    let mut command = cargo(args);
    command.current_dir(root().join("bridges"));
    command
}
