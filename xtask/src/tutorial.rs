//! Plays the tutorial of doc/tutorial.md as its reader does: compiles its programs, starts them,
//! kills them, and compares what the others print with what the page says.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::count::Count;
use crate::paths::root;
use crate::programs::{self, Domain, Language, Program, Tools, compiled, scratch};

const PAGE: &str = "doc/tutorial.md";
/// Each thing that the page says will be seen is seen within this.
const LONGEST: Duration = Duration::from_secs(60);

type Played = Result<(), String>;

/// Plays all steps in Rust, in Python, and with a sensor in Rust beside a controller in Python.
/// Without an interpreter `python`, only those in Rust.
pub(crate) fn play(python: Option<&Path>) -> Count {
    let mut ways = vec![(Language::Rust, Language::Rust)];
    if python.is_some() {
        ways.extend([(Language::Python, Language::Python), (Language::Rust, Language::Python)]);
    }
    let tools = Tools { python: python.map(Path::to_path_buf), ..Tools::default() };
    let mut count = Count::default();
    for (sensor, controller) in ways {
        let played = Stage::new(sensor, controller, &tools).and_then(|stage| stage.play());
        count.add(if played.is_ok() { Count::PASSED } else { Count::FAILED });
        match played {
            Ok(()) => {
                println!(
                    "the tutorial, a sensor in {sensor:?} and a controller in {controller:?}: as on its page"
                )
            }
            Err(said) => println!(
                "the tutorial, a sensor in {sensor:?} and a controller in {controller:?}: {said}"
            ),
        }
    }
    count
}

/// One play: its programs, its folder, its domain.
struct Stage {
    sensor: Vec<String>,
    /// Step 2's and step 3's.
    controllers: [Vec<String>; 2],
    /// None where sensor and controller are of different languages: it starts those beside it.
    supervisor: Option<Vec<String>>,
    folder: PathBuf,
    domain: Domain,
}

/// A process that a play started, whose output goes into a file.
struct Actor {
    child: Child,
    printed: PathBuf,
}

impl Stage {
    fn new(sensor: Language, controller: Language, tools: &Tools) -> Result<Stage, String> {
        let page =
            fs::read_to_string(root().join(PAGE)).map_err(|error| format!("{PAGE}: {error}"))?;
        let found = programs::programs(PAGE, &page);
        let folder = scratch(&format!("tutorial-{sensor:?}-{controller:?}"));
        let get = |name: &str,
                   language: Language,
                   number: usize,
                   folder: &str,
                   of: &Path|
         -> Result<_, String> {
            let is_it = |program: &&Program| {
                let stem = program.file.as_deref().and_then(|file| file.split('.').next());
                program.language == language && stem == Some(name)
            };
            let program = found.iter().filter(is_it).nth(number);
            let program = program.ok_or_else(|| format!("{PAGE} has no {name} in {language:?}"))?;
            let command = compiled(program, tools, &of.join(folder))?;
            let words = std::iter::once(command.get_program()).chain(command.get_args());
            Ok(words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>())
        };
        let before = get("controller", controller, 0, "before", &folder)?;
        let after = get("controller", controller, 1, "after", &folder)?;
        let supervisor = if sensor == controller {
            Some(get("supervisor", sensor, 0, "after", &folder)?)
        } else {
            None
        };
        let sensor = get("sensor", sensor, 0, "after", &folder)?;
        Ok(Stage {
            sensor,
            controllers: [before, after],
            supervisor,
            folder,
            domain: Domain::new(),
        })
    }

    fn play(&self) -> Played {
        self.sensor_and_standby().map_err(|said| format!("step 1: {said}"))?;
        self.silence().map_err(|said| format!("step 2: {said}"))?;
        self.cut_short().map_err(|said| format!("step 3: {said}"))?;
        self.supervised().map_err(|said| format!("step 4: {said}"))
    }

    fn sensor_and_standby(&self) -> Played {
        let first = self.start(&self.sensor, "first")?;
        first.prints("measures")?;
        let second = self.start(&self.sensor, "second")?;
        second.prints("waits for its turn")?;
        first.kill()?;
        second.prints("the sensor before this one died")?;
        second.prints("measures")?;
        self.domain.kill_all()
    }

    fn silence(&self) -> Played {
        let sensor = self.start(&self.sensor, "sensor")?;
        let [controller, _] = &self.controllers;
        let controller = self.start(controller, "controller")?;
        controller.prints("drives")?;
        self.until("the speed is not 0", || self.speed().is_some_and(|speed| speed != "0"))?;
        sensor.kill()?;
        controller.prints("no distance for half a second: stop")?;
        self.until("the speed is 0", || self.speed().as_deref() == Some("0"))?;
        let _sensor = self.start(&self.sensor, "another sensor")?;
        self.until("the speed is not 0", || self.speed().is_some_and(|speed| speed != "0"))?;
        controller.kill()?;
        let speed = self.speed();
        if speed.as_deref().is_none_or(|speed| speed.parse::<u64>().is_err()) {
            return Err(format!("the dead controller's speed is {speed:?}"));
        }
        self.domain.kill_all()
    }

    fn cut_short(&self) -> Played {
        let _sensor = self.start(&self.sensor, "sensor")?;
        let [_, controller] = &self.controllers;
        let mut now = self.start(controller, "controller")?;
        now.prints("drives")?;
        let mut cut = 0;
        // More than half of the kills hit a move: 30 that miss are as good as impossible.
        for number in 0..30 {
            let sets = self.sets();
            self.until("the controller goes on", || self.sets() > sets)?;
            now.kill()?;
            now = self.start(controller, &format!("controller {number}"))?;
            now.prints("the controller before this one died")?;
            let sets = self.sets();
            self.until("the next controller goes on", || self.sets() > sets)?;
            cut += usize::from(
                now.has_printed().contains("a move was cut short: the arm goes home first"),
            );
            if cut == 2 {
                return self.domain.kill_all();
            }
        }
        Err(format!("{cut} of 30 controllers were told of a move that was cut short"))
    }

    fn supervised(&self) -> Played {
        let Some(supervisor) = &self.supervisor else { return Ok(()) };
        let first = self.start(supervisor, "supervisor")?;
        let log = self.folder.join("events.log");
        let lines = || fs::read_to_string(&log).unwrap_or_default().lines().count();
        let grows = || {
            let before = lines();
            self.until("the log grows", || lines() > before)
        };
        grows()?;
        for (name, doing) in [("sensor", "measures"), ("controller", "drives")] {
            let pid = first.pid_of(name, doing)?;
            kill(pid)?;
            first.prints(&format!("the {name} has ended"))?;
            grows()?;
        }
        let sets = self.sets();
        first.kill()?;
        // The controller that lives goes on.
        self.until("the controller goes on", || self.sets() > sets)?;
        let second = self.start(supervisor, "another supervisor")?;
        second.prints("supervises")?;
        grows()?;
        self.domain.kill_all()?;
        let text = fs::read_to_string(&log).map_err(|error| error.to_string())?;
        let mut last = 0;
        for line in text.lines() {
            let (number, mark) =
                line.strip_prefix("move ").and_then(|rest| rest.split_once(' ')).map_or_else(
                    || (line.strip_prefix("move ").unwrap_or_default(), None),
                    |(number, mark)| (number, Some(mark)),
                );
            let number: u64 =
                number.parse().map_err(|_| format!("the log has the line {line:?}"))?;
            let is_again = mark == Some("(again)") && number == last;
            if number <= last && !is_again {
                return Err(format!(
                    "move {number} stands in the log behind move {last}, without a mark"
                ));
            }
            last = number;
        }
        Ok(())
    }

    fn start(&self, command: &[String], name: &str) -> Result<Actor, String> {
        let printed = self.folder.join(format!("{name}.printed"));
        let started = || {
            let file = File::create(&printed)?;
            let (program, arguments) =
                command.split_first().ok_or(std::io::ErrorKind::InvalidInput)?;
            let mut command = Command::new(program);
            command
                .args(arguments)
                .current_dir(&self.folder)
                .env("OUTLIVE_DOMAIN", &self.domain.path);
            command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn()
        };
        let child = started().map_err(|error| format!("{name}: {error}"))?;
        Ok(Actor { child, printed })
    }

    fn outlive(&self, arguments: &[&str]) -> Option<String> {
        let mut command = Command::new(root().join(crate::prefix::target()).join("debug/outlive"));
        let output = command
            .args(arguments)
            .env("OUTLIVE_DOMAIN", &self.domain.path)
            .stdin(Stdio::null())
            .output();
        let output = output.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    fn speed(&self) -> Option<String> {
        self.outlive(&["state", "get", "speed"])
    }

    /// Returns how often a controller has set the speed; it moves the arm after each.
    fn sets(&self) -> u64 {
        let speed = self.outlive(&["state", "get", "speed", "--json"]).unwrap_or_default();
        let speed: serde_json::Value = serde_json::from_str(&speed).unwrap_or_default();
        speed["version"].as_u64().unwrap_or(0)
    }

    fn until(&self, what: &str, is_so: impl Fn() -> bool) -> Played {
        let begun = Instant::now();
        while !is_so() {
            if begun.elapsed() > LONGEST {
                return Err(format!("it did not come to this in {} s: {what}", LONGEST.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // A play that failed has said so already.
        let _ = self.domain.kill_all();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Actor {
    fn has_printed(&self) -> String {
        fs::read_to_string(&self.printed).unwrap_or_default()
    }

    fn prints(&self, what: &str) -> Played {
        let begun = Instant::now();
        while !self.has_printed().contains(what) {
            if begun.elapsed() > LONGEST {
                return Err(format!(
                    "no {what:?} in {} s, but: {}",
                    LONGEST.as_secs(),
                    self.has_printed()
                ));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Returns the last process that printed `NAME PID DOING`.
    fn pid_of(&self, name: &str, doing: &str) -> Result<u32, String> {
        self.prints(doing)?;
        let printed = self.has_printed();
        let mut pids = printed
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_suffix(doing)?.trim().parse().ok());
        pids.next_back().ok_or_else(|| format!("no {name} that {doing}: {printed}"))
    }

    /// Kills it, and returns when it has ended.
    fn kill(mut self) -> Played {
        let ended = self.child.kill().and_then(|()| self.child.wait());
        ended.map(drop).map_err(|error| error.to_string())
    }
}

fn kill(pid: u32) -> Played {
    let status =
        Command::new("kill").args(["-KILL", &pid.to_string()]).stderr(Stdio::null()).status();
    status.map(drop).map_err(|error| error.to_string())
}
