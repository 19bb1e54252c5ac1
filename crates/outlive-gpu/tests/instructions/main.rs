//! Operations on pinned and on device topics, killed at their instructions: scenarios of the
//! testkit's engine, in a program with a main of its own, which is also what it kills. The driver
//! does what is enqueued at once, in the thread that enqueues it, so host functions are among the
//! instructions.
//!
//! `instructions [--all | --fault] [--from N] [--to N] [NAME]`: at the telling points and beside
//! them; with `--all` at every instruction. With `--fault` no victim is killed on the way: each
//! system call fails instead, with each error that it may give.

#[path = "../fake/mod.rs"]
mod fake;

mod device;
mod pinned;

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;

use fake::scene::Scene;
use fake::{Fake, What};
use outlive::Detail;
use outlive_testkit::campaign::{self, Orders, Part};
use outlive_testkit::engine::plan::Thoroughness;
use outlive_testkit::engine::victim::Stage;
use outlive_testkit::failure::Failure;
use outlive_testkit::scenario::{Place, Scenario};
use outlive_testkit::world::{Recheck, World, affinity};

fn all() -> Vec<Box<dyn Scenario>> {
    device::all().into_iter().chain(pinned::all()).collect()
}

/// How many deaths a domain sees: a process may open 960 in its life, and this one has some hundred
/// thousand rounds.
const ROUNDS: u64 = 200;

thread_local! {
    /// The world's scene, and the folder by which it is known. One fake driver at a time.
    static SCENE: RefCell<Option<(PathBuf, Rc<Scene>)>> = const { RefCell::new(None) };
    /// What a scenario keeps from one part of a round for the next.
    static KEPT: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
}

fn forget() {
    drop(KEPT.take());
    drop(SCENE.take());
}

/// That of the round's world.
fn scene(world: &World) -> Result<Rc<Scene>, Failure> {
    let folder = world.domain();
    if let Some(scene) = SCENE.with_borrow(|known| {
        known.as_ref().filter(|(of, _)| *of == folder).map(|(_, scene)| scene.clone())
    }) {
        return Ok(scene);
    }
    forget();
    let domain =
        world.recheck().open(&folder).map_err(|error| Failure::broken(error.to_string()))?;
    let scene = Rc::new(Scene::with(Fake::in_domain(domain, folder.clone())));
    SCENE.set(Some((folder, scene.clone())));
    Ok(scene)
}

/// A round's beginning: what is made of its topic's name is kept until `checked`.
fn prepared<T: 'static>(
    world: &mut World,
    prepare: impl FnOnce(&Scene, &str) -> T,
) -> Result<(), Failure> {
    // An earlier round's that failed.
    drop(KEPT.take());
    let scene = scene(world)?;
    let kept = holds(|| prepare(&scene, &world.fresh("thing")))?;
    KEPT.set(Some(Box::new(kept)));
    Ok(())
}

/// With what is kept, which stays.
fn gathered<T: 'static>(
    world: &mut World,
    see: impl FnOnce(&Scene, &mut T),
) -> Result<(), Failure> {
    let scene = scene(world)?;
    KEPT.with_borrow_mut(|kept| {
        let kept = kept.as_mut().and_then(|kept| kept.downcast_mut::<T>());
        let kept = kept.ok_or_else(|| Failure::broken("nothing is kept"))?;
        holds(|| see(&scene, kept))
    })
}

/// The round's end.
fn checked<T: 'static>(world: &mut World, check: impl FnOnce(&Scene, T)) -> Result<(), Failure> {
    let scene = scene(world)?;
    let kept = KEPT.take().and_then(|kept| kept.downcast::<T>().ok());
    let kept = *kept.ok_or_else(|| Failure::broken("nothing is kept"))?;
    holds(|| {
        check(&scene, kept);
        nothing_is_left(&scene, &world.fresh("thing"));
        assert_eq!(scene.fake.count(What::Violations), 0, "what a driver forbids");
    })
}

/// One sweep is enough: then no process has an end of the topic, and it is removed.
fn nothing_is_left(scene: &Scene, topic: &str) {
    let domain = &scene.fake.domain;
    domain.sweep(false).expect("sweeps");
    let second = domain.sweep(false).expect("sweeps");
    assert!(second.is_clean(), "a second sweep still finds something: {second:?}");
    let entry = domain.entry(topic).expect("there");
    let Detail::Topic(usage) = &entry.detail else { panic!("{entry:?}") };
    assert!(
        usage.subscribers.is_empty() && usage.rings.iter().all(|ring| ring.publisher.is_none()),
        "{entry:?}"
    );
    assert_eq!(entry.dead_claims, 0);
    domain.remove(topic).expect("there");
}

/// A failed assertion is the round's failure.
fn holds<R>(check: impl FnOnce() -> R) -> Result<R, Failure> {
    catch_unwind(AssertUnwindSafe(check)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Failure::wrong(
            text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()))
                .unwrap_or_default(),
        )
    })
}

/// In the victim: its own scene, whose driver does everything at once.
fn victims(place: &Place<'_>) -> Result<Scene, String> {
    let scene = Scene::with(Fake::in_domain(place.open()?, place.domain.to_owned()));
    scene.fake.set_attribute(-4, 1);
    Ok(scene)
}

/// Killed here at the latest, whatever the operation has come to: nothing is given back in order.
fn dies<T, E>(_with: Result<T, E>) -> ! {
    loop {
        std::thread::park();
    }
}

/// These scenarios have no survivors that a stop could delay yet: they must not count as tried.
fn killed_only() -> Failure {
    Failure::broken("GPU scenarios are killed, and not stopped")
}

fn play(name: &str, place: &Place<'_>, control: &str, cpu: &str) -> Result<(), String> {
    let stage =
        Stage::enter(Path::new(control), cpu.parse().ok()).map_err(|error| error.to_string())?;
    let scenario =
        all().into_iter().find(|scenario| scenario.name() == name).ok_or("no such scenario")?;
    scenario.perform(place, &stage)
}

struct Wanted {
    name: String,
    all: bool,
    fault: bool,
    from: u64,
    to: u64,
}

impl Wanted {
    /// Flags of libtest's make no difference here.
    fn parse(mut words: impl Iterator<Item = String>) -> Wanted {
        let mut wanted =
            Wanted { name: String::new(), all: false, fault: false, from: 0, to: u64::MAX };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--all" => wanted.all = true,
                "--fault" => wanted.fault = true,
                "--from" => {
                    wanted.from = words.next().and_then(|word| word.parse().ok()).unwrap_or(0)
                }
                "--to" => {
                    wanted.to = words.next().and_then(|word| word.parse().ok()).unwrap_or(u64::MAX)
                }
                flag if flag.starts_with('-') => {}
                _ => wanted.name = word,
            }
        }
        wanted
    }

    fn carry_out(&self, scenario: &dyn Scenario) -> bool {
        let own = std::env::current_exe().expect("a path");
        let orders = Orders {
            fate: if self.fault { campaign::Fate::Failing } else { campaign::Fate::Killed },
            thoroughness: if self.all { Thoroughness::Every } else { Thoroughness::Telling },
            from: self.from,
            to: self.to,
            part: Part::WHOLE,
            cpu: affinity::available().first().copied(),
            program: own.clone(),
            victim: own,
        };
        let name = scenario.name();
        let result = campaign::run(scenario, Recheck::Off, &orders);
        forget();
        match result {
            Ok(report) => {
                println!("{name}: {report}");
                for (point, failure) in &report.failures {
                    println!("       point {point}: {failure}");
                }
                let is_ok = report.failures.is_empty();
                println!("test {name} ... {}", if is_ok { "ok" } else { "FAILED" });
                is_ok
            }
            Err(failure) => {
                println!("{failure}\ntest {name} ... FAILED");
                false
            }
        }
    }
}

/// A victim, or all scenarios whose name contains what is asked for.
fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [name, "victim", domain, recheck, own_name, control, cpu] =
        words.iter().map(String::as_str).collect::<Vec<_>>()[..]
    {
        let Some(recheck) = Recheck::from_word(recheck) else { return ExitCode::from(2) };
        let place = Place { domain: Path::new(domain), recheck, name: own_name };
        return match play(name, &place, control, cpu) {
            Ok(()) => ExitCode::SUCCESS,
            Err(problem) => {
                eprintln!("{name}: {problem}");
                ExitCode::FAILURE
            }
        };
    }
    let wanted = Wanted::parse(words.into_iter());
    let (mut passed, mut failed) = (0, 0);
    for scenario in all().iter().filter(|scenario| scenario.name().contains(&wanted.name)) {
        *if wanted.carry_out(scenario.as_ref()) { &mut passed } else { &mut failed } += 1;
    }
    println!("{passed} passed, {failed} failed");
    ExitCode::from(u8::from(failed > 0))
}
