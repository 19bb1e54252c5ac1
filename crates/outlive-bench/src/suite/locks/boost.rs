//! Boost.Interprocess's sharable mutex, exclusive and shared, where Boost's headers and a C++
//! compiler are found.
//!
//! `boost.cpp` is compiled into a shared object when the row is asked for, and loaded: see
//! [`compiled`].

use super::number::Number;
use super::{Handle, Held, Lock};
use crate::harness::compiled;
use crate::harness::error::Error;
use crate::harness::round::Stage;
use crate::harness::shared::{Shared, ZeroShared};
use std::cell::UnsafeCell;
use std::ffi::{CStr, c_void};
use std::mem;
use std::sync::OnceLock;

const SOURCE: &str = include_str!("boost.cpp");

/// Room for the mutex.
const ROOM: usize = 512;

/// The mutex, and the number behind it.
#[repr(C, align(128))]
pub(super) struct Guarded {
    mutex: UnsafeCell<[u64; ROOM / 8]>,
    number: Number,
}

// SAFETY: the mutex is made for use between processes, and the number is reached under it only.
unsafe impl Sync for Guarded {}
// SAFETY: zero is valid, no pointers.
unsafe impl ZeroShared for Guarded {}

/// A function on a mutex.
type OnMutex = unsafe extern "C" fn(*mut c_void);

/// The object's functions. It is never unloaded.
struct Object {
    make: OnMutex,
    lock: [OnMutex; 2],
    unlock: [OnMutex; 2],
}

impl Object {
    /// Compiles and loads the object once.
    fn get() -> Result<&'static Object, &'static str> {
        static OBJECT: OnceLock<Result<Object, String>> = OnceLock::new();
        OBJECT
            .get_or_init(|| build().map_err(|error| error.to_string()))
            .as_ref()
            .map_err(String::as_str)
    }
}

fn build() -> Result<Object, Error> {
    let object = compiled::Object::of_boost(SOURCE)?;
    let function = |name: &CStr| object.function(name);
    // SAFETY: boost.cpp defines them with these types.
    unsafe {
        let size = mem::transmute::<*mut c_void, unsafe extern "C" fn() -> usize>(function(
            c"outlive_bench_size",
        )?);
        if size() > ROOM {
            return Err(Error::Refused(format!(
                "Boost's mutex takes {} bytes; {ROOM} are kept for it",
                size()
            )));
        }
        let on_mutex =
            |name| function(name).map(|found| mem::transmute::<*mut c_void, OnMutex>(found));
        Ok(Object {
            make: on_mutex(c"outlive_bench_make")?,
            lock: [on_mutex(c"outlive_bench_lock_sharable")?, on_mutex(c"outlive_bench_lock")?],
            unlock: [
                on_mutex(c"outlive_bench_unlock_sharable")?,
                on_mutex(c"outlive_bench_unlock")?,
            ],
        })
    }
}

/// The rows: the one that holds it alone, and the one that shares it.
pub(super) struct Boost<const EXCLUSIVE: bool>;

/// A process's view.
pub(super) struct View<'place, const EXCLUSIVE: bool> {
    guarded: &'place Guarded,
    lock: OnMutex,
    unlock: OnMutex,
}

impl<const EXCLUSIVE: bool> Lock for Boost<EXCLUSIVE> {
    const NAME: &'static str = if EXCLUSIVE { "boost_exclusive" } else { "boost_sharable" };
    const SHARED: bool = !EXCLUSIVE;
    type Place = Shared<Guarded>;
    type Handle<'place> = View<'place, EXCLUSIVE>;

    fn place(_: &Stage, _: &'static str) -> Result<Shared<Guarded>, Error> {
        let object = Object::get().map_err(|why| Error::Refused(why.to_owned()))?;
        let guarded = Shared::<Guarded>::new()?;
        // SAFETY: room enough, asked for in `build`; no other process has it yet.
        unsafe {
            (object.make)(guarded.mutex.get().cast());
            if !EXCLUSIVE {
                guarded.number.set_for_readers();
            }
        }
        Ok(guarded)
    }

    fn open(place: &Shared<Guarded>) -> Result<View<'_, EXCLUSIVE>, Error> {
        let object = Object::get().map_err(|why| Error::Refused(why.to_owned()))?;
        let which = usize::from(EXCLUSIVE);
        Ok(View { guarded: place, lock: object.lock[which], unlock: object.unlock[which] })
    }

    fn refuses() -> Option<String> {
        Object::get().err().map(str::to_owned)
    }
}

impl<const EXCLUSIVE: bool> Handle for View<'_, EXCLUSIVE> {
    type Held<'handle>
        = Locked<'handle, EXCLUSIVE>
    where
        Self: 'handle;

    #[inline]
    fn acquire(&self) -> Result<Locked<'_, EXCLUSIVE>, Error> {
        // SAFETY: a mutex made in `place`. What it might throw ends the process, which is told.
        unsafe { (self.lock)(self.guarded.mutex.get().cast()) };
        Ok(Locked(self))
    }
}

/// The mutex, held.
pub(super) struct Locked<'handle, const EXCLUSIVE: bool>(&'handle View<'handle, EXCLUSIVE>);

impl<const EXCLUSIVE: bool> Held for Locked<'_, EXCLUSIVE> {
    #[inline]
    fn touch(&mut self) -> u64 {
        // SAFETY: this process holds the mutex, alone if it is the exclusive row.
        unsafe {
            if EXCLUSIVE { self.0.guarded.number.raise() } else { self.0.guarded.number.read() }
        }
    }

    #[inline]
    fn release(self) -> Result<(), Error> {
        // SAFETY: made in `place`; this process holds it.
        unsafe { (self.0.unlock)(self.0.guarded.mutex.get().cast()) };
        Ok(())
    }
}
