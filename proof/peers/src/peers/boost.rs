//! Boost.Interprocess: its message_queue as a topic with one subscriber, and its sharable mutex,
//! which `death` kills the holder of. `boost.cpp` is compiled when the first row is asked for.

use super::{Publish, Shape, Subscribe, Topic, Wait};
use outlive_bench::Error;
use outlive_bench::harness::compiled::Object;
use outlive_bench::harness::round::Stage;
use outlive_bench::harness::shared::{Shared, ZeroShared};
use std::cell::UnsafeCell;
use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{hint, mem, process, ptr};

type OnObject = unsafe extern "C" fn(*mut c_void);
type Make = unsafe extern "C" fn(*const c_char, usize, usize) -> c_int;
type Remove = unsafe extern "C" fn(*const c_char);
type Open = unsafe extern "C" fn(*const c_char) -> *mut c_void;
type Send = unsafe extern "C" fn(*mut c_void, *const c_void, usize, c_int) -> c_int;
type Receive = unsafe extern "C" fn(*mut c_void, *mut c_void, usize, *mut usize, c_int) -> c_int;

/// The object's functions.
struct Functions {
    make: Make,
    remove: Remove,
    open: Open,
    close: OnObject,
    send: Send,
    receive: Receive,
    make_mutex: OnObject,
    lock: OnObject,
}

/// Compiles and loads the functions once.
fn functions() -> Result<&'static Functions, String> {
    static FUNCTIONS: OnceLock<Result<Functions, String>> = OnceLock::new();
    FUNCTIONS
        .get_or_init(|| load().map_err(|error| error.to_string()))
        .as_ref()
        .map_err(Clone::clone)
}

fn load() -> Result<Functions, Error> {
    let object = Object::of_boost(include_str!("boost.cpp"))?;
    // SAFETY: boost.cpp defines each with the type of its field.
    unsafe {
        let size: unsafe extern "C" fn() -> usize =
            mem::transmute::<*mut c_void, _>(object.function(c"outlive_mutex_size")?);
        if size() > ROOM {
            return Err(Error::Refused(format!(
                "Boost's mutex takes {} bytes; {ROOM} are kept for it",
                size()
            )));
        }
        Ok(Functions {
            make: mem::transmute::<*mut c_void, Make>(object.function(c"outlive_mq_make")?),
            remove: mem::transmute::<*mut c_void, Remove>(object.function(c"outlive_mq_remove")?),
            open: mem::transmute::<*mut c_void, Open>(object.function(c"outlive_mq_open")?),
            close: mem::transmute::<*mut c_void, OnObject>(object.function(c"outlive_mq_close")?),
            send: mem::transmute::<*mut c_void, Send>(object.function(c"outlive_mq_send")?),
            receive: mem::transmute::<*mut c_void, Receive>(
                object.function(c"outlive_mq_receive")?,
            ),
            make_mutex: mem::transmute::<*mut c_void, OnObject>(
                object.function(c"outlive_mutex_make")?,
            ),
            lock: mem::transmute::<*mut c_void, OnObject>(object.function(c"outlive_mutex_lock")?),
        })
    }
}

/// The row.
pub(crate) struct BoostQueue;

/// The queue's name; the queue goes with it.
pub(crate) struct Place {
    name: CString,
    shape: Shape,
    functions: &'static Functions,
}

impl Drop for Place {
    fn drop(&mut self) {
        // SAFETY: a string with its NUL.
        unsafe { (self.functions.remove)(self.name.as_ptr()) };
    }
}

/// Either end, with a message's room.
pub(crate) struct End {
    queue: *mut c_void,
    message: Vec<u8>,
    /// Nonzero where the calls block.
    wait: c_int,
    functions: &'static Functions,
}

impl End {
    fn open(place: &Place) -> Result<Self, Error> {
        // SAFETY: a string with its NUL.
        let queue = unsafe { (place.functions.open)(place.name.as_ptr()) };
        if queue.is_null() {
            return Err(Error::Child("Boost's message_queue could not be opened".into()));
        }
        let wait = c_int::from(place.shape.wait == Wait::Block);
        Ok(Self { queue, message: vec![0; place.shape.bytes], wait, functions: place.functions })
    }

    /// Repeats a step until it is done, if it does not block.
    #[inline]
    fn until_done(mut step: impl FnMut() -> c_int) -> Result<(), Error> {
        loop {
            match step() {
                0 => hint::spin_loop(),
                1 => return Ok(()),
                _ => return Err(Error::Child("Boost's message_queue failed".into())),
            }
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // SAFETY: our own, and used no more.
        unsafe { (self.functions.close)(self.queue) };
    }
}

impl Topic for BoostQueue {
    const NAME: &'static str = "boost_mq";
    type Place = Place;
    type Publisher = End;
    type Subscriber = End;

    fn refuses(shape: &Shape) -> Option<String> {
        if shape.subscribers > 1 {
            return Some("a queue: each message goes to one receiver".into());
        }
        functions().err()
    }

    fn place(_: &Stage, name: &str, shape: Shape) -> Result<Place, Error> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let functions = functions().map_err(Error::Refused)?;
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = CString::new(format!("outlive-bench-{}-{number}-{name}", process::id()))
            .unwrap_or_default();
        // SAFETY: a string with its NUL.
        if unsafe { (functions.make)(name.as_ptr(), shape.buffer, shape.bytes) } != 0 {
            return Err(Error::Child("Boost's message_queue could not be made".into()));
        }
        Ok(Place { name, shape, functions })
    }

    fn publisher(place: &Place) -> Result<End, Error> {
        End::open(place)
    }

    fn subscriber(place: &Place) -> Result<End, Error> {
        End::open(place)
    }
}

impl Publish for End {
    #[inline]
    fn publish(&mut self, bytes: usize, write: impl FnOnce(&mut [u8])) -> Result<(), Error> {
        write(&mut self.message[..bytes]);
        // SAFETY: our own end, and a message of that many bytes.
        Self::until_done(|| unsafe {
            (self.functions.send)(self.queue, self.message.as_ptr().cast(), bytes, self.wait)
        })
    }
}

impl Subscribe for End {
    #[inline]
    fn receive<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Result<R, Error> {
        let mut bytes = 0;
        let room = self.message.len();
        // SAFETY: our own end, and room for as many bytes as a message of this queue has.
        Self::until_done(|| unsafe {
            (self.functions.receive)(
                self.queue,
                self.message.as_mut_ptr().cast(),
                room,
                &mut bytes,
                self.wait,
            )
        })?;
        Ok(read(&self.message[..bytes]))
    }
}

/// Room for the mutex.
const ROOM: usize = 512;

#[repr(C, align(128))]
struct Words(UnsafeCell<[u64; ROOM / 8]>);

// SAFETY: the mutex is made for use between processes.
unsafe impl Sync for Words {}
// SAFETY: zero is valid, no pointers.
unsafe impl ZeroShared for Words {}

/// Boost's sharable mutex, in memory that this program's children share.
pub(crate) struct Mutex {
    words: Shared<Words>,
    functions: &'static Functions,
}

impl Mutex {
    /// Makes it, free.
    pub fn new() -> Result<Self, Error> {
        let functions = functions().map_err(Error::Refused)?;
        let words = Shared::<Words>::new()?;
        // SAFETY: room enough, asked for in `load`; no other process has it yet.
        unsafe { (functions.make_mutex)(ptr::from_ref(&*words).cast_mut().cast()) };
        Ok(Self { words, functions })
    }

    /// Locks it alone, waiting for as long as it takes.
    pub fn lock(&self) {
        // SAFETY: made in `new`.
        unsafe { (self.functions.lock)(self.words.0.get().cast()) };
    }
}
