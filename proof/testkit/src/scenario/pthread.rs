//! The C library's robust mutex, as a check of the machine itself: its answers are known.
//!
//! Killed before the word is swapped, the next locker is told that the owner died; after that it
//! finds a free lock.

use std::fs::OpenOptions;
use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use rustix::mm::{MapFlags, ProtFlags, mmap};

use super::{Death, HOLDS_NOTHING, Place, Scenario, Stop};
use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::world::World;
use crate::world::survivor::Obeys;

/// What the mutex guards: two numbers that are equal whenever it is free.
#[repr(C)]
struct Shared {
    mutex: libc::pthread_mutex_t,
    first: u64,
    second: u64,
}

/// A mapping of the mutex; never unmapped, as its processes end soon.
struct Robust {
    shared: NonNull<Shared>,
}

impl Robust {
    fn open(folder: &Path) -> Result<Robust, String> {
        let map = || -> std::io::Result<Robust> {
            std::fs::create_dir_all(folder)?;
            let path = folder.join("pthread");
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)?;
            file.set_len(4096)?;
            // SAFETY: a fresh shared mapping of a file that is as long.
            let address = unsafe {
                mmap(
                    std::ptr::null_mut(),
                    4096,
                    ProtFlags::READ | ProtFlags::WRITE,
                    MapFlags::SHARED,
                    &file,
                    0,
                )?
            };
            Ok(Robust {
                shared: NonNull::new(address.cast()).ok_or(std::io::ErrorKind::OutOfMemory)?,
            })
        };
        map().map_err(|error| error.to_string())
    }

    fn mutex(&self) -> *mut libc::pthread_mutex_t {
        // SAFETY: a field's address within the mapping; nothing is read.
        unsafe { &raw mut (*self.shared.as_ptr()).mutex }
    }

    fn initialise(&self) {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: the attributes are initialised before use; no other thread uses the mutex yet.
        unsafe {
            self.shared.as_ptr().write_bytes(0, 1);
            libc::pthread_mutexattr_init(attributes.as_mut_ptr());
            libc::pthread_mutexattr_setpshared(
                attributes.as_mut_ptr(),
                libc::PTHREAD_PROCESS_SHARED,
            );
            libc::pthread_mutexattr_setrobust(attributes.as_mut_ptr(), libc::PTHREAD_MUTEX_ROBUST);
            libc::pthread_mutex_init(self.mutex(), attributes.as_ptr());
        }
    }

    /// Takes the mutex; true when its owner had died, in which case the numbers are made equal.
    fn lock(&self) -> Result<bool, String> {
        // SAFETY: an initialised mutex in memory that stays mapped.
        match unsafe { libc::pthread_mutex_lock(self.mutex()) } {
            0 => Ok(false),
            libc::EOWNERDEAD => {
                // SAFETY: we hold the mutex, so the numbers are ours.
                unsafe {
                    libc::pthread_mutex_consistent(self.mutex());
                    (*self.shared.as_ptr()).first = (*self.shared.as_ptr()).second;
                }
                Ok(true)
            }
            other => {
                Err(format!("pthread_mutex_lock: {}", std::io::Error::from_raw_os_error(other)))
            }
        }
    }

    fn raise_both(&self) {
        // SAFETY: the caller holds the mutex. Volatile, so that a death between the two can be
        // seen.
        unsafe {
            let (first, second) =
                (&raw mut (*self.shared.as_ptr()).first, &raw mut (*self.shared.as_ptr()).second);
            first.write_volatile(first.read_volatile() + 1);
            second.write_volatile(second.read_volatile() + 1);
        }
    }

    fn unlock(&self) {
        // SAFETY: held by the caller.
        unsafe { libc::pthread_mutex_unlock(self.mutex()) };
    }
}

impl Obeys for Robust {
    fn obey(&mut self, order: &[&str]) -> Result<String, String> {
        match order {
            ["initialise"] => self.initialise(),
            ["hold"] => drop(self.lock()?),
            // The thread whose number is in the lock's word.
            ["owner"] => {
                // SAFETY: the lock's word comes first in the C library's mutex, and the memory
                // stays mapped.
                let word = unsafe {
                    (*self.mutex().cast::<std::sync::atomic::AtomicU32>()).load(Ordering::SeqCst)
                };
                return Ok((word & libc::FUTEX_TID_MASK).to_string());
            }
            ["unlock"] => self.unlock(),
            ["lock", "and", "unlock"] => {
                let owner_died = self.lock()?;
                // SAFETY: we hold the mutex.
                let equal =
                    unsafe { (*self.shared.as_ptr()).first == (*self.shared.as_ptr()).second };
                self.unlock();
                if !equal {
                    return Err("the guarded numbers differ".to_owned());
                }
                return Ok(if owner_died { "died" } else { "clean" }.to_owned());
            }
            _ => return Err("unknown order".to_owned()),
        }
        Ok(String::new())
    }
}

fn count(world: &mut World, answer: &str) {
    world.saw(if answer == "died" { "owner died" } else { "clean" });
}

/// Work under the mutex and unlocking it, while another process sleeps on it.
pub struct RobustUnlock;

impl Scenario for RobustUnlock {
    fn name(&self) -> &'static str {
        "pthread-robust-unlock"
    }

    fn about(&self) -> &'static str {
        "the C library's robust mutex: work and unlock, with a sleeper (known answers, checks the machine)"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        world.survivor("sleeper")?.ask("initialise").map(drop)
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        world.survivor("sleeper")?.tell_and_see_asleep("lock and unlock")
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let answer = world.answer("sleeper")?;
        if death.ended && answer == "died" {
            return Err(Failure::wrong("told that the owner died after it had unlocked"));
        }
        count(world, &answer);
        Ok(())
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        if world.passes("witness", "owner")? == world.victim_tid().to_string() {
            return Ok("holds the lock");
        }
        world.all_get_past()?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let robust = Robust::open(place.domain)?;
        robust.lock()?;
        stage.begin();
        robust.raise_both();
        robust.unlock();
        stage.end();
        Ok(())
    }

    fn member(&self, place: &Place<'_>) -> Result<Box<dyn Obeys>, String> {
        Ok(Box::new(Robust::open(place.domain)?))
    }

    fn uses_recheck(&self) -> bool {
        false
    }
}

/// Waiting for the mutex while another process holds it: the victim sleeps, is woken by the
/// hand-over, works, unlocks.
pub struct RobustHandOver;

impl Scenario for RobustHandOver {
    fn name(&self) -> &'static str {
        "pthread-robust-hand-over"
    }

    fn about(&self) -> &'static str {
        "the C library's robust mutex: wait, be handed the lock, work, unlock (known answers, checks the machine)"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        world.survivor("holder")?.ask("initialise")?;
        world.survivor("holder")?.ask("hold").map(drop)
    }

    fn help(&self, world: &mut World) -> Result<(), Failure> {
        world.first_time("unlock");
        world.survivor("holder")?.ask("unlock").map(drop)
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        if !death.helped && world.first_time("unlock") {
            world.ask("holder", "unlock")?;
        }
        let answer = world.ask("next", "lock and unlock")?;
        if death.ended && answer == "died" {
            return Err(Failure::wrong("told that the owner died after it had unlocked"));
        }
        count(world, &answer);
        Ok(())
    }

    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure> {
        crate::scenario::help_beside(self, world, stop)?;
        if world.passes("witness", "owner")? == world.victim_tid().to_string() {
            return Ok("holds the lock");
        }
        world.passes("passer", "lock and unlock")?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let robust = Robust::open(place.domain)?;
        stage.begin();
        robust.lock()?;
        robust.raise_both();
        robust.unlock();
        stage.end();
        Ok(())
    }

    fn member(&self, place: &Place<'_>) -> Result<Box<dyn Obeys>, String> {
        Ok(Box::new(Robust::open(place.domain)?))
    }

    fn uses_recheck(&self) -> bool {
        false
    }
}
