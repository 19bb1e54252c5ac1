//! Locks that are broken on purpose: proof that the machine can find a hang, also one that only few
//! instructions allow.
//!
//! One word, 0 free, 1 taken, 2 taken with sleepers (Drepper's third mutex). It names no owner, so
//! no process can tell a dead holder from a slow one: a process that waits for a dead one waits for
//! ever. Where another process repairs that, one flaw remains: an unlocker killed after it has
//! freed the word and before it has woken the sleeper leaves that one asleep.

use std::fs::OpenOptions;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::thread::futex;

use super::{Death, HOLDS_NOTHING, Place, Scenario, Stop};
use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::world::World;
use crate::world::survivor::Obeys;

/// A lock word in a mapped file; never unmapped, as its processes end soon.
struct Toy {
    word: NonNull<AtomicU32>,
}

impl Toy {
    fn open(place: &Place<'_>) -> Result<Toy, String> {
        let map = || -> std::io::Result<Toy> {
            std::fs::create_dir_all(place.domain)?;
            let path = place.domain.join("toy");
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
            Ok(Toy { word: NonNull::new(address.cast()).ok_or(std::io::ErrorKind::OutOfMemory)? })
        };
        map().map_err(|error| error.to_string())
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: mapped for the rest of the process's life, aligned, any bytes are valid.
        unsafe { self.word.as_ref() }
    }

    fn lock(&self) {
        let word = self.word();
        let mut seen = word
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .unwrap_or_else(|seen| seen);
        while seen != 0 {
            if seen == 2
                || word.compare_exchange(1, 2, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                let _ = futex::wait(word, futex::Flags::empty(), 2, None);
            }
            seen = word
                .compare_exchange(0, 2, Ordering::Acquire, Ordering::Relaxed)
                .unwrap_or_else(|seen| seen);
            if seen == 0 {
                break;
            }
        }
    }

    fn unlock(&self) {
        if self.word().swap(0, Ordering::Release) == 2 {
            let _ = futex::wake(self.word(), futex::Flags::empty(), 1);
        }
    }
}

impl Obeys for Toy {
    fn obey(&mut self, order: &[&str]) -> Result<String, String> {
        match order {
            ["lock"] => self.lock(),
            ["unlock"] => self.unlock(),
            ["look"] => return Ok(self.word().load(Ordering::SeqCst).to_string()),
            ["set", "free"] => self.word().store(0, Ordering::SeqCst),
            ["free", "if", "taken"] => {
                if self.word().swap(0, Ordering::SeqCst) != 0 {
                    let _ = futex::wake(self.word(), futex::Flags::empty(), i32::MAX as u32);
                }
            }
            _ => return Err("unknown order".to_owned()),
        }
        Ok(String::new())
    }
}

/// Lock and unlock of a word without an owner: killed in between, the next locker hangs.
pub struct OwnerlessLock;

impl Scenario for OwnerlessLock {
    fn name(&self) -> &'static str {
        "toy-ownerless-lock"
    }

    fn about(&self) -> &'static str {
        "a lock word without an owner, locked and unlocked (broken on purpose: a hang must be found)"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        world.survivor("next")?.ask("set free").map(drop)
    }

    fn check(&self, world: &mut World, _death: &Death) -> Result<(), Failure> {
        world.ask("next", "lock")?;
        world.ask("next", "unlock")?;
        world.saw("clean");
        Ok(())
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        if world.passes("next", "look")? != "0" {
            return Ok("may hold the lock");
        }
        world.passes("next", "lock")?;
        world.passes("next", "unlock")?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let toy = Toy::open(place)?;
        stage.begin();
        toy.lock();
        toy.unlock();
        stage.end();
        Ok(())
    }

    fn member(&self, place: &Place<'_>) -> Result<Box<dyn Obeys>, String> {
        Ok(Box::new(Toy::open(place)?))
    }

    fn must_fail(&self) -> bool {
        true
    }

    fn uses_recheck(&self) -> bool {
        false
    }
}

/// Unlock with a sleeper; a dead holder's lock is freed by the test, yet a death before the wake-up
/// hangs the sleeper.
pub struct LostWake;

impl Scenario for LostWake {
    fn name(&self) -> &'static str {
        "toy-lost-wake"
    }

    fn about(&self) -> &'static str {
        "an unlock that frees first and wakes then, nobody looking after it (broken on purpose: a hang must be found)"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        world.survivor("repairer")?.ask("set free").map(drop)
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        world.survivor("sleeper")?.tell_and_see_asleep("lock")
    }

    fn check(&self, world: &mut World, _death: &Death) -> Result<(), Failure> {
        world.ask("repairer", "free if taken")?;
        world.answer("sleeper")?;
        world.saw("clean");
        Ok(())
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        if world.passes("repairer", "look")? != "0" {
            return Ok("may hold the lock");
        }
        world.all_get_past()?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let toy = Toy::open(place)?;
        toy.lock();
        stage.begin();
        toy.unlock();
        stage.end();
        Ok(())
    }

    fn member(&self, place: &Place<'_>) -> Result<Box<dyn Obeys>, String> {
        Ok(Box::new(Toy::open(place)?))
    }

    fn must_fail(&self) -> bool {
        true
    }

    fn uses_recheck(&self) -> bool {
        false
    }
}
